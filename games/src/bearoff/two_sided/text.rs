//! Pairs of positions as people write them, and as programs do.

use super::TwoSided;
use crate::bearoff::board::Sums;
use crate::bearoff::{ids, text as side};
use crate::space::{Position, PositionError};

impl TwoSided {
    /// Two positions with a `v` between them: the player on roll first.
    pub(super) fn read(&self, text: &str) -> Result<(Sums, Sums), PositionError> {
        let (points, most) = (self.spec.points, self.spec.checkers.0);
        let (roller, other) = match ids::parse(text) {
            Some(given) => {
                let given = given?;
                let side = |side: &[usize]| side::of_side(side, &self.name, points, most);
                (side(&given.roller), side(&given.other))
            }
            None => {
                let Some((roller, other)) = text.split_once(['v', 'V']) else {
                    let side = side::format(Position(1), points);
                    return Err(PositionError(format!(
                        "{text:?} is one position; a two-sided table needs two, the player on roll first: '{side} v {side}'"
                    )));
                };
                let read = |text: &str| side::parse(text, &self.name, points, most);
                (read(roller), read(other))
            }
        };
        let (roller, other) = side::both(roller, other)?;
        Ok((self.board.sums(roller), self.board.sums(other)))
    }

    /// So that it can be read again.
    pub(super) fn write(&self, roller: Sums, other: Sums) -> String {
        let side = |sums| side::format(self.board.position(sums), self.spec.points);
        format!("{} v {}", side(roller), side(other))
    }
}
