//! The dense rank of a board within its age: one look-up a row.
//!
//! A *block* is the part of a layer whose first and last rows have given sums (and so the rows between them have a given sum). All
//! rows of one sum are numbered, those that do not read smaller backwards first. With `n(s)` rows of sum `s`, of which `c(s)`
//! come first, a board of rows (r0, ..., rl) has the rank
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
//! that comes first; on square boards the transposed board's images too. The rank of the board is the smallest of theirs. Usually
//! one image counts; two when the first and the last row are the same up to reversal.

use super::lines::Lines;
use std::sync::Arc;

/// What the rank needs to know of a row, packed in one word: bits 0..12 its number among the rows of its sum, 12..24 the number of
/// the reversed row, 24..26 its orientation, 32..44 the smaller of both numbers, 44..60 the number of its sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct RowInfo(u64);

/// A row that holds a tile too large for the table, or whose sum is beyond the last age.
const NO_ROW: RowInfo = RowInfo(u64::MAX);
/// Orientation of a row that reads the same backwards.
const PALINDROME: u64 = 2;

impl RowInfo {
    #[inline]
    fn number(self, reversed: bool) -> u64 {
        (self.0 >> if reversed { 12 } else { 0 }) & 0xFFF
    }
    #[inline]
    fn orientation(self) -> u64 {
        self.0 >> 24 & 3
    }
    #[inline]
    fn order(self) -> u64 {
        self.0 >> 32
    }
    #[inline]
    fn sum(self) -> usize {
        (self.0 >> 44) as usize & 0xFFFF
    }
}

/// The rows of a board size, numbered by sum; shared by all layers.
pub struct Rows<const R: usize, const C: usize> {
    info: Vec<RowInfo>,
    /// The sums that rows have, ascending.
    sums: Vec<u32>,
    /// Number of a sum, by half of it; `None` when no row has it.
    sum_number: Vec<Option<u16>>,
    /// Rows of each sum, and how many of them do not read smaller backwards.
    count: Vec<u64>,
    first_count: Vec<u64>,
    /// The rows themselves, by sum and number.
    rows: Vec<Vec<u16>>,
    /// Ways to fill the rows between the first and the last, by half of their sum.
    middle_count: Vec<u64>,
    /// Four rows only: offset of the second row's sum, by half of the middle sum.
    middle_offset: Vec<Vec<(u16, u64)>>,
}

impl<const R: usize, const C: usize> Rows<R, C> {
    /// Numbers the rows with tiles of exponent at most `largest` and sum at most `last_age`.
    pub fn new(largest: u32, last_age: u32) -> Self {
        let halves = last_age as usize / 2 + 1;
        let mut by_sum = vec![Vec::new(); halves];
        for row in 0..Lines::<R, C>::ROW_COUNT {
            let cells = || (0..C).map(|c| row >> (4 * c) & 15);
            let sum: usize = cells().map(|x| super::lines::face(x as u64) as usize).sum();
            if cells().all(|x| x <= largest as usize) && sum / 2 < halves {
                by_sum[sum / 2].push(row as u16);
            }
        }
        let mut this = Self {
            info: vec![NO_ROW; Lines::<R, C>::ROW_COUNT],
            sums: Vec::new(),
            sum_number: vec![None; halves],
            count: Vec::new(),
            first_count: Vec::new(),
            rows: Vec::new(),
            middle_count: Vec::new(),
            middle_offset: Vec::new(),
        };
        for (half, rows) in by_sum.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
            this.add_sum(half, rows);
        }
        this.fill_middles(halves);
        this
    }

    fn add_sum(&mut self, half: usize, mut rows: Vec<u16>) {
        let number = self.sums.len();
        rows.sort_by_key(|&row| (row > reverse::<C>(row), row));
        let firsts = rows.iter().filter(|&&row| row <= reverse::<C>(row)).count();
        for (i, &row) in rows.iter().enumerate() {
            let back = reverse::<C>(row);
            let j = rows.iter().position(|&r| r == back).expect("a reversed row has the same sum");
            let orientation = if row == back { PALINDROME } else { u64::from(row > back) };
            let smaller = i.min(j) as u64;
            self.info[row as usize] =
                RowInfo(i as u64 | (j as u64) << 12 | orientation << 24 | smaller << 32 | (number as u64) << 44);
        }
        self.sums.push(half as u32 * 2);
        self.sum_number[half] = Some(number as u16);
        self.count.push(rows.len() as u64);
        self.first_count.push(firsts as u64);
        self.rows.push(rows);
    }

    fn fill_middles(&mut self, halves: usize) {
        let rows_of = |half: usize| self.sum_number[half].map_or(0, |s| self.count[usize::from(s)]);
        let counts: Vec<u64> = match R {
            2 => (0..halves).map(|half| u64::from(half == 0)).collect(),
            3 => (0..halves).map(rows_of).collect(),
            _ => {
                for half in 0..halves {
                    let (mut offsets, mut total) = (Vec::new(), 0);
                    for (s, &sum) in self.sums.iter().enumerate().take_while(|&(_, &sum)| sum as usize / 2 <= half) {
                        let ways = self.count[s] * rows_of(half - sum as usize / 2);
                        if ways > 0 {
                            offsets.push((s as u16, total));
                            total += ways;
                        }
                    }
                    offsets.push((u16::MAX, total));
                    self.middle_offset.push(offsets);
                }
                self.middle_offset.iter().map(|offsets| offsets[offsets.len() - 1].1).collect()
            }
        };
        self.middle_count = counts;
    }

    /// Number of ranks and of blocks of every age from 0 in steps of 2, up to the last age. The products of all layers at once
    /// would take minutes on the largest boards, so the pairs of outer rows are summed once and then folded with the middles.
    pub fn sizes(&self) -> Vec<LayerSize> {
        let halves = self.middle_count.len();
        let mut pairs = vec![LayerSize::default(); halves];
        for (s0, &a) in self.sums.iter().enumerate() {
            for (sl, &b) in self.sums.iter().enumerate().take(s0 + 1) {
                if let Some(pair) = pairs.get_mut((a + b) as usize / 2) {
                    pair.universe += u128::from(self.first_count[s0] * self.count[sl]);
                    pair.blocks += 1;
                }
            }
        }
        let middles: Vec<(usize, u128)> =
            self.middle_count.iter().enumerate().filter(|&(_, &m)| m > 0).map(|(t, &m)| (t, u128::from(m))).collect();
        let fold = |half: usize| {
            middles.iter().take_while(|&&(t, _)| t <= half).fold(LayerSize::default(), |total, &(t, ways)| LayerSize {
                universe: total.universe + ways * pairs[half - t].universe,
                blocks: total.blocks + pairs[half - t].blocks,
            })
        };
        (0..halves).map(fold).collect()
    }

    /// Whether every row of the board is numbered.
    pub fn knows(&self, board: u64) -> bool {
        (0..R).all(|r| self.info[Lines::<R, C>::row(board, r)] != NO_ROW)
    }
}

