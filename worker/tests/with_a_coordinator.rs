//! Whole builds: a real coordinator, real workers, real files, the transport of an embedded build.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use strata_coordinator::{Coordinator, CoordinatorConfig};
use strata_proto::v1::jobs_client::JobsClient;
use strata_proto::v1::{JobState, JobStatus, SubmitRequest, WatchRequest};
use strata_storage::{Digest, Table};
use strata_worker::bellman::verify_bellman;
use strata_worker::{Locate, Tables, WorkerConfig, run_worker};
use tokio::sync::watch;
use tokio::task::JoinSet;

const BUILD: &str = "strata of the tests";

fn locate(root: &Path) -> Locate {
    let root = root.to_owned();
    Arc::new(move |name| root.join(name.to_string()).into())
}

/// Watches a job until something is true of it.
async fn watch_until(
    jobs: &mut JobsClient<tonic::transport::Channel>,
    table: &str,
    what: impl Fn(&JobStatus) -> bool,
) -> JobStatus {
    let watching = async {
        let mut updates = jobs.watch(WatchRequest { table: table.into(), interval_ms: 5 }).await.unwrap().into_inner();
        while let Some(status) = updates.message().await.unwrap() {
            assert!(!matches!(status.state(), JobState::Failed | JobState::Paused), "{status:?}");
            if what(&status) {
                return status;
            }
        }
        panic!("the job ended first");
    };
    tokio::time::timeout(Duration::from_secs(120), watching).await.expect("the job takes too long")
}

/// Builds a table with so many workers, and gives its last status.
async fn build(table: &str, root: &Path, workers: usize, threads: usize) -> JobStatus {
    let coordinator = Coordinator::start(CoordinatorConfig::new(BUILD, locate(root)));
    let service = coordinator.serve_in_process();
    let mut jobs = JobsClient::new(service.channel());
    jobs.submit(SubmitRequest { table: table.into(), priority: 0 }).await.unwrap();
    let (say, stop) = watch::channel(false);
    let mut running = JoinSet::new();
    for i in 0..workers {
        let config = WorkerConfig::new(format!("worker {i}"), BUILD, 1 << 30, threads, Tables::At(locate(root), None));
        running.spawn(run_worker(service.channel(), config, stop.clone()));
    }
    let status = watch_until(&mut jobs, table, |status| status.state() == JobState::Complete).await;
    say.send(true).unwrap();
    while let Some(ended) = running.join_next().await {
        ended.unwrap().unwrap();
    }
    coordinator.shutdown().await;
    status
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_has_one_root_whatever_the_workers_and_threads() {
    for table in ["bearoff-2x3", "2048-2x3"] {
        let mut roots = Vec::new();
        for (workers, threads) in [(1, 1), (2, 2), (3, 1)] {
            let dir = tempfile::tempdir().unwrap();
            let status = build(table, dir.path(), workers, threads).await;
            let root = dir.path().join(table);
            let opened = Table::open(&root).unwrap();
            assert_eq!(Digest::try_from(status.root.as_slice()).unwrap(), opened.manifest().root);
            roots.push(opened.manifest().root);
            assert!(!root.join("build").exists());
            let space = strata_games::open(&table.parse().unwrap()).unwrap();
            let report = verify_bellman(&*space, &opened, 1.0, 0, &|_| true).unwrap();
            assert_eq!(report.problems, []);
            assert_eq!(report.keys, opened.manifest().keys);
        }
        assert!(roots.iter().all(|root| *root == roots[0]), "{table}: {roots:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_that_come_and_go_leave_no_trace_in_the_table() {
    let undisturbed = tempfile::tempdir().unwrap();
    let expected = build("2048-2x3", undisturbed.path(), 1, 2).await.root;

    let dir = tempfile::tempdir().unwrap();
    let coordinator = Coordinator::start(CoordinatorConfig {
        lease: Duration::from_millis(300),
        ..CoordinatorConfig::new(BUILD, locate(dir.path()))
    });
    let service = coordinator.serve_in_process();
    let mut jobs = JobsClient::new(service.channel());
    jobs.submit(SubmitRequest { table: "2048-2x3".into(), priority: 0 }).await.unwrap();
    let spawn = |name: &str, stop: watch::Receiver<bool>| {
        tokio::spawn(run_worker(
            service.channel(),
            WorkerConfig::new(name, BUILD, 1 << 30, 1, Tables::At(locate(dir.path()), None)),
            stop,
        ))
    };
    // Some are told to leave, some vanish, at whatever moment it happens to be.
    for round in 0..6u64 {
        let (say, stop) = watch::channel(false);
        let worker = spawn("one that leaves", stop);
        tokio::time::sleep(Duration::from_millis(20 + 7 * round)).await;
        if round % 2 == 0 {
            say.send(true).unwrap();
            worker.await.unwrap().unwrap();
        } else {
            worker.abort();
        }
    }
    let (say, stop) = watch::channel(false);
    let last = spawn("one that stays", stop);
    let status = watch_until(&mut jobs, "2048-2x3", |status| status.state() == JobState::Complete).await;
    say.send(true).unwrap();
    last.await.unwrap().unwrap();
    coordinator.shutdown().await;
    assert_eq!(status.root, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_damaged_during_the_build_is_made_again() {
    let undisturbed = tempfile::tempdir().unwrap();
    let expected = build("2048-2x3", undisturbed.path(), 1, 1).await.root;

    let dir = tempfile::tempdir().unwrap();
    let coordinator = Coordinator::start(CoordinatorConfig::new(BUILD, locate(dir.path())));
    let service = coordinator.serve_in_process();
    let mut jobs = JobsClient::new(service.channel());
    jobs.submit(SubmitRequest { table: "2048-2x3".into(), priority: 0 }).await.unwrap();
    let (say, stop) = watch::channel(false);
    let config = WorkerConfig::new("a worker", BUILD, 1 << 30, 1, Tables::At(locate(dir.path()), None));
    let mut worker = tokio::spawn(run_worker(service.channel(), config.clone(), stop));
    watch_until(&mut jobs, "2048-2x3", |status| status.tasks_done >= 1).await;
    say.send(true).unwrap();
    (&mut worker).await.unwrap().unwrap();
    // Nobody works now: one bit of every file that later tasks will read goes.
    let mut damaged = 0;
    for folder in ["index", "work"] {
        let folder = dir.path().join("2048-2x3/build").join(folder);
        for layer in std::fs::read_dir(folder).into_iter().flatten() {
            for file in std::fs::read_dir(layer.unwrap().path()).unwrap() {
                let path = file.unwrap().path();
                let mut bytes = std::fs::read(&path).unwrap();
                let middle = bytes.len() / 2;
                bytes[middle] ^= 4;
                std::fs::write(&path, bytes).unwrap();
                damaged += 1;
            }
        }
    }
    let (say, stop) = watch::channel(false);
    worker = tokio::spawn(run_worker(service.channel(), config, stop));
    let status = watch_until(&mut jobs, "2048-2x3", |status| status.state() == JobState::Complete).await;
    say.send(true).unwrap();
    worker.await.unwrap().unwrap();
    coordinator.shutdown().await;
    assert_eq!(status.root, expected, "{damaged} files were damaged");
}
