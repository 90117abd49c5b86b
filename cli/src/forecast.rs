//! What a table will need, from its plan alone: positions, disk, memory.
//!
//! Positions are exact where theory or a published count knows them, otherwise at most the size of the universe. Disk follows from
//! the positions by replaying the plan: keys of the forward pass stay until the table is published, working values until the last
//! task that reads them, finished shards for good.

use serde::Serialize;
use std::collections::BTreeMap;
use strata_games::{ArtifactId, ArtifactKind, LayerInfo, StateSpace, TableName, TaskId};

/// A number known before the build.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Known {
    /// The number.
    pub count: u64,
    /// Whether it is exact; otherwise it is an upper bound.
    pub exact: bool,
}

/// What a build will need.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// Number of layers.
    pub layers: u64,
    /// Number of tasks.
    pub tasks: u64,
    /// Stored positions.
    pub keys: Known,
    /// Positions with the player to act, where a published count knows them.
    pub states: Option<u64>,
    /// Bytes of the finished table.
    pub table_bytes: u64,
    /// Most bytes on disk at any time of the build.
    pub peak_bytes: u64,
    /// Memory of the largest task.
    pub task_memory: u64,
    /// The largest task.
    pub largest_task: TaskId,
    /// Work of all tasks, in the plan's own unit.
    pub cost: u64,
}

/// Bytes of a file beside its keys and values: header, directory, footer, checksums.
const FILE_BYTES: f64 = 512.0;
/// A published scalar: 32 bits, and its share of the group's base, step and checksum.
const SCALAR_BYTES: f64 = 4.02;
/// A published distribution of the number of rolls, packed: measured on bearoff-6x15.
const DIST_BYTES: f64 = 40.0;
/// The same in f64.
const DIST_WORK_BYTES: f64 = 110.0;

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

/// Bytes of a set of `keys` out of `universe` ranks: Elias-Fano, or a bitmap where that is smaller.
fn index_bytes(keys: f64, universe: f64) -> f64 {
    if keys < 1.0 || keys >= universe {
        return 0.0;
    }
    let elias_fano = keys * (2.2 + (universe / keys).log2()) / 8.0;
    elias_fano.min(universe * 1.1 / 8.0)
}

/// Replays the plan of a table.
pub fn forecast(space: &dyn StateSpace) -> Forecast {
    let layers = space.layers();
    let universe: u64 = layers.iter().map(|l| l.universe).sum();
    let published = published_counts(space.name());
    let theory: Option<u64> = layers.iter().map(|l| l.keys).sum();
    let keys = match (theory, published) {
        (Some(count), _) | (None, Some((_, count))) => Known { count, exact: true },
        _ => Known { count: universe, exact: false },
    };
    let density = if universe == 0 { 0.0 } else { keys.count as f64 / universe as f64 };
    let by_layer: BTreeMap<u32, &LayerInfo> = layers.iter().map(|l| (l.layer.0, l)).collect();
    let bytes = |artifact: &ArtifactId| -> f64 {
        let Some(layer) = by_layer.get(&artifact.layer.0) else { return 0.0 };
        let ranks = layer.shards.get(artifact.shard as usize).map_or(0, |r| r.end - r.start) as f64;
        let keys = layer.keys.map_or(ranks * density, |k| k as f64 * ranks / layer.universe.max(1) as f64);
        let (scalars, dists) = (space.scalar_columns().len() as f64, space.dist_columns().len() as f64);
        FILE_BYTES
            + match artifact.kind {
                ArtifactKind::Index => index_bytes(keys, ranks),
                ArtifactKind::Work => keys * (8.0 * scalars + DIST_WORK_BYTES * dists),
                ArtifactKind::Shard => index_bytes(keys, ranks) + keys * (SCALAR_BYTES * scalars + DIST_BYTES * dists),
            }
    };

    let stages = space.stages();
    let plans: Vec<_> = (0u32..)
        .zip(stages)
        .flat_map(|(stage, s)| (0..s.parts).map(move |part| TaskId { stage, part }))
        .map(|id| (id, space.task(id)))
        .collect();
    let mut last_use: BTreeMap<ArtifactId, usize> = BTreeMap::new();
    let stage_end: BTreeMap<u32, usize> = plans.iter().enumerate().map(|(i, (id, _))| (id.stage, i)).collect();
    for (id, plan) in &plans {
        last_use.extend(plan.inputs.iter().filter(|a| a.kind == ArtifactKind::Work).map(|&a| (a, stage_end[&id.stage])));
    }
    let mut ends: BTreeMap<usize, f64> = BTreeMap::new();
    let (mut live, mut peak, mut table) = (0.0f64, 0.0f64, 0.0f64);
    for (i, (_, plan)) in plans.iter().enumerate() {
        for artifact in &plan.outputs {
            let size = bytes(artifact);
            live += size;
            match artifact.kind {
                ArtifactKind::Shard => table += size,
                ArtifactKind::Work => *ends.entry(last_use.get(artifact).copied().unwrap_or(i)).or_default() += size,
                ArtifactKind::Index => {}
            }
        }
        peak = peak.max(live);
        live -= ends.remove(&i).unwrap_or(0.0);
    }
    let (largest_task, task_memory) =
        plans.iter().map(|(id, p)| (*id, p.memory_bytes)).max_by_key(|&(_, m)| m).unwrap_or((TaskId { stage: 0, part: 0 }, 0));
    Forecast {
        layers: layers.len() as u64,
        tasks: plans.len() as u64,
        keys,
        states: published.map(|(states, _)| states),
        table_bytes: whole(table),
        peak_bytes: whole(peak),
        task_memory,
        largest_task,
        cost: plans.iter().map(|(_, p)| p.cost).sum(),
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates, and is never negative
fn whole(bytes: f64) -> u64 {
    bytes.ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_sets_are_never_larger_than_a_bitmap_nor_smaller_than_nothing() {
        assert_eq!(index_bytes(0.0, 1e6), 0.0);
        assert_eq!(index_bytes(1e6, 1e6), 0.0);
        assert!(index_bytes(5e5, 1e6) <= 1.1e6 / 8.0);
        let sparse = index_bytes(1000.0, 1_024_000.0);
        assert!((1500.0..1600.0).contains(&sparse), "{sparse}"); // 1,000 keys of 12.2 bits
    }

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
}
