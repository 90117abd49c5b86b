//! One-sided bearoff as GNU Backgammon's `makebearoff` computes it: the same integers, so that a file of them is the same file.
//!
//! A chance is a number of 65,535ths in 16 bits, of needing exactly 0, 1, ... 31 rolls. The play of a roll is the first, in a given order
//! of all plays, with the least sum of rolls times chances; what it leads to, a roll later and weighted by 1 for a double and 2 for any other
//! roll, is added up; the sums are divided by 36 and rounded to the nearest; and the largest chance makes up for what all of them are
//! short of 65,535. Errors of rounding add up from position to position, so these are not the numbers of a [`Bearoff`](super::Bearoff)
//! table, which are exact, but near them.
//!
//! Source: the format and the arithmetic as GNU Backgammon's users know them (docs/BEAROFF.md); checked against the MD5 sums that its manual
//! prints.

use super::board::{Board, Sums, bits};
use super::count::Counting;
use super::dice::ROLLS;
use rayon::prelude::*;
use std::collections::VecDeque;

/// Checkers of each side.
const CHECKERS: usize = 15;
/// The most points that `makebearoff` takes.
pub const MOST_POINTS: usize = 13;
/// Numbers of rolls that have a chance.
pub const MOST_ROLLS: usize = 32;
/// A chance of 1.
pub const WHOLE: u16 = u16::MAX;

/// The chances of needing exactly so many rolls, in 65,535ths.
pub type Chances = [u16; MOST_ROLLS];

/// No roll is needed.
const REACHED: Chances = {
    let mut chances = [0; MOST_ROLLS];
    chances[0] = WHOLE;
    chances
};

/// The whole database, by index.
pub struct OneSided {
    wins: Vec<Chances>,
    /// Of the positions with all checkers, which have the highest indices.
    gammons: Vec<Chances>,
    /// Number of positions that have fewer.
    fewer: usize,
}

impl OneSided {
    /// Computes all positions of 15 checkers or fewer on so many points, at most [`MOST_POINTS`], on the rayon pool it is called in.
    /// `progress` is told how many are done, and says whether to go on; `None` when not.
    ///
    /// # Panics
    /// With no points or more than [`MOST_POINTS`].
    pub fn compute(points: usize, progress: &dyn Fn(u64) -> bool) -> Option<Self> {
        assert!((1..=MOST_POINTS).contains(&points), "{points} points");
        let (counting, board) = (Counting::new(points, CHECKERS), Board::new(points));
        let all = usize::try_from(counting.universe()).expect("37 million positions");
        let fewer = usize::try_from(Counting::new(points, CHECKERS - 1).universe()).expect("fewer than all");
        let mut this = Self { wins: vec![REACHED; all], gammons: vec![REACHED; all - fewer], fewer };
        let mut below = Below { pips: 0, layers: VecDeque::from([vec![Known::default()]]) };
        let mut done = 1;
        for pips in 1..=counting.pips() {
            let found: Vec<(Known, [Chances; 2])> = (0..counting.layer(pips))
                .into_par_iter()
                .map(|ordinal| this.position(&board, &counting, &below, counting.position(pips, ordinal)))
                .collect();
            done += found.len() as u64;
            for (known, [wins, gammons]) in &found {
                let at = known.index as usize;
                this.wins[at] = *wins;
                if at >= fewer {
                    this.gammons[at - fewer] = *gammons;
                }
            }
            below.push(found.into_iter().map(|(known, _)| known).collect());
            if !progress(done) {
                return None;
            }
        }
        Some(this)
    }

    /// Bytes of memory that computing so many points takes at most.
    pub fn memory_bytes(points: usize) -> u64 {
        let counting = Counting::new(points, CHECKERS);
        let all = counting.universe();
        let full = all - Counting::new(points, CHECKERS - 1).universe();
        let widest = (0..=counting.pips()).map(|pips| counting.layer(pips)).max().unwrap_or(0);
        // The results; of seven layers what later ones need to know; of one layer what was just found.
        let known = size_of::<Known>() as u64;
        let chances = size_of::<Chances>() as u64;
        (all + full) * chances + widest * (7 * known + (known + 2 * chances))
    }

    /// Number of positions.
    pub fn count(&self) -> usize {
        self.wins.len()
    }

    /// The rolls until all checkers are off.
    pub fn win(&self, index: usize) -> &Chances {
        &self.wins[index]
    }

    /// The rolls until a checker is off.
    pub fn gammon(&self, index: usize) -> &Chances {
        index.checked_sub(self.fewer).map_or(&REACHED, |at| &self.gammons[at])
    }

