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

use super::board::{Board, Sums};
use super::count::Counting;
use super::dice::ROLLS;
use super::known::{Goal, Number, STEPS_DOWN, ShardView, Steps, View};
use super::plan::whole;
use super::ways::{Moves, Plays, Rule};
use crate::array::Array;
use crate::floats::{self, Floats, Job};
use crate::game2048::lanes::prefetch;
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

/// The whole database.
pub struct OneSided {
    counting: Counting,
    /// By pips.
    layers: Vec<Layer>,
}

/// Chances in a cache line of their own.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
struct Line(Chances);

/// The positions of one pip count, in the order of their ordinals.
struct Layer {
    /// Until all checkers are off.
    wins: Array<Line>,
    /// Until one is off, of the positions with all checkers, which come last.
    gammons: Array<Line>,
}

impl Layer {
    /// Number of positions with fewer than all checkers.
    #[inline(always)]
    fn fewer(&self) -> usize {
        self.wins.len() - self.gammons.len()
    }

    /// The chances of a position for a goal; `None` when it is reached.
    #[inline(always)]
    fn get(&self, goal: Goal, ordinal: usize) -> Option<&Line> {
        match goal {
            Goal::AllOff => self.wins.get(ordinal),
            Goal::FirstOff => ordinal.checked_sub(self.fewer()).and_then(|at| self.gammons.get(at)),
        }
    }
}

/// What the layers above need to know of a layer, for each goal.
struct Known([Vec<Steps<i32>>; 2]);

impl OneSided {
    /// Computes all positions of 15 checkers or fewer on so many points, at most [`MOST_POINTS`], on the rayon pool it is called in.
    /// `progress` is told how many are done, and says whether to go on; `None` when not.
    ///
    /// # Panics
    /// With no points or more than [`MOST_POINTS`].
    pub fn compute(points: usize, progress: &dyn Fn(u64) -> bool) -> Option<Self> {
        assert!((1..=MOST_POINTS).contains(&points), "{points} points");
        let (counting, board) = (Counting::new(points, CHECKERS), Board::new(points));
        let mut layers = vec![Layer { wins: vec![Line(REACHED)].into(), gammons: Array::default() }];
        // Of the position where nothing is left to do: place 0, after no roll.
        let mut below = VecDeque::from([Known([vec![[0; 40]], Vec::new()])]);
        let mut done = 1;
        for pips in 1..=counting.pips() {
            let (all, fewer) = (whole(counting.layer(pips)), whole(counting.with_fewer(pips, CHECKERS)));
            let mut layer = Layer { wins: Array::zeroed(all), gammons: Array::zeroed(all - fewer) };
            let mut known = Known([vec![[0; 40]; all], vec![[0; 40]; all - fewer]]);
            let lowest = pips - below.len();
            let mut view = View::new(lowest);
            for (pips, Known([wins, gammons])) in (lowest..).zip(&below) {
                view.push(wins.len() - gammons.len(), counting.layer(pips), vec![ShardView::of_steps([wins, gammons])]);
            }
            let shared = Shared { board: &board, counting: &counting, view: &view, layers: &layers, pips };
            pieces(&shared, fewer, &mut layer, &mut known).into_par_iter().for_each(floats::run);
            done += all as u64;
            layers.push(layer);
            below.push_back(known);
            if below.len() > STEPS_DOWN {
                below.pop_front();
            }
            if !progress(done) {
                return None;
            }
        }
        Some(Self { counting, layers })
    }

    /// Bytes of memory that computing so many points takes at most.
    pub fn memory_bytes(points: usize) -> u64 {
        let counting = Counting::new(points, CHECKERS);
        let all = counting.universe();
        let full = all - Counting::new(points, CHECKERS - 1).universe();
        let widest = (0..=counting.pips()).map(|pips| counting.layer(pips)).max().unwrap_or(0);
        // The results; of seven layers what later ones need to know.
        (all + full) * size_of::<Line>() as u64 + 2 * widest * (STEPS_DOWN as u64 + 1) * size_of::<Steps<i32>>() as u64
    }

    /// Number of positions.
    pub fn count(&self) -> usize {
        whole(self.counting.universe())
    }

    /// The rolls until all checkers are off.
    pub fn win(&self, index: usize) -> &Chances {
        self.get(Goal::AllOff, index)
    }

    /// The rolls until a checker is off.
    pub fn gammon(&self, index: usize) -> &Chances {
        self.get(Goal::FirstOff, index)
    }

    fn get(&self, goal: Goal, index: usize) -> &Chances {
        let (pips, ordinal) = self.counting.place(self.counting.of_index(index as u64));
        self.layers[pips].get(goal, ordinal).map_or(&REACHED, |line| &line.0)
    }
}

/// The play of a roll is the first of the best, in the order in which single dice are tried: all plays of a roll in order are, for each source
/// of the first die in order, all plays of the other dice in order. So the first of the best is found from the first of the best after
/// one die, die by die. Plays of a double whose sources ascend come later than the same plays sorted, and lead nowhere else.
struct First;

impl Rule<i32> for First {
    #[inline(always)]
    fn is_less(&self, time: i32, least: i32) -> bool {
        time < least
    }

