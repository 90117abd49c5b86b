//! A tiny state space and what its kernels would make, for tests of everything around kernels.

mod life;
mod services;
mod space;
mod windows;
mod wrong;

pub use life::Life;
pub use space::FakeSpace;

use crate::plan::{Plan, TaskIndex};
use crate::record::{Content, CountRecord, FactRecord, StatsRecord, file_kind};
use strata_games::{ArtifactId, ArtifactKind, Pass};
use strata_storage::{Digest, FileRecord, artifact_path};

/// The bytes that a file of the fake game holds.
pub fn bytes_of(table: &str, artifact: ArtifactId) -> Vec<u8> {
    format!("{table} {:?} {} {}\n", artifact.kind, artifact.layer, artifact.shard).repeat(7).into_bytes()
}

/// Number of keys of every shard of the fake game.
pub const KEYS: u64 = 3;

/// The record of a file with these bytes.
pub fn file_of(artifact: ArtifactId, bytes: &[u8]) -> FileRecord {
    let kind = file_kind(artifact.kind);
    let blake3 = Digest::blake3(bytes);
    let index_bytes = if artifact.kind == ArtifactKind::Work { 0 } else { 10 };
    let value_bytes = if artifact.kind == ArtifactKind::Index { 0 } else { 20 };
    FileRecord {
        kind,
        layer: artifact.layer.0,
        shard: artifact.shard,
        path: artifact_path(kind, artifact.layer.0, artifact.shard, &blake3),
        blake3,
        sha256: Digest::sha256(bytes),
        bytes: bytes.len() as u64,
        keys: KEYS,
        index_bytes,
        value_bytes,
        error_bounds: if artifact.kind == ArtifactKind::Shard { vec![1e-9] } else { Vec::new() },
    }
}

/// What the kernel of a task would make.
pub fn content_of(plan: &Plan, task: TaskIndex) -> Content {
    let planned = &plan.tasks[task];
    let stage = &plan.stages[planned.id.stage as usize];
    let outputs = &planned.plan.outputs;
    let count = |output: &ArtifactId| CountRecord {
        layer: output.layer.0,
        shard: output.shard,
        states: u64::from(output.layer.0),
        afterstates: KEYS,
        terminal: 1,
    };
    let stats = |output: &ArtifactId| StatsRecord {
        layer: output.layer.0,
        shard: output.shard,
        legal_moves: 5,
        single_best: 2,
        choices: 1 + u64::from(output.shard),
        value_sum: f64::from(output.layer.0) - 0.5,
        gap_sum: 0.75,
        gap_most: 0.5 / f64::from(1 + output.shard),
    };
    let last = planned.id.stage as usize + 1 == plan.stages.len() && planned.id.part == 0;
    Content {
        outputs: outputs.iter().map(|&output| file_of(output, &bytes_of(&plan.table, output))).collect(),
        counts: if stage.pass == Pass::Forward { outputs.iter().map(count).collect() } else { Vec::new() },
        // The backward pass writes working values too, of the same shards.
        stats: outputs.iter().filter(|output| output.kind == ArtifactKind::Shard).map(stats).collect(),
        facts: if last { vec![FactRecord { name: "value".into(), value: 42.5 }] } else { Vec::new() },
    }
}
