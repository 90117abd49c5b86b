//! A second implementation, straight from the rules: boards as arrays, plays by trying everything, values by forward substitution.

use crate::space::Position;
use std::collections::{BTreeSet, HashMap};

/// Checkers on points 1, 2, ...
pub(crate) type Checkers = Vec<u8>;

pub(crate) fn pack(board: &[u8]) -> Position {
    Position(board.iter().rev().fold(0, |position, &count| position << 4 | u128::from(count)))
}

/// All boards of up to so many checkers.
pub(crate) fn boards(points: usize, checkers: u8) -> Vec<Checkers> {
    (0..points).fold(vec![vec![]], |boards, _| {
        let longer = |board: Checkers| {
            let left = checkers - board.iter().sum::<u8>();
            (0..=left).map(move |count| board.iter().copied().chain([count]).collect())
        };
        boards.into_iter().flat_map(longer).collect()
    })
}

/// What one die can do.
fn moves(board: &[u8], die: usize) -> Vec<Checkers> {
    let highest = board.iter().rposition(|&count| count > 0).map_or(0, |i| i + 1);
    let mut found = Vec::new();
    for point in 1..=board.len() {
        let bears_off = point <= die;
        let may_bear_off = highest <= 6 && (point == die || point == highest);
        if board[point - 1] == 0 || (bears_off && !may_bear_off) {
            continue;
        }
        let mut next = board.to_vec();
        next[point - 1] -= 1;
        if point > die {
            next[point - die - 1] += 1;
        }
        found.push(next);
    }
    found
}

fn plays_in_order(board: &[u8], dice: &[usize], played: usize, found: &mut BTreeSet<(usize, Checkers)>) {
    found.insert((played, board.to_vec()));
    if let Some((&die, rest)) = dice.split_first() {
        moves(board, die).iter().for_each(|next| plays_in_order(next, rest, played + 1, found));
    }
}

/// Where a roll can lead: as many dice are played as possible.
pub(crate) fn plays(board: &[u8], (a, b): (u8, u8)) -> BTreeSet<Checkers> {
    let (a, b) = (usize::from(a), usize::from(b));
    let orders = if a == b { vec![vec![a; 4]] } else { vec![vec![a, b], vec![b, a]] };
    let mut found = BTreeSet::new();
    orders.iter().for_each(|dice| plays_in_order(board, dice, 0, &mut found));
    let most = found.iter().map(|(played, _)| *played).max().unwrap_or(0);
    let off = |board: &Checkers| board.iter().all(|&count| count == 0);
    found.into_iter().filter(|(played, board)| *played == most || off(board)).map(|(_, board)| board).collect()
}

/// Mean and variance of the number of rolls to a goal under the play of least mean (of least variance among those).
///
/// Positions in pip order make the matrix Q of that play's chain triangular. With N = (I - Q)^-1, the means are t = N 1 and the
/// variances v = (2N - I) t - t * t, so two forward substitutions give them: t = 1 + Q t and u = N t = t + Q u.
pub(crate) fn chain(
    boards: &[Checkers],
    rolls: &[((u8, u8), f64)],
    is_reached: impl Fn(&[u8]) -> bool,
) -> HashMap<Checkers, (f64, f64)> {
    let mut ordered: Vec<&Checkers> = boards.iter().collect();
    ordered.sort_by_key(|board| board.iter().zip(1..).map(|(&count, point)| usize::from(count) * point).sum::<usize>());
    let mut solved: HashMap<Checkers, (f64, f64)> = HashMap::new();
    let variance = |&(t, u): &(f64, f64)| 2.0 * u - t - t * t;
    for board in ordered {
        let mut row = (1.0, 0.0);
        if is_reached(board) {
            row = (0.0, 0.0);
        } else {
            for &(roll, chance) in rolls {
                let found: Vec<(f64, f64)> = plays(board, roll).iter().map(|next| solved[next]).collect();
                let least = found.iter().map(|(t, _)| *t).fold(f64::INFINITY, f64::min);
                let tied = found.iter().filter(|(t, _)| *t < least + 1e-11);
                let next = tied.min_by(|a, b| variance(a).total_cmp(&variance(b))).unwrap();
                row = (row.0 + chance * next.0, row.1 + chance * next.1);
            }
            row.1 += row.0;
        }
        solved.insert(board.clone(), row);
    }
    solved.into_iter().map(|(board, row)| (board, (row.0, variance(&row)))).collect()
}
