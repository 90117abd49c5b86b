//! Best plays by single dice: why a position costs some fifty look-ups instead of a thousand.
//!
//! A roll is two or four single moves, and all positions on the way are positions of the table. So every position also keeps the
//! best that one, two, or three moves with each die can reach from it:
//!
//! ```text
//!     one[d](x)   = best over moves with d of  y               two[d](x)   = best over moves with d of  one[d](y)
//!     three[d](x) = best over moves with d of  two[d](y)       double d    = best over moves with d of  three[d](y)
//!     roll h l    = best over moves with h of  one[l](y)  and over moves with l of  one[h](y)
//! ```
//!
//! where y is the position after the move. Of the layers below, `three` is read at most 6 pips down, `two` 12 and `one` 18; a task computes
//! them anew from the means of its inputs, they are in no file. Enumerating all plays instead took ten times as long on bearoff-10x15.

use super::board::Sums;
use super::{Bearoff, board::bits};
use crate::columns::Dists;
use std::collections::VecDeque;

/// Values that differ by less are the same number, computed in two ways: over the few dozen steps of a game rounding adds up to
/// about 1e-14.
const SAME: f64 = 1e-12;
/// So far down `one`, `two` and `three` are read.
pub(super) const REACH: [usize; 3] = [18, 12, 6];

/// What play minimises: the mean of a distribution column, with the number of the column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Goal {
    /// Rolls until everything is off.
    AllOff = 0,
    /// Rolls until the first checker is off.
    FirstOff = 1,
}

/// A position: pips in the high half, ordinal within the layer in the low half.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Place(u64);

impl Place {
    fn pips(self) -> usize {
        (self.0 >> 32) as usize
    }

    fn ordinal(self) -> usize {
        (self.0 & u64::from(u32::MAX)) as usize
    }
}

/// The best position found, and its mean.
#[derive(Clone, Copy, Debug)]
pub(super) struct Best {
    pub mean: f64,
    pub place: Place,
}

/// For each die the best that a number of moves with it can reach.
pub(super) type ByDie = [Best; 6];

/// Means and best plays of a layer for one goal.
#[derive(Debug, Default)]
pub(super) struct Ways {
    /// The positions with smaller ordinals have reached the goal: their mean is 0, and they are not in the lists.
    pub reached: usize,
    pub mean: Vec<f64>,
    pub variance: Vec<f64>,
    /// `one`, `two` and `three`, as far as they are needed.
    pub best: [Vec<ByDie>; 3],
}

/// The values of one layer.
#[derive(Debug)]
pub(super) struct Values {
    /// By [`Goal`].
    pub ways: [Ways; 2],
    /// First ordinal of each shard.
    pub starts: Vec<usize>,
    /// The distributions of each shard, by [`Goal`].
    pub dists: Vec<[Dists; 2]>,
}

/// The layers below the one that is computed.
#[derive(Debug)]
pub(super) struct Window {
    /// Pips of the first.
    pub lowest: usize,
    /// Layer after layer.
    pub layers: VecDeque<Values>,
}

impl Window {
    fn ways(&self, goal: Goal, place: Place) -> &Ways {
        &self.layers[place.pips() - self.lowest].ways[goal as usize]
    }

    fn itself(&self, goal: Goal, place: Place) -> Best {
        let ways = self.ways(goal, place);
        let mean = place.ordinal().checked_sub(ways.reached).map_or(0.0, |i| ways.mean[i]);
        Best { mean, place }
    }

    fn best(&self, goal: Goal, count: usize, place: Place, die: usize) -> Best {
        let ways = self.ways(goal, place);
        place.ordinal().checked_sub(ways.reached).map_or(Best { mean: 0.0, place }, |i| ways.best[count - 1][i][die])
    }

    /// The variance of a position for a goal.
    pub fn variance(&self, goal: Goal, place: Place) -> f64 {
        let ways = self.ways(goal, place);
        place.ordinal().checked_sub(ways.reached).map_or(0.0, |i| ways.variance[i])
    }

    /// The distribution of a position for a goal.
    pub fn dist(&self, goal: Goal, place: Place) -> (usize, &[f64]) {
        let values = &self.layers[place.pips() - self.lowest];
        let shard = values.starts.partition_point(|&start| start <= place.ordinal()) - 1;
        values.dists[shard][goal as usize].get(place.ordinal() - values.starts[shard])
    }

    /// The rule of play: the smaller mean; if they agree the smaller variance; if these agree too fewer pips, then the smaller index.
    #[inline]
    fn better(&self, goal: Goal, a: Best, b: Best) -> Best {
        if a.place == b.place || a.mean < b.mean - SAME {
            a
        } else if b.mean < a.mean - SAME {
            b
        } else {
            let (of_a, of_b) = (self.variance(goal, a.place), self.variance(goal, b.place));
            let first = if (of_a - of_b).abs() > SAME { of_a < of_b } else { a.place < b.place };
            if first { a } else { b }
        }
    }

    fn best_of(&self, goal: Goal, candidates: impl Iterator<Item = Best>) -> Best {
        candidates.reduce(|a, b| self.better(goal, a, b)).expect("a die can be played while a checker is left")
    }
}

/// Where each die leads from a position: at most one place for every occupied point.
#[derive(Debug)]
pub(super) struct Moves {
    places: [[Place; 15]; 6],
    counts: [usize; 6],
}

impl Moves {
    fn with(&self, die: usize) -> impl Iterator<Item = Place> {
        self.places[die][..self.counts[die]].iter().copied()
    }

    /// The best that one, two and three moves with each die can reach; as many of them as asked for.
    pub fn chains(&self, window: &Window, goal: Goal, counts: usize) -> [ByDie; 3] {
        let nothing = Best { mean: f64::NAN, place: Place(0) };
        let mut chains = [[nothing; 6]; 3];
        for die in 0..6 {
            chains[0][die] = window.best_of(goal, self.with(die).map(|y| window.itself(goal, y)));
            for count in 1..counts {
                chains[count][die] = window.best_of(goal, self.with(die).map(|y| window.best(goal, count, y, die)));
            }
        }
        chains
    }

    /// The best that a roll can reach.
    pub fn roll(&self, window: &Window, goal: Goal, (high, low): (u8, u8)) -> Best {
        let (high, low) = (usize::from(high) - 1, usize::from(low) - 1);
        if high == low {
            window.best_of(goal, self.with(high).map(|y| window.best(goal, 3, y, high)))
        } else {
            let high_first = self.with(high).map(|y| window.best(goal, 1, y, low));
            let low_first = self.with(low).map(|y| window.best(goal, 1, y, high));
            window.best_of(goal, high_first.chain(low_first))
        }
    }
}

impl Bearoff {
    /// Where each die leads.
    pub(super) fn moves(&self, sums: Sums) -> Moves {
        let mut moves = Moves { places: [[Place(0); 15]; 6], counts: [0; 6] };
        for (die, places, count) in (1..).zip(&mut moves.places).zip(&mut moves.counts).map(|((die, p), c)| (die, p, c)) {
            for q in bits(self.board.sources(sums, die)) {
                let (pips, ordinal) = self.counting.place(self.board.play(sums, q, die));
                places[*count] = Place((pips as u64) << 32 | ordinal as u64);
                *count += 1;
            }
        }
        moves
    }
}
