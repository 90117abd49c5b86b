//! Layers, stages and tasks, from the name alone: counts of partitions, nothing enumerated.
//!
//! A roll takes 1 to 24 pips, so a layer needs the 24 below it. Reading those is what a task costs before it computes anything, so a task
//! takes several layers: about a sixteenth of the table, within [`STAGE_KEYS`]. (One layer a task reads the whole table 24 times.) Only
//! a layer that is larger than that is a stage of its own, in several parts.

use super::count::Counting;
use super::dice::MOST_PIPS;
use super::ways::{ByDie, REACH};
use crate::space::*;
use std::ops::Range;

/// Positions in a task of several layers: at least, and at most.
const STAGE_KEYS: (u64, u64) = (8192, 1 << 20);
/// A layer is cut into shards of about so many positions, or of 1/64 of the layer, whatever is more.
const SHARD_KEYS: u64 = 16384;
const MOST_SHARDS: u64 = 64;
/// What a task needs besides values: tables of counts, buffers of pieces.
const FIXED_BYTES: u64 = 4 << 20;

/// The plan of a table.
#[derive(Debug)]
pub(super) struct Plan {
    /// The layers: number i has i pips.
    pub layers: Vec<LayerInfo>,
    /// The stages.
    pub stages: Vec<Stage>,
    /// For every layer its stage.
    stage_of: Vec<u32>,
}

impl Plan {
    /// Plans a table.
    pub fn new(counting: &Counting) -> Self {
        Self::with_sizes(counting, (counting.universe() / 16).clamp(STAGE_KEYS.0, STAGE_KEYS.1), SHARD_KEYS)
    }

    /// A plan of stages of at most `most` positions and shards of about `shard`. The values do not depend on them.
    pub fn with_sizes(counting: &Counting, most: u64, shard: u64) -> Self {
        let layers: Vec<LayerInfo> = (0..=counting.pips()).map(|pips| layer(counting, pips, shard)).collect();
        let mut stages: Vec<Stage> = Vec::new();
        let mut stage_of = Vec::new();
        let mut first = 0;
        while first < layers.len() {
            let mut end = first + 1;
            let mut keys = counting.layer(first);
            while end < layers.len() && keys + counting.layer(end) <= most {
                keys += counting.layer(end);
                end += 1;
            }
            let number = small(stages.len());
            let after = match first {
                0 => Vec::new(),
                _ => (stage_of[first.saturating_sub(MOST_PIPS)]..number).collect(),
            };
            let parts = small(whole(keys.div_ceil(most))).min(small(layers[first].shards.len()));
            stages.push(Stage { pass: Pass::Backward, layers: first..end, parts, after });
            stage_of.resize(end, number);
            first = end;
        }
        Self { layers, stages, stage_of }
    }

    /// The ordinals of a shard's keys within their layer.
    pub fn ordinals(&self, counting: &Counting, pips: usize, shard: usize) -> Range<u64> {
        cut(counting.layer(pips), self.layers[pips].shards.len() as u64, shard as u64)
    }

    /// Whether a later stage reads a layer.
    pub fn is_read_later(&self, pips: usize) -> bool {
        let last = (pips + MOST_PIPS).min(self.layers.len() - 1);
        self.stage_of[last] > self.stage_of[pips]
    }

    /// The layers that a task computes.
    pub fn outputs(&self, task: TaskId) -> Range<usize> {
        match self.stages.get(task.stage as usize) {
            Some(stage) if task.part < stage.parts => stage.layers.clone(),
            _ => panic!("the plan has no task {task}"),
        }
    }

    /// The shards that a task computes of one of its layers.
    pub fn shards(&self, task: TaskId, pips: usize) -> Range<usize> {
        let parts = u64::from(self.stages[task.stage as usize].parts);
        let run = cut(self.layers[pips].shards.len() as u64, parts, u64::from(task.part));
        whole(run.start)..whole(run.end)
    }

