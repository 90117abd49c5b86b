//! The values of the afterstates of a layer, from those of the states of the two ages after.
//!
//! An afterstate is worth the mean over its empty cells and both new tiles of what the states they make are worth. A stripe of afterstates
//! reads one stripe of states for every empty cell of its upper rows, and one for the last row: where they begin is worked
//! out once for all boards of the stripe, and each look-up is a count of bits in a word that is at hand.
//!
//! Sums have one order: the cells of the board as it is stored, ascending, the 2s and the 4s apart. So the values do not depend on how
//! the work is cut.

use super::Game2048;
use super::best::Finds;
use super::bits::{Ranked, RankedBits, RankedStripe, ones};
use super::forward::{empty_cells, pieces_of};
use super::lanes::{Job, Lanes, is_wide, prefetch, run};
use super::lines::Lines;
use super::ranks::{Block, LayerRanks, Reading};
use super::room::Room;
use super::rows::{MOST_ROWS, NO_NUMBER};
use super::spawn::{Upper, stripes};
use super::vertical::ILLEGAL;
use crate::array::{Array, Releaser};
use crate::space::TaskError;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// Values of all boards of one kind and age, by place.
pub(super) struct Valued<const R: usize, const C: usize> {
    pub(super) ranks: Arc<LayerRanks<R, C>>,
    pub(super) set: RankedBits,
    pub(super) values: Array<f64>,
}

impl<const R: usize, const C: usize> Valued<R, C> {
    /// The values, for look-ups.
    pub(super) fn view(&self) -> Values<'_, R, C> {
        Values { ranks: &self.ranks, set: self.set.view(), values: &self.values }
    }

    /// It will not be used for a while.
    pub(super) fn release(&self) {
        self.values.releaser().release();
        self.set.releaser().release();
    }
}

/// Values of all boards of one kind and age, at hand for look-ups.
#[derive(Clone, Copy)]
pub(super) struct Values<'a, const R: usize, const C: usize> {
    pub(super) ranks: &'a LayerRanks<R, C>,
    pub(super) set: Ranked<'a>,
    pub(super) values: &'a [f64],
}

impl<const R: usize, const C: usize> Values<'_, R, C> {
    /// The value of a board of this kind and age.
    #[inline(always)]
    pub(super) fn get(&self, board: u64) -> f64 {
        self.values[self.set.find(self.ranks.rank(board))]
    }

    /// Finds the boards of these places, but for moves that are not legal, and asks for their values.
    #[inline(always)]
    pub(super) fn find_all(&self, places: &[u32], found: &mut [usize]) {
        for (found, &place) in found.iter_mut().zip(places) {
            if place != ILLEGAL {
                *found = self.set.find(place.into());
                prefetch(self.values, *found);
            }
        }
    }
}

/// The values of the states that new tiles make: of a 2, of a 4. `None` for an age that the table does not have.
pub(super) type Children<'a, const R: usize, const C: usize> = [Option<Values<'a, R, C>>; 2];

impl<const R: usize, const C: usize> Game2048<R, C> {
    /// The values of a set of afterstates, all in some blocks, in its order.
    pub(super) fn value_afterstates(
        &self,
        room: &Room<'_>,
        ranks: &LayerRanks<R, C>,
        blocks: &Range<usize>,
        set: &RankedBits,
        children: [Option<&Valued<R, C>>; 2],
    ) -> Result<Array<f64>, TaskError> {
        let mut values = room.array_anywhere(set.count() as usize, set.bytes())?;
        let done = [values.releaser(), set.releaser()];
        let (set, views) = (set.view(), children.map(|child| child.map(Valued::view)));
        let release = || {
            children.into_iter().flatten().for_each(Valued::release);
            done.iter().for_each(Releaser::release);
        };
        if const { R == C } {
            self.value_square_afterstates(ranks, set, views, &mut values, &release);
            return Ok(values);
        }
        let finds = Finds { values: &mut values, ..Finds::default() };
        let of_pieces = finds.split(set, pieces_of(ranks, blocks), |blocks| ranks.ranks_of_blocks(blocks));
        of_pieces.into_par_iter().with_max_len(1).for_each(|(blocks, finds)| {
            run(ValueAfterstates { game: self, ranks, set, children: views, blocks, values: finds.values });
            release();
        });
        Ok(values)
    }

