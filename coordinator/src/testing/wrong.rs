//! Workers that compute wrong numbers, and results that somebody takes out of a build.

use super::life::{FakeWorker, Life, TABLE, TASKS};
use super::{bytes_of, file_of};
use crate::content::message_of_file;
use crate::plan::Plan;
use crate::record::{self, DOUBTS_PATH, Doubts, artifact_of};
use std::fs;
use std::path::{Path, PathBuf};
use strata_games::TaskId;
use strata_proto::v1::complete_reply::Verdict;
use strata_proto::v1::*;
use tonic::Code;

fn id(task: &Task) -> String {
    TaskId { stage: task.stage, part: task.part }.to_string()
}

/// Hands in a task whose first file is not what it should be. Says where that file is.
async fn lie(worker: &mut FakeWorker, task: &Task) -> (Verdict, PathBuf) {
    worker.write(task);
    let mut result = worker.result(task);
    let planned = worker.plan.index_of(TaskId { stage: task.stage, part: task.part }).unwrap();
    let right = super::content_of(&worker.plan, planned).outputs.remove(0);
    let mut bytes = bytes_of(TABLE, artifact_of(&right));
    bytes[0] ^= 1;
    let wrong = file_of(artifact_of(&right), &bytes);
    let path = worker.root.join(&wrong.path);
    fs::write(&path, bytes).unwrap();
    *result.outputs.iter_mut().find(|file| file.path == right.path).unwrap() = message_of_file(&wrong);
    (worker.complete(result).await.unwrap(), path)
}

/// The root of a build that nobody disturbed.
async fn undisturbed() -> Vec<u8> {
    let temp = tempfile::tempdir().unwrap();
    Life::start(temp.path()).finish().await.0.root
}

/// What anna makes in [`all_but_one`].
const BY_ANNA: [&str; 4] = ["0.0", "1.0", "2.1", "3.0"];

async fn workers(life: &Life) -> Vec<WorkerStatus> {
    life.jobs().workers(WorkersRequest {}).await.unwrap().into_inner().workers
}

/// What a worker has made, as it is listed.
async fn invalidate(life: &Life, worker: &str, tables: &[&str], dry_run: bool) -> Result<Vec<String>, tonic::Status> {
    let tables = tables.iter().map(|&table| table.to_owned()).collect();
    let request = InvalidateRequest { worker: worker.into(), tables, dry_run };
    let mut made = life.jobs().invalidate(request).await?.into_inner();
    let mut tasks = Vec::new();
    while let Some(task) = made.message().await? {
        assert!(task.table == TABLE && !task.files.is_empty(), "{task:?}");
        tasks.push(TaskId { stage: task.stage, part: task.part }.to_string());
    }
    Ok(tasks)
}

fn doubts(root: &Path) -> Doubts {
    record::open(&fs::read(root.join(DOUBTS_PATH)).unwrap()).unwrap()
}

/// A life in which anna has made the first task, and bert holds a check of it.
async fn checked(root: &Path) -> (Life, FakeWorker, Task, Task) {
    let life = Life::with_checks(root, 30);
    life.submit().await.unwrap();
    let mut anna = life.worker("anna").await;
    let first = anna.lease(5000).await.unwrap();
    anna.run(&first).await.unwrap();
    let mut bert = life.worker("bert").await;
    let check = bert.lease(5000).await.unwrap();
    (life, bert, first, check)
}

