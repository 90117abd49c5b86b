//! `strata predict`: what a build will need, before anything is built.
//!
//! Positions, disk and memory come from the plan ([`crate::forecast`]). The time comes from a measurement: the plan of the table
//! itself, or of a smaller one of the same game, is run in memory for about two seconds on the threads that a build would have.

use crate::args::{open_space, table_name};
use crate::failure::Failure;
use crate::forecast::{Forecast, Known, forecast};
use crate::output;
use crate::resources;
use crate::units;
use serde::Serialize;
use std::time::{Duration, Instant};
use strata_games::memory::MemoryIo;
use strata_games::{StateSpace, TableName, TaskError};

/// Which table.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata predict 2048-3x3
  strata predict 2048-4x3+horizon=200
  strata predict bearoff-6x15 --json

Positions are exact where theory or a published count knows them, otherwise an upper bound, marked so. Disk and time
follow from the positions; an upper bound makes them upper bounds too. The time is measured on a smaller table of the
same game for about two seconds and does not count waiting for the disk.")]
pub struct Args {
    /// Name of the table, for example 2048-3x3
    #[arg(value_name = "NAME")]
    name: String,
    /// Threads that the build will have [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// `--json`.
#[derive(Serialize, Debug)]
struct Prediction {
    table: String,
    layers: u64,
    tasks: u64,
    positions: Known,
    #[serde(skip_serializing_if = "Option::is_none")]
    states: Option<u64>,
    table_bytes: u64,
    peak_disk_bytes: u64,
    task_memory_bytes: u64,
    threads: usize,
    /// Whether a measurement was possible at all.
    seconds: Option<f64>,
    measured_on: Option<String>,
}

/// How long a measurement should take at least to be worth something.
const ENOUGH: Duration = Duration::from_millis(700);
/// And at most.
const LONGEST: Duration = Duration::from_millis(2500);

/// Prints the prediction.
pub fn run(args: &Args) -> Result<(), Failure> {
    let name = table_name(&args.name)?;
    let space = open_space(&name)?;
    let plan = forecast(space.as_ref());
    let threads = args.threads.map_or_else(resources::threads, usize::from);
    if output::is_terminal(output::Stream::Err) {
        output::note("measuring the speed of this machine...");
    }
    let speed = measure(&name, space.as_ref(), threads)?;
    let prediction = Prediction {
        table: name.to_string(),
        layers: plan.layers,
        tasks: plan.tasks,
        positions: plan.keys,
        states: plan.states,
        table_bytes: plan.table_bytes,
        peak_disk_bytes: plan.peak_bytes,
        task_memory_bytes: plan.task_memory,
        threads,
        seconds: speed.as_ref().map(|s| plan.cost as f64 / s.cost_per_second),
        measured_on: speed.map(|s| s.on),
    };
    if args.json { output::json(&prediction) } else { output::result(&text(&prediction, &plan)) }
}

fn text(prediction: &Prediction, plan: &Forecast) -> String {
    let most = if plan.keys.exact { "about" } else { "at most" };
    let time = match (prediction.seconds, &prediction.measured_on) {
        (Some(seconds), Some(on)) => {
            let time = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
            let threads = units::plural(prediction.threads as u64, "thread");
            format!("{most} {} on {threads} of this machine (measured on {on})", units::duration(time))
        }
        _ => "not measured".into(),
    };
    let mut rows = vec![
        ("table", prediction.table.clone()),
        ("layers", units::count(plan.layers)),
        ("positions", positions(plan.keys)),
    ];
    rows.extend(plan.states.map(|n| ("states", format!("{} (exact)", units::count(n)))));
    rows.extend([
        ("tasks", units::count(plan.tasks)),
        ("disk", format!("{most} {} for the table, {} while it is built", units::bytes(plan.table_bytes), units::bytes(plan.peak_bytes))),
        ("memory", format!("{} for the largest task, once for every worker", units::bytes(plan.task_memory))),
        ("time", time),
    ]);
    output::facts(&rows)
}

/// A number of stored positions, and how much it is worth.
pub fn positions(keys: Known) -> String {
    format!("{} ({})", units::count(keys.count), if keys.exact { "exact" } else { "upper bound" })
}

/// Work done a second, in the unit of [`strata_games::TaskPlan::cost`].
struct Speed {
    cost_per_second: f64,
    on: String,
}

/// Runs plans in memory, small ones first, until one is large enough to tell the speed.
fn measure(name: &TableName, space: &dyn StateSpace, threads: usize) -> Result<Option<Speed>, Failure> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|e| Failure::failed(format!("cannot start {threads} threads: {e}")).help("ask for fewer with --threads"))?;
    let total = forecast(space).cost;
    let mut speed = None;
    let deadline = Instant::now() + LONGEST;
    for small in smaller(name) {
        let Ok(small_name) = small.parse::<TableName>() else { continue };
        let Ok(small_space) = strata_games::open(&small_name) else { continue };
        let cost = forecast(small_space.as_ref()).cost;
        if cost > total && speed.is_some() {
            break;
        }
        let start = Instant::now();
        let Some(done) = pool.install(|| run_until(small_space.as_ref(), deadline)).map_err(|e| Failure::failed(e.to_string()))? else {
            break;
        };
        let seconds = start.elapsed().as_secs_f64().max(1e-6);
        speed = Some(Speed { cost_per_second: done as f64 / seconds, on: small });
        if start.elapsed() > ENOUGH || deadline.saturating_duration_since(Instant::now()) < start.elapsed() * 4 {
            break;
        }
    }
    Ok(speed)
}

/// Tables of the same game, from the smallest.
fn smaller(name: &TableName) -> Vec<String> {
    match name {
        TableName::Game2048(_) => ["2048-2x2", "2048-2x3", "2048-2x4", "2048-3x3+horizon=600"].map(String::from).into(),
        TableName::Bearoff(spec) => [4, 6, 8, 10, 12, 15].map(|checkers| format!("bearoff-{}x{checkers}", spec.points.min(6))).into(),
    }
}

/// The cost of the tasks that were done; `None` when the whole plan did not fit the time.
fn run_until(space: &dyn StateSpace, deadline: Instant) -> Result<Option<u64>, TaskError> {
    let mut io = MemoryIo::new(space).until(deadline);
    let mut cost = 0u64;
    loop {
        match io.step() {
            Ok(Some(task)) => cost += space.task(task).cost,
            Ok(None) => return Ok(Some(cost)),
            Err(TaskError::Stopped) => return Ok(None),
            Err(other) => return Err(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upper_bounds_are_marked() {
        assert_eq!(positions(Known { count: 54_264, exact: true }), "54,264 (exact)");
        assert_eq!(positions(Known { count: 1_000, exact: false }), "1,000 (upper bound)");
    }

    #[test]
    fn every_table_that_is_measured_on_has_a_name() {
        for name in ["2048-4x3", "bearoff-6x15", "bearoff-18x3"] {
            for small in smaller(&name.parse().unwrap()) {
                assert!(small.parse::<TableName>().is_ok(), "{small}");
            }
        }
    }
}