    /// The value of an afterstate, board by board.
    pub(super) fn after_value(&self, board: u64, age: u32, children: Children<'_, R, C>) -> f64 {
        if self.has_won(board) {
            return 1.0;
        }
        let value = |board: u64, age: u32, states: Option<Values<'_, R, C>>| match states {
            Some(states) => states.get(board),
            None => self.value_without_moves(board, age),
        };
        let (mut twos, mut fours, mut cells) = (0.0, 0.0, 0u32);
        for cell in empty_cells::<R, C>(board) {
            twos += value(board | 1 << cell, age + 2, children[0]);
            fours += value(board | 2 << cell, age + 4, children[1]);
            cells += 1;
        }
        self.mean(twos, fours, cells)
    }

    #[inline(always)]
    pub(super) fn mean(&self, twos: f64, fours: f64, cells: u32) -> f64 {
        self.at_most_one(((1.0 - self.spec.four) * twos + self.spec.four * fours) / f64::from(cells))
    }

    /// A mean of chances may come out above 1 by rounding.
    #[inline(always)]
    pub(super) fn at_most_one(&self, value: f64) -> f64 {
        if self.spec.tile.is_some() && value > 1.0 { 1.0 } else { value }
    }

    /// Whether states beyond the last age have values of their own: then boards are valued one by one.
    pub(super) fn is_odd(&self) -> bool {
        self.spec.meaningless
    }
}

/// The values of the afterstates of some blocks.
struct ValueAfterstates<'a, const R: usize, const C: usize> {
    game: &'a Game2048<R, C>,
    ranks: &'a LayerRanks<R, C>,
    set: Ranked<'a>,
    children: Children<'a, R, C>,
    blocks: Range<usize>,
    values: &'a mut [f64],
}

impl<const R: usize, const C: usize> Job for ValueAfterstates<'_, R, C> {
    type Output = ();
    const IS_WIDE: bool = is_wide::<R, C>();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let Self { game, ranks, set, children, blocks, values } = self;
        let mut at = 0;
        for number in blocks {
            let block = &ranks.blocks[number];
            if block.is_even() || game.is_odd() {
                for board in ranks.boards(set.places(ranks.block_ranks(number))) {
                    values[at] = game.after_value(board, ranks.age(), children);
                    at += 1;
                }
                continue;
            }
            let width = ranks.rows.count[usize::from(block.last)] as u32;
            let lasts = [0, 1].map(|tile| last_child(ranks, block, children[tile], tile));
            for upper in stripes(ranks, block) {
                let bits = set.read(upper.start, width);
                if bits != 0 {
                    let n = bits.count_ones() as usize;
                    game.value_stripe(ranks, block, &upper, bits, children, lasts, &mut values[at..at + n]);
                    at += n;
                }
            }
        }
    }
}

/// Where a new tile in the last row leads from a block.
#[derive(Clone, Copy)]
struct LastChild {
    /// The first rank of the block; none if the last row's sum is then not below the first's.
    base: Option<u32>,
    /// Rows of the last row's new sum.
    width: u32,
}

/// Where a new tile in the last row leads from a block.
#[inline(always)]
fn last_child<const R: usize, const C: usize>(
    ranks: &LayerRanks<R, C>,
    block: &Block,
    child: Option<Values<'_, R, C>>,
    tile: usize,
) -> Option<LastChild> {
    let (child, first) = (child?, usize::from(block.first));
    let sum = ranks.rows.sum_beside(block.last.into(), 2 << tile)?;
    let base = child.ranks.base(first, sum).filter(|_| sum < first);
    Some(LastChild { base, width: ranks.rows.count[sum] as u32 })
}

