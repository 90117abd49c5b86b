//! Places of boards that a move takes out of their block: many boards at a time.
//!
//! Moves to the left and right stay in the block and are done by the stripe. Up and down change the sums of the rows; where they lead
//! is computed from scratch: one look-up a column gives both moves, one a row what its rank needs, one a board the offset of the block.

use super::lanes::{Job, Lanes, is_wide};
use super::lines::Lines;
use super::ranks::LayerRanks;
use super::rows::{PALINDROME, RowInfo};

/// The place of a move that is not legal.
pub const ILLEGAL: u32 = u32::MAX;
/// Boards are handed over in multiples of this.
pub const TOGETHER: usize = 8;

/// Where the boards of a layer go by a move up and down.
pub struct UpDown<'a, const R: usize, const C: usize> {
    /// Ranks of the layer.
    pub ranks: &'a LayerRanks<R, C>,
    /// The moves of columns.
    pub lines: &'a Lines<R, C>,
    /// The boards: a multiple of [`TOGETHER`].
    pub boards: &'a [u64],
    /// Becomes the places after a move up, or [`ILLEGAL`].
    pub up: &'a mut [u32],
    /// Becomes the places after a move down, or [`ILLEGAL`].
    pub down: &'a mut [u32],
    /// Becomes what the rows earned after either of them.
    pub earned: &'a mut [u32],
}

impl<const R: usize, const C: usize> UpDown<'_, R, C> {
    /// Fills in the answers.
    #[inline(always)]
    pub fn compute<L: Lanes>(self) {
        let Self { ranks, lines, boards, up, down, earned } = self;
        let all = boards.chunks_exact(L::WIDTH).zip(up.chunks_exact_mut(L::WIDTH)).zip(down.chunks_exact_mut(L::WIDTH));
        for (((boards, up), down), earned) in all.zip(earned.chunks_exact_mut(L::WIDTH)) {
            let board = L::load(boards);
            let (above, below) = moved::<L, R, C>(lines, board);
            let infos = infos::<L, R, C>(ranks, above);
            let sum = infos.iter().fold(L::splat(0), |sum, info| sum.add(info.shr(RowInfo::EARNED_AT)));
            sum.store32(earned);
            let legal = |moved: L, place: L| L::select(moved.equals(board), L::splat(ILLEGAL.into()), place);
            legal(above, place(ranks, infos)).store32(up);
            legal(below, place(ranks, self::infos::<L, R, C>(ranks, below))).store32(down);
        }
    }
}

/// Both moves of each board.
#[inline(always)]
fn moved<L: Lanes, const R: usize, const C: usize>(lines: &Lines<R, C>, board: L) -> (L, L) {
    let column_mask = L::splat(Lines::<R, C>::COLUMN_MASK);
    let (mut up, mut down) = (L::splat(0), L::splat(0));
    for c in 0..C as u32 {
        let cells = board.shr(4 * c).and(column_mask);
        let mut column = cells;
        for r in 1..R as u32 {
            column = column.or(cells.shr(r * (4 * C as u32 - 4)));
        }
        // Only the lowest 4 R bits say where to look.
        let both = L::gather(lines.up_down(), column);
        up = up.or(both.and(column_mask).shl(4 * c));
        down = down.or(both.shr(4).and(column_mask).shl(4 * c));
    }
    (up, down)
}

#[inline(always)]
fn infos<L: Lanes, const R: usize, const C: usize>(ranks: &LayerRanks<R, C>, board: L) -> [L; R] {
    let mut infos = [board; R];
    for (r, info) in (0u32..).zip(infos.iter_mut()) {
        *info = L::gather(&ranks.rows.info, board.shr(4 * C as u32 * r));
    }
    infos
}

