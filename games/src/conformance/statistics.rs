//! Statistics of layers from the rules alone, to hold those of a kernel against.
//!
//! Every state that a key leads to is looked at once, up to symmetry, and its moves are valued by the table. A state with moves belongs
//! to the layer that they lead to: afterstates have the age of their state. One without moves does not say where it belongs, so of
//! those only their number is known, and between which values they lie.

use super::{Violation, ensure, position_of};
use crate::memory::MemoryTable;
use crate::space::*;
use std::collections::{BTreeMap, BTreeSet};

/// What the rules say.
#[derive(Default)]
pub(super) struct ByTheRules {
    /// Of each layer the number of states with moves, and their statistics.
    pub(super) layers: BTreeMap<Layer, (u64, LayerStats)>,
    /// The least and the greatest value of a state without moves.
    terminal: Option<(f64, f64)>,
}

impl ByTheRules {
    /// Looks at all states of a table.
    pub(super) fn of(space: &dyn StateSpace, table: &MemoryTable) -> Result<Self, Violation> {
        let mut states = BTreeSet::new();
        for (key, _) in table.keys() {
            let outcomes = space.outcomes(position_of(space, key)?);
            states.extend(outcomes.into_iter().map(|outcome| space.canonical(outcome.state)));
        }
        if space.starts_are_states() {
            states.extend(space.starts().into_iter().map(|start| space.canonical(start.state)));
        }
        let mut all = Self::default();
        states.into_iter().for_each(|state| all.add(space, table, state));
        Ok(all)
    }

    fn add(&mut self, space: &dyn StateSpace, table: &MemoryTable, state: Position) {
        let choices = space.choices(state);
        let value = |choice: &Choice| choice.reward + choice.key.and_then(|key| table.value(key, 0)).unwrap_or(0.0);
        let mut values: Vec<f64> = choices.iter().map(value).collect();
        values.sort_by(|a, b| if space.aim() == Aim::Most { b.total_cmp(a) } else { a.total_cmp(b) });
        let Some(layer) = choices.iter().find_map(|choice| choice.key).map(|key| key.layer) else {
            let value = values.first().copied().unwrap_or_else(|| space.terminal_value(state));
            let (least, most) = self.terminal.unwrap_or((value, value));
            self.terminal = Some((least.min(value), most.max(value)));
            return;
        };
        let gap = values.get(1).map(|second| (values[0] - second).abs());
        let of_state = LayerStats {
            legal_moves: values.len() as u64,
            single_best: u64::from(values.get(1).is_none_or(|&second| LayerStats::is_better(values[0], second))),
            choices: u64::from(gap.is_some()),
            value_sum: values[0],
            gap_sum: gap.unwrap_or(0.0),
            gap_most: gap.unwrap_or(0.0),
        };
        let (states, sum) = self.layers.entry(layer).or_default();
        *states += 1;
        *sum = sum.checked_add(of_state).expect("a table in memory has fewer than 2^64 moves");
    }
}

/// Counts are those of the rules; sums too, up to rounding.
pub(super) fn statistics_are_those_of_the_rules(space: &dyn StateSpace, table: &MemoryTable) -> Result<(), Violation> {
    if space.layers().iter().all(|info| table.stats(info.layer).is_none()) {
        return Ok(());
    }
    let rules = ByTheRules::of(space, table)?;
    for info in space.layers() {
        let (with_moves, expected) = rules.layers.get(&info.layer).copied().unwrap_or_default();
        let found = table.stats(info.layer).unwrap_or_default();
        let differs = || format!("layer {}: the kernel's statistics are {found:?}, the rules give {expected:?}", info.layer);
        let counts = |stats: LayerStats| (stats.legal_moves, stats.single_best, stats.choices);
        ensure(counts(found) == counts(expected), differs)?;
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-11 * b.abs().max(1.0);
        ensure(near(found.gap_sum, expected.gap_sum) && near(found.gap_most, expected.gap_most), differs)?;
        let without = table.counts(info.layer).states.saturating_sub(with_moves) as f64;
        let (least, most) = rules.terminal.unwrap_or_default();
        let nearest = found.value_sum.clamp(expected.value_sum + without * least, expected.value_sum + without * most);
        ensure(near(found.value_sum, nearest), differs)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::run_all;

    fn by_the_rules(name: &str) -> (u64, ByTheRules) {
        let space = crate::open(&name.parse().unwrap()).unwrap();
        let table = run_all(&*space).unwrap();
        let with_moves = table.totals().states - table.totals().terminal;
        (with_moves, ByTheRules::of(&*space, &table).unwrap())
    }

    /// On 2x2 the game starts with two tiles: at age 4 `2 2/0 0`, with three legal moves (left and right merge, and are mirror images;
    /// one slides), and `2 0/0 2`, whose four moves all slide into images of the former.
    #[test]
    fn the_first_age_of_two_by_two_is_as_worked_out_by_hand() {
        let (with_moves, rules) = by_the_rules("2048-2x2");
        let (states, first) = rules.layers[&Layer(4)];
        assert_eq!((states, first.legal_moves, first.choices), (2, 7, 2));
        assert_eq!(rules.layers.values().map(|(states, _)| states).sum::<u64>(), with_moves);
        assert_eq!(rules.terminal, Some((0.0, 0.0)));
    }

    #[test]
    fn chances_of_a_tile_and_their_gaps_are_at_most_one() {
        let (_, rules) = by_the_rules("2048-2x2+tile=8");
        for (layer, (states, stats)) in &rules.layers {
            assert!(stats.gap_most <= 1.0 && stats.gap_sum <= stats.choices as f64, "layer {layer}: {stats:?}");
            assert!(stats.value_sum <= *states as f64, "layer {layer}: {stats:?}");
        }
        assert_eq!(rules.terminal, Some((0.0, 1.0)));
    }
}
