//! `strata status`: how far the builds of a coordinator are, or the one in a directory.

use crate::cluster::client::{ConnectArgs, Jobs};
use crate::cluster::view;
use crate::failure::{Failure, chain};
use crate::output::{self, Stream, shell_quote};
use crate::progress::Speed;
use crate::signals;
use crate::units;
use serde::Serialize;
use std::time::{Duration, Instant};
use strata_coordinator::{found, is_final};
use strata_games::TableName;
use strata_proto::v1::{JobState, JobStatus, ListRequest, WatchRequest, WorkerStatus, WorkersRequest};
use strata_storage::{Manifest, ManifestError, Place, Store, StoreError};

/// Of what.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata status                       all jobs and workers of the coordinator
  strata status 2048-3x3 --watch      one of them, until it is over
  strata status tables/2048-3x3       what a directory holds, without a coordinator
  strata status s3://bucket/tables/2048-3x3

With --watch the exit code is 0 when the table is complete, and 1 when the job failed or was cancelled. A job that is paused is watched on, and
a coordinator that is away is waited for.")]
pub struct Args {
    /// Name of a table, or the directory or URL of one [default: everything]
    #[arg(value_name = "NAME|DIR|URL")]
    what: Option<String>,
    /// Follow it
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    connect: ConnectArgs,
    /// Look at an object store whose endpoint has no TLS
    #[arg(long)]
    allow_http: bool,
    /// Print JSON: an object, with --watch one a line
    #[arg(long)]
    json: bool,
}

/// How often what is watched is looked at.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Serialize)]
struct Shown<'a> {
    jobs: Vec<view::Job>,
    workers: Vec<view::Worker>,
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<&'a str>,
}

/// Looks.
pub fn run(args: &Args) -> Result<(), Failure> {
    match &args.what {
        Some(dir) if dir.parse::<TableName>().is_err() => crate::runtime()?.block_on(of_place(dir, args)),
        _ => crate::runtime()?.block_on(of_coordinator(args)),
    }
}

