//! Workers that compute wrong numbers: they are found, sent away, and nothing of theirs is in the table.

use serde_json::Value;
use std::process::Command;
use std::time::Duration;
use strata_tests::binary::strata_binary;
use strata_tests::cluster::{Cluster, ends_well};
use strata_tests::{Running, fixture, run, start, text};

/// Two seconds of work for one thread, in 19 tasks.
const TABLE: &str = "bearoff-8x15";

/// Longer than any worker takes to leave.
const GRACE: Duration = Duration::from_secs(60);

/// A worker that gets the first value of a layer wrong.
fn faulty(cluster: &Cluster, layer: &str) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strata-faulty-worker"));
    command.args([text(&cluster.address_file()), "broken", layer]);
    start(command)
}

fn worker_of(status: &Value, name: &str) -> Value {
    let workers = status["workers"].as_array().expect("an array");
    workers.iter().find(|worker| worker["worker"] == name).unwrap_or_else(|| panic!("no worker {name}: {status}")).clone()
}

fn says(job: &Value, text: &str) -> bool {
    job["message"].as_str().is_some_and(|message| message.contains(text))
}

#[test]
fn a_worker_that_computes_one_wrong_value_is_found_and_what_it_made_is_made_again() {
    let root = fixture(TABLE).root().to_owned();
    let cluster = Cluster::default();
    let coordinator = cluster.coordinator(&["--double-check", "100"]);
    // The 60 pips come in the middle: until then it does good work.
    let broken = faulty(&cluster, "60");
    cluster.submit(TABLE);
    // Alone it makes what can be made, and nothing is built on that.
    cluster.wait_for(TABLE, |job| job["state"] == "paused" && says(job, "a second time after worker broken"));
    let one = cluster.worker("one");
    // Of two workers that disagree neither decides.
    let paused = cluster.wait_for(TABLE, |job| job["state"] == "paused" && says(job, "has different results"));
    for text in ["broken", "one", "start another worker"] {
        assert!(says(&paused, text), "{paused}");
    }
    let made = cluster.ask(&["invalidate", "--built-by", "broken", "--dry-run", "--json"]).ok().json();
    let made = made["tasks"].as_array().expect("an array").len();
    assert!(made > 0, "it was the first to make something");
    let two = cluster.worker("two");
    let _ = broken.wait_at_most(GRACE).code(79).says("worker broken is quarantined, because its result of task");
    let reason = worker_of(&cluster.status(), "broken")["quarantined"].clone();
    let names = ["one", "two", "who agree"];
    assert!(names.iter().all(|name| reason.as_str().is_some_and(|text| text.contains(name))), "{reason}");
    let _ = cluster.ask(&["status"]).ok().prints("broken is quarantined: its result");
    // Its name stays refused, and the others are trusted.
    let _ = faulty(&cluster, "60").wait_at_most(GRACE).code(79).says("quarantined");
    let job = cluster.wait_for(TABLE, |job| job["state"] == "complete");
    let note = format!("{made} tasks that worker broken had made were taken out");
    let failures = job["failures"].as_array().expect("an array");
    assert!(failures.iter().any(|line| line.as_str().is_some_and(|line| line.starts_with(&note))), "{note}: {job}");
    cluster.assert_complete(TABLE, &root);
    for worker in [one, two] {
        let _ = ends_well(worker);
    }
    let _ = ends_well(coordinator);
}

#[test]
fn a_worker_that_is_wrong_from_the_beginning_leaves_nothing_in_the_table() {
    let root = fixture(TABLE).root().to_owned();
    let cluster = Cluster::default();
    let coordinator = cluster.coordinator(&["--double-check", "100"]);
    let broken = faulty(&cluster, "1");
    cluster.submit(TABLE);
    cluster.wait_for(TABLE, |job| job["state"] == "paused");
    let honest = ["one", "two"].map(|name| cluster.worker(name));
    let _ = broken.wait_at_most(GRACE).code(79).says("quarantined");
    cluster.assert_complete(TABLE, &root);
    for worker in honest {
        let _ = ends_well(worker);
    }
    let _ = ends_well(coordinator);
}

