//! Some thousand keys of one shard, checked together.

use super::laws::Laws;
use super::sample::{Sample, Unit};
use super::views::{View, Views};
use super::{BellmanProblem, BellmanReport, Fault, ROUNDING};
use std::ops::Range;
use std::sync::Arc;
use strata_games::{Aim, Bounded, Expansion, Key, Layer, Leaf, Position, Recursion, StateSpace};
use strata_storage::{IndexSet, Piece, ShardError};

/// Keys whose choices are looked up together: about 40,000 look-ups in 2048, two megabytes with their answers.
const TOGETHER: usize = 1024;
/// Most columns that a recursion reads.
const MOST_READS: usize = 4;
/// What [`IndexSet::find_many`] answers for a rank that is not in the set.
const ABSENT: u64 = u64::MAX;

/// What is known of the value of a choice.
#[derive(Clone, Copy)]
enum Looked {
    /// It has no key, so its gain is all.
    Nothing,
    /// Value and bound on its error.
    Value(f64, f64),
    Missing,
    Unreadable,
}

/// Look-ups in one shard.
struct Group {
    layer: Layer,
    /// The ranks it takes: those of the shard, or just one that is in no shard.
    ranks: Range<u64>,
    shard: u32,
    view: Option<Arc<View>>,
    /// Whether the table has the shard, readable or not.
    exists: bool,
    wanted: Vec<u64>,
    leaves: Vec<usize>,
}

/// The memory of one thread, used again for every unit.
pub(super) struct Batch<'a> {
    space: &'a dyn StateSpace,
    views: &'a Views<'a>,
    sample: &'a Sample,
    laws: Laws,
    expansion: Expansion,
    /// Ends of the keys' branches.
    ends: Vec<usize>,
    looked: Vec<Looked>,
    groups: Vec<Group>,
    found: Vec<u64>,
}

/// One key that is checked.
struct Checked {
    ordinal: u64,
    position: Position,
}

impl<'a> Batch<'a> {
    pub(super) fn new(space: &'a dyn StateSpace, views: &'a Views<'a>, sample: &'a Sample) -> Self {
        Self {
            space,
            views,
            sample,
            laws: Laws::new(space),
            expansion: Expansion::default(),
            ends: Vec::new(),
            looked: Vec::new(),
            groups: Vec::new(),
            found: Vec::new(),
        }
    }

    pub(super) fn check(&mut self, unit: &Unit) -> BellmanReport {
        let mut report = BellmanReport::default();
        let picked = self.sample.pick(unit);
        let Some(view) = self.views.get(unit.layer, unit.shard) else {
            report.unchecked += picked.len() as u64;
            return report;
        };
        if let Err(error) = self.check_picked(unit, &view, &picked, &mut report) {
            self.views.note(unit.layer, unit.shard, &error);
            report.unchecked = picked.len() as u64 - report.keys;
        }
        report
    }

    fn check_picked(&mut self, unit: &Unit, view: &View, picked: &[u64], report: &mut BellmanReport) -> Result<(), ShardError> {
        let index = view.index()?;
        let ranks = ranks_of(&index, picked, self.sample.is_everything());
        for (picked, ranks) in picked.chunks(TOGETHER).zip(ranks.chunks(TOGETHER)) {
            self.expansion.clear();
            self.ends.clear();
            let mut keys = Vec::with_capacity(picked.len());
            for (&ordinal, &rank) in picked.iter().zip(ranks) {
                let key = Key { layer: Layer(unit.layer), rank: unit.first_rank.saturating_add(rank) };
                match self.position(key) {
                    Ok(position) => {
                        self.space.expand(position, &mut self.expansion);
                        self.ends.push(self.expansion.branches.len());
                        keys.push(Checked { ordinal, position });
                    }
                    Err(what) => {
                        report.keys += 1;
                        report.problem(BellmanProblem {
                            ordinal: Some(ordinal),
                            ..BellmanProblem::of_shard(unit.layer, unit.shard, Fault::Rank { what })
                        });
                    }
                }
            }
            self.group();
            let mut unchecked = 0;
            for by in self.space.recursions() {
                self.look_up(by, report);
                unchecked = unchecked.max(self.compare(by, unit, view, &keys, report)?);
            }
            report.keys += keys.len() as u64 - unchecked;
            report.unchecked += unchecked;
            for key in &keys {
                for fault in self.laws.faults(view, key.ordinal)? {
                    report.problem(self.problem(unit, key, fault));
                }
            }
        }
        Ok(())
    }

