//! What a kernel says about the states of its layers reaches the table, once and for whole layers.

use strata_games::memory::{MemoryTable, run_all};
use strata_games::*;

type Put = fn(TaskId, &dyn TaskIo) -> Result<(), TaskError>;

const STATS: LayerStats =
    LayerStats { legal_moves: 9, single_best: 2, choices: 3, value_sum: 66.5, gap_sum: 0.75, gap_most: 0.5 };

/// A bearoff table, which has no statistics of its own, and what is put in its name.
fn with_stats(put: Put) -> Hooked {
    let hook: Hook = Box::new(move |game, task, io| {
        game.run(task, io)?;
        put(task, io)
    });
    Hooked::new(open(&"bearoff-2x2".parse().unwrap()).unwrap(), hook)
}

fn table(put: Put) -> Result<MemoryTable, String> {
    run_all(&with_stats(put)).map_err(|error| error.to_string())
}

#[test]
fn statistics_are_kept_by_layer() {
    let table = table(|_, io| io.put_stats(Layer(1), 0, STATS)).unwrap();
    assert_eq!((table.stats(Layer(1)), table.stats(Layer(2)), table.stats(Layer(77))), (Some(STATS), None, None));
}

#[test]
fn a_shard_has_statistics_once_and_only_if_it_is_there() {
    let twice = |_: TaskId, io: &dyn TaskIo| io.put_stats(Layer(1), 0, STATS).and_then(|()| io.put_stats(Layer(1), 0, STATS));
    assert!(table(twice).unwrap_err().contains("statistics of layer 1 shard 0 twice"));
    assert!(table(|_, io| io.put_stats(Layer(1), 1, STATS)).unwrap_err().contains("no layer 1 shard 1"));
    assert!(table(|_, io| io.put_stats(Layer(99), 0, STATS)).unwrap_err().contains("no layer 99"));
}

#[test]
fn statistics_that_the_rules_do_not_give_break_the_law() {
    let space = with_stats(|_, io| io.put_stats(Layer(1), 0, STATS));
    let violation = conformance::check(&space).unwrap_err().to_string();
    assert!(violation.contains("the kernel's statistics are"), "{violation}");
}

#[test]
fn parts_of_a_layer_add_up_and_the_largest_gap_is_the_larger() {
    let next = LayerStats { legal_moves: 4, single_best: 1, choices: 1, value_sum: -6.0, gap_sum: 1.5, gap_most: 1.5 };
    let both = LayerStats { legal_moves: 13, single_best: 3, choices: 4, value_sum: 60.5, gap_sum: 2.25, gap_most: 1.5 };
    assert_eq!(STATS.checked_add(next), Some(both));
    assert_eq!(next.checked_add(STATS), Some(both));
    assert_eq!(STATS.checked_add(LayerStats { choices: u64::MAX, ..next }), None);
}
