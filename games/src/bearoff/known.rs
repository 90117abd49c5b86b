//! What later layers need to know of a layer, as numbers in files that are mapped: *steps* and *rows*.
//!
//! Steps are the means and the best plays of a position ([`super::ways`]); those of six layers are read. Rows are variances and
//! distributions, of the positions that a roll leads to; those of 24 layers are read. Both lie in the order of the positions, first
//! those of all positions of the shard for [`Goal::AllOff`], then those of the positions with all checkers for [`Goal::FirstOff`]; the
//! other positions have reached that. A position is looked at where it lies, so tables larger than memory are read like others.

use super::plan::whole;
use crate::columns::Dists;
use crate::game2048::lanes::prefetch;
use crate::space::Numbers;
use std::collections::VecDeque;
use std::ops::Range;

/// What play minimises: the mean of a distribution column, with the number of the column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Goal {
    /// Rolls until everything is off.
    AllOff = 0,
    /// Rolls until the first checker is off.
    FirstOff = 1,
}

/// What means are: f64 in tables, whole numbers in the files of GNU Backgammon. Places of positions are such numbers too, because they lie
/// among them: the pips times a power of two, and the ordinal within the layer.
pub(super) trait Number: Copy + PartialOrd + 'static {
    const ZERO: Self;
    /// More than any mean.
    const MOST: Self;
    /// Layers have fewer positions.
    const ORDINALS: u64;
    /// The place of a position.
    fn place(pips: usize, ordinal: usize) -> Self;
    /// The pips and the ordinal of a place.
    fn at(self) -> (usize, usize);
}

impl Number for f64 {
    const ZERO: f64 = 0.0;
    const MOST: f64 = f64::INFINITY;
    const ORDINALS: u64 = 1 << 27;

    #[inline(always)]
    fn place(pips: usize, ordinal: usize) -> f64 {
        ((pips as u64 * f64::ORDINALS) | ordinal as u64) as f64
    }

    #[inline(always)]
    fn at(self) -> (usize, usize) {
        // It is a whole number below 2^36.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let place = self as u64;
        ((place / f64::ORDINALS) as usize, (place % f64::ORDINALS) as usize)
    }
}

impl Number for i32 {
    const ZERO: i32 = 0;
    const MOST: i32 = i32::MAX;
    const ORDINALS: u64 = 1 << 22;

    #[inline(always)]
    fn place(pips: usize, ordinal: usize) -> i32 {
        ((pips << 22) | ordinal) as i32
    }

    #[inline(always)]
    fn at(self) -> (usize, usize) {
        let place = self.cast_unsigned() as usize;
        (place >> 22, place & ((1 << 22) - 1))
    }
}

/// Steps of a position.
pub(super) type Steps<N> = [N; 40];
/// Where the means after the best one move with each die start; after them comes the mean of the position itself.
pub(super) const ONES: usize = 0;
/// The mean of the position.
pub(super) const MEAN: usize = 6;
/// Where the places that these lead to start.
pub(super) const PLACES: usize = 8;
/// For each die four numbers: mean and place of two moves with it, mean and place of three.
pub(super) const MORE: usize = 16;

/// Numbers before the rows of a shard: for each goal the first number of rolls, and how many a row has.
pub(super) const HEAD: usize = 4;
/// Entries of rows are a multiple of this.
pub(super) const LANES: usize = 4;

/// Rows of a shard: its distributions, and the variances of those that have rows, which are the last ones.
pub(super) fn rows(variances: [&[f64]; 2], dists: [&Dists; 2]) -> Vec<f64> {
    let firsts = [0, 1].map(|goal| dists[goal].len() - variances[goal].len());
    let spans = [0, 1].map(|goal| span(dists[goal], firsts[goal]));
    let widths = spans.clone().map(|span| span.len().next_multiple_of(LANES));
    let lengths = [0, 1].map(|goal| variances[goal].len() * (1 + widths[goal]));
    let mut rows = Vec::with_capacity(HEAD + lengths[0] + lengths[1]);
    for (span, &width) in spans.iter().zip(&widths) {
        rows.extend([span.start as f64, width as f64]);
    }
    for goal in 0..2 {
        for (i, &variance) in variances[goal].iter().enumerate() {
            rows.push(variance);
            let (first, entries) = dists[goal].get(firsts[goal] + i);
            let end = rows.len() + widths[goal];
            rows.resize(rows.len() + first - spans[goal].start, 0.0);
            rows.extend_from_slice(entries);
            rows.resize(end, 0.0);
        }
    }
    rows
}

