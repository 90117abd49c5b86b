//! Networks that lose, delay and drop what is sent: the build goes on with whoever is left, and with everybody after healing.

use std::thread::sleep;
use std::time::{Duration, Instant};
use strata_tests::cluster::{Cluster, ends_well};
use strata_tests::fixture;
use strata_tests::hosts::Hosts;

/// Some seconds of work in some tens of tasks.
const TABLE: &str = "bearoff-9x15";

/// Longer than the lease, and than any keepalive.
const OUTAGE: Duration = Duration::from_secs(6);

/// One build through all of it, one fault after the other.
#[test]
fn a_build_survives_silent_and_loud_partitions_loss_and_a_slow_line() {
    let root = fixture(TABLE).root().to_owned();
    type Fault = (&'static str, fn(&Hosts));
    let faults: [Fault; 5] = [
        ("what a worker says is lost", |hosts| hosts.cut(1, false)),
        ("a worker is cut off without a word", |hosts| hosts.cut(1, true)),
        ("the plug of a worker is pulled", |hosts| hosts.link(1, false)),
        ("one packet in ten of both workers is lost", |hosts| (1..=2).for_each(|host| hosts.lose_a_tenth(host))),
        ("the line of a worker is slow", |hosts| hosts.slow(1)),
    ];
    for (what, fault) in faults {
        let Some(cluster) = Cluster::of_hosts("1s", 2) else { return };
        let hosts = cluster.hosts.as_ref().expect("there are hosts");
        let coordinator = cluster.coordinator(&[]);
        cluster.submit(TABLE);
        let workers = [cluster.worker_on(1, "one"), cluster.worker_on(2, "two")];
        cluster.wait_for(TABLE, |job| job["tasks_done"].as_u64() > Some(1));
        fault(hosts);
        let (begun, before) = (Instant::now(), cluster.job(TABLE)["tasks_done"].as_u64());
        sleep(OUTAGE / 3);
        // The other worker, and the one that is only slow, go on.
        cluster.wait_for(TABLE, |job| job["tasks_done"].as_u64() > before || job["state"] == "complete");
        sleep((OUTAGE - OUTAGE / 3).saturating_sub(begun.elapsed()));
        (1..=2).for_each(|host| hosts.heal(host));
        hosts.link(1, true);
        eprintln!("{what}: {}", cluster.job(TABLE)["tasks_done"]);
        cluster.assert_complete(TABLE, &root);
        for worker in workers {
            let _ = ends_well(worker);
        }
        let _ = ends_well(coordinator);
    }
}

/// A worker that cannot be heard keeps its lease from nobody, and is heard again.
#[test]
fn a_worker_that_was_cut_off_works_again_after_healing() {
    let Some(cluster) = Cluster::of_hosts("1s", 1) else { return };
    let hosts = cluster.hosts.as_ref().expect("there are hosts");
    let coordinator = cluster.coordinator(&[]);
    cluster.submit(TABLE);
    let worker = cluster.worker_on(1, "the only one");
    cluster.wait_for(TABLE, |job| job["tasks_done"].as_u64() > Some(1));
    hosts.cut(1, true);
    let noticed = cluster.wait_for(TABLE, |job| job["tasks_running"] == 0);
    assert!(noticed["failures"][0].as_str().is_some_and(|note| note.contains("no sign of life")), "{noticed}");
    hosts.heal(1);
    cluster.assert_complete(TABLE, fixture(TABLE).root());
    let _ = ends_well(worker);
    let _ = ends_well(coordinator);
}
