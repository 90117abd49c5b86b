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
//! where y is the position after the move, at most 6 pips below. `one` of all dice is compared at once, as a vector.
//!
//! The rule of play: the smallest mean; of means that agree the smaller variance; if these agree too fewer pips, then the smaller
//! index.

use super::Bearoff;
use super::board::Sums;
use super::dice::ROLLS;
use super::known::{Found, Goal, MEAN, MORE, ONES, PLACES, Place, Steps, View, place};

/// Values that differ by less are the same number, computed in two ways: over the few dozen steps of a game rounding adds up to
/// about 1e-14.
const SAME: f64 = 1e-12;

/// For each die, 1 to 6, a mean and the place that has it. Two more than there are dice: a whole vector.
#[derive(Clone, Copy)]
struct ByDie {
    means: [f64; 8],
    places: [Place; 8],
}

impl ByDie {
    const NOTHING: Self = Self { means: [f64::INFINITY; 8], places: [0.0; 8] };

    /// The others, where they are better.
    #[inline(always)]
    fn or(&mut self, others: &Self, view: &View<'_>, goal: Goal) {
        let before = *self;
        let mut ties = false;
        for i in 0..8 {
            let (mean, least) = (others.means[i], before.means[i]);
            let is_better = mean < least - SAME;
            let is_tied = !is_better & (mean <= least + SAME) & (others.places[i] != before.places[i]);
            ties |= is_tied;
            self.means[i] = if is_better { mean } else { least };
            self.places[i] = if is_better { others.places[i] } else { before.places[i] };
        }
        if ties {
            self.settle(&before, others, view, goal);
        }
    }

    /// The same for one die.
    #[inline(always)]
    fn or_one(&mut self, die: usize, mean: f64, place: Place, view: &View<'_>, goal: Goal) {
        if is_better(mean, place, self.means[die], self.places[die], view, goal) {
            (self.means[die], self.places[die]) = (mean, place);
        }
    }

    /// The same with means that agree.
    #[cold]
    fn settle(&mut self, before: &Self, others: &Self, view: &View<'_>, goal: Goal) {
        *self = *before;
        for die in 0..6 {
            self.or_one(die, others.means[die], others.places[die], view, goal);
        }
    }
}

/// Whether a mean and a place are better than the least so far.
#[inline(always)]
fn is_better(mean: f64, place: Place, least: f64, of_least: Place, view: &View<'_>, goal: Goal) -> bool {
    mean < least - SAME || mean <= least + SAME && precedes(place, of_least, view, goal)
}

/// Which of two plays of equal means is played.
fn precedes(a: Place, b: Place, view: &View<'_>, goal: Goal) -> bool {
    if a == b {
        return false;
    }
    let [of_a, of_b] = [a, b].map(|place| view.row(goal, place).map_or(0.0, |(variance, ..)| variance));
    if (of_a - of_b).abs() > SAME { of_a < of_b } else { a < b }
}

/// Best plays of a position for a goal.
#[derive(Clone, Copy)]
pub(super) struct Plays {
    /// One, three and four moves with each die.
    ones: ByDie,
    threes: ByDie,
    fours: ByDie,
    /// After one move with each die, one with each other.
    pairs: [ByDie; 6],
}

impl Plays {
    pub const NONE: Self = Self { ones: ByDie::NOTHING, threes: ByDie::NOTHING, fours: ByDie::NOTHING, pairs: [ByDie::NOTHING; 6] };

    /// One way to move with a die, and what is known of the position it leads to.
    #[inline(always)]
    fn add(&mut self, die: usize, to: Place, found: Found<'_>, view: &View<'_>, goal: Goal) {
        let (ones, mean, more) = match found {
            Found::Reached => (ByDie { means: [0.0; 8], places: [to; 8] }, 0.0, [0.0, to, 0.0, to]),
            Found::Steps(steps) => {
                let mut ones = ByDie::NOTHING;
                ones.means.copy_from_slice(&steps[ONES..ONES + 8]);
                ones.places.copy_from_slice(&steps[PLACES..PLACES + 8]);
                let at = MORE + 4 * die;
                (ones, steps[MEAN], [steps[at], steps[at + 1], steps[at + 2], steps[at + 3]])
            }
        };
        self.pairs[die].or(&ones, view, goal);
        self.ones.or_one(die, mean, to, view, goal);
        self.threes.or_one(die, more[0], more[1], view, goal);
        self.fours.or_one(die, more[2], more[3], view, goal);
    }

