//! What a table will need, from its plan alone, and from what is known about whole games of 2048.

use strata_games::{StateSpace, TableName};
use strata_worker::estimate::{Estimate, KeyCounts, Known};

/// What a build will need.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// Layers, positions, disk, memory.
    pub estimate: Estimate,
    /// Positions with the player to act, where a published count knows them.
    pub states: Option<u64>,
    /// Bytes that the build needs for certain; 0 when only bounds are known.
    pub certain_bytes: u64,
}

/// A published scalar.
const SCALAR_BYTES: u64 = 4;
/// The least that a published distribution takes; most take more.
const LEAST_DIST_BYTES: u64 = 16;

/// Reads the plan. `counted` has the positions of every layer, where they were counted.
pub fn forecast(space: &dyn StateSpace, counted: Option<&KeyCounts>) -> Forecast {
    let published = published_counts(space.name());
    let spread = published.map(|(_, keys)| spread(space, keys));
    let estimate = Estimate::new(space, counted.or(spread.as_ref()));
    let certain_bytes = match (estimate.keys, space.dist_columns().len() as u64) {
        (Known::AtMost(_), _) => 0,
        (Known::Exact(_), 0) => estimate.disk_bytes,
        (Known::Exact(keys), dists) => keys * (space.scalar_columns().len() as u64 * SCALAR_BYTES + dists * LEAST_DIST_BYTES),
    };
    Forecast { estimate, states: published.map(|(states, _)| states), certain_bytes }
}

/// States and afterstates of whole games of 2048, published or counted by several programs (tests/golden/2048-small-boards.md).
fn published_counts(name: &TableName) -> Option<(u64, u64)> {
    let TableName::Game2048(spec) = name else { return None };
    if spec.tile.is_some() || spec.horizon.is_some() {
        return None;
    }
    match (spec.rows.min(spec.cols), spec.rows.max(spec.cols)) {
        (2, 2) => Some((110, 67)),
        (2, 3) => Some((21_752, 14_883)),
        (2, 4) => Some((4_980_767, 3_406_686)),
        (3, 3) => Some((48_713_519, 31_431_374)),
        (3, 4) => Some((1_152_817_492_752, 739_648_886_170)),
        _ => None,
    }
}

/// Spreads a known total over the layers as their ranks are. The total is exact, its parts are not: good enough for sizes.
fn spread(space: &dyn StateSpace, total: u64) -> KeyCounts {
    let all: u128 = space.layers().iter().map(|l| u128::from(l.universe)).sum();
    let part = |ranks: u128| u64::try_from(u128::from(total) * ranks / all.max(1)).unwrap_or(u64::MAX);
    let mut before = 0u128;
    let layer_counts = space.layers().iter().map(|l| {
        let start = part(before);
        before += u128::from(l.universe);
        (l.layer, part(before) - start)
    });
    layer_counts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_known_for_whole_games_only_and_either_way_round() {
        let known = |name: &str| published_counts(&name.parse().unwrap());
        assert_eq!(known("2048-3x2"), Some((21_752, 14_883)));
        assert_eq!(known("2048-2x3+four=0.5"), Some((21_752, 14_883)));
        assert_eq!(known("2048-2x3+tile=64"), None);
        assert_eq!(known("2048-3x3+horizon=100"), None);
        assert_eq!(known("2048-4x4"), None);
        assert_eq!(known("bearoff-6x15"), None);
    }

    #[test]
    fn a_spread_total_stays_the_total() {
        let space = strata_games::open(&"2048-3x3".parse().unwrap()).unwrap();
        assert_eq!(spread(space.as_ref(), 31_431_374).values().sum::<u64>(), 31_431_374);
        let forecast = forecast(space.as_ref(), None);
        assert_eq!(forecast.estimate.keys, Known::Exact(31_431_374));
        assert!(forecast.certain_bytes > 4 * 31_431_374);
    }

    #[test]
    fn nothing_is_certain_where_only_a_bound_is_known() {
        let space = strata_games::open(&"2048-3x3+tile=64".parse().unwrap()).unwrap();
        let forecast = forecast(space.as_ref(), None);
        assert!(!forecast.estimate.keys.is_exact());
        assert_eq!(forecast.certain_bytes, 0);
    }
}