    /// One task.
    pub fn task(&self, counting: &Counting, task: TaskId) -> TaskPlan {
        let mut plan = TaskPlan { inputs: Vec::new(), outputs: Vec::new(), cost: 0, memory_bytes: FIXED_BYTES };
        let id = |kind, pips: usize, shard| ArtifactId { kind, layer: self.layers[pips].layer, shard: small(shard) };
        let layers = self.outputs(task);
        for pips in layers.clone() {
            for shard in self.shards(task, pips) {
                let ordinals = self.ordinals(counting, pips, shard);
                let keys = ordinals.end - ordinals.start;
                plan.cost += keys;
                plan.memory_bytes += own_bytes(counting, pips, ordinals);
                plan.outputs.push(id(ArtifactKind::Shard, pips, shard));
                if self.is_read_later(pips) {
                    plan.outputs.push(id(ArtifactKind::Work, pips, shard));
                }
            }
        }
        for pips in layers.start.saturating_sub(MOST_PIPS)..layers.start {
            plan.memory_bytes += input_bytes(counting, pips, layers.start - pips);
            plan.inputs.extend((0..self.layers[pips].shards.len()).map(|shard| id(ArtifactKind::Work, pips, shard)));
        }
        plan
    }
}

fn layer(counting: &Counting, pips: usize, shard: u64) -> LayerInfo {
    let keys = counting.layer(pips);
    let parts = if keys <= shard { 1 } else { keys.div_ceil(shard.max(keys.div_ceil(MOST_SHARDS))) };
    let start = |part: u64| match part {
        0 => 0,
        _ if part == parts => counting.universe(),
        _ => counting.index(counting.position(pips, cut(keys, parts, part).start)),
    };
    let shards: Vec<Range<u64>> = (0..parts).map(|part| start(part)..start(part + 1)).collect();
    LayerInfo {
        layer: Layer(small(pips)),
        universe: counting.universe(),
        keys: Some(keys),
        parts: shards.clone(),
        shards,
        blocks: 1,
    }
}

fn cut(keys: u64, parts: u64, part: u64) -> Range<u64> {
    keys * part / parts..keys * (part + 1) / parts
}

/// Upper bounds of the bytes of a position's columns in memory: with fewer than C checkers, and more for those with C.
///
/// Until all checkers are on the ace point a roll takes at least 3 pips, then 2 checkers, so it is over after s/3 + C/6 + 1 rolls; and not
/// before s/24.
fn column_bytes(counting: &Counting, pips: usize) -> (u64, u64) {
    let span = 8 * (pips / 3 + counting.checkers() / 6 + 2 - pips.div_ceil(MOST_PIPS)) as u64;
    // Mean and variance; ends and firsts of two distributions; their entries; mean and variance of the second one.
    (16 + 18 + span + 8, span + 16)
}

/// Bytes of the best plays of a position with 1, 2 or 3 moves of each die.
const CHAIN_BYTES: u64 = size_of::<ByDie>() as u64;

/// Bytes of a layer that is read, so many pips down.
fn input_bytes(counting: &Counting, pips: usize, down: usize) -> u64 {
    let keys = counting.layer(pips);
    let untouched = keys - counting.with_fewer(pips, counting.checkers());
    let chains = CHAIN_BYTES * REACH.iter().filter(|&&reach| down <= reach).count() as u64;
    let (every, more) = column_bytes(counting, pips);
    keys * (every + chains) + untouched * (more + chains)
}

/// Bytes of a shard that is computed: its keys, columns and best plays, twice while the pieces of the threads are put together.
fn own_bytes(counting: &Counting, pips: usize, ordinals: Range<u64>) -> u64 {
    let untouched = ordinals.end - ordinals.end.min(counting.with_fewer(pips, counting.checkers()).max(ordinals.start));
    let (every, more) = column_bytes(counting, pips);
    let chains = 3 * CHAIN_BYTES;
    2 * ((ordinals.end - ordinals.start) * (every + chains) + untouched * (more + chains)) + 8 * (ordinals.end - ordinals.start)
}

/// A count of positions of one layer, which fit in memory or are never loaded.
pub(super) fn whole(count: u64) -> usize {
    usize::try_from(count).expect("a layer is smaller than the address space")
}

/// Numbers of layers and shards are small.
pub(super) fn small(count: usize) -> u32 {
    u32::try_from(count).expect("fewer than 2^32 layers, stages or shards")
}