/// For every way that up to three rows may be oriented, whether the first that is no palindrome is the second of its pair.
const fn leads_of(rows: u32) -> u64 {
    let (mut table, mut at) = (0, 0);
    while at < 1 << (2 * rows) {
        let (mut row, mut lead) = (0, 0);
        while row < rows {
            let orientation = at >> (2 * row) & 3;
            if orientation != PALINDROME {
                lead = orientation;
                break;
            }
            row += 1;
        }
        if lead == 1 {
            table |= 1 << at;
        }
        at += 1;
    }
    table
}

/// [`LayerRanks::place`] of boards of two or three rows.
#[inline(always)]
fn place<L: Lanes, const R: usize, const C: usize>(ranks: &LayerRanks<R, C>, infos: [L; R]) -> L {
    let splat = L::splat;
    let (order, seven, two) = (splat((1 << RowInfo::ORDER_BITS) - 1), splat(0x7F), splat(3));
    let (order_first, order_last) = (infos[0].and(order), infos[R - 1].and(order));
    let swap = order_first.below(order_last);
    let (first, last) = (L::select(swap, infos[R - 1], infos[0]), L::select(swap, infos[0], infos[R - 1]));
    let orientation = |info: L| info.shr(RowInfo::ORIENTATION_AT).and(two);
    let (of_first, of_last) = (orientation(first), orientation(last));
    let (leads, ways) = match R {
        2 => (of_first.or(of_last.shl(2)), None),
        _ => (of_first.or(orientation(infos[1]).shl(2)).or(of_last.shl(4)), Some(infos[1].shr(RowInfo::COUNT_AT).and(seven))),
    };
    let reversed = splat(const { leads_of(if R < 3 { 2 } else { 3 }) }).shr_by(leads).and(splat(1));
    let number_at = splat(RowInfo::NUMBER_AT.into()).add(reversed.mul32(splat(RowInfo::REVERSED_AFTER.into())));
    let mut upper = first.and(seven);
    if let Some(ways) = ways {
        let mut middle = infos[1].shr_by(number_at).and(seven);
        // The first row is the last one reversed: both orders of the rows count, and the smaller rank is the one.
        let same = order_first.equals(order_last);
        if L::any(same) {
            let opposite = of_first.add(of_last).equals(splat(1));
            middle = L::select(L::both(same, opposite), infos[1].and(seven), middle);
        }
        upper = upper.mul32(ways).add(middle);
    }
    let sum = splat(0xFFF);
    let block = first.shr(RowInfo::SUM_AT).and(sum).shl(ranks.shift).or(last.shr(RowInfo::SUM_AT).and(sum));
    let offset = L::gather32(&ranks.offsets, block);
    let count = last.shr(RowInfo::COUNT_AT).and(seven);
    offset.add(upper.mul32(count)).add(last.shr_by(number_at).and(seven))
}

/// The ranks of square boards of a layer: the smaller place of a board and the transposed one.
#[inline(always)]
pub fn ranked<L: Lanes, const R: usize, const C: usize>(ranks: &LayerRanks<R, C>, boards: &[u64], to: &mut [u32]) {
    if R > 3 {
        for (&board, to) in boards.iter().zip(to) {
            *to = ranks.rank(board) as u32;
        }
        return;
    }
    for (boards, to) in boards.chunks_exact(L::WIDTH).zip(to.chunks_exact_mut(L::WIDTH)) {
        let board = L::load(boards);
        smaller_place(ranks, infos::<L, R, C>(ranks, board), board).store32(to);
    }
}

#[inline(always)]
fn smaller_place<L: Lanes, const R: usize, const C: usize>(ranks: &LayerRanks<R, C>, infos: [L; R], board: L) -> L {
    let (one, other) = (place(ranks, infos), place(ranks, self::infos::<L, R, C>(ranks, transposed::<L, R>(board))));
    L::select(one.below(other), one, other)
}

