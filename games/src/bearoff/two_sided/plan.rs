//! Layers, stages and tasks of a two-sided table.
//!
//! A task computes a run of shards of one layer, or several small layers whole. What it reads of earlier stages are the working files of the
//! blocks that its plays lead to: for a block (P, Q) the blocks (Q, P - k) of the 24 layers before.

use super::geometry::{Block, Geometry};
use super::plays::LIST_BYTES;
use super::sweep::{PLANES, ROW};
use crate::bearoff::dice::MOST_PIPS;
use crate::bearoff::plan::{small, whole};
use crate::space::*;
use std::collections::BTreeSet;
use std::ops::Range;

/// Pairs of a stage of several layers, at most.
const STAGE_PAIRS: u64 = 1 << 22;
/// A shard has about so many pairs.
const SHARD_PAIRS: u64 = 1 << 20;
/// A task of a large layer has about so many.
const TASK_PAIRS: u64 = 1 << 23;
/// What a task needs besides rows, values and lists of plays: buffers of pieces.
const FIXED_BYTES: u64 = 16 << 20;

/// Some strips of a block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Run {
    pub block: Block,
    pub strips: Range<usize>,
}

/// What a shard covers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ShardShape {
    pub runs: Vec<Run>,
    /// Of the layer's pairs.
    pub ranks: Range<u64>,
    /// Of the layer's rows.
    pub rows: Range<u64>,
}

/// The plan of a table.
#[derive(Debug)]
pub(super) struct Plan {
    pub layers: Vec<LayerInfo>,
    pub stages: Vec<Stage>,
    shards: Vec<Vec<ShardShape>>,
    stage_of: Vec<u32>,
}

/// How large stages, shards and tasks are, in pairs. The values do not depend on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub stage: u64,
    pub shard: u64,
    pub task: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { stage: STAGE_PAIRS, shard: SHARD_PAIRS, task: TASK_PAIRS }
    }
}

impl Plan {
    pub fn new(geometry: &Geometry, sizes: Sizes) -> Self {
        let shards: Vec<Vec<ShardShape>> =
            (0..geometry.layers().len()).map(|sum| cut(&geometry.layers()[sum].blocks, sizes.shard)).collect();
        let layers = (0u32..).zip(geometry.layers()).zip(&shards).map(|((sum, shape), shards)| LayerInfo {
            layer: Layer(sum),
            universe: shape.ranks,
            keys: Some(shape.ranks),
            shards: shards.iter().map(|shard| shard.ranks.clone()).collect(),
            parts: shards.iter().map(|shard| shard.rows.start * ROW as u64..shard.rows.end * ROW as u64).collect(),
            blocks: shape.blocks.len() as u64,
        });
        let layers: Vec<LayerInfo> = layers.collect();
        let (mut stages, mut stage_of) = (Vec::<Stage>::new(), Vec::<u32>::new());
        let mut first = 0;
        while first < layers.len() {
            let mut end = first + 1;
            let mut pairs = layers[first].universe;
            while end < layers.len() && pairs + layers[end].universe <= sizes.stage {
                pairs += layers[end].universe;
                end += 1;
            }
            let number = small(stages.len());
            let after = if first == 0 { Vec::new() } else { (stage_of[first.saturating_sub(MOST_PIPS)]..number).collect() };
            let parts = if end - first > 1 { 1 } else { pairs.div_ceil(sizes.task).clamp(1, shards[first].len() as u64) };
            stages.push(Stage { pass: Pass::Backward, layers: first..end, parts: small(whole(parts)), after });
            stage_of.resize(end, number);
            first = end;
        }
        Self { layers, stages, shards, stage_of }
    }

    /// Whether a later stage reads a layer.
    pub fn is_read_later(&self, layer: usize) -> bool {
        let last = (layer + MOST_PIPS).min(self.layers.len() - 1);
        self.stage_of[last] > self.stage_of[layer]
    }

    /// The layers that a task computes.
    pub fn outputs(&self, task: TaskId) -> Range<usize> {
        match self.stages.get(task.stage as usize) {
            Some(stage) if task.part < stage.parts => stage.layers.clone(),
            _ => panic!("the plan has no task {task}"),
        }
    }

    /// The shards of a layer.
    pub fn shards(&self, layer: usize) -> &[ShardShape] {
        &self.shards[layer]
    }

    /// The shards that a task computes of one of its layers. Every other layer is gone through backwards: where what it reads is more than
    /// memory, it begins with what the layer before has read last.
    pub fn part(&self, task: TaskId, layer: usize) -> Range<usize> {
        let (parts, part) = (u64::from(self.stages[task.stage as usize].parts), u64::from(task.part));
        let part = if Self::is_backwards(layer) { parts - 1 - part } else { part };
        let shards = self.shards[layer].len() as u64;
        whole(shards * part / parts)..whole(shards * (part + 1) / parts)
    }

