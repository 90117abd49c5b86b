//! The inner loop: for 16 rollers against 16 positions of the other side at a time, the mean over the rolls of the best play.
//!
//! The value of a pair follows from pairs with the other side on roll: V(x, y) from V(y, x') for the x' that x's plays lead to. With
//! rollers in lanes, a row of a strip holds V(y, x') for 16 y and one x': so for 16 values of y the least over the plays is a running
//! minimum over rows, one vector instruction for each number and play. What comes out has y in its lanes and x in its rows; a tile of 16 by
//! 16 is turned over when it is stored, to be read the other way round later.
//!
//! A row has [`PLANES`] numbers for each lane. Which, and what is made of the means, is for the [`Rules`] to say: money play
//! (`money.rs`), or GNU Backgammon's integers (`gnubg.rs`), which are exact in f32. Sums are in f64, in the order of the rolls.

use super::geometry::{Block, Geometry, LANES, Strip};
use super::plays::{Plays, decode};
use crate::bearoff::dice::{MOST_PIPS, ROLLS};
use crate::floats::{self, Floats, Job};
use std::ops::Range;

/// Numbers of a pair that later pairs need.
pub(super) const PLANES: usize = 5;
/// Numbers of a row.
pub(super) const ROW: usize = PLANES * LANES;

/// The numbers of one pair.
pub(super) type Numbers = [f32; PLANES];
/// The numbers of 16 rollers against one position: whole cache lines.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
pub(super) struct Row(pub [[f32; LANES]; PLANES]);
/// Rows of a strip: those that a number of pips leads to, for each number, less 1.
pub(super) type Sources<'a> = [&'a [Row]; MOST_PIPS];
/// For each number, sums over the rolls of weight times the least that a play leads to.
pub(super) type Sums = [[f64; LANES]; PLANES];

/// What numbers a pair has, and how they follow from those of the pairs after it.
pub(super) trait Rules: Sync {
    /// One weight a roll.
    fn weights(&self) -> &[f64; ROLLS.len()];
    /// The numbers of a pair whose roller has won (1) or lost (-1): what is stored, and what later pairs need.
    fn over(&self, won: f32, is_safe: bool) -> (Numbers, Numbers);
    /// The numbers of one roller against 16 positions: what is stored of them, and what later pairs need. Where `is_safe` holds nobody
    /// can win a gammon, and the last sums were not computed.
    fn combine(&self, sums: &Sums, is_safe: bool) -> (Row, Row);
}

/// The pairs of some strips of a block with the others in one strip of theirs, and the memory for their results.
pub(super) struct Tiles<'a> {
    pub sources: Sources<'a>,
    pub tiles: Vec<Tile<'a>>,
}

/// Up to 16 rollers against up to 16 others.
pub(super) struct Tile<'a> {
    pub plays: &'a Plays,
    pub strip: Strip,
    /// Whether nobody can win a gammon.
    pub is_safe: bool,
    /// Rows, one for each of the others; none if nobody will need them.
    pub rows: Option<&'a mut [Row]>,
    /// What is stored, column by column: for each of the others one number a roller.
    pub stored: [&'a mut [f32]; PLANES],
}

impl Tiles<'_> {
    /// Bytes of the rows that are read.
    pub fn source_bytes(&self) -> u64 {
        self.sources.iter().map(|rows| size_of_val(*rows) as u64).sum()
    }

    /// Number of pairs.
    pub fn pairs(&self) -> u64 {
        self.tiles.iter().map(|tile| tile.stored[0].len() as u64).sum()
    }

    /// Computes them.
    pub fn compute<R: Rules>(self, rules: &R) {
        floats::run(Sweep(self, rules));
    }
}

struct Sweep<'a, R>(Tiles<'a>, &'a R);

impl<R: Rules> Job for Sweep<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<V: Floats>(self) {
        let Self(Tiles { sources, mut tiles }, rules) = self;
        let mut sums = [[[0.0; LANES]; PLANES]; LANES];
        for at in 0..tiles.len() {
            let next = tiles.get(at + 1).map_or(&[][..], |next| &next.plays.rows);
            let tile = &mut tiles[at];
            if tile.is_safe {
                add_up::<V, { PLANES - 1 }>(tile.plays, &sources, next, rules.weights(), &mut sums);
            } else {
                add_up::<V, PLANES>(tile.plays, &sources, next, rules.weights(), &mut sums);
            }
            tile.finish(rules, &sums);
        }
    }
}

impl Tile<'_> {
    /// Makes the numbers of the pairs from their sums, and stores them.
    #[inline(always)]
    fn finish<R: Rules>(&mut self, rules: &R, sums: &[Sums; LANES]) {
        let (mut stored, mut needed) = ([[[0.0; LANES]; LANES]; PLANES], [[[0.0; LANES]; LANES]; PLANES]);
        for (x, sums) in sums.iter().enumerate().take(self.strip.width) {
            let (kept, row) = rules.combine(sums, self.is_safe);
            for n in 0..PLANES {
                stored[n][x] = kept.0[n];
                needed[n][x] = row.0[n];
            }
        }
        for (y, row) in self.rows.iter_mut().flat_map(|rows| rows.iter_mut()).enumerate() {
            for (numbers, plane) in row.0.iter_mut().zip(&needed) {
                for x in 0..LANES {
                    numbers[x] = plane[x][y];
                }
            }
        }
        for (column, plane) in self.stored.iter_mut().zip(&stored) {
            for (y, numbers) in column.chunks_exact_mut(self.strip.width).enumerate() {
                for (x, number) in numbers.iter_mut().enumerate() {
                    *number = plane[x][y];
                }
            }
        }
    }
}

