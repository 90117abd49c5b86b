//! Two-sided bearoff as GNU Backgammon's `makebearoff` computes it: the same integers, so that a file of them is the same file.
//!
//! An equity from -1 to 1 is a number s from -32,768 to 32,767, and turning one around is its bitwise complement. With CE for what a
//! pair is worth before a chance to double,
//!
//! ```text
//!     CE(nd, dt) = min(2 dt, 32,767)   if dt >= nd / 2, rounded towards zero; the 2 dt only while dt < 16,383
//!                  nd                  otherwise
//! ```
//!
//! the four numbers of a pair (cubeless, roller owns the cube, centred, the other owns it) are the sums over the rolls of weight times
//! the largest complement over the plays of s0, s3, CE(s2, s3) and CE(s1, s3) of the pair after it, divided by 36 and rounded towards zero.
//! No gammons are counted. All of these are whole numbers below 2^21, which f32 and f64 hold exactly: so the sweep that computes exact
//! values computes these too.
//!
//! Source: the format and the arithmetic as GNU Backgammon's users know them (docs/BEAROFF.md); checked against the MD5 sums that its
//! manual prints.

use super::TwoSided;
use super::geometry::LANES;
use super::kernel::{Memory, Window};
use super::plan::ShardShape;
use super::sweep::{Numbers, PLANES, Row, Rules, Sums};
use crate::bearoff::dice::{Dice, MOST_PIPS, ROLLS};
use crate::bearoff::plan::whole;
use crate::name::{FAIR_DOUBLES, SpecTwoSided};
use crate::space::{Position, TaskError};
use rayon::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The most checkers of a side that such a file can say the truth about: with 15 there are gammons.
pub const MOST_CHECKERS: usize = 14;
/// Numbers of a pair.
pub const NUMBERS: usize = 4;
/// The numbers of a pair as a file has them: cubeless, roller owns the cube, centred, the other owns it; 0 is -1 and 65,535 is 1.
pub type Record = [u16; NUMBERS];

/// Pairs that one thread stores at a time.
const PIECE: usize = 1 << 14;

fn record(numbers: &AtomicU64) -> Record {
    let numbers = numbers.load(Relaxed);
    // The lowest 16 bits of each.
    #[allow(clippy::cast_possible_truncation)]
    [0, 16, 32, 48].map(|shift| (numbers >> shift) as u16)
}

/// The equity that a number of a file stands for.
pub fn equity(number: u16) -> f64 {
    f64::from(number) / 32_767.5 - 1.0
}

/// All pairs, by the index of the player on roll and then that of the other.
pub struct Records {
    positions: usize,
    /// The four numbers of each, the first in the lowest bits; threads write them side by side.
    records: Vec<AtomicU64>,
}

impl Records {
    /// Computes all pairs of at most so many checkers a side, on the rayon pool it is called in. `progress` is told how many are done, and
    /// says whether to go on; `None` when not.
    ///
    /// # Panics
    /// With more than [`MOST_CHECKERS`] checkers, or no points or more than 18.
    pub fn compute(points: usize, checkers: usize, progress: &dyn Fn(u64) -> bool) -> Option<Self> {
        assert!((1..=MOST_CHECKERS).contains(&checkers), "{checkers} checkers");
        let space = TwoSided::new(&SpecTwoSided { points, checkers: (checkers, checkers), doubles: FAIR_DOUBLES });
        let positions = whole(space.geometry.counting.universe());
        let this = Self { positions, records: (0..positions * positions).map(|_| AtomicU64::new(0)).collect() };
        let (mut window, mut memory) = (Window::new(&space), Memory::default());
        let indices = space.indices();
        let integers = Integers { weights: Dice::of(FAIR_DOUBLES).weights };
        let mut done = 0;
        for layer in 0..space.geometry.layers().len() {
            window.forget_before(layer.saturating_sub(MOST_PIPS));
            for (number, shard) in space.plan.shards(layer).iter().enumerate() {
                let computed = space.compute(&integers, shard, true, &window, u64::MAX, &mut memory, &|pairs| {
                    if progress(done + pairs) { Ok(()) } else { Err(TaskError::Stopped) }
                });
                computed.ok()?;
                let pairs = pairs_of(&indices, shard).collect::<Vec<_>>();
                done += pairs.len() as u64;
                this.put(&pairs, &memory);
                window.add(layer, number, std::mem::take(&mut memory.rows));
            }
        }
        Some(this)
    }

