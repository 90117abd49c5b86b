//! What a sweep has to do, and what this machine could do at most: for saying how near the kernel is to either.

use super::TwoSided;
use super::geometry::LANES;
use super::plan::sources;
use super::sweep::{PLANES, Row};
use crate::floats::{self, Floats, Job};
use std::hint::black_box;
use std::time::Instant;

/// Work, or rates of it by the second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Effort {
    /// Vectors of 16 numbers that are read from the nearest cache and compared.
    pub loads: f64,
    /// Bytes that come from memory when nothing but a strip's own rows stays in a cache: every row once for every block that reads it.
    pub bytes: f64,
}

impl TwoSided {
    /// What the sweep over the whole table does.
    pub fn effort(&self) -> Effort {
        let mut effort = Effort { loads: 0.0, bytes: 0.0 };
        let blocks = self.geometry.layers().iter().flat_map(|layer| &layer.blocks);
        for block in blocks.filter(|block| block.pips > 0 && block.others_pips > 0) {
            let plays = self.plays.of(&self.geometry.counting, &self.board, block);
            let others = self.geometry.block(block.others_pips, block.pips).map_or(0, |facing| facing.strips());
            let codes: usize = plays.iter().map(|plays| plays.codes()).sum();
            effort.loads += (codes * others * PLANES) as f64;
            effort.bytes +=
                sources(&self.geometry, block).map(|(_, source)| source.rows() as f64).sum::<f64>() * size_of::<Row>() as f64;
        }
        effort
    }
}

/// Rows that stay in the nearest cache.
const NEAR: usize = 48;
/// Rows that do not stay in any: 320 MB.
const FAR: usize = 1 << 20;
/// Times the near rows are gone through.
const ROUNDS: usize = 20_000;

/// The rates of this machine on one thread: comparing vectors from the nearest cache, and reading memory from front to back.
pub fn rates() -> Effort {
    let near = vec![Row([[1.0; LANES]; PLANES]); NEAR];
    let start = Instant::now();
    for _ in 0..ROUNDS {
        black_box(floats::run(Least(black_box(&near))));
    }
    let loads = (ROUNDS * NEAR * PLANES) as f64 / start.elapsed().as_secs_f64();
    let far = vec![Row([[1.0; LANES]; PLANES]); FAR];
    let start = Instant::now();
    black_box(floats::run(Least(black_box(&far))));
    let bytes = (FAR * size_of::<Row>()) as f64 / start.elapsed().as_secs_f64();
    Effort { loads, bytes }
}

/// The least number of each lane.
struct Least<'a>(&'a [Row]);

impl Job for Least<'_> {
    type Output = f64;

    #[inline(always)]
    fn run<V: Floats>(self) -> f64 {
        let mut sums = [[0.0; LANES]; PLANES];
        for at in (0..LANES).step_by(V::WIDTH) {
            let mut least = [V::load(&self.0[0].0[0][at..]); PLANES];
            for row in self.0 {
                for (least, numbers) in least.iter_mut().zip(&row.0) {
                    *least = V::load(&numbers[at..]).least(*least);
                }
            }
            for (least, sums) in least.into_iter().zip(&mut sums) {
                least.add_to(1.0, &mut sums[at..]);
            }
        }
        sums.iter().flatten().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::{FAIR_DOUBLES, SpecTwoSided};

    #[test]
    fn the_smallest_table_has_one_load_for_every_roll_and_number() {
        // A checker on the ace point each: one pair with plays, whose 21 rolls lead to one position.
        let space = TwoSided::new(&SpecTwoSided { points: 1, checkers: (1, 1), doubles: FAIR_DOUBLES });
        assert_eq!(space.effort(), Effort { loads: 21.0 * PLANES as f64, bytes: size_of::<Row>() as f64 });
        let rates = rates();
        assert!(rates.loads > 0.0 && rates.bytes > 0.0);
    }
}