/// The sums over the rolls of the first `N` numbers, for the rollers of a strip. Meanwhile the rows of the next strip are fetched.
#[inline(always)]
fn add_up<V: Floats, const N: usize>(
    plays: &Plays,
    sources: &Sources<'_>,
    next: &[u32],
    weights: &[f64; ROLLS.len()],
    sums: &mut [Sums; LANES],
) {
    *sums = [[[0.0; LANES]; PLANES]; LANES];
    let share = next.len().div_ceil(ROLLS.len() * LANES / V::WIDTH).max(1);
    let mut next = next.chunks(share);
    for at in (0..LANES).step_by(V::WIDTH) {
        for (roll, &weight) in weights.iter().enumerate() {
            for &code in next.next().unwrap_or_default() {
                let (taken, ordinal) = decode(code);
                for n in 0..N {
                    prefetch(sources[taken], ordinal, n);
                }
            }
            let (rollers, mut codes) = plays.roll(roll);
            for roller in rollers {
                let of_roller;
                (of_roller, codes) = codes.split_at(roller.plays.into());
                let (taken, ordinal) = decode(of_roller[0]);
                let row = &sources[taken][ordinal].0;
                let mut least = [V::load(&row[0][at..]); N];
                for n in 1..N {
                    least[n] = V::load(&row[n][at..]);
                }
                for &code in &of_roller[1..] {
                    let (taken, ordinal) = decode(code);
                    let row = &sources[taken][ordinal].0;
                    for n in 0..N {
                        least[n] = V::load(&row[n][at..]).least(least[n]);
                    }
                }
                let sums = &mut sums[usize::from(roller.at)];
                for n in 0..N {
                    least[n].add_to(weight, &mut sums[n][at..]);
                }
            }
        }
    }
}

/// Asks for the cache line of a number of a row.
#[inline(always)]
fn prefetch(rows: &[Row], ordinal: usize, number: usize) {
    let lines: &[[f32; LANES]] = bytemuck::cast_slice(rows);
    crate::game2048::lanes::prefetch(lines, ordinal * PLANES + number);
}

/// Some strips of one block, and the memory for their results.
pub(super) struct Piece<'a> {
    pub block: Block,
    pub strips: Range<usize>,
    /// Rows of all strips, if later pairs need them.
    pub rows: Option<&'a mut [Row]>,
    /// What is stored of all strips, column by column.
    pub stored: [&'a mut [f32]; PLANES],
}

impl<'a> Piece<'a> {
    /// Cuts the piece up by the strips of the other side; `sources` tells for each the rows that plays lead to. `plays` are those of all strips of
    /// the block.
    pub fn tiles(self, geometry: &Geometry, plays: &'a [Plays], sources: impl Fn(usize) -> Sources<'a>) -> Vec<Tiles<'a>> {
        let Self { block, strips, mut rows, mut stored } = self;
        let facing = geometry.block(block.others_pips, block.pips).expect("pairs either way");
        let others: Vec<Range<usize>> = (0..facing.strips()).map(|number| facing.strip(number).rollers()).collect();
        let mut all: Vec<Tiles<'a>> =
            (0..others.len()).map(|number| Tiles { sources: sources(number), tiles: Vec::with_capacity(strips.len()) }).collect();
        for number in strips {
            let strip = block.strip(number);
            let is_safe = geometry.is_safe(block.pips, strip.rollers());
            for (others, tiles) in others.iter().zip(&mut all).filter(|(others, _)| others.start < strip.rows) {
                let rows = rows.as_mut().map(|rows| rows.split_off_mut(..others.len()).expect("a row for each of the others"));
                let numbers = others.len() * strip.width;
                let stored = stored.each_mut().map(|all| all.split_off_mut(..numbers).expect("a number for every pair"));
                let is_safe = is_safe && geometry.is_safe(block.others_pips, others.clone());
                tiles.tiles.push(Tile { plays: &plays[number], strip, is_safe, rows, stored });
            }
        }
        all
    }

    /// Where one side has nothing left: the same numbers for all pairs, but for those of a side with all 15 checkers.
    pub fn fill(self, geometry: &Geometry, of: impl Fn(bool) -> (Numbers, Numbers)) {
        let Self { block, strips, mut rows, mut stored } = self;
        for strip in strips.map(|number| block.strip(number)) {
            for y in 0..strip.rows {
                let mut row = rows.as_mut().map(|rows| rows.split_off_first_mut().expect("a row for each of the others"));
                if let Some(row) = &mut row {
                    row.0 = [[0.0; LANES]; PLANES];
                }
                for x in 0..strip.width {
                    let ordinal = strip.first + x;
                    let is_safe =
                        geometry.is_safe(block.pips, ordinal..ordinal + 1) && geometry.is_safe(block.others_pips, y..y + 1);
                    let (kept, needed) = of(is_safe);
                    for n in 0..PLANES {
                        if let Some(number) = stored[n].split_off_first_mut() {
                            *number = kept[n];
                        }
                        if let Some(row) = &mut row {
                            row.0[n][x] = needed[n];
                        }
                    }
                }
            }
        }
    }
}
