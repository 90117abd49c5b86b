//! `strata predict`: what a build will need, before anything is built.
//!
//! Positions, disk and memory come from the plan. The time comes from a measurement: for about two seconds the plan is run in memory,
//! on the threads that a build would have. What the forward pass finishes in that time is counted exactly.

use crate::args::{open_space, table_name};
use crate::failure::{Failure, chain};
use crate::forecast::{Forecast, forecast};
use crate::output;
use crate::resources;
use crate::units;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;
use strata_worker::estimate::{Known, measure};

/// Which table.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata predict 2048-3x3
  strata predict 2048-4x3+horizon=200
  strata predict bearoff-6x15 --json

Positions are exact where theory, a published count or a quick count knows them, otherwise an upper bound, marked so.
Disk and time follow from the positions; an upper bound makes them upper bounds too. The time is that of the
computation, measured here for about two seconds; a slow disk adds to it.")]
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
    shards: u64,
    tasks: u64,
    positions: Positions,
    #[serde(skip_serializing_if = "Option::is_none")]
    states: Option<u64>,
    table_bytes: u64,
    disk_bytes: u64,
    disk_free_bytes: Option<u64>,
    memory_bytes: u64,
    memory_free_bytes: Option<u64>,
    threads: usize,
    /// Absent when the measurement did not get far enough.
    seconds: Option<f64>,
}

/// A number of stored positions.
#[derive(Serialize, Debug)]
struct Positions {
    count: u64,
    exact: bool,
}

/// How long the measurement takes.
const BUDGET: Duration = Duration::from_secs(2);

/// Prints the prediction.
pub fn run(args: &Args) -> Result<(), Failure> {
    let name = table_name(&args.name)?;
    let space = open_space(&name)?;
    let threads = args.threads.map_or_else(resources::threads, usize::from);
    let measured = resources::pool(threads)?
        .install(|| measure(space.as_ref(), BUDGET))
        .map_err(|e| Failure::failed(format!("the measurement failed: {}", chain(&e))))?;
    let plan = forecast(space.as_ref(), measured.keys.as_ref());
    let seconds = plan.estimate.seconds(&measured.speeds);
    if !args.json {
        return output::result(&text(&name.to_string(), &plan, threads, seconds));
    }
    let estimate = &plan.estimate;
    output::json(&Prediction {
        table: name.to_string(),
        layers: estimate.layers,
        shards: estimate.shards,
        tasks: estimate.tasks,
        positions: Positions { count: estimate.keys.bound(), exact: estimate.keys.is_exact() },
        states: plan.states,
        table_bytes: estimate.table_bytes,
        disk_bytes: estimate.disk_bytes,
        disk_free_bytes: resources::free_disk(&PathBuf::from(".")),
        memory_bytes: estimate.memory_bytes,
        memory_free_bytes: resources::available_memory(),
        threads,
        seconds,
    })
}

fn text(name: &str, plan: &Forecast, threads: usize, seconds: Option<f64>) -> String {
    let estimate = &plan.estimate;
    let most = if estimate.keys.is_exact() { "about" } else { "at most" };
    let time = match seconds.map(|s| Duration::try_from_secs_f64(s).unwrap_or(Duration::MAX)) {
        Some(time) => {
            format!(
                "{most} {} of computing on {} of this machine",
                units::duration(time),
                units::plural(threads as u64, "thread")
            )
        }
        None => "not known: no task of the plan is done in two seconds".into(),
    };
    let free =
        |bytes: Option<u64>, place: &str| bytes.map_or_else(String::new, |f| format!("; {} are free {place}", units::bytes(f)));
    let disk_free = free(resources::free_disk(&PathBuf::from(".")), "in this directory");
    let memory_free = free(resources::available_memory(), "now");
    let mut rows =
        vec![("table", name.to_string()), ("layers", units::count(estimate.layers)), ("positions", positions(estimate.keys))];
    rows.extend(plan.states.map(|n| ("states", format!("{} (exact)", units::count(n)))));
    rows.extend([
        ("tasks", units::count(estimate.tasks)),
        ("disk", disk(plan) + &disk_free),
        ("memory", format!("{} for the largest task, once for every worker{memory_free}", units::bytes(estimate.memory_bytes))),
        ("time", time),
    ]);
    output::facts(&rows)
}

/// A number of stored positions, and how much it is worth.
pub fn positions(keys: Known) -> String {
    format!("{} ({})", units::count(keys.bound()), if keys.is_exact() { "exact" } else { "upper bound" })
}

/// Room on the disk. A bound even where the positions are known: how well values compress shows only when they are there.
pub fn disk(plan: &Forecast) -> String {
    let (table, peak) = (units::bytes(plan.estimate.table_bytes), units::bytes(plan.estimate.disk_bytes));
    format!("at most {table} for the table, {peak} while it is built")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upper_bounds_are_marked() {
        assert_eq!(positions(Known::Exact(54_264)), "54,264 (exact)");
        assert_eq!(positions(Known::AtMost(1_000)), "1,000 (upper bound)");
    }
}
