//! `strata launch local`: a coordinator and some workers as processes of this machine, until the tables are complete.
//!
//! A process that ends before its time is started again: what it was doing is done again, what was finished stays. Ctrl-C and SIGTERM are
//! handed on, and everybody is waited for.

use crate::args::table_name;
use crate::cluster::client::{ConnectArgs, Jobs};
use crate::cluster::view;
use crate::failure::Failure;
use crate::output::{self, shell_quote};
use crate::progress::Progress;
use crate::resources;
use crate::signals;
use crate::units;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use strata_coordinator::is_final;
use strata_proto::v1::{JobRequest, JobState, JobStatus, ListRequest, PauseCause, SubmitRequest};
use tokio::process::{Child, Command};

/// What to build, and with how many.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata launch local --store tables --table 2048-3x3
  strata launch local --store tables --table 2048-3x3 --table bearoff-6x15 --workers 3 --dry-run

Each table is built in a folder of its name in the store; of an object store each worker keeps copies in the user's cache folder. Unfinished builds of the store go on too. It ends when all of them are complete,
with 1 when one is not.")]
pub struct Args {
    /// Where the tables are: a directory, made when it is missing, or s3://bucket/prefix, gs:// or az://
    #[arg(long, value_name = "DIR|URL")]
    store: PathBuf,
    /// Use an object store whose endpoint has no TLS, on a network that you trust
    #[arg(long)]
    allow_http: bool,
    /// A table to build; may be given several times
    #[arg(long, value_name = "NAME")]
    table: Vec<String>,
    /// Worker processes
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// Threads, shared among the workers [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Memory, shared among the workers, for example 8GiB [default: three quarters of what is free]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    memory: Option<u64>,
    /// Print the commands instead of running them
    #[arg(long)]
    dry_run: bool,
    /// Print the jobs as a JSON array at the end
    #[arg(long)]
    json: bool,
}

/// How often the jobs are looked at.
const LOOK: Duration = Duration::from_millis(250);
/// How long the coordinator may take until it listens: it hashes what an earlier build left.
const START: Duration = Duration::from_secs(600);
/// How long everybody may take to leave.
const FAREWELL: Duration = Duration::from_secs(20);
/// A process that ends this often is not started again.
const MOST_STARTS: u32 = 20;

/// A process of the cluster, which is started again when it ends.
struct Member {
    what: String,
    arguments: Vec<String>,
    /// What it says, as long as nobody wants logs.
    log: PathBuf,
    child: Option<Child>,
    starts: u32,
}

impl Member {
    fn new(what: String, arguments: Vec<String>, folder: &Path) -> Self {
        let log = folder.join(format!("{what}.log"));
        Self { what, arguments, log, child: None, starts: 0 }
    }

    fn start(&mut self) -> Result<(), Failure> {
        let cannot = |e: std::io::Error| Failure::failed(format!("cannot start the {}: {e}", self.what));
        let program = std::env::current_exe().map_err(cannot)?;
        let mut command = Command::new(program);
        // What members say is for their logs: this process says how the work goes. A group of their own, or Ctrl-C would reach them twice.
        command.args(&self.arguments).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0).kill_on_drop(true);
        command.env(crate::cluster::PARENT, std::process::id().to_string());
        if std::env::var_os("STRATA_LOG").is_none() {
            command.stderr(std::fs::File::create(&self.log).map_err(cannot)?);
        }
        self.child = Some(command.spawn().map_err(cannot)?);
        self.starts += 1;
        Ok(())
    }

    /// Starts it again if it ended.
    fn tend(&mut self, progress: &Progress) -> Result<(), Failure> {
        let ended = self.child.as_mut().and_then(|child| child.try_wait().transpose());
        let how = match ended {
            None => return Ok(()),
            // What it cannot do now it cannot do again; but for a worker whose coordinator is away.
            Some(Ok(status)) if status.code().is_some_and(|code| code != 0) && self.last_words().is_some() => {
                let said = self.last_words().unwrap_or_default();
                return Err(Failure::failed(format!("the {} cannot go on: {}", self.what, said.trim_start_matches("error: ")))
                    .help("what is finished is kept"));
            }
            Some(Ok(status)) => status.to_string(),
            Some(Err(e)) => e.to_string(),
        };
        if self.starts >= MOST_STARTS {
            let said = self.last_words().map_or(String::new(), |said| format!("; it said: {said}"));
            return Err(Failure::failed(format!("the {} ended {MOST_STARTS} times, the last time with {how}{said}", self.what))
                .help("STRATA_LOG=info shows all that it says; what is finished is kept"));
        }
        let said = self.last_words().map_or(String::new(), |said| format!(", {said}"));
        progress.say(&format!("note: the {} ended ({how}{said}); it is started again", self.what));
        self.start()
    }

    /// The error that it ended with.
    fn last_words(&self) -> Option<String> {
        let log = std::fs::read_to_string(&self.log).ok()?;
        log.lines().find(|line| line.starts_with("error: ")).map(str::to_owned)
    }

    /// Asks it to end.
    fn terminate(&self) {
        let pid = self
            .child
            .as_ref()
            .and_then(Child::id)
            .and_then(|id| i32::try_from(id).ok())
            .and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // One that has ended just now hears nothing, and need not.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }
}