/// Where square boards of a layer go by all four moves.
pub struct FourWays<'a, const R: usize, const C: usize, const N: usize> {
    /// Ranks of the layer.
    pub ranks: &'a LayerRanks<R, C>,
    /// The moves of rows and columns.
    pub lines: &'a Lines<R, C>,
    /// The boards: a multiple of [`TOGETHER`].
    pub boards: &'a [u64],
    /// Become the ranks after a move to the left, to the right, up and down, or [`ILLEGAL`].
    pub to: &'a mut [[u32; N]; 4],
    /// Become what the rows earned before, after a move to the side, and after one up or down, all less the same.
    pub earned: &'a mut [[u32; N]; 3],
}

impl<const R: usize, const C: usize, const N: usize> FourWays<'_, R, C, N> {
    /// Fills in the answers.
    #[inline(always)]
    pub fn compute<L: Lanes>(self) {
        let Self { ranks, lines, boards, to, earned } = self;
        if R > 3 {
            for (i, &board) in boards.iter().enumerate() {
                let moves = lines.moves(board);
                for (to, &moved) in to.iter_mut().zip(&moves.boards) {
                    to[i] = if moved == board { ILLEGAL } else { ranks.rank(moved) as u32 };
                }
                (earned[0][i], earned[1][i], earned[2][i]) = (0, moves.across, moves.along);
            }
            return;
        }
        let earned_by = |infos: &[L; R]| infos.iter().fold(L::splat(0), |sum, info| sum.add(info.shr(RowInfo::EARNED_AT)));
        for at in (0..boards.len()).step_by(L::WIDTH) {
            let board = L::load(&boards[at..at + L::WIDTH]);
            earned_by(&infos::<L, R, C>(ranks, board)).store32(&mut earned[0][at..at + L::WIDTH]);
            // Moves to the side are those along the columns of the transposed board.
            let [across, along] = &mut earned[1..] else { unreachable!("there are three") };
            let (to_side, to_end) = to.split_at_mut(2);
            for (board, (earned, to)) in [transposed::<L, R>(board), board].into_iter().zip([(across, to_side), (along, to_end)])
            {
                let (back, forth) = moved::<L, R, C>(lines, board);
                let of_back = infos::<L, R, C>(ranks, back);
                earned_by(&of_back).store32(&mut earned[at..at + L::WIDTH]);
                let legal = |moved: L, place: L| L::select(moved.equals(board), L::splat(ILLEGAL.into()), place);
                legal(back, smaller_place(ranks, of_back, back)).store32(&mut to[0][at..at + L::WIDTH]);
                let of_forth = infos::<L, R, C>(ranks, forth);
                legal(forth, smaller_place(ranks, of_forth, forth)).store32(&mut to[1][at..at + L::WIDTH]);
            }
        }
    }
}

#[inline(always)]
fn transposed<L: Lanes, const R: usize>(board: L) -> L {
    let masked = |mask: u64| board.and(L::splat(mask));
    if R == 2 {
        return masked(0xF00F).or(masked(0x00F0).shl(4)).or(board.shr(4).and(L::splat(0x00F0)));
    }
    masked(0xF_000F_000F)
        .or(masked(0x0_00F0_00F0).shl(8))
        .or(masked(0x0_0000_0F00).shl(16))
        .or(board.shr(8).and(L::splat(0x0_00F0_00F0)))
        .or(board.shr(16).and(L::splat(0x0_0000_0F00)))
}

impl<const R: usize, const C: usize> Job for UpDown<'_, R, C> {
    type Output = ();
    const IS_WIDE: bool = is_wide::<R, C>();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        self.compute::<L>();
    }
}

#[cfg(test)]
mod tests {
    use super::super::lanes::{Width, run_at};
    use super::super::lines::Lines;
    use super::super::ranks::{LayerRanks, Rows};
    use super::*;
    use std::sync::Arc;

