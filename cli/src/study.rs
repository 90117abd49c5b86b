//! `strata study doubles`: what dice that show doubles too often, or too seldom, do to a bearoff table. It builds the tables in memory, one for each
//! bias, and compares column 0 of every position with that of fair dice.

use crate::failure::Failure;
use crate::{output, resources, signals};
use clap::Subcommand;
use serde::Serialize;
use strata_games::memory::{MemoryIo, MemoryTable};
use strata_games::{FAIR_DOUBLES, Key, SpecBearoff, SpecTwoSided, StateSpace, TableName, TaskError};

/// What is varied.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata study doubles
  strata study doubles bearoff-6x15 --percent 1,2,5,-1
  strata study doubles bearoff-6x6v6 --json")]
pub struct Args {
    #[command(subcommand)]
    of: Of,
}

#[derive(Subcommand, Debug)]
enum Of {
    /// The chance of a double, the other rolls sharing the rest
    Doubles(Doubles),
}

#[derive(clap::Args, Debug)]
struct Doubles {
    /// A bearoff table, built here in memory
    #[arg(value_name = "NAME", default_value = "bearoff-6x15")]
    name: TableName,
    /// How much likelier each double is, in percent; negative for less likely
    #[arg(long, value_name = "LIST", value_delimiter = ',', allow_hyphen_values = true, default_value = "-5,-1,1,5,20")]
    percent: Vec<f64>,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// One bias.
#[derive(Serialize, Debug)]
struct Row {
    percent: f64,
    /// The chance that a roll is a double.
    doubles: f64,
    /// Column 0 at the start.
    value: f64,
    /// Its change.
    change: f64,
    /// The largest change of all positions, and where it is.
    largest_change: f64,
    at: String,
}

#[derive(Serialize, Debug)]
struct Study {
    table: String,
    start: String,
    column: &'static str,
    /// With fair dice.
    value: f64,
    /// Whether changes are parts of the value; otherwise differences.
    relative: bool,
    rows: Vec<Row>,
}

/// Most positions that are kept in memory.
const MOST_POSITIONS: u64 = 20_000_000;

/// Prints the study.
pub fn run(args: &Args) -> Result<(), Failure> {
    let Of::Doubles(args) = &args.of;
    let runtime = crate::runtime()?;
    let _context = runtime.enter();
    signals::listen(|| {}).map_err(|e| Failure::failed(format!("cannot listen for signals: {e}")))?;
    let pool = resources::pool(args.threads.map_or_else(resources::threads, usize::from))?;
    let fair = with_doubles(&args.name, FAIR_DOUBLES)?;
    let study = pool.install(|| study(&fair, &args.percent))?;
    if args.json { output::json(&study) } else { output::result(&text(&study)) }
}

/// The table with other dice.
fn with_doubles(name: &TableName, doubles: f64) -> Result<TableName, Failure> {
    if doubles == FAIR_DOUBLES && name.to_string().contains("+doubles") {
        return Err(Failure::usage(format!("{name}: the study varies the chance of a double itself"))
            .help("leave +doubles out of the name"));
    }
    match name {
        TableName::Bearoff(spec) => Ok(TableName::Bearoff(SpecBearoff { doubles, ..spec.clone() })),
        TableName::TwoSided(spec) => Ok(TableName::TwoSided(SpecTwoSided { doubles, ..spec.clone() })),
        TableName::Game2048(_) => {
            Err(Failure::usage(format!("there are no dice in {name}")).help("name a table such as bearoff-6x15"))
        }
    }
}

fn study(name: &TableName, percent: &[f64]) -> Result<Study, Failure> {
    if let Some(bad) = percent.iter().find(|&&percent| !(percent > -100.0 && percent < 500.0)) {
        return Err(Failure::usage(format!(
            "--percent {bad}: doubles have a chance of 1/6 with fair dice, and more than 0 and less than 1 with any"
        ))
        .help("give numbers from -99 to 499"));
    }
    let (space, fair) = solve(name)?;
    let start = space.starts().into_iter().next().ok_or_else(|| Failure::failed(format!("{name} has no start")))?;
    let start_key = space.rank(start.state).ok_or_else(|| Failure::failed(format!("{name} does not hold its start")))?;
    let value = |table: &MemoryTable, key: Key| table.value(key, 0).unwrap_or(f64::NAN);
    // A number of rolls changes by a part of itself; an equity may be 0.
    let relative = matches!(name, TableName::Bearoff(_));
    let mut rows = Vec::new();
    for &percent in percent {
        let doubles = FAIR_DOUBLES * (1.0 + percent / 100.0);
        let (_, biased) = solve(&with_doubles(name, doubles)?)?;
        let change = |key: Key| {
            let (fair, biased) = (value(&fair, key), value(&biased, key));
            if relative && fair != 0.0 { biased / fair - 1.0 } else { biased - fair }
        };
        let largest = fair.keys().map(|(key, _)| (change(key), key)).reduce(|a, b| if b.0.abs() > a.0.abs() { b } else { a });
        let (largest_change, at) = largest.ok_or_else(|| Failure::failed(format!("{name} has no positions")))?;
        let at = space.unrank(at).map_or_else(String::new, |position| space.format(position));
        rows.push(Row { percent, doubles, value: value(&biased, start_key), change: change(start_key), largest_change, at });
    }
    let (table, column) = (name.to_string(), space.scalar_columns()[0]);
    Ok(Study { table, start: start.label, column, value: value(&fair, start_key), relative, rows })
}

/// Builds a table in memory.
fn solve(name: &TableName) -> Result<(Box<dyn StateSpace>, MemoryTable), Failure> {
    let space = strata_games::open(name).map_err(|e| Failure::failed(e.to_string()).help(e.help.clone()))?;
    let positions: u64 = space.layers().iter().filter_map(|info| info.keys).sum();
    if positions > MOST_POSITIONS {
        let what = format!("{name} has {positions} positions, and a study keeps at most {MOST_POSITIONS} in memory");
        return Err(Failure::failed(what).help("study a smaller table, or build both and compare what `strata probe` says"));
    }
    // Two tables at a time, and of each what is kept and what was just made; a distribution has up to some 30 numbers.
    let numbers = space.scalar_columns().len() as u64 + 30 * space.dist_columns().len() as u64;
    let needed = positions * numbers * 8 * 4;
    let help = "study a smaller table, or use a machine with more memory";
    resources::expect_memory(needed, &format!("studying {name} takes up to"), help)?;
    let mut io = MemoryIo::new(space.as_ref());
    let failed = |e: TaskError| Failure::failed(format!("{name} cannot be built: {e}"));
    while io.step().map_err(failed)?.is_some() {
        if signals::received().is_some() {
            return Err(crate::gnubg::compare::stopped());
        }
    }
    let table = io.finish().map_err(failed)?;
    Ok((space, table))
}

fn text(study: &Study) -> String {
    let change = |change: f64| if study.relative { format!("{:+.3} %", change * 100.0) } else { format!("{change:+.6}") };
    let row = |row: &Row| {
        let likelier = format!("{:+} %", row.percent);
        vec![
            likelier,
            format!("{:.6}", row.doubles),
            format!("{:.6}", row.value),
            change(row.change),
            change(row.largest_change),
            row.at.clone(),
        ]
    };
    let head = output::facts(&[
        ("table", study.table.clone()),
        ("start", study.start.clone()),
        (study.column, format!("{:.6} with fair dice", study.value)),
    ]);
    let columns = ["doubles likelier by", "chance of a double", study.column, "change", "largest change", "at"];
    head + "\n" + &output::table(&columns, 0, study.rows.iter().map(row).collect::<Vec<_>>())
}
