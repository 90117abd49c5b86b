//! The best moves of states, many states at a time.
//!
//! The states of a few stripes are a batch. Moves to the left and right are looked up by the stripe, as in the forward pass; moves up
//! and down lead anywhere in the layer, so their places are computed for the whole batch, and the memory behind them is asked for before it
//! is used. What is known of the states lies in one array for each kind of number, so that comparing goes a vector at a time.
//! All sums have one order: of the batches of a block, in eight columns of neighbours that are added up at the end.

use super::Game2048;
use super::after::Values;
use super::bits::{Ranked, RankedStripe, ones};
use super::moves::{BATCH, Batch};
use super::ranks::{Block, LayerRanks};
use super::rows::{MOST_ROWS, RowInfo};
use super::spawn::{Upper, stripes};
use super::vertical::ILLEGAL;
use crate::space::LayerStats;
use std::ops::Range;

/// Columns of neighbours: as many as the widest vector has numbers.
const COLUMNS: usize = 8;
/// States of a batch, with what its last stripe brings above [`BATCH`], in whole columns.
const WAITING: usize = (BATCH + MOST_ROWS).next_multiple_of(COLUMNS);
/// The value of a move that is not legal, or not known.
const NONE: f64 = f64::NEG_INFINITY;

/// The value of a state of the table without moves. None of them holds the tile at which play stops: a new tile is a 2 or a 4, and that
/// tile at least 8.
const TERMINAL: f64 = 0.0;

/// The best two moves of a state, and how many it has, as far as they are known.
#[derive(Clone, Copy, PartialEq, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(super) struct Best {
    pub(super) best: f64,
    pub(super) second: f64,
    /// How many moves are known.
    pub(super) moves: u32,
    /// The best of them; of equally good ones the first.
    pub(super) chosen: u32,
}

impl Best {
    /// The moves of another part of the board's moves, too.
    #[inline(always)]
    pub(super) fn join(self, other: Self) -> Self {
        let second = greater(greater(self.second, other.second), smaller(self.best, other.best));
        let chosen = match () {
            () if self.best > other.best => self.chosen,
            () if self.best < other.best => other.chosen,
            () => self.chosen.min(other.chosen),
        };
        Self { best: greater(self.best, other.best), second, moves: self.moves + other.moves, chosen }
    }
}

/// Where what is found of states is written: of each its value, and where that is wanted what is known of its moves between passes, and its
/// best move.
#[derive(Default)]
pub(super) struct Finds<'a> {
    pub(super) values: &'a mut [f64],
    pub(super) bests: &'a mut [Best],
    pub(super) chosen: &'a mut [u8],
}

impl<'a> Finds<'a> {
    /// Takes out the places of the first states.
    #[inline(always)]
    pub(super) fn take(&mut self, n: usize) -> Finds<'a> {
        Finds { values: take(&mut self.values, n), bests: take(&mut self.bests, n), chosen: take(&mut self.chosen, n) }
    }

    /// Splits into the parts of pieces of a set, given by their places and in order.
    pub(super) fn split<P>(mut self, set: Ranked<'_>, pieces: Vec<P>, places: impl Fn(&P) -> Range<u64>) -> Vec<(P, Finds<'a>)> {
        let split = |piece| {
            let members = set.numbers(&places(&piece)).len();
            (piece, self.take(members))
        };
        pieces.into_iter().map(split).collect()
    }
}

/// Takes the first out of what is wanted; nothing out of what is not.
#[inline(always)]
fn take<'a, T>(all: &mut &'a mut [T], n: usize) -> &'a mut [T] {
    if all.is_empty() {
        return &mut [];
    }
    let (first, rest) = std::mem::take(all).split_at_mut(n);
    *all = rest;
    first
}

