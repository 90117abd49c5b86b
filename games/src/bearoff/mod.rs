//! One-sided backgammon bearoff: how many rolls one player needs to bear off all checkers, when nobody is in the way.
//!
//! A key is the position before the roll, a layer the positions of one pip count. From a position chance rolls two dice, the
//! player chooses among the plays of the roll, and every play costs one roll:
//!
//! ```text
//!     mean(position) = 1 + Σ over the 21 rolls  chance × min over plays of mean(position after the play)
//! ```
//!
//! Play lowers the pip count by 1 to 24, so layers are computed upwards from 0 pips, in one backward pass; which positions there are
//! is known beforehand.
//!
//! * **Keys** are GNU Backgammon's position index, which runs over all positions of up to C checkers, C(P + C, P) of them: the
//!   universe of every layer. `count.rs` turns positions into indices and into ordinals within a layer without any stored set.
//! * **Rules**: a non-double may be played in either order, a double is four moves, a die bears a checker off its own point even
//!   when higher points are occupied, a larger die bears off only from the highest occupied point, and moving inside instead of
//!   bearing off is legal. On boards of more than 6 points nothing is borne off while a checker is outside the 6 points of the home board.
//! * **Play** has the least mean. Plays whose means agree to 1e-12 are tied; among them the least variance decides (to 1e-12), then the
//!   fewest pips left, then the smallest index. So no stored value hangs on how a sum was rounded.
//! * **Columns**: the mean; the variance; `rolls`, the distribution of the number of rolls under that play; and `first_off`, the
//!   distribution of the number of rolls until the first checker is off. That is what decides about gammons, and as in GNU
//!   Backgammon's databases it has its own play: of positions with all C checkers on the board, the least mean number of rolls
//!   until one is off, ties as above. With fewer than C checkers one is off already: `first_off` is 0 rolls for certain.
//!   Distributions leave off what is below 2^-64 at their ends.
//! * **Effective pip count**: the mean number of rolls times the mean pips of a roll, 49/6 with fair dice; see [`Bearoff::epc`].
//! * `+doubles=P` gives each double the chance P/6 and the other rolls equal parts of the rest. Everything follows, play and EPC too.
//! * `+meaningless` replaces the values of positions of 1 to 24 pips: they take splitmix64(index) mod 8 + 1 rolls for certain, both
//!   for `rolls` and, with C checkers, for `first_off`. There nothing can be chosen, and that number is the value of every state.

mod board;
mod count;
mod dice;
pub mod gnubg;
mod ids;
mod kernel;
mod known;
mod plan;
#[cfg(test)]
pub(crate) mod tests;
mod text;
pub mod two_sided;
mod ways;

use crate::hash::splitmix64;
use crate::name::{FAIR_DOUBLES, SpecBearoff, TableName};
use crate::space::*;
use board::{Board, Sums};
use count::Counting;
use dice::{Dice, MOST_PIPS, ROLLS};
use plan::Plan;
pub use two_sided::TwoSided;

/// The state space of a one-sided bearoff table.
///
/// A [`Position`] has the checkers on point i in bits 4(i - 1)..4i. A state has the roll's number, 1 to 21, above that in bits
/// 72..77; a key has 0 there.
#[derive(Debug)]
pub struct Bearoff {
    name: TableName,
    spec: SpecBearoff,
    board: Board,
    counting: Counting,
    dice: Dice,
    plan: Plan,
}

/// Where a state keeps the number of its roll.
const ROLL_SHIFT: u32 = 72;

/// One play of a roll.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Play {
    /// In backgammon notation: `6/off 4/off`, `6/2(2)`.
    pub label: String,
    /// The place of the position after it.
    pub key: Key,
    /// The position after it.
    pub position: Position,
}

