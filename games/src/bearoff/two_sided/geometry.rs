//! Where pairs of positions are: layers, blocks, strips and ranks.
//!
//! A *block* (P, Q) has the pairs of a roller's position of P pips and the other side's of Q pips; a *layer* the blocks of one sum P + Q.
//! Positions of one pip count have ordinals, those of fewer checkers first ([`Counting`]). A block is cut into *strips* of up to 16
//! consecutive rollers; a strip has a *row* of rollers for each position of the other side:
//!
//! ```text
//!     block (P, Q):   strip 0                  strip 1                 ...
//!                     row 0:  rollers 0..16    row 0:  rollers 16..32
//!                     row 1:  rollers 0..16    row 1:  rollers 16..32
//!                     ...  one row for every position of the other side
//! ```
//!
//! The rank of a pair counts the pairs before it, block by block, strip by strip, row by row. Working rows always have 16 lanes; those of
//! a narrow strip are not used.
//!
//! In a table of C against D checkers, C > D, one side may have up to C where the other has up to D, whoever rolls. So a block
//! has strips of the rollers of at most D checkers, with rows for every position of the other side, and then strips of the rollers of more,
//! with rows for the others of at most D.

use crate::bearoff::board::Sums;
use crate::bearoff::count::Counting;
use std::ops::Range;

/// Rollers in a strip.
pub(super) const LANES: usize = 16;

/// All layers of a table.
#[derive(Debug)]
pub(super) struct Geometry {
    /// Of the side that may have more checkers.
    pub counting: Counting,
    /// For each pip count the positions that do not have all 15 checkers: against them no gammon can be won.
    safe: Vec<usize>,
    layers: Vec<LayerShape>,
}

/// One layer.
#[derive(Debug)]
pub(super) struct LayerShape {
    /// Its blocks, by the roller's pips.
    pub blocks: Vec<Block>,
    /// Number of pairs.
    pub ranks: u64,
    /// Number of rows.
    pub rows: u64,
}

/// One block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Block {
    /// The roller's pips.
    pub pips: usize,
    /// The other side's.
    pub others_pips: usize,
    /// Positions of the roller: of at most D checkers, and all.
    rollers: (usize, usize),
    /// Positions of the other side: of at most D checkers, and all.
    others: (usize, usize),
    /// Pairs of the layer before it.
    pub first_rank: u64,
    /// Rows of the layer before it.
    pub first_row: u64,
}

/// Some rollers of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Strip {
    /// Ordinal of the first.
    pub first: usize,
    /// How many, at most [`LANES`].
    pub width: usize,
    /// Positions of the other side: so many, from ordinal 0 on.
    pub rows: usize,
    /// Pairs of the layer before it.
    pub first_rank: u64,
    /// Rows of the layer before it.
    pub first_row: u64,
}

impl Strip {
    /// Ordinals of its rollers.
    pub fn rollers(&self) -> Range<usize> {
        self.first..self.first + self.width
    }

    /// Number of pairs.
    pub fn ranks(&self) -> u64 {
        (self.width * self.rows) as u64
    }
}

impl Block {
    /// Number of strips.
    pub fn strips(&self) -> usize {
        self.rollers.0.div_ceil(LANES) + (self.rollers.1 - self.rollers.0).div_ceil(LANES)
    }

    /// One strip.
    pub fn strip(&self, number: usize) -> Strip {
        let (few, all) = self.rollers;
        let narrow = few.div_ceil(LANES);
        let (first, end, rows) = match number.checked_sub(narrow) {
            None => (number * LANES, few, self.others.1),
            Some(number) => (few + number * LANES, all, self.others.0),
        };
        let before = first.min(few) * self.others.1 + (first - first.min(few)) * self.others.0;
        let rows_before = number.min(narrow) * self.others.1 + (number - number.min(narrow)) * self.others.0;
        Strip {
            first,
            width: LANES.min(end - first),
            rows,
            first_rank: self.first_rank + before as u64,
            first_row: self.first_row + rows_before as u64,
        }
    }

    /// The strip that a roller is in, if any pair of the two positions is in the table.
    fn strip_of(&self, roller: usize, other: usize) -> Option<Strip> {
        let (few, _) = self.rollers;
        let number = match roller.checked_sub(few) {
            None => roller / LANES,
            Some(over) => few.div_ceil(LANES) + over / LANES,
        };
        let strip = self.strip(number);
        (other < strip.rows).then_some(strip)
    }

    fn ranks(&self) -> u64 {
        (self.rollers.0 * self.others.1 + (self.rollers.1 - self.rollers.0) * self.others.0) as u64
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        let strips = (self.rollers.0.div_ceil(LANES), (self.rollers.1 - self.rollers.0).div_ceil(LANES));
        (strips.0 * self.others.1 + strips.1 * self.others.0) as u64
    }
}

/// A pair as its layer has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// Sum of the pips.
    pub layer: usize,
    /// Pairs of the layer before it.
    pub rank: u64,
}