    /// The position of a key, if ranks and positions are each other's inverse there.
    fn position(&self, key: Key) -> Result<Position, String> {
        let Some(position) = self.space.unrank(key) else {
            return Err(format!("rank {} is stored, and no position of the layer has it", key.rank));
        };
        if self.space.rank(position) != Some(key) {
            return Err(format!("rank {} is that of {}, which has another rank", key.rank, self.space.format(position)));
        }
        if self.space.canonical(position) != position {
            return Err(format!(
                "rank {} is that of {}, which another position stands for",
                key.rank,
                self.space.format(position)
            ));
        }
        Ok(position)
    }

    /// Sorts the choices that lead to keys by the shard that they lead to.
    fn group(&mut self) {
        self.groups.iter_mut().for_each(|group| {
            group.wanted.clear();
            group.leaves.clear();
        });
        let mut last = 0;
        for (i, leaf) in self.expansion.leaves.iter().enumerate() {
            let Some(key) = leaf.key else { continue };
            let takes = |group: &Group| group.layer == key.layer && group.ranks.contains(&key.rank);
            if !self.groups.get(last).is_some_and(takes) {
                last = self.groups.iter().position(takes).unwrap_or_else(|| {
                    self.groups.push(open_group(self.views, key));
                    self.groups.len() - 1
                });
            }
            let group = &mut self.groups[last];
            group.wanted.push(key.rank - group.ranks.start);
            group.leaves.push(i);
        }
        // Groups hold shards open: the next unit may be layers away.
        self.groups.retain(|group| !group.wanted.is_empty());
    }

    /// Finds the values of all choices that lead to keys.
    fn look_up(&mut self, by: &Recursion, report: &mut BellmanReport) {
        self.looked.clear();
        self.looked.resize(self.expansion.leaves.len(), Looked::Nothing);
        for group in &self.groups {
            report.look_ups += group.wanted.len() as u64;
            if let Err(error) = fill(group, by, &mut self.found, &mut self.looked) {
                self.views.note(group.layer.0, group.shard, &error);
                group.leaves.iter().for_each(|&leaf| self.looked[leaf] = Looked::Unreadable);
            }
        }
    }

    /// Recomputes the values of a column and compares them with those stored. How many could not be.
    fn compare(
        &self,
        by: &Recursion,
        unit: &Unit,
        view: &View,
        keys: &[Checked],
        report: &mut BellmanReport,
    ) -> Result<u64, ShardError> {
        let (mut branch, mut leaf) = (0, 0);
        let mut unchecked = 0;
        for (key, &end) in keys.iter().zip(&self.ends) {
            let branches = &self.expansion.branches[branch..end];
            let first = leaf;
            leaf = branches.last().map_or(first, |branch| branch.end);
            branch = end;
            let (stored, own) = view.scalar(by.column, key.ordinal)?;
            match self.recompute(by, branches, first) {
                Recomputed::Value { value, bound, largest } => {
                    let tolerance = own + bound + ROUNDING * largest.max(stored.abs());
                    let apart = (value - stored).abs();
                    // Written so that NaN is a problem too.
                    if apart <= tolerance {
                        report.worst = report.worst.max(if tolerance > 0.0 { apart / tolerance } else { 0.0 });
                    } else {
                        report.worst = report.worst.max(if tolerance > 0.0 { apart / tolerance } else { f64::INFINITY });
                        let column = self.space.scalar_columns()[by.column].to_owned();
                        report.problem(self.problem(unit, key, Fault::Value { column, stored, recomputed: value, tolerance }));
                    }
                }
                // Said once is enough.
                Recomputed::Missing(_) if by.column != self.space.recursions()[0].column => {}
                Recomputed::Missing(child) => {
                    let position =
                        self.space.unrank(child).map_or_else(|| format!("rank {}", child.rank), |p| self.space.format(p));
                    report.problem(self.problem(unit, key, Fault::Missing { position, layer: child.layer.0 }));
                }
                Recomputed::Unreadable => unchecked += 1,
            }
        }
        Ok(unchecked)
    }

