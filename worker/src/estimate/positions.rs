//! How many positions the layers of a table have, before they are enumerated.
//!
//! Theory knows it for bearoff. For 2048 there are counts of whole games, published or counted by several programs, and what was counted
//! of the first layers. In between, the share of the ranks that is reached is guessed: on 4x3 from the shares of its first
//! ages as they were built, on other boards from the last layers that were counted. Without either, the ranks are the only bound,
//! some ten times too high.

use super::Known;
use std::collections::BTreeMap;
use strata_games::{Counts, Keep, Layer, Spec2048, StateSpace, TableName};

/// What was counted of some layers, from the first on.
pub type LayerCounts = BTreeMap<Layer, Counts>;

/// Positions of a layer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Positions {
    /// Ranks of the layer.
    pub(super) ranks: u64,
    /// Positions that are found among the ranks: in 2048 the afterstates.
    pub(super) keys: Known,
    /// Positions with the player to act, as far as they are known: as many as `keys` in a game that stores those.
    pub(super) states: u64,
}

impl Positions {
    /// The states, known as well as the keys are.
    pub(super) fn known_states(&self) -> Known {
        match self.keys {
            Known::Exact(_) => Known::Exact(self.states),
            Known::About(_) => Known::About(self.states),
            Known::AtMost(_) => Known::AtMost(self.states),
        }
    }
}

/// Shares of the ranks of 4x3 that are reached, in thousandths: age, states, afterstates. From the table 2048-4x3+horizon=256.
const SHARES_OF_4X3: [(u32, f64, f64); 9] = [
    (8, 402.0, 89.0),
    (24, 164.0, 31.4),
    (48, 216.0, 56.4),
    (64, 251.0, 77.3),
    (96, 295.0, 114.0),
    (128, 313.0, 133.0),
    (160, 324.0, 149.0),
    (208, 333.0, 160.0),
    (256, 330.0, 165.0),
];

/// States and afterstates of whole games (tests/golden/2048-small-boards.md).
pub fn whole_game(name: &TableName) -> Option<(u64, u64)> {
    let TableName::Game2048(spec) = name else { return None };
    if spec.tile.is_some() || spec.horizon.is_some() {
        return None;
    }
    match sides(spec) {
        (2, 2) => Some((110, 67)),
        (2, 3) => Some((21_752, 14_883)),
        (2, 4) => Some((4_980_767, 3_406_686)),
        (3, 3) => Some((48_713_519, 31_431_374)),
        (3, 4) => Some((1_152_817_492_752, 739_648_886_170)),
        _ => None,
    }
}

fn sides(spec: &Spec2048) -> (usize, usize) {
    (spec.rows.min(spec.cols), spec.rows.max(spec.cols))
}

/// Positions of every layer.
pub(super) fn positions(space: &dyn StateSpace, counted: Option<&LayerCounts>) -> BTreeMap<Layer, Positions> {
    let counted = |layer: Layer| counted.and_then(|counted| counted.get(&layer)).copied();
    let is_4x3 = matches!(space.name(), TableName::Game2048(spec) if sides(spec) == (3, 4) && spec.tile.is_none());
    let whole = whole_game(space.name());
    // Of the last layer that was counted.
    let mut share = None;
    let mut layers = BTreeMap::new();
    for info in space.layers() {
        let ranks = info.ranks();
        let of = |share: f64| (ranks as f64 * share).ceil().min(ranks as f64) as u64;
        let guess = shares_of_4x3(info.layer.0).filter(|_| is_4x3).or(share);
        let (keys, states) = match (info.keys, counted(info.layer), guess) {
            (Some(keys), ..) => (Known::Exact(keys), keys),
            (_, Some(counts), _) => {
                share = Some((counts.states as f64 / ranks.max(1) as f64, counts.afterstates as f64 / ranks.max(1) as f64));
                (Known::Exact(counts.afterstates), counts.states)
            }
            (.., Some((states, keys))) if whole.is_some() || is_4x3 || can_guess(space.name()) => {
                (Known::About(of(keys)), of(states))
            }
            _ => (Known::AtMost(ranks), ranks),
        };
        layers.insert(info.layer, Positions { ranks, keys, states });
    }
    if let Some((states, keys)) = whole {
        scale(&mut layers, states, keys);
    }
    layers
}

