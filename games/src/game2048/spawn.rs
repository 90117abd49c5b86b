//! The states of a block of rectangles, from the afterstates of the two ages before: those with a new 2, and those with a new 4.
//!
//! Sets of states are never stored. A block of them is made when it is needed, out of the few blocks that can lead to it: a new tile changes the
//! sum of one row, so for each tile there is one block for the first row, one for those between, one for the last. Most of
//! the work is done by the stripe. A new tile in an upper row takes a whole stripe of afterstates to a stripe of states, a few words at a
//! time; in the last row it takes each number to a set of numbers that is in a table. Where the first and the last row
//! have the same sum, before or after, the rows decide board by board which of them is the first; those blocks are done one by one.

use super::bits::{BlockBits, low_bits, ones, places, read_bits};
use super::lines::Lines;
use super::ranks::{Block, LayerRanks};
use super::rows::{NO_ROW, PALINDROME, RowInfo, Rows};
use crate::keys::Bitmap;
use std::sync::Arc;

/// The afterstates of an age.
pub struct Afterstates<const R: usize, const C: usize> {
    /// Ranks of the age.
    pub ranks: Arc<LayerRanks<R, C>>,
    /// Which places are reached.
    pub places: Bitmap,
}

impl<const R: usize, const C: usize> Afterstates<R, C> {
    /// The set, at hand.
    pub fn view(&self) -> Parent<'_, R, C> {
        Parent { ranks: &self.ranks, words: self.places.words() }
    }
}

/// The afterstates of an age, at hand.
#[derive(Clone, Copy)]
pub struct Parent<'a, const R: usize, const C: usize> {
    /// Ranks of the age.
    pub ranks: &'a LayerRanks<R, C>,
    /// One bit for every place.
    pub words: &'a [u64],
}

impl<const R: usize, const C: usize> Parent<'_, R, C> {
    /// Whether any of the blocks has a member whose boards, with one row's sum larger by `-less`, are in the block of these sums.
    #[inline(always)]
    fn leads_to(&self, rows: &Rows<R, C>, first: usize, last: usize, less: i64) -> bool {
        let has = |a: usize, b: usize| match self.ranks.find_block(a.max(b), a.min(b)) {
            Some(block) => places(|at| self.words[at], self.ranks.block_ranks(block)).next().is_some(),
            None => false,
        };
        R > 2 && has(first, last)
            || rows.sum_beside(first, less).is_some_and(|sum| has(sum, last))
            || rows.sum_beside(last, less).is_some_and(|sum| has(first, sum))
    }
}

/// Where states come from: the afterstates of the age 2 before, and of the age 4 before.
pub type Parents<'a, const R: usize, const C: usize> = [Option<Parent<'a, R, C>>; 2];

/// What is known of one stripe while its boards are gone through.
#[derive(Clone, Copy)]
pub struct Upper<const R: usize> {
    /// All rows but the last, at their places in a board.
    pub board: u64,
    /// What is known of them; the last entry says nothing.
    pub infos: [RowInfo; R],
    /// Whether all of them are palindromes, so that the last row decides how the board lies.
    pub is_palindrome: bool,
    /// Rank of the stripe's first place.
    pub start: u64,
    /// How many stripes of the block are before it.
    pub number: u64,
}

/// The stripes of a block that can have members, in order of rank.
pub struct Stripes<'a, const R: usize, const C: usize> {
    rows: &'a Rows<R, C>,
    firsts: &'a [u16],
    seconds: &'a [u16],
    thirds: &'a [u16],
    /// Four rows only: the sums that the second row may have.
    groups: &'a [(u16, u64)],
    half: usize,
    at: [usize; 4],
    width: u64,
    start: u64,
    number: u64,
}

/// The stripes of a block that can have members, in order of rank.
#[inline(always)]
pub fn stripes<'a, const R: usize, const C: usize>(ranks: &'a LayerRanks<R, C>, block: &Block) -> Stripes<'a, R, C> {
    let rows = &*ranks.rows;
    let half = ranks.middle_half(block);
    let firsts = &rows.of_sum(block.first.into())[..rows.turns[usize::from(block.first)].first_count() as usize];
    let (mut seconds, mut groups): (&[u16], &[(u16, u64)]) = (&[], &[]);
    if R == 3 {
        seconds = rows.sum_number[half].map_or(&[], |sum| rows.of_sum(sum.into()));
    } else if R > 3 {
        groups = &rows.middle_offset[half][..rows.middle_offset[half].len() - 1];
    }
    let width = rows.count[usize::from(block.last)];
    let start = u64::from(block.base);
    let mut stripes = Stripes { rows, firsts, seconds, thirds: &[], groups, half, at: [0; 4], width, start, number: 0 };
    stripes.enter_group();
    stripes
}

