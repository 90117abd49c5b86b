//! What workers and clients hear, over the messages that they would send from another machine.

use super::bytes_of;
use super::life::{FakeWorker, Life, TABLE, TASKS};
use crate::record::artifact_of;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use strata_proto::PROTOCOL;
use strata_proto::v1::complete_reply::Verdict;
use strata_proto::v1::fail_request::Reason;
use strata_proto::v1::work_client::WorkClient;
use strata_proto::v1::*;
use tonic::Code;

fn job() -> JobRequest {
    JobRequest { table: TABLE.into() }
}

/// A life with the table submitted and a worker.
async fn started(root: &Path) -> (Life, FakeWorker) {
    let life = Life::start(root);
    life.submit().await.unwrap();
    let worker = life.worker("anna").await;
    (life, worker)
}

#[tokio::test]
async fn a_worker_of_another_version_is_refused_with_a_sentence() {
    let temp = tempfile::tempdir().unwrap();
    let life = Life::start(temp.path());
    let mut client = WorkClient::new(life.in_process.channel());
    let request = RegisterRequest { protocol: PROTOCOL, build: "another".into(), name: "w".into(), memory_bytes: 1, threads: 1 };
    let status = client.register(request.clone()).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains("build another") && status.message().contains("test build"), "{status}");
    let status = client.register(RegisterRequest { protocol: 99, ..request }).await.unwrap_err();
    assert!(status.message().contains("protocol 99"), "{status}");
    // One that has not registered, for example because the coordinator was started again, hears that it must.
    let status = client.lease(LeaseRequest { worker_id: 7, wait_ms: 0 }).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
}

#[tokio::test]
async fn a_bad_name_and_a_bad_place_are_told_apart() {
    let temp = tempfile::tempdir().unwrap();
    let life = Life::start(temp.path());
    let status = life.submit_table("2048-5x9").await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("5 rows"), "{status}");
    fs::write(temp.path().join("thesis.tex"), "").unwrap();
    let status = life.submit().await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains("thesis.tex"), "{status}");
    let file = temp.path().join("thesis.tex");
    let status = Life::start(&file).submit().await.unwrap_err();
    assert!(status.message().contains("not a directory"), "{status}");
    let status = life.jobs().pause(job()).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
}

#[tokio::test]
async fn a_directory_is_built_in_by_one_coordinator_at_a_time() {
    let temp = tempfile::tempdir().unwrap();
    let (one, _worker) = started(temp.path()).await;
    let two = Life::start(temp.path());
    let status = two.submit().await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(status.message().contains("another build"), "{status}");
    one.coordinator.shutdown().await;
    two.finish().await;
}

#[tokio::test]
async fn a_worker_that_waits_gets_its_task_when_it_becomes_ready() {
    let temp = tempfile::tempdir().unwrap();
    let (life, mut anna) = started(temp.path()).await;
    let first = anna.lease(5000).await.unwrap();
    let second = anna.lease(5000).await.unwrap();
    let mut bert = life.worker("bert").await;
    let waiting = tokio::spawn(async move { bert.lease(30_000).await });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!waiting.is_finished(), "nothing is ready before the stage is stitched");
    anna.run(&first).await.unwrap();
    anna.run(&second).await.unwrap();
    let task = waiting.await.unwrap().unwrap();
    assert_eq!((task.stage, task.part, task.inputs.len()), (1, 0, 2));
    // Nothing to give: the call ends after the time that the worker asked for.
    let start = Instant::now();
    assert!(anna.lease(5000).await.is_some());
    assert!(anna.lease(50).await.is_none());
    assert!(start.elapsed() >= Duration::from_millis(50));
}

#[tokio::test]
async fn a_lease_that_runs_out_is_given_to_another_and_the_late_result_is_welcome_once() {
    let temp = tempfile::tempdir().unwrap();
    let life = Life::with_lease(temp.path(), Duration::from_millis(150));
    life.submit().await.unwrap();
    let (mut anna, mut bert) = (life.worker("anna").await, life.worker("bert").await);
    let (late, other) = (anna.lease(5000).await.unwrap(), anna.lease(5000).await.unwrap());
    // Heartbeats keep the other lease.
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(30)).await;
        assert!(anna.heartbeat(&other).await);
    }
    assert!(!anna.heartbeat(&late).await, "nobody renewed it");
    let again = bert.lease(5000).await.unwrap();
    assert_eq!((again.stage, again.part, again.attempt), (late.stage, late.part, 2));
    assert!(again.token > other.token);
    assert_eq!(anna.run(&late).await.unwrap(), Verdict::Stale, "the token is bert's now");
    assert_eq!(bert.run(&again).await.unwrap(), Verdict::Accepted);
    assert_eq!(anna.run(&late).await.unwrap(), Verdict::AlreadyDone);
    // Even when its files have been removed since, because nobody needs them any more.
    fs::remove_dir_all(temp.path().join("build/index")).unwrap();
    assert_eq!(anna.complete(anna.result(&late)).await.unwrap(), Verdict::AlreadyDone);
    assert_eq!(bert.run(&again).await.unwrap(), Verdict::AlreadyDone);
    let failures = life.status().await.failures;
    assert!(failures[0].contains("anna") && failures[0].contains("task 0.0"), "{failures:?}");
}

