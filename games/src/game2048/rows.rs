//! The rows of a board size, numbered by their sum, and what a move or a new tile does to their numbers.
//!
//! All rows of one sum are numbered: first the `p` palindromes, then one of each pair of a row and its reverse, then the others in the
//! order of their partners. So the rows that come first of a pair have the numbers below `p + k`, and reversing a row is adding
//! or subtracting `k`: on a set of numbers, one bit each, it exchanges two runs of bits ([`Turn`]). No sum has more than 66 rows of four
//! cells, so such a set is a `u128`, and what the engine does to all boards that differ in the last row alone is done in a few words.

use super::lines::{Lines, face, slide};

/// Most rows of one sum: four cells, a sum of two powers of two that are far apart.
pub const MOST_ROWS: usize = 66;
/// Orientation of a row that reads the same backwards; of the others it is 0 for the first of a pair, 1 for the second.
pub const PALINDROME: u64 = 2;
/// No number: the row does not exist, or belongs to no board of the table.
pub const NO_NUMBER: u8 = u8::MAX;

/// What ranks need to know of a row, in one word that a vector register can take apart:
///
/// ```text
/// bits  0..7 smaller of the numbers of the row and its reverse    7..19 number of its sum    (together: its order)
///      19..26 number    26..33 number of the reverse    33..40 rows of the sum    40..42 orientation    42..63 earned
/// ```
///
/// *Earned* is the sum of (e - 1) * 2^e over its tiles 2^e: what merging them from tiles of 2 scores. The score of a move is the
/// difference of what the boards after and before it earned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowInfo(pub u64);

/// A row that holds a tile too large for the table, or whose sum is beyond the last age.
pub const NO_ROW: RowInfo = RowInfo(u64::MAX);

impl RowInfo {
    /// Width of [`order`](Self::order).
    pub const ORDER_BITS: u32 = 19;
    /// Where the number of the sum begins.
    pub const SUM_AT: u32 = 7;
    /// Where the number begins.
    pub const NUMBER_AT: u32 = 19;
    /// Where the number of the reversed row begins, after the number.
    pub const REVERSED_AFTER: u32 = 7;
    /// Where the number of rows begins.
    pub const COUNT_AT: u32 = 33;
    /// Where the orientation begins.
    pub const ORIENTATION_AT: u32 = 40;
    /// Where what the row earned begins.
    pub const EARNED_AT: u32 = 42;

    /// Sum first, then the smaller of both numbers: decides which of the outer rows is the first.
    #[inline(always)]
    pub fn order(self) -> u64 {
        self.0 & ((1 << Self::ORDER_BITS) - 1)
    }
    /// The smaller of the numbers of the row and of its reverse.
    #[inline(always)]
    pub fn smaller(self) -> u64 {
        self.0 & 0x7F
    }
    /// Number of its sum among the sums.
    #[inline(always)]
    pub fn sum(self) -> usize {
        (self.0 >> Self::SUM_AT) as usize & 0xFFF
    }
    /// Its number, or that of the reversed row.
    #[inline(always)]
    pub fn number(self, reversed: bool) -> u64 {
        self.0 >> (Self::NUMBER_AT + Self::REVERSED_AFTER * u32::from(reversed)) & 0x7F
    }
    /// Number of rows of its sum.
    #[inline(always)]
    pub fn count(self) -> u64 {
        self.0 >> Self::COUNT_AT & 0x7F
    }
    /// Whether it is a palindrome, the first of a pair or the second.
    #[inline(always)]
    pub fn orientation(self) -> u64 {
        self.0 >> Self::ORIENTATION_AT & 3
    }
    /// What merging its tiles scored.
    #[inline(always)]
    pub fn earned(self) -> u64 {
        self.0 >> Self::EARNED_AT & 0x1F_FFFF
    }
}

/// How the rows of a sum are reversed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Turn {
    palindromes: u32,
    pairs: u32,
    /// One bit for every first row of a pair.
    firsts: u128,
    /// One bit for every row.
    all: u128,
}

