//! Two-sided backgammon bearoff: what a race is worth to the player on roll, exactly, with the cube and gammons.
//!
//! A key is a pair of positions, the player on roll first; a layer the pairs of one sum of pips. From a key chance rolls two dice, the
//! player on roll chooses among the plays, and the other is on roll: the value of a choice is that of the pair after it, turned
//! around ([`Aim::Rival`]). Which pairs there are is known beforehand, so there is one backward pass. See
//!
//! * `geometry.rs` for the order of pairs within a layer, which makes the inner loop run over contiguous numbers,
//! * `sweep.rs` for that loop, and
//! * `money.rs` for the five values of a pair and what they mean.
//!
//! Values are computed in f32, from sums in f64 that are rounded once a roll, and published in 16 bits. [`ALLOWANCE`] is what the roundings of
//! a whole game are taken to add up to at most; the bounds in the manifest include it.
//!
//! `+doubles=P` is as in one-sided tables.

mod geometry;
pub mod gnubg;
mod kernel;
pub mod limits;
mod money;
mod plan;
mod plays;
mod sweep;
#[cfg(test)]
mod tests;
mod text;

use super::board::{Board, Sums};
use super::count::Counting;
use super::dice::{Dice, ROLLS};
use super::text as side;
use crate::OpenError;
use crate::name::{SpecTwoSided, TableName};
use crate::space::*;
use geometry::{Geometry, Place};
use money::{CENTRED, COLUMNS, CUBELESS, JACOBY, Money, OPPONENT, OWNED};
use plan::{Plan, Sizes};
use plays::AllPlays;

/// How far a value may be from the exact one because of rounding to f32. Measured, not proved: against f64 it is less than a quarter of this for
/// all tables compared (docs/BEAROFF.md).
pub const ALLOWANCE: f64 = 1.0 / (1u64 << 20) as f64;

/// The most pairs that a table may have: some 2.5 TiB of them.
pub const MOST_PAIRS: u128 = 1 << 38;
/// The most positions of a side, whose plays are listed in memory.
pub const MOST_POSITIONS: u128 = 1 << 21;

/// The state space of a two-sided bearoff table.
///
/// A [`Position`] has GNU Backgammon's index of the player on roll in bits 0..32 and that of the other in bits 32..64. A state has the
/// roll's number, 1 to 21, in bits 64..69, or 31 there where the game is over.
#[derive(Debug)]
pub struct TwoSided {
    name: TableName,
    spec: SpecTwoSided,
    board: Board,
    geometry: Geometry,
    plays: AllPlays,
    dice: Dice,
    money: Money,
    plan: Plan,
}

/// Where a state keeps the number of its roll.
const ROLL_SHIFT: u32 = 64;
/// Instead of a roll: the game is over.
const OVER: u128 = 31;

impl TwoSided {
    /// The state space of a table.
    ///
    /// # Errors
    /// When it has more than [`MOST_PAIRS`] pairs, or [`MOST_POSITIONS`] positions of a side.
    pub fn open(spec: &SpecTwoSided) -> Result<Self, OpenError> {
        let positions = |checkers| u128::from(Counting::new(spec.points, checkers).universe());
        let (all, few) = (positions(spec.checkers.0), positions(spec.checkers.1));
        let pairs = 2 * all * few - few * few;
        if pairs <= MOST_PAIRS && all <= MOST_POSITIONS {
            return Ok(Self::new(spec));
        }
        Err(OpenError {
            table: TableName::TwoSided(spec.clone()),
            problem: format!(
                "{all} positions of one side and {few} of the other make {pairs} pairs; tables have at most {MOST_POSITIONS} positions \
                 of a side and {MOST_PAIRS} pairs"
            ),
            help: "fewer points or checkers make a smaller table, such as bearoff-6x15v15".into(),
        })
    }

    pub(crate) fn new(spec: &SpecTwoSided) -> Self {
        Self::with_sizes(spec, Sizes::default())
    }

    fn with_sizes(spec: &SpecTwoSided, sizes: Sizes) -> Self {
        let geometry = Geometry::new(spec.points, spec.checkers);
        let dice = Dice::of(spec.doubles);
        Self {
            name: TableName::TwoSided(spec.clone()),
            spec: spec.clone(),
            board: Board::new(spec.points),
            plays: AllPlays::new(geometry.counting.pips()),
            plan: Plan::new(&geometry, sizes),
            money: Money::new(dice),
            dice,
            geometry,
        }
    }

