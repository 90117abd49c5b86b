//! The 21 rolls of two dice and their chances.

use crate::name::FAIR_DOUBLES;
use crate::space::{Outcome, Position};

/// The rolls, larger die first, in the order in which everything here sums over them.
pub(super) const ROLLS: [(u8, u8); 21] = [
    (1, 1),
    (2, 1),
    (2, 2),
    (3, 1),
    (3, 2),
    (3, 3),
    (4, 1),
    (4, 2),
    (4, 3),
    (4, 4),
    (5, 1),
    (5, 2),
    (5, 3),
    (5, 4),
    (5, 5),
    (6, 1),
    (6, 2),
    (6, 3),
    (6, 4),
    (6, 5),
    (6, 6),
];

/// Most pips that one roll can take: four sixes.
pub(super) const MOST_PIPS: usize = 24;

/// Chances as weights with a common divisor, so that fair dice are exact: 1 or 2 of 36.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dice {
    /// One weight a roll, in the order of [`ROLLS`].
    pub weights: [f64; 21],
    /// What the weights are divided by.
    pub divisor: f64,
}

impl Dice {
    /// Dice that show a double with this chance.
    pub fn of(doubles: f64) -> Self {
        let (double, other, divisor) = match doubles {
            FAIR_DOUBLES => (1.0, 2.0, 36.0),
            doubles => (doubles / 6.0, (1.0 - doubles) / 15.0, 1.0),
        };
        Self { weights: ROLLS.map(|(high, low)| if high == low { double } else { other }), divisor }
    }

    /// The chance of a roll.
    pub fn chance(&self, roll: usize) -> f64 {
        self.weights[roll] / self.divisor
    }

    /// What chance does from a key: the 21 rolls, whose numbers, from 1, are put from bit `shift` on.
    pub fn outcomes(&self, key: Position, shift: u32) -> Vec<Outcome> {
        (1_u128..)
            .zip(ROLLS)
            .map(|(number, (high, low))| Outcome {
                chance: self.chance(number as usize - 1),
                label: format!("{high}{low}"),
                state: Position(key.0 | number << shift),
            })
            .collect()
    }

    /// Mean number of pips of a roll: 49/6 with fair dice.
    pub fn mean_pips(&self) -> f64 {
        let pips = |(high, low)| f64::from(if high == low { 4 * high } else { high + low });
        ROLLS.iter().zip(&self.weights).map(|(&roll, weight)| weight * pips(roll)).sum::<f64>() / self.divisor
    }
}
