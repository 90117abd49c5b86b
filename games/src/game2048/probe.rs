//! Boards as people write them, the rules with names, and whether a board can occur.

use super::Game2048;
use super::forward::empty_cells;
use super::images;
use super::lines::{Lines, MOVE_NAMES, face};
use crate::name::Keep;
use crate::space::*;

impl<const R: usize, const C: usize> Game2048<R, C> {
    /// Whether the engine's rows are the columns of the table's name.
    fn is_turned(&self) -> bool {
        self.spec.rows != R
    }

    pub(super) fn board(&self, position: Position) -> Option<u64> {
        let board = u64::try_from(position.0).ok()?;
        (R * C == 16 || board >> (4 * R * C) == 0).then_some(board)
    }

    /// Bit offset of the cell that people see in a row and column of the board as the name gives it.
    fn cell(&self, row: usize, column: usize) -> usize {
        4 * if self.is_turned() { column * C + row } else { row * C + column }
    }

    pub(super) fn parse_board(&self, text: &str) -> Result<u64, PositionError> {
        let (rows, cols) = (self.spec.rows, self.spec.cols);
        let fail = |what: String| Err(PositionError(what));
        let lines: Vec<&str> = text.split('/').collect();
        if lines.len() != rows {
            let example = vec![vec!["0"; cols].join(" "); rows].join("/");
            return fail(format!(
                "{} rows, but this board has {rows}: write the rows with / between them, as in \"{example}\"",
                lines.len()
            ));
        }
        let mut board = 0;
        for (r, line) in lines.iter().enumerate() {
            let cells: Vec<&str> = line.split_whitespace().collect();
            if cells.len() != cols {
                return fail(format!("row {} has {} cells, but this board has {cols} columns", r + 1, cells.len()));
            }
            for (c, cell) in cells.iter().enumerate() {
                let exponent = match *cell {
                    "0" | "." => 0,
                    text => match text.parse::<u32>() {
                        Ok(tile) if tile.is_power_of_two() && tile >= 2 => tile.ilog2(),
                        _ => {
                            return fail(format!(
                                "row {}, column {}: {text:?} is no tile; tiles are 2, 4, 8, ..., and 0 or . for empty",
                                r + 1,
                                c + 1
                            ));
                        }
                    },
                };
                if exponent > 15 || exponent as usize > R * C + 1 {
                    let largest = self.spec.largest_tile();
                    return fail(format!("row {}, column {}: no tile of this board can exceed {largest}", r + 1, c + 1));
                }
                board |= u64::from(exponent) << self.cell(r, c);
            }
        }
        Ok(board)
    }

    pub(super) fn format_board(&self, board: u64) -> String {
        let row = |r| (0..self.spec.cols).map(|c| face(board >> self.cell(r, c) & 15).to_string()).collect::<Vec<_>>().join(" ");
        (0..self.spec.rows).map(row).collect::<Vec<_>>().join("/")
    }

    pub(super) fn spawns(&self, board: u64) -> Vec<Outcome> {
        if self.has_won(board) {
            return vec![Outcome { chance: 1.0, label: "the tile is made".into(), state: Position(u128::from(board)) }];
        }
        let empty = empty_cells::<R, C>(board).count() as f64;
        let mut outcomes = Vec::new();
        for (tile, chance) in [(1u64, 1.0 - self.spec.four), (2, self.spec.four)] {
            for r in 0..self.spec.rows {
                for c in (0..self.spec.cols).filter(|&c| board >> self.cell(r, c) & 15 == 0) {
                    let label = format!("{} at row {} column {}", face(tile), r + 1, c + 1);
                    let state = Position(u128::from(board | tile << self.cell(r, c)));
                    outcomes.push(Outcome { chance: chance / empty, label, state });
                }
            }
        }
        outcomes
    }

    /// [`StateSpace::expand`] without names and without an allocation: the rules at the speed that verification needs.
    pub(super) fn expand_board(&self, board: u64, into: &mut Expansion) {
        if self.has_won(board) {
            into.branches.push(Branch { chance: 1.0, end: into.leaves.len(), terminal: 1.0 });
            return;
        }
        let empty = empty_cells::<R, C>(board).count() as f64;
        let age = Lines::<R, C>::age(board);
        for (tile, age, chance) in [(1u64, age + 2, 1.0 - self.spec.four), (2, age + 4, self.spec.four)] {
            let ranks = (age <= self.last_age()).then(|| self.ranks(age));
            for cell in (0..self.spec.rows).flat_map(|r| (0..self.spec.cols).map(move |c| (r, c))).map(|(r, c)| self.cell(r, c)) {
                if board >> cell & 15 != 0 {
                    continue;
                }
                let (state, first) = (board | tile << cell, into.leaves.len());
                if let Some(ranks) = ranks.as_ref().filter(|_| !self.is_stopped(state, age)) {
                    let moves = self.lines.moves(state);
                    for (i, &moved) in moves.boards.iter().enumerate().filter(|&(_, &moved)| moved != state) {
                        let key = Key { layer: Layer(age), rank: ranks.rank(moved) };
                        into.leaves.push(Leaf { gain: self.reward(moves.score(i)), key: Some(key) });
                    }
                }
                let end = into.leaves.len();
                let terminal = if end == first { self.value_without_moves(state, age) } else { 0.0 };
                into.branches.push(Branch { chance: chance / empty, end, terminal });
            }
        }
    }