#[tokio::test]
async fn a_worker_that_comes_is_given_what_another_has_made_and_then_new_tasks() {
    let temp = tempfile::tempdir().unwrap();
    let (life, mut bert, first, check) = checked(temp.path()).await;
    assert_eq!(id(&check), id(&first));
    assert!(check.token > first.token && bert.heartbeat(&check).await);
    let seen = workers(&life).await;
    assert_eq!((seen[1].name.as_str(), seen[1].table.as_str()), ("bert", TABLE), "it is seen at work");
    // What it has written may have become useless and been removed meanwhile.
    let (index, away) = (temp.path().join("build/index"), temp.path().join("build/away"));
    fs::rename(&index, &away).unwrap();
    assert_eq!(bert.complete(bert.result(&check)).await.unwrap(), Verdict::AlreadyDone);
    fs::rename(&away, &index).unwrap();
    assert_eq!(life.status().await.failures, Vec::<String>::new());
    let next = bert.lease(5000).await.unwrap();
    assert_eq!(id(&next), "0.1", "one check, and on");
    // A check that comes to nothing changes nothing.
    let mut carl = life.worker("carl").await;
    bert.run(&next).await.unwrap();
    let check = carl.lease(5000).await.unwrap();
    carl.fail(&check, fail_request::Reason::Error, "out of order").await;
    assert!(!carl.heartbeat(&check).await);
    let (status, ran) = life.finish().await;
    assert_eq!((status.tasks_done, status.root), (TASKS, undisturbed().await));
    assert_eq!(ran.len() as u64, TASKS - 2);
}

#[tokio::test]
async fn who_gets_a_check_wrong_is_sent_away_by_the_word_of_a_third() {
    let temp = tempfile::tempdir().unwrap();
    let (life, mut bert, first, check) = checked(temp.path()).await;
    let (verdict, path) = lie(&mut bert, &check).await;
    assert_eq!(verdict, Verdict::Conflict);
    assert_eq!(doubts(temp.path()).open[0].opinions.len(), 2, "it is written down before anybody hears of it");
    life.wait_for(JobState::Running).await;
    // Until a third has come the two do something else.
    let mut carl = life.worker("carl").await;
    let other = bert.lease(5000).await.unwrap();
    assert_eq!(id(&other), "0.1");
    assert_eq!(bert.run(&other).await.unwrap(), Verdict::Accepted);
    let third = carl.lease(5000).await.unwrap();
    assert_eq!(id(&third), id(&first));
    assert_eq!(carl.run(&third).await.unwrap(), Verdict::Accepted);
    assert!(!path.exists(), "{} is left", path.display());

    let refused = |status: tonic::Status| {
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert!(status.message().contains("bert is quarantined, because its result of task 0.0 of 2048-2x2"), "{status}");
        assert!(status.message().contains("anna and carl"), "{status}");
    };
    refused(bert.client.lease(LeaseRequest { worker_id: bert.id, wait_ms: 0 }).await.unwrap_err());
    refused(bert.run(&other).await.unwrap_err());
    refused(life.register("bert").await.map(|_| ()).unwrap_err());
    assert!(!bert.heartbeat(&check).await);
    let seen = workers(&life).await;
    let of_bert: Vec<&WorkerStatus> = seen.iter().filter(|worker| worker.name == "bert").collect();
    assert!(of_bert.len() == 1 && of_bert[0].quarantined.contains("who agree") && of_bert[0].tasks_done == 1, "{seen:?}");
    assert!(seen.iter().all(|worker| worker.name == "bert" || worker.quarantined.is_empty()), "{seen:?}");

    // What it had made before is made again.
    let (status, ran) = life.finish().await;
    assert!(ran.iter().any(|task| task.to_string() == "0.1"), "{ran:?}");
    let note = "1 tasks that worker bert had made were taken out, to be made again";
    assert!(status.failures.iter().any(|line| line == note), "{:?}", status.failures);
    assert_eq!(status.root, undisturbed().await);
}

/// Runs all tasks but the last, by two workers.
async fn all_but_one(life: &Life) {
    let mut both = [life.worker("anna").await, life.worker("bert").await];
    for (who, expected) in [(0, "0.0"), (1, "0.1"), (0, "1.0"), (1, "1.1"), (1, "2.0"), (0, "2.1"), (0, "3.0")] {
        let task = both[who].lease(5000).await.unwrap();
        assert_eq!(id(&task), expected);
        both[who].run(&task).await.unwrap();
    }
}