impl Bearoff {
    /// The state space of a table.
    pub fn new(spec: &SpecBearoff) -> Self {
        let counting = Counting::new(spec.points, spec.checkers);
        let plan = Plan::new(&counting);
        let name = TableName::Bearoff(spec.clone());
        Self { name, spec: spec.clone(), board: Board::new(spec.points), counting, dice: Dice::of(spec.doubles), plan }
    }

    /// Number of positions.
    pub fn positions(&self) -> u64 {
        self.counting.universe()
    }

    /// Mean number of pips of a roll: 49/6 with fair dice.
    pub fn pips_per_roll(&self) -> f64 {
        self.dice.mean_pips()
    }

    /// Effective pip count: what a mean number of rolls is worth in pips.
    pub fn epc(&self, mean: f64) -> f64 {
        mean * self.pips_per_roll()
    }

    /// Reads the position of one player, or of two (`A v B`, or the ID of a backgammon program): the player on roll, and the other.
    ///
    /// # Errors
    /// When it is no position, or one that this table does not hold.
    pub fn read(&self, text: &str) -> Result<(Position, Option<Position>), PositionError> {
        let (points, most) = (self.spec.points, self.spec.checkers);
        let (roller, other) = match ids::parse(text) {
            Some(given) => {
                let given = given?;
                (
                    text::of_side(&given.roller, &self.name, points, most),
                    Some(text::of_side(&given.other, &self.name, points, most)),
                )
            }
            None => match text.split_once(['v', 'V']) {
                Some((roller, other)) => {
                    (text::parse(roller, &self.name, points, most), Some(text::parse(other, &self.name, points, most)))
                }
                None => return Ok((text::parse(text, &self.name, points, most)?, None)),
            },
        };
        text::both(roller, other.unwrap_or(Ok(Position(0)))).map(|(roller, other)| (roller, Some(other)))
    }

    /// The position as numbers, if it is a key of this table.
    fn sums(&self, position: Position) -> Option<Sums> {
        let board = (1_u128 << (4 * self.spec.points)) - 1;
        let total: u128 = (0..self.spec.points).map(|i| position.0 >> (4 * i) & 15).sum();
        (position.0 & !board == 0 && total <= self.spec.checkers as u128).then(|| self.board.sums(position))
    }

    /// A state's position and roll.
    fn state(&self, state: Position) -> Option<(Sums, usize)> {
        let roll = usize::try_from(state.0 >> ROLL_SHIFT).ok()?.checked_sub(1).filter(|&roll| roll < ROLLS.len())?;
        Some((self.sums(Position(state.0 & ((1 << ROLL_SHIFT) - 1)))?, roll))
    }

    fn key(&self, sums: Sums) -> Key {
        let pips = u32::try_from(self.counting.place(sums).0).expect("at most 270 pips");
        Key { layer: Layer(pips), rank: self.counting.index(sums) }
    }

    fn is_meaningless(&self, pips: usize) -> bool {
        self.spec.meaningless && (1..=MOST_PIPS).contains(&pips)
    }

    fn meaningless_rolls(&self, sums: Sums) -> usize {
        usize::from((splitmix64(self.counting.index(sums)) & 7) as u8) + 1
    }

    fn start(&self) -> Position {
        Position((self.spec.checkers as u128) << (4 * (self.spec.points - 1)))
    }
}

/// Puts the choices from `start` on in the order of their index, each once, and says where they end.
fn sort_and_dedup(leaves: &mut Vec<Leaf>, start: usize) -> usize {
    leaves[start..].sort_unstable_by_key(|leaf| leaf.key.map(|key| key.rank));
    let mut end = start;
    for i in start..leaves.len() {
        if end == start || leaves[end - 1] != leaves[i] {
            leaves[end] = leaves[i];
            end += 1;
        }
    }
    leaves.truncate(end);
    end
}

