//! `strata verify`: checks a finished table at one of three levels, each of which says what it proves and what it does not.

use crate::failure::{FAILED, Failure, chain};
use crate::output::{self, Stream, paint};
use crate::progress::{Meter, time_left};
use crate::resources;
use crate::signals;
use crate::table;
use crate::units;
use clap::ValueEnum;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Instant;
use strata_games::Keep;
use strata_storage::{FileLevel, Manifest, Problem, verify_files};
use strata_worker::bellman::{BellmanProblem, verify_bellman};

/// Which table, and how thoroughly.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Levels:
  structure  proves that every file is there with its length, its headers and the manifest, and nothing else;
             not that the contents are whole
  hash       proves that every byte is as it was published;
             not that what was published is right
  bellman    proves that every stored value (or a sample) follows from the values it depends on, and that counts agree
             with theory where theory knows them; not that the files are as they were published (that is hash), nor
             that the rules are the right ones. Not for tables that keep less than values (+keep)

Examples:
  strata verify tables/2048-3x3
  strata verify tables/2048-3x3 --level bellman
  strata verify tables/2048-3x3 --level bellman --sample 1% --seed 7
  strata verify tables/2048-3x3 --json | jq .problems

Every problem is named, and the check goes on to the end. Exit code 1 when there is any.")]
pub struct Args {
    /// The directory of a finished table
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// How thoroughly
    #[arg(long, value_enum, default_value_t = Level::Hash)]
    level: Level,
    /// Share of the positions that is recomputed, for example 0.01 or 1% (bellman only)
    #[arg(long, value_name = "P", value_parser = units::parse_fraction)]
    sample: Option<f64>,
    /// Which sample (bellman only)
    #[arg(long, value_name = "N", requires = "sample")]
    seed: Option<u64>,
    /// Threads to check with [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// How thoroughly.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Structure,
    Hash,
    Bellman,
}

impl Level {
    fn proves(self) -> &'static str {
        match self {
            Level::Structure => "every file is there with its length, its headers and the manifest, and nothing else is",
            Level::Hash => "every byte is as it was published",
            Level::Bellman => {
                "the values that were recomputed follow from the values they depend on, and counts agree with theory"
            }
        }
    }

    fn does_not_prove(self, keep: Keep) -> &'static str {
        match self {
            Level::Structure => "that the contents are whole (--level hash)",
            Level::Hash if keep == Keep::Values => "that what was published is right (--level bellman)",
            Level::Hash => "that what was published is right (a second build must have the same root)",
            Level::Bellman => "that the files are as they were published (--level hash), nor that the rules are the right ones",
        }
    }
}

/// `--json`, and what the text is made of.
#[derive(Serialize, Debug)]
struct Outcome {
    dir: String,
    table: Option<String>,
    root: Option<String>,
    level: Level,
    ok: bool,
    problems: Vec<Finding>,
    files: u64,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    positions: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sample: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    /// Positions that could not be recomputed, because a file they depend on is damaged.
    unchecked: u64,
    /// Largest difference found, as a part of what the error bounds allow.
    #[serde(skip_serializing_if = "Option::is_none")]
    worst: Option<f64>,
    seconds: f64,
    interrupted: bool,
    proves: &'static str,
    does_not_prove: &'static str,
}

/// One thing that is wrong.
#[derive(Serialize, Debug, Default)]
struct Finding {
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    layer: Option<u32>,
    shard: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    section: Option<String>,
    /// Number of the position in its shard.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<String>,
    what: String,
}

impl From<Problem> for Finding {
    fn from(p: Problem) -> Self {
        let section = p.section.map(|s| s.to_string());
        Finding { path: Some(p.path), layer: p.layer, shard: p.shard, section, what: p.what, ..Finding::default() }
    }
}

impl From<BellmanProblem> for Finding {
    fn from(p: BellmanProblem) -> Self {
        Finding {
            layer: p.layer,
            shard: p.shard,
            key: p.ordinal,
            position: p.position,
            what: p.fault.to_string(),
            ..Finding::default()
        }
    }
}