    fn pack(&self, roller: Sums, other: Sums) -> Position {
        let index = |sums| u128::from(self.geometry.counting.index(sums));
        Position(index(roller) | index(other) << 32)
    }

    /// The pair of a key, if it is one of this table.
    fn pair(&self, position: Position) -> Option<(Sums, Sums)> {
        if position.0 >> ROLL_SHIFT != 0 {
            return None;
        }
        let side = |index: u128| {
            let index = u64::try_from(index).ok().filter(|&index| index < self.geometry.counting.universe())?;
            Some(self.geometry.counting.of_index(index))
        };
        let (roller, other) = (side(position.0 & u128::from(u32::MAX))?, side(position.0 >> 32)?);
        self.geometry.place(roller, other).map(|_| (roller, other))
    }

    /// The pair and the roll of a state, if it is one of this table.
    fn state(&self, state: Position) -> Option<((Sums, Sums), usize)> {
        let roll = usize::try_from(state.0 >> ROLL_SHIFT).ok()?.checked_sub(1).filter(|&roll| roll < ROLLS.len())?;
        let pair = self.pair(Position(state.0 & u128::from(u64::MAX)))?;
        (!is_over(pair)).then_some((pair, roll))
    }

    fn key(&self, (roller, other): (Sums, Sums)) -> Option<Key> {
        let Place { layer, rank } = self.geometry.place(roller, other)?;
        Some(Key { layer: Layer(u32::try_from(layer).ok()?), rank })
    }

    /// Whether a gammon can still be won by somebody, so that the game is worth more than 1: whether a player has all 15 checkers.
    pub fn has_gammons(&self, position: Position) -> bool {
        self.pair(position).is_some_and(|(roller, other)| self.is_full(roller) || self.is_full(other))
    }

    /// What a pair is worth where the game is over; nothing where it is not.
    pub fn end(&self, position: Position) -> Option<f64> {
        self.pair(position).filter(|&pair| is_over(pair)).map(|pair| self.worth(pair))
    }

    fn is_full(&self, sums: Sums) -> bool {
        sums.get(self.spec.points - 1) == 15
    }

    fn start(&self) -> (Sums, Sums) {
        let on_the_farthest = |checkers: usize| self.board.sums(Position((checkers as u128) << (4 * (self.spec.points - 1))));
        (on_the_farthest(self.spec.checkers.0), on_the_farthest(self.spec.checkers.1))
    }

    fn start_place(&self) -> Place {
        let (roller, other) = self.start();
        self.geometry.place(roller, other).expect("one has all, the other at most the fewer")
    }

    /// What a pair is worth where a side has nothing left.
    fn worth(&self, (roller, other): (Sums, Sums)) -> f64 {
        match roller == Sums::OFF {
            true if self.is_full(other) => 2.0,
            true => 1.0,
            false if self.is_full(roller) => -2.0,
            false => -1.0,
        }
    }
}

fn is_over((roller, other): (Sums, Sums)) -> bool {
    roller == Sums::OFF || other == Sums::OFF
}

/// Reads the value after a roll with the chance to double, from the value without and that of the cube in the other's hands.
fn doubled(values: &[Bounded]) -> Bounded {
    money::doubled_within(values[0], values[1])
}

fn as_it_is(values: &[Bounded]) -> Bounded {
    values[0]
}

/// A gammon counts 1 while the cube is centred.
fn single(value: f64) -> f64 {
    value.clamp(-1.0, 1.0)
}

static RECURSIONS: [Recursion; COLUMNS.len()] = [
    Recursion { column: CUBELESS, reads: &[CUBELESS], next: as_it_is, end: std::convert::identity },
    Recursion { column: OWNED, reads: &[OPPONENT], next: as_it_is, end: std::convert::identity },
    Recursion { column: CENTRED, reads: &[CENTRED, OPPONENT], next: doubled, end: std::convert::identity },
    Recursion { column: JACOBY, reads: &[JACOBY, OPPONENT], next: doubled, end: single },
    Recursion { column: OPPONENT, reads: &[OWNED, OPPONENT], next: doubled, end: std::convert::identity },
];

impl StateSpace for TwoSided {
    fn name(&self) -> &TableName {
        &self.name
    }

    fn layers(&self) -> &[LayerInfo] {
        &self.plan.layers
    }

    fn stages(&self) -> &[Stage] {
        &self.plan.stages
    }

