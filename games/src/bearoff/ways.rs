//! Best plays by single dice: why a position looks at a few dozen others instead of at hundreds.
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
//! them anew from the means of its inputs, they are in no file. Enumerating all plays instead took more than twice as long on
//! bearoff-10x15.

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

/// The best that a number of moves with one die can reach from each position of a layer. Means and places are apart because most
/// means that are read lose.
#[derive(Debug, Default)]
pub(super) struct Steps {
    pub means: Vec<f64>,
    pub places: Vec<Place>,
}

/// By number of moves less one, and die less one.
pub(super) type Chains = [[Steps; 6]; 3];

/// Means and best plays of a layer for one goal.
#[derive(Debug, Default)]
pub(super) struct Ways {
    /// The positions with smaller ordinals have reached the goal: their mean is 0, and they are not in the lists.
    pub reached: usize,
    pub mean: Vec<f64>,
    pub variance: Vec<f64>,
    /// Best plays, as far as they are needed.
    pub best: Chains,
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

/// A candidate: a number of moves, in the best way, with a die from a place.
#[derive(Clone, Copy)]
struct Via {
    place: Place,
    count: usize,
    die: usize,
}

impl Window {
    fn ways(&self, goal: Goal, place: Place) -> &Ways {
        &self.layers[place.pips() - self.lowest].ways[goal as usize]
    }

    #[inline]
    fn mean(&self, goal: Goal, Via { place, count, die }: Via) -> f64 {
        let ways = self.ways(goal, place);
        let Some(i) = place.ordinal().checked_sub(ways.reached) else { return 0.0 };
        if count == 0 { ways.mean[i] } else { ways.best[count - 1][die].means[i] }
    }

    #[inline]
    fn target(&self, goal: Goal, Via { place, count, die }: Via) -> Place {
        let ways = self.ways(goal, place);
        match place.ordinal().checked_sub(ways.reached) {
            Some(i) if count > 0 => ways.best[count - 1][die].places[i],
            _ => place,
        }
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

    /// The rule of play: the smallest mean; of means that agree the smaller variance; if these agree too fewer pips, then the
    /// smaller index.
    #[inline]
    fn best_of(&self, goal: Goal, candidates: impl Iterator<Item = Via>) -> Best {
        let mut best = None;
        for via in candidates {
            let mean = self.mean(goal, via);
            match best {
                Some((least, _)) if mean > least + SAME => {}
                Some((least, other)) if mean >= least - SAME && !self.precedes(goal, via, other) => {}
                _ => best = Some((mean, via)),
            }
        }
        let (mean, via) = best.expect("a die can be played while a checker is left");
        Best { mean, place: self.target(goal, via) }
    }

    /// Which of two plays of equal means is played.
    fn precedes(&self, goal: Goal, a: Via, b: Via) -> bool {
        let (a, b) = (self.target(goal, a), self.target(goal, b));
        if a == b {
            return false;
        }
        let (of_a, of_b) = (self.variance(goal, a), self.variance(goal, b));
        if (of_a - of_b).abs() > SAME { of_a < of_b } else { a < b }
    }
}

/// Where each die leads from a position: at most one place for every occupied point.
#[derive(Debug)]
pub(super) struct Moves {
    places: [[Place; 15]; 6],
    counts: [usize; 6],
}

impl Moves {
    /// After one move with `first`, the best way to move `count` times with `die`.
    fn then(&self, first: usize, count: usize, die: usize) -> impl Iterator<Item = Via> {
        self.places[first][..self.counts[first]].iter().map(move |&place| Via { place, count, die })
    }

    /// The best that one, two and three moves with each die can reach; as many of them as asked for.
    pub fn chains(&self, window: &Window, goal: Goal, counts: usize) -> [ByDie; 3] {
        let nothing = Best { mean: f64::NAN, place: Place(0) };
        let mut chains = [[nothing; 6]; 3];
        for (count, by_die) in chains.iter_mut().enumerate().take(counts) {
            for (die, best) in by_die.iter_mut().enumerate() {
                *best = window.best_of(goal, self.then(die, count, die));
            }
        }
        chains
    }

    /// The best that a roll can reach.
    pub fn roll(&self, window: &Window, goal: Goal, (high, low): (u8, u8)) -> Best {
        let (high, low) = (usize::from(high) - 1, usize::from(low) - 1);
        if high == low {
            window.best_of(goal, self.then(high, 3, high))
        } else {
            window.best_of(goal, self.then(high, 1, low).chain(self.then(low, 1, high)))
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
