//! `strata build`: a coordinator and its workers in one process, over the messages that a cluster would send.
//!
//! The coordinator decides everything; this file looks at the place first ([`crate::preflight`]), submits the job, watches it, and
//! says how it ended. Stopping is always safe: what is committed stays, and the same command goes on from there.

use crate::args::{open_space, table_name};
use crate::failure::{Failure, chain};
use crate::forecast::{Forecast, forecast};
use crate::keep::{self, KeepArgs};
use crate::output;
use crate::preflight::{self, Found};
use crate::progress::{Progress, Speed};
use crate::resources;
use crate::signals;
use crate::table::Summary;
use crate::units;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use strata_coordinator::{Coordinator, CoordinatorConfig};
use strata_games::TableName;
use strata_proto::v1::jobs_client::JobsClient;
use strata_proto::v1::{JobState, JobStatus, PauseCause, SubmitRequest, WatchRequest};
use strata_storage::Manifest;
use strata_worker::{Tables, WorkerConfig, WorkerError, run_worker};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Which table, where, and with what.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata build 2048-3x3 --out tables/2048-3x3
  strata build bearoff-6x15 --out tables/bearoff-6x15 --threads 2 --memory 512MiB
  strata build 2048-3x3+tile=256 --out tables/2048-3x3-256 --json > result.json
  strata build 2048-4x3 --keep stats --disk 60GiB --out tables/2048-4x3-stats

--keep play (+keep=play in the name) publishes every position with its best move and no values: two fifths of the size or less.
--keep stats is for tables larger than the disk: what is published are the values of the starts, the statistics of every
layer, and up to 256 sampled positions of each with their values. With either, --disk says how much room the build may
take: with less it stores fewer ages at a time. That changes nothing in what is published.