    /// Whether a layer is gone through from its last shard to its first.
    pub fn is_backwards(layer: usize) -> bool {
        !layer.is_multiple_of(2)
    }

    /// The shards of earlier layers that a task reads: layer and number.
    pub fn inputs(&self, geometry: &Geometry, task: TaskId) -> BTreeSet<(usize, usize)> {
        let layers = self.outputs(task);
        let mut inputs = BTreeSet::new();
        for layer in layers.clone() {
            for run in self.shards[layer][self.part(task, layer)].iter().flat_map(|shard| &shard.runs) {
                for (sum, source) in sources(geometry, &run.block).filter(|&(sum, _)| sum < layers.start) {
                    let shards = &self.shards[sum];
                    let first = shards.partition_point(|shard| shard.rows.end <= source.first_row);
                    let end = source.first_row + source.rows();
                    let reach = shards[first..].iter().take_while(|shard| shard.rows.start < end).count();
                    inputs.extend((first..first + reach).map(|shard| (sum, shard)));
                }
            }
        }
        inputs
    }

    /// One task.
    pub fn task(&self, geometry: &Geometry, task: TaskId) -> TaskPlan {
        let id = |kind, layer: usize, shard| ArtifactId { kind, layer: self.layers[layer].layer, shard: small(shard) };
        let inputs = self.inputs(geometry, task).into_iter().map(|(layer, shard)| id(ArtifactKind::Work, layer, shard)).collect();
        let mut plan = TaskPlan { inputs, outputs: Vec::new(), cost: 0, memory_bytes: FIXED_BYTES };
        plan.memory_bytes += geometry.counting.universe() * LIST_BYTES;
        let layers = self.outputs(task);
        let (mut kept, mut widest) = (0, 0);
        for layer in layers.clone() {
            for number in self.part(task, layer) {
                let shard = &self.shards[layer][number];
                plan.cost += shard.ranks.end - shard.ranks.start;
                plan.outputs.push(id(ArtifactKind::Shard, layer, number));
                if self.is_read_later(layer) {
                    plan.outputs.push(id(ArtifactKind::Work, layer, number));
                }
                let (rows, stored) = bytes(shard);
                kept += if layers.len() > 1 { rows } else { 0 };
                let read: u64 = shard.runs.iter().map(|run| strip_bytes(geometry, &run.block)).max().unwrap_or(0);
                widest = widest.max(rows + stored + 4 * read);
            }
        }
        plan.memory_bytes += kept + widest;
        plan
    }
}

/// Bytes of a shard's rows, and of what is stored.
fn bytes(shard: &ShardShape) -> (u64, u64) {
    ((shard.rows.end - shard.rows.start) * ROW as u64 * 4, (shard.ranks.end - shard.ranks.start) * PLANES as u64 * 4)
}

/// Bytes that one strip of the other side reads for a block.
fn strip_bytes(geometry: &Geometry, block: &Block) -> u64 {
    sources(geometry, block).map(|(_, source)| source.strip(0).rows as u64 * ROW as u64 * 4).sum()
}

/// The blocks that a block's plays lead to, and their layers.
pub(super) fn sources<'g>(geometry: &'g Geometry, block: &Block) -> impl Iterator<Item = (usize, &'g Block)> {
    let (pips, others) = (block.pips, block.others_pips);
    let most = if others == 0 { 0 } else { MOST_PIPS.min(pips) };
    (1..=most).filter_map(move |taken| Some((others + pips - taken, geometry.block(others, pips - taken)?)))
}

/// Cuts a layer into shards of about so many pairs, between strips.
fn cut(blocks: &[Block], most: u64) -> Vec<ShardShape> {
    let mut shards = Vec::new();
    let mut shard = ShardShape { runs: Vec::new(), ranks: 0..0, rows: 0..0 };
    for block in blocks {
        let mut first = 0;
        for number in 0..block.strips() {
            let strip = block.strip(number);
            shard.ranks.end = strip.first_rank + strip.ranks();
            shard.rows.end = strip.first_row + strip.rows as u64;
            if shard.ranks.end - shard.ranks.start >= most {
                shard.runs.push(Run { block: *block, strips: first..number + 1 });
                first = number + 1;
                let (ranks, rows) = (shard.ranks.end, shard.rows.end);
                let next = ShardShape { runs: Vec::new(), ranks: ranks..ranks, rows: rows..rows };
                shards.push(std::mem::replace(&mut shard, next));
            }
        }
        if first < block.strips() {
            shard.runs.push(Run { block: *block, strips: first..block.strips() });
        }
    }
    if !shard.runs.is_empty() {
        shards.push(shard);
    }
    shards
}
