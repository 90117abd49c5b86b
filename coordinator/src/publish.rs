//! From commits to a table: the checks when a stage is stitched, and the manifest at the end.

use crate::plan::Plan;
use crate::record::{Commit, RECORD_FORMAT, StageRecord, artifact_of};
use crate::scheduler::StitchJob;
use std::collections::{BTreeMap, BTreeSet};
use strata_games::{Counts, Layer, LayerInfo, LayerStats, TaskId};
use strata_storage::{FileKind, FileRecord, Manifest, ManifestLayer, ManifestShard, ManifestStats};

/// Number of keys of every index and shard, as far as it is known, and who said so. Where both cover the same ranks they must agree; so
/// must all of a layer, with each other and with what theory says, where it says anything.
#[derive(Clone, Default, Debug)]
pub struct KeyCounts {
    known: BTreeMap<(u32, FileKind, u32), (u64, TaskId)>,
}

impl KeyCounts {
    /// Adds what a task says of its files.
    pub fn add(&mut self, plan: &Plan, commit: &Commit) -> Result<(), String> {
        let of_kind = |file: &&FileRecord| matches!(file.kind, FileKind::Index | FileKind::Shard);
        let mut layers = BTreeSet::new();
        for file in commit.content.outputs.iter().filter(of_kind) {
            layers.insert(file.layer);
            self.known.entry((file.layer, file.kind, file.shard)).or_insert((file.keys, commit.id()));
            let run = |kind: FileKind| plan.run(artifact_of(&FileRecord { kind, ..file.clone() }));
            for kind in [FileKind::Index, FileKind::Shard].into_iter().filter(|&kind| run(kind) == run(file.kind)) {
                let Some(&(known, other)) = self.known.get(&(file.layer, kind, file.shard)) else { continue };
                if known != file.keys {
                    return Err(format!(
                        "layer {} shard {} has {known} keys according to task {other}, and {} according to task {}",
                        file.layer,
                        file.shard,
                        file.keys,
                        commit.id()
                    ));
                }
            }
        }
        layers.into_iter().try_for_each(|layer| self.check_layer(plan, layer))
    }

    fn check_layer(&self, plan: &Plan, layer: u32) -> Result<(), String> {
        let Some(info) = plan.layer(Layer(layer)) else { return Err(format!("layer {layer} is not in the plan")) };
        let sum_of = |(kind, files): (FileKind, usize)| {
            let known: Vec<u64> =
                self.known.range((layer, kind, 0)..=(layer, kind, u32::MAX)).map(|(_, (keys, _))| *keys).collect();
            (known.len() == files).then(|| known.iter().sum::<u64>())
        };
        let [index, shards] = [(FileKind::Index, info.parts.len()), (FileKind::Shard, info.shards.len())].map(sum_of);
        if let (Some(index), Some(shards)) = (index, shards)
            && index != shards
        {
            return Err(format!("layer {layer} has {index} keys according to its indexes, and {shards} according to its shards"));
        }
        match (info.keys, index.or(shards)) {
            (Some(theory), Some(sum)) if sum != theory => Err(format!("layer {layer} has {sum} keys, but must have {theory}")),
            _ => Ok(()),
        }
    }
}

/// Puts the record of a finished stage together, if its tasks fit together.
pub fn stitch(plan: &Plan, keys: &mut KeyCounts, job: &StitchJob) -> Result<StageRecord, String> {
    let ids = job.commits.iter().map(|commit| commit.id());
    let tasks = plan.stages[job.stage as usize].tasks.clone();
    if !plan.tasks[tasks].iter().map(|task| task.id).eq(ids) {
        return Err(format!("stage {} does not have all its parts", job.stage));
    }
    // Each commit has exactly the files of its task's plan (checked when it came in), and the plan covers every layer without gaps.
    job.commits.iter().try_for_each(|commit| keys.add(plan, commit))?;
    Ok(StageRecord {
        format: RECORD_FORMAT,
        table: plan.table.clone(),
        stage: job.stage,
        commits: job.commits.iter().map(|commit| Commit::clone(commit)).collect(),
    })
}

