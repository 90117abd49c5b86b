//! A coordinator and its workers as processes of their own: whoever comes and goes, the root is that of a build by one process.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::thread::sleep;
use std::time::{Duration, Instant};
use strata_tests::cluster::{Cluster, ends_well};
use strata_tests::place::Mount;
use strata_tests::{Running, fixture, run, start, strata, text};

/// Two seconds of work for one thread, in 19 tasks.
const TABLE: &str = "bearoff-8x15";

/// Longer than any worker takes to leave.
const GRACE: Duration = Duration::from_secs(60);

#[test]
fn one_two_or_three_workers_in_any_order_of_arrival_make_the_same_table() {
    let root = fixture(TABLE).root().to_owned();
    for (before, after) in [(1, 0), (0, 2), (1, 2)] {
        let cluster = Cluster::default();
        let mut workers: Vec<Running> = (0..before).map(|n| cluster.worker(&format!("early-{n}"))).collect();
        let coordinator = cluster.coordinator(&["--idle-exit"]);
        cluster.submit(TABLE);
        sleep(Duration::from_millis(200));
        workers.extend((0..after).map(|n| cluster.worker(&format!("late-{n}"))));
        let _ = coordinator.wait().ok().says("all jobs are over");
        for worker in workers {
            // Everybody hears that there is nothing left, and leaves.
            let _ = worker.wait_at_most(GRACE).ok().says("there is nothing left to do");
        }
        assert!(!cluster.address_file().exists(), "the address of a coordinator that is gone");
        let info = run(["info", text(&cluster.table(TABLE)), "--json"]).ok().json();
        assert_eq!(info["root"], root, "{before} and {after} workers");
    }
}

#[test]
fn a_worker_that_is_told_to_stop_hands_its_task_back_at_once() {
    let root = fixture(TABLE).root().to_owned();
    // Without that nothing would go on for an hour, which is longer than anything here is waited for.
    let cluster = Cluster::new("3600s");
    let coordinator = cluster.coordinator(&[]);
    let worker = cluster.worker("first");
    cluster.submit(TABLE);
    cluster.wait_for(TABLE, |job| job["tasks_running"] == 1);
    let _ = ends_well(worker).says("handing the task back");
    cluster.wait_for(TABLE, |job| job["tasks_running"] == 0);
    assert_eq!(cluster.status()["workers"].as_array().map(Vec::len), Some(0), "it has left");
    let second = cluster.worker("second");
    cluster.assert_complete(TABLE, &root);
    let _ = ends_well(second);
    let _ = ends_well(coordinator);
}

#[test]
fn killed_and_frozen_workers_change_nothing() {
    let root = fixture(TABLE).root().to_owned();
    let cluster = Cluster::new("500ms");
    let coordinator = cluster.coordinator(&[]);
    cluster.submit(TABLE);
    let frozen = cluster.worker("frozen");
    cluster.wait_for(TABLE, |job| job["tasks_running"] == 1);
    frozen.signal("STOP");
    let mut random = StdRng::seed_from_u64(5);
    for n in 0..4 {
        let worker = cluster.worker(&format!("killed-{n}"));
        sleep(Duration::from_millis(random.random_range(100..600)));
        worker.kill();
    }
    // Its lease is long over, and its task somebody else's: what it hands in late is the same, or is refused.
    frozen.signal("CONT");
    let last = cluster.worker("last");
    cluster.assert_complete(TABLE, &root);
    for worker in [frozen, last] {
        let _ = ends_well(worker);
    }
    let _ = ends_well(coordinator);
}

/// Ages from 112 on are cut in two. Workers and the coordinator are killed while the parts are made.
#[test]
fn large_ages_are_cut_among_workers_and_the_table_is_the_same() {
    const WHOLE: &str = "2048-4x3+horizon=118";
    const CUT: &str = "2048-4x3+horizon=118+parts=2";
    let root = fixture(WHOLE).root().to_owned();
    let cluster = Cluster::new("2s");
    let mut coordinator = cluster.coordinator(&[]);
    cluster.submit(CUT);
    let mut workers = ["one", "two"].map(|name| cluster.worker(name));
    let both = |job: &serde_json::Value| job["tasks_running"].as_u64() >= Some(2);
    for layer in [116, 114] {
        cluster.wait_for(CUT, |job| both(job) && job["layer"].as_u64() >= Some(layer));
        let [first, second] = workers;
        first.kill();
        workers = [second, cluster.worker(&format!("after {layer}"))];
    }
    cluster.wait_for(CUT, |job| both(job) && job["pass"] == "backward");
    coordinator.kill();
    coordinator = cluster.coordinator(&[]);
    cluster.assert_complete(CUT, &root);
    for worker in workers {
        let _ = ends_well(worker);
    }
    let _ = ends_well(coordinator);
}

