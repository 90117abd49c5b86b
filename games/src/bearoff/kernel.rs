//! Computing the values of a task: layer by layer, every position of a layer on its own.
//!
//! For each of the 21 rolls the best play is found ([`super::ways`]); the distributions of the positions that it leads to, shifted by
//! one roll and weighted by the chance of the roll, add up to the position's own. All sums run over the rolls in one fixed order,
//! so the same bytes come out whatever the number of threads or tasks.

use super::board::Sums;
use super::dice::{MOST_PIPS, ROLLS};
use super::ways::{ByDie, Chains, Goal, Moves, REACH, Values, Ways, Window};
use super::{Bearoff, plan};
use crate::columns::{Columns, Dists};
use crate::keys::Keys;
use crate::space::*;
use rayon::prelude::*;
use std::ops::Range;

/// Entries below 2^-64 at either end of a distribution are left off. All that a game can lose this way is less than one rounding
/// of the sum, and the published values are coarser than 2^-33; large boards have long tails of such entries.
const NEGLIGIBLE: f64 = 1.0 / 18_446_744_073_709_551_616.0;
/// Longer than any game: 270 pips at 3 a roll.
const MOST_ROLLS: usize = 128;
/// Positions that one thread computes at a time.
const PIECE: u64 = 256;
/// Positions between two reports of progress.
const REPORT: u64 = 1 << 16;

/// Best plays of the positions of a piece of a layer, by goal.
type Both = [Chains; 2];

impl Bearoff {
    pub(super) fn run_task(&self, task: TaskId, io: &dyn TaskIo) -> Result<(), TaskError> {
        let layers = self.plan.outputs(task);
        let mut window = self.load(layers.start, io)?;
        for pips in layers.clone() {
            let info = &self.plan.layers[pips];
            let (mut done, mut best) = (Vec::new(), Both::default());
            for shard in self.plan.shards(task, pips) {
                let ordinals = self.plan.ordinals(&self.counting, pips, shard);
                let (columns, chains) = self.compute(pips, ordinals.clone(), &window, io)?;
                let keys = self.keys(pips, ordinals.clone(), info.shards[shard].start);
                let number = plan::small(shard);
                io.put_shard(info.layer, number, Keys::Sorted(&keys), (&columns).into())?;
                if self.plan.is_read_later(pips) {
                    io.put_work(info.layer, number, (&columns).into())?;
                }
                let states = ordinals.end - ordinals.start;
                io.put_counts(info.layer, number, Counts { states, afterstates: 0, terminal: u64::from(pips == 0) })?;
                if pips == self.counting.pips() {
                    // The layer of the most pips has one position: everything on the farthest point.
                    io.put_fact("value", columns.scalars[0][0]);
                    io.put_fact("variance", columns.scalars[1][0]);
                }
                done.push(columns);
                append_chains(&mut best, chains);
            }
            if pips + 1 < layers.end {
                let mut values = self.values(pips, done);
                for (ways, best) in values.ways.iter_mut().zip(best) {
                    ways.best = best;
                }
                window.push(values);
            }
        }
        Ok(())
    }

    /// The layers that reach up to `first`, and their best plays as far as they will be read.
    fn load(&self, first: usize, io: &dyn TaskIo) -> Result<Window, TaskError> {
        let lowest = first.saturating_sub(MOST_PIPS);
        let load = |pips: usize| {
            let info = &self.plan.layers[pips];
            let shards = (0..).zip(&info.shards).map(|(shard, _)| io.load_work(info.layer, shard));
            Ok(self.values(pips, shards.collect::<Result<_, TaskError>>()?))
        };
        let layers = (lowest..first).into_par_iter().map(load).collect::<Result<Vec<_>, TaskError>>()?;
        let mut window = Window { lowest, layers: layers.into() };
        for pips in first.saturating_sub(REACH[0])..first {
            let counts = REACH.iter().filter(|&reach| pips + reach >= first).count();
            let chains = self.chains(pips, counts, &window);
            for (ways, best) in window.layers[pips - lowest].ways.iter_mut().zip(chains) {
                ways.best = best;
            }
            io.progress(self.plan.layers[pips].layer, 0)?;
        }
        Ok(window)
    }