impl Finding {
    fn line(&self) -> String {
        let mut place = Vec::new();
        place.extend(self.path.clone());
        place.extend(match (self.layer, self.shard) {
            (Some(layer), Some(shard)) => Some(format!("layer {layer} shard {shard}")),
            (Some(layer), None) => Some(format!("layer {layer}")),
            _ => None,
        });
        place.extend(self.section.clone());
        place.extend(self.key.map(|k| format!("key {k}")));
        place.extend(self.position.as_ref().map(|p| format!("position {p}")));
        if place.is_empty() { self.what.clone() } else { format!("{}: {}", place.join(", "), self.what) }
    }
}

/// Checks, prints, and fails when anything is wrong.
pub fn run(args: &Args) -> Result<(), Failure> {
    if args.sample.is_some() && args.level != Level::Bellman {
        return Err(Failure::usage("--sample goes with --level bellman only: the other levels look at every file")
            .help("add --level bellman, or leave --sample out"));
    }
    let runtime = crate::runtime()?;
    let _context = runtime.enter();
    // Stopping takes a moment only, and the bar belongs to whoever is checking: nothing is said about it here.
    signals::listen(|| {}).map_err(|e| Failure::failed(format!("cannot listen for signals: {e}")))?;
    let threads = args.threads.map_or_else(resources::threads, usize::from);
    let pool = resources::pool(threads)?;
    let start = Instant::now();
    let mut outcome = pool.install(|| check(args))?;
    outcome.seconds = start.elapsed().as_secs_f64();
    if args.json {
        output::json(&outcome)?;
    } else {
        output::result(&text(&outcome))?;
    }
    match signals::received() {
        Some(code) if outcome.interrupted => Err(Failure {
            code,
            message: "stopped before the end".into(),
            help: Some("run the same command again to check all of it".into()),
        }),
        _ if outcome.ok => Ok(()),
        _ => Err(Failure::silent(FAILED)),
    }
}

fn check(args: &Args) -> Result<Outcome, Failure> {
    let mut outcome = Outcome {
        dir: args.dir.display().to_string(),
        table: None,
        root: None,
        level: args.level,
        ok: false,
        problems: Vec::new(),
        files: 0,
        bytes: 0,
        positions: None,
        sample: None,
        seed: None,
        unchecked: 0,
        worst: None,
        seconds: 0.0,
        interrupted: false,
        proves: args.level.proves(),
        does_not_prove: args.level.does_not_prove(Keep::Values),
    };
    let mut bytes = resources::used_by(&args.dir);
    match table::open_files(&args.dir) {
        Ok(table) => {
            let keep = table::keep(table.manifest());
            if keep != Keep::Values {
                refuse_bellman(args, table.manifest())?;
            }
            outcome.does_not_prove = args.level.does_not_prove(keep);
            bytes = table.manifest().bytes;
            outcome.table = Some(table.manifest().table.clone());
            outcome.root = Some(table.manifest().root.to_string());
        }
        Err(table::OpenError::Damaged(_)) => {} // verify_files says what, and goes on with what it can
        Err(table::OpenError::Other(failure)) => return Err(failure),
    }
    let level = if args.level == Level::Hash { FileLevel::Hash } else { FileLevel::Structure };
    files(&args.dir, bytes, level, &mut outcome)?;
    if args.level == Level::Bellman && !outcome.interrupted {
        values(args, &mut outcome)?;
    }
    outcome.ok = outcome.problems.is_empty() && !outcome.interrupted;
    Ok(outcome)
}

/// Moves and sampled values depend on values that were not kept.
fn refuse_bellman(args: &Args, manifest: &Manifest) -> Result<(), Failure> {
    if args.level != Level::Bellman {
        return Ok(());
    }
    let (structure, hash) = (Level::Structure.proves(), Level::Hash.proves());
    let what = if table::keep(manifest) == Keep::Play { "moves" } else { "statistics" };
    let problem = format!("--level bellman: {} keeps {what} and not the values that they follow from", manifest.table);
    Err(Failure::usage(problem).help(format!("--level structure proves that {structure}; --level hash proves that {hash}")))
}

/// The files, with progress in bytes.
fn files(dir: &Path, all: u64, level: FileLevel, outcome: &mut Outcome) -> Result<(), Failure> {
    let meter = Meter::new("checking", all, |speed, rest| {
        let rate = speed.per_second().map(|s| format!("{:.0} MB/s  ", s / 1e6)).unwrap_or_default();
        rate + &time_left(speed, rest)
    });
    let report = verify_files(dir, level, &|bytes| meter.reach(bytes)).map_err(|e| Failure::failed(chain(&e)));
    meter.end();
    let report = report?;
    outcome.files = report.files;
    outcome.bytes = report.bytes;
    outcome.interrupted |= report.interrupted;
    outcome.problems.extend(report.problems.into_iter().map(Finding::from));
    Ok(())
}