/// From the first to past the last entry that any distribution from number `from` on has.
fn span(dists: &Dists, from: usize) -> Range<usize> {
    let (mut start, mut end) = (usize::MAX, 0);
    for i in from..dists.len() {
        let (first, entries) = dists.get(i);
        (start, end) = (start.min(first), end.max(first + entries.len()));
    }
    start.min(end)..end
}

/// Numbers that are mapped from a file, or made by this task.
pub(super) enum Held {
    Mapped(Box<dyn Numbers<f64>>),
    Made(Vec<f64>),
}

impl Held {
    fn numbers(&self) -> &[f64] {
        match self {
            Held::Mapped(numbers) => numbers.numbers(),
            Held::Made(numbers) => numbers,
        }
    }
}

/// A layer by its shards.
pub(super) struct Known {
    pub steps: Vec<Held>,
    pub rows: Vec<Held>,
}

/// So many layers down steps are read: a move takes six pips at most.
pub(super) const STEPS_DOWN: usize = 6;
/// So many layers down rows are read: a roll takes 24 pips at most.
pub(super) const ROWS_DOWN: usize = super::dice::MOST_PIPS;

/// The layers below the one that is computed.
pub(super) struct Window {
    /// Pips of the first.
    pub lowest: usize,
    /// Layer after layer.
    pub layers: VecDeque<Known>,
}

impl Window {
    /// Adds the layer above, and lets go of what it puts out of reach.
    pub fn push(&mut self, known: Known) {
        self.layers.push_back(known);
        if self.layers.len() > ROWS_DOWN {
            self.layers.pop_front();
            self.lowest += 1;
        }
        if let Some(out) = self.layers.len().checked_sub(STEPS_DOWN + 1) {
            self.layers[out].steps.clear();
        }
    }
}

/// A shard, as it is read.
#[derive(Clone)]
pub(super) struct ShardView<'a, N> {
    /// First ordinal, and first one with all checkers, by [`Goal`].
    starts: [usize; 2],
    /// By [`Goal`]; none where no layer reads them any more.
    steps: [&'a [Steps<N>]; 2],
    rows: [Rows<'a>; 2],
}

#[derive(Clone, Default)]
struct Rows<'a> {
    first: usize,
    stride: usize,
    numbers: &'a [f64],
}

impl<'a> ShardView<'a, f64> {
    /// A shard of these ordinals, of which the first `reached` of the layer have fewer than all checkers.
    pub fn new(ordinals: Range<usize>, reached: usize, steps: Option<&'a Held>, rows: &'a Held) -> Self {
        let full = reached.clamp(ordinals.start, ordinals.end);
        let steps = steps.map_or(&[][..], Held::numbers).as_chunks().0;
        let (head, rows) = rows.numbers().split_at(HEAD);
        // Small whole numbers, as `rows` wrote them.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let head: [usize; HEAD] = std::array::from_fn(|i| head[i] as usize);
        let (all, first) = rows.split_at(ordinals.len() * (1 + head[1]));
        Self {
            starts: [ordinals.start, full],
            steps: match steps.split_at_checked(ordinals.len()) {
                Some((all, first)) => [all, first],
                None => [&[]; 2],
            },
            rows: [
                Rows { first: head[0], stride: 1 + head[1], numbers: all },
                Rows { first: head[2], stride: 1 + head[3], numbers: first },
            ],
        }
    }
}

impl<'a, N> ShardView<'a, N> {
    /// A whole layer with steps alone, of all positions and of those with all checkers.
    pub fn of_steps(steps: [&'a [Steps<N>]; 2]) -> Self {
        Self { starts: [0, steps[0].len() - steps[1].len()], steps, rows: Default::default() }
    }
}

/// A layer, as it is read.
pub(super) struct LayerView<'a, N> {
    /// The positions with smaller ordinals have fewer than all checkers.
    reached: usize,
    keys: u64,
    shards: Vec<ShardView<'a, N>>,
}

