//! Money play: what a pair is worth to the player on roll, with and without the cube.
//!
//! All values are for a cube of 1, before the roll, after a chance to double was passed up, to the player on roll. A player who has
//! borne off all checkers wins 1, or 2 (a gammon) when the other has all 15 left; nobody wins a backgammon, as all checkers are at home.
//! With V(y, x') for the value to the *other* player y after x has moved to x':
//!
//! ```text
//!     mean(F) = Σ over the 21 rolls  chance × max over plays x -> x' of  -F(y, x')
//!
//!     cubeless   = mean(cubeless)
//!     opponent   = mean(owned')           the other player owns the cube
//!     owned      = mean(opponent)         the player on roll owns it
//!     centred    = mean(centred')
//!     jacoby     = mean(jacoby')          gammons count 1 until the cube was turned
//!
//!     F' = max(F, min(2 opponent, 1))       before the roll: go on, or double and be taken, or double and be passed, whichever
//!                                         the two players prefer; for F = owned, centred and jacoby
//! ```
//!
//! With "too good to double" F is above 1, and the player goes on. Without gammons no F is above 1, and jacoby = centred.
//!
//! Source: E. B. Keeler and J. Spencer, "Optimal doubling in backgammon", Operations Research 23 (1975), for when to double and to take;
//! the recursion is the definition of a money game under these rules. docs/BEAROFF.md has an example worked by hand.

use super::geometry::LANES;
use super::sweep::{Numbers, PLANES, Row, Rules, Sums};
use crate::bearoff::dice::{Dice, ROLLS};
use crate::space::Bounded;

/// Columns of the table, in this order.
pub(super) const COLUMNS: [&str; PLANES] = ["cubeless", "owned", "centred", "jacoby", "opponent"];
/// Numbers of the columns.
pub(super) const CUBELESS: usize = 0;
pub(super) const OWNED: usize = 1;
pub(super) const CENTRED: usize = 2;
pub(super) const JACOBY: usize = 3;
pub(super) const OPPONENT: usize = 4;

/// What the player on roll gets when the other passes.
const PASSED: f32 = 1.0;

/// The rules, with the dice of the table.
#[derive(Debug)]
pub(super) struct Money {
    dice: Dice,
}

impl Money {
    pub fn new(dice: Dice) -> Self {
        Self { dice }
    }
}

/// The value with the chance to double before the roll.
#[inline(always)]
fn doubled(waiting: f32, opponent: f32) -> f32 {
    let taken = opponent + opponent;
    let cashed = if taken < PASSED { taken } else { PASSED };
    if waiting > cashed { waiting } else { cashed }
}

/// The same of stored values, whose errors the result may have: doubling doubles them.
pub(super) fn doubled_within(waiting: Bounded, opponent: Bounded) -> Bounded {
    let taken = (2.0 * opponent.value).min(PASSED.into());
    Bounded { value: waiting.value.max(taken), error: waiting.error.max(2.0 * opponent.error) }
}

impl Rules for Money {
    fn weights(&self) -> &[f64; ROLLS.len()] {
        &self.dice.weights
    }

    fn over(&self, won: f32, is_safe: bool) -> (Numbers, Numbers) {
        let counted = if is_safe { won } else { 2.0 * won };
        ([counted, counted, counted, won, counted], [counted, counted, counted, counted, won])
    }

    /// What later pairs need: cubeless, opponent, owned', centred', jacoby'.
    #[inline(always)]
    fn combine(&self, sums: &Sums, is_safe: bool) -> (Row, Row) {
        let (mut stored, mut needed) = ([[0.0; LANES]; PLANES], [[0.0; LANES]; PLANES]);
        for lane in 0..LANES {
            // Rounded once, here.
            #[allow(clippy::cast_possible_truncation)]
            let mean = |number: usize| (-sums[number][lane] / self.dice.divisor) as f32;
            let (cubeless, owned, opponent, centred) = (mean(0), mean(1), mean(2), mean(3));
            let jacoby = if is_safe { centred } else { mean(4) };
            for (n, value) in [cubeless, owned, centred, jacoby, opponent].into_iter().enumerate() {
                stored[n][lane] = value;
            }
            let [owned, centred, jacoby] = [owned, centred, jacoby].map(|waiting| doubled(waiting, opponent));
            for (n, value) in [cubeless, opponent, owned, centred, jacoby].into_iter().enumerate() {
                needed[n][lane] = value;
            }
        }
        (Row(stored), Row(needed))
    }
}