#[test]
fn a_worker_that_hangs_does_not_hold_up_the_others() {
    let root = fixture(TABLE).root().to_owned();
    // Without a second copy of its task nothing would go on for an hour, which is longer than anything here is waited for.
    let cluster = Cluster::new("3600s");
    let coordinator = cluster.coordinator(&[]);
    cluster.submit(TABLE);
    let hangs = cluster.worker("hangs");
    cluster.wait_for(TABLE, |job| job["tasks_done"].as_u64() > Some(0) && job["tasks_running"] == 1);
    hangs.signal("STOP");
    let other = cluster.worker("other");
    cluster.assert_complete(TABLE, &root);
    hangs.signal("CONT");
    for worker in [hangs, other] {
        let _ = ends_well(worker);
    }
    let _ = ends_well(coordinator);
}

#[test]
fn a_worker_of_another_directory_does_not_stop_the_others() {
    let root = fixture(TABLE).root().to_owned();
    let mut cluster = Cluster::default();
    let elsewhere = cluster.home().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("it can be made");
    let coordinator = cluster.coordinator(&[]);
    cluster.options = vec!["--store".into(), text(&elsewhere).to_owned()];
    let bad = cluster.worker("bad");
    cluster.options.clear();
    cluster.submit(TABLE);
    // Alone it fails until the job rests, and says so.
    let paused = cluster.wait_for(TABLE, |job| job["state"] == "paused");
    assert!(paused["message"].as_str().is_some_and(|text| text.contains("failed 3 times, the last time on bad")), "{paused}");
    let good = cluster.worker("good");
    let _ = cluster.ask(&["resume", TABLE]).ok();
    cluster.assert_complete(TABLE, &root);
    let _ = ends_well(bad).says("failed");
    let _ = ends_well(good);
    let _ = ends_well(coordinator);
}

/// Kills the coordinator so many times, at random moments of a build, and starts it again each time.
fn coordinator_is_killed(table: &str, times: usize, seed: u64, longest_ms: u64) {
    let root = fixture(table).root().to_owned();
    let cluster = Cluster::new("1s");
    let mut coordinator = cluster.coordinator(&[]);
    cluster.submit(table);
    let workers = ["one", "two"].map(|name| cluster.worker(name));
    let mut random = StdRng::seed_from_u64(seed);
    let mut kills = 0;
    for _ in 0..times {
        sleep(Duration::from_millis(random.random_range(20..longest_ms)));
        kills += usize::from(coordinator.kill());
        // Nobody submits it again: the store remembers.
        coordinator = cluster.coordinator(&[]);
    }
    assert_eq!(kills, times);
    if !cluster.table(table).join("table.json").exists() {
        cluster.wait_for(table, |job| job["state"] == "complete");
    }
    let info = run(["info", text(&cluster.table(table)), "--json"]).ok().json();
    assert_eq!(info["root"], root);
    let _ = run(["verify", text(&cluster.table(table)), "--level", "hash"]).ok();
    for worker in workers {
        let _ = ends_well(worker);
    }
    let _ = ends_well(coordinator);
}

#[test]
fn a_coordinator_that_is_killed_goes_on_and_its_workers_find_it_again() {
    coordinator_is_killed(TABLE, 5, 7, 400);
}

#[test]
#[ignore = "takes minutes: run with --ignored"]
fn a_coordinator_that_is_killed_twenty_times_in_a_build_changes_nothing() {
    coordinator_is_killed("2048-3x3", 20, 20, 900);
}

#[test]
fn builds_rest_while_the_disk_is_nearly_full_and_go_on_by_themselves() {
    let root = fixture(TABLE).root().to_owned();
    let Some(disk) = Mount::tmpfs("size=256m") else { return };
    let mut cluster = Cluster::default();
    cluster.store = disk.path().join("store");
    cluster.coordinator_options.extend(["--low-water".into(), "100MiB".into()]);
    let ballast = disk.path().join("ballast");
    std::fs::write(&ballast, vec![1; 170 << 20]).expect("there is room for it");
    let coordinator = cluster.coordinator(&[]);
    cluster.submit(TABLE);
    let paused = cluster.wait_for(TABLE, |job| job["state"] == "paused");
    assert!(paused["message"].as_str().is_some_and(|text| text.contains("low-water mark of 100 MiB")), "{paused}");
    let worker = cluster.worker("worker");
    sleep(Duration::from_secs(2));
    assert_eq!(cluster.job(TABLE)["tasks_done"], 0);
    std::fs::remove_file(&ballast).expect("it is there");
    cluster.assert_complete(TABLE, &root);
    let _ = ends_well(worker);
    let _ = ends_well(coordinator);
}