/// Size of a layer.
#[derive(Clone, Copy, Default, Debug)]
pub struct LayerSize {
    /// Number of ranks.
    pub universe: u128,
    /// Number of blocks.
    pub blocks: u64,
}

fn reverse<const C: usize>(row: u16) -> u16 {
    (0..C).map(|c| (row >> (4 * c) & 15) << (4 * (C - 1 - c))).sum()
}

/// A block: boards whose first and last rows have given sums.
#[derive(Clone, Copy)]
struct Block {
    base: u32,
    first: u16,
    last: u16,
}

/// Ranks of one age.
pub struct LayerRanks<const R: usize, const C: usize> {
    rows: Arc<Rows<R, C>>,
    age: u32,
    offsets: Vec<u32>,
    stride: usize,
    blocks: Vec<Block>,
    universe: u64,
}

impl<const R: usize, const C: usize> LayerRanks<R, C> {
    /// Lays out the blocks of an age. The universe must be below 2^32 (checked when the table is opened).
    pub fn new(rows: &Arc<Rows<R, C>>, age: u32) -> Self {
        let stride = rows.sums.partition_point(|&sum| sum <= age);
        let (rows, offsets) = (Arc::clone(rows), vec![0; stride * stride]);
        let mut this = Self { age, offsets, stride, blocks: Vec::new(), universe: 0, rows };
        for first in 0..stride {
            for last in 0..=first {
                let rows = &this.rows;
                let Some(middle) = age.checked_sub(rows.sums[first] + rows.sums[last]) else { break };
                let ways = rows.first_count[first] * rows.count[last] * rows.middle_count[middle as usize / 2];
                if ways == 0 {
                    continue;
                }
                let base = u32::try_from(this.universe).expect("a layer has fewer than 2^32 ranks");
                this.offsets[first * stride + last] = base;
                this.blocks.push(Block { base, first: first as u16, last: last as u16 });
                this.universe += ways;
            }
        }
        this
    }

    /// The age.
    pub fn age(&self) -> u32 {
        self.age
    }

    /// Number of ranks.
    pub fn universe(&self) -> u64 {
        self.universe
    }

    /// The rank of a board of this age; the same for all symmetric boards.
    #[inline]
    pub fn rank(&self, board: u64) -> u64 {
        let rank = self.rank_mirrored(board);
        if R == C { rank.min(self.rank_mirrored(Lines::<R, C>::transpose(board))) } else { rank }
    }