The build can be stopped at any moment, by Ctrl-C, SIGTERM or pulling the plug: the same command goes on. Whatever the
number of threads, workers and restarts, the same name gives the same bytes and the same root.
The JSON object has the members table, root, states, afterstates, layers, value, error_bound, bytes,
index_bits_per_key (not with --keep stats), seconds.")]
pub struct Args {
    /// Name of the table, for example 2048-3x3
    #[arg(value_name = "NAME")]
    name: String,
    /// The directory of the table; made when it is missing
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    keep: KeepArgs,
    /// Threads, shared among the workers [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Workers in this process
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: u16,
    /// Memory, shared among the workers, for example 256MiB [default: three quarters of what is free]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    memory: Option<u64>,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

/// A lease is short, so that progress comes every other second; nothing travels further than this process.
const LEASE: Duration = Duration::from_secs(6);
/// How often the coordinator reports while it is watched.
const WATCH_MS: u64 = 250;
/// How long workers may take to give their tasks back.
const FAREWELL: Duration = Duration::from_secs(20);

/// The finished table as one JSON object.
#[derive(Serialize)]
struct Outcome {
    #[serde(flatten)]
    summary: Summary,
    seconds: f64,
}

/// Builds or goes on.
pub fn run(args: &Args) -> Result<(), Failure> {
    let start = Instant::now();
    if args.out.to_str().is_some_and(|out| out.contains("://")) {
        let shown = output::shell_quote(&args.out.to_string_lossy()).into_owned();
        return Err(Failure::usage(format!("{shown} is a URL, and `strata build` builds in a directory"))
            .help("`strata coordinator --store URL` and `strata worker` build in an object store"));
    }
    let mut name = keep::named(table_name(&args.name)?, args.keep.keep, args.keep.disk)?;
    let runtime = crate::runtime()?;
    let mut goes_on = false;
    match runtime.block_on(preflight::directory(&args.out, &name))? {
        Found::Complete(manifest) => {
            let (shown, table) = (output::shell_quote(&args.out.to_string_lossy()).into_owned(), &manifest.table);
            output::note(&format!("{table} in {shown} is complete: nothing to do (`strata verify {shown}` checks it)"));
            return report(args, &manifest, start);
        }
        Found::Part(begun) => {
            if begun != name {
                output::note(&format!("note: this build was begun as {begun}, and goes on as that; the table will be the same"));
            }
            (name, goes_on) = (begun, true);
        }
        Found::Nothing => {}
    }
    let space = open_space(&name)?;
    let plan = forecast(space.as_ref(), None);
    drop(space);
    let memory = preflight::memory(args.memory, args.workers.into(), &plan, &name)?;
    let threads = args.threads.map_or_else(resources::threads, usize::from);
    let crew = format!("{} with {}", units::plural(args.workers.into(), "worker"), units::plural(threads as u64, "thread"));
    preflight::needs(&args.out, &plan, &name, memory * u64::from(args.workers), &crew)?;
    preflight::create(&args.out)?;
    let ended = runtime.block_on(build(args, &name, &plan, memory, threads, goes_on));
    // Kernels that do not stop in time are cut off: their outputs have no record yet, so nothing half-done counts.
    runtime.shutdown_timeout(Duration::from_millis(200));
    ended?;
    let table = preflight::finished(&args.out)?;
    report(args, table.manifest(), start)
}

/// Prints the facts.
fn report(args: &Args, manifest: &Manifest, start: Instant) -> Result<(), Failure> {
    let outcome = Outcome { summary: Summary::of(manifest), seconds: start.elapsed().as_secs_f64() };
    if args.json {
        return output::json(&outcome);
    }
    let mut rows = outcome.summary.rows();
    rows.extend(outcome.summary.index_bits_per_key.map(|bits| ("index", format!("{bits:.2} bits a stored position"))));
    rows.push(("time", units::duration(start.elapsed())));
    output::result(&output::facts(&rows))
}

/// Runs coordinator and workers until the table is complete or the build has to stop.
async fn build(
    args: &Args,
    name: &TableName,
    plan: &Forecast,
    memory: u64,
    threads: usize,
    goes_on: bool,
) -> Result<(), Failure> {
    let progress = Arc::new(Progress::start());
    let said = Arc::clone(&progress);
    let mut signal = signals::listen(move || said.say("stopping: handing the tasks back (a second signal stops at once)"))
        .map_err(|e| Failure::failed(format!("cannot listen for signals: {e}")))?;
    let dir = args.out.clone();
    let locate: strata_coordinator::Locate = Arc::new(move |_| dir.clone().into());
    let config = CoordinatorConfig { lease: LEASE, ..CoordinatorConfig::new(env!("CARGO_PKG_VERSION"), Arc::clone(&locate)) };
    let coordinator = Coordinator::start(config);
    let service = coordinator.serve_in_process();
    let (stop, stopped) = watch::channel(false);
    let mut workers = JoinSet::new();
    let ended = async {
        let mut jobs = JobsClient::new(service.channel());
        let submitted = jobs.submit(SubmitRequest { table: name.to_string(), priority: 0 }).await.map_err(|status| refused(&status, args))?;
        let mut view = View::new(&args.out, Arc::clone(&progress), goes_on);
        view.show(&submitted.into_inner());
        for number in 0..usize::from(args.workers) {
            let config = WorkerConfig::new(
                format!("worker {} of process {}", number + 1, std::process::id()),
                env!("CARGO_PKG_VERSION"),
                memory,
                resources::share(threads, args.workers.into(), number),
                Tables::At(Arc::clone(&locate), None),
            );
            workers.spawn(run_worker(service.channel(), config, stopped.clone()));
        }
        let request = WatchRequest { table: name.to_string(), interval_ms: WATCH_MS };
        let mut updates = jobs.watch(request).await.map_err(|status| refused(&status, args))?.into_inner();
        loop {
            tokio::select! {
                _ = signal.wait_for(Option::is_some) => return Ok(None),
                Some(left) = workers.join_next(), if !workers.is_empty() => worker_left(left)?,
                update = updates.message() => match update.map_err(|status| refused(&status, args))? {
                    Some(status) => {
                        view.show(&status);
                        if let Some(end) = end_of(&status, &args.out, plan.certain_bytes) {
                            return end.map(Some);
                        }
                    }
                    None => return Err(Failure::failed("the coordinator stopped reporting before the table was complete").help(again())),
                },
            }
        }
    }
    .await;
    let _ = stop.send(true); // nobody listens when all workers have left
    let farewell = async { while workers.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(FAREWELL, farewell).await;
    coordinator.shutdown().await;
    progress.end();
    match ended? {
        Some(()) => Ok(()),
        None => {
            let code = signals::received().unwrap_or(crate::failure::FAILED);
            let message = if code == 130 { "interrupted" } else { "terminated" };
            output::note(&format!("{message}; what is finished is kept. To go on, run the same command again:"));
            output::note(&format!("  {}", output::this_command()));
            Err(Failure::silent(code))
        }
    }
}

/// Whether a status is the end of the build, and which.
fn end_of(status: &JobStatus, dir: &Path, certain_bytes: u64) -> Option<Result<(), Failure>> {
    let why = || if status.message.is_empty() { "no reason is given".to_string() } else { status.message.clone() };
    match status.state() {
        JobState::Complete => Some(Ok(())),
        JobState::Paused => Some(Err(paused(status.pause_cause(), &why(), dir, certain_bytes))),
        JobState::Failed => Some(Err(Failure::failed(format!("the build failed: {}", why())))),
        JobState::Cancelled => Some(Err(Failure::failed("the build was cancelled").help(again()))),
        _ => None,
    }
}

/// The coordinator waits for somebody to mend something; here that somebody is who reads this.
fn paused(cause: PauseCause, why: &str, dir: &Path, certain_bytes: u64) -> Failure {
    let failure = Failure::failed(format!("the build is paused: {why}"));
    if cause != PauseCause::DiskFull {
        return failure.help(format!("when that is mended, {}", again()));
    }
    let free = resources::free_disk(dir).map_or_else(String::new, |f| format!("{} are free", units::bytes(f)));
    let needed = match certain_bytes.saturating_sub(resources::used_by(dir)) {
        0 => String::new(),
        more => format!(", about {} are needed", units::bytes(more)),
    };
    let shown = output::shell_quote(&dir.to_string_lossy()).into_owned();
    failure.help(format!("remove something from the disk that holds {shown} ({free}{needed}); {}", again()))
}

fn again() -> String {
    format!("what is finished is kept; the same command goes on: {}", output::this_command())
}

/// The coordinator says no. Its sentence is made for people.
fn refused(status: &tonic::Status, args: &Args) -> Failure {
    let failure = Failure::failed(status.message());
    match status.code() {
        tonic::Code::InvalidArgument => Failure::usage(status.message()),
        tonic::Code::FailedPrecondition => {
            let shown = output::shell_quote(&args.out.to_string_lossy()).into_owned();
            failure.help(format!("`strata info {shown}` shows a finished table; --out names another directory"))
        }
        _ => failure.help(again()),
    }
}

/// A worker that leaves without having been told to takes the build with it, unless the coordinator had no more work.
fn worker_left(left: Result<Result<(), WorkerError>, tokio::task::JoinError>) -> Result<(), Failure> {
    match left {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Failure::failed(chain(&error)).help(again())),
        Err(error) if error.is_panic() => Err(Failure::silent(crate::failure::FAILED)), // the panic hook has said it
        Err(_) => Ok(()),
    }
}

/// What is shown of a job while it runs.
struct View {
    dir: PathBuf,
    progress: Arc<Progress>,
    goes_on: bool,
    positions: Speed,
    cost: Speed,
    announced: bool,
    failures: Vec<String>,
}

impl View {
    fn new(dir: &Path, progress: Arc<Progress>, goes_on: bool) -> Self {
        let (positions, cost) = (Speed::default(), Speed::default());
        Self { dir: dir.to_path_buf(), progress, goes_on, positions, cost, announced: false, failures: Vec::new() }
    }

