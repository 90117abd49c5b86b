//! The dense rank of a board within its age: one look-up a row.
//!
//! A *block* is the part of a layer whose first and last rows have given sums (and so the rows between them have a given sum). All
//! rows of one sum are numbered ([`super::rows`]). With `n(s)` rows of sum `s`, of which `c(s)` come first of their pairs, a board of
//! rows (r0, ..., rl) has the rank
//!
//! ```text
//!     offset[s0][sl] + (number(r0) * M + middle) * n(sl) + number(rl)
//! ```
//!
//! where `middle` numbers the `M` ways to fill the rows between: nothing (two rows), the number of the row (three), or a mixed radix
//! of both with an offset for the sum of the second (four). The universe of a block is `c(s0) * M * n(sl)`.
//!
//! Symmetry: mirroring exchanges the order of the rows, or reverses every row. Of the images of a board those count that have
//! (sum, smaller of both numbers) of the first row not below that of the last, and the first row that is no palindrome in the half
//! that comes first. The smallest rank of these is the board's *place*: usually one image counts, two when the first and the last row
//! are the same up to reversal. On square boards the transposed board has another place, and the smaller of both is the rank of
//! the position.
//!
//! A *stripe* is the boards that share all rows but the last: `n(sl)` places in a row. A set of places is, stripe by stripe, a set of
//! numbers of last rows, and what happens to the upper rows alone (a new tile there, a move that leaves the last row as it is) happens to
//! the whole stripe at once. The engine works on stripes wherever it can.

use super::lines::Lines;
pub use super::rows::{LayerSize, Rows};
use super::rows::{NO_ROW, PALINDROME, RowInfo, Turn};
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Offset of a block that does not exist.
const NO_BLOCK: u32 = u32::MAX;

/// A block: boards whose first and last rows have given sums.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// Its first rank.
    pub base: u32,
    /// Number of the sum of the first row.
    pub first: u16,
    /// Number of the sum of the last row; not above the first.
    pub last: u16,
}

impl Block {
    /// Whether the first and the last row have the same sum: which is the first then depends on the rows themselves.
    #[inline(always)]
    pub fn is_even(&self) -> bool {
        self.first == self.last
    }
}

/// Under which number a last row is found in a stripe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    /// Its own.
    AsIs = 0,
    /// That of the reversed row: the upper rows are stored reversed.
    Reversed = 1,
    /// The smaller of both: the upper rows are palindromes.
    Smaller = 2,
}

impl Reading {
    /// The set of last rows that a stripe so read has, from the bits that are stored.
    #[inline(always)]
    pub fn read(self, stored: u128, turn: &Turn) -> u128 {
        match self {
            Reading::AsIs => stored,
            Reading::Reversed => turn.reversed(stored),
            Reading::Smaller => turn.unfolded(stored),
        }
    }
    /// The number under which a last row is stored.
    #[inline(always)]
    pub fn number(self, number: u32, turn: &Turn) -> u32 {
        match self {
            Reading::AsIs => number,
            Reading::Reversed => turn.reverse(number),
            Reading::Smaller => turn.smaller(number),
        }
    }
}

/// A stripe as seen from boards that may lie otherwise than they are stored.
#[derive(Clone, Copy, Debug)]
pub struct Stripe {
    /// Rank of its first place.
    pub start: u32,
    /// How its last rows are numbered.
    pub reading: Reading,
}

/// Ranks of one age.
pub struct LayerRanks<const R: usize, const C: usize> {
    pub(super) rows: Arc<Rows<R, C>>,
    age: u32,
    /// First rank of a block, by the numbers of both sums: `first << shift | last`.
    pub(super) offsets: Vec<u32>,
    pub(super) shift: u32,
    pub(super) blocks: Blocks,
}

/// The blocks of an age, in the order of their ranks.
pub struct Blocks {
    blocks: Vec<Block>,
    universe: u64,
}

impl Deref for Blocks {
    type Target = [Block];

    #[inline(always)]
    fn deref(&self) -> &[Block] {
        &self.blocks
    }
}

