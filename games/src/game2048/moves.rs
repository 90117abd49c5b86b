//! The moves of the states of a block of rectangles, for the forward pass.
//!
//! A move to the left or right takes a stripe to a stripe of the same block: once its upper rows are looked up, the last rows go through a
//! table of numbers. The boards are collected for the moves up and down ([`super::vertical`]).

use super::Game2048;
use super::bits::{AtomicBits, BlockBits, ones};
use super::lanes::run;
use super::lines::Lines;
use super::ranks::{Block, LayerRanks, Reading, Stripe};
use super::rows::{RowInfo, RowSteps};
use super::spawn::{Upper, stripes};
use super::vertical::{ILLEGAL, TOGETHER, UpDown};

/// What a piece of a layer counts.
#[derive(Clone, Copy, Default)]
pub struct Tally {
    pub states: u64,
    pub terminal: u64,
}

impl std::iter::Sum for Tally {
    fn sum<I: Iterator<Item = Self>>(pieces: I) -> Self {
        pieces.fold(Self::default(), |a, b| Self { states: a.states + b.states, terminal: a.terminal + b.terminal })
    }
}

/// Boards that wait to be ranked together, and the answers.
#[derive(Default)]
pub struct Batch {
    pub boards: Vec<u64>,
    pub up: Vec<u32>,
    pub down: Vec<u32>,
    pub earned: Vec<u32>,
}

/// Boards collected before they are ranked: their ranks and what is looked up for them stay in the first-level cache.
pub const BATCH: usize = 64;

impl Batch {
    /// Makes room for the answers, and pads the boards to whole vectors.
    #[inline(always)]
    fn prepare(&mut self) {
        let padded = self.boards.len().next_multiple_of(TOGETHER);
        let filler = self.boards.last().copied().unwrap_or(0);
        self.boards.resize(padded, filler);
        for answers in [&mut self.up, &mut self.down, &mut self.earned] {
            answers.resize(padded, 0);
        }
    }

    /// Ranks the boards after a move up and down; how many boards there were.
    pub fn up_down<const R: usize, const C: usize>(&mut self, ranks: &LayerRanks<R, C>, lines: &Lines<R, C>) -> usize {
        let n = self.boards.len();
        self.prepare();
        let Self { boards, up, down, earned } = self;
        run(UpDown { ranks, lines, boards, up, down, earned });
        n
    }
}

/// What one stripe becomes by a move to the left or right.
#[derive(Clone, Copy)]
pub struct Side<const R: usize> {
    /// Rank of the first place of the stripe it leads to.
    pub start: u32,
    /// How that stripe is numbered.
    pub reading: Reading,
    /// The last rows with which the move is legal, one bit each.
    pub legal: u128,
    /// Whether it is with all: an upper row moves.
    pub is_always_legal: bool,
    /// The score of the upper rows.
    pub score: u32,
}

impl<const R: usize, const C: usize> Game2048<R, C> {
    /// Both moves within the block: to the left, to the right.
    #[inline(always)]
    pub(super) fn sides(&self, ranks: &LayerRanks<R, C>, upper: &Upper<R>, last: usize) -> [Side<R>; 2] {
        let rows = &*ranks.rows;
        let (mut left, mut right, mut score) = (upper.infos, upper.infos, 0);
        let mut moved = [false; 2];
        for r in 0..R - 1 {
            let row = Lines::<R, C>::row(upper.board, r);
            let moves = self.lines.row_moves(row);
            left[r] = RowInfo(rows.info[usize::from(moves.left)]);
            right[r] = RowInfo(rows.info[usize::from(moves.right)]);
            moved[0] |= usize::from(moves.left) != row;
            moved[1] |= usize::from(moves.right) != row;
            score += moves.score;
        }
        let [to_left, to_right] = [ranks.stripe(&left, last), ranks.stripe(&right, last)];
        let of = |stripe: Stripe, i: usize| Side {
            start: stripe.start,
            reading: stripe.reading,
            legal: if moved[i] { u128::MAX } else { rows.movable[last][i] },
            is_always_legal: moved[i],
            score,
        };
        [of(to_left, 0), of(to_right, 1)]
    }

    /// The moves of the states of a block: those within it into `after`, the others into `everywhere`.
    #[inline(always)]
    pub(super) fn move_block(
        &self,
        ranks: &LayerRanks<R, C>,
        block: &Block,
        states: &BlockBits,
        after: &mut BlockBits,
        everywhere: AtomicBits<'_>,
        batch: &mut Batch,
    ) -> Tally {
        let mut tally = Tally::default();
        let last = usize::from(block.last);
        let (rows, last_at) = (&*ranks.rows, 4 * C as u32 * (R as u32 - 1));
        let (width, steps, of_last) = (rows.count[last] as u32, rows.steps_of(last), rows.of_sum(last));
        batch.boards.clear();
        for upper in stripes(ranks, block) {
            let bits = states.read(upper.start, width);
            if bits == 0 {
                continue;
            }
            let board = |number: u32| upper.board | u64::from(of_last[number as usize]) << last_at;
            tally.states += u64::from(bits.count_ones());
            let mut stuck = bits;
            if block.is_even() {
                for number in ones(bits) {
                    let board = board(number);
                    for moved in &self.lines.moves(board).boards[..2] {
                        if *moved != board {
                            stuck &= !(1 << number);
                            after.insert(ranks.place(*moved));
                        }
                    }
                }
            } else {
                for (i, side) in self.sides(ranks, &upper, last).iter().enumerate() {
                    stuck &= !side.legal;
                    let made = moved_bits(bits & side.legal, steps, i, side.reading);
                    after.insert_bits(side.start.into(), made);
                }
            }
            for number in ones(stuck) {
                let board = board(number);
                if Lines::<R, C>::empty(board) == 0 && Lines::<R, C>::is_stuck_vertically(board) {
                    tally.terminal += 1;
                }
            }
            batch.boards.extend(ones(bits).map(board));
            if batch.boards.len() >= BATCH {
                self.insert_up_and_down(ranks, batch, everywhere);
            }
        }
        if !batch.boards.is_empty() {
            self.insert_up_and_down(ranks, batch, everywhere);
        }
        tally
    }

    #[inline(always)]
    fn insert_up_and_down(&self, ranks: &LayerRanks<R, C>, batch: &mut Batch, everywhere: AtomicBits<'_>) {
        let n = batch.up_down(ranks, &self.lines);
        for places in [&batch.up[..n], &batch.down[..n]] {
            insert_all(places, everywhere);
        }
        batch.boards.clear();
    }
}

/// The numbers of last rows after a move, from those before it.
#[inline(always)]
fn moved_bits(bits: u128, steps: &[RowSteps], side: usize, reading: Reading) -> u128 {
    let (mut low, mut high) = (0u64, 0u64);
    for number in ones(bits) {
        let to = steps[number as usize].moved[side][reading as usize];
        if to < 64 {
            low |= 1 << to;
        } else {
            high |= 1 << (to & 63);
        }
    }
    u128::from(low) | u128::from(high) << 64
}

#[inline(always)]
pub(super) fn insert_all(places: &[u32], set: AtomicBits<'_>) {
    let mut legal = [0u32; BATCH + super::rows::MOST_ROWS];
    let mut n = 0;
    for &place in places {
        legal[n] = place;
        n += usize::from(place != ILLEGAL);
        set.prefetch(place.into());
    }
    for &place in &legal[..n] {
        set.insert(place.into());
    }
}