    fn every_width_ranks_as_one_board_does<const R: usize, const C: usize>(age: u32) {
        let rows = Arc::new(Rows::<R, C>::new((R * C + 1).min(13) as u32, age, None));
        let (ranks, lines) = (LayerRanks::new(&rows, age), Lines::<R, C>::build());
        let step = ranks.universe() / 20_000 + 1;
        let mut boards: Vec<u64> = (0..ranks.universe()).step_by(step as usize).map(|rank| ranks.unrank(rank)).collect();
        boards.resize(boards.len().next_multiple_of(TOGETHER), boards[0]);
        for width in [Width::One, Width::Four, Width::Eight].into_iter().filter(|width| width.is_there()) {
            let empty = || vec![0; boards.len()];
            if R == C {
                for boards in boards.chunks(TOGETHER) {
                    let (mut to, mut earned) = ([[0; TOGETHER]; 4], [[0; TOGETHER]; 3]);
                    run_at(width, Square { ranks: &ranks, lines: &lines, boards, to: &mut to, earned: &mut earned });
                    for (i, &board) in boards.iter().enumerate() {
                        let moves = lines.moves(board);
                        let rank = |moved: u64| if moved == board { ILLEGAL } else { ranks.rank(moved) as u32 };
                        assert_eq!(to.map(|to| to[i]), moves.boards.map(rank), "{width:?} {board:x}");
                        let scores = [1, 2].map(|kind: usize| earned[kind][i] - earned[0][i]);
                        assert_eq!(scores, [moves.across, moves.along], "{width:?} {board:x}");
                    }
                    run_at(width, Itself { ranks: &ranks, boards, to: &mut to[0] });
                    assert!(boards.iter().zip(to[0]).all(|(&board, to)| u64::from(to) == ranks.rank(board)), "{width:?}");
                }
                continue;
            }
            let (mut up, mut down, mut earned) = (empty(), empty(), empty());
            let job = UpDown { ranks: &ranks, lines: &lines, boards: &boards, up: &mut up, down: &mut down, earned: &mut earned };
            run_at(width, job);
            for (i, &board) in boards.iter().enumerate() {
                let moves = lines.moves(board);
                let place = |moved: u64| if moved == board { ILLEGAL } else { ranks.place(moved) as u32 };
                assert_eq!((up[i], down[i]), (place(moves.boards[2]), place(moves.boards[3])), "{width:?} {board:x}");
                let before: u64 = (0..R).map(|r| rows.row(board, r).earned()).sum();
                assert_eq!(u64::from(earned[i]) - before, u64::from(moves.along), "{width:?} {board:x}");
            }
        }
    }

    struct Itself<'a, const R: usize, const C: usize> {
        ranks: &'a LayerRanks<R, C>,
        boards: &'a [u64],
        to: &'a mut [u32],
    }

    impl<const R: usize, const C: usize> Job for Itself<'_, R, C> {
        type Output = ();
        const IS_WIDE: bool = true;
        #[inline(always)]
        fn run<L: Lanes>(self) {
            ranked::<L, R, C>(self.ranks, self.boards, self.to);
        }
    }

    type Square<'a, const R: usize, const C: usize> = FourWays<'a, R, C, TOGETHER>;

    impl<const R: usize, const C: usize> Job for Square<'_, R, C> {
        type Output = ();
        const IS_WIDE: bool = true;
        #[inline(always)]
        fn run<L: Lanes>(self) {
            self.compute::<L>();
        }
    }

    #[test]
    fn moves_out_of_the_block_are_ranked_alike_at_every_width() {
        every_width_ranks_as_one_board_does::<2, 3>(44);
        every_width_ranks_as_one_board_does::<2, 4>(100);
        every_width_ranks_as_one_board_does::<3, 4>(96);
    }

    #[test]
    fn square_boards_are_ranked_alike_at_every_width() {
        every_width_ranks_as_one_board_does::<2, 2>(28);
        every_width_ranks_as_one_board_does::<3, 3>(120);
        every_width_ranks_as_one_board_does::<4, 4>(40);
    }
}