impl Blocks {
    /// Lays out the blocks of an age. The universe must be below 2^32 (checked when the table is opened).
    pub fn new<const R: usize, const C: usize>(rows: &Rows<R, C>, age: u32) -> Self {
        let mut this = Self { blocks: Vec::new(), universe: 0 };
        for first in 0..sums_to(rows, age) {
            let rest = age - rows.sums[first];
            if R == 2 {
                // Nothing is between the rows, so the last one has the rest.
                if let Some(last) = rows.sum_number[rest as usize / 2].filter(|&last| usize::from(last) <= first) {
                    this.add(rows, first, last.into(), 0);
                }
                continue;
            }
            for last in 0..=first {
                let Some(middle) = rest.checked_sub(rows.sums[last]) else { break };
                this.add(rows, first, last, middle as usize / 2);
            }
        }
        this
    }

    fn add<const R: usize, const C: usize>(&mut self, rows: &Rows<R, C>, first: usize, last: usize, middle_half: usize) {
        let ways = u64::from(rows.turns[first].first_count()) * rows.count[last] * rows.middle_count[middle_half];
        if ways == 0 {
            return;
        }
        let base = u32::try_from(self.universe).expect("a layer has fewer than 2^32 ranks");
        self.blocks.push(Block { base, first: first as u16, last: last as u16 });
        self.universe += ways;
    }

    /// The ranks of some blocks, by their numbers.
    pub fn ranks_of(&self, blocks: &Range<usize>) -> Range<u64> {
        let start = |block: usize| self.blocks.get(block).map_or(self.universe, |block| block.base.into());
        start(blocks.start)..start(blocks.end)
    }
}

/// How many sums rows of boards of an age may have; one at least.
fn sums_to<const R: usize, const C: usize>(rows: &Rows<R, C>, age: u32) -> usize {
    rows.sums.partition_point(|&sum| sum <= age).max(1)
}

impl<const R: usize, const C: usize> LayerRanks<R, C> {
    /// Lays out the blocks of an age. The universe must be below 2^32 (checked when the table is opened).
    pub fn new(rows: &Arc<Rows<R, C>>, age: u32) -> Self {
        let sums = sums_to(rows, age);
        let shift = sums.next_power_of_two().trailing_zeros();
        let blocks = Blocks::new(rows, age);
        let mut offsets = vec![NO_BLOCK; sums.next_power_of_two() << shift];
        for block in &*blocks {
            offsets[usize::from(block.first) << shift | usize::from(block.last)] = block.base;
        }
        Self { age, offsets, shift, blocks, rows: Arc::clone(rows) }
    }

    /// The age.
    pub fn age(&self) -> u32 {
        self.age
    }

    /// Number of ranks.
    pub fn universe(&self) -> u64 {
        self.blocks.universe
    }

    /// The ranks of a block, by its number.
    pub fn block_ranks(&self, block: usize) -> Range<u64> {
        let end = self.blocks.get(block + 1).map_or(self.universe(), |next| next.base.into());
        self.blocks[block].base.into()..end
    }

    /// The ranks of some blocks, by their numbers.
    pub fn ranks_of_blocks(&self, blocks: &Range<usize>) -> Range<u64> {
        self.blocks.ranks_of(blocks)
    }

    /// The boards of ascending places.
    #[inline(always)]
    pub fn boards(&self, places: impl Iterator<Item = u64>) -> impl Iterator<Item = u64> {
        let mut cursor: Option<Cursor<'_, R, C>> = None;
        places.map(
            #[inline(always)]
            move |place| cursor.get_or_insert_with(|| Cursor::at(self, place)).board(place),
        )
    }

    /// The number of a block; `None` when there is none with these sums.
    pub fn find_block(&self, first: usize, last: usize) -> Option<usize> {
        self.base(first, last).map(|base| self.blocks.partition_point(|block| block.base < base))
    }

    /// The first rank of a block; `None` when there is none with these sums.
    #[inline(always)]
    pub fn base(&self, first: usize, last: usize) -> Option<u32> {
        let base = *self.offsets.get(first << self.shift | last).filter(|_| last >> self.shift == 0)?;
        (base != NO_BLOCK).then_some(base)
    }

