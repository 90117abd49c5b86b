//! `strata import`: reads a file of another program, checks all that can be checked of it, and compares it with a table. Today these are the
//! bearoff databases of GNU Backgammon, which has no check of its own: a file cut short answers with an equity of -1.

mod one_sided;
mod two_sided;

use crate::failure::Failure;
use crate::gnubg::compare::Difference;
use crate::gnubg::{HEADER, Header};
use crate::table::{self, Opened};
use crate::{output, resources, signals, units};
use serde::Serialize;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use strata_games::TableName;

/// Which file, and what to do with it.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  strata import gnubg_os0.bd
  strata import gnubg_ts.bd --table tables/bearoff-6x8v8
  strata import gnubg_ts.bd --position '0,0,0,0,0,2 v 1,1,0,0,0,0'

Checked are the header and the length; of a one-sided file also that its entries follow each other, and that the chances of every
position add up to 65,535. With --table every number is compared with the exact one. makebearoff rounds at each step, so its values
drift: by less than 0.00003 in equities for each checker of a side and one more, and 0.003 rolls in means, in all files whose MD5 sums
are published (docs/BEAROFF.md). Numbers that are further off are counted, and the exit code is 1.")]
pub struct Args {
    /// The file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Compare every number with this table
    #[arg(long, value_name = "DIR")]
    table: Option<PathBuf>,
    /// Print what the file has for a position, instead of checking it
    #[arg(long, value_name = "POSITION", conflicts_with = "table", allow_hyphen_values = true)]
    position: Option<String>,
    /// Threads [default: all cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What was found.
#[derive(Serialize, Debug)]
struct Report {
    file: String,
    kind: String,
    positions: u64,
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    compared: Option<Compared>,
    /// What is wrong, the first of each kind.
    problems: Vec<String>,
}

/// Beside a table.
#[derive(Serialize, Debug)]
struct Compared {
    table: String,
    largest_difference: f64,
    at: String,
    /// How far makebearoff's rounding is known to move a value.
    known_drift: f64,
    /// Numbers that are further off.
    over: u64,
}

impl Report {
    /// Adds what a comparison with a table found; `numbers` are what was compared, and how far off they are.
    fn compare(&mut self, table: &TableName, difference: Difference, known_drift: f64, (numbers, off): (&str, &str)) {
        let Difference { largest, at, over } = difference;
        if over > 0 {
            let count = units::count(over);
            self.problems.push(format!(
                "{count} {numbers} are further from the table than rounding moves them; the worst is {largest:.6} {off}, at {at}"
            ));
        }
        self.compared = Some(Compared { table: table.to_string(), largest_difference: largest, at, known_drift, over });
    }
}

/// A file that is open, and whose header and length are right.
struct Database {
    file: File,
    header: Header,
    bytes: u64,
    shown: String,
    /// As it was given.
    path: String,
}

impl Database {
    fn open(args: &Args) -> Result<Self, Failure> {
        let shown = output::shell_quote(&args.file.to_string_lossy()).into_owned();
        let cannot = |e: io::Error| Failure::failed(format!("cannot read {shown}: {e}"));
        let is_file = std::fs::metadata(&args.file).map_err(cannot)?.is_file();
        if !is_file {
            return Err(Failure::usage(format!("{shown} is not a file")).help("name a file such as gnubg_ts.bd"));
        }
        let file = File::open(&args.file).map_err(cannot)?;
        let bytes = file.metadata().map_err(cannot)?.len();
        let mut start = vec![0; HEADER.min(usize::try_from(bytes).unwrap_or(HEADER))];
        file.read_exact_at(&mut start, 0).map_err(cannot)?;
        let header = Header::parse(&start).map_err(|what| {
            Failure::failed(format!("{shown} is no bearoff database of GNU Backgammon: {what}"))
                .help("`strata export` writes such files, and GNU Backgammon's makebearoff")
        })?;
        Ok(Self { file, header, bytes, shown, path: args.file.display().to_string() })
    }

    /// Reads bytes at a place.
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Failure> {
        self.file.read_exact_at(into, at).map_err(|e| Failure::failed(format!("cannot read {}: {e}", self.shown)))
    }

