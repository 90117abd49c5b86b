//! The rules of 2048, written a second time and as plainly as they can be: what simulated games and starts are made from.

/// A board as exponents, row by row; 0 is an empty cell. Cells that the board does not have stay 0.
pub type Board = [u8; 16];

/// The size of a board.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
}

impl Rules {
    /// Number of cells.
    pub fn cells(self) -> usize {
        self.rows * self.cols
    }

    /// Rows with `/` between, face values with blanks between.
    pub fn text(self, board: &Board) -> String {
        let face = |&exponent: &u8| if exponent == 0 { "0".to_owned() } else { (1u32 << exponent).to_string() };
        let rows = board[..self.cells()].chunks(self.cols).map(|row| row.iter().map(face).collect::<Vec<_>>().join(" "));
        rows.collect::<Vec<_>>().join("/")
    }

    /// Slides all tiles in one of four directions (left, right, up, down): the reward, and the board. The board may be the same.
    pub fn slide(self, board: &Board, direction: usize) -> (u32, Board) {
        let (lines, length) = if direction < 2 { (self.rows, self.cols) } else { (self.cols, self.rows) };
        let mut next = [0; 16];
        let mut reward = 0;
        for line in 0..lines {
            let cell = |i: usize| {
                let i = if direction.is_multiple_of(2) { i } else { length - 1 - i };
                if direction < 2 { line * self.cols + i } else { i * self.cols + line }
            };
            // From the wall: a tile merges with the last one that came to rest, unless that is the product of a merge.
            let (mut filled, mut may_merge) = (0, false);
            for tile in (0..length).map(|i| board[cell(i)]).filter(|&tile| tile != 0) {
                if may_merge && next[cell(filled - 1)] == tile {
                    next[cell(filled - 1)] += 1;
                    reward += 1 << (tile + 1);
                    may_merge = false;
                } else {
                    next[cell(filled)] = tile;
                    filled += 1;
                    may_merge = true;
                }
            }
        }
        (reward, next)
    }

    /// All moves that change the board: the reward, and the afterstate.
    pub fn moves(self, board: &Board) -> impl Iterator<Item = (u32, Board)> {
        let board = *board;
        (0..4).map(move |direction| self.slide(&board, direction)).filter(move |(_, next)| *next != board)
    }

    /// The empty cells.
    pub fn empty(self, board: &Board) -> impl Iterator<Item = usize> {
        (0..self.cells()).filter(|&cell| board[cell] == 0)
    }

    /// All starts of one age with their chances, given that age: two tiles on two cells, each of them 2 with chance 0.9, else 4.
    pub fn starts(self, age: u32) -> Vec<(f64, Board)> {
        let tiles: &[(u8, u8)] = match age {
            4 => &[(1, 1)],
            6 => &[(1, 2), (2, 1)],
            8 => &[(2, 2)],
            _ => &[],
        };
        let mut starts = Vec::new();
        for &(a, b) in tiles {
            for first in 0..self.cells() {
                for second in (0..self.cells()).filter(|&second| second != first) {
                    let mut board = [0; 16];
                    (board[first], board[second]) = (a, b);
                    starts.push(board);
                }
            }
        }
        let chance = 1.0 / starts.len() as f64;
        starts.into_iter().map(|board| (chance, board)).collect()
    }

    /// The smallest of the board's mirror images (and transposed ones, on a square): one for all that are alike.
    pub fn smallest_image(self, board: &Board) -> Board {
        let mut images = Vec::new();
        for (flip_rows, flip_cols) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut image = [0; 16];
            for (r, c) in (0..self.rows).flat_map(|r| (0..self.cols).map(move |c| (r, c))) {
                let from = (if flip_rows { self.rows - 1 - r } else { r }, if flip_cols { self.cols - 1 - c } else { c });
                image[r * self.cols + c] = board[from.0 * self.cols + from.1];
            }
            if self.rows == self.cols {
                let mut turned = [0; 16];
                for (r, c) in (0..self.rows).flat_map(|r| (0..self.cols).map(move |c| (r, c))) {
                    turned[r * self.cols + c] = image[c * self.cols + r];
                }
                images.push(turned);
            }
            images.push(image);
        }
        images.into_iter().min().expect("a board is its own image")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_merges_once_and_from_the_wall() {
        let rules = Rules { rows: 2, cols: 4 };
        let mut board = [0; 16];
        board[..8].copy_from_slice(&[1, 1, 1, 1, 2, 1, 1, 0]);
        let (reward, left) = rules.slide(&board, 0);
        assert_eq!((reward, rules.text(&left)), (4 + 4 + 4, "4 4 0 0/4 4 0 0".to_owned()));
        let (reward, right) = rules.slide(&board, 1);
        assert_eq!((reward, rules.text(&right)), (4 + 4 + 4, "0 0 4 4/0 0 4 4".to_owned()));
        let (reward, up) = rules.slide(&board, 2);
        assert_eq!((reward, rules.text(&up)), (4 + 4, "2 4 4 2/4 0 0 0".to_owned()));
    }

    #[test]
    fn there_are_72_starts_of_age_4_on_nine_cells() {
        let rules = Rules { rows: 3, cols: 3 };
        assert_eq!(rules.starts(4).len(), 72);
        assert_eq!(rules.starts(6).len(), 144);
    }
}