impl<'a, const R: usize, const C: usize> Stripes<'a, R, C> {
    /// Four rows only: the rows that the second and third may be.
    #[inline(always)]
    fn enter_group(&mut self) {
        if let Some(&(sum, _)) = self.groups.get(self.at[3]) {
            let rest = self.half - self.rows.sums[usize::from(sum)] as usize / 2;
            self.seconds = self.rows.of_sum(sum.into());
            self.thirds = self.rows.sum_number[rest].map_or(&[], |sum| self.rows.of_sum(sum.into()));
        }
    }

    /// Goes on to the next stripe.
    #[inline(always)]
    fn advance(&mut self) {
        if R > 3 {
            self.at[2] += 1;
            if self.at[2] < self.thirds.len() {
                return;
            }
            self.at[2] = 0;
        }
        if R > 2 {
            self.at[1] += 1;
            if self.at[1] < self.seconds.len() {
                return;
            }
            self.at[1] = 0;
        }
        if R > 3 {
            self.at[3] += 1;
            if self.at[3] < self.groups.len() {
                return self.enter_group();
            }
            self.at[3] = 0;
            self.enter_group();
        }
        self.at[0] += 1;
    }
}

impl<const R: usize, const C: usize> Iterator for Stripes<'_, R, C> {
    type Item = Upper<R>;

    #[inline(always)]
    fn next(&mut self) -> Option<Upper<R>> {
        loop {
            let first = *self.firsts.get(self.at[0])?;
            let mut infos = [NO_ROW; R];
            let mut board = u64::from(first);
            infos[0] = RowInfo(self.rows.info[usize::from(first)]);
            if R > 2 {
                let second = *self.seconds.get(self.at[1])?;
                infos[1] = RowInfo(self.rows.info[usize::from(second)]);
                board |= u64::from(second) << (4 * C);
            }
            if R > 3 {
                let third = *self.thirds.get(self.at[2])?;
                infos[2] = RowInfo(self.rows.info[usize::from(third)]);
                board |= u64::from(third) << (8 * C);
            }
            let (start, number) = (self.start, self.number);
            self.start += self.width;
            self.number += 1;
            self.advance();
            let mut lead = PALINDROME;
            for info in &infos[..R - 1] {
                if lead == PALINDROME {
                    lead = info.orientation();
                }
            }
            if lead != 1 {
                return Some(Upper { board, infos, is_palindrome: lead == PALINDROME, start, number });
            }
        }
    }
}

/// Where the states of a layer come from.
#[derive(Clone, Copy)]
pub struct Origin<'a, const R: usize, const C: usize> {
    /// Ranks of the layer.
    pub ranks: &'a LayerRanks<R, C>,
    /// The afterstates that new tiles lead from.
    pub parents: Parents<'a, R, C>,
    /// The boards of this age that a game may start with.
    pub starts: &'a [u64],
    /// The exponent of the tile at which play stops, at least 3.
    pub goal: Option<u32>,
}

