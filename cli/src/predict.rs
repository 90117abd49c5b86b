//! `strata predict`: what a build will need, before anything is built.
//!
//! Positions, disk, traffic and memory come from the plan. The time comes from a measurement: for about ten seconds the table, or smaller
//! ones of the same game, are built in a temporary folder, on the threads that a build would have. What the forward pass
//! finishes in that time is counted exactly.

use crate::args::{open_space, table_name};
use crate::failure::Failure;
use crate::forecast::{Forecast, disk_seconds, measured};
use crate::keep::{KeepArgs, named};
use crate::output;
use crate::resources;
use crate::units;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;
use strata_worker::estimate::Known;

/// Which table.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata predict 2048-3x3
  strata predict 2048-4x3 --keep stats --disk 80GB
  strata predict bearoff-6x15 --json

Positions are exact where theory, a published count or a quick count knows them; elsewhere they are estimates, or upper
bounds, marked so. Disk and time follow from the positions. The time comes from a build of about ten seconds in the
temporary folder (TMPDIR), files, hashes and syncs included. For other numbers of cores it is the same work divided
among them, unless reading and writing at 500 MB a second, as a SATA SSD does, would take longer: then the disk is the
bottleneck.")]
pub struct Args {
    /// Name of the table, for example 2048-3x3
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    keep: KeepArgs,
    /// Threads that the build will have [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Seconds that the measurement may take
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
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
    stored: Positions,
    states: Positions,
    table_bytes: u64,
    disk_bytes: u64,
    disk_free_bytes: Option<u64>,
    read_bytes: u64,
    /// Of that, what does not stay in memory.
    disk_read_bytes: u64,
    written_bytes: u64,
    memory_bytes: u64,
    memory_free_bytes: Option<u64>,
    threads: usize,
    /// Seconds of one core. Absent when the measurement did not get far enough.
    core_seconds: Option<f64>,
    /// Seconds on the threads.
    seconds: Option<f64>,
    cores: Vec<OnCores>,
}

/// A number of positions.
#[derive(Serialize, Debug)]
struct Positions {
    count: u64,
    exact: bool,
}

impl From<Known> for Positions {
    fn from(known: Known) -> Self {
        Self { count: known.bound(), exact: known.is_exact() }
    }
}

/// The time on a number of cores, and what decides it.
#[derive(Serialize, Debug, PartialEq)]
struct OnCores {
    cores: u32,
    seconds: f64,
    bottleneck: &'static str,
}

/// Numbers of cores that a time is given for.
const CORES: [u32; 3] = [2, 16, 128];

/// Prints the prediction.
pub fn run(args: &Args) -> Result<(), Failure> {
    let name = named(table_name(&args.name)?, args.keep.keep, args.keep.disk)?;
    let space = open_space(&name)?;
    let threads = args.threads.map_or_else(resources::threads, usize::from);
    let (plan, core_seconds) = measured(space.as_ref(), Duration::from_secs(args.seconds), threads)?;
    if !args.json {
        return output::result(&text(&name.to_string(), &plan, threads, core_seconds));
    }
    let estimate = &plan.estimate;
    output::json(&Prediction {
        table: name.to_string(),
        layers: estimate.layers,
        shards: estimate.shards,
        tasks: estimate.tasks,
        positions: estimate.keys.into(),
        stored: estimate.stored.into(),
        states: estimate.states.into(),
        table_bytes: estimate.table_bytes,
        disk_bytes: estimate.disk_bytes,
        disk_free_bytes: resources::free_disk(&PathBuf::from(".")),
        read_bytes: estimate.read_bytes,
        disk_read_bytes: estimate.disk_reads(resources::available_memory().unwrap_or(0)),
        written_bytes: estimate.written_bytes,
        memory_bytes: estimate.memory_bytes,
        memory_free_bytes: resources::available_memory(),
        threads,
        core_seconds,
        seconds: core_seconds.map(|seconds| (seconds / threads as f64).max(disk_seconds(&plan))),
        cores: core_seconds.map_or_else(Vec::new, |seconds| on_cores(&plan, seconds)),
    })
}