#[tokio::test]
async fn what_a_worker_holds_that_leaves_is_ready_at_once() {
    let temp = tempfile::tempdir().unwrap();
    let (life, mut worker) = started(temp.path()).await;
    // As if its answer had been lost: the worker does not know of it.
    let task = worker.lease(5000).await.unwrap();
    worker.leave().await;
    let mut other = life.worker("other").await;
    let again = other.lease(5000).await.unwrap();
    assert_eq!((again.stage, again.part), (task.stage, task.part));
    assert!(!worker.heartbeat(&task).await);
    let status = worker.client.lease(LeaseRequest { worker_id: worker.id, wait_ms: 0 }).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::NotFound);
}

#[tokio::test]
async fn another_result_for_the_same_task_rests_the_job_and_names_both_workers() {
    let temp = tempfile::tempdir().unwrap();
    let (life, mut anna) = started(temp.path()).await;
    let mut bert = life.worker("bert").await;
    let task = anna.lease(5000).await.unwrap();
    anna.run(&task).await.unwrap();
    let mut other = bert.result(&task);
    other.counts[0].terminal += 1;
    assert_eq!(bert.complete(other).await.unwrap(), Verdict::Conflict);
    life.wait_for(JobState::Running).await;
    assert!(bert.lease(50).await.is_none(), "neither of the two can decide");
    let status = life.wait_for(JobState::Paused).await;
    assert_eq!(status.pause_cause(), PauseCause::Worker);
    assert!(status.message.contains("anna and bert") && status.message.contains("task 0.0"), "{}", status.message);
    assert!(!temp.path().join("table.json").exists());
    // After a restart neither of the two is taken for the truth.
    life.coordinator.shutdown().await;
    let again = Life::start(temp.path());
    again.submit().await.unwrap();
    let mut bert = again.worker("bert").await;
    assert!(bert.lease(50).await.is_none());
    assert!(again.wait_for(JobState::Paused).await.message.contains("anna and bert"));
    // A third worker agrees with one of them, and the other one is sent away.
    let (status, ran) = again.finish().await;
    assert_eq!((ran.len() as u64, ran[0].to_string().as_str()), (TASKS, "0.0"));
    assert_eq!(status.tasks_done, TASKS);
    let refused = bert.client.lease(LeaseRequest { worker_id: bert.id, wait_ms: 0 }).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("bert is quarantined, because its result of task 0.0"), "{refused}");
}

#[tokio::test]
async fn results_that_cannot_be_are_refused_and_counted() {
    let temp = tempfile::tempdir().unwrap();
    let (life, mut anna) = started(temp.path()).await;
    type Spoil = fn(&mut CompleteRequest);
    let wrongs: [(&str, Spoil); 8] = [
        ("is missing", |r| r.outputs.truncate(1)),
        ("is not the name of", |r| r.outputs[0].path = "../../home/anna/.profile".into()),
        ("32 bytes", |r| r.outputs[0].blake3.truncate(31)),
        ("10 ranks", |r| r.outputs[0].keys = 11),
        ("what the file holds", |r| r.outputs[0].kind = 9),
        ("not in the plan", |r| r.counts[0].shard = 77),
        ("counted twice", |r| r.counts.push(r.counts[0])),
        ("finite number", |r| r.facts.push(Fact { name: "value".into(), value: f64::NAN })),
    ];
    for (part, spoil) in wrongs {
        let task = anna.lease(5000).await.unwrap();
        anna.write(&task);
        let mut result = anna.result(&task);
        spoil(&mut result);
        let status = anna.complete(result).await.unwrap_err();
        assert!(status.code() == Code::InvalidArgument && status.message().contains(part), "{status}");
        assert!(life.status().await.failures[0].contains(part));
        life.jobs().resume(job()).await.unwrap();
    }
    // Files that are not where the coordinator looks.
    let task = anna.lease(5000).await.unwrap();
    fs::remove_dir_all(temp.path().join("build/index")).unwrap();
    let status = anna.complete(anna.result(&task)).await.unwrap_err();
    assert!(status.message().contains("same store"), "{status}");
    life.jobs().resume(job()).await.unwrap();
    life.finish().await;
}