    fn put(&self, pairs: &[(u32, u32)], memory: &Memory) {
        // In 16 bits, by the assertion that sums of 36 divided by 36 are.
        #[allow(clippy::cast_possible_truncation)]
        let number = |value: f32| u64::from((value as i32 + 32_768) as u16);
        let [cubeless, owned, centred, opponent, _] = memory.stored.each_ref().map(|column| &column[..]);
        pairs.par_chunks(PIECE).enumerate().for_each(|(piece, pairs)| {
            for (at, &(us, them)) in (piece * PIECE..).zip(pairs) {
                let [a, b, c, d] = [cubeless, owned, centred, opponent].map(|column| number(column[at]));
                self.records[us as usize * self.positions + them as usize].store(a | b << 16 | c << 32 | d << 48, Relaxed);
            }
        });
    }

    /// Bytes of memory that computing takes at most.
    pub fn memory_bytes(points: usize, checkers: usize) -> u64 {
        let space = TwoSided::new(&SpecTwoSided { points, checkers: (checkers, checkers), doubles: FAIR_DOUBLES });
        let layers = space.geometry.layers();
        let records = space.geometry.counting.universe().pow(2) * size_of::<Record>() as u64;
        let rows = |from: usize| layers[from..layers.len().min(from + MOST_PIPS + 1)].iter().map(|layer| layer.rows).sum::<u64>();
        records + (0..layers.len()).map(rows).max().unwrap_or(0) * size_of::<Row>() as u64 + (256 << 20)
    }

    /// Number of positions of a side.
    pub fn positions(&self) -> usize {
        self.positions
    }

    /// All pairs, by the index of the player on roll and then that of the other.
    pub fn all(&self) -> impl ExactSizeIterator<Item = Record> {
        self.records.iter().map(record)
    }

    /// One pair.
    pub fn get(&self, us: usize, them: usize) -> Record {
        record(&self.records[us * self.positions + them])
    }
}

impl TwoSided {
    /// GNU Backgammon's indices of the positions of each pip count, by ordinal.
    pub fn indices(&self) -> Vec<Vec<u32>> {
        let counting = &self.geometry.counting;
        let index =
            |pips, ordinal| u32::try_from(counting.index(counting.position(pips, ordinal))).expect("fewer than 2^32 positions");
        (0..=counting.pips())
            .into_par_iter()
            .map(|pips| (0..counting.layer(pips)).map(|ordinal| index(pips, ordinal)).collect())
            .collect()
    }

    /// Number of positions of the side that may have more checkers.
    pub fn positions(&self) -> u64 {
        self.geometry.counting.universe()
    }

    /// GNU Backgammon's indices of a pair: that of the player on roll, and that of the other.
    pub fn indices_of_pair(&self, pair: Position) -> (u32, u32) {
        // The halves of a key.
        #[allow(clippy::cast_possible_truncation)]
        let indices = (pair.0 as u32, (pair.0 >> 32) as u32);
        indices
    }

    /// The key of a pair of GNU Backgammon's indices: that of the player on roll, and that of the other.
    pub fn of_indices(&self, us: u32, them: u32) -> Position {
        Position(u128::from(us) | u128::from(them) << 32)
    }