/// Launches it.
pub fn run(args: &Args) -> Result<(), Failure> {
    let tables = args.table.iter().map(|name| Ok(table_name(name)?.to_string())).collect::<Result<Vec<_>, Failure>>()?;
    if tables.is_empty() && !is_url(&args.store) && !args.store.is_dir() {
        return Err(Failure::usage("there is nothing to build")
            .help("--table NAME says what; without it unfinished builds of the store go on"));
    }
    let folder = tempfile::Builder::new().prefix("strata-local-").tempdir();
    let folder = folder.map_err(|e| Failure::failed(format!("cannot make a temporary folder: {e}")))?;
    let address = if args.dry_run { PathBuf::from("strata.address") } else { folder.path().join("address") };
    let mut members = members(args, &address, folder.path());
    if args.dry_run {
        let lines = members.iter().map(|member| command_line(&member.arguments));
        let submits =
            tables.iter().map(|table| command_line(&["submit".into(), table.clone(), "--coordinator".into(), at(&address)]));
        return output::result(&lines.chain(submits).map(|line| line + "\n").collect::<String>());
    }
    let runtime = crate::runtime()?;
    let ended = runtime.block_on(lead(args, &tables, &address, &mut members));
    runtime.shutdown_timeout(Duration::from_millis(200));
    let jobs = ended?;
    if args.json {
        output::json(&jobs.iter().map(view::Job::from).collect::<Vec<_>>())?;
    } else {
        output::result(&view::jobs(&jobs))?;
    }
    match jobs.iter().find(|job| job.state() != JobState::Complete) {
        None => Ok(()),
        Some(job) => {
            Err(Failure::failed(format!("{} is {}: {}", job.table, view::state(job), job.message)).help(match job.state() {
                JobState::Paused => format!(
                    "when that is mended: `strata coordinator` on the store, and `strata resume {}`; what is finished is kept",
                    job.table
                ),
                _ => "what is finished is kept; the same command goes on".into(),
            }))
        }
    }
}

/// Whether the tables are in an object store.
fn is_url(store: &Path) -> bool {
    store.to_str().is_some_and(|text| text.contains("://") && !text.starts_with("file://"))
}

/// `@FILE`: where the coordinator writes its address.
fn at(address: &Path) -> String {
    format!("@{}", address.display())
}

fn command_line(arguments: &[String]) -> String {
    arguments.iter().fold("strata".to_owned(), |line, argument| line + " " + &shell_quote(argument))
}

/// The coordinator, then the workers.
fn members(args: &Args, address: &Path, folder: &Path) -> Vec<Member> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let workers = usize::from(args.workers);
    let memory = resources::memory(args.memory) / workers as u64;
    let threads = args.threads.map_or_else(resources::threads, usize::from);
    let coordinator = ["coordinator", "--listen", "127.0.0.1:0", "--store"].map(str::to_owned).into_iter();
    let coordinator = coordinator.chain([text(&args.store), "--address-file".into(), text(address)]);
    let allow_http = || args.allow_http.then(|| "--allow-http".to_owned());
    let coordinator = coordinator.chain(allow_http()).collect();
    let worker = |number: usize| {
        let threads = resources::share(threads, workers, number);
        let name = format!("worker-{}", number + 1);
        let words = [
            "worker",
            "--coordinator",
            &at(address),
            "--name",
            &name,
            "--threads",
            &threads.to_string(),
            "--memory",
            &memory.to_string(),
        ];
        Member::new(name.clone(), words.map(str::to_owned).into_iter().chain(allow_http()).collect(), folder)
    };
    std::iter::once(Member::new("coordinator".into(), coordinator, folder)).chain((0..workers).map(worker)).collect()
}