impl StateSpace for Bearoff {
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
        self.plan.task(&self.counting, task)
    }

    fn scalar_columns(&self) -> &'static [&'static str] {
        &["mean", "variance"]
    }

    fn dist_columns(&self) -> &'static [&'static str] {
        &["rolls", "first_off"]
    }

    fn aim(&self) -> Aim {
        Aim::Least
    }

    fn number_bytes(&self) -> Option<u64> {
        Some(size_of::<f64>() as u64)
    }

    /// With fair dice 28 bytes at 12 pips, 55 at 60, 80 at 96 and 106 at 120: measured, and hardly different from 9 to 13 points.
    fn published_bytes(&self, Layer(pips): Layer) -> Option<u64> {
        (self.spec.doubles == FAIR_DOUBLES).then_some(30 + u64::from(pips) * 7 / 10)
    }

    fn run(&self, task: TaskId, io: &dyn TaskIo) -> Result<(), TaskError> {
        self.run_task(task, io)
    }

    fn rank(&self, position: Position) -> Option<Key> {
        self.sums(position).map(|sums| self.key(sums))
    }

    fn unrank(&self, key: Key) -> Option<Position> {
        if key.rank >= self.counting.universe() {
            return None;
        }
        let sums = self.counting.of_index(key.rank);
        (self.key(sums) == key).then(|| self.board.position(sums))
    }

    fn canonical(&self, position: Position) -> Position {
        position
    }

    fn outcomes(&self, key: Position) -> Vec<Outcome> {
        if !self.sums(key).is_some_and(|sums| sums != Sums::OFF) {
            return Vec::new();
        }
        self.dice.outcomes(key, ROLL_SHIFT)
    }

    fn choices(&self, state: Position) -> Vec<Choice> {
        match self.state(state) {
            Some((sums, roll)) if !self.is_meaningless(self.counting.place(sums).0) => self
                .plays(self.board.position(sums), ROLLS[roll])
                .into_iter()
                .map(|Play { label, key, position }| Choice { label, reward: 1.0, key: Some(key), position })
                .collect(),
            _ => Vec::new(),
        }
    }

    fn terminal_value(&self, state: Position) -> f64 {
        match self.state(state) {
            Some((sums, _)) if self.is_meaningless(self.counting.place(sums).0) => self.meaningless_rolls(sums) as f64,
            _ => 0.0,
        }
    }

    fn expand(&self, key: Position, into: &mut Expansion) {
        let Some(sums) = self.sums(key).filter(|&sums| sums != Sums::OFF) else { return };
        let meaningless = self.is_meaningless(self.counting.place(sums).0);
        let terminal = if meaningless { self.meaningless_rolls(sums) as f64 } else { 0.0 };
        for (number, &roll) in ROLLS.iter().enumerate() {
            let mut end = into.leaves.len();
            if !meaningless {
                let leaves = &mut into.leaves;
                self.board.successors(sums, roll, &mut |next| leaves.push(Leaf { gain: 1.0, key: Some(self.key(next)) }));
                end = sort_and_dedup(leaves, end);
            }
            into.branches.push(Branch { chance: self.dice.chance(number), end, terminal });
        }
    }

    fn starts(&self) -> Vec<Outcome> {
        let SpecBearoff { points, checkers, .. } = self.spec;
        vec![Outcome { chance: 1.0, label: format!("{checkers} on the {points}-point"), state: self.start() }]
    }

    fn starts_are_states(&self) -> bool {
        false
    }

    fn parse(&self, text: &str) -> Result<Position, PositionError> {
        self.read(text).map(|(roller, _)| roller)
    }

    fn roll_in(&self, text: &str) -> Option<(u8, u8)> {
        ids::parse(text)?.ok()?.dice
    }

    fn format(&self, position: Position) -> String {
        text::format(position, self.spec.points)
    }

    fn standing(&self, position: Position, _table: &dyn TableReader) -> Result<Standing, ReadError> {
        Ok(match self.sums(position) {
            Some(_) => Standing::Inside,
            None => Standing::Impossible(format!("{} is no position of {}", self.format(position), self.name)),
        })
    }
}
