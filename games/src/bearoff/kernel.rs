//! Computing the values of a task: layer by layer, every position of a layer on its own.
//!
//! For each of the 21 rolls the best play is found ([`super::ways`]); the distributions of the positions that it leads to, shifted by
//! one roll and weighted by the chance of the roll, add up to the position's own. All sums run over the rolls in one fixed order,
//! so the same bytes come out whatever the number of threads or tasks.

use super::board::Sums;
use super::dice::ROLLS;
use super::known::{Goal, Held, Known, LANES, ROWS_DOWN, STEPS_DOWN, ShardView, Steps, View, Window, rows, usizes};
use super::ways::{Exactly, Moves, Plays};
use super::{Bearoff, plan};
use crate::columns::{Columns, Dists};
use crate::floats::{self, Floats, Job};
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
const PIECE: u64 = 128;
/// Positions whose steps and rows are fetched from memory at a time.
const BATCH: usize = 4;
/// Positions between two reports of progress.
const REPORT: u64 = 1 << 16;

/// For each roll the mean of the best play, and the place it leads to.
type Rolls = [(f64, f64); ROLLS.len()];

/// Values of some positions of a layer, in their order.
struct Piece {
    columns: Columns,
    /// For each goal that is not reached.
    steps: [Vec<Steps<f64>>; 2],
    /// Variances for [`Goal::FirstOff`].
    variances: Vec<f64>,
}

impl Piece {
    fn new() -> Self {
        let columns = Columns { scalars: vec![Vec::new(); 2], dists: vec![Dists::new(); 2], ..Columns::default() };
        Self { columns, steps: Default::default(), variances: Vec::new() }
    }

    /// The position where everything is off.
    fn push_over(&mut self) {
        self.columns.scalars.iter_mut().for_each(|values| values.push(0.0));
        self.columns.dists.iter_mut().for_each(|dists| dists.push(&[1.0]));
        // Wherever a die leads, that is where it was: place 0, after 0 rolls.
        self.steps[0].push([0.0; 40]);
    }

    /// The next position, for a goal that it has not reached.
    #[inline(always)]
    fn push(&mut self, value: &Value, plays: &Plays<f64>, goal: Goal) {
        let dists = &mut self.columns.dists[goal as usize];
        dists.push(&value.dist[..value.end]);
        let (mean, variance) = match goal {
            Goal::AllOff => (value.mean, value.variance),
            Goal::FirstOff => moments(dists.get(dists.len() - 1)),
        };
        self.steps[goal as usize].push(plays.steps(mean));
        match goal {
            Goal::AllOff => {
                self.columns.scalars[0].push(mean);
                self.columns.scalars[1].push(variance);
            }
            Goal::FirstOff => self.variances.push(variance),
        }
    }

    fn append(&mut self, mut piece: Piece) {
        for (all, piece) in self.columns.scalars.iter_mut().zip(&mut piece.columns.scalars) {
            all.append(piece);
        }
        for (all, piece) in self.columns.dists.iter_mut().zip(&mut piece.columns.dists) {
            let shift = all.values.len() as u64;
            all.ends.extend(piece.ends.iter().map(|end| end + shift));
            all.firsts.append(&mut piece.firsts);
            all.values.append(&mut piece.values);
        }
        for (all, piece) in self.steps.iter_mut().zip(&mut piece.steps) {
            all.append(piece);
        }
        self.variances.append(&mut piece.variances);
    }

    /// Steps and rows as numbers.
    fn known(&mut self) -> (Vec<f64>, Vec<f64>) {
        let [mut steps, first] = std::mem::take(&mut self.steps);
        steps.extend(first);
        let dists = &self.columns.dists;
        let rows = rows([&self.columns.scalars[1], &self.variances], [&dists[0], &dists[1]]);
        (steps.into_flattened(), rows)
    }
}