#[tokio::test]
async fn what_a_worker_has_made_is_listed_and_made_again_and_the_rest_stands() {
    let temp = tempfile::tempdir().unwrap();
    let life = Life::start(temp.path());
    life.submit().await.unwrap();
    all_but_one(&life).await;
    let (of_anna, of_bert) =
        (invalidate(&life, "anna", &[], true).await.unwrap(), invalidate(&life, "bert", &[TABLE], true).await.unwrap());
    assert_eq!((of_anna, of_bert), (BY_ANNA.map(String::from).into(), ["0.1", "1.1", "2.0"].map(String::from).into()));
    assert_eq!(invalidate(&life, "anna", &[TABLE], false).await.unwrap(), BY_ANNA);
    let status = life.wait_for(JobState::Running).await;
    assert_eq!((status.tasks_done, status.tasks_rejected), (3, 0), "what bert has made stands");
    let (status, ran) = life.finish().await;
    assert_eq!(ran.len() as u64, TASKS - 3);
    assert_eq!(status.root, undisturbed().await);
    assert!(status.failures.iter().any(|line| line.starts_with("4 tasks that worker anna had made")), "{:?}", status.failures);
    let complete = invalidate(&life, "anna", &[TABLE], false).await.unwrap_err();
    assert!(complete.code() == Code::FailedPrecondition && complete.message().contains("is complete"), "{complete}");
    assert_eq!(invalidate(&life, "anna", &["2048-3x3"], false).await.unwrap_err().code(), Code::NotFound);
    assert_eq!(invalidate(&life, "anna", &[], false).await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_build_at_rest_is_changed_by_one_record_that_the_next_start_acts_upon() {
    let temp = tempfile::tempdir().unwrap();
    let life = Life::start(temp.path());
    life.submit().await.unwrap();
    all_but_one(&life).await;
    let busy = crate::invalidate(temp.path(), "anna", false).await.unwrap_err();
    assert!(busy.to_string().contains("another build"), "{busy}");
    let listed = crate::invalidate(temp.path(), "anna", true).await.unwrap();
    life.coordinator.shutdown().await;
    assert!(!temp.path().join(DOUBTS_PATH).exists(), "asking changes nothing");
    let (table, made) = crate::invalidate(temp.path(), "anna", false).await.unwrap();
    assert_eq!((table.as_str(), &made), (TABLE, &listed.1));
    assert_eq!(made.iter().map(|made| made.task.to_string()).collect::<Vec<_>>(), BY_ANNA);
    assert_eq!(doubts(temp.path()).pending, ["anna"]);
    assert!(crate::invalidate(temp.path(), "nobody", false).await.unwrap().1.is_empty());
    assert_eq!(doubts(temp.path()).pending, ["anna"]);
    let again = Life::start(temp.path());
    again.submit().await.unwrap();
    assert_eq!(again.wait_for(JobState::Running).await.tasks_done, 3);
    assert!(doubts(temp.path()).pending.is_empty(), "it is done once");
    let (status, _) = again.finish().await;
    assert_eq!(status.root, undisturbed().await);
    let none = crate::invalidate(temp.path(), "anna", true).await.unwrap_err();
    assert!(matches!(none, crate::InvalidateError::NoBuild), "{none}");
}

#[tokio::test]
async fn where_everything_is_made_twice_a_worker_alone_waits_for_a_second() {
    let temp = tempfile::tempdir().unwrap();
    let life = Life::with_checks(temp.path(), 100);
    life.submit().await.unwrap();
    let mut anna = life.worker("anna").await;
    for _ in 0..2 {
        let task = anna.lease(5000).await.unwrap();
        anna.run(&task).await.unwrap();
    }
    assert!(anna.lease(50).await.is_none());
    let status = life.wait_for(JobState::Paused).await;
    assert!(status.message.contains("nobody is there to make task 0.0 a second time after worker anna"), "{}", status.message);
    assert_eq!((status.pause_cause(), status.tasks_done), (PauseCause::Worker, 2));
    let mut bert = life.worker("bert").await;
    let plan = Plan::of(&super::life::space_of(TABLE)).unwrap();
    let mut made = 2;
    while life.status().await.state() != JobState::Complete {
        for worker in [&mut anna, &mut bert] {
            if let Some(task) = worker.lease(20).await {
                worker.run(&task).await.unwrap();
                made += 1;
            }
        }
    }
    assert_eq!(made, 2 * plan.tasks.len(), "each by two");
    assert_eq!(life.status().await.root, undisturbed().await);
}