/// The time on several numbers of cores.
fn on_cores(plan: &Forecast, core_seconds: f64) -> Vec<OnCores> {
    let disk = disk_seconds(plan);
    let on = |cores: u32| {
        let computing = core_seconds / f64::from(cores);
        let (seconds, bottleneck) = if computing >= disk { (computing, "cores") } else { (disk, "disk") };
        OnCores { cores, seconds, bottleneck }
    };
    CORES.into_iter().map(on).collect()
}

fn text(name: &str, plan: &Forecast, threads: usize, core_seconds: Option<f64>) -> String {
    let estimate = &plan.estimate;
    let most = match estimate.keys {
        Known::AtMost(_) => "at most",
        Known::About(_) | Known::Exact(_) => "about",
    };
    let duration = |seconds: f64| units::duration(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX));
    let free =
        |bytes: Option<u64>, place: &str| bytes.map_or_else(String::new, |f| format!("; {} are free {place}", units::bytes(f)));
    let disk_free = free(resources::free_disk(&PathBuf::from(".")), "in this directory");
    let memory_free = free(resources::available_memory(), "now");
    let mut rows =
        vec![("table", name.to_string()), ("layers", units::count(estimate.layers)), ("positions", positions(estimate.keys))];
    if estimate.states != estimate.keys {
        rows.push(("states", positions(estimate.states)));
    }
    if estimate.stored != estimate.keys {
        rows.push(("published", positions(estimate.stored)));
    }
    let from_disk = estimate.disk_reads(resources::available_memory().unwrap_or(0));
    let [written, read, from_disk] = [estimate.written_bytes, estimate.read_bytes, from_disk].map(units::bytes);
    let traffic = format!("{written} written, {read} read, {from_disk} of it from the disk");
    rows.extend([
        ("tasks", units::count(estimate.tasks)),
        ("disk", disk(plan) + &disk_free),
        ("traffic", traffic),
        ("memory", format!("{} for the largest task, once for every worker{memory_free}", units::bytes(estimate.memory_bytes))),
    ]);
    match core_seconds {
        None => rows.push(("time", "not known: the measurement was too short (--seconds)".into())),
        Some(seconds) => {
            let here = duration((seconds / threads as f64).max(disk_seconds(plan)));
            let all = units::plural(threads as u64, "thread");
            rows.push(("time", format!("{most} {here} on {all} of this machine; {:.2} core-hours", seconds / 3600.0)));
            for on in on_cores(plan, seconds) {
                let what = format!(
                    "{most} {} on {} cores like these; the bottleneck: {}",
                    duration(on.seconds),
                    on.cores,
                    on.bottleneck
                );
                rows.push(("", what));
            }
        }
    }
    output::facts(&rows)
}

/// A number of positions, and how much it is worth.
pub fn positions(keys: Known) -> String {
    let worth = match keys {
        Known::Exact(_) => "exact",
        Known::About(_) => "estimate",
        Known::AtMost(_) => "upper bound",
    };
    format!("{} ({worth})", units::count(keys.bound()))
}

/// Room on the disk. A bound even where the positions are known: how well values compress shows only when they are there.
pub fn disk(plan: &Forecast) -> String {
    let (table, peak) = (units::bytes(plan.estimate.table_bytes), units::bytes(plan.estimate.disk_bytes));
    let most = if matches!(plan.estimate.keys, Known::About(_)) { "about" } else { "at most" };
    format!("{most} {table} for the table, {peak} while it is built")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upper_bounds_are_marked() {
        assert_eq!(positions(Known::Exact(54_264)), "54,264 (exact)");
        assert_eq!(positions(Known::AtMost(1_000)), "1,000 (upper bound)");
        assert_eq!(positions(Known::About(1_000)), "1,000 (estimate)");
    }

    #[test]
    fn the_disk_is_the_bottleneck_of_many_cores() {
        let space = strata_games::open(&"2048-3x3".parse().unwrap()).unwrap();
        let mut plan = crate::forecast::forecast(space.as_ref(), None);
        (plan.estimate.stage_bytes, plan.estimate.written_bytes) = (Vec::new(), 50_000_000_000);
        let on = |cores, seconds, bottleneck| OnCores { cores, seconds, bottleneck };
        assert_eq!(on_cores(&plan, 1600.0), [on(2, 800.0, "cores"), on(16, 100.0, "cores"), on(128, 100.0, "disk")]);
    }
}