impl Turn {
    fn new(palindromes: usize, pairs: usize) -> Self {
        let ones = |n: usize| (1u128 << n) - 1;
        let firsts = ones(pairs) << palindromes;
        Self { palindromes: palindromes as u32, pairs: pairs as u32, firsts, all: ones(palindromes + 2 * pairs) }
    }

    /// Number of palindromes and first rows of pairs.
    #[inline(always)]
    pub fn first_count(&self) -> u32 {
        self.palindromes + self.pairs
    }
    /// One bit for every row of the sum.
    #[inline(always)]
    pub fn all(&self) -> u128 {
        self.all
    }
    /// Every number replaced by that of the reversed row.
    #[inline(always)]
    pub fn reversed(&self, bits: u128) -> u128 {
        let palindromes = bits & !(u128::MAX << self.palindromes);
        palindromes | bits >> self.pairs & self.firsts | (bits & self.firsts) << self.pairs
    }
    /// Every number replaced by the smaller of its pair.
    #[inline(always)]
    pub fn folded(&self, bits: u128) -> u128 {
        bits & !(u128::MAX << self.first_count()) | bits >> self.pairs & self.firsts
    }
    /// Every number below the first count joined by the other of its pair.
    #[inline(always)]
    pub fn unfolded(&self, bits: u128) -> u128 {
        bits | (bits & self.firsts) << self.pairs
    }
    /// The number of the reversed row.
    #[inline(always)]
    pub fn reverse(&self, number: u32) -> u32 {
        if number < self.palindromes {
            number
        } else if number < self.first_count() {
            number + self.pairs
        } else {
            number - self.pairs
        }
    }
    /// The smaller number of a pair.
    #[inline(always)]
    pub fn smaller(&self, number: u32) -> u32 {
        if number < self.first_count() { number } else { number - self.pairs }
    }
}

/// What moves and new tiles make of a row, as numbers.
#[derive(Clone, Copy, Debug)]
pub struct RowSteps {
    /// The row after a move to the left, and to the right, in the three [readings](super::ranks::Reading); the row itself when it
    /// does not move.
    pub moved: [[u8; 3]; 2],
    /// The row with a 2, or a 4, at each cell; [`NO_NUMBER`] where the cell is not empty.
    pub spawned: [[u8; 4]; 2],
    /// The score of a move to the left or right.
    pub score: u32,
}

/// The numbers of the rows that a new 2, or 4, can make of a row, one bit each.
pub type SpawnedBits = [u128; 2];

/// The rows of a board size, numbered by sum; shared by all layers.
pub struct Rows<const R: usize, const C: usize> {
    /// One word for every row of `C` cells, numbered or not.
    pub(super) info: Vec<u64>,
    /// The sums that rows have, ascending.
    pub(super) sums: Vec<u32>,
    /// Number of a sum, by half of it; `None` when no row has it.
    pub(super) sum_number: Vec<Option<u16>>,
    /// Rows of each sum.
    pub(super) count: Vec<u64>,
    /// How they are reversed.
    pub(super) turns: Vec<Turn>,
    /// Where the rows of each sum begin in the tables below.
    pub(super) base: Vec<u32>,
    /// The rows themselves, by sum and number.
    pub(super) rows: Vec<u16>,
    /// What becomes of them.
    pub(super) steps: Vec<RowSteps>,
    /// Where new tiles lead, as bits.
    pub(super) spawned: Vec<SpawnedBits>,
    /// Rows of each sum without the tile at which play stops, one bit each.
    pub(super) live: Vec<u128>,
    /// Rows of each sum that move to the left, and to the right, one bit each.
    pub(super) movable: Vec<[u128; 2]>,
    /// Ways to fill the rows between the first and the last, by half of their sum.
    pub(super) middle_count: Vec<u64>,
    /// Four rows only: offset of the second row's sum, by half of the middle sum.
    pub(super) middle_offset: Vec<Vec<(u16, u64)>>,
}

