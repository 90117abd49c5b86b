//! What Prometheus is told, and probes that have no certificate: `/metrics` and `/healthz`, over plain HTTP.
//!
//! Counters count from the start of the process, as they happen. Everything else is looked up when it is asked for. Names and their meaning:
//! docs/OPERATIONS.md.

use crate::Coordinator;
use crate::core::Core;
use crate::job::Job;
use crate::room;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use prometheus::core::Collector;
use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TEXT_FORMAT, TextEncoder,
};
use std::io;
use std::sync::Arc;
use strata_games::Pass;
use strata_proto::v1::JobState;
use strata_proto::v1::fail_request::Reason;
use tokio::net::TcpListener;

/// Bounds of what tasks take, in seconds: from those of the smallest tables to hours.
const TASK_SECONDS: [f64; 14] = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0, 14_400.0];
/// The states that jobs are counted by.
const STATES: [JobState; 7] = [
    JobState::Checking,
    JobState::Running,
    JobState::Paused,
    JobState::Publishing,
    JobState::Complete,
    JobState::Failed,
    JobState::Cancelled,
];
/// The reasons that failures are counted by.
const REASONS: [Reason; 4] = [Reason::Error, Reason::DiskFull, Reason::BadInput, Reason::Leaving];

/// What is counted as it happens.
pub struct Metrics {
    registry: Registry,
    task_seconds: HistogramVec,
    records: IntCounterVec,
    /// Pairs of results of one task that differ.
    pub conflicts: IntCounter,
    /// Leases that were not renewed in time.
    pub expired: IntCounter,
    /// Second copies of slow tasks.
    pub copies: IntCounter,
    failures: IntCounterVec,
    /// Positions that finished tasks handled.
    pub positions: IntCounter,
}

/// Why nothing goes wrong where metrics are made: all their names are in this file.
const SOUND: &str = "the names of metrics are sound and differ";

fn register<C: Collector + Clone + 'static>(registry: &Registry, made: prometheus::Result<C>) -> C {
    let metric = made.expect(SOUND);
    registry.register(Box::new(metric.clone())).expect(SOUND);
    metric
}

impl Default for Metrics {
    fn default() -> Self {
        let registry = Registry::new();
        let counter = |name: &str, help: &str| register(&registry, IntCounter::new(name, help));
        let counters = |name: &str, help: &str, label| register(&registry, IntCounterVec::new(Opts::new(name, help), &[label]));
        let seconds = HistogramOpts::new("strata_task_seconds", "What finished tasks took on their workers, by pass.");
        let metrics = Metrics {
            task_seconds: register(&registry, HistogramVec::new(seconds.buckets(TASK_SECONDS.to_vec()), &["pass"])),
            records: counters("strata_records_written_total", "Records made durable: of finished tasks, and of stages.", "kind"),
            conflicts: counter("strata_conflicts_total", "Results that differ from another one of the same task."),
            expired: counter("strata_leases_expired_total", "Leases that were not renewed in time."),
            copies: counter("strata_copies_total", "Second copies of slow tasks that were given out."),
            failures: counters("strata_task_failures_total", "Tasks given back by workers, by reason.", "reason"),
            positions: counter("strata_positions_total", "Positions that finished tasks handled."),
            registry,
        };
        // What has not happened yet is 0, not absent.
        for pass in [Pass::Forward, Pass::Backward] {
            metrics.task_seconds.with_label_values(&[pass_name(pass)]);
        }
        for kind in ["task", "stage"] {
            metrics.records.with_label_values(&[kind]);
        }
        for reason in REASONS {
            metrics.failures.with_label_values(&[reason_name(reason)]);
        }
        metrics
    }
}

impl Metrics {
    /// The record of a task is durable.
    pub fn finished(&self, pass: Pass, elapsed_ms: u64, positions: u64) {
        self.records.with_label_values(&["task"]).inc();
        self.task_seconds.with_label_values(&[pass_name(pass)]).observe(elapsed_ms as f64 / 1000.0);
        self.positions.inc_by(positions);
    }

    /// The record of a stage is durable.
    pub fn stitched(&self) {
        self.records.with_label_values(&["stage"]).inc();
    }

    /// A worker gave a task back.
    pub fn failed(&self, reason: Reason) {
        self.failures.with_label_values(&[reason_name(reason)]).inc();
    }
}

fn pass_name(pass: Pass) -> &'static str {
    match pass {
        Pass::Forward => "forward",
        Pass::Backward => "backward",
    }
}

fn reason_name(reason: Reason) -> &'static str {
    match reason {
        Reason::DiskFull => "disk_full",
        Reason::BadInput => "bad_input",
        Reason::Leaving => "leaving",
        _ => "error",
    }
}