    pub(super) fn legal_moves(&self, board: u64) -> Vec<Choice> {
        if self.is_stopped(board, Lines::<R, C>::age(board)) {
            return Vec::new();
        }
        let moves = self.lines.moves(board);
        let mut choices = Vec::new();
        for (i, &moved) in moves.boards.iter().enumerate().filter(|&(_, &moved)| moved != board) {
            // On a turned board the engine's left is the player's up.
            let label = MOVE_NAMES[if self.is_turned() { (i + 2) % 4 } else { i }].to_owned();
            let position = self.canonical(Position(u128::from(moved)));
            // Where states are the keys, afterstates are none.
            let key = if self.spec.keep == Keep::Values { self.rank(position) } else { None };
            choices.push(Choice { label, reward: self.reward(moves.score(i)), key, position });
        }
        choices
    }

    /// Which of the legal moves of a board the table plays; `None` without moves, or where the table has no such state.
    pub(super) fn kept_move(&self, board: u64, table: &dyn TableReader) -> Result<Option<usize>, ReadError> {
        let choices = self.legal_moves(board);
        let Some(key) = self.rank(Position(u128::from(board))).filter(|_| !choices.is_empty()) else { return Ok(None) };
        let Some(slot) = table.find(key)? else { return Ok(None) };
        let number = table.scalar(slot, 0)?.value as usize;
        // The move is that of the board at its place. Of this one, it is the move that leads to the same position with the same score.
        let chosen = self.move_of(self.ranks(key.layer.0).unrank(key.rank), number).and_then(|(moved, score)| {
            let (to, reward) = (self.canonical(Position(u128::from(moved))), self.reward(score));
            choices.iter().position(|choice| choice.position == to && choice.reward == reward)
        });
        match chosen {
            Some(chosen) => Ok(Some(chosen)),
            None => Err(Box::new(IllegalMove { position: self.format_board(board), key, number })),
        }
    }

    /// A state can occur when it is a start, or when one of its tiles of 2 or 4 may be the new one: the board without it is then an
    /// afterstate of the table. So the question has an exact answer.
    pub(super) fn board_standing(&self, board: u64, table: &dyn TableReader) -> Result<Standing, ReadError> {
        let age = Lines::<R, C>::age(board);
        let last = self.last_age();
        if age < super::plan::FIRST_AGE {
            return Ok(Standing::Impossible(format!("its tiles sum to {age}; a game starts with two tiles, so with at least 4")));
        }
        if self.has_won(board) {
            let tile = self.spec.tile.unwrap_or_default();
            return Ok(Standing::Outside(format!(
                "play stops at the first tile of {tile} in this table, and this board holds one"
            )));
        }
        if age > last {
            return Ok(match (self.spec.horizon, self.spec.tile) {
                (None, None) => Standing::Impossible(format!("its tiles sum to {age}; no game on this board gets beyond {last}")),
                _ => Standing::Outside(format!("its tiles sum to {age}; this table ends at age {last}")),
            });
        }
        if self.spec.keep == Keep::Play {
            let found = self.rank(Position(u128::from(board))).map(|key| table.find(key)).transpose()?.flatten();
            return Ok(match found {
                Some(_) => Standing::Inside,
                None => Standing::Impossible("no play leads to it: it is not among the states of its age".into()),
            });
        }
        if self.start_boards().keys().any(|&start| images::<R, C>(board).contains(&start)) {
            return Ok(Standing::Inside);
        }
        for cell in (0..R * C).map(|i| 4 * i) {
            let tile = board >> cell & 15;
            if tile != 1 && tile != 2 {
                continue;
            }
            let before = board & !(15 << cell);
            if let Some(key) = self.rank(Position(u128::from(before)))
                && table.find(key)?.is_some()
            {
                return Ok(Standing::Inside);
            }
        }
        Ok(Standing::Impossible(
            "no play leads to it: it is no start, and without any of its tiles of 2 or 4 it is no board that a move makes".into(),
        ))
    }
}

/// A table of moves has one that cannot be made.
#[derive(thiserror::Error, Debug)]
#[error("layer {}, rank {}: the stored move {number} is not legal in {position}", key.layer, key.rank)]
struct IllegalMove {
    position: String,
    key: Key,
    number: usize,
}