    fn values(&self, pips: usize, shards: Vec<Columns>) -> Values {
        let reached = plan::whole(self.counting.with_fewer(pips, self.spec.checkers));
        let mut all = Ways { reached: usize::from(pips == 0), ..Ways::default() };
        let mut first = Ways { reached, ..Ways::default() };
        let (mut starts, mut dists) = (Vec::new(), Vec::new());
        let mut start = 0;
        for columns in shards {
            let [mean, variance] = <[_; 2]>::try_from(columns.scalars).expect("two scalar columns");
            let columns = <[Dists; 2]>::try_from(columns.dists).expect("two distributions");
            let end = start + mean.len();
            for ordinal in reached.clamp(start, end)..end {
                let (mean, variance) = moments(columns[1].get(ordinal - start));
                first.mean.push(mean);
                first.variance.push(variance);
            }
            append(&mut all.mean, mean);
            append(&mut all.variance, variance);
            starts.push(start);
            dists.push(columns);
            start = end;
        }
        all.mean.drain(..all.reached);
        all.variance.drain(..all.reached);
        Values { ways: [all, first], starts, dists }
    }

    fn keys(&self, pips: usize, ordinals: Range<u64>, first: u64) -> Vec<u64> {
        let rank = |ordinal| self.counting.index(self.counting.position(pips, ordinal)) - first;
        ordinals.into_par_iter().map(rank).collect()
    }

    /// The values of a shard, and the best plays of its positions.
    fn compute(&self, pips: usize, ordinals: Range<u64>, window: &Window, io: &dyn TaskIo) -> Result<(Columns, Both), TaskError> {
        let layer = self.plan.layers[pips].layer;
        let (mut columns, mut best) = (empty(), Both::default());
        let mut start = ordinals.start;
        while start < ordinals.end {
            let end = ordinals.end.min(start + REPORT);
            let pieces: Vec<(Columns, Both)> = pieces(start..end).map(|piece| self.piece(pips, piece, window)).collect();
            for (piece, chains) in pieces {
                append_columns(&mut columns, piece);
                append_chains(&mut best, chains);
            }
            io.progress(layer, end - start)?;
            start = end;
        }
        for dists in &mut columns.dists {
            dists.values.shrink_to_fit();
        }
        shrink(&mut best);
        Ok((columns, best))
    }

    /// The best plays of a layer whose values are known.
    fn chains(&self, pips: usize, counts: usize, window: &Window) -> Both {
        let all = 0..self.counting.layer(pips);
        let piece = |ordinals: Range<u64>| {
            let mut best = Both::default();
            for ordinal in ordinals {
                let moves = self.moves(self.counting.position(pips, ordinal));
                for goal in self.open_goals(pips, ordinal) {
                    push_chains(&mut best, goal, counts, &moves.chains(window, goal, counts));
                }
            }
            best
        };
        let pieces: Vec<Both> = pieces(all).map(piece).collect();
        let mut best = Both::default();
        pieces.into_iter().for_each(|piece| append_chains(&mut best, piece));
        shrink(&mut best);
        best
    }

    /// The goals that a position has not reached.
    fn open_goals(&self, pips: usize, ordinal: u64) -> impl Iterator<Item = Goal> {
        let untouched = ordinal >= self.counting.with_fewer(pips, self.spec.checkers);
        (pips > 0).then_some(Goal::AllOff).into_iter().chain(untouched.then_some(Goal::FirstOff))
    }

    fn piece(&self, pips: usize, ordinals: Range<u64>, window: &Window) -> (Columns, Both) {
        let (mut columns, mut best) = (empty(), Both::default());
        for ordinal in ordinals {
            let sums = self.counting.position(pips, ordinal);
            let moves = self.moves(sums);
            let mut values = [Value::reached(), Value::reached()];
            for goal in self.open_goals(pips, ordinal) {
                push_chains(&mut best, goal, REACH.len(), &moves.chains(window, goal, REACH.len()));
                values[goal as usize] = self.value(pips, sums, &moves, window, goal);
            }
            columns.scalars[0].push(values[0].mean);
            columns.scalars[1].push(values[0].variance);
            for (column, value) in columns.dists.iter_mut().zip(&values) {
                column.push(&value.dist[..value.end]);
            }
        }
        (columns, best)
    }

    /// The value of one position for a goal.
    fn value(&self, pips: usize, sums: Sums, moves: &Moves, window: &Window, goal: Goal) -> Value {
        if self.is_meaningless(pips) {
            return Value::certain(self.meaningless_rolls(sums));
        }
        let divisor = self.dice.divisor;
        let mut value = Value { mean: 0.0, variance: 0.0, dist: [0.0; MOST_ROLLS], end: 0 };
        let mut next = [(0.0, 0.0, 0.0); 21];
        for ((next, &roll), &weight) in next.iter_mut().zip(&ROLLS).zip(&self.dice.weights) {
            let best = moves.roll(window, goal, roll);
            *next = (weight, best.mean, window.variance(goal, best.place));
            let (first, entries) = window.dist(goal, best.place);
            value.end = value.end.max(first + 1 + entries.len());
            for (sum, entry) in value.dist[first + 1..].iter_mut().zip(entries) {
                *sum += weight * entry;
            }
        }
        let mean = 1.0 + next.iter().map(|(weight, mean, _)| weight * mean).sum::<f64>() / divisor;
        let spread = |(weight, next, variance): &(f64, f64, f64)| weight * (variance + (1.0 + next - mean) * (1.0 + next - mean));
        value.mean = mean;
        value.variance = next.iter().map(spread).sum::<f64>() / divisor;
        value.trim(divisor);
        value
    }
}