    /// The indices of the pairs of a shard, in the order of its ranks: that of the player on roll, and that of the other. `indices` are
    /// [`indices`](Self::indices); nothing where there is no such layer and shard.
    pub fn indices_of<'a>(
        &'a self,
        indices: &'a [Vec<u32>],
        (layer, shard): (u32, u32),
    ) -> impl Iterator<Item = (u32, u32)> + 'a {
        let layer = usize::try_from(layer).ok().filter(|&layer| layer < self.plan.layers.len());
        let shard = layer.and_then(|layer| self.plan.shards(layer).get(usize::try_from(shard).ok()?));
        shard.into_iter().flat_map(|shard| pairs_of(indices, shard))
    }
}

/// The indices of the pairs of a shard, in the order of its ranks.
fn pairs_of<'a>(indices: &'a [Vec<u32>], shard: &'a ShardShape) -> impl Iterator<Item = (u32, u32)> + 'a {
    shard.runs.iter().flat_map(move |run| {
        let (rollers, others) = (&indices[run.block.pips], &indices[run.block.others_pips]);
        run.strips.clone().map(|number| run.block.strip(number)).flat_map(move |strip| {
            let rollers = &rollers[strip.first..strip.first + strip.width];
            others[..strip.rows].iter().flat_map(move |&them| rollers.iter().map(move |&us| (us, them)))
        })
    })
}

/// The rules of the integers.
struct Integers {
    weights: [f64; ROLLS.len()],
}

const MOST: f32 = 32_767.0;
const LEAST: f32 = -32_768.0;

/// What a pair is worth before a chance to double.
#[inline(always)]
fn before_doubling(nd: f32, dt: f32) -> f32 {
    if dt < (nd / 2.0).trunc() {
        nd
    } else if dt >= 16_383.0 {
        MOST
    } else {
        2.0 * dt
    }
}

impl Rules for Integers {
    fn weights(&self) -> &[f64; ROLLS.len()] {
        &self.weights
    }

    fn over(&self, won: f32, _is_safe: bool) -> (Numbers, Numbers) {
        let number = if won > 0.0 { MOST } else { LEAST };
        ([number; PLANES], [number; PLANES])
    }

    #[inline(always)]
    fn combine(&self, sums: &Sums, _is_safe: bool) -> (Row, Row) {
        let (mut stored, mut needed) = ([[0.0; LANES]; PLANES], [[0.0; LANES]; PLANES]);
        for lane in 0..LANES {
            // The largest complement is that of the smallest number: 36 times -1 - s.
            #[allow(clippy::cast_possible_truncation)]
            let mean = |number: usize| ((-36.0 - sums[number][lane]) / 36.0).trunc() as f32;
            let (cubeless, owned, opponent, centred) = (mean(0), mean(1), mean(2), mean(3));
            for (n, value) in [cubeless, owned, centred, opponent, 0.0].into_iter().enumerate() {
                stored[n][lane] = value;
            }
            let before = [owned, centred].map(|nd| before_doubling(nd, opponent));
            for (n, value) in [cubeless, opponent, before[0], before[1], before[1]].into_iter().enumerate() {
                needed[n][lane] = value;
            }
        }
        (Row(stored), Row(needed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked examples of the 6-point, 6-checker file.
    #[test]
    fn records_of_the_file_with_six_checkers() {
        let records = Records::compute(6, 6, &|_| true).unwrap();
        assert_eq!(records.positions(), 924);
        assert_eq!(records.get(16, 14), [43_982, 44_044, 38_027, 38_027]);
        assert_eq!(records.get(1, 1), [65_535; 4]);
        assert_eq!(records.get(0, 0), [65_535; 4]);
        let bytes = records.get(923, 923).iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
        assert_eq!(bytes, [0xb2, 0xa6, 0xbd, 0xc5, 0x11, 0xbe, 0x58, 0x9c]);
    }

    #[test]
    fn it_stops_when_told_to() {
        assert!(Records::compute(6, 3, &|done| done < 100).is_none());
    }
}