/// Whether the share of the ranks that is reached stays what it was: as long as play goes on everywhere.
fn can_guess(name: &TableName) -> bool {
    matches!(name, TableName::Game2048(spec) if spec.tile.is_none())
}

/// Between the ages that are known the share changes evenly; beyond them it is what the totals leave.
fn shares_of_4x3(age: u32) -> Option<(f64, f64)> {
    let after = SHARES_OF_4X3.partition_point(|&(known, ..)| known < age);
    let (a1, s1, k1) = *SHARES_OF_4X3.get(after).unwrap_or(&SHARES_OF_4X3[SHARES_OF_4X3.len() - 1]);
    let (a0, s0, k0) = SHARES_OF_4X3[after.saturating_sub(1)];
    let part = if a1 > a0 { (f64::from(age.clamp(a0, a1)) - f64::from(a0)) / f64::from(a1 - a0) } else { 1.0 };
    Some(((s0 + (s1 - s0) * part) / 1000.0, (k0 + (k1 - k0) * part) / 1000.0))
}

/// Makes the guesses come to known totals: those that are not counted are scaled alike.
fn scale(layers: &mut BTreeMap<Layer, Positions>, states: u64, keys: u64) {
    let exact = |p: &&Positions| p.keys.is_exact();
    let sum = |of: fn(&Positions) -> u64, exactly: bool| -> u128 {
        layers.values().filter(|p| exact(p) == exactly).map(|p| u128::from(of(p))).sum()
    };
    let keys_of: fn(&Positions) -> u64 = |p| p.keys.bound();
    let factor = |total: u64, of: fn(&Positions) -> u64| {
        u128::from(total).saturating_sub(sum(of, true)) as f64 / sum(of, false).max(1) as f64
    };
    let (of_states, of_keys) = (factor(states, |p| p.states), factor(keys, keys_of));
    for p in layers.values_mut().filter(|p| !p.keys.is_exact()) {
        p.states = (p.states as f64 * of_states) as u64;
        p.keys = Known::About((p.keys.bound() as f64 * of_keys) as u64);
    }
}

/// Keys that the shards of a layer publish.
pub(super) fn published(name: &TableName, of_layer: &Positions, universe: u64) -> Known {
    match name.keep() {
        Keep::Values => of_layer.keys,
        Keep::Play => of_layer.known_states(),
        Keep::Stats => match of_layer.keys {
            Known::Exact(keys) => Known::Exact(keys.min(universe)),
            keys => Known::AtMost(keys.bound().min(universe)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(name: &str) -> BTreeMap<Layer, Positions> {
        positions(&*strata_games::open(&name.parse().unwrap()).unwrap(), None)
    }

    fn total(name: &str) -> (u64, u64) {
        let layers = all(name);
        (layers.values().map(|p| p.states).sum(), layers.values().map(|p| p.keys.bound()).sum())
    }

    /// 2048-4x3+horizon=256 has 1,179,175,749 states (published) and 553,308,816 afterstates.
    #[test]
    fn guesses_of_4x3_are_near_what_was_counted() {
        let (states, keys) = total("2048-4x3+horizon=256");
        assert!((states as f64 / 1_179_175_749.0 - 1.0).abs() < 0.03, "{states}");
        assert!((keys as f64 / 553_308_816.0 - 1.0).abs() < 0.03, "{keys}");
    }

    #[test]
    fn guesses_of_whole_games_come_to_the_published_totals() {
        let (states, keys) = total("2048-4x3");
        assert!((states as f64 / 1_152_817_492_752.0 - 1.0).abs() < 1e-6, "{states}");
        assert!((keys as f64 / 739_648_886_170.0 - 1.0).abs() < 1e-6, "{keys}");
    }

    #[test]
    fn whole_games_are_known_either_way_round_and_nothing_else_is() {
        let known = |name: &str| whole_game(&name.parse().unwrap());
        assert_eq!(known("2048-3x2"), Some((21_752, 14_883)));
        assert_eq!(known("2048-2x3+four=0.5"), Some((21_752, 14_883)));
        assert_eq!(known("2048-4x3+keep=stats"), known("2048-3x4"));
        for unknown in ["2048-2x3+tile=64", "2048-3x3+horizon=100", "2048-4x4", "bearoff-6x15"] {
            assert_eq!(known(unknown), None, "{unknown}");
        }
        assert!(all("2048-3x3+tile=64").values().all(|p| p.keys == Known::AtMost(p.ranks)));
    }
}