impl<const R: usize, const C: usize> Rows<R, C> {
    /// Numbers the rows with tiles of exponent at most `largest` and sum at most `last_age`. Boards with a tile of exponent `goal` are
    /// where play stops.
    pub fn new(largest: u32, last_age: u32, goal: Option<u32>) -> Self {
        let halves = last_age as usize / 2 + 1;
        let mut by_sum = vec![Vec::new(); halves];
        for row in 0..Lines::<R, C>::ROW_COUNT {
            let sum: usize = cells::<C>(row as u16).map(|x| face(x) as usize).sum();
            if cells::<C>(row as u16).all(|x| x <= u64::from(largest)) && sum / 2 < halves {
                by_sum[sum / 2].push(row as u16);
            }
        }
        let mut this = Self {
            info: vec![NO_ROW.0; Lines::<R, C>::ROW_COUNT],
            sums: Vec::new(),
            sum_number: vec![None; halves],
            count: Vec::new(),
            turns: Vec::new(),
            base: Vec::new(),
            rows: Vec::new(),
            steps: Vec::new(),
            spawned: Vec::new(),
            live: Vec::new(),
            movable: Vec::new(),
            middle_count: Vec::new(),
            middle_offset: Vec::new(),
        };
        for (half, rows) in by_sum.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
            this.add_sum(half, &rows, goal);
        }
        this.fill_steps();
        this.fill_middles(halves);
        this
    }

    fn add_sum(&mut self, half: usize, rows: &[u16], goal: Option<u32>) {
        let number = self.sums.len();
        assert!(number < 1 << 12, "{number} sums of rows: the number of a sum has 12 bits");
        let (mut numbered, firsts): (Vec<u16>, Vec<u16>) = (
            rows.iter().copied().filter(|&row| row == reverse::<C>(row)).collect(),
            rows.iter().copied().filter(|&row| row < reverse::<C>(row)).collect(),
        );
        let turn = Turn::new(numbered.len(), firsts.len());
        numbered.extend(&firsts);
        numbered.extend(firsts.iter().map(|&row| reverse::<C>(row)));
        let mut live = 0;
        for (i, &row) in (0u32..).zip(&numbered) {
            let j = turn.reverse(i);
            let orientation = if i == j { PALINDROME } else { u64::from(j < i) };
            let earned: u64 = cells::<C>(row).filter(|&x| x > 0).map(|x| (x - 1) << x).sum();
            self.info[row as usize] = u64::from(i.min(j))
                | (number as u64) << RowInfo::SUM_AT
                | u64::from(i) << RowInfo::NUMBER_AT
                | u64::from(j) << (RowInfo::NUMBER_AT + RowInfo::REVERSED_AFTER)
                | (numbered.len() as u64) << RowInfo::COUNT_AT
                | orientation << RowInfo::ORIENTATION_AT
                | earned << RowInfo::EARNED_AT;
            let stops = goal.is_some_and(|goal| cells::<C>(row).any(|x| x >= u64::from(goal)));
            live |= u128::from(!stops) << i;
        }
        self.sums.push(half as u32 * 2);
        self.sum_number[half] = Some(number as u16);
        self.count.push(numbered.len() as u64);
        self.turns.push(turn);
        self.base.push(self.rows.len() as u32);
        self.rows.extend(numbered);
        self.live.push(live);
        let moving = |away| {
            let bits = (0..).zip(self.of_sum(number)).filter(|&(_, &row)| slide(row.into(), C, away).0 != usize::from(row));
            bits.fold(0, |bits, (i, _)| bits | 1u128 << i)
        };
        let moving = [moving(false), moving(true)];
        self.movable.push(moving);
    }

    fn fill_steps(&mut self) {
        for &row in &self.rows {
            let (left, score) = slide(row.into(), C, false);
            let (right, _) = slide(row.into(), C, true);
            let moved = |line: usize| {
                let info = RowInfo(self.info[line]);
                if info == NO_ROW {
                    return [NO_NUMBER; 3];
                }
                [info.number(false) as u8, info.number(true) as u8, info.smaller() as u8]
            };
            let mut spawned = [[NO_NUMBER; 4]; 2];
            let mut bits = [0; 2];
            for (tile, (numbers, bits)) in (1u16..).zip(spawned.iter_mut().zip(&mut bits)) {
                for (c, number) in numbers.iter_mut().enumerate().take(C).filter(|(c, _)| row >> (4 * c) & 15 == 0) {
                    let info = RowInfo(self.info[(row | tile << (4 * c)) as usize]);
                    if info != NO_ROW {
                        *number = info.number(false) as u8;
                        *bits |= 1u128 << *number;
                    }
                }
            }
            self.steps.push(RowSteps { moved: [moved(left), moved(right)], spawned, score });
            self.spawned.push(bits);
        }
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
                    pair.universe += u128::from(u64::from(self.turns[s0].first_count()) * self.count[sl]);
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
        (0..R).all(|r| self.row(board, r) != NO_ROW)
    }

    /// What is known of row `r` of a board.
    #[inline(always)]
    pub fn row(&self, board: u64, r: usize) -> RowInfo {
        RowInfo(self.info[Lines::<R, C>::row(board, r)])
    }

    /// The rows of a sum, by number.
    #[inline(always)]
    pub fn of_sum(&self, sum: usize) -> &[u16] {
        let start = self.base[sum] as usize;
        &self.rows[start..start + self.count[sum] as usize]
    }

    /// What becomes of the rows of a sum, by number.
    #[inline(always)]
    pub fn steps_of(&self, sum: usize) -> &[RowSteps] {
        let start = self.base[sum] as usize;
        &self.steps[start..start + self.count[sum] as usize]
    }

    /// Where new tiles lead from the rows of a sum, by number.
    #[inline(always)]
    pub fn spawned_of(&self, sum: usize) -> &[SpawnedBits] {
        let start = self.base[sum] as usize;
        &self.spawned[start..start + self.count[sum] as usize]
    }

    /// The number of the sum that is larger by so much, or smaller; `None` when no row has it.
    #[inline(always)]
    pub fn sum_beside(&self, sum: usize, more: i64) -> Option<usize> {
        let half = (i64::from(self.sums[sum]) + more) / 2;
        let half = usize::try_from(half).ok().filter(|_| i64::from(self.sums[sum]) + more >= 0)?;
        self.sum_number.get(half).copied().flatten().map(usize::from)
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

/// Exponents of the cells of a row.
fn cells<const C: usize>(row: u16) -> impl Iterator<Item = u64> {
    (0..C).map(move |c| u64::from(row >> (4 * c) & 15))
}

/// The row read backwards.
pub fn reverse<const C: usize>(row: u16) -> u16 {
    (0..C).map(|c| (row >> (4 * c) & 15) << (4 * (C - 1 - c))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_sum_has_more_rows_than_a_set_has_room_for() {
        let rows = Rows::<3, 4>::new(13, 16380, None);
        assert_eq!(rows.count.iter().max(), Some(&(MOST_ROWS as u64)));
    }

    #[test]
    fn reversing_numbers_is_reversing_rows() {
        let rows = Rows::<3, 4>::new(6, 200, None);
        for sum in 0..rows.sums.len() {
            let (turn, of_sum) = (rows.turns[sum], rows.of_sum(sum));
            for (i, &row) in (0u32..).zip(of_sum) {
                let back = of_sum[turn.reverse(i) as usize];
                assert_eq!(back, reverse::<4>(row));
                assert_eq!(u64::from(turn.smaller(i)), RowInfo(rows.info[row as usize]).smaller());
                assert_eq!(turn.reversed(1 << i), 1 << turn.reverse(i));
                assert_eq!(turn.folded(1 << i), 1 << turn.smaller(i));
                assert_eq!(turn.unfolded(turn.folded(1 << i)), 1 << i | 1 << turn.reverse(i));
            }
            assert_eq!(turn.all().count_ones() as usize, of_sum.len());
        }
    }

    #[test]
    fn what_a_row_earned_grows_by_the_score_of_a_merge() {
        let rows = Rows::<3, 3>::new(8, 1 << 9, None);
        for &row in &rows.rows {
            let (left, score) = slide(row.into(), 3, false);
            let (before, after) = (RowInfo(rows.info[row as usize]), RowInfo(rows.info[left]));
            if after != NO_ROW {
                assert_eq!(after.earned() - before.earned(), score as u64, "{row:x}");
            }
        }
    }
}