    /// Mean and place of the best play of every roll, in the order of [`ROLLS`]; has the rows of the places fetched from memory.
    #[inline(always)]
    pub fn rolls(&self, view: &View<'_>, goal: Goal) -> [(f64, Place); ROLLS.len()] {
        let mut rolls = [(0.0, 0.0); ROLLS.len()];
        for roll in 0..ROLLS.len() {
            rolls[roll] = self.of(roll, view, goal);
            view.prefetch_row(goal, rolls[roll].1);
        }
        rolls
    }

    #[inline(always)]
    fn of(&self, roll: usize, view: &View<'_>, goal: Goal) -> (f64, Place) {
        let (high, low) = ROLLS[roll];
        let (high, low) = (usize::from(high) - 1, usize::from(low) - 1);
        if high == low {
            return (self.fours.means[high], self.fours.places[high]);
        }
        let (first, then) = (&self.pairs[high], &self.pairs[low]);
        let (least, mean) = (first.means[low], then.means[high]);
        match is_better(mean, then.places[high], least, first.places[low], view, goal) {
            true => (mean, then.places[high]),
            false => (least, first.places[low]),
        }
    }

    /// What later positions need to know of this one.
    #[inline(always)]
    pub fn steps(&self, mean: f64) -> Steps {
        let mut steps = [0.0; 40];
        steps[ONES..ONES + 6].copy_from_slice(&self.ones.means[..6]);
        steps[MEAN] = mean;
        steps[PLACES..PLACES + 6].copy_from_slice(&self.ones.places[..6]);
        for die in 0..6 {
            let twos = &self.pairs[die];
            steps[MORE + 4 * die] = twos.means[die];
            steps[MORE + 4 * die + 1] = twos.places[die];
            steps[MORE + 4 * die + 2] = self.threes.means[die];
            steps[MORE + 4 * die + 3] = self.threes.places[die];
        }
        steps
    }
}

/// Most places that single dice lead to: every die from every point.
const MOST_MOVES: usize = 6 * 18;

/// Where single dice lead from a position, and what is known of it there.
pub(super) struct Moves<'a> {
    count: usize,
    /// The die less one, the place, and by goal what is known; the second one only where it is asked for.
    list: [(usize, Place, [Found<'a>; 2]); MOST_MOVES],
}

impl<'a> Moves<'a> {
    pub const NONE: Self = Self { count: 0, list: [(0, 0.0, [Found::Reached; 2]); MOST_MOVES] };

    /// Finds those of a position, and has what is known of them fetched from memory.
    #[inline(always)]
    pub fn find(&mut self, space: &Bearoff, sums: Sums, is_full: bool, view: &View<'a>) {
        self.count = 0;
        for die in 1..=6_u8 {
            let mut sources = space.board.sources(sums, die);
            while sources != 0 {
                let (pips, ordinal) = space.counting.place(space.board.play(sums, sources.trailing_zeros() / 4, die));
                sources &= sources - 1;
                let (die, to) = (usize::from(die) - 1, place(pips, ordinal));
                let mut found = [view.steps(Goal::AllOff, pips, ordinal), Found::Reached];
                found[0].prefetch(die);
                if is_full {
                    found[1] = view.steps(Goal::FirstOff, pips, ordinal);
                    found[1].prefetch(die);
                }
                self.list[self.count] = (die, to, found);
                self.count += 1;
            }
        }
    }

    /// The best plays for a goal.
    #[inline(always)]
    pub fn best(&self, view: &View<'_>, goal: Goal) -> Plays {
        let mut plays = Plays::NONE;
        for (die, to, found) in &self.list[..self.count] {
            plays.add(*die, *to, found[goal as usize], view, goal);
        }
        plays
    }
}