/// Makes `states` the states of a block, given by its number.
#[inline(always)]
pub fn states_of_block<const R: usize, const C: usize>(origin: Origin<'_, R, C>, number: usize, states: &mut BlockBits) {
    let Origin { ranks, parents, starts, goal } = origin;
    let (block, places_of_block) = (&ranks.blocks[number], ranks.block_ranks(number));
    states.reset(&places_of_block);
    let rows = &*ranks.rows;
    let (first, last) = (usize::from(block.first), usize::from(block.last));
    let mut by_stripe = false;
    for (tile, parent) in (1..).zip(parents) {
        let Some(parent) = parent else { continue };
        let less = -(1i64 << tile);
        // Where play ends early most blocks are empty, and so is what they lead to.
        if !parent.leads_to(rows, first, last, less) {
            continue;
        }
        // The first row with a tile less: if its sum is no more above the last one's, board by board.
        if let Some(sum) = rows.sum_beside(first, less) {
            if sum <= last || block.is_even() {
                spawn_block(parent, (sum.max(last), sum.min(last)), ranks, block, tile, goal, states);
            } else {
                by_stripe = true;
            }
        }
        if block.is_even() {
            if R > 2 {
                spawn_block(parent, (first, last), ranks, block, tile, goal, states);
            }
        } else {
            by_stripe = true;
        }
    }
    if by_stripe {
        let wanted = 4 * C as u32 * (R as u32 - 1);
        let turn = &rows.turns[last];
        let width = rows.count[last] as u32;
        // The block, and the sum, of what gets the tile in the last row.
        let mut lasts = [None; 2];
        for (tile, (parent, last_source)) in (1..).zip(parents.iter().zip(&mut lasts)) {
            let Some(parent) = parent else { continue };
            let sum = rows.sum_beside(last, -(1i64 << tile));
            *last_source = sum.and_then(|sum| Some((u64::from(parent.ranks.base(first, sum)?), sum)));
        }
        for upper in stripes(ranks, block) {
            let mut bits = 0u128;
            // Play stops at the goal: nothing comes after it, and a new tile is none.
            if goal.is_some_and(|goal| nibbles_equal(upper.board, goal.into(), wanted) != 0) {
                continue;
            }
            for (tile, parent) in (1u64..).zip(parents) {
                let Some(parent) = parent else { continue };
                let mut cells = nibbles_equal(upper.board, tile, wanted);
                while cells != 0 {
                    let cell = cells.trailing_zeros();
                    cells &= cells - 1;
                    let (r, before) = (cell as usize / (4 * C), upper.board ^ tile << cell);
                    let mut infos = upper.infos;
                    infos[r] = rows.row(before, r);
                    if r == 0 && infos[0].sum() <= last {
                        continue;
                    }
                    let stripe = parent.ranks.stripe(&infos, last);
                    let stored = read_bits(parent.words, stripe.start.into(), width);
                    bits |= stripe.reading.read(stored, turn);
                }
            }
            for (tile, (parent, source)) in parents.iter().zip(&lasts).enumerate() {
                let (Some(parent), &Some((base, sum))) = (parent, source) else { continue };
                let n = rows.count[sum];
                let start = base + upper.number * n;
                let stored = read_bits(parent.words, start, n as u32);
                let spawned = rows.spawned_of(sum);
                let mut made = 0;
                for number in ones(stored) {
                    made |= spawned[number as usize][tile];
                }
                bits |= if upper.is_palindrome { turn.folded(made) } else { made };
            }
            bits &= rows.live[last];
            if upper.is_palindrome {
                bits &= low_bits(turn.first_count());
            }
            if bits != 0 {
                states.insert_bits(upper.start, bits);
            }
        }
    }
    for place in starts.iter().map(|&board| ranks.place(board)).filter(|place| places_of_block.contains(place)) {
        states.insert(place);
    }
}

/// One bit, the lowest of its nibble, for every nibble of the lowest `bits` that equals `value`.
#[inline(always)]
fn nibbles_equal(board: u64, value: u64, bits: u32) -> u64 {
    let low = 0x1111_1111_1111_1111 & ((1 << bits) - 1);
    let x = board ^ (low * value);
    !(x | x >> 1 | x >> 2 | x >> 3) & low
}

/// Board by board: what new tiles make of the afterstates of one block, as far as it is in another.
#[inline(never)]
fn spawn_block<const R: usize, const C: usize>(
    parent: Parent<'_, R, C>,
    source: (usize, usize),
    ranks: &LayerRanks<R, C>,
    target: &Block,
    tile: u64,
    goal: Option<u32>,
    states: &mut BlockBits,
) {
    let Some(number) = parent.ranks.find_block(source.0, source.1) else { return };
    let rows = &*ranks.rows;
    let sums = (usize::from(target.first), usize::from(target.last));
    let grown = |sum: usize| rows.sum_beside(sum, 1 << tile);
    // Which rows may get the tile.
    let ends = [grown(source.0).map(|sum| (sum, source.1)), grown(source.1).map(|sum| (source.0, sum))];
    let [top, bottom] = ends.map(|ends| ends.is_some_and(|(a, b)| (a.max(b), a.min(b)) == sums));
    let middle = R > 2 && source == sums;
    let mut mask = 0;
    for r in 0..R {
        let gets = if r == 0 {
            top
        } else if r == R - 1 {
            bottom
        } else {
            middle
        };
        mask |= if gets { Lines::<R, C>::ROW_MASK << (4 * C * r) } else { 0 };
    }
    for board in parent.ranks.boards(places(|at| parent.words[at], parent.ranks.block_ranks(number))) {
        if goal.is_some_and(|goal| Lines::<R, C>::largest(board) >= goal) {
            continue;
        }
        let mut cells = Lines::<R, C>::empty(board) & mask;
        while cells != 0 {
            let cell = cells.trailing_zeros();
            cells &= cells - 1;
            states.insert(ranks.place(board | tile << cell));
        }
    }
}