impl Bearoff {
    pub(super) fn run_task(&self, task: TaskId, io: &dyn TaskIo) -> Result<(), TaskError> {
        let layers = self.plan.outputs(task);
        let mut window = self.load(layers.start, io)?;
        for pips in layers.clone() {
            let info = &self.plan.layers[pips];
            let view = self.view(&window);
            let mut made = Known { steps: Vec::new(), rows: Vec::new() };
            for shard in self.plan.shards(task, pips) {
                let ordinals = self.plan.ordinals(&self.counting, pips, shard);
                let mut piece = self.compute(pips, ordinals.clone(), &view, io)?;
                let states = ordinals.end - ordinals.start;
                io.put_counts(info.layer, plan::small(shard), Counts { states, afterstates: 0, terminal: u64::from(pips == 0) })?;
                if pips == self.counting.pips() {
                    // The layer of the most pips has one position: everything on the farthest point.
                    io.put_fact("value", piece.columns.scalars[0][0]);
                    io.put_fact("variance", piece.columns.scalars[1][0]);
                }
                let (steps, rows) = piece.known();
                if self.plan.is_read_later(pips, ROWS_DOWN) {
                    io.put_doubles(info.layer, plan::Plan::rows_part(shard), &rows)?;
                }
                if self.plan.is_read_later(pips, STEPS_DOWN) {
                    io.put_doubles(info.layer, self.plan.steps_part(pips, shard), &steps)?;
                }
                if pips + 1 < layers.end {
                    made.steps.push(Held::Made(steps));
                    made.rows.push(Held::Made(rows));
                }
                let keys = self.keys(pips, ordinals, info.shards[shard].start);
                io.put_shard(info.layer, plan::small(shard), Keys::Sorted(&keys), (&piece.columns).into())?;
            }
            drop(view);
            if pips + 1 < layers.end {
                window.push(made);
            }
        }
        Ok(())
    }

    /// The layers that reach up to `first`.
    fn load(&self, first: usize, io: &dyn TaskIo) -> Result<Window, TaskError> {
        let lowest = first.saturating_sub(ROWS_DOWN);
        let load = |pips: usize| {
            let info = &self.plan.layers[pips];
            let map = |part: u32| io.map_doubles(info.layer, part).map(Held::Mapped);
            let shards = 0..info.shards.len();
            let rows = shards.clone().map(|shard| map(plan::Plan::rows_part(shard))).collect::<Result<_, _>>()?;
            let steps = match pips + STEPS_DOWN >= first {
                true => shards.map(|shard| map(self.plan.steps_part(pips, shard))).collect::<Result<_, _>>()?,
                false => Vec::new(),
            };
            Ok(Known { steps, rows })
        };
        let layers = (lowest..first).into_par_iter().map(load).collect::<Result<Vec<_>, TaskError>>()?;
        Ok(Window { lowest, layers: layers.into() })
    }

    fn view<'w>(&self, window: &'w Window) -> View<'w, f64> {
        let mut view = View::new(window.lowest);
        for (pips, known) in (window.lowest..).zip(&window.layers) {
            let reached = plan::whole(self.counting.with_fewer(pips, self.spec.checkers));
            let shard = |(number, rows)| {
                let ordinals = usizes(&self.plan.ordinals(&self.counting, pips, number));
                ShardView::new(ordinals, reached, known.steps.get(number), rows)
            };
            view.push(reached, self.counting.layer(pips), known.rows.iter().enumerate().map(shard).collect());
        }
        view
    }

    fn keys(&self, pips: usize, ordinals: Range<u64>, first: u64) -> Vec<u64> {
        let rank = |ordinal| self.counting.index(self.counting.position(pips, ordinal)) - first;
        ordinals.into_par_iter().map(rank).collect()
    }

    /// The values of a shard.
    fn compute(&self, pips: usize, ordinals: Range<u64>, view: &View<'_, f64>, io: &dyn TaskIo) -> Result<Piece, TaskError> {
        let layer = self.plan.layers[pips].layer;
        let mut all = Piece::new();
        let mut start = ordinals.start;
        while start < ordinals.end {
            let end = ordinals.end.min(start + REPORT);
            let piece = |ordinals: Range<u64>| {
                io.relieve();
                floats::run(Positions { space: self, pips, ordinals, view })
            };
            let pieces: Vec<Piece> = pieces(start..end).map(piece).collect();
            pieces.into_iter().for_each(|piece| all.append(piece));
            io.progress(layer, end - start)?;
            start = end;
        }
        Ok(all)
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

/// Positions of a layer, to be computed one after the other.
struct Positions<'a> {
    space: &'a Bearoff,
    pips: usize,
    ordinals: Range<u64>,
    view: &'a View<'a, f64>,
}