    #[inline(always)]
    fn is_tied(&self, _time: i32, _least: i32) -> bool {
        false
    }

    #[inline(always)]
    fn precedes(&self, _a: i32, _b: i32) -> bool {
        false
    }
}

/// What all positions of a layer need.
struct Shared<'a> {
    board: &'a Board,
    counting: &'a Counting,
    view: &'a View<'a, i32>,
    layers: &'a [Layer],
    pips: usize,
}

/// Positions of a layer that are computed one after the other: all of them with all checkers, or none.
struct Piece<'a> {
    shared: &'a Shared<'a>,
    /// The ordinal of the first.
    first: usize,
    wins: &'a mut [Line],
    steps: &'a mut [Steps<i32>],
    /// Empty, or for the same positions.
    gammons: &'a mut [Line],
    gammon_steps: &'a mut [Steps<i32>],
}

/// Positions in a piece.
const PIECE: usize = 256;
/// Positions whose steps and chances are fetched from memory at a time.
const BATCH: usize = 4;

/// Cuts a layer into pieces, of which the first `fewer` positions have fewer than all checkers.
fn pieces<'a>(shared: &'a Shared<'a>, fewer: usize, layer: &'a mut Layer, known: &'a mut Known) -> Vec<Piece<'a>> {
    let Known([steps, gammon_steps]) = known;
    let (few_wins, wins) = layer.wins.split_at_mut(fewer);
    let (few_steps, steps) = steps.split_at_mut(fewer);
    let mut first = 0;
    let mut piece = |wins: &'a mut [Line], steps, gammons, gammon_steps| {
        first += wins.len();
        Piece { shared, first: first - wins.len(), wins, steps, gammons, gammon_steps }
    };
    let mut pieces = Vec::new();
    for (wins, steps) in few_wins.chunks_mut(PIECE).zip(few_steps.chunks_mut(PIECE)) {
        pieces.push(piece(wins, steps, &mut [], &mut []));
    }
    let full = wins.chunks_mut(PIECE).zip(steps.chunks_mut(PIECE));
    let gammons = layer.gammons.chunks_mut(PIECE).zip(gammon_steps.chunks_mut(PIECE));
    for ((wins, steps), (gammons, gammon_steps)) in full.zip(gammons) {
        pieces.push(piece(wins, steps, gammons, gammon_steps));
    }
    pieces
}

impl Job for Piece<'_> {
    type Output = ();

    /// The width is that of the loops over lanes, which the compiler turns into vectors.
    #[inline(always)]
    fn run<V: Floats>(self) {
        let Self { shared, first, wins, steps, gammons, gammon_steps } = self;
        let Shared { board, counting, view, layers, pips } = *shared;
        let is_full = !gammons.is_empty();
        let goals = if is_full { &[Goal::AllOff, Goal::FirstOff][..] } else { &[Goal::AllOff] };
        let (mut moves, mut plays) = ([Moves::NONE; BATCH], [[Plays::NONE; 2]; BATCH]);
        for start in (0..wins.len()).step_by(BATCH) {
            // A few at a time, step by step, so that what a step reads comes from memory during the one before.
            let count = BATCH.min(wins.len() - start);
            for (i, moves) in moves.iter_mut().enumerate().take(count) {
                let sums: Sums = counting.position(pips, (first + start + i) as u64);
                moves.find(board, counting, sums, is_full, view);
            }
            for (moves, plays) in moves.iter().zip(&mut plays).take(count) {
                for &goal in goals {
                    let best = moves.best(goal, &First);
                    for roll in 0..ROLLS.len() {
                        let (pips, ordinal) = best.of(roll, &First).1.at();
                        if let Some(line) = layers[pips].get(goal, ordinal) {
                            prefetch(&line.0, 0);
                        }
                    }
                    plays[goal as usize] = best;
                }
            }
            for (i, plays) in plays.iter().enumerate().take(count) {
                for &goal in goals {
                    let best = &plays[goal as usize];
                    let mut added = [0_u32; MOST_ROLLS + 1];
                    for (roll, &(high, low)) in ROLLS.iter().enumerate() {
                        let (pips, ordinal) = best.of(roll, &First).1.at();
                        let chances = layers[pips].get(goal, ordinal).map_or(&REACHED, |line| &line.0);
                        add(&mut added, if high == low { 1 } else { 2 }, chances);
                    }
                    let chances = rounded(&added);
                    let known = best.steps(time(&chances).cast_signed());
                    match goal {
                        Goal::AllOff => (wins[start + i], steps[start + i]) = (Line(chances), known),
                        Goal::FirstOff => (gammons[start + i], gammon_steps[start + i]) = (Line(chances), known),
                    }
                }
            }
        }
    }
}

/// Adds chances, a roll later.
#[inline(always)]
fn add(sums: &mut [u32; MOST_ROLLS + 1], weight: u32, chances: &Chances) {
    for (sum, &chance) in sums[1..].iter_mut().zip(chances) {
        *sum += weight * u32::from(chance);
    }
}

/// The sums over 36 rolls as chances; what needs more than 31 rolls is left off, and the largest, of equal ones the first, makes up.
#[inline(always)]
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
#[inline(always)]
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
