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

use super::board::{Board, Sums};
use super::count::Counting;
use super::dice::ROLLS;
use super::known::{Found, Goal, MEAN, MORE, Number, ONES, PLACES, Steps, View};

/// When a play is better than another.
pub(super) trait Rule<N: Number> {
    /// Whether a mean is less than the least so far.
    fn is_less(&self, mean: N, least: N) -> bool;
    /// Whether means agree.
    fn is_tied(&self, mean: N, least: N) -> bool;
    /// Which of two places of equal means is played.
    fn precedes(&self, a: N, b: N) -> bool;

    /// Whether a mean and a place are better than the least so far.
    #[inline(always)]
    fn is_better(&self, mean: N, place: N, least: N, of_least: N) -> bool {
        self.is_less(mean, least) || self.is_tied(mean, least) && self.precedes(place, of_least)
    }
}

/// The rule of tables.
#[derive(Clone, Copy)]
pub(super) struct Exactly<'a> {
    pub view: &'a View<'a, f64>,
    pub goal: Goal,
}

/// Values that differ by less are the same number, computed in two ways: over the few dozen steps of a game rounding adds up to
/// about 1e-14.
const SAME: f64 = 1e-12;

impl Rule<f64> for Exactly<'_> {
    #[inline(always)]
    fn is_less(&self, mean: f64, least: f64) -> bool {
        mean < least - SAME
    }

    #[inline(always)]
    fn is_tied(&self, mean: f64, least: f64) -> bool {
        (mean >= least - SAME) & (mean <= least + SAME)
    }

    fn precedes(&self, a: f64, b: f64) -> bool {
        if a == b {
            return false;
        }
        let [of_a, of_b] = [a, b].map(|place| self.view.row(self.goal, place).map_or(0.0, |(variance, ..)| variance));
        if (of_a - of_b).abs() > SAME { of_a < of_b } else { a < b }
    }
}

/// For each die, 1 to 6, a mean and the place that has it. Two more than there are dice: a whole vector.
#[derive(Clone, Copy)]
struct ByDie<N> {
    means: [N; 8],
    places: [N; 8],
}

impl<N: Number> ByDie<N> {
    const NOTHING: Self = Self { means: [N::MOST; 8], places: [N::ZERO; 8] };

    /// The others, where they are better.
    #[inline(always)]
    fn or(&mut self, others: &Self, rule: &impl Rule<N>) {
        let before = *self;
        let mut ties = false;
        for i in 0..8 {
            let (mean, least) = (others.means[i], before.means[i]);
            let is_less = rule.is_less(mean, least);
            ties |= rule.is_tied(mean, least) & (others.places[i] != before.places[i]);
            self.means[i] = if is_less { mean } else { least };
            self.places[i] = if is_less { others.places[i] } else { before.places[i] };
        }
        if ties {
            self.settle(&before, others, rule);
        }
    }

    /// The same for one die.
    #[inline(always)]
    fn or_one(&mut self, die: usize, mean: N, place: N, rule: &impl Rule<N>) {
        if rule.is_better(mean, place, self.means[die], self.places[die]) {
            (self.means[die], self.places[die]) = (mean, place);
        }
    }

    /// The same with means that agree.
    #[cold]
    fn settle(&mut self, before: &Self, others: &Self, rule: &impl Rule<N>) {
        *self = *before;
        for die in 0..6 {
            self.or_one(die, others.means[die], others.places[die], rule);
        }
    }
}

/// Best plays of a position for a goal.
#[derive(Clone, Copy)]
pub(super) struct Plays<N> {
    /// One, three and four moves with each die.
    ones: ByDie<N>,
    threes: ByDie<N>,
    fours: ByDie<N>,
    /// After one move with each die, one with each other.
    pairs: [ByDie<N>; 6],
}

impl<N: Number> Plays<N> {
    pub const NONE: Self =
        Self { ones: ByDie::NOTHING, threes: ByDie::NOTHING, fours: ByDie::NOTHING, pairs: [ByDie::NOTHING; 6] };

    /// One way to move with a die, and what is known of the position it leads to.
    #[inline(always)]
    fn add(&mut self, die: usize, to: N, found: Found<'_, N>, rule: &impl Rule<N>) {
        let (ones, mean, more) = match found {
            Found::Reached => (ByDie { means: [N::ZERO; 8], places: [to; 8] }, N::ZERO, [N::ZERO, to, N::ZERO, to]),
            Found::Steps(steps) => {
                let mut ones = ByDie::NOTHING;
                ones.means.copy_from_slice(&steps[ONES..ONES + 8]);
                ones.places.copy_from_slice(&steps[PLACES..PLACES + 8]);
                let at = MORE + 4 * die;
                (ones, steps[MEAN], [steps[at], steps[at + 1], steps[at + 2], steps[at + 3]])
            }
        };
        self.pairs[die].or(&ones, rule);
        self.ones.or_one(die, mean, to, rule);
        self.threes.or_one(die, more[0], more[1], rule);
        self.fours.or_one(die, more[2], more[3], rule);
    }

    /// Mean and place of the best play of a roll, by its number in [`ROLLS`].
    #[inline(always)]
    pub fn of(&self, roll: usize, rule: &impl Rule<N>) -> (N, N) {
        let (high, low) = ROLLS[roll];
        let (high, low) = (usize::from(high) - 1, usize::from(low) - 1);
        if high == low {
            return (self.fours.means[high], self.fours.places[high]);
        }
        let (first, then) = (&self.pairs[high], &self.pairs[low]);
        match rule.is_better(then.means[high], then.places[high], first.means[low], first.places[low]) {
            true => (then.means[high], then.places[high]),
            false => (first.means[low], first.places[low]),
        }
    }

    /// What later positions need to know of this one.
    #[inline(always)]
    pub fn steps(&self, mean: N) -> Steps<N> {
        let mut steps = [N::ZERO; 40];
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
pub(super) struct Moves<'a, N> {
    count: usize,
    /// The die less one, the place, and by goal what is known; the second one only where it is asked for.
    list: [(usize, N, [Found<'a, N>; 2]); MOST_MOVES],
}

impl<'a, N: Number> Moves<'a, N> {
    pub const NONE: Self = Self { count: 0, list: [(0, N::ZERO, [Found::Reached; 2]); MOST_MOVES] };

    /// Finds those of a position, and has what is known of them fetched from memory.
    #[inline(always)]
    pub fn find(&mut self, board: &Board, counting: &Counting, sums: Sums, is_full: bool, view: &View<'a, N>) {
        self.count = 0;
        for die in 1..=6_u8 {
            let mut sources = board.sources(sums, die);
            while sources != 0 {
                let (pips, ordinal) = counting.place(board.play(sums, sources.trailing_zeros() / 4, die));
                sources &= sources - 1;
                let die = usize::from(die) - 1;
                let mut found = [view.steps(Goal::AllOff, pips, ordinal), Found::Reached];
                found[0].prefetch(die);
                if is_full {
                    found[1] = view.steps(Goal::FirstOff, pips, ordinal);
                    found[1].prefetch(die);
                }
                self.list[self.count] = (die, N::place(pips, ordinal), found);
                self.count += 1;
            }
        }
    }

    /// The best plays for a goal.
    #[inline(always)]
    pub fn best(&self, goal: Goal, rule: &impl Rule<N>) -> Plays<N> {
        let mut plays = Plays::NONE;
        for (die, to, found) in &self.list[..self.count] {
            plays.add(*die, *to, found[goal as usize], rule);
        }
        plays
    }
}