    fn show(&mut self, status: &JobStatus) {
        if !self.announced && !matches!(status.state(), JobState::Checking | JobState::Unspecified) {
            self.announced = true;
            self.announce(status);
        }
        for failure in &status.failures {
            // What ends the build is said as its error.
            let ends = !status.message.is_empty() && failure.contains(&status.message);
            if !ends && !self.failures.contains(failure) {
                self.progress.say(&format!("note: {failure}"));
            }
        }
        self.failures.clone_from(&status.failures);
        let now = Instant::now();
        match status.state() {
            JobState::Checking if self.goes_on => {
                self.progress.show(
                    "checking",
                    status.tasks_done,
                    status.tasks,
                    "what an earlier build left is compared with its hashes",
                );
            }
            JobState::Running => {
                self.positions.reading(now, status.positions);
                self.cost.reading(now, status.cost_done);
                self.progress.show(&what(status), status.cost_done, status.cost, &self.details(status));
            }
            JobState::Publishing => self.progress.show("publishing", status.cost, status.cost, "writing the manifest"),
            _ => {}
        }
    }

    /// What was taken over from an earlier build.
    fn announce(&self, status: &JobStatus) {
        if status.tasks_resumed > 0 {
            let of = units::count(status.tasks);
            self.progress.say(&format!("going on: {} of {of} tasks are finished and sound", units::count(status.tasks_resumed)));
        }
        if status.tasks_rejected > 0 {
            let n = units::plural(status.tasks_rejected, "task");
            self.progress.say(&format!("note: what {n} left is damaged or missing, and is made again"));
        }
    }

    fn details(&self, status: &JobStatus) -> String {
        let rest = status.cost.saturating_sub(status.cost_done);
        // What matters most stands first: a narrow terminal cuts the rest off.
        let mut parts = Vec::new();
        parts.extend(self.cost.time_for(rest).map(|t| format!("{} left", units::duration(t))));
        parts.extend(self.positions.per_second().map(|r| format!("{} positions/s", units::rate(r))));
        let free = resources::free_disk(&self.dir).map_or_else(String::new, |f| format!(" ({} free)", units::bytes(f)));
        parts.push(format!("disk {}{free}", units::bytes(status.bytes)));
        parts.push(format!("{} of {} layers, both passes", units::count(status.layers_done), units::count(status.layers)));
        parts.join("  ")
    }
}

/// Pass and layer.
fn what(status: &JobStatus) -> String {
    if status.pass.is_empty() { "waiting".into() } else { format!("{:<8} layer {:>5}", status.pass, status.layer) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_some_states_are_the_end() {
        let status = |state: JobState| JobStatus {
            state: state.into(),
            message: "no space is left to write x".into(),
            pause_cause: PauseCause::DiskFull.into(),
            ..JobStatus::default()
        };
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        assert!(end_of(&status(JobState::Running), dir, 0).is_none());
        assert!(end_of(&status(JobState::Publishing), dir, 0).is_none());
        assert!(matches!(end_of(&status(JobState::Complete), dir, 0), Some(Ok(()))));
        let paused = end_of(&status(JobState::Paused), dir, 1 << 40).unwrap().unwrap_err();
        assert_eq!(paused.code, 1);
        let help = paused.help.unwrap();
        assert!(paused.message.contains("no space is left") && help.contains("1 TiB are needed"), "{help}");
        assert!(help.contains("the same command goes on"), "{help}");
    }
}
