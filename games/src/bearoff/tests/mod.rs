//! Tests against values from outside, and against a second, naive implementation of the rules.

mod counting;
mod golden;
pub(crate) mod naive;
mod plan;
mod rules;
mod values;

use super::*;
use crate::memory::{MemoryTable, run_all};
use std::sync::OnceLock;

fn space(name: &str) -> Bearoff {
    match name.parse() {
        Ok(TableName::Bearoff(spec)) => Bearoff::new(&spec),
        other => panic!("{name}: {other:?}"),
    }
}

struct Solved {
    space: Bearoff,
    table: MemoryTable,
}

fn solve(name: &str) -> Solved {
    let space = space(name);
    let table = run_all(&space).unwrap();
    Solved { space, table }
}

/// bearoff-6x15, solved once.
fn six() -> &'static Solved {
    static SIX: OnceLock<Solved> = OnceLock::new();
    SIX.get_or_init(|| solve("bearoff-6x15"))
}

impl Solved {
    fn slot(&self, position: Position) -> Slot {
        self.table.find(self.space.rank(position).unwrap()).unwrap().unwrap()
    }

    fn mean(&self, position: Position) -> f64 {
        self.table.scalar(self.slot(position), 0).unwrap().value
    }

    fn variance(&self, position: Position) -> f64 {
        self.table.scalar(self.slot(position), 1).unwrap().value
    }

    /// The distribution from 0 on.
    fn dist(&self, position: Position, column: usize) -> Vec<f64> {
        let (first, entries) = self.table.dist(self.slot(position), column).unwrap();
        let mut all = vec![0.0; first];
        all.extend(entries);
        all
    }

    fn positions(&self) -> impl Iterator<Item = Position> {
        self.table.keys().map(|(key, _)| self.space.unrank(key).unwrap())
    }
}

/// A position with one checker on each of the points.
fn on(points: &[usize]) -> Position {
    Position(points.iter().map(|point| 1_u128 << (4 * (point - 1))).sum())
}

fn checkers(position: Position) -> u128 {
    (0..18).map(|i| position.0 >> (4 * i) & 15).sum()
}

fn near(what: &str, found: f64, expected: f64, tolerance: f64) {
    assert!((found - expected).abs() <= tolerance, "{what}: {found} is not {expected} to {tolerance}");
}
