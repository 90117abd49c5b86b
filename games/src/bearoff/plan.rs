//! Layers, stages and tasks, from the name alone: counts of partitions, nothing enumerated.
//!
//! A roll takes 1 to 24 pips, so a layer needs the 24 below it, which are mapped. So that small layers are no tasks of their own a task takes
//! several: about a sixteenth of the table, within [`STAGE_KEYS`]; what it made of them stays in memory until it ends. A layer that is
//! larger than that is a stage of its own, in parts of up to [`PART_STAGES`] times as many.
//!
//! A shard has two working files ([`super::known`]): rows, number s among the parts of the layer, and steps, number n + s of n shards.

use super::count::Counting;
use super::dice::MOST_PIPS;
use super::known::{Number, ROWS_DOWN, STEPS_DOWN, rows_numbers, steps_numbers};
use crate::space::*;
use std::ops::Range;

/// Positions in a task of several layers: at least, and at most.
const STAGE_KEYS: (u64, u64) = (8192, 1 << 17);
/// A task of a part of a layer keeps nothing in memory: it has up to so many times the positions of one of several layers.
const PART_STAGES: u64 = 16;
/// A layer is cut into shards of about so many positions, or of 1/256 of the layer, whatever is more.
const SHARD_KEYS: u64 = 16384;
const MOST_SHARDS: u64 = 256;
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
        assert!(layers.iter().all(|info| info.keys.is_some_and(|keys| keys < f64::ORDINALS)), "a place has room for ordinals");
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
            let parts = small(whole(keys.div_ceil(most.saturating_mul(PART_STAGES)))).min(small(layers[first].shards.len()));
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

    /// The number of the working file that has the rows of a shard.
    pub fn rows_part(shard: usize) -> u32 {
        small(shard)
    }

    /// The number of the working file that has the steps of a shard.
    pub fn steps_part(&self, pips: usize, shard: usize) -> u32 {
        small(self.layers[pips].shards.len() + shard)
    }

    /// Whether a later stage reads what layers so far up read of a layer.
    pub fn is_read_later(&self, pips: usize, up: usize) -> bool {
        let last = (pips + up).min(self.layers.len() - 1);
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
        let id = |kind, pips: usize, shard| ArtifactId { kind, layer: self.layers[pips].layer, shard };
        let layers = self.outputs(task);
        let mut largest = 0;
        for pips in layers.clone() {
            for shard in self.shards(task, pips) {
                let ordinals = self.ordinals(counting, pips, shard);
                let keys = ordinals.end - ordinals.start;
                plan.cost += keys;
                let bytes = known_bytes(counting, pips, &ordinals);
                largest = largest.max(3 * bytes + 8 * keys);
                // What later layers of the task read stays.
                plan.memory_bytes += if pips + 1 < layers.end { bytes } else { 0 };
                plan.outputs.push(id(ArtifactKind::Shard, pips, small(shard)));
                if self.is_read_later(pips, ROWS_DOWN) {
                    plan.outputs.push(id(ArtifactKind::Work, pips, Self::rows_part(shard)));
                }
                if self.is_read_later(pips, STEPS_DOWN) {
                    plan.outputs.push(id(ArtifactKind::Work, pips, self.steps_part(pips, shard)));
                }
            }
        }
        plan.memory_bytes += largest;
        for pips in layers.start.saturating_sub(ROWS_DOWN)..layers.start {
            let shards = 0..self.layers[pips].shards.len();
            plan.inputs.extend(shards.clone().map(|shard| id(ArtifactKind::Work, pips, Self::rows_part(shard))));
            if pips + STEPS_DOWN >= layers.start {
                plan.inputs.extend(shards.map(|shard| id(ArtifactKind::Work, pips, self.steps_part(pips, shard))));
            }
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
        parts: working_files(counting, pips, shards.len()),
        shards,
        blocks: 1,
    }
}

fn cut(keys: u64, parts: u64, part: u64) -> Range<u64> {
    keys * part / parts..keys * (part + 1) / parts
}

/// Numbers in the working files of a layer, one file after the other: rows of every shard, then steps.
fn working_files(counting: &Counting, pips: usize, shards: usize) -> Vec<Range<u64>> {
    let keys = counting.layer(pips);
    let of = |shard: usize| cut(keys, shards as u64, shard as u64);
    let rows = (0..shards).map(|shard| numbers(counting, pips, &of(shard)).0);
    let steps = (0..shards).map(|shard| numbers(counting, pips, &of(shard)).1);
    let mut end = 0;
    let run = |count: u64| {
        end += count;
        end - count..end
    };
    rows.chain(steps).map(run).collect()
}

/// How many numbers the rows of a shard are at most, and its steps.
///
/// Until all checkers are on the ace point a roll takes at least 3 pips, then 2 checkers, so it is over after s/3 + C/6 + 1 rolls; and not
/// before s/24. Where positions of up to 24 pips have hashes for values, those are at most 8 rolls.
fn numbers(counting: &Counting, pips: usize, ordinals: &Range<u64>) -> (u64, u64) {
    let positions = ordinals.end - ordinals.start;
    let full = ordinals.end - counting.with_fewer(pips, counting.checkers()).clamp(ordinals.start, ordinals.end);
    let most = (pips / 3 + counting.checkers() / 6 + 2).max(pips.saturating_sub(MOST_PIPS) / 3 + 10);
    let first = if pips > MOST_PIPS { pips.div_ceil(MOST_PIPS) } else { pips.min(1) };
    let spans = [most - first, most - pips.min(1)].map(|span| span as u64);
    (rows_numbers(positions, full, spans), steps_numbers(positions, full))
}

/// Bytes of what is known of a shard in memory.
fn known_bytes(counting: &Counting, pips: usize, ordinals: &Range<u64>) -> u64 {
    let (rows, steps) = numbers(counting, pips, ordinals);
    (rows + steps) * size_of::<f64>() as u64
}

/// A count of positions of one layer, which fit in memory or are never loaded.
pub(super) fn whole(count: u64) -> usize {
    usize::try_from(count).expect("a layer is smaller than the address space")
}

/// Numbers of layers and shards are small.
pub(super) fn small(count: usize) -> u32 {
    u32::try_from(count).expect("fewer than 2^32 layers, stages or shards")
}