/// The values, with progress in positions.
fn values(args: &Args, outcome: &mut Outcome) -> Result<(), Failure> {
    let opened = match table::open(&args.dir) {
        Ok(opened) => opened,
        Err(table::OpenError::Damaged(_)) => return Ok(()), // the files have told it, and without a manifest there is nothing to recompute
        Err(table::OpenError::Other(failure)) => return Err(failure),
    };
    let (sample, seed) = (args.sample.unwrap_or(1.0), args.seed.unwrap_or(0));
    outcome.sample = Some(sample);
    outcome.seed = args.sample.map(|_| seed);
    let keys = opened.table.manifest().keys;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a share of a count
    let all = (keys as f64 * sample).round() as u64;
    let meter = Meter::new("recomputing", all, |speed, rest| {
        let rate = speed.per_second().map(|s| format!("{} positions/s  ", units::rate(s))).unwrap_or_default();
        rate + &time_left(speed, rest)
    });
    let report = verify_bellman(opened.space.as_ref(), &opened.table, sample, seed, &|done| meter.reach(done));
    meter.end();
    let report = report.map_err(|e| Failure::failed(chain(&e)))?;
    outcome.interrupted |= report.interrupted;
    outcome.positions = Some(report.keys);
    outcome.unchecked = report.unchecked;
    outcome.worst = Some(report.worst);
    let unlisted = report.found.saturating_sub(report.problems.len() as u64);
    outcome.problems.extend(report.problems.into_iter().map(Finding::from));
    if unlisted > 0 {
        outcome.problems.push(Finding { what: format!("and {} more", units::plural(unlisted, "problem")), ..Finding::default() });
    }
    Ok(())
}

fn text(outcome: &Outcome) -> String {
    let mut text = String::new();
    for problem in &outcome.problems {
        text.push_str(&format!("{} {}\n", paint(Stream::Out, "1;31", "problem:"), problem.line()));
    }
    let level = outcome.level.to_possible_value().map_or_else(String::new, |v| v.get_name().to_string());
    let name = outcome.table.clone().unwrap_or_else(|| outcome.dir.clone());
    let seconds = units::duration(std::time::Duration::try_from_secs_f64(outcome.seconds).unwrap_or_default());
    let positions = outcome.positions.map(|n| format!("{}, ", units::plural(n, "position"))).unwrap_or_default();
    let unchecked = match outcome.unchecked {
        0 => String::new(),
        n => format!("{} could not be recomputed, because a file they depend on is damaged\n", units::plural(n, "position")),
    };
    let sample = match (outcome.sample, outcome.seed) {
        (Some(share), Some(seed)) => format!("a sample of {} %, seed {seed}: ", share * 100.0),
        _ => String::new(),
    };
    let did =
        format!("{sample}{positions}{}, {} in {seconds}", units::plural(outcome.files, "file"), units::bytes(outcome.bytes));
    let verdict = if outcome.interrupted {
        format!("stopped early, {} so far", units::plural(outcome.problems.len() as u64, "problem"))
    } else if outcome.ok {
        paint(Stream::Out, "1;32", "ok").into_owned()
    } else {
        paint(Stream::Out, "1;31", &units::plural(outcome.problems.len() as u64, "problem")).into_owned()
    };
    text.push_str(&format!("{name}: level {level}: {verdict} ({did})\n"));
    text.push_str(&unchecked);
    if let (Some(worst), true) = (outcome.worst, outcome.ok) {
        text.push_str(&format!("largest difference: {:.1} % of what the error bounds allow\n", worst * 100.0));
    }
    if outcome.ok {
        text.push_str(&format!("proves that {}\ndoes not prove {}\n", outcome.proves, outcome.does_not_prove));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_names_file_shard_section_and_position() {
        let finding = Finding {
            path: Some("shards/00004/0-ab.shard".into()),
            layer: Some(4),
            shard: Some(0),
            section: Some("index".into()),
            key: None,
            position: Some("2 0/0 2".into()),
            what: "is wrong".into(),
        };
        assert_eq!(finding.line(), "shards/00004/0-ab.shard, layer 4 shard 0, index, position 2 0/0 2: is wrong");
    }
}
