//! Pairs of positions as people write them.

use super::TwoSided;
use crate::bearoff::board::Sums;
use crate::bearoff::text as side;
use crate::space::{Position, PositionError};

impl TwoSided {
    /// Two positions with a `v` between them: the player on roll first.
    pub(super) fn read(&self, text: &str) -> Result<(Sums, Sums), PositionError> {
        let (points, most) = (self.spec.points, self.spec.checkers.0);
        let Some((roller, other)) = text.split_once(['v', 'V']) else {
            let side = side::format(Position(1), points);
            return Err(PositionError(format!(
                "{text:?} is one position; a two-sided table needs two, the player on roll first: '{side} v {side}'"
            )));
        };
        let read = |text: &str, whose: &str| {
            let position = side::parse(text, &self.name, points, most);
            position.map(|p| self.board.sums(p)).map_err(|error| PositionError(format!("{whose}: {error}")))
        };
        Ok((read(roller, "the player on roll")?, read(other, "the other player")?))
    }

    /// So that it can be read again.
    pub(super) fn write(&self, roller: Sums, other: Sums) -> String {
        let side = |sums| side::format(self.board.position(sums), self.spec.points);
        format!("{} v {}", side(roller), side(other))
    }
}