fn state_name(state: JobState) -> String {
    state.as_str_name().trim_start_matches("JOB_STATE_").to_lowercase()
}

fn set(gauges: &IntGaugeVec, labels: &[&str], value: u64) {
    gauges.with_label_values(labels).set(i64::try_from(value).unwrap_or(i64::MAX));
}

/// How things are now.
async fn gauges(core: &Core) -> Registry {
    let registry = Registry::new();
    let gauge = |name: &str, help: &str| register(&registry, IntGauge::new(name, help));
    let gauges = |name: &str, help: &str, labels: &[&str]| register(&registry, IntGaugeVec::new(Opts::new(name, help), labels));
    set(&gauges("strata_build_info", "1, with the version of the program.", &["version"]), &[core.build.as_str()], 1);
    let workers = core.seen();
    gauge("strata_workers", "Workers that were heard of within four leases.").set(workers.len() as i64);
    let threads = workers.iter().map(|worker| i64::from(worker.threads)).sum();
    gauge("strata_worker_threads", "Threads that these workers compute with.").set(threads);
    let jobs_by_state = gauges("strata_jobs", "Jobs by state.", &["state"]);
    let planned = gauges("strata_planned_tasks", "Tasks of the plan of a table.", &["table"]);
    let tasks = gauges("strata_tasks", "Tasks of a table that are done, running, or ready to be given out.", &["table", "state"]);
    let bytes = gauges("strata_artifact_bytes", "Bytes of the files of a table that exist.", &["table"]);
    let epoch = gauges("strata_epoch", "How often the build of a table has been taken up.", &["table"]);
    let free = gauges("strata_store_free_bytes", "Bytes that can be written where an unfinished table is built.", &["table"]);
    for state in STATES {
        set(&jobs_by_state, &[&state_name(state)], 0);
    }
    for job in core.jobs() {
        let (table, status) = (job.table.as_str(), job.status());
        jobs_by_state.with_label_values(&[&state_name(status.state())]).inc();
        let (ready, number) = job.peek(|scheduler| Some((scheduler.ready(), scheduler.epoch()))).unzip();
        set(&planned, &[table], status.tasks);
        set(&tasks, &[table, "done"], status.tasks_done);
        set(&tasks, &[table, "running"], status.tasks_running);
        set(&tasks, &[table, "ready"], ready.unwrap_or(0));
        set(&bytes, &[table], status.bytes);
        if let Some(number) = number {
            set(&epoch, &[table], u64::from(number));
        }
        if let Some(bytes) = free_bytes(&job).await {
            set(&free, &[table], bytes);
        }
    }
    registry
}

async fn free_bytes(job: &Arc<Job>) -> Option<u64> {
    // An object store has no such number.
    if job.is_released() { None } else { room::free_bytes(job).await.filter(|&bytes| bytes != u64::MAX) }
}

async fn metrics(State(core): State<Arc<Core>>) -> impl IntoResponse {
    let mut families = core.metrics.registry.gather();
    families.extend(gauges(&core).await.gather());
    match TextEncoder::new().encode_to_string(&families) {
        Ok(text) => (StatusCode::OK, [(CONTENT_TYPE, TEXT_FORMAT)], text),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, [(CONTENT_TYPE, "text/plain")], error.to_string()),
    }
}

async fn healthz(State(core): State<Arc<Core>>) -> (StatusCode, &'static str) {
    if core.is_stopping() { (StatusCode::SERVICE_UNAVAILABLE, "stopping\n") } else { (StatusCode::OK, "ok\n") }
}

impl Coordinator {
    /// Serves `/metrics` and `/healthz` for as long as it is polled: while the coordinator stops, too. Who may reach the socket is up to the caller.
    ///
    /// # Errors
    /// When the socket fails.
    pub async fn serve_metrics(&self, listener: TcpListener) -> io::Result<()> {
        let routes = Router::new().route("/metrics", get(metrics)).route("/healthz", get(healthz));
        axum::serve(listener, routes.with_state(self.core())).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Life;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    #[tokio::test]
    async fn a_coordinator_that_stops_is_not_healthy() {
        let temp = tempfile::tempdir().unwrap();
        let life = Life::start(temp.path());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let coordinator = life.coordinator.clone();
        let serving = tokio::spawn(async move { coordinator.serve_metrics(listener).await });
        for expected in ["HTTP/1.1 200", "HTTP/1.1 503"] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n").await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with(expected), "{answer}");
            life.coordinator.shutdown().await;
        }
        serving.abort();
    }
}
