//! Moves of one line of cells, from tables, and the board they make together.
//!
//! A board of `R` rows and `C` columns (`R <= C`) is a `u64`: cell (r, c) is the nibble `r * C + c` and holds the exponent of its
//! tile, 0 when empty. A row is the `4 * C` bits from bit `4 * C * r`; its moves are one look-up in a table of `16^C` entries. A
//! column is gathered from its rows and looked up in a table of `16^R` entries that gives the result already spread over the rows.

/// What a move to either end does to one row.
#[derive(Clone, Copy, Default)]
pub struct RowMoves {
    /// The row after a move towards cell 0.
    pub left: u16,
    /// The row after a move away from cell 0.
    pub right: u16,
    /// Sum of the face values of the merged tiles; the same in both directions.
    pub score: u32,
}

/// What a move to either end does to one column, spread over the rows of column 0.
#[derive(Clone, Copy, Default)]
pub struct ColumnMoves {
    /// After a move towards row 0.
    pub up: u64,
    /// After a move away from row 0.
    pub down: u64,
    /// Sum of the face values of the merged tiles; the same in both directions.
    pub score: u32,
}

/// The four moves of a board and what they earn.
#[derive(Clone, Copy, Debug)]
pub struct Moves {
    /// The boards after left, right, up and down; equal to the board itself where the move is illegal.
    pub boards: [u64; 4],
    /// Score of left or right.
    pub across: u32,
    /// Score of up or down.
    pub along: u32,
}

impl Moves {
    /// Score of move `i`.
    #[inline]
    pub fn score(&self, i: usize) -> u32 {
        if i < 2 { self.across } else { self.along }
    }
}

/// Names of the four moves in the order of [`Moves::boards`].
pub const MOVE_NAMES: [&str; 4] = ["left", "right", "up", "down"];

/// Move tables of boards of `R` rows and `C` columns.
pub struct Lines<const R: usize, const C: usize> {
    rows: Vec<RowMoves>,
    columns: Vec<ColumnMoves>,
    /// Both moves of a column in one word: up in column 0, down in column 1.
    up_down: Vec<u64>,
}

impl<const R: usize, const C: usize> Lines<R, C> {
    /// Bits of a row.
    pub const ROW_BITS: usize = 4 * C;
    /// Mask of a row.
    pub const ROW_MASK: u64 = (1 << (4 * C)) - 1;
    /// Number of different rows.
    pub const ROW_COUNT: usize = 1 << (4 * C);
    /// Number of cells.
    pub const CELLS: usize = R * C;

    /// Builds the tables.
    pub fn build() -> Self {
        let rows = (0..Self::ROW_COUNT)
            .map(|row| {
                let (left, score) = slide(row, C, false);
                let (right, _) = slide(row, C, true);
                RowMoves { left: left as u16, right: right as u16, score }
            })
            .collect();
        let columns = (0..1 << (4 * R))
            .map(|column| {
                let (up, score) = slide(column, R, false);
                let (down, _) = slide(column, R, true);
                ColumnMoves { up: Self::spread(up), down: Self::spread(down), score }
            })
            .collect::<Vec<ColumnMoves>>();
        let up_down = columns.iter().map(|moves| moves.up | moves.down << 4).collect();
        Self { rows, columns, up_down }
    }

    /// Both moves of every column, by its cells: up in column 0 of a board, down in column 1. 16^R words.
    pub fn up_down(&self) -> &[u64] {
        &self.up_down
    }

    /// Mask of column 0.
    pub const COLUMN_MASK: u64 = {
        let (mut mask, mut r) = (0, 0);
        while r < R {
            mask |= 15 << (4 * C * r);
            r += 1;
        }
        mask
    };

    /// Whether no tile of a full board equals the one below it.
    #[inline(always)]
    pub fn is_stuck_vertically(board: u64) -> bool {
        let low = (0x1111_1111_1111_1111 >> (64 - 4 * R * C)) & ((1 << (4 * C * (R - 1))) - 1);
        let difference = board ^ board >> (4 * C);
        (difference | difference >> 1 | difference >> 2 | difference >> 3) & low == low
    }

    /// One bit, the lowest of its nibble, for every empty cell.
    #[inline(always)]
    pub fn empty(board: u64) -> u64 {
        let low = 0x1111_1111_1111_1111 >> (64 - 4 * R * C);
        !(board | board >> 1 | board >> 2 | board >> 3) & low
    }

    /// Puts the nibbles of a column into column 0 of a board.
    fn spread(column: usize) -> u64 {
        (0..R).map(|r| ((column >> (4 * r)) as u64 & 15) << (4 * C * r)).sum()
    }

    /// What moves do to a row.
    #[inline(always)]
    pub fn row_moves(&self, row: usize) -> RowMoves {
        self.rows[row]
    }

    /// Row `r` of a board.
    #[inline(always)]
    pub fn row(board: u64, r: usize) -> usize {
        ((board >> (Self::ROW_BITS * r)) & Self::ROW_MASK) as usize
    }