impl<const R: usize, const C: usize> Game2048<R, C> {
    /// The values of the afterstates of one stripe, whose last rows are given by their bits.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn value_stripe(
        &self,
        ranks: &LayerRanks<R, C>,
        block: &Block,
        upper: &Upper<R>,
        bits: u128,
        children: Children<'_, R, C>,
        lasts: [Option<LastChild>; 2],
        values: &mut [f64],
    ) {
        let rows = &*ranks.rows;
        let (last, last_at) = (usize::from(block.last), 4 * C as u32 * (R as u32 - 1));
        let (turn, width) = (&rows.turns[last], rows.count[last] as u32);
        let open = if self.has_won(upper.board) { 0 } else { bits & rows.live[last] };
        // Numbers of the last rows in the three readings.
        let (mut numbers, mut n) = ([[0u8; MOST_ROWS]; 3], 0);
        for number in ones(open) {
            numbers[0][n] = number as u8;
            numbers[1][n] = turn.reverse(number) as u8;
            numbers[2][n] = turn.smaller(number) as u8;
            n += 1;
        }
        let mut sums = [[0.0f64; MOST_ROWS]; 2];
        // Above the upper rows the board is empty, and none of that counts.
        let mut cells = Lines::<R, C>::empty(upper.board) & ((1 << last_at) - 1);
        let upper_cells = cells.count_ones();
        while cells != 0 {
            let cell = cells.trailing_zeros();
            cells &= cells - 1;
            let r = cell as usize / (4 * C);
            for (tile, (child, sums)) in children.iter().zip(&mut sums).enumerate() {
                let Some(child) = child else { continue };
                let mut infos = upper.infos;
                infos[r] = rows.row(upper.board | 1 << (cell as usize + tile), r);
                let stripe = child.ranks.stripe(&infos, last);
                let found = RankedStripe::of(child.set, stripe.start.into(), width);
                let numbers = &numbers[stripe.reading as usize];
                for (sum, &number) in sums[..n].iter_mut().zip(&numbers[..n]) {
                    *sum += child.values[found.find(number.into())];
                }
            }
        }
        let steps = rows.steps_of(last);
        let of_last = rows.of_sum(last);
        for (tile, (child, last_child)) in children.iter().zip(lasts).enumerate() {
            let (Some(child), Some(last_child)) = (child, last_child) else { continue };
            let sums = &mut sums[tile];
            let Some(base) = last_child.base else {
                for (sum, &number) in sums[..n].iter_mut().zip(&numbers[0][..n]) {
                    let row = of_last[usize::from(number)];
                    for c in (0..C as u32).filter(|c| row >> (4 * c) & 15 == 0) {
                        let board = upper.board | u64::from(row) << last_at | 1 << (last_at + 4 * c + tile as u32);
                        *sum += child.get(board);
                    }
                }
                continue;
            };
            let start = u64::from(base) + upper.number * u64::from(last_child.width);
            let found = RankedStripe::of(child.set, start, last_child.width);
            let grown = &rows.turns[rows.sum_beside(last, 2 << tile).expect("the block exists")];
            let reading = if upper.is_palindrome { Reading::Smaller } else { Reading::AsIs };
            for (sum, &number) in sums[..n].iter_mut().zip(&numbers[0][..n]) {
                for &to in &steps[usize::from(number)].spawned[tile][..C] {
                    if to != NO_NUMBER {
                        *sum += child.values[found.find(reading.number(to.into(), grown))];
                    }
                }
            }
        }
        let (mut i, mut j) = (0, 0);
        for number in ones(bits) {
            values[j] = if open >> number & 1 == 1 {
                let cells =
                    upper_cells + steps[number as usize].spawned[0][..C].iter().filter(|&&to| to != NO_NUMBER).count() as u32;
                let value = self.mean(sums[0][i], sums[1][i], cells);
                i += 1;
                value
            } else {
                1.0
            };
            j += 1;
        }
    }
}