/// A worker that has run the forward stages of the table, and the first task of the backward pass, of layers 8 and 10.
async fn in_the_backward_pass(root: &Path) -> (Life, FakeWorker, Task) {
    let (life, mut anna) = started(root).await;
    loop {
        let task = anna.lease(5000).await.unwrap();
        anna.write(&task);
        if !anna.result(&task).stats.is_empty() {
            return (life, anna, task);
        }
        anna.complete(anna.result(&task)).await.unwrap();
    }
}

#[tokio::test]
async fn statistics_that_cannot_be_are_refused() {
    type Spoil = fn(&mut LayerStats);
    let wrongs: [(&str, Spoil); 7] = [
        ("are of none in the plan", |s| s.layer = 77),
        ("are of none in the plan", |s| s.shard = 2),
        ("are not finite", |s| s.value_sum = f64::NAN),
        ("are not finite", |s| s.gap_sum = f64::INFINITY),
        ("are not finite", |s| s.gap_most = f64::NAN),
        ("gap below 0", |s| s.gap_most = -0.25),
        ("gap below 0", |s| s.gap_sum = -0.25),
    ];
    let temp = tempfile::tempdir().unwrap();
    let (life, mut anna, task) = in_the_backward_pass(temp.path()).await;
    let mut results = wrongs.map(|(part, spoil)| {
        let mut result = anna.result(&task);
        spoil(&mut result.stats[0]);
        (part, result)
    });
    let twice = ("has statistics twice", {
        let mut result = anna.result(&task);
        result.stats.push(result.stats[1]);
        result
    });
    let mut token = task.token;
    for (part, result) in results.iter_mut().chain([&mut { twice }]) {
        result.token = token;
        let status = anna.complete(result.clone()).await.unwrap_err();
        assert!(status.code() == Code::InvalidArgument && status.message().contains(*part), "{status}");
        life.jobs().resume(job()).await.unwrap();
        token = anna.lease(5000).await.unwrap().token;
    }
    assert!(!temp.path().join("table.json").exists());
}

#[tokio::test]
async fn other_statistics_for_the_same_task_are_another_result() {
    let temp = tempfile::tempdir().unwrap();
    let (life, mut anna, task) = in_the_backward_pass(temp.path()).await;
    assert_eq!(anna.complete(anna.result(&task)).await.unwrap(), Verdict::Accepted);
    let mut other = anna.result(&task);
    other.stats[0].gap_sum += 1e-15;
    assert_eq!(anna.complete(other).await.unwrap(), Verdict::Conflict);
    life.wait_for(JobState::Running).await;
    assert!(anna.lease(50).await.is_none());
    let status = life.wait_for(JobState::Paused).await;
    assert!(status.message.contains(&format!("task {}.{} has different results", task.stage, task.part)), "{}", status.message);
}

#[tokio::test]
async fn a_layer_of_which_one_shard_has_no_statistics_is_not_published() {
    let temp = tempfile::tempdir().unwrap();
    let (life, mut anna, task) = in_the_backward_pass(temp.path()).await;
    let mut result = anna.result(&task);
    result.stats.clear();
    assert_eq!(anna.complete(result).await.unwrap(), Verdict::Accepted);
    while let Some(task) = anna.lease(500).await {
        anna.run(&task).await.unwrap();
    }
    let status = life.wait_for(JobState::Failed).await;
    assert!(status.message.contains("only 1 of the 2 shards of layer 8 have statistics"), "{}", status.message);
    assert!(!temp.path().join("table.json").exists());
}

#[tokio::test]
async fn files_of_one_shard_must_agree_on_its_keys() {
    let temp = tempfile::tempdir().unwrap();
    let (life, mut anna) = started(temp.path()).await;
    for _ in 0..2 {
        let task = anna.lease(5000).await.unwrap();
        anna.write(&task);
        let mut result = anna.result(&task);
        // Theory knows that layer 4 has six keys; three and four are seven.
        result.outputs[0].keys = 3 + u64::from(task.part);
        assert_eq!(anna.complete(result).await.unwrap(), Verdict::Accepted);
    }
    let status = life.wait_for(JobState::Failed).await;
    assert!(status.message.contains("layer 4 has 7 keys, but must have 6"), "{}", status.message);
}

