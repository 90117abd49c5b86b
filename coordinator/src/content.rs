//! What a worker hands in, turned from messages into records, and held against the plan.
//!
//! Everything that comes over the wire is looked at here before any state changes: exactly the files that the task should write, each
//! under the one name that follows from its hash (so no name can lead out of the table), not more keys than ranks, finite numbers.

use crate::plan::{Plan, TaskIndex};
use crate::record::{Content, CountRecord, FactRecord, StatsRecord, artifact_of, named};
use std::collections::BTreeSet;
use strata_games::Layer;
use strata_proto::v1;
use strata_storage::{Digest, FileKind, FileRecord};

/// Longest name of a fact, in bytes.
const MAX_FACT_NAME: usize = 64;

/// Reads the result of a task from its message. The sentence says what is wrong with it.
pub fn content_of(plan: &Plan, task: TaskIndex, request: &v1::CompleteRequest) -> Result<Content, String> {
    let mut content = Content {
        outputs: request.outputs.iter().map(file_of_message).collect::<Result<_, _>>()?,
        counts: request
            .counts
            .iter()
            .map(|c| CountRecord {
                layer: c.layer,
                shard: c.shard,
                states: c.states,
                afterstates: c.afterstates,
                terminal: c.terminal,
            })
            .collect(),
        stats: request.stats.iter().map(stats_of_message).collect(),
        facts: request.facts.iter().map(|f| FactRecord { name: f.name.clone(), value: f.value }).collect(),
    };
    content.outputs.sort_by_key(artifact_of);
    content.counts.sort();
    content.stats.sort_by_key(|s| (s.layer, s.shard));
    content.facts.sort_by(|a, b| a.name.cmp(&b.name));
    check_content(plan, task, &content)?;
    Ok(content)
}

/// Holds the result of a task against the plan, whether it came in a message or from a record.
pub fn check_content(plan: &Plan, task: TaskIndex, content: &Content) -> Result<(), String> {
    let planned = &plan.tasks[task];
    let wrong = |what: String| Err(format!("task {}: {what}", planned.id));
    if !content.outputs.iter().map(artifact_of).eq(planned.plan.outputs.iter().copied()) {
        let given: BTreeSet<_> = content.outputs.iter().map(artifact_of).collect();
        let missing = planned.plan.outputs.iter().find(|output| !given.contains(output));
        return wrong(match missing {
            Some(missing) => format!("{} is missing", named(*missing)),
            None => "it hands in files that it should not write".into(),
        });
    }
    for file in &content.outputs {
        let artifact = artifact_of(file);
        let ranks = plan.run(artifact).map_or(0, |run| run.end - run.start);
        if file.path != file.expected_path() {
            return wrong(format!("{:?} is not the name of {}", file.path, named(artifact)));
        }
        if file.keys > ranks {
            return wrong(format!("{} claims {} keys, but has {ranks} ranks", named(artifact), file.keys));
        }
        if file.error_bounds.iter().any(|bound| !(bound.is_finite() && *bound >= 0.0)) {
            return wrong(format!("{} has an error bound that is no number", named(artifact)));
        }
    }
    if let Some(pair) = content.counts.windows(2).find(|pair| (pair[0].layer, pair[0].shard) >= (pair[1].layer, pair[1].shard)) {
        return wrong(format!("layer {} shard {} was counted twice", pair[1].layer, pair[1].shard));
    }
    if let Some(odd) = content.counts.iter().find(|c| !plan.has_shard(Layer(c.layer), c.shard)) {
        return wrong(format!("it counted layer {} shard {}, which is not in the plan", odd.layer, odd.shard));
    }
    check_stats(plan, &content.stats).or_else(wrong)?;
    if content.facts.windows(2).any(|pair| pair[0].name >= pair[1].name) {
        return wrong("it states a fact twice".into());
    }
    if let Some(odd) = content.facts.iter().find(|f| !f.value.is_finite() || f.name.is_empty() || f.name.len() > MAX_FACT_NAME) {
        return wrong(format!("its fact {:?} is not a finite number with a short name", odd.name));
    }
    Ok(())
}

fn check_stats(plan: &Plan, stats: &[StatsRecord]) -> Result<(), String> {
    if let Some(pair) = stats.windows(2).find(|pair| (pair[0].layer, pair[0].shard) >= (pair[1].layer, pair[1].shard)) {
        return Err(format!("layer {} shard {} has statistics twice", pair[1].layer, pair[1].shard));
    }
    for of_shard in stats {
        let wrong = |what: &str| Err(format!("the statistics of layer {} shard {} {what}", of_shard.layer, of_shard.shard));
        if !plan.has_shard(Layer(of_shard.layer), of_shard.shard) {
            return wrong("are of none in the plan");
        }
        if ![of_shard.value_sum, of_shard.gap_sum, of_shard.gap_most].iter().all(|sum| sum.is_finite()) {
            return wrong("are not finite numbers");
        }
        if of_shard.gap_sum < 0.0 || of_shard.gap_most < 0.0 {
            return wrong("have an action gap below 0");
        }
    }
    Ok(())
}

fn stats_of_message(message: &v1::LayerStats) -> StatsRecord {
    StatsRecord {
        layer: message.layer,
        shard: message.shard,
        legal_moves: message.legal_moves,
        single_best: message.single_best,
        choices: message.choices,
        value_sum: message.value_sum,
        gap_sum: message.gap_sum,
        gap_most: message.gap_most,
    }
}

fn file_of_message(message: &v1::Artifact) -> Result<FileRecord, String> {
    let kind = match message.kind() {
        v1::ArtifactKind::Index => FileKind::Index,
        v1::ArtifactKind::Work => FileKind::Work,
        v1::ArtifactKind::Shard => FileKind::Shard,
        v1::ArtifactKind::Checkpoint => FileKind::Checkpoint,
        v1::ArtifactKind::Stretch => FileKind::Stretch,
        v1::ArtifactKind::Partial => FileKind::Partial,
        v1::ArtifactKind::Unspecified => return Err(format!("{:?}: it is not said what the file holds", message.path)),
    };
    let digest = |bytes: &[u8]| {
        Digest::try_from(bytes).map_err(|_| format!("{:?}: a hash has 32 bytes, not {}", message.path, bytes.len()))
    };
    Ok(FileRecord {
        kind,
        layer: message.layer,
        shard: message.shard,
        path: message.path.clone(),
        blake3: digest(&message.blake3)?,
        sha256: digest(&message.sha256)?,
        bytes: message.bytes,
        keys: message.keys,
        index_bytes: message.index_bytes,
        value_bytes: message.value_bytes,
        error_bounds: message.error_bounds.clone(),
    })
}

/// A file, as a message names it.
pub fn message_of_file(file: &FileRecord) -> v1::Artifact {
    let kind = match file.kind {
        FileKind::Index => v1::ArtifactKind::Index,
        FileKind::Work => v1::ArtifactKind::Work,
        FileKind::Shard => v1::ArtifactKind::Shard,
        FileKind::Checkpoint => v1::ArtifactKind::Checkpoint,
        FileKind::Stretch => v1::ArtifactKind::Stretch,
        FileKind::Partial => v1::ArtifactKind::Partial,
    };
    v1::Artifact {
        kind: kind.into(),
        layer: file.layer,
        shard: file.shard,
        path: file.path.clone(),
        blake3: file.blake3.as_bytes().to_vec(),
        sha256: file.sha256.as_bytes().to_vec(),
        bytes: file.bytes,
        keys: file.keys,
        index_bytes: file.index_bytes,
        value_bytes: file.value_bytes,
        error_bounds: file.error_bounds.clone(),
    }
}