impl Geometry {
    /// The layers of `checkers.0` against `checkers.1`, the larger first.
    pub fn new(points: usize, checkers: (usize, usize)) -> Self {
        let counting = Counting::new(points, checkers.0);
        let most = counting.pips();
        let count = |pips, checkers: usize| usize::try_from(counting.with_fewer(pips, checkers)).expect("32 bits");
        let few: Vec<usize> = (0..=most).map(|pips| count(pips, checkers.1 + 1)).collect();
        let safe = (0..=most).map(|pips| count(pips, (checkers.0 + 1).min(15))).collect();
        let all = |pips| count(pips, checkers.0 + 1);
        let mut layers: Vec<LayerShape> = (0..=2 * most)
            .map(|sum| {
                let mut shape = LayerShape { blocks: Vec::new(), ranks: 0, rows: 0 };
                for pips in sum.saturating_sub(most)..=sum.min(most) {
                    let others_pips = sum - pips;
                    let block = Block {
                        pips,
                        others_pips,
                        rollers: (few[pips], all(pips)),
                        others: (few[others_pips], all(others_pips)),
                        first_rank: shape.ranks,
                        first_row: shape.rows,
                    };
                    shape.ranks += block.ranks();
                    shape.rows += block.rows();
                    if block.ranks() > 0 {
                        shape.blocks.push(block);
                    }
                }
                shape
            })
            .collect();
        // Where one side has fewer checkers the two cannot have that many pips together.
        layers.truncate(points * (checkers.0 + checkers.1) + 1);
        Self { counting, safe, layers }
    }

    /// The layers, by the sum of the pips.
    pub fn layers(&self) -> &[LayerShape] {
        &self.layers
    }

    /// A block, if it has pairs.
    pub fn block(&self, pips: usize, others_pips: usize) -> Option<&Block> {
        let blocks = &self.layers.get(pips + others_pips)?.blocks;
        blocks.binary_search_by_key(&pips, |block| block.pips).ok().map(|number| &blocks[number])
    }

    /// Whether nobody can win a gammon where one side has a position of these ordinals.
    pub fn is_safe(&self, pips: usize, ordinals: Range<usize>) -> bool {
        ordinals.end <= self.safe[pips]
    }

    /// Where a pair is; `None` where both have more checkers than one of them may.
    pub fn place(&self, roller: Sums, other: Sums) -> Option<Place> {
        let (pips, x) = self.counting.place(roller);
        let (others_pips, y) = self.counting.place(other);
        let strip = self.block(pips, others_pips)?.strip_of(x, y)?;
        let rank = strip.first_rank + (y * strip.width + (x - strip.first)) as u64;
        Some(Place { layer: pips + others_pips, rank })
    }

    /// The pair at a place: the roller's position and the other side's.
    pub fn pair(&self, place: Place) -> Option<(Sums, Sums)> {
        let layer = self.layers.get(place.layer).filter(|layer| place.rank < layer.ranks)?;
        let number = layer.blocks.partition_point(|block| block.first_rank <= place.rank) - 1;
        let block = &layer.blocks[number];
        // Strips are in the order of their ranks.
        let (mut low, mut high) = (0, block.strips());
        while high - low > 1 {
            let middle = (low + high) / 2;
            if block.strip(middle).first_rank <= place.rank { low = middle } else { high = middle }
        }
        let strip = block.strip(low);
        let within = usize::try_from(place.rank - strip.first_rank).ok()?;
        let (x, y) = (strip.first + within % strip.width, within / strip.width);
        let position = |pips, ordinal| self.counting.position(pips, ordinal as u64);
        Some((position(block.pips, x), position(block.others_pips, y)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_has_one_place() {
        for (points, checkers) in [(3, (3, 3)), (2, (4, 1)), (6, (3, 2)), (1, (15, 15)), (4, (5, 5))] {
            let geometry = Geometry::new(points, checkers);
            for (sum, layer) in geometry.layers().iter().enumerate() {
                let mut seen = 0;
                for rank in 0..layer.ranks {
                    let place = Place { layer: sum, rank };
                    let (roller, other) = geometry.pair(place).unwrap();
                    assert_eq!(geometry.place(roller, other), Some(place), "{points} {checkers:?}");
                    let counts = [roller, other].map(|sums| sums.get(points - 1));
                    assert!(counts.iter().all(|&c| c <= checkers.0) && counts.iter().any(|&c| c <= checkers.1));
                    seen += 1;
                }
                assert_eq!(geometry.pair(Place { layer: sum, rank: seen }), None);
            }
        }
    }

    #[test]
    fn there_are_as_many_pairs_as_positions_of_both_sides() {
        let pairs = |geometry: Geometry| geometry.layers().iter().map(|layer| layer.ranks).sum::<u64>();
        assert_eq!(pairs(Geometry::new(6, (15, 15))), 54_264 * 54_264);
        // One side up to 4 (210 positions), the other up to 2 (28), whoever rolls; both up to 2 would be counted twice.
        assert_eq!(pairs(Geometry::new(6, (4, 2))), 2 * 210 * 28 - 28 * 28);
    }
}