/// The manifest of a table whose tasks are all done.
pub fn manifest(plan: &Plan, scalars: &[&str], dists: &[&str], commits: &[std::sync::Arc<Commit>]) -> Result<Manifest, String> {
    let mut counts: BTreeMap<(u32, u32), Counts> = BTreeMap::new();
    let mut stats: BTreeMap<(u32, u32), LayerStats> = BTreeMap::new();
    let mut shards: BTreeMap<(u32, u32), &FileRecord> = BTreeMap::new();
    let mut facts: BTreeMap<String, f64> = BTreeMap::new();
    for commit in commits {
        for counted in &commit.content.counts {
            let sum = counts.entry((counted.layer, counted.shard)).or_default();
            let added = add(*sum, counted.counts());
            *sum = added.ok_or_else(|| format!("the counts of layer {} do not fit into 64 bits", counted.layer))?;
        }
        for found in &commit.content.stats {
            if stats.insert((found.layer, found.shard), found.stats()).is_some() {
                return Err(format!("two tasks have statistics of layer {} shard {}", found.layer, found.shard));
            }
        }
        for fact in &commit.content.facts {
            let known = *facts.entry(fact.name.clone()).or_insert(fact.value);
            if known.to_bits() != fact.value.to_bits() {
                return Err(format!("two tasks disagree on {}: {known} and {}", fact.name, fact.value));
            }
        }
        let published = commit.content.outputs.iter().filter(|file| file.kind == FileKind::Shard);
        shards.extend(published.map(|file| ((file.layer, file.shard), file)));
    }
    let mut layers = Vec::with_capacity(plan.layers.len());
    for info in &plan.layers {
        let layer = info.layer.0;
        let mut total = Counts::default();
        let mut covered = Vec::with_capacity(info.shards.len());
        for (shard, run) in (0u32..).zip(&info.shards) {
            let file = shards.get(&(layer, shard)).ok_or_else(|| format!("layer {layer} shard {shard} is missing"))?;
            let counted = counts.get(&(layer, shard)).ok_or_else(|| format!("layer {layer} shard {shard} was not counted"))?;
            total = add(total, *counted).ok_or_else(|| format!("the counts of layer {layer} do not fit into 64 bits"))?;
            covered.push(ManifestShard::new(file, run.start, run.end - run.start, info.blocks));
        }
        let Counts { states, afterstates, terminal } = total;
        let stats = stats_of(info, &stats)?;
        layers.push(ManifestLayer { layer, universe: info.universe, states, afterstates, terminal, stats, shards: covered });
    }
    Manifest::new(&plan.published, scalars, dists, layers, facts).map_err(|error| error.to_string())
}

/// The statistics of a layer: its shards together, in their order, so that the sums have one value. Of a layer either all shards have
/// statistics or none; a build that was begun by a version without them must not end with sums over a part of the states.
fn stats_of(info: &LayerInfo, all: &BTreeMap<(u32, u32), LayerStats>) -> Result<Option<ManifestStats>, String> {
    let layer = info.layer.0;
    let known: Vec<LayerStats> = all.range((layer, 0)..=(layer, u32::MAX)).map(|(_, &stats)| stats).collect();
    let Some((&first, rest)) = known.split_first() else { return Ok(None) };
    if known.len() != info.shards.len() {
        return Err(format!("only {} of the {} shards of layer {layer} have statistics", known.len(), info.shards.len()));
    }
    let sum = rest.iter().try_fold(first, |sum, &next| sum.checked_add(next));
    let sum = sum.ok_or_else(|| format!("the statistics of layer {layer} do not fit into 64 bits"))?;
    let LayerStats { legal_moves, single_best, choices, value_sum, gap_sum, gap_most } = sum;
    Ok(Some(ManifestStats { legal_moves, single_best, choices, value_sum, gap_sum, gap_most }))
}

fn add(a: Counts, b: Counts) -> Option<Counts> {
    Some(Counts {
        states: a.states.checked_add(b.states)?,
        afterstates: a.afterstates.checked_add(b.afterstates)?,
        terminal: a.terminal.checked_add(b.terminal)?,
    })
}