#[tokio::test]
async fn a_damaged_input_is_made_again_while_the_build_runs() {
    let temp = tempfile::tempdir().unwrap();
    let (life, mut anna) = started(temp.path()).await;
    for _ in 0..4 {
        let task = anna.lease(5000).await.unwrap();
        anna.run(&task).await.unwrap();
    }
    let task = anna.lease(5000).await.unwrap();
    let other = anna.lease(5000).await.unwrap();
    let path = temp.path().join(&task.inputs[0].path);
    fs::write(&path, "bytes that have rotted").unwrap();
    anna.fail(&task, Reason::BadInput, "the index has another hash").await;
    // What its producer makes is the same again, so everything else stays.
    let again = anna.lease(5000).await.unwrap();
    assert_eq!((again.stage, again.part), (1, 0));
    assert!(again.token > other.token);
    assert!(!anna.heartbeat(&other).await, "whoever was at work may have read it too");
    anna.run(&again).await.unwrap();
    let (status, ran) = life.finish().await;
    assert_eq!((ran.len() as u64, status.tasks_rejected), (TASKS - 4, 1));
}

#[tokio::test]
async fn a_worker_that_complains_about_sound_files_is_counted_as_failing() {
    let temp = tempfile::tempdir().unwrap();
    let (life, mut anna) = started(temp.path()).await;
    for _ in 0..2 {
        let task = anna.lease(5000).await.unwrap();
        anna.run(&task).await.unwrap();
    }
    for _ in 0..3 {
        let task = anna.lease(5000).await.unwrap();
        anna.fail(&task, Reason::BadInput, "I cannot read it").await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let status = life.wait_for(JobState::Paused).await;
    assert!(status.message.contains("anna") && status.message.contains("I cannot read it"), "{}", status.message);
}

#[tokio::test]
async fn a_full_disk_pauses_the_job_and_resume_goes_on() {
    let temp = tempfile::tempdir().unwrap();
    let (life, mut anna) = started(temp.path()).await;
    let task = anna.lease(5000).await.unwrap();
    anna.fail(&task, Reason::DiskFull, "no space is left on /tables").await;
    let status = life.wait_for(JobState::Paused).await;
    assert_eq!(status.message, "no space is left on /tables");
    assert_eq!(status.pause_cause(), PauseCause::DiskFull);
    assert!(anna.lease(10).await.is_none());
    assert_eq!(life.submit().await.unwrap().state(), JobState::Paused, "submitting it twice changes nothing");
    life.jobs().resume(job()).await.unwrap();
    life.finish().await;
}

#[tokio::test]
async fn pause_cancel_and_submit_again() {
    let temp = tempfile::tempdir().unwrap();
    let (life, mut anna) = started(temp.path()).await;
    let task = anna.lease(5000).await.unwrap();
    anna.run(&task).await.unwrap();
    let task = anna.lease(5000).await.unwrap();
    assert!(anna.heartbeat(&task).await);
    let running = life.status().await;
    assert_eq!((running.tasks, running.tasks_done, running.tasks_running), (TASKS, 1, 1));
    assert_eq!((running.pass.as_str(), running.layer, running.layers), ("forward", 6, 8));
    assert!(running.cost_done > 0 && running.cost_done < running.cost && running.positions > 0 && running.bytes > 0);
    assert_eq!(life.jobs().pause(job()).await.unwrap().into_inner().state(), JobState::Paused);
    assert!(!anna.heartbeat(&task).await, "told to stop");
    assert!(anna.lease(10).await.is_none());
    life.jobs().cancel(job()).await.unwrap();
    life.wait_for(JobState::Cancelled).await;
    assert_eq!(anna.run(&task).await.unwrap(), Verdict::Stale);
    let (status, ran) = life.finish().await;
    assert_eq!((ran.len() as u64, status.tasks_resumed), (TASKS - 1, 1));
}

#[tokio::test]
async fn who_watches_sees_the_job_from_its_start_to_its_end() {
    let temp = tempfile::tempdir().unwrap();
    let life = Life::start(temp.path());
    life.submit().await.unwrap();
    let mut stream = life.jobs().watch(WatchRequest { table: TABLE.into(), interval_ms: 1 }).await.unwrap().into_inner();
    let (done, ..) = life.finish().await;
    let mut seen = Vec::new();
    while let Some(status) = stream.message().await.unwrap() {
        seen.push(status);
    }
    assert_eq!(seen.last().unwrap().root, done.root);
    assert_eq!(seen.last().unwrap().state(), JobState::Complete);
    assert!(seen.windows(2).all(|pair| pair[0].tasks_done <= pair[1].tasks_done), "progress only grows");
    // Watching a complete table gives its state once.
    let mut stream = life.jobs().watch(WatchRequest { table: TABLE.into(), interval_ms: 1 }).await.unwrap().into_inner();
    assert_eq!(stream.message().await.unwrap().unwrap().state(), JobState::Complete);
    assert_eq!(stream.message().await.unwrap(), None);
}

#[tokio::test]
async fn too_little_memory_pauses_the_job_until_a_larger_worker_comes() {
    let temp = tempfile::tempdir().unwrap();
    let life = Life::start(temp.path());
    life.submit().await.unwrap();
    let mut client = WorkClient::new(life.in_process.channel());
    let request =
        RegisterRequest { protocol: PROTOCOL, build: "test build".into(), name: "small".into(), memory_bytes: 10, threads: 1 };
    let worker_id = client.register(request).await.unwrap().into_inner().worker_id;
    life.wait_for(JobState::Running).await;
    assert_eq!(client.lease(LeaseRequest { worker_id, wait_ms: 10 }).await.unwrap().into_inner().task, None);
    let status = life.wait_for(JobState::Paused).await;
    assert!(status.message.contains("1000 bytes of memory"), "{}", status.message);
    life.finish().await;
}

#[tokio::test]
async fn a_shutdown_sends_workers_home_ends_watches_and_frees_the_directory() {
    let temp = tempfile::tempdir().unwrap();
    let (life, mut anna) = started(temp.path()).await;
    let task = anna.lease(5000).await.unwrap();
    let _other = anna.lease(5000).await.unwrap();
    let mut stream = life.jobs().watch(WatchRequest { table: TABLE.into(), interval_ms: 10 }).await.unwrap().into_inner();
    let waiting = tokio::spawn({
        let mut client = WorkClient::new(life.in_process.channel());
        let worker_id = anna.id;
        async move { client.lease(LeaseRequest { worker_id, wait_ms: 60_000 }).await }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    let start = Instant::now();
    life.coordinator.shutdown().await;
    assert!(waiting.await.unwrap().unwrap().into_inner().drained);
    while let Ok(Some(_)) = stream.message().await {}
    assert!(start.elapsed() < Duration::from_secs(5));
    assert!(anna.run(&task).await.is_err(), "no result is taken any more");
    let (_, ran) = Life::start(temp.path()).finish().await;
    assert_eq!(ran.len() as u64, TASKS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_workers_and_several_results_at_once_make_the_same_table() {
    let (one, many) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (expected, _) = Life::start(one.path()).finish().await;
    let life = Life::start(many.path());
    life.submit().await.unwrap();
    let mut workers = Vec::new();
    for name in ["anna", "bert", "cleo"] {
        let mut worker = life.worker(name).await;
        workers.push(tokio::spawn(async move {
            let mut accepted = 0;
            for _ in 0..40 {
                let Some(task) = worker.lease(50).await else { continue };
                worker.write(&task);
                // The same result twice at the same time: one is recorded, the other told that it is there.
                let (mut again, result) = (worker.client.clone(), worker.result(&task));
                let (a, b) = tokio::join!(worker.complete(result.clone()), again.complete(result));
                let mut verdicts = [a.unwrap(), b.unwrap().into_inner().verdict()];
                verdicts.sort_by_key(|verdict| *verdict as i32);
                assert_eq!(verdicts, [Verdict::Accepted, Verdict::AlreadyDone]);
                accepted += 1;
            }
            accepted
        }));
    }
    let mut accepted = 0;
    for worker in workers {
        accepted += worker.await.unwrap();
    }
    assert_eq!(accepted, TASKS);
    assert_eq!(life.wait_for(JobState::Complete).await.root, expected.root);
    for input in super::content_of(&crate::plan::Plan::of(&super::life::space_of(TABLE)).unwrap(), 7).outputs {
        if input.kind == strata_storage::FileKind::Shard {
            assert_eq!(fs::read(many.path().join(&input.path)).unwrap(), bytes_of(TABLE, artifact_of(&input)));
        }
    }
}