#[test]
fn what_a_worker_has_made_is_made_again_when_somebody_asks_for_it() {
    let root = fixture(TABLE).root().to_owned();
    let cluster = Cluster::default();
    let coordinator = cluster.coordinator(&[]);
    let workers = ["one", "two"].map(|name| cluster.worker(name));
    cluster.submit(TABLE);
    cluster.wait_for(TABLE, |job| job["tasks_done"].as_u64() >= Some(6));
    let _ = cluster.ask(&["pause", TABLE]).ok();
    let before = cluster.wait_for(TABLE, |job| job["tasks_running"] == 0 && job["state"] == "paused");
    let count = |built_by: &str, more: &[&str]| {
        let made = cluster.ask(&[&["invalidate", "--built-by", built_by, TABLE, "--json"], more].concat()).ok().json();
        let tasks = made["tasks"].as_array().expect("an array").clone();
        assert!(
            tasks.iter().all(|task| task["table"] == TABLE && !task["files"].as_array().expect("files").is_empty()),
            "{made}"
        );
        tasks.len() as u64
    };
    let (one, two) = (count("one", &["--dry-run"]), count("two", &["--dry-run"]));
    assert_eq!(Some(one + two), before["tasks_done"].as_u64(), "every task was made by one of the two");
    let built_by = if one > two { "one" } else { "two" };
    assert_eq!(count(built_by, &[]), one.max(two));
    let after = cluster.wait_for(TABLE, |job| job["state"] == "paused");
    assert_eq!(count("nobody", &[]), 0);
    assert!(after["tasks_done"].as_u64() <= Some(one.min(two)), "{after}");
    let _ = cluster.ask(&["resume", TABLE]).ok();
    cluster.assert_complete(TABLE, &root);
    let _ = cluster.ask(&["invalidate", "--built-by", built_by, TABLE]).code(1).says("is complete");
    for worker in workers {
        let _ = ends_well(worker);
    }
    let _ = ends_well(coordinator);
}

#[test]
fn a_build_at_rest_forgets_what_a_worker_has_made() {
    let root = fixture(TABLE).root().to_owned();
    let cluster = Cluster::default();
    let coordinator = cluster.coordinator(&[]);
    let worker = cluster.worker("one");
    cluster.submit(TABLE);
    cluster.wait_for(TABLE, |job| job["tasks_done"].as_u64() >= Some(6));
    let _ = cluster.ask(&["pause", TABLE]).ok();
    let paused = cluster.wait_for(TABLE, |job| job["tasks_running"] == 0 && job["state"] == "paused");
    let table = cluster.table(TABLE);
    let invalidate = |more: &[&str]| run([&["invalidate", "--built-by", "one", text(&table), "--json"], more].concat());
    let _ = invalidate(&[]).code(1).says("another build");
    let _ = ends_well(coordinator);
    let listed = invalidate(&["--dry-run"]).ok().json();
    assert_eq!(listed["tasks"].as_array().map(|tasks| tasks.len() as u64), paused["tasks_done"].as_u64());
    let taken = invalidate(&[]).ok().json();
    assert_eq!((&taken["tasks"], &taken["dry_run"]), (&listed["tasks"], &Value::from(false)));
    let coordinator = cluster.coordinator(&[]);
    let job = cluster.wait_for(TABLE, |job| job["state"] == "paused");
    assert_eq!((&job["tasks_done"], &job["tasks_resumed"]), (&Value::from(0), &Value::from(0)));
    let _ = cluster.ask(&["resume", TABLE]).ok();
    cluster.assert_complete(TABLE, &root);
    let _ = invalidate(&[]).code(1).one_clear_error().says("complete table");
    let _ = ends_well(worker);
    let _ = ends_well(coordinator);
}

#[test]
fn the_command_has_no_worker_that_computes_wrong_numbers() {
    let binary = std::fs::read(strata_binary()).expect("it was built");
    let has = |text: &str| binary.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(has("quarantined"), "what is looked for can be found");
    assert!(!has("run_faulty_worker"));
}