    #[inline]
    fn rank_mirrored(&self, board: u64) -> u64 {
        let mut infos = [NO_ROW; R];
        for (r, info) in infos.iter_mut().enumerate() {
            *info = self.rows.info[Lines::<R, C>::row(board, r)];
        }
        self.rank_rows(infos)
    }

    #[inline]
    fn rank_rows(&self, mut infos: [RowInfo; R]) -> u64 {
        let (first, last) = (infos[0].order(), infos[R - 1].order());
        if first < last {
            infos.reverse();
        }
        let rank = self.rank_ordered(infos);
        if first == last {
            infos.reverse();
            return rank.min(self.rank_ordered(infos));
        }
        rank
    }

    #[inline]
    fn rank_ordered(&self, infos: [RowInfo; R]) -> u64 {
        let lead = infos.iter().map(|info| info.orientation()).find(|&o| o != PALINDROME).unwrap_or(0);
        let reversed = lead == 1;
        let (first, last) = (infos[0], infos[R - 1]);
        let (middle, ways) = match R {
            2 => (0, 1),
            3 => (infos[1].number(reversed), self.rows.count[infos[1].sum()]),
            _ => self.middle_of_two(infos[1], infos[2], reversed),
        };
        let offset = u64::from(self.offsets[first.sum() * self.stride + last.sum()]);
        offset + (first.number(reversed) * ways + middle) * self.rows.count[last.sum()] + last.number(reversed)
    }

    #[inline]
    fn middle_of_two(&self, second: RowInfo, third: RowInfo, reversed: bool) -> (u64, u64) {
        let half = (self.rows.sums[second.sum()] + self.rows.sums[third.sum()]) as usize / 2;
        let offsets = &self.rows.middle_offset[half];
        let at = offsets.partition_point(|&(sum, _)| usize::from(sum) < second.sum());
        let number = second.number(reversed) * self.rows.count[third.sum()] + third.number(reversed);
        (offsets[at].1 + number, self.rows.middle_count[half])
    }

    /// The board of a rank below the universe. Not every rank is the smallest of its board's images; those that are not are never
    /// in a set.
    pub fn unrank(&self, rank: u64) -> u64 {
        Cursor::at(self, rank).board(rank)
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
    last: &'a [u16],
}

impl<'a, const R: usize, const C: usize> Cursor<'a, R, C> {
    /// A cursor for ranks from `rank` on.
    pub fn at(layer: &'a LayerRanks<R, C>, rank: u64) -> Self {
        assert!(rank < layer.universe, "rank {rank} of a universe of {}", layer.universe);
        let block = layer.blocks.partition_point(|block| u64::from(block.base) <= rank) - 1;
        let mut this = Self { layer, block, block_end: 0, start: 0, end: 0, upper: 0, last: &[] };
        this.enter(block);
        this
    }

    fn enter(&mut self, block: usize) {
        self.block = block;
        self.block_end = self.layer.blocks.get(block + 1).map_or(self.layer.universe, |next| u64::from(next.base));
        self.last = &self.layer.rows.rows[usize::from(self.layer.blocks[block].last)];
        self.end = 0;
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
        let (block, rows) = (self.layer.blocks[self.block], &self.layer.rows);
        let (base, width) = (u64::from(block.base), self.last.len() as u64);
        let high = (rank - base) / width;
        self.start = base + high * width;
        self.end = self.start + width;
        let half = (self.layer.age - rows.sums[usize::from(block.first)] - rows.sums[usize::from(block.last)]) / 2;
        let ways = rows.middle_count[half as usize];
        let (number, middle) = (high / ways, high % ways);
        self.upper = u64::from(rows.rows[usize::from(block.first)][number as usize]) | self.middle_rows(half, middle);
    }

    fn middle_rows(&self, half: u32, middle: u64) -> u64 {
        let rows = &self.layer.rows;
        let numbered = |half: u32, number: u64| {
            let sum = rows.sum_number[half as usize].expect("the middle has a row of this sum");
            u64::from(rows.rows[usize::from(sum)][number as usize])
        };
        match R {
            2 => 0,
            3 => numbered(half, middle) << (4 * C),
            _ => {
                let offsets = &rows.middle_offset[half as usize];
                let (second, base) = offsets[offsets.partition_point(|&(_, base)| base <= middle) - 1];
                let second_half = rows.sums[usize::from(second)] / 2;
                let third_half = half - second_half;
                let third_count = rows.count[usize::from(rows.sum_number[third_half as usize].expect("a row of this sum"))];
                let number = middle - base;
                numbered(second_half, number / third_count) << (4 * C) | numbered(third_half, number % third_count) << (8 * C)
            }
        }
    }
}
