//! Positions as people write them, and plays in backgammon notation.

use super::board::Board;
use super::board::{Sums, bits};
use super::count::Counting;
use super::{Bearoff, Play};
use crate::name::TableName;
use crate::space::{Position, PositionError};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Checkers on points 1, 2, ..., with commas or blanks between; points that are left out are empty.
pub(super) fn parse(text: &str, table: &TableName, points: usize, most: usize) -> Result<Position, PositionError> {
    let (mut position, mut total, mut given) = (0_u128, 0_u128, 0);
    for part in text.split(',') {
        let before = given;
        for word in part.split_whitespace() {
            given += 1;
            if given > points {
                return problem(format!(
                    "{table} has {points} points, and {word:?} would be on point {given}; give the checkers on points 1 to {points}"
                ));
            }
            if !word.bytes().all(|b| b.is_ascii_digit()) {
                return problem(format!(
                    "point {given}: {word:?} is not a number of checkers; give the checkers on points 1 to {points}, such as {}",
                    format(Position((most as u128) << (4 * (points - 1))), points)
                ));
            }
            // Anything too long for a u128 is too many as well.
            total = total.saturating_add(word.parse().unwrap_or(u128::MAX));
            if total > most as u128 {
                return problem(format!(
                    "point {given}: with {word} checkers there are too many; this table holds at most {most} checkers"
                ));
            }
            position |= word.parse().unwrap_or(0) << (4 * (given - 1));
        }
        if given == before {
            return problem(format!("no number of checkers for point {}; write 0 for an empty point", given + 1));
        }
    }
    Ok(Position(position))
}

/// The checkers of one side of an ID.
pub(super) fn of_side(side: &[usize], table: &TableName, points: usize, most: usize) -> Result<Position, PositionError> {
    if let Some(far) = side.iter().rposition(|&count| count > 0).filter(|&far| far >= points) {
        return problem(format!("a checker is on point {}; {table} has {points} points", far + 1));
    }
    let count: usize = side.iter().sum();
    if count > most {
        return problem(format!("{count} checkers; in {table} a player has at most {most}"));
    }
    Ok(Position(side[..points].iter().rev().fold(0, |position, &count| position << 4 | count as u128)))
}

/// Both sides, or whose is wrong.
pub(super) fn both(
    roller: Result<Position, PositionError>,
    other: Result<Position, PositionError>,
) -> Result<(Position, Position), PositionError> {
    let of = |whose: &str, error: PositionError| PositionError(format!("{whose}: {error}"));
    Ok((roller.map_err(|error| of("the player on roll", error))?, other.map_err(|error| of("the other player", error))?))
}

fn problem<T>(what: String) -> Result<T, PositionError> {
    Err(PositionError(what))
}

/// Checkers on points 1 to P, commas between.
pub(super) fn format(position: Position, points: usize) -> String {
    let checkers: Vec<String> = (0..points).map(|i| (position.0 >> (4 * i) & 15).to_string()).collect();
    checkers.join(",")
}

impl Bearoff {
    /// The plays of a roll, one for every position that they lead to, in the order of its index.
    ///
    /// Empty when nothing is on the board, and for what is no position of this table or no roll of two dice.
    pub fn plays(&self, position: Position, (a, b): (u8, u8)) -> Vec<Play> {
        let Some(sums) = self.sums(position).filter(|_| [a, b].iter().all(|die| (1..=6).contains(die))) else {
            return Vec::new();
        };
        let play = |(sums, label)| Play { label, key: self.key(sums), position: self.board.position(sums) };
        plays(&self.board, &self.counting, sums, (a, b)).into_iter().map(play).collect()
    }
}

/// The plays of a roll with their names, one for every position that they lead to, in the order of its index.
pub(super) fn plays(board: &Board, counting: &Counting, sums: Sums, (a, b): (u8, u8)) -> Vec<(Sums, String)> {
    let mut found = BTreeMap::new();
    let mut play = |dice: &[u8]| play_dice((board, counting), sums, dice, &mut Vec::new(), &mut found);
    let (high, low) = (a.max(b), a.min(b));
    if high == low {
        play(&[high; 4]);
    } else {
        play(&[high, low]);
        play(&[low, high]);
    }
    found.into_values().collect()
}

/// Plays dice in the order given, from the highest checker down, and notes the first way to each position.
fn play_dice(
    game: (&Board, &Counting),
    sums: Sums,
    dice: &[u8],
    moves: &mut Vec<Move>,
    found: &mut BTreeMap<u64, (Sums, String)>,
) {
    let (board, counting) = game;
    let sources = board.sources(sums, dice.first().copied().unwrap_or(1));
    let (Some((&die, rest)), true) = (dice.split_first(), sources != 0) else {
        if !moves.is_empty() {
            found.entry(counting.index(sums)).or_insert_with(|| (sums, notation(moves)));
        }
        return;
    };
    for q in bits(sources) {
        let from = board.point(q);
        moves.push(Move { from, to: from.saturating_sub(usize::from(die)) });
        play_dice(game, board.play(sums, q, die), rest, moves, found);
        moves.pop();
    }
}

/// One checker from a point to another, 0 being off.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Move {
    from: usize,
    to: usize,
}

/// `6/off 4/off`, `6/2(2)`: moves of one checker put together, higher points first, equal ones counted.
fn notation(moves: &[Move]) -> String {
    let mut whole: Vec<Move> = Vec::new();
    for step in moves {
        match whole.iter_mut().find(|earlier| earlier.to == step.from) {
            Some(earlier) => earlier.to = step.to,
            None => whole.push(*step),
        }
    }
    whole.sort_by_key(|step| (Reverse(step.from), step.to));
    let mut text = String::new();
    for same in whole.chunk_by(|a, b| a == b) {
        let Move { from, to } = same[0];
        let gap = if text.is_empty() { "" } else { " " };
        // Writing to a String cannot fail.
        let _ = match to {
            0 => write!(text, "{gap}{from}/off"),
            _ => write!(text, "{gap}{from}/{to}"),
        };
        if same.len() > 1 {
            let _ = write!(text, "({})", same.len());
        }
    }
    text
}
