//! The laws of [`StateSpace`], checked on one table that is small enough to solve in memory.
//!
//! A game proves that it keeps the laws with one line a table in `games/tests/conformance.rs`. Each law says which key or task
//! breaks it.

mod statistics;

use crate::memory::{MemoryTable, run_all};
use crate::name::Keep;
use crate::space::*;
use std::collections::{BTreeMap, BTreeSet};

/// A law that a state space breaks, and where.
#[derive(thiserror::Error, Clone, PartialEq, Eq, Debug)]
#[error("{0}")]
pub struct Violation(pub String);

/// Checks every law. Solves the table on the way, so it should be one of at most some hundred thousand keys.
pub fn check(space: &dyn StateSpace) -> Result<(), Violation> {
    layers_increase_and_shards_cover_them(space)?;
    inputs_come_from_earlier_stages(space)?;
    let table = run_all(space).map_err(|error| Violation(format!("the plan does not run: {error}")))?;
    if space.name().keep() != Keep::Values {
        return check_without_values(space, &table);
    }
    for (key, slot) in table.keys() {
        ranks_invert(space, key)?;
        play_keeps_the_order_and_stays_inside(space, &table, key)?;
        expansion_says_the_same(space, key)?;
        value_follows_the_recursion(space, &table, key, slot)?;
    }
    statistics::statistics_are_those_of_the_rules(space, &table)?;
    starts_are_a_distribution(space, &table)
}

/// The laws of tables that keep less than values.
fn check_without_values(space: &dyn StateSpace, table: &MemoryTable) -> Result<(), Violation> {
    if space.name().keep() == Keep::Stats {
        return Ok(()); // its keys are numbers of samples
    }
    for (key, _) in table.keys() {
        ranks_invert(space, key)?;
        let state = position_of(space, key)?;
        let chosen = space.chosen(state, table).map_err(|error| Violation(format!("{key:?}: {error}")))?;
        let choices = space.choices(state);
        ensure(chosen.is_some() != choices.is_empty(), || format!("{key:?}: {chosen:?} of {} moves is chosen", choices.len()))?;
        let outcomes = chosen.map_or_else(Vec::new, |chosen| space.outcomes(choices[chosen].position));
        for outcome in outcomes {
            let next = space.rank(space.canonical(outcome.state));
            let stops = space.choices(outcome.state).is_empty();
            let held = next.is_some_and(|next| table.value(next, 0).is_some());
            ensure(held || stops, || format!("{key:?}: play leads to {:?}, which has no move", outcome.state))?;
        }
    }
    Ok(())
}

fn ensure(holds: bool, law: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation(law())) }
}

fn layers_increase_and_shards_cover_them(space: &dyn StateSpace) -> Result<(), Violation> {
    ensure(space.layers().is_sorted_by(|a, b| a.layer < b.layer), || "layers do not strictly increase".into())?;
    for info in space.layers() {
        let covered = info.shards.iter().try_fold(0, |end, run| (run.start == end && run.end >= end).then_some(run.end));
        ensure(covered == Some(info.universe), || format!("the shards of layer {} do not cover its ranks in order", info.layer))?;
    }
    Ok(())
}

fn inputs_come_from_earlier_stages(space: &dyn StateSpace) -> Result<(), Violation> {
    let mut producers: BTreeMap<ArtifactId, u32> = BTreeMap::new();
    let mut behind: Vec<BTreeSet<u32>> = Vec::new();
    for (number, stage) in (0u32..).zip(space.stages()) {
        ensure(stage.after.iter().all(|&before| before < number), || format!("stage {number} waits for a later one"))?;
        let mut before: BTreeSet<u32> = stage.after.iter().copied().collect();
        for &stage in &stage.after {
            before.extend(&behind[stage as usize]);
        }
        let mut outputs = Vec::new();
        for part in 0..stage.parts {
            let task = TaskId { stage: number, part };
            let plan = space.task(task);
            for input in plan.inputs {
                let from =
                    producers.get(&input).ok_or_else(|| Violation(format!("task {task}: nobody writes its input {input:?}")))?;
                ensure(before.contains(from), || format!("task {task} does not wait for stage {from}, which writes {input:?}"))?;
            }
            outputs.extend(plan.outputs);
        }
        for output in outputs {
            ensure(producers.insert(output, number).is_none(), || format!("{output:?} is written twice"))?;
        }
        behind.push(before);
    }
    for info in space.layers() {
        for shard in (0u32..).take(info.shards.len()) {
            let shard = ArtifactId { kind: ArtifactKind::Shard, layer: info.layer, shard };
            ensure(producers.contains_key(&shard), || format!("nobody writes {shard:?}"))?;
        }
    }
    Ok(())
}

fn position_of(space: &dyn StateSpace, key: Key) -> Result<Position, Violation> {
    space.unrank(key).ok_or_else(|| Violation(format!("{key:?} has no position")))
}

fn ranks_invert(space: &dyn StateSpace, key: Key) -> Result<(), Violation> {
    let position = position_of(space, key)?;
    ensure(space.rank(position) == Some(key), || format!("{key:?}: rank of unrank is {:?}", space.rank(position)))?;
    let canonical = space.canonical(position);
    ensure(canonical == position, || format!("{key:?}: unrank gives {position:?}, which is not canonical"))?;
    let text = space.format(position);
    let read = space.parse(&text);
    ensure(read == Ok(position), || format!("{key:?} prints as {text:?} and reads as {read:?}"))
}