    /// Reads all of it, if there is memory for it.
    fn read_all(&self, doing: &str) -> Result<Vec<u8>, Failure> {
        resources::expect_memory(self.bytes, &format!("{doing} it takes"), "use a machine with more memory")?;
        let mut bytes = vec![0; usize::try_from(self.bytes).unwrap_or(0)];
        self.read(0, &mut bytes)?;
        Ok(bytes)
    }

    /// What is known of a file of so many positions before anything in it was checked.
    fn report(&self, positions: u64) -> Report {
        let (file, kind) = (self.path.clone(), self.header.to_string());
        Report { file, kind, positions, bytes: self.bytes, compared: None, problems: Vec::new() }
    }

    /// Refuses a file of another length.
    fn expect_length(&self, expected: u64) -> Result<(), Failure> {
        let (shown, bytes) = (&self.shown, self.bytes);
        if bytes == expected {
            return Ok(());
        }
        let what = if bytes < expected { "it is cut short" } else { "something follows its end" };
        Err(Failure::failed(format!(
            "{shown} has {} bytes instead of {}: {what} ({})",
            units::count(bytes),
            units::count(expected),
            self.header
        ))
        .help("write the file again, with `strata export` or makebearoff"))
    }
}

/// Checks the file.
pub fn run(args: &Args) -> Result<(), Failure> {
    let database = Database::open(args)?;
    let runtime = crate::runtime()?;
    let _context = runtime.enter();
    signals::listen(|| {}).map_err(|e| Failure::failed(format!("cannot listen for signals: {e}")))?;
    let pool = resources::pool(args.threads.map_or_else(resources::threads, usize::from))?;
    if let Some(position) = &args.position {
        let answer = match database.header {
            Header::OneSided { .. } => one_sided::position(&database, position)?,
            Header::TwoSided { .. } => two_sided::position(&database, position)?,
        };
        return if args.json { output::json(&answer) } else { output::result(&text_of(&answer)) };
    }
    let opened = args.table.as_ref().map(|dir| table::open(dir).map_err(|e| e.into_failure(dir))).transpose()?;
    let report = pool.install(|| match database.header {
        Header::OneSided { .. } => one_sided::check(&database, opened.as_ref()),
        Header::TwoSided { .. } => two_sided::check(&database, opened.as_ref()),
    })?;
    if args.json {
        output::json(&report)?;
    } else {
        output::result(&text(&report))?;
    }
    if report.problems.is_empty() { Ok(()) } else { Err(Failure::silent(crate::failure::FAILED)) }
}

/// Refuses a table that is not the one of the file.
fn expect_table(database: &Database, opened: &Opened, expected: &str) -> Result<(), Failure> {
    let name = opened.space.name().to_string();
    if name == expected {
        return Ok(());
    }
    Err(Failure::usage(format!("{} is {}, and the table is {name}", database.shown, database.header))
        .help(format!("compare it with {expected}")))
}

fn text(report: &Report) -> String {
    let mut facts = vec![
        ("file", report.file.clone()),
        ("database", report.kind.clone()),
        ("positions", units::count(report.positions)),
        ("size", format!("{} ({} bytes)", units::bytes(report.bytes), units::count(report.bytes))),
    ];
    if let Some(Compared { table, largest_difference, at, known_drift, over }) = &report.compared {
        facts.push(("table", table.clone()));
        facts.push(("rounding", format!("off by at most {largest_difference:.6} from the table, at {at}")));
        facts.push((
            "drift",
            match over {
                0 => format!("none further off than makebearoff's known drift of {known_drift}"),
                _ => format!("{} numbers further off than makebearoff's known drift of {known_drift}", units::count(*over)),
            },
        ));
    }
    let problems = report.problems.iter().map(|problem| format!("problem: {problem}\n")).collect::<String>();
    let end = if report.problems.is_empty() { "ok\n" } else { "" };
    output::facts(&facts) + &problems + end
}

/// What a file has for one position.
#[derive(Serialize, Debug)]
struct Answer {
    file: String,
    kind: String,
    position: String,
    /// Where it is in the file.
    at: u64,
    /// Number by number, with its name.
    values: Vec<(String, f64)>,
}

fn text_of(answer: &Answer) -> String {
    let mut facts = vec![("file", answer.file.clone()), ("position", answer.position.clone()), ("byte", units::count(answer.at))];
    facts.extend(answer.values.iter().map(|(name, value)| (name.as_str(), format!("{value:.7}"))));
    output::facts(&facts)
}