#[test]
fn one_coordinator_leads_a_store_and_the_other_says_which() {
    let cluster = Cluster::default();
    let leader = cluster.coordinator(&[]);
    let second = run(["coordinator", "--store", text(&cluster.store), "--listen", "127.0.0.1:0"]).code(1).one_clear_error();
    let who = format!("led by process {}", leader.pid());
    let _ = second.says(&who).says("listening on 127.0.0.1:");
    let _ = ends_well(leader);
    let _ = ends_well(cluster.coordinator(&[]));
}

#[test]
fn what_was_asked_of_a_job_outlives_its_coordinator() {
    let root = fixture(TABLE).root().to_owned();
    let cluster = Cluster::default();
    let coordinator = cluster.coordinator(&[]);
    let worker = cluster.worker("worker");
    for (name, priority) in [(TABLE, "7"), ("bearoff-4x15", "-1")] {
        let _ = cluster.ask(&["submit", name, "--priority", priority]).ok();
        let paused = cluster.ask(&["pause", name, "--json"]).ok().json();
        assert!(["paused", "checking"].contains(&paused["state"].as_str().expect("a state")), "{paused}");
    }
    let _ = cluster.ask(&["cancel", "bearoff-4x15"]).ok();
    coordinator.kill();
    let coordinator = cluster.coordinator(&[]);
    let paused = cluster.wait_for(TABLE, |job| job["state"] == "paused");
    assert_eq!((&paused["priority"], &paused["tasks_running"]), (&7.into(), &0.into()), "{paused}");
    assert!(paused["message"].as_str().is_some_and(|text| text.contains("resume")), "{paused}");
    assert_eq!(cluster.status()["jobs"].as_array().map(Vec::len), Some(1), "the one that was cancelled rests");
    let _ = cluster.ask(&["resume", "bearoff-4x15"]).code(1).one_clear_error().says("submit it first");
    let _ = cluster.ask(&["resume", TABLE]).ok();
    cluster.assert_complete(TABLE, &root);
    // Submitted again, the cancelled one goes on from what is there.
    cluster.submit("bearoff-4x15");
    cluster.assert_complete("bearoff-4x15", fixture("bearoff-4x15").root());
    let _ = ends_well(worker);
    let _ = ends_well(coordinator);
}

#[test]
fn a_drained_worker_finishes_and_leaves() {
    let cluster = Cluster::default();
    let coordinator = cluster.coordinator(&[]);
    let (drained, stays) = (cluster.worker("drained"), cluster.worker("stays"));
    cluster.submit(TABLE);
    cluster.wait_for(TABLE, |job| job["tasks_done"].as_u64() > Some(0));
    let _ = cluster.ask(&["drain", "nobody"]).code(1).one_clear_error().says("no worker nobody");
    let said = cluster.ask(&["drain", "drained"]).ok();
    assert!(said.out.contains("drained"), "{said:#?}");
    let _ = drained.wait_at_most(GRACE).ok().says("nothing left to do");
    cluster.assert_complete(TABLE, fixture(TABLE).root());
    let _ = ends_well(stays);
    let _ = ends_well(coordinator);
}