    /// One position, from those of fewer pips.
    ///
    /// All plays of a roll in order are, for each source of the first die in order, all plays of the other dice in order. So the first of the
    /// best is found from the first of the best after one die, die by die. Plays of a double whose sources ascend come later than the
    /// same plays sorted, and lead nowhere else.
    #[inline]
    fn position(&self, board: &Board, counting: &Counting, below: &Below, sums: Sums) -> (Known, [Chances; 2]) {
        let index = counting.index(sums) as u32;
        let is_full = index as usize >= self.fewer;
        let goals = if is_full { 2 } else { 1 };
        let mut plays = [Plays::NONE; 2];
        for die in 1..=6u8 {
            for q in bits(board.sources(sums, die)) {
                let next = below.get(counting.place(board.play(sums, q, die)));
                for (plays, known) in plays[..goals].iter_mut().zip(&next.goals) {
                    plays.add(usize::from(die) - 1, next.index, known);
                }
            }
        }
        let mut added = [[0u32; MOST_ROLLS + 1]; 2];
        for &(high, low) in &ROLLS {
            let weight = if high == low { 1 } else { 2 };
            let [high, low] = [high, low].map(|die| usize::from(die) - 1);
            add(&mut added[0], weight, self.win(plays[0].of(high, low)));
            if is_full {
                add(&mut added[1], weight, self.gammon(plays[1].of(high, low)));
            }
        }
        let chances = added.map(|added| rounded(&added));
        let mut known = Known { index, goals: [Best::default(); 2] };
        known.goals[0] = plays[0].best(time(&chances[0]));
        // With a checker off already nothing is left to do for the other goal, whatever is played.
        known.goals[1] = if is_full { plays[1].best(time(&chances[1])) } else { Best::reached(index) };
        (known, chances)
    }
}

/// For each number of a die the least sum of rolls times chances, and where the play leads; in columns, so that vectors compare them.
#[derive(Clone, Copy, Default)]
struct Found {
    /// Two more than there are numbers: a whole vector.
    times: [i32; 8],
    places: [u32; 8],
}

impl Found {
    const NOTHING: Self = Self { times: [i32::MAX; 8], places: [0; 8] };

    /// The others, where they are better; of equal ones the first.
    #[inline]
    fn or(&mut self, others: &Self) {
        for i in 0..8 {
            let is_better = others.times[i] < self.times[i];
            self.times[i] = if is_better { others.times[i] } else { self.times[i] };
            self.places[i] = if is_better { others.places[i] } else { self.places[i] };
        }
    }

    /// The same for one number.
    #[inline]
    fn or_one(&mut self, die: usize, time: i32, place: u32) {
        if time < self.times[die] {
            (self.times[die], self.places[die]) = (time, place);
        }
    }
}

/// For one goal: the time that a position needs, and the best plays of one, two and three dice that show the same, for each number.
#[derive(Clone, Copy, Default)]
struct Best {
    time: i32,
    dice: [Found; 3],
}

impl Best {
    /// Of a position, given by its index, that is there.
    fn reached(index: u32) -> Self {
        Self { time: 0, dice: [Found { times: [0; 8], places: [index; 8] }; 3] }
    }
}

/// What later positions need to know of one.
#[derive(Clone, Copy, Default)]
struct Known {
    index: u32,
    /// Until all are off, until one is off.
    goals: [Best; 2],
}

/// The best plays of one position for one goal.
#[derive(Clone, Copy)]
struct Plays {
    /// Of one to four dice that show the same.
    same: [Found; 4],
    /// Of two that differ, by the one that is played first.
    pairs: [Found; 6],
}

impl Plays {
    const NONE: Self = Self { same: [Found::NOTHING; 4], pairs: [Found::NOTHING; 6] };

    /// One way to play a die, and what is known of the position it leads to.
    #[inline]
    fn add(&mut self, die: usize, index: u32, next: &Best) {
        self.same[0].or_one(die, next.time, index);
        for (same, next) in self.same[1..].iter_mut().zip(&next.dice) {
            same.or_one(die, next.times[die], next.places[die]);
        }
        self.pairs[die].or(&next.dice[0]);
    }

    /// Where the best play of a roll leads: the larger die first, then the smaller.
    #[inline]
    fn of(&self, high: usize, low: usize) -> usize {
        if high == low {
            return self.same[3].places[high] as usize;
        }
        let (first, then) = (&self.pairs[high], &self.pairs[low]);
        (if then.times[high] < first.times[low] { then.places[high] } else { first.places[low] }) as usize
    }

    fn best(&self, time: u32) -> Best {
        let [one, two, three, _] = self.same;
        Best { time: time.cast_signed(), dice: [one, two, three] }
    }
}

/// Layers within reach of one die.
struct Below {
    /// Pip count of the first.
    pips: usize,
    layers: VecDeque<Vec<Known>>,
}