    /// All four moves.
    #[inline]
    pub fn moves(&self, board: u64) -> Moves {
        let (mut left, mut right, mut across) = (0, 0, 0);
        for r in 0..R {
            let moves = self.rows[Self::row(board, r)];
            left |= u64::from(moves.left) << (Self::ROW_BITS * r);
            right |= u64::from(moves.right) << (Self::ROW_BITS * r);
            across += moves.score;
        }
        let (mut up, mut down, mut along) = (0, 0, 0);
        for c in 0..C {
            let mut column = 0;
            for r in 0..R {
                column |= ((board >> (Self::ROW_BITS * r + 4 * c)) & 15) << (4 * r);
            }
            let moves = self.columns[column as usize];
            up |= moves.up << (4 * c);
            down |= moves.down << (4 * c);
            along += moves.score;
        }
        Moves { boards: [left, right, up, down], across, along }
    }

    /// Sum of the face values of the tiles: the age.
    pub fn age(board: u64) -> u32 {
        (0..Self::CELLS).map(|i| face(board >> (4 * i) & 15)).sum()
    }

    /// Exponent of the largest tile.
    #[inline]
    pub fn largest(board: u64) -> u32 {
        (0..Self::CELLS).map(|i| (board >> (4 * i) & 15) as u32).max().unwrap_or(0)
    }

    /// The board with rows and columns exchanged; square boards only.
    #[inline]
    pub fn transpose(board: u64) -> u64 {
        debug_assert_eq!(R, C);
        match R {
            2 => board & 0xF00F | (board & 0x00F0) << 4 | (board >> 4) & 0x00F0,
            3 => {
                board & 0xF_000F_000F
                    | (board & 0x0_00F0_00F0) << 8
                    | (board & 0x0_0000_0F00) << 16
                    | (board >> 8) & 0x0_00F0_00F0
                    | (board >> 16) & 0x0_0000_0F00
            }
            _ => {
                let a =
                    board & 0xF0F0_0F0F_F0F0_0F0F | (board & 0x0000_F0F0_0000_F0F0) << 12 | (board & 0x0F0F_0000_0F0F_0000) >> 12;
                a & 0xFF00_FF00_00FF_00FF | (a & 0x00FF_00FF_0000_0000) >> 24 | (a & 0x0000_0000_FF00_FF00) << 24
            }
        }
    }
}

/// Face value of a tile's exponent; 0 for an empty cell.
#[inline]
pub fn face(exponent: u64) -> u32 {
    if exponent == 0 { 0 } else { 1 << exponent }
}

/// Slides a line of `n` cells towards cell 0, or away from it when `away`: the line after it, and the score. A pair of equal tiles
/// merges once a move, the pair nearest the wall first. Two tiles of exponent 15 cannot merge: no board of a table holds them.
pub(super) fn slide(line: usize, n: usize, away: bool) -> (usize, u32) {
    let place = |i: usize| 4 * if away { n - 1 - i } else { i };
    let (mut out, mut count, mut score, mut open) = ([0usize; 4], 0, 0, false);
    for i in 0..n {
        let tile = line >> place(i) & 15;
        if tile == 0 {
            continue;
        }
        if open && out[count - 1] == tile && tile < 15 {
            out[count - 1] += 1;
            score += 1 << out[count - 1];
            open = false;
        } else {
            out[count] = tile;
            count += 1;
            open = true;
        }
    }
    ((0..n).map(|i| out[i] << place(i)).sum(), score)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_merges_once_a_tile_from_the_wall() {
        let line = |cells: [usize; 4]| cells[0] | cells[1] << 4 | cells[2] << 8 | cells[3] << 12;
        for (before, left, right, score) in [
            ([1, 1, 1, 1], [2, 2, 0, 0], [0, 0, 2, 2], 8),
            ([1, 1, 1, 0], [2, 1, 0, 0], [0, 0, 1, 2], 4),
            ([1, 1, 2, 0], [2, 2, 0, 0], [0, 0, 2, 2], 4),
            ([0, 3, 0, 3], [4, 0, 0, 0], [0, 0, 0, 4], 16),
            ([1, 2, 1, 2], [1, 2, 1, 2], [1, 2, 1, 2], 0),
        ] {
            assert_eq!(slide(line(before), 4, false), (line(left), score), "{before:?}");
            assert_eq!(slide(line(before), 4, true), (line(right), score), "{before:?}");
        }
    }

    fn transposes<const N: usize>() {
        for seed in 0..1000u64 {
            let board = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - 4 * N * N);
            let slow: u64 = (0..N * N).map(|i| (board >> (4 * i) & 15) << (4 * (i % N * N + i / N))).sum();
            assert_eq!(Lines::<N, N>::transpose(board), slow, "{N}x{N} {board:x}");
        }
    }

    #[test]
    fn transposing_exchanges_rows_and_columns() {
        transposes::<2>();
        transposes::<3>();
        transposes::<4>();
    }
}