    fn task(&self, task: TaskId) -> TaskPlan {
        self.plan.task(&self.geometry, task)
    }

    fn scalar_columns(&self) -> &'static [&'static str] {
        &COLUMNS
    }

    fn dist_columns(&self) -> &'static [&'static str] {
        &[]
    }

    fn aim(&self) -> Aim {
        Aim::Rival
    }

    fn number_bytes(&self) -> Option<u64> {
        Some(size_of::<f32>() as u64)
    }

    fn precision(&self) -> Precision {
        Precision::Single { allowance: ALLOWANCE }
    }

    fn recursions(&self) -> &'static [Recursion] {
        &RECURSIONS
    }

    fn run(&self, task: TaskId, io: &dyn TaskIo) -> Result<(), TaskError> {
        self.run_task(task, io)
    }

    fn rank(&self, position: Position) -> Option<Key> {
        self.pair(position).and_then(|pair| self.key(pair))
    }

    fn unrank(&self, key: Key) -> Option<Position> {
        let place = Place { layer: usize::try_from(key.layer.0).ok()?, rank: key.rank };
        self.geometry.pair(place).map(|(roller, other)| self.pack(roller, other))
    }

    fn canonical(&self, position: Position) -> Position {
        position
    }

    fn outcomes(&self, key: Position) -> Vec<Outcome> {
        let Some(pair) = self.pair(key) else { return Vec::new() };
        if is_over(pair) {
            return vec![Outcome { chance: 1.0, label: "over".into(), state: Position(key.0 | OVER << ROLL_SHIFT) }];
        }
        self.dice.outcomes(key, ROLL_SHIFT)
    }

    fn choices(&self, state: Position) -> Vec<Choice> {
        let Some(((roller, other), roll)) = self.state(state) else { return Vec::new() };
        side::plays(&self.board, &self.geometry.counting, roller, ROLLS[roll])
            .into_iter()
            .map(|(next, label)| Choice { label, reward: 0.0, key: self.key((other, next)), position: self.pack(other, next) })
            .collect()
    }

    fn terminal_value(&self, state: Position) -> f64 {
        self.end(Position(state.0 & u128::from(u64::MAX))).unwrap_or(0.0)
    }

    fn expand(&self, key: Position, into: &mut Expansion) {
        let Some((roller, other)) = self.pair(key) else { return };
        if is_over((roller, other)) {
            into.branches.push(Branch { chance: 1.0, end: into.leaves.len(), terminal: self.worth((roller, other)) });
            return;
        }
        for (number, &roll) in ROLLS.iter().enumerate() {
            let start = into.leaves.len();
            let leaves = &mut into.leaves;
            self.board.successors(roller, roll, &mut |next| leaves.push(Leaf { gain: 0.0, key: self.key((other, next)) }));
            let end = super::sort_and_dedup(leaves, start);
            into.branches.push(Branch { chance: self.dice.chance(number), end, terminal: 0.0 });
        }
    }

    fn starts(&self) -> Vec<Outcome> {
        let (roller, other) = self.start();
        vec![Outcome { chance: 1.0, label: self.write(roller, other), state: self.pack(roller, other) }]
    }

    fn starts_are_states(&self) -> bool {
        false
    }

    fn parse(&self, text: &str) -> Result<Position, PositionError> {
        let (roller, other) = self.read(text)?;
        match self.geometry.place(roller, other) {
            Some(_) => Ok(self.pack(roller, other)),
            None => Err(PositionError(format!(
                "both players have more than {} checkers; in {} one of them has at most so many",
                self.spec.checkers.1, self.name
            ))),
        }
    }

    fn roll_in(&self, text: &str) -> Option<(u8, u8)> {
        super::ids::parse(text)?.ok()?.dice
    }

    fn format(&self, position: Position) -> String {
        match self.pair(Position(position.0 & u128::from(u64::MAX))) {
            Some((roller, other)) => self.write(roller, other),
            None => format!("{:#x}", position.0),
        }
    }

    fn standing(&self, position: Position, _table: &dyn TableReader) -> Result<Standing, ReadError> {
        let Some((roller, other)) = self.pair(position) else {
            return Ok(Standing::Impossible(format!("{} is no position of {}", self.format(position), self.name)));
        };
        Ok(match roller == Sums::OFF && other == Sums::OFF {
            true => Standing::Impossible("both players have borne off all their checkers, and only one can be first".into()),
            false => Standing::Inside,
        })
    }
}
