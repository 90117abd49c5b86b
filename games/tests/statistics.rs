//! What a kernel says about the states of its layers reaches the table, once and for whole layers.

use strata_games::memory::{MemoryTable, run_all};
use strata_games::*;

type Put = fn(TaskId, &dyn TaskIo) -> Result<(), TaskError>;

/// A bearoff table, which has no statistics of its own, and what is put in its name.
struct WithStats {
    game: Box<dyn StateSpace>,
    put: Put,
}

impl StateSpace for WithStats {
    fn run(&self, task: TaskId, io: &dyn TaskIo) -> Result<(), TaskError> {
        self.game.run(task, io)?;
        (self.put)(task, io)
    }
    fn name(&self) -> &TableName {
        self.game.name()
    }
    fn layers(&self) -> &[LayerInfo] {
        self.game.layers()
    }
    fn stages(&self) -> &[Stage] {
        self.game.stages()
    }
    fn task(&self, task: TaskId) -> TaskPlan {
        self.game.task(task)
    }
    fn scalar_columns(&self) -> &'static [&'static str] {
        self.game.scalar_columns()
    }
    fn dist_columns(&self) -> &'static [&'static str] {
        self.game.dist_columns()
    }
    fn aim(&self) -> Aim {
        self.game.aim()
    }
    fn rank(&self, position: Position) -> Option<Key> {
        self.game.rank(position)
    }
    fn unrank(&self, key: Key) -> Option<Position> {
        self.game.unrank(key)
    }
    fn canonical(&self, position: Position) -> Position {
        self.game.canonical(position)
    }
    fn outcomes(&self, key: Position) -> Vec<Outcome> {
        self.game.outcomes(key)
    }
    fn choices(&self, state: Position) -> Vec<Choice> {
        self.game.choices(state)
    }
    fn terminal_value(&self, state: Position) -> f64 {
        self.game.terminal_value(state)
    }
    fn starts(&self) -> Vec<Outcome> {
        self.game.starts()
    }
    fn starts_are_states(&self) -> bool {
        self.game.starts_are_states()
    }
    fn parse(&self, text: &str) -> Result<Position, PositionError> {
        self.game.parse(text)
    }
    fn format(&self, position: Position) -> String {
        self.game.format(position)
    }
    fn standing(&self, position: Position, table: &dyn TableReader) -> Result<Standing, ReadError> {
        self.game.standing(position, table)
    }
}

const STATS: LayerStats =
    LayerStats { legal_moves: 9, single_best: 2, choices: 3, value_sum: 66.5, gap_sum: 0.75, gap_most: 0.5 };

fn table(put: Put) -> Result<MemoryTable, String> {
    let space = WithStats { game: open(&"bearoff-2x2".parse().unwrap()).unwrap(), put };
    run_all(&space).map_err(|error| error.to_string())
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
    let space = WithStats { game: open(&"bearoff-2x2".parse().unwrap()).unwrap(), put: |_, io| io.put_stats(Layer(1), 0, STATS) };
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