impl Job for Positions<'_> {
    type Output = Piece;

    /// The width is that of the loops over lanes, which the compiler turns into vectors.
    #[inline(always)]
    fn run<V: Floats>(self) -> Piece {
        let Self { space, pips, ordinals, view } = self;
        let mut piece = Piece::new();
        let reached = space.counting.with_fewer(pips, space.spec.checkers);
        let is_full = |ordinal: u64| ordinal >= reached;
        if pips == 0 {
            piece.push_over();
            return piece;
        }
        let (mut moves, mut plays) = ([Moves::NONE; BATCH], [[Plays::NONE; 2]; BATCH]);
        let (mut sums, mut rolls) = ([Sums::OFF; BATCH], [[Rolls::default(); 2]; BATCH]);
        let mut next = ordinals.start;
        while next < ordinals.end {
            // A few at a time, step by step, so that what a step reads comes from memory during the one before.
            let batch = next..ordinals.end.min(next + BATCH as u64);
            next = batch.end;
            for (i, ordinal) in (0..BATCH).zip(batch.clone()) {
                sums[i] = space.counting.position(pips, ordinal);
                moves[i].find(&space.board, &space.counting, sums[i], is_full(ordinal), view);
            }
            for (i, ordinal) in (0..BATCH).zip(batch.clone()) {
                for goal in [Goal::AllOff, Goal::FirstOff] {
                    if goal == Goal::AllOff || is_full(ordinal) {
                        let at = goal as usize;
                        let rule = Exactly { view, goal };
                        plays[i][at] = moves[i].best(goal, &rule);
                        for (roll, best) in rolls[i][at].iter_mut().enumerate() {
                            *best = plays[i][at].of(roll, &rule);
                            view.prefetch_row(goal, best.1);
                        }
                    }
                }
            }
            for (i, ordinal) in (0..BATCH).zip(batch) {
                let mut value = Value::reached();
                for goal in [Goal::AllOff, Goal::FirstOff] {
                    if goal == Goal::FirstOff && !is_full(ordinal) {
                        piece.columns.dists[1].push(&[1.0]);
                        continue;
                    }
                    if space.is_meaningless(pips) {
                        value = Value::certain(space.meaningless_rolls(sums[i]));
                    } else {
                        value.of(space, &rolls[i][goal as usize], view, goal);
                    }
                    piece.push(&value, &plays[i][goal as usize], goal);
                }
            }
        }
        piece
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

    /// That of a position from which the best plays lead there.
    #[inline(always)]
    fn of(&mut self, space: &Bearoff, rolls: &Rolls, view: &View<'_, f64>, goal: Goal) {
        let divisor = space.dice.divisor;
        self.dist = [0.0; MOST_ROLLS];
        self.end = 0;
        let mut next = [(0.0, 0.0, 0.0); ROLLS.len()];
        for roll in 0..ROLLS.len() {
            let weight = space.dice.weights[roll];
            let (mean, place) = rolls[roll];
            let (variance, first, entries) = view.row(goal, place).unwrap_or((0.0, 0, &[1.0, 0.0, 0.0, 0.0]));
            next[roll] = (weight, mean, variance);
            self.end = self.end.max(first + 1 + entries.len());
            let sums = self.dist[first + 1..].as_chunks_mut::<LANES>().0;
            for (sums, entries) in sums.iter_mut().zip(entries.as_chunks::<LANES>().0) {
                for lane in 0..LANES {
                    sums[lane] += weight * entries[lane];
                }
            }
        }
        let mean = 1.0 + next.iter().map(|(weight, mean, _)| weight * mean).sum::<f64>() / divisor;
        let spread = |(weight, next, variance): &(f64, f64, f64)| weight * (variance + (1.0 + next - mean) * (1.0 + next - mean));
        self.mean = mean;
        self.variance = next.iter().map(spread).sum::<f64>() / divisor;
        self.trim(divisor);
    }

    /// Makes weights chances, and leaves off what is negligible at the ends.
    #[inline(always)]
    fn trim(&mut self, divisor: f64) {
        let dist = &mut self.dist[..self.end];
        for entry in dist.iter_mut() {
            *entry /= divisor;
        }
        let first = dist.iter().position(|&p| p >= NEGLIGIBLE).unwrap_or(0);
        dist[..first].fill(0.0);
        self.end = dist.iter().rposition(|&p| p >= NEGLIGIBLE).map_or(0, |last| last + 1);
    }
}

/// Mean and variance of a distribution.
#[inline(always)]
fn moments((first, entries): (usize, &[f64])) -> (f64, f64) {
    let indexed = || (first..).map(|i| i as f64).zip(entries);
    let mean: f64 = indexed().map(|(i, p)| i * p).sum();
    (mean, indexed().map(|(i, p)| (i - mean) * (i - mean) * p).sum())
}