#[test]
fn certificates_open_what_they_are_for_and_nothing_else() {
    let mut cluster = Cluster::default();
    let folder = |role: &str| cluster.home().join(role);
    let _ = run(["certs", "ca", "--out", text(&folder("ca"))]).ok();
    let _ = run(["certs", "ca", "--out", text(&folder("ca"))]).code(1).one_clear_error().says("nothing is written over");
    let _ = run(["certs", "ca", "--out", text(&folder("other-ca"))]).ok();
    for (role, ca, name) in [
        ("coordinator", "ca", "coordinator"),
        ("worker", "ca", "worker"),
        ("client", "ca", "client"),
        ("client", "other-ca", "stranger"),
    ] {
        let _ = run(["certs", role, "--ca", text(&folder(ca)), "--out", text(&folder(name))]).ok();
        for file in std::fs::read_dir(folder(name)).expect("the folder") {
            let mode =
                std::os::unix::fs::PermissionsExt::mode(&file.expect("a file").metadata().expect("metadata").permissions());
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }
    let [client, worker, stranger] = ["client", "worker", "stranger"].map(|name| text(&folder(name)).to_owned());
    cluster.coordinator_options.extend(["--tls".into(), text(&folder("coordinator")).to_owned()]);
    let coordinator = cluster.coordinator(&[]);
    let _ = cluster.ask(&["jobs"]).code(1).one_clear_error().says("--tls");
    let _ = cluster.ask(&["jobs", "--tls", &stranger]).code(1).one_clear_error();
    let _ = cluster.ask(&["submit", TABLE, "--tls", &worker]).code(1).one_clear_error().says("the role worker");
    let _ = cluster.ask(&["drain", "x", "--tls", &worker]).code(1).one_clear_error().says("the role worker");
    // 78: starting it again is no use.
    cluster.options = vec!["--tls".into(), client.clone()];
    let _ = cluster.worker("a client").wait_at_most(GRACE).code(78).says("the role client");
    cluster.submit("bearoff-4x15");
    cluster.options = vec!["--tls".into(), worker];
    let working = cluster.worker("a worker");
    cluster.options = vec!["--tls".into(), client];
    cluster.assert_complete("bearoff-4x15", fixture("bearoff-4x15").root());
    let _ = ends_well(working);
    let _ = ends_well(coordinator);
}

#[test]
fn other_machines_are_talked_to_with_tls_or_when_told_to_do_without() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let store = home.path().join("store");
    let _ = run(["coordinator", "--store", text(&store), "--listen", "0.0.0.0:0"]).code(2).one_clear_error().says("--insecure");
    assert!(!store.join("coordinator.lock").exists());
    for verb in [&["worker"][..], &["jobs"], &["submit", TABLE]] {
        let _ = run([verb, &["--coordinator", "192.0.2.1:7240"]].concat()).code(2).one_clear_error().says("--insecure");
    }
    let _ = run(["jobs", "--coordinator", "127.0.0.1:1"]).code(1).one_clear_error().says("does not answer");
    for nonsense in ["nonsense", "a:b", ":7240", "http://127.0.0.1:7240"] {
        let _ = run(["jobs", "--coordinator", nonsense]).code(2).one_clear_error().says("no address");
    }
    let _ = run(["worker", "--store", "/nowhere"]).code(2).one_clear_error().says("no directory");
    let _ = run(["coordinator", "--store", "ftp://x/y"]).code(2).one_clear_error().says("s3://, gs:// or az://");
    let allowed = start(strata(["coordinator", "--store", text(&store), "--listen", "0.0.0.0:0", "--insecure"]));
    sleep(Duration::from_millis(500));
    let _ = ends_well(allowed).says("listening on 0.0.0.0:");
}

#[test]
fn a_local_launch_can_be_stopped_loses_members_and_goes_on() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let store = home.path().join("store");
    let command = || strata(["launch", "local", "--store", text(&store), "--table", TABLE, "--table", "bearoff-4x15", "--json"]);
    let first = start(command());
    let begun = Instant::now();
    while !store.join(TABLE).join("build/commits").exists() && begun.elapsed() < GRACE {
        sleep(Duration::from_millis(5));
    }
    first.signal("TERM");
    let _ = first.wait_at_most(2 * GRACE).code(143).says("the same command again");
    // Its members do not outlive one that is killed: the next one can lead the store.
    let second = start(command());
    sleep(Duration::from_millis(300));
    second.kill();
    sleep(Duration::from_secs(1));
    let leads = start(strata(["coordinator", "--store", text(&store), "--listen", "127.0.0.1:0"]));
    sleep(Duration::from_millis(300));
    let refused = start(command()).wait_at_most(2 * GRACE).code(1);
    assert!(refused.err.contains("cannot go on") && refused.err.contains("led by process"), "{refused:#?}");
    let _ = ends_well(leads);
    let jobs: serde_json::Value = serde_json::from_str(&start(command()).wait().ok().out).expect("JSON");
    for (job, name) in [(0, TABLE), (1, "bearoff-4x15")] {
        assert_eq!((&jobs[job]["table"], &jobs[job]["root"]), (&name.into(), &fixture(name).root().into()), "{jobs}");
    }
}