/// The greater of two numbers, neither a NaN: one instruction, where `f64::max` is several.
#[inline(always)]
fn greater(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// The smaller of two numbers, neither a NaN.
#[inline(always)]
fn smaller(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

/// Which afterstates are looked up: all of them, or in each of several passes those in a window.
#[derive(Clone)]
pub(super) struct Looks {
    pub(super) places: Range<u64>,
    pub(super) is_first: bool,
    pub(super) is_last: bool,
}

/// Statistics of the states of a block, in columns.
#[derive(Default)]
pub(super) struct Columns {
    values: [f64; COLUMNS],
    gaps: [f64; COLUMNS],
    most: [f64; COLUMNS],
    legal_moves: u64,
    single_best: u64,
    choices: u64,
}

impl Columns {
    /// Adds states that lie side by side: their best and second-best moves and how many they have. A state without moves has the value
    /// that is given as its best.
    #[inline(always)]
    pub(super) fn add(&mut self, best: &[f64; COLUMNS], second: &[f64; COLUMNS], moves: &[u32; COLUMNS]) {
        let (mut legal, mut single, mut choices) = (0, 0, 0);
        for i in 0..COLUMNS {
            let has_choice = moves[i] > 1;
            let gap = if has_choice { best[i] - second[i] } else { 0.0 };
            self.values[i] += best[i];
            self.gaps[i] += gap;
            self.most[i] = greater(self.most[i], gap);
            legal += moves[i];
            choices += u32::from(has_choice);
            single += u32::from(if has_choice { LayerStats::is_better(best[i], second[i]) } else { moves[i] == 1 });
        }
        self.legal_moves += u64::from(legal);
        self.single_best += u64::from(single);
        self.choices += u64::from(choices);
    }

    /// The sums.
    pub(super) fn sum(&self) -> LayerStats {
        LayerStats {
            legal_moves: self.legal_moves,
            single_best: self.single_best,
            choices: self.choices,
            value_sum: self.values.iter().sum(),
            gap_sum: self.gaps.iter().sum(),
            gap_most: self.most.iter().copied().fold(0.0, f64::max),
        }
    }
}

/// A batch of states, and what is known of their moves.
pub(super) struct Weighed<const N: usize> {
    best: [f64; N],
    second: [f64; N],
    moves: [u32; N],
    chosen: [u32; N],
}

impl<const N: usize> Weighed<N> {
    /// No move is known.
    pub(super) fn new() -> Self {
        const { assert!(N.is_multiple_of(COLUMNS)) };
        Self { best: [NONE; N], second: [NONE; N], moves: [0; N], chosen: [0; N] }
    }

    /// Adds a numbered move of each, after those known; what it is worth, or [`NONE`].
    #[inline(always)]
    pub(super) fn add(&mut self, number: u32, tried: &[f64; N]) {
        for (i, &value) in tried.iter().enumerate() {
            self.chosen[i] = if value > self.best[i] { number } else { self.chosen[i] };
            self.second[i] = greater(self.second[i], smaller(self.best[i], value));
            self.best[i] = greater(self.best[i], value);
            self.moves[i] += u32::from(value > NONE);
        }
    }

    /// Joins what other passes found of the states.
    #[inline(always)]
    fn join(&mut self, known: &mut [Best], is_first: bool) {
        for (i, known) in known.iter_mut().enumerate() {
            let here = Best { best: self.best[i], second: self.second[i], moves: self.moves[i], chosen: self.chosen[i] };
            *known = if is_first { here } else { known.join(here) };
            (self.best[i], self.second[i]) = (known.best, known.second);
            (self.moves[i], self.chosen[i]) = (known.moves, known.chosen);
        }
    }

    /// All moves of the first `n` are known: writes what was found, and adds them to the statistics.
    #[inline(always)]
    pub(super) fn settle(&mut self, n: usize, finds: Finds<'_>, stats: &mut Columns) {
        for (i, value) in finds.values.iter_mut().enumerate() {
            if self.moves[i] == 0 {
                self.best[i] = TERMINAL;
            }
            *value = self.best[i];
        }
        for (chosen, &number) in finds.chosen.iter_mut().zip(&self.chosen) {
            *chosen = number as u8;
        }
        self.best[n..n.next_multiple_of(COLUMNS)].fill(0.0);
        self.moves[n..n.next_multiple_of(COLUMNS)].fill(0);
        let columns = self.best.as_chunks().0.iter().zip(self.second.as_chunks().0).zip(self.moves.as_chunks().0);
        for ((best, second), moves) in columns.take(n.div_ceil(COLUMNS)) {
            stats.add(best, second, moves);
        }
        self.forget(n);
    }

    /// Nothing is known of the first `n` any more.
    #[inline(always)]
    fn forget(&mut self, n: usize) {
        let used = n.next_multiple_of(COLUMNS);
        self.best[..used].fill(NONE);
        self.second[..used].fill(NONE);
        self.moves[..used].fill(0);
        self.chosen[..used].fill(0);
    }
}

/// A batch of states that wait for their moves up and down.
struct Pending {
    weighed: Weighed<WAITING>,
    /// What the rows earned before the move.
    earned: [u32; WAITING],
    count: usize,
}

impl<const R: usize, const C: usize> Game2048<R, C> {
    /// The moves to the left and right of the states of a stripe, whose last rows have these numbers: the better and the worse value, how
    /// many moves there are, and which is the better. `W`: in passes, each of which looks up the afterstates of a window.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn lateral_stripe<const W: bool>(
        &self,
        ranks: &LayerRanks<R, C>,
        block: &Block,
        upper: &Upper<R>,
        numbers: &[u8],
        after: Values<'_, R, C>,
        looks: &Looks,
        [best, second]: [&mut [f64]; 2],
        [moves, chosen]: [&mut [u32]; 2],
    ) {
        let (rows, last) = (&*ranks.rows, usize::from(block.last));
        let steps = rows.steps_of(last);
        let mut tried = [[NONE; MOST_ROWS]; 2];
        if block.is_even() {
            let of_last = rows.of_sum(last);
            for (i, &number) in numbers.iter().enumerate() {
                let board = upper.board | u64::from(of_last[usize::from(number)]) << (4 * C * (R - 1));
                let moves = self.lines.moves(board);
                for (side, &moved) in moves.boards[..2].iter().enumerate() {
                    if moved != board {
                        let place = ranks.place(moved);
                        if !W || looks.places.contains(&place) {
                            tried[side][i] = self.reward(moves.across) + after.values[after.set.find(place)];
                        }
                    }
                }
            }
        } else {
            for (i, (side, tried)) in self.sides(ranks, upper, last).iter().zip(&mut tried).enumerate() {
                let found = RankedStripe::of(after.set, side.start.into(), rows.count[last] as u32);
                let reading = side.reading as usize;
                for (tried, &number) in tried.iter_mut().zip(numbers) {
                    let step = &steps[usize::from(number)];
                    let to = step.moved[i][reading];
                    let looked = !W || looks.places.contains(&(u64::from(side.start) + u64::from(to)));
                    if looked && (side.is_always_legal || side.legal >> number & 1 == 1) {
                        *tried = self.reward(side.score + step.score) + after.values[found.find(to.into())];
                    }
                }
            }
        }
        for i in 0..numbers.len() {
            let (left, right) = (tried[0][i], tried[1][i]);
            best[i] = greater(left, right);
            second[i] = smaller(left, right);
            moves[i] = u32::from(left > NONE) + u32::from(right > NONE);
            chosen[i] = u32::from(right > left);
        }
    }

    /// The values of the states of a block of a rectangle, in passes (`W`) or one.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    pub(super) fn value_block<const W: bool>(
        &self,
        ranks: &LayerRanks<R, C>,
        block: &Block,
        set: Ranked<'_>,
        after: Values<'_, R, C>,
        looks: &Looks,
        batch: &mut Batch,
        mut finds: Finds<'_>,
    ) -> LayerStats {
        let mut stats = Columns::default();
        let (rows, last) = (&*ranks.rows, usize::from(block.last));
        let (width, of_last) = (rows.count[last] as u32, rows.of_sum(last));
        let mut pending = Pending { weighed: Weighed::new(), earned: [0; WAITING], count: 0 };
        batch.boards.clear();
        for upper in stripes(ranks, block) {
            let bits = set.read(upper.start, width);
            if bits == 0 {
                continue;
            }
            let (numbers, n) = numbers_of(bits);
            let (numbers, start) = (&numbers[..n], pending.count);
            let weighed = &mut pending.weighed;
            let [best, second] = [&mut weighed.best, &mut weighed.second].map(|array| &mut array[start..start + n]);
            let which = [&mut weighed.moves, &mut weighed.chosen].map(|array| &mut array[start..start + n]);
            self.lateral_stripe::<W>(ranks, block, &upper, numbers, after, looks, [best, second], which);
            let mut before = 0;
            for info in &upper.infos[..R - 1] {
                before += info.earned();
            }
            for (&number, earned) in numbers.iter().zip(&mut pending.earned[start..]) {
                let row = of_last[usize::from(number)];
                *earned = (before + RowInfo(rows.info[usize::from(row)]).earned()) as u32;
                batch.boards.push(upper.board | u64::from(row) << (4 * C * (R - 1)));
            }
            pending.count += n;
            if pending.count >= BATCH {
                let of_batch = finds.take(pending.count);
                self.finish_batch::<W>(ranks, after, looks, batch, &mut pending, of_batch, &mut stats);
            }
        }
        if pending.count > 0 {
            self.finish_batch::<W>(ranks, after, looks, batch, &mut pending, finds, &mut stats);
        }
        stats.sum()
    }

    /// What moves are worth that lead to these places, by what the rows earned with them and before; [`NONE`] those that are not legal.
    #[inline(always)]
    pub(super) fn worth<const N: usize>(
        &self,
        places: &[u32],
        found: &[usize; N],
        after: Values<'_, R, C>,
        earned: &[u32],
        before: &[u32],
    ) -> [f64; N] {
        let mut worth = [NONE; N];
        for (i, &place) in places.iter().enumerate() {
            if place != ILLEGAL {
                worth[i] = self.reward(earned[i].wrapping_sub(before[i])) + after.values[found[i]];
            }
        }
        worth
    }

    /// Adds the moves up and down of states whose other moves are known, and gives their values.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn finish_batch<const W: bool>(
        &self,
        ranks: &LayerRanks<R, C>,
        after: Values<'_, R, C>,
        looks: &Looks,
        batch: &mut Batch,
        pending: &mut Pending,
        finds: Finds<'_>,
        stats: &mut Columns,
    ) {
        let n = batch.up_down(ranks, &self.lines);
        for place in batch.up[..n].iter_mut().chain(&mut batch.down[..n]) {
            if W && !looks.places.contains(&u64::from(*place)) {
                *place = ILLEGAL;
            }
            after.set.prefetch((*place).into());
        }
        let mut found = [[0usize; WAITING]; 2];
        for (found, places) in found.iter_mut().zip([&batch.up, &batch.down]) {
            after.find_all(&places[..n], found);
        }
        for ((number, found), places) in (2..).zip(&found).zip([&batch.up, &batch.down]) {
            let tried = self.worth(&places[..n], found, after, &batch.earned, &pending.earned);
            pending.weighed.add(number, &tried);
        }
        if W {
            pending.weighed.join(finds.bests, looks.is_first);
        }
        if !W || looks.is_last {
            pending.weighed.settle(n, finds, stats);
        } else {
            pending.weighed.forget(n);
        }
        pending.count = 0;
        batch.boards.clear();
    }
}

/// The numbers of the last rows of a stripe, and how many there are.
#[inline(always)]
fn numbers_of(bits: u128) -> ([u8; MOST_ROWS], usize) {
    let (mut numbers, mut n) = ([0; MOST_ROWS], 0);
    for number in ones(bits) {
        numbers[n] = number as u8;
        n += 1;
    }
    (numbers, n)
}
