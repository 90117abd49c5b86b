//! The strongest check of a finished table: every value is recomputed from the values it depends on.
//!
//! For a key, all that chance and the player can do is worked out from the rules, the values of the keys that follow are looked
//! up, and
//!
//! ```text
//!     value(key) = Σ chance × best over choices (reward + value(key'))
//! ```
//!
//! must give the stored value; and so for every column that follows such a recursion
//! ([`Recursion`](strata_games::Recursion): in two-sided bearoff all five). Values are stored in 32 or 16 bits with a bound on their error, so the two may differ by the bound of the
//! key's own value, plus the largest bound of those it follows from (a weighted mean of bests moves no further than the values do),
//! plus a rounding of [`ROUNDING`] of the largest number in the sum.
//!
//! **What it proves**: with all keys checked, by induction from the last layer backwards, that every stored value is the value of optimal
//! play within the sum of these tolerances, and that no key that play can reach from a stored one or from a start is missing. **What
//! it does not prove**: that no unreachable key is stored, where theory does not give the counts; and nothing about the rules, which
//! it takes from the same code that built the table (though not from the kernels).
//!
//! Also checked: that ranks and positions are inverse and canonical; the numbers of keys where theory has them; the value over the random
//! start; that distributions sum to one and have the stored mean and variance.
//!
//! A key of 2048-3x3 has about 40 choices to look up. They are collected for some thousand keys, sorted by the shard they are in, and looked up
//! in batches ([`IndexSet::find_many`](strata_storage::IndexSet::find_many)) that overlap their cache misses.

mod batch;
mod laws;
mod sample;
mod views;

use batch::Batch;
use laws::{plan_problems, start_problems};
use rayon::prelude::*;
use sample::{Sample, Unit};
use std::fmt;
use strata_games::{Keep, StateSpace};
use strata_storage::Table;
use views::Views;

/// What rounding in f64 may make of a sum, relative to the largest number in it.
pub const ROUNDING: f64 = 1e-12;
/// Problems that a report lists; more are only counted.
pub const LISTED: usize = 1000;
/// Problems that one batch lists.
const LISTED_OF_BATCH: usize = 100;

/// Why nothing could be checked at all.
#[derive(thiserror::Error, Clone, PartialEq, Debug)]
pub enum BellmanError {
    /// The rules of one table, the values of another.
    #[error("the table is {found}, not {expected}")]
    OtherTable {
        /// What the manifest says.
        found: String,
        /// What the rules are for.
        expected: String,
    },
    /// The table keeps something else.
    #[error("{0} keeps no values that follow from each other")]
    NoValues(String),
    /// A sample that is no part.
    #[error("a sample of {0} is not possible; it must be more than 0 and at most 1")]
    BadSample(f64),
}

/// What is wrong.
#[derive(Clone, PartialEq, Debug)]
pub enum Fault {
    /// The stored value does not follow from the values after it.
    Value {
        /// Name of the column.
        column: String,
        /// As stored.
        stored: f64,
        /// As it follows.
        recomputed: f64,
        /// How far they may differ.
        tolerance: f64,
    },
    /// A position that can follow is not in the table.
    Missing {
        /// The position, in the game's notation.
        position: String,
        /// Its layer.
        layer: u32,
    },
    /// Position and rank are not each other's inverse, or the position does not stand for its symmetric ones.
    Rank {
        /// What is wrong with it.
        what: String,
    },
    /// A distribution breaks a law: its sum, its mean or its variance.
    Distribution {
        /// Name of the column.
        column: String,
        /// `sum`, `mean` or `variance`.
        law: &'static str,
        /// What the distribution gives.
        found: f64,
        /// What it should give.
        expected: f64,
        /// How far they may differ.
        tolerance: f64,
    },
    /// The values could not be read; the sentence names the file and its section.
    Unreadable {
        /// The reader's own words.
        what: String,
    },
    /// The table contradicts the plan or the theory of its game.
    Plan {
        /// How.
        what: String,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Value { column, stored, recomputed, tolerance } => write!(
                f,
                "the stored {column} is {stored}, but {recomputed} follows from the values after it ({:e} apart, {tolerance:e} allowed)",
                (stored - recomputed).abs()
            ),
            Fault::Missing { position, layer } => write!(f, "{position} of layer {layer} can follow, and is not in the table"),
            Fault::Distribution { column, law, found, expected, tolerance } => {
                write!(f, "the {law} of {column} is {found} instead of {expected} ({tolerance:e} allowed)")
            }
            Fault::Rank { what } | Fault::Unreadable { what } | Fault::Plan { what } => f.write_str(what),
        }
    }
}

/// Something that is wrong, and where.
#[derive(Clone, PartialEq, Debug)]
pub struct BellmanProblem {
    /// The layer, unless it is the whole table.
    pub layer: Option<u32>,
    /// The shard, unless it is the whole layer.
    pub shard: Option<u32>,
    /// Number of the key in the shard, unless it is the whole shard.
    pub ordinal: Option<u64>,
    /// The position, in the game's notation.
    pub position: Option<String>,
    /// What is wrong.
    pub fault: Fault,
}