/// Runs of ordinals for one thread each.
fn pieces(ordinals: Range<u64>) -> impl IndexedParallelIterator<Item = Range<u64>> {
    let count = plan::whole((ordinals.end - ordinals.start).div_ceil(PIECE));
    (0..count).into_par_iter().map(move |piece| {
        let start = ordinals.start + piece as u64 * PIECE;
        start..ordinals.end.min(start + PIECE)
    })
}

impl Window {
    /// Adds the layer above, and lets go of what it puts out of reach.
    fn push(&mut self, values: Values) {
        self.layers.push_back(values);
        if self.layers.len() > MOST_PIPS {
            self.layers.pop_front();
            self.lowest += 1;
        }
        for (count, reach) in REACH.into_iter().enumerate() {
            if let Some(out) = self.layers.len().checked_sub(reach + 1) {
                self.layers[out].ways.iter_mut().for_each(|ways| ways.best[count] = Default::default());
            }
        }
    }
}

/// Mean, variance and distribution of the number of rolls to a goal.
struct Value {
    mean: f64,
    variance: f64,
    dist: [f64; MOST_ROLLS],
    end: usize,
}

impl Value {
    fn certain(rolls: usize) -> Self {
        let mut dist = [0.0; MOST_ROLLS];
        dist[rolls] = 1.0;
        Self { mean: rolls as f64, variance: 0.0, dist, end: rolls + 1 }
    }

    fn reached() -> Self {
        Self::certain(0)
    }

    /// Makes weights chances, and leaves off what is negligible at the ends.
    fn trim(&mut self, divisor: f64) {
        let dist = &mut self.dist[..self.end];
        dist.iter_mut().for_each(|entry| *entry /= divisor);
        let first = dist.iter().position(|&p| p >= NEGLIGIBLE).unwrap_or(0);
        dist[..first].fill(0.0);
        self.end = dist.iter().rposition(|&p| p >= NEGLIGIBLE).map_or(0, |last| last + 1);
    }
}

/// Mean and variance of a distribution.
fn moments((first, entries): (usize, &[f64])) -> (f64, f64) {
    let indexed = || (first..).map(|i| i as f64).zip(entries);
    let mean: f64 = indexed().map(|(i, p)| i * p).sum();
    (mean, indexed().map(|(i, p)| (i - mean) * (i - mean) * p).sum())
}

fn empty() -> Columns {
    Columns { scalars: vec![Vec::new(); 2], dists: vec![Dists::new(); 2], ..Columns::default() }
}

fn append<T>(all: &mut Vec<T>, mut more: Vec<T>) {
    if all.is_empty() {
        *all = more;
    } else {
        all.append(&mut more);
    }
}

fn append_columns(all: &mut Columns, piece: Columns) {
    for (all, piece) in all.scalars.iter_mut().zip(piece.scalars) {
        append(all, piece);
    }
    for (all, piece) in all.dists.iter_mut().zip(piece.dists) {
        let shift = all.values.len() as u64;
        all.ends.extend(piece.ends.iter().map(|end| end + shift));
        append(&mut all.firsts, piece.firsts);
        append(&mut all.values, piece.values);
    }
}

fn push_chains(all: &mut Both, goal: Goal, counts: usize, best: &[ByDie; 3]) {
    for (all, best) in all[goal as usize].iter_mut().zip(best).take(counts) {
        for (all, best) in all.iter_mut().zip(best) {
            all.means.push(best.mean);
            all.places.push(best.place);
        }
    }
}

fn append_chains(all: &mut Both, piece: Both) {
    for (all, piece) in all.iter_mut().flatten().flatten().zip(piece.into_iter().flatten().flatten()) {
        append(&mut all.means, piece.means);
        append(&mut all.places, piece.places);
    }
}

/// Gives back what the vectors hold beyond their length, up to as much again.
fn shrink(all: &mut Both) {
    for steps in all.iter_mut().flatten().flatten() {
        steps.means.shrink_to_fit();
        steps.places.shrink_to_fit();
    }
}
