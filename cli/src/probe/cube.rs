//! What to do with the cube, from the values of a two-sided table: the three numbers behind it, and the action.

use serde::Serialize;
use strata_games::Bounded;

/// One place where the cube may be.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub(super) struct Cube {
    /// `centred`, `jacoby` (centred, with gammons counting only after it was turned) or `owned`.
    pub cube: &'static str,
    /// Not doubling.
    pub no_double: f64,
    /// Doubling, and being taken.
    pub double_take: f64,
    /// Doubling, and being passed.
    pub double_pass: f64,
    /// What both should do.
    pub action: String,
}

/// What a player gets who doubles and is passed.
const PASSED: f64 = 1.0;

impl Cube {
    /// From the value without a double, and that with the cube on the other side.
    pub(super) fn new(cube: &'static str, waiting: Bounded, opponent: Bounded) -> Self {
        let taken = Bounded { value: 2.0 * opponent.value, error: 2.0 * opponent.error };
        let action = action(if cube == "owned" { "redouble" } else { "double" }, waiting, taken);
        Self { cube, no_double: waiting.value, double_take: taken.value, double_pass: PASSED, action }
    }
}

/// Numbers that differ by no more than their errors are a tie.
fn action(double: &str, waiting: Bounded, taken: Bounded) -> String {
    let is_tie = |a: Bounded, b: Bounded| (a.value - b.value).abs() <= a.error + b.error;
    let passed = Bounded { value: PASSED, error: 0.0 };
    let answer = match () {
        () if is_tie(taken, passed) => "take or pass (a tie)",
        () if taken.value < PASSED => "take",
        () => "pass",
    };
    let doubled = if taken.value < PASSED { taken } else { passed };
    match () {
        () if is_tie(waiting, doubled) => format!("{double} or not (a tie), {answer}"),
        () if waiting.value < doubled.value => format!("{double}, {answer}"),
        () if answer == "pass" => format!("too good to {double}, pass"),
        () => format!("no {double}, {answer}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(waiting: f64, opponent: f64) -> String {
        let bounded = |value| Bounded { value, error: 1e-5 };
        Cube::new("centred", bounded(waiting), bounded(opponent)).action
    }

    #[test]
    fn the_action_is_the_better_for_each() {
        for (waiting, opponent, expected) in [
            (0.43, 0.18, "no double, take"),
            (0.5, 0.3, "double, take"),
            (0.8, 0.6, "double, pass"),
            (1.2, 0.7, "too good to double, pass"),
            (0.6, 0.3, "double or not (a tie), take"),
            (0.7, 0.5, "double, take or pass (a tie)"),
            (1.0, 0.6, "double or not (a tie), pass"),
            (-0.5, -0.7, "no double, take"),
        ] {
            assert_eq!(of(waiting, opponent), expected, "{waiting} {opponent}");
        }
    }
}