fn play_keeps_the_order_and_stays_inside(space: &dyn StateSpace, table: &MemoryTable, key: Key) -> Result<(), Violation> {
    let position = position_of(space, key)?;
    let outcomes = space.outcomes(position);
    if outcomes.is_empty() {
        return Ok(());
    }
    let total: f64 = outcomes.iter().map(|outcome| outcome.chance).sum();
    ensure((total - 1.0).abs() < 1e-12, || format!("{key:?}: the chances sum to {total}"))?;
    for outcome in outcomes {
        ensure(outcome.chance > 0.0, || format!("{key:?}: {} has the chance {}", outcome.label, outcome.chance))?;
        let mut labels = BTreeSet::new();
        for choice in space.choices(outcome.state) {
            let step = || format!("{key:?}, {}, {}", outcome.label, choice.label);
            ensure(labels.insert(choice.label.clone()), || format!("{}: two choices have this name", step()))?;
            ensure(space.canonical(choice.position) == choice.position, || format!("{}: not canonical", step()))?;
            if let Some(next) = choice.key {
                ensure(next.layer != key.layer, || format!("{}: play stays in its layer", step()))?;
                ensure(table.value(next, 0).is_some(), || format!("{}: leads to {next:?}, which has no value", step()))?;
                let same_way = (next.layer > key.layer) == matches!(space.aim(), Aim::Most);
                ensure(same_way, || format!("{}: leads from layer {} to layer {}", step(), key.layer, next.layer))?;
            }
        }
    }
    Ok(())
}

fn expansion_says_the_same(space: &dyn StateSpace, key: Key) -> Result<(), Violation> {
    let position = position_of(space, key)?;
    let mut expansion = Expansion::default();
    space.expand(position, &mut expansion);
    let outcomes = space.outcomes(position);
    ensure(outcomes.len() == expansion.branches.len(), || format!("{key:?}: expand has another number of outcomes"))?;
    let mut first = 0;
    for (outcome, branch) in outcomes.iter().zip(&expansion.branches) {
        ensure(outcome.chance == branch.chance, || {
            format!("{key:?}, {}: expand has the chance {}", outcome.label, branch.chance)
        })?;
        let set = |leaves: &mut dyn Iterator<Item = (Option<Key>, f64)>| {
            leaves.map(|(key, gain)| (key, gain.to_bits())).collect::<BTreeSet<_>>()
        };
        let choices = space.choices(outcome.state);
        let by_name = set(&mut choices.iter().map(|choice| (choice.key, choice.reward)));
        let by_expansion = set(&mut expansion.leaves[first..branch.end].iter().map(|leaf| (leaf.key, leaf.gain)));
        ensure(by_name == by_expansion, || format!("{key:?}, {}: expand has other choices", outcome.label))?;
        let terminal = if choices.is_empty() { space.terminal_value(outcome.state) } else { 0.0 };
        ensure(branch.terminal == terminal, || {
            format!("{key:?}, {}: expand has the terminal value {}", outcome.label, branch.terminal)
        })?;
        first = branch.end;
    }
    Ok(())
}

/// The value of a state by its choices, as a recursion has it.
fn state_value(space: &dyn StateSpace, table: &MemoryTable, state: Position, by: &Recursion) -> f64 {
    let next = |key: Key| {
        let read = |&column: &usize| table.value(key, column).map(|value| Bounded { value, error: 0.0 });
        by.reads.iter().map(read).collect::<Option<Vec<Bounded>>>().map(|values| (by.next)(&values).value)
    };
    let aim = space.aim();
    let worth = |choice: Choice| aim.worth(choice.reward, choice.key.map_or(Some(0.0), next).unwrap_or(f64::NAN));
    let values = space.choices(state).into_iter().map(worth);
    let best = values.reduce(|best, value| if aim.prefers(value, best) { value } else { best });
    best.unwrap_or_else(|| (by.end)(space.terminal_value(state)))
}

fn value_follows_the_recursion(space: &dyn StateSpace, table: &MemoryTable, key: Key, slot: Slot) -> Result<(), Violation> {
    let position = position_of(space, key)?;
    let outcomes = space.outcomes(position);
    for by in space.recursions() {
        let stored = table.scalar(slot, by.column).map_err(|error| Violation(format!("{key:?}: {error}")))?.value;
        let value: f64 = outcomes.iter().map(|outcome| outcome.chance * state_value(space, table, outcome.state, by)).sum();
        ensure((value - stored).abs() <= 1e-12 * value.abs().max(1.0) + space.precision().allowance(), || {
            format!("{key:?}, {}: the table says {stored}, the rules {value}", space.scalar_columns()[by.column])
        })?;
    }
    Ok(())
}

fn starts_are_a_distribution(space: &dyn StateSpace, table: &MemoryTable) -> Result<(), Violation> {
    let starts = space.starts();
    let total: f64 = starts.iter().map(|start| start.chance).sum();
    ensure((total - 1.0).abs() < 1e-12, || format!("the chances of the starts sum to {total}"))?;
    let value: f64 = starts
        .iter()
        .map(|start| {
            let key = if space.starts_are_states() { None } else { space.rank(start.state) };
            start.chance
                * key.map_or_else(
                    || state_value(space, table, start.state, &space.recursions()[0]),
                    |key| table.value(key, 0).unwrap_or(f64::NAN),
                )
        })
        .sum();
    let fact = table.facts().get("value").copied().unwrap_or(f64::NAN);
    ensure((value - fact).abs() <= 1e-12 * value.abs().max(1.0), || {
        format!("the fact `value` is {fact}, the starts give {value}")
    })
}