/// The layers below the one that is computed, as they are read.
pub(super) struct View<'a, N> {
    lowest: usize,
    layers: Vec<LayerView<'a, N>>,
}

/// What is known of a position of a layer that a move leads to.
#[derive(Clone, Copy)]
pub(super) enum Found<'a, N> {
    /// Nothing is left to do.
    Reached,
    Steps(&'a Steps<N>),
}

impl<N> Found<'_, N> {
    /// Has what is read after a move with a die (less one) fetched from memory.
    #[inline(always)]
    pub fn prefetch(&self, die: usize) {
        if let Found::Steps(steps) = self {
            for line in [ONES, PLACES, MORE + 4 * die] {
                prefetch(*steps, line);
            }
        }
    }
}

impl<'a, N: Number> View<'a, N> {
    /// No layer yet.
    pub fn new(lowest: usize) -> Self {
        Self { lowest, layers: Vec::new() }
    }

    /// Adds a layer, of which the first `reached` positions have fewer than all checkers.
    pub fn push(&mut self, reached: usize, keys: u64, shards: Vec<ShardView<'a, N>>) {
        self.layers.push(LayerView { reached, keys, shards });
    }

    #[inline(always)]
    fn find(&self, pips: usize, ordinal: usize) -> (&LayerView<'a, N>, &ShardView<'a, N>) {
        let layer = &self.layers[pips - self.lowest];
        let count = layer.shards.len() as u64;
        // The last shard that starts at or below it: number i starts at keys * i / count.
        let shard = if count == 1 { 0 } else { ((ordinal as u64 + 1) * count - 1) / layer.keys };
        (layer, &layer.shards[shard as usize])
    }

    /// Steps of a position for a goal.
    #[inline(always)]
    pub fn steps(&self, goal: Goal, pips: usize, ordinal: usize) -> Found<'a, N> {
        let (layer, shard) = self.find(pips, ordinal);
        if goal == Goal::FirstOff && ordinal < layer.reached {
            return Found::Reached;
        }
        Found::Steps(&shard.steps[goal as usize][ordinal - shard.starts[goal as usize]])
    }
}

impl<'a> View<'a, f64> {
    /// Has a row fetched from memory.
    #[inline(always)]
    pub fn prefetch_row(&self, goal: Goal, place: f64) {
        if let Some((_, _, entries)) = self.row(goal, place) {
            for line in (0..entries.len()).step_by(8) {
                prefetch(entries, line);
            }
        }
    }

    /// Variance, first number of rolls, and chances from there on; `None` when the goal is reached.
    #[inline(always)]
    pub fn row(&self, goal: Goal, place: f64) -> Option<(f64, usize, &'a [f64])> {
        let (pips, ordinal) = place.at();
        let (layer, shard) = self.find(pips, ordinal);
        if goal == Goal::FirstOff && ordinal < layer.reached {
            return None;
        }
        let rows = &shard.rows[goal as usize];
        let start = (ordinal - shard.starts[goal as usize]) * rows.stride;
        let (variance, entries) = rows.numbers[start..start + rows.stride].split_first()?;
        Some((*variance, rows.first, entries))
    }
}

/// How many numbers the steps of so many positions are, of which so many have all checkers.
pub(super) fn steps_numbers(positions: u64, full: u64) -> u64 {
    (positions + full) * size_of::<Steps<f64>>() as u64 / 8
}

/// How many numbers the rows of so many positions are at most, of which so many have all checkers, with spans of these lengths.
pub(super) fn rows_numbers(positions: u64, full: u64, [all, first]: [u64; 2]) -> u64 {
    let stride = |span: u64| 1 + span.next_multiple_of(LANES as u64);
    HEAD as u64 + positions * stride(all) + full * stride(first)
}

/// The ordinals of a shard, in memory.
pub(super) fn usizes(ordinals: &Range<u64>) -> Range<usize> {
    whole(ordinals.start)..whole(ordinals.end)
}