async fn of_coordinator(args: &Args) -> Result<(), Failure> {
    let jobs = args.connect.jobs().await?;
    let table = args.what.as_deref().and_then(|name| name.parse::<TableName>().ok()).map(|name| name.to_string());
    if !args.watch {
        let (found, workers) = look(&jobs, table.as_deref()).await?;
        return if args.json { show_json(&found, &workers) } else { output::result(&text(&found, &workers, &mut Vec::new())) };
    }
    let mut signal = signals::listen(|| {}).map_err(|e| Failure::failed(format!("cannot listen for signals: {e}")))?;
    let mut screen = Screen::default();
    let mut speeds = Vec::new();
    let mut is_away = false;
    loop {
        let (found, workers) = match look(&jobs, table.as_deref()).await {
            Ok(found) => found,
            // It was there, and may be started again.
            Err(failure) if screen.has_shown && failure.code == crate::failure::FAILED => {
                if !is_away {
                    output::note(&format!("note: {}; waiting for it", failure.message));
                    is_away = true;
                    screen.last.clear();
                }
                tokio::select! {
                    _ = signal.wait_for(Option::is_some) => return Err(Failure::silent(signals::received().unwrap_or(1))),
                    () = tokio::time::sleep(LOOK) => continue,
                }
            }
            Err(failure) => return Err(failure),
        };
        (is_away, screen.has_shown) = (false, true);
        if args.json {
            show_json(&found, &workers)?;
        } else {
            screen.show(&text(&found, &workers, &mut speeds))?;
        }
        let over = !found.is_empty() && found.iter().all(|job| is_final(job.state()));
        if over {
            let failed = found.iter().find(|job| job.state() != JobState::Complete);
            return failed
                .map_or(Ok(()), |job| Err(Failure::failed(format!("{} is {}: {}", job.table, view::state(job), job.message))));
        }
        tokio::select! {
            _ = signal.wait_for(Option::is_some) => return Err(Failure::silent(signals::received().unwrap_or(1))),
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// The jobs that were asked about, and the workers.
async fn look(jobs: &Jobs, table: Option<&str>) -> Result<(Vec<JobStatus>, Vec<WorkerStatus>), Failure> {
    let found = match table {
        None => jobs.call(|mut jobs| async move { jobs.list(ListRequest {}).await }).await?.jobs,
        Some(table) => {
            let request = WatchRequest { table: table.to_owned(), interval_ms: 0 };
            let mut updates = jobs.call(|mut jobs| async move { jobs.watch(request).await }).await?;
            let first = tokio::time::timeout(LOOK * 30, updates.message()).await;
            let first = first.unwrap_or_else(|_| Err(tonic::Status::deadline_exceeded("no status")));
            first.map_err(|status| jobs.failed(&status))?.into_iter().collect()
        }
    };
    let workers = jobs.call(|mut jobs| async move { jobs.workers(WorkersRequest {}).await }).await?.workers;
    Ok((found, workers))
}

fn show_json(jobs: &[JobStatus], workers: &[WorkerStatus]) -> Result<(), Failure> {
    output::json(&Shown {
        jobs: jobs.iter().map(view::Job::from).collect(),
        workers: workers.iter().map(view::Worker::from).collect(),
        directory: None,
    })
}

/// Everything as text. `speeds` has those of the jobs that are watched.
fn text(jobs: &[JobStatus], workers: &[WorkerStatus], speeds: &mut Vec<(String, Speed, Speed)>) -> String {
    let mut text = view::jobs(jobs);
    for job in jobs {
        let of_job = speeds.iter().position(|(table, ..)| *table == job.table).unwrap_or_else(|| {
            speeds.push((job.table.clone(), Speed::default(), Speed::default()));
            speeds.len() - 1
        });
        let (_, positions, cost) = &mut speeds[of_job];
        let now = Instant::now();
        positions.reading(now, job.positions);
        cost.reading(now, job.cost_done);
        let mut parts = Vec::new();
        if job.state() == JobState::Running && !job.pass.is_empty() {
            parts.push(format!(
                "{} layer {}, {} of {} layers",
                job.pass,
                job.layer,
                units::count(job.layers_done),
                units::count(job.layers)
            ));
            parts.extend(positions.per_second().map(|rate| format!("{} positions/s", units::rate(rate))));
            let rest = job.cost.saturating_sub(job.cost_done);
            parts.extend(cost.time_for(rest).map(|left| format!("{} left", units::duration(left))));
        }
        if !job.message.is_empty() {
            parts.push(job.message.clone());
        }
        if job.state() == JobState::Complete {
            parts.push(format!("root {}", view::root(job)));
        }
        if !parts.is_empty() {
            text.push_str(&format!("  {}: {}\n", job.table, parts.join("; ")));
        }
        for failure in &job.failures {
            text.push_str(&format!("  note: {failure}\n"));
        }
    }
    text + "\n" + &view::workers(workers)
}

/// What is drawn over and over on a terminal; elsewhere each is printed when it differs from the one before.
#[derive(Default)]
struct Screen {
    last: String,
    has_shown: bool,
}

impl Screen {
    fn show(&mut self, text: &str) -> Result<(), Failure> {
        if !output::is_terminal(Stream::Out) {
            if text != self.last {
                output::result(&format!("{text}\n"))?;
            }
        } else {
            // Up to where the last one began, and nothing of it stays.
            let up = self.last.lines().count();
            let home = if up == 0 { String::new() } else { format!("\x1b[{up}F\x1b[J") };
            let width = rustix::termios::tcgetwinsize(std::io::stdout()).map_or(80, |size| usize::from(size.ws_col).max(20));
            let cut: String = text.lines().map(|line| line.chars().take(width).chain(['\n']).collect::<String>()).collect();
            output::result(&(home + &cut))?;
        }
        text.clone_into(&mut self.last);
        Ok(())
    }
}

/// The place that is named.
fn place(dir: &str, args: &Args) -> Result<Place, Failure> {
    let (store, table) = dir.trim_end_matches('/').rsplit_once('/').unwrap_or((".", dir));
    match Store::open(dir, args.allow_http).map_err(|e| Failure::usage(chain(&e)))? {
        Store::Folder(folder) => Ok(Place::Folder(folder)),
        Store::Bucket(_) => Ok(Store::open(store, args.allow_http).map_err(|e| Failure::usage(chain(&e)))?.place(table)),
    }
}

/// What a directory, or a prefix of an object store, holds.
async fn of_place(dir: &str, args: &Args) -> Result<(), Failure> {
    let place = place(dir, args)?;
    if matches!(&place, Place::Folder(path) if !path.is_dir()) {
        return Err(Failure::usage(format!("{} is neither the name of a table nor a directory", shell_quote(dir)))
            .help("`strata status` lists what the coordinator builds; `strata --help` shows the names of tables"));
    }
    if args.watch {
        return Err(
            Failure::usage("--watch follows a coordinator, and a directory is only looked at").help("name the table instead")
        );
    }
    let failed = |e: StoreError| Failure::failed(chain(&e));
    if let Some(bytes) = place.get("table.json").await.map_err(failed)? {
        let damaged = |e: ManifestError| Failure::failed(format!("{}: {e}", place.shown().join("table.json").display()));
        let manifest = Manifest::parse(&bytes).map_err(damaged)?;
        return match args.json {
            true => output::json(
                &serde_json::json!({ "table": manifest.table, "state": "complete", "root": manifest.root.to_string() }),
            ),
            false => output::result(&output::facts(&[
                ("table", manifest.table.clone()),
                ("state", "complete".into()),
                ("root", manifest.root.to_string()),
            ])),
        };
    }
    let found = found(&place).await.map_err(failed)?;
    let Some(found) = found else {
        return Err(Failure::failed(format!("{} holds no table and no build", shell_quote(dir))));
    };
    let name = crate::args::table_name(&found.table)?;
    let space = crate::args::open_space(&name)?;
    let tasks: u64 = space.stages().iter().map(|stage| u64::from(stage.parts)).sum();
    let whole: u64 =
        found.stages.iter().filter_map(|&stage| space.stages().get(stage as usize)).map(|stage| u64::from(stage.parts)).sum();
    let done = whole + found.commits.iter().filter(|task| !found.stages.contains(&task.stage)).count() as u64;
    let state = match (&found.builder, found.wanted) {
        (Some(_), _) => "being built",
        (None, wanted) => wanted,
    };
    if args.json {
        return output::json(&serde_json::json!({ "table": found.table, "state": state, "tasks": tasks, "tasks_done": done }));
    }
    let mut rows = vec![("table", found.table.clone()), ("state", state.to_owned())];
    rows.extend(found.builder.map(|process| ("process", process.to_string())));
    rows.push((
        "tasks",
        format!("{} of {} have records ({})", units::count(done), units::count(tasks), units::percent(done, tasks)),
    ));
    if let Place::Folder(path) = &place {
        rows.push(("disk", units::bytes(crate::resources::used_by(path))));
    }
    output::result(&output::facts(&rows))
}