    /// Half of the sum of the rows between the first and the last.
    #[inline(always)]
    pub fn middle_half(&self, block: &Block) -> usize {
        let outer = self.rows.sums[usize::from(block.first)] + self.rows.sums[usize::from(block.last)];
        (self.age - outer) as usize / 2
    }

    /// The rank of a board of this age; the same for all symmetric boards.
    #[inline]
    pub fn rank(&self, board: u64) -> u64 {
        let place = self.place(board);
        if R == C { place.min(self.place(Lines::<R, C>::transpose(board))) } else { place }
    }

    /// The place of a board of this age: the same for all boards that are symmetric without exchanging rows and columns.
    #[inline(always)]
    pub fn place(&self, board: u64) -> u64 {
        let mut infos = [NO_ROW; R];
        for (r, info) in infos.iter_mut().enumerate() {
            *info = self.rows.row(board, r);
        }
        let (first, last) = (infos[0].order(), infos[R - 1].order());
        if first < last {
            infos.reverse();
        }
        let place = self.place_as_it_lies(&infos);
        if first == last {
            infos.reverse();
            return place.min(self.place_as_it_lies(&infos));
        }
        place
    }

    #[inline(always)]
    fn place_as_it_lies(&self, infos: &[RowInfo; R]) -> u64 {
        let (first, last) = (infos[0], infos[R - 1]);
        let lead = infos.iter().map(|info| info.orientation()).find(|&o| o != PALINDROME).unwrap_or(0);
        let reversed = lead == 1;
        let offset = u64::from(self.offsets[first.sum() << self.shift | last.sum()]);
        offset + self.upper(infos, reversed) * last.count() + last.number(reversed)
    }

    /// The number of the rows above the last among those of their block.
    #[inline(always)]
    fn upper(&self, infos: &[RowInfo; R], reversed: bool) -> u64 {
        let first = infos[0].number(reversed);
        match R {
            2 => first,
            3 => first * infos[1].count() + infos[1].number(reversed),
            _ => {
                let (middle, ways) = self.middle_of_two(infos[1], infos[2], reversed);
                first * ways + middle
            }
        }
    }

    #[inline]
    fn middle_of_two(&self, second: RowInfo, third: RowInfo, reversed: bool) -> (u64, u64) {
        let half = (self.rows.sums[second.sum()] + self.rows.sums[third.sum()]) as usize / 2;
        let offsets = &self.rows.middle_offset[half];
        let at = offsets.partition_point(|&(sum, _)| usize::from(sum) < second.sum());
        let number = second.number(reversed) * third.count() + third.number(reversed);
        (offsets[at].1 + number, self.rows.middle_count[half])
    }

    /// The stripe of boards with these upper rows (the last entry is not looked at) and a last row of this sum, which must be below
    /// that of the first row.
    #[inline(always)]
    pub fn stripe(&self, infos: &[RowInfo; R], last: usize) -> Stripe {
        debug_assert!(infos[0].sum() > last);
        let lead = infos[..R - 1].iter().map(|info| info.orientation()).find(|&o| o != PALINDROME);
        let reading = match lead {
            None => Reading::Smaller,
            Some(1) => Reading::Reversed,
            Some(_) => Reading::AsIs,
        };
        let offset = self.offsets[infos[0].sum() << self.shift | last];
        let upper = self.upper(infos, reading == Reading::Reversed);
        Stripe { start: offset + (upper * self.rows.count[last]) as u32, reading }
    }

    /// The board of a rank below the universe. Not every rank is the smallest of its board's images; those that are not are never
    /// in a set.
    pub fn unrank(&self, rank: u64) -> u64 {
        Cursor::at(self, rank).board(rank)
    }

    /// Four rows: the two between the first and the last, at their place in the board.
    fn middle_rows(&self, half: usize, middle: u64) -> u64 {
        let rows = &self.rows;
        let numbered = |half: usize, number: u64| {
            let sum = rows.sum_number[half].expect("the middle has a row of this sum");
            u64::from(rows.of_sum(sum.into())[number as usize])
        };
        let offsets = &rows.middle_offset[half];
        let (second, base) = offsets[offsets.partition_point(|&(_, base)| base <= middle) - 1];
        let second_half = rows.sums[usize::from(second)] as usize / 2;
        let third_half = half - second_half;
        let third_count = rows.count[usize::from(rows.sum_number[third_half].expect("a row of this sum"))];
        let number = middle - base;
        numbered(second_half, number / third_count) << (4 * C) | numbered(third_half, number % third_count) << (8 * C)
    }
}