/// Starts everybody, submits, watches, and ends everybody.
async fn lead(args: &Args, tables: &[String], address: &Path, members: &mut [Member]) -> Result<Vec<JobStatus>, Failure> {
    let progress = Progress::start();
    let mut signal = signals::listen(|| output::note("stopping: what is finished is kept"))
        .map_err(|e| Failure::failed(format!("cannot listen for signals: {e}")))?;
    let ended = {
        let work = watch(args, tables, address, members, &progress);
        tokio::select! {
            ended = work => Some(ended),
            _ = signal.wait_for(Option::is_some) => None,
        }
    };
    progress.end();
    // Workers first: they hand their tasks back to a coordinator that is there.
    let (coordinator, workers) = members.split_at_mut(1);
    let end = Instant::now() + FAREWELL;
    for group in [workers, coordinator] {
        group.iter().for_each(Member::terminate);
        for member in group {
            if let Some(child) = &mut member.child {
                let left = end.saturating_duration_since(Instant::now());
                if tokio::time::timeout(left, child.wait()).await.is_err() {
                    let _ = child.kill().await; // it is over for it either way
                }
            }
        }
    }
    match ended {
        Some(ended) => ended,
        None => {
            output::note("to go on, run the same command again:");
            output::note(&format!("  {}", output::this_command()));
            Err(Failure::silent(signals::received().unwrap_or(crate::failure::FAILED)))
        }
    }
}

async fn watch(
    args: &Args,
    tables: &[String],
    address: &Path,
    members: &mut [Member],
    progress: &Progress,
) -> Result<Vec<JobStatus>, Failure> {
    members.iter_mut().try_for_each(Member::start)?;
    let connect = ConnectArgs { coordinator: at(address), tls: None, insecure: false };
    let mut submitted = false;
    let mut jobs: Option<Jobs> = None;
    let start = Instant::now();
    loop {
        members.iter_mut().try_for_each(|member| member.tend(progress))?;
        let found = match &jobs {
            Some(jobs) => look(jobs, tables, &mut submitted).await,
            None => match connect.jobs().await {
                Ok(connected) => {
                    jobs = Some(connected);
                    continue;
                }
                Err(failure) => Err(failure),
            },
        };
        match found {
            Ok(found) => {
                show(&found, args, progress);
                let is_there = |table: &String| found.iter().any(|job| job.table == *table);
                if submitted && found.is_empty() {
                    return Err(Failure::failed("the store has no unfinished build").help("--table NAME says what to build"));
                }
                if submitted && found.iter().all(is_over) && tables.iter().all(is_there) {
                    return Ok(found);
                }
                // One that a coordinator did not take up when it was started again.
                submitted &= tables.iter().all(is_there);
            }
            // A name that it refuses, not a coordinator that is just being started.
            Err(failure) if failure.code == crate::failure::USAGE => return Err(failure),
            Err(failure) if start.elapsed() > START => return Err(failure),
            // It may have another address when it is back.
            Err(_) => jobs = None,
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Submits what is not submitted yet, and says how all jobs are.
async fn look(jobs: &Jobs, tables: &[String], submitted: &mut bool) -> Result<Vec<JobStatus>, Failure> {
    if !*submitted {
        for table in tables {
            let request = SubmitRequest { table: table.clone(), priority: 0 };
            let status = jobs.call(|mut jobs| async move { jobs.submit(request).await }).await?;
            if status.pause_cause() == PauseCause::Asked || status.state() == JobState::Checking {
                // It was paused once, and is asked for now.
                let request = JobRequest { table: table.clone() };
                let _ = jobs.call(|mut jobs| async move { jobs.resume(request).await }).await?;
            }
        }
        *submitted = true;
    }
    Ok(jobs.call(|mut jobs| async move { jobs.list(ListRequest {}).await }).await?.jobs)
}

/// A job that is paused waits for whoever reads this, unless it waits for room on the disk: then it goes on by itself.
fn is_over(job: &JobStatus) -> bool {
    is_final(job.state()) || job.state() == JobState::Paused && job.pause_cause() != PauseCause::DiskFull
}

fn show(jobs: &[JobStatus], args: &Args, progress: &Progress) {
    let sum = |of: fn(&JobStatus) -> u64| jobs.iter().map(of).sum::<u64>();
    let over = jobs.iter().filter(|job| is_over(job)).count();
    let free = if is_url(&args.store) { None } else { resources::free_disk(&args.store) };
    let free = free.map_or_else(String::new, |free| format!(" ({} free)", units::bytes(free)));
    let running = units::plural(sum(|job| job.tasks_running), "task");
    let disk = format!("disk {}{free}", units::bytes(sum(|job| job.bytes)));
    let waits = jobs.iter().find(|job| job.state() == JobState::Paused).map_or(String::new(), |job| format!("  {}", job.message));
    let details = format!("{over} of {} tables over  {running} running  {disk}{waits}", jobs.len());
    let cost: u64 = jobs.iter().map(|job| job.cost).sum();
    let done: u64 = jobs.iter().map(|job| (view::share(job) * job.cost as f64) as u64).sum();
    progress.show("building", done, cost.max(1), &details);
}