    fn recompute(&self, by: &Recursion, branches: &[strata_games::Branch], mut leaf: usize) -> Recomputed {
        let (mut value, mut bound, mut largest) = (0.0, 0.0f64, 0.0f64);
        for branch in branches {
            let leaves = leaf..branch.end;
            leaf = branch.end;
            if leaves.is_empty() {
                let terminal = (by.end)(branch.terminal);
                value += branch.chance * terminal;
                largest = largest.max(terminal.abs());
                continue;
            }
            match best(self.space.aim(), &self.expansion.leaves[leaves.clone()], &self.looked[leaves]) {
                Ok((best, error)) => {
                    value += branch.chance * best;
                    bound = bound.max(error);
                    largest = largest.max(best.abs());
                }
                Err(why) => return why,
            }
        }
        Recomputed::Value { value, bound, largest }
    }

    fn problem(&self, unit: &Unit, key: &Checked, fault: Fault) -> BellmanProblem {
        let position = Some(self.space.format(key.position));
        BellmanProblem { ordinal: Some(key.ordinal), position, ..BellmanProblem::of_shard(unit.layer, unit.shard, fault) }
    }
}

enum Recomputed {
    /// The value, the largest bound of the values it follows from, the largest number in the sum.
    Value {
        value: f64,
        bound: f64,
        largest: f64,
    },
    Missing(Key),
    Unreadable,
}

/// The best of some choices, and the largest bound on the errors of their values.
fn best(aim: Aim, leaves: &[Leaf], looked: &[Looked]) -> Result<(f64, f64), Recomputed> {
    let (mut best, mut bound) = (f64::NAN, 0.0f64);
    for (leaf, looked) in leaves.iter().zip(looked) {
        let value = match (looked, leaf.key) {
            (Looked::Value(value, error), _) => {
                bound = bound.max(*error);
                aim.worth(leaf.gain, *value)
            }
            (Looked::Nothing, _) => leaf.gain,
            (Looked::Missing, Some(key)) => return Err(Recomputed::Missing(key)),
            (Looked::Missing | Looked::Unreadable, _) => return Err(Recomputed::Unreadable),
        };
        if aim.prefers(value, best) || best.is_nan() {
            best = value;
        }
    }
    Ok((best, bound))
}

/// The ranks of keys, by their numbers.
fn ranks_of(index: &IndexSet<Piece<'_>>, picked: &[u64], all: bool) -> Vec<u64> {
    match picked.first().and_then(|&first| index.select(first)) {
        // Picked without gaps: one walk.
        Some(start) if all => index.iter_range(start..index.universe()).take(picked.len()).collect(),
        // `MAX` is no rank: a set with fewer keys than its record says is damaged, and named by the rank.
        _ => picked.iter().map(|&ordinal| index.select(ordinal).unwrap_or(u64::MAX)).collect(),
    }
}

fn open_group(views: &Views<'_>, key: Key) -> Group {
    let (wanted, leaves) = (Vec::new(), Vec::new());
    match views.place(key) {
        Some((shard, ranks)) => {
            let view = views.get(key.layer.0, shard);
            Group { layer: key.layer, ranks, shard, view, exists: true, wanted, leaves }
        }
        None => Group {
            layer: key.layer,
            ranks: key.rank..key.rank.saturating_add(1),
            shard: 0,
            view: None,
            exists: false,
            wanted,
            leaves,
        },
    }
}

/// Looks up what is wanted in one shard.
fn fill(group: &Group, by: &Recursion, found: &mut Vec<u64>, looked: &mut [Looked]) -> Result<(), ShardError> {
    let Some(view) = &group.view else {
        let answer = if group.exists { Looked::Unreadable } else { Looked::Missing };
        group.leaves.iter().for_each(|&leaf| looked[leaf] = answer);
        return Ok(());
    };
    if group.wanted.is_empty() {
        return Ok(());
    }
    found.clear();
    found.resize(group.wanted.len(), ABSENT);
    view.index()?.find_many(&group.wanted, found);
    let mut read = [Bounded { value: 0.0, error: 0.0 }; MOST_READS];
    let read = &mut read[..by.reads.len()];
    for (&leaf, &ordinal) in group.leaves.iter().zip(found.iter()) {
        if ordinal == ABSENT {
            looked[leaf] = Looked::Missing;
            continue;
        }
        for (into, &column) in read.iter_mut().zip(by.reads) {
            let (value, error) = view.scalar(column, ordinal)?;
            *into = Bounded { value, error };
        }
        let next = (by.next)(read);
        looked[leaf] = Looked::Value(next.value, next.error);
    }
    Ok(())
}
