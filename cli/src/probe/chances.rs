//! Chances of winning and of gammons.
//!
//! A two-sided table has equities. Where no player has all checkers, nobody can win a gammon, and the cubeless equity is the chance to win
//! less the chance to lose. Otherwise play is followed, both players playing for the most cubeless equity, until it comes to such pairs.
//!
//! One-sided tables have the numbers of rolls that each player needs. If both play for the fewest rolls on the average, whatever the other
//! does, the player on roll wins with those of his numbers that are not larger than the other's.

use super::{NoAnswer, Probe};
use serde::Serialize;
use std::collections::BTreeMap;
use strata_games::bearoff::{Bearoff, TwoSided};
use strata_games::{Aim, Position, StateSpace};

/// Pairs that are followed from one roll to the next; what is left of the chances is part of the error.
const FOLLOWED: usize = 2000;
/// Rolls that are followed.
const ROLLS: usize = 40;

/// For the player on roll.
#[derive(Serialize, Clone, Copy, PartialEq, Debug)]
pub(super) struct Chances {
    /// Of winning, gammons included.
    pub win: f64,
    /// Of winning a gammon.
    pub win_gammon: f64,
    /// Of losing a gammon.
    pub lose_gammon: f64,
    /// How far each of them may be off from those of the line of best play that was followed; nothing where nobody knows.
    pub chance_error: Option<f64>,
    /// Where they come from.
    pub chances_from: &'static str,
}

/// Chances from a two-sided table.
pub(super) fn two_sided(probe: &Probe<'_>, space: &TwoSided, position: Position) -> Result<Chances, NoAnswer> {
    let mut chances =
        Chances { win: 0.0, win_gammon: 0.0, lose_gammon: 0.0, chance_error: None, chances_from: "cubeless play of both" };
    let mut error = 0.0;
    let mut now = BTreeMap::from([(position.0, 1.0)]);
    for roll in 0..=ROLLS {
        let is_ours = roll % 2 == 0;
        let mut open: Vec<(u128, f64)> = Vec::new();
        for (position, chance) in std::mem::take(&mut now) {
            let end = space.end(Position(position));
            let value = match end {
                Some(value) => value,
                None if space.has_gammons(Position(position)) => {
                    open.push((position, chance));
                    continue;
                }
                None => {
                    let value = probe.read(Position(position), 0)?;
                    error += chance * value.error / 2.0;
                    value.value
                }
            };
            // An end that is worth more than 1 is a gammon.
            let gammon = if end.is_some() && value.abs() > 1.0 { chance } else { 0.0 };
            let win = (value.clamp(-1.0, 1.0) + 1.0) / 2.0;
            let (wins, wins_gammon) = if is_ours { (win, value > 0.0) } else { (1.0 - win, value < 0.0) };
            chances.win += chance * wins;
            *if wins_gammon { &mut chances.win_gammon } else { &mut chances.lose_gammon } += gammon;
        }
        open.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let followed = if roll == ROLLS { 0 } else { open.len().min(FOLLOWED) };
        let left: f64 = open[followed..].iter().map(|(_, chance)| chance).sum();
        error += left;
        for &(position, chance) in &open[..followed] {
            for outcome in space.outcomes(Position(position)) {
                let next = probe.best(outcome.state, space.aim())?;
                *now.entry(next.0).or_insert(0.0) += chance * outcome.chance;
            }
        }
    }
    for chance in [&mut chances.win, &mut chances.win_gammon, &mut chances.lose_gammon] {
        *chance = chance.clamp(0.0, 1.0);
    }
    chances.chance_error = Some(error);
    Ok(chances)
}

impl Probe<'_> {
    /// Where the best choice in a state leads; of equal ones the first.
    fn best(&self, state: Position, aim: Aim) -> Result<Position, NoAnswer> {
        let mut best: Option<(f64, Position)> = None;
        for choice in self.space.choices(state) {
            let value = aim.worth(choice.reward, self.read(choice.position, 0)?.value);
            if best.is_none_or(|(other, _)| aim.prefers(value, other)) {
                best = Some((value, choice.position));
            }
        }
        best.map(|(_, position)| position).ok_or_else(|| NoAnswer::Damaged("a position before the end has no play".into()))
    }
}

/// Chances from a one-sided table.
pub(super) fn race(probe: &Probe<'_>, space: &Bearoff, roller: Position, other: Position) -> Result<Chances, NoAnswer> {
    let dist = |position: Position, column: usize| -> Result<Vec<f64>, NoAnswer> {
        let key = space.rank(position).ok_or_else(|| NoAnswer::Impossible("it is no position of the table".into()))?;
        let (first, entries) = probe.reader.dist(probe.slot(key, position)?, column)?;
        Ok([vec![0.0; first], entries].concat())
    };
    // The chance that one number of rolls is less than another, or the same.
    let not_more = |a: &[f64], b: &[f64], equal: bool| -> f64 {
        let from = |n: usize| b.iter().skip(if equal { n } else { n + 1 }).fold(0.0, |sum, chance| sum + chance);
        a.iter().enumerate().map(|(n, chance)| chance * from(n)).fold(0.0, |sum: f64, chance| sum + chance).min(1.0)
    };
    // A gammon is a win against a player who has all checkers.
    let is_full = |position: Position| (0..32).map(|point| position.0 >> (4 * point) & 15).sum::<u128>() == 15;
    let gammon = |loser: Position, chance: f64| if is_full(loser) { chance } else { 0.0 };
    let [ours, theirs] = [dist(roller, 0)?, dist(other, 0)?];
    let [our_first, their_first] = [dist(roller, 1)?, dist(other, 1)?];
    Ok(Chances {
        win: not_more(&ours, &theirs, true),
        // The other has had a roll less when we are done, and we as many as he when he is.
        win_gammon: gammon(other, not_more(&ours, &their_first, true)),
        lose_gammon: gammon(roller, not_more(&theirs, &our_first, false)),
        chance_error: None,
        // Over all pairs of six checkers on six points (docs/BEAROFF.md).
        chances_from: "an approximation: each plays for the fewest rolls, whatever the other does; the chance to win was off by up to \
                       0.0139 over all pairs of 6 checkers on 6 points",
    })
}