impl BellmanProblem {
    fn of_table(fault: Fault) -> Self {
        Self { layer: None, shard: None, ordinal: None, position: None, fault }
    }

    fn of_shard(layer: u32, shard: u32, fault: Fault) -> Self {
        Self { layer: Some(layer), shard: Some(shard), ordinal: None, position: None, fault }
    }
}

impl fmt::Display for BellmanProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(self.layer.map(|layer| format!("layer {layer}")));
        parts.extend(self.shard.map(|shard| format!("shard {shard}")));
        parts.extend(self.ordinal.map(|ordinal| format!("key {ordinal}")));
        parts.extend(self.position.as_ref().map(|position| format!("position {position}")));
        if !parts.is_empty() {
            write!(f, "{}: ", parts.join(" "))?;
        }
        self.fault.fmt(f)
    }
}

/// What checking found.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct BellmanReport {
    /// What is wrong, by layer, shard and key; the first [`LISTED`].
    pub problems: Vec<BellmanProblem>,
    /// Number of problems, those included that are not listed.
    pub found: u64,
    /// Keys whose values were recomputed.
    pub keys: u64,
    /// Keys that could not be checked, because a file they depend on cannot be read. Each such file is one problem.
    pub unchecked: u64,
    /// Values looked up.
    pub look_ups: u64,
    /// Largest difference between a stored and a recomputed value, as part of what is allowed. Above 1 there is a problem.
    pub worst: f64,
    /// Whether it was stopped before the end.
    pub interrupted: bool,
}

impl BellmanReport {
    /// Whether everything that was looked at is right.
    pub fn is_clean(&self) -> bool {
        self.found == 0
    }

    fn add(&mut self, other: BellmanReport) {
        let room = LISTED.saturating_sub(self.problems.len());
        self.problems.extend(other.problems.into_iter().take(room));
        self.found += other.found;
        self.keys += other.keys;
        self.unchecked += other.unchecked;
        self.look_ups += other.look_ups;
        self.worst = self.worst.max(other.worst);
    }

    fn problem(&mut self, problem: BellmanProblem) {
        self.found += 1;
        if self.problems.len() < LISTED_OF_BATCH {
            self.problems.push(problem);
        }
    }

    fn problems(&mut self, problems: Vec<BellmanProblem>) {
        self.found += problems.len() as u64;
        let room = LISTED.saturating_sub(self.problems.len());
        self.problems.extend(problems.into_iter().take(room));
    }
}

/// Recomputes the values of a table from each other, on the rayon pool it is called in.
///
/// `sample` is the part of the keys to check, 1 for all; the same `seed` chooses the same keys, whatever the number of threads.
/// `progress` is called with the number of keys checked so far (of about `sample` times the table's keys), and says whether to go
/// on. Damage to files does not end it: it is a problem in the report.
///
/// # Errors
/// When nothing could be checked: see [`BellmanError`].
pub fn verify_bellman(
    space: &dyn StateSpace,
    table: &Table,
    sample: f64,
    seed: u64,
    progress: &(dyn Fn(u64) -> bool + Sync),
) -> Result<BellmanReport, BellmanError> {
    let (found, expected) = (table.manifest().table.clone(), space.name().to_string());
    if found != expected {
        return Err(BellmanError::OtherTable { found, expected });
    }
    if space.name().keep() != Keep::Values {
        return Err(BellmanError::NoValues(expected));
    }
    if !(sample > 0.0 && sample <= 1.0) {
        return Err(BellmanError::BadSample(sample));
    }
    let sample = Sample::new(sample, seed);
    let views = Views::new(space, table, &sample);
    let mut report = BellmanReport::default();
    report.problems(plan_problems(space, table.manifest()));
    let mut units = sample.units(table.manifest()).peekable();
    while units.peek().is_some() {
        // Windows in the order of layers, so that the few layers that play from one leads to are read once.
        let mut room = rayon::current_num_threads() as u64 * 8 * sample::UNIT_KEYS;
        let window: Vec<Unit> = std::iter::from_fn(|| {
            let unit = units.next_if(|_| room > 0)?;
            // Every unit costs something, however few its keys are.
            room = room.saturating_sub(unit.picked().max(16));
            Some(unit)
        })
        .collect();
        let checked: Vec<BellmanReport> =
            window.par_iter().map_init(|| Batch::new(space, &views, &sample), |batch, unit| batch.check(unit)).collect();
        checked.into_iter().for_each(|part| report.add(part));
        views.trim();
        if !progress(report.keys + report.unchecked) {
            report.interrupted = units.peek().is_some();
            break;
        }
    }
    let unreadable = views.unreadable();
    report.problems(unreadable);
    if !report.interrupted {
        report.problems(start_problems(space, &views, table.manifest()));
    }
    report.problems.sort_by_key(|problem| (problem.layer, problem.shard, problem.ordinal));
    Ok(report)
}

#[cfg(test)]
mod tests;