impl Below {
    #[inline]
    fn get(&self, (pips, ordinal): (usize, usize)) -> &Known {
        &self.layers[pips - self.pips][ordinal]
    }

    fn push(&mut self, layer: Vec<Known>) {
        self.layers.push_back(layer);
        if self.layers.len() > 6 {
            self.layers.pop_front();
            self.pips += 1;
        }
    }
}

/// Adds chances, a roll later.
#[inline]
fn add(sums: &mut [u32; MOST_ROLLS + 1], weight: u32, chances: &Chances) {
    for (sum, &chance) in sums[1..].iter_mut().zip(chances) {
        *sum += weight * u32::from(chance);
    }
}

/// The sums over 36 rolls as chances; what needs more than 31 rolls is left off, and the largest, of equal ones the first, makes up.
fn rounded(sums: &[u32; MOST_ROLLS + 1]) -> Chances {
    let mut chances = [0; MOST_ROLLS];
    let mut largest = 0;
    for (i, &sum) in sums[..MOST_ROLLS].iter().enumerate() {
        chances[i] = ((sum + 18) / 36) as u16;
        if chances[i] > chances[largest] {
            largest = i;
        }
    }
    let sum: u32 = chances.iter().map(|&chance| u32::from(chance)).sum();
    chances[largest] = (u32::from(chances[largest]) + u32::from(WHOLE)).wrapping_sub(sum) as u16;
    chances
}

/// Sum of rolls times chances.
fn time(chances: &Chances) -> u32 {
    (0..).zip(chances).map(|(i, &chance)| i * u32::from(chance)).sum()
}

/// Mean number of rolls.
pub fn mean(chances: &Chances) -> f64 {
    f64::from(time(chances)) / f64::from(WHOLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worked example of the format: all 15 checkers on the sixth point.
    #[test]
    fn fifteen_checkers_on_the_sixth_point() {
        let six = OneSided::compute(6, &|_| true).unwrap();
        assert_eq!(six.count(), 54_264);
        let (win, gammon) = (six.win(54_263), six.gammon(54_263));
        assert_eq!(win[5..19], [1, 16, 102, 555, 1911, 5444, 10775, 16459, 17144, 9574, 2913, 561, 74, 6]);
        assert_eq!(gammon[1..7], [30947, 29481, 4499, 539, 64, 5]);
        assert_eq!((six.win(0), six.gammon(38_759)), (&REACHED, &REACHED));
        for index in 0..six.count() {
            for chances in [six.win(index), six.gammon(index)] {
                assert_eq!(chances.iter().map(|&chance| u32::from(chance)).sum::<u32>(), 65_535);
            }
        }
    }

    /// The arithmetic as it is described: of all plays of a roll in order the first with the least time.
    fn plainly(points: usize) -> Vec<[Chances; 2]> {
        let (counting, board) = (Counting::new(points, CHECKERS), Board::new(points));
        let fewer = Counting::new(points, CHECKERS - 1).universe();
        let mut all = vec![[REACHED; 2]; 1];
        for index in 1..counting.universe() {
            let mut sums = [[0; MOST_ROLLS + 1]; 2];
            for (goal, sums) in sums.iter_mut().enumerate() {
                for &(high, low) in &ROLLS {
                    let mut best = (u32::MAX, 0);
                    board.successors(counting.of_index(index), (high, low), &mut |next| {
                        let place = counting.index(next) as usize;
                        let time = time(&all[place][goal]);
                        if time < best.0 {
                            best = (time, place);
                        }
                    });
                    add(sums, if high == low { 1 } else { 2 }, &all[best.1][goal]);
                }
            }
            let [wins, gammons] = sums.map(|sums| rounded(&sums));
            all.push([wins, if index < fewer { REACHED } else { gammons }]);
        }
        all
    }

    #[test]
    fn the_play_is_the_first_of_the_best_in_order() {
        for points in [1, 2, 3, 4, 7] {
            if points == 7 && cfg!(debug_assertions) {
                continue;
            }
            let found = OneSided::compute(points, &|_| true).unwrap();
            for (index, [wins, gammons]) in plainly(points).iter().enumerate() {
                assert_eq!((found.win(index), found.gammon(index)), (wins, gammons), "{points} points, position {index}");
            }
        }
    }

    #[test]
    fn what_is_short_goes_to_the_first_of_the_largest() {
        let mut sums = [0; MOST_ROLLS + 1];
        (sums[1], sums[2], sums[3]) = (36 * 30_000, 36 * 30_000, 17);
        let chances = rounded(&sums);
        assert_eq!(chances[..4], [0, 35_535, 30_000, 0]);
    }

    #[test]
    fn it_stops_when_told_to() {
        assert!(OneSided::compute(3, &|done| done < 100).is_none());
    }
}