/// Walks ascending ranks, remembering what neighbours share: all rows but the last.
pub struct Cursor<'a, const R: usize, const C: usize> {
    layer: &'a LayerRanks<R, C>,
    block: usize,
    block_end: u64,
    /// Ranks `start..end` share all rows but the last.
    start: u64,
    end: u64,
    upper: u64,
    /// The rows that are first in the block, those that can be second on three rows, those that can be last.
    firsts: &'a [u16],
    seconds: &'a [u16],
    last: &'a [u16],
    /// Half of the sum of the rows between, ways to fill them, and which first row and which way the stripe has.
    half: usize,
    ways: u64,
    number: u64,
    middle: u64,
}

/// So many stripes on, counting beats dividing.
const NEAR: u64 = 8;

impl<'a, const R: usize, const C: usize> Cursor<'a, R, C> {
    /// A cursor for ranks from `rank` on.
    pub fn at(layer: &'a LayerRanks<R, C>, rank: u64) -> Self {
        assert!(rank < layer.universe(), "rank {rank} of a universe of {}", layer.universe());
        let block = layer.blocks.partition_point(|block| u64::from(block.base) <= rank) - 1;
        let none: &[u16] = &[];
        let (firsts, seconds, last) = (none, none, none);
        let (start, end, upper) = (0, 0, 0);
        let (half, ways, number, middle) = (0, 1, 0, 0);
        let mut this = Self { layer, block, block_end: 0, start, end, upper, firsts, seconds, last, half, ways, number, middle };
        this.enter(block);
        this
    }

    fn enter(&mut self, number: usize) {
        let (layer, rows) = (self.layer, &self.layer.rows);
        let block = layer.blocks[number];
        self.block = number;
        self.block_end = layer.block_ranks(number).end;
        self.last = rows.of_sum(block.last.into());
        self.firsts = rows.of_sum(block.first.into());
        self.half = layer.middle_half(&block);
        self.ways = rows.middle_count[self.half];
        self.seconds = if R == 3 { rows.sum_number[self.half].map_or(&[], |sum| rows.of_sum(sum.into())) } else { &[] };
        (self.number, self.middle) = (0, 0);
        (self.start, self.end) = (block.base.into(), u64::from(block.base) + self.last.len() as u64);
        self.take_rows();
    }

    /// The board of a rank; ranks must not descend.
    #[inline]
    pub fn board(&mut self, rank: u64) -> u64 {
        if rank >= self.end {
            self.seek(rank);
        }
        self.upper | u64::from(self.last[(rank - self.start) as usize]) << (4 * C * (R - 1))
    }

    fn seek(&mut self, rank: u64) {
        while rank >= self.block_end {
            self.enter(self.block + 1);
        }
        if rank < self.end {
            return;
        }
        let width = self.last.len() as u64;
        let mut stripes = 1;
        if rank - self.end < NEAR * width {
            while rank >= self.end + stripes * width {
                stripes += 1;
            }
        } else {
            stripes += (rank - self.end) / width;
        }
        self.start += stripes * width;
        self.end = self.start + width;
        self.middle += stripes;
        if self.middle >= self.ways {
            if self.middle < 2 * self.ways {
                (self.number, self.middle) = (self.number + 1, self.middle - self.ways);
            } else {
                (self.number, self.middle) = (self.number + self.middle / self.ways, self.middle % self.ways);
            }
        }
        self.take_rows();
    }

    #[inline(always)]
    fn take_rows(&mut self) {
        let between = match R {
            2 => 0,
            3 => u64::from(self.seconds[self.middle as usize]) << (4 * C),
            _ => self.layer.middle_rows(self.half, self.middle),
        };
        self.upper = u64::from(self.firsts[self.number as usize]) | between;
    }
}
