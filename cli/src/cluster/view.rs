//! Jobs and workers, for people and for programs.

use crate::failure::Failure;
use crate::output;
use crate::units;
use serde::Serialize;
use std::time::Duration;
use strata_proto::v1::{JobState, JobStatus, WorkerStatus};

/// What people call a state.
pub fn state(status: &JobStatus) -> &'static str {
    match status.state() {
        JobState::Unspecified => "unknown",
        JobState::Checking => "checking",
        JobState::Running => "running",
        JobState::Paused => "paused",
        JobState::Publishing => "publishing",
        JobState::Complete => "complete",
        JobState::Failed => "failed",
        JobState::Cancelled => "cancelled",
    }
}

/// The share of the work that is done.
pub fn share(status: &JobStatus) -> f64 {
    match status.state() {
        JobState::Complete => 1.0,
        _ if status.cost == 0 => 0.0,
        _ => status.cost_done as f64 / status.cost as f64,
    }
}

/// The root, or nothing.
pub fn root(status: &JobStatus) -> String {
    status.root.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One job as JSON.
#[derive(Serialize)]
pub struct Job {
    table: String,
    state: &'static str,
    message: String,
    priority: i32,
    share: f64,
    tasks: u64,
    tasks_done: u64,
    tasks_running: u64,
    tasks_resumed: u64,
    tasks_rejected: u64,
    positions: u64,
    bytes: u64,
    pass: String,
    layer: u32,
    layers: u64,
    layers_done: u64,
    failures: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    root: String,
}

impl From<&JobStatus> for Job {
    fn from(status: &JobStatus) -> Self {
        Self {
            table: status.table.clone(),
            state: state(status),
            message: status.message.clone(),
            priority: status.priority,
            share: share(status),
            tasks: status.tasks,
            tasks_done: status.tasks_done,
            tasks_running: status.tasks_running,
            tasks_resumed: status.tasks_resumed,
            tasks_rejected: status.tasks_rejected,
            positions: status.positions,
            bytes: status.bytes,
            pass: status.pass.clone(),
            layer: status.layer,
            layers: status.layers,
            layers_done: status.layers_done,
            failures: status.failures.clone(),
            root: root(status),
        }
    }
}

/// One worker as JSON.
#[derive(Serialize)]
pub struct Worker {
    worker: String,
    number: u64,
    threads: u32,
    memory: u64,
    silent_seconds: f64,
    tasks_done: u64,
    draining: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    quarantined: String,
    task: Option<String>,
}

impl From<&WorkerStatus> for Worker {
    fn from(status: &WorkerStatus) -> Self {
        Self {
            worker: status.name.clone(),
            number: status.worker_id,
            threads: status.threads,
            memory: status.memory_bytes,
            silent_seconds: status.silent_ms as f64 / 1000.0,
            tasks_done: status.tasks_done,
            draining: status.draining,
            quarantined: status.quarantined.clone(),
            task: task(status),
        }
    }
}

fn task(status: &WorkerStatus) -> Option<String> {
    (!status.table.is_empty()).then(|| format!("{} {}.{}", status.table, status.stage, status.part))
}

/// One job, as a line or as one JSON object.
pub fn show(job: JobStatus, json: bool) -> Result<(), Failure> {
    if json { output::json(&Job::from(&job)) } else { output::result(&jobs(&[job])) }
}

/// A line for each job.
pub fn jobs(jobs: &[JobStatus]) -> String {
    if jobs.is_empty() {
        return "no jobs; `strata submit NAME` begins one\n".into();
    }
    let row = |job: &JobStatus| {
        let tasks = format!("{}/{}", units::count(job.tasks_done), units::count(job.tasks));
        let percent = format!("{:.1} %", 100.0 * share(job));
        let bytes = units::bytes(job.bytes);
        vec![job.table.clone(), state(job).into(), percent, tasks, bytes, job.priority.to_string()]
    };
    output::table(&["table", "state", "done", "tasks", "disk", "priority"], 2, jobs.iter().map(row))
}

/// A line for each worker.
pub fn workers(workers: &[WorkerStatus]) -> String {
    if workers.is_empty() {
        return "no workers; `strata worker --coordinator ADDR` starts one\n".into();
    }
    let row = |worker: &WorkerStatus| {
        let now = match (task(worker), worker.draining) {
            _ if !worker.quarantined.is_empty() => "quarantined".into(),
            (Some(task), _) => format!("{task}, layer {}", worker.layer),
            (None, true) => "drained".into(),
            (None, false) => "waits".into(),
        };
        let silent = units::duration(Duration::from_millis(worker.silent_ms));
        let memory = units::bytes(worker.memory_bytes);
        vec![worker.name.clone(), now, worker.threads.to_string(), memory, units::count(worker.tasks_done), silent]
    };
    let mut text =
        output::table(&["worker", "task", "threads", "memory", "tasks done", "last heard"], 2, workers.iter().map(row));
    for worker in workers.iter().filter(|worker| !worker.quarantined.is_empty()) {
        text.push_str(&format!("  {} is quarantined: {}\n", worker.name, worker.quarantined));
    }
    text
}
