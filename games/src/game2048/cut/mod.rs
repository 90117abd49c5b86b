//! Cut ages: stages of several tasks, so that several workers can do one age.
//!
//! The ranks of a large age are cut into *parts*, runs of about the same length. A block belongs to the part in which it begins. New tiles lead
//! from a block to its neighbours, so what a part needs of other ages is in a few parts of them; moves up and down lead anywhere
//! in the age, so there each task hands something to all others. An age has three stages ([`Step`]):
//!
//! ```text
//!     find    afterstates, near            ──▶ what its states' moves lead to, anywhere: a partial set
//!             the age before: partial sets ──▶ the set of its afterstates, one part of it
//!     value   values of states, near       ──▶ values of the afterstates of a part
//!     solve   values of afterstates, all   ──▶ values of the states of a part; shards; statistics of its blocks
//! ```
//!
//! Partial sets are joined by OR, in any order. Values do not depend on how an age is cut; the statistics of its states are sums of f64 in the order of
//! its blocks, so they are handed over block by block and added up by one task of the next stage ([`Game2048::settle`]).

mod kernels;
#[cfg(test)]
mod tests;

use super::Game2048;
use super::plan::{Step, Sweep, memory_of};
use super::ranks::Blocks;
use super::rows::LayerSize;
use crate::space::*;
use std::ops::Range;

/// Numbers that are handed over for a block: its statistics.
const STATISTICS: u64 = 6;

/// The parts of an age of this size, `most` of them or a half, a quarter, ... as many, so that the same workers come out even; `None` when it
/// is not worth cutting.
pub fn parts(size: &LayerSize, most: u32, least_ranks: u64) -> Option<Vec<Range<u64>>> {
    let universe = u64::try_from(size.universe).ok()?;
    // A file of statistics has no more numbers than its part has ranks.
    let least = least_ranks.max(size.blocks * STATISTICS).max(JOIN_RANKS);
    let halves = std::iter::successors(Some(u64::from(most)), |count| Some(count / 2).filter(|&half| half > 1));
    let count = halves.into_iter().find(|count| count * least <= universe)?;
    let start = |part: u64| if part == count { universe } else { universe * part / count / JOIN_RANKS * JOIN_RANKS };
    (count > 1).then(|| (0..count).map(|part| start(part)..start(part + 1)).collect())
}

/// What part of a stage's parts does number `i` of so many things.
fn doer(i: usize, of: usize, parts: usize) -> usize {
    i * parts / of
}

fn file(kind: ArtifactKind, info: &LayerInfo, number: u32) -> ArtifactId {
    ArtifactId { kind, layer: info.layer, shard: number }
}

/// Values of the afterstates of a part, beside those of its states.
fn after_values(info: &LayerInfo, part: u32) -> u32 {
    info.parts.len() as u32 + part
}

/// The file of the statistics of a part's blocks.
fn statistics_of(info: &LayerInfo, part: u32) -> u32 {
    2 * info.parts.len() as u32 + part
}

/// The files of the statistics of the blocks of a cut layer.
pub fn statistics(info: &LayerInfo) -> impl Iterator<Item = ArtifactId> + '_ {
    (0..info.parts.len() as u32).map(|part| file(ArtifactKind::Work, info, statistics_of(info, part)))
}

/// The file of what a part found of a layer. An age may be enumerated twice.
fn partial(info: &LayerInfo, sweep: Sweep, part: u32) -> u32 {
    part + if sweep == Sweep::Again { info.parts.len() as u32 } else { 0 }
}

/// The partial sets that a task joins: of which layer, found by which stage.
#[derive(Clone, Copy)]
struct Joins {
    layer: usize,
    stage: usize,
    sweep: Sweep,
}

/// The blocks that begin in a run of ranks.
fn blocks_in(blocks: &Blocks, run: &Range<u64>) -> Range<usize> {
    let [start, end] = [run.start, run.end].map(|at| blocks.partition_point(|block| u64::from(block.base) < at));
    start..end
}

/// The blocks that have ranks of a run.
fn blocks_over(blocks: &Blocks, run: &Range<u64>) -> Range<usize> {
    let Range { start, end } = blocks_in(blocks, run);
    let begins = blocks.get(start).is_some_and(|block| u64::from(block.base) == run.start);
    if begins || start == 0 { start..end } else { start - 1..end }
}

impl<const R: usize, const C: usize> Game2048<R, C> {
    /// A run of ranks of another age that holds all blocks with one row's sum larger by `more` than in some blocks, or smaller: their first rows
    /// have the sums of those blocks' first rows, that one, or one between. A few rows' blocks are little of a part.
    fn beside(&self, of: &Blocks, blocks: &Range<usize>, other: &Blocks, more: i64) -> Range<u64> {
        let of = of.get(blocks.clone()).unwrap_or_default();
        let (Some(first), Some(last)) = (of.first(), of.last()) else { return 0..0 };
        let sums = &self.rows.sums;
        let [lowest, highest] =
            [(first, more.min(0)), (last, more.max(0))].map(|(block, more)| i64::from(sums[usize::from(block.first)]) + more);
        let row = |sum: i64| other.partition_point(|block| i64::from(sums[usize::from(block.first)]) < sum);
        other.ranks_of(&(row(lowest)..row(highest + 1)))
    }

    /// The parts of an age that hold what new tiles lead to, or come from, some blocks; `more` is what the sums differ by.
    fn parts_beside(&self, of: &Blocks, blocks: &Range<usize>, layer: usize, more: i64) -> Vec<u32> {
        let info = &self.layers[layer];
        info.parts_with(&self.beside(of, blocks, &self.outline(info.layer.0), more))
    }

    /// The layers whose afterstates new tiles take to a layer, and what the sums differ by.
    fn parents(layer: usize) -> impl Iterator<Item = (usize, i64)> {
        [(1, -2), (2, -4)].into_iter().filter_map(move |(less, more)| Some((layer.checked_sub(less)?, more)))
    }

    /// The layers to which new tiles take the afterstates of a layer, and what the sums differ by.
    fn children(&self, layer: usize) -> impl Iterator<Item = (usize, i64)> {
        [(layer + 1, 2), (layer + 2, 4)].into_iter().filter(|(layer, _)| *layer < self.layers.len())
    }

    /// What the tasks of a stage join.
    fn joins(&self, stage: usize) -> Option<Joins> {
        let found = |stage: usize| match self.stages.steps[stage] {
            Step::Find(sweep) => Some(Joins { layer: self.stages.stages[stage].layers.start, stage, sweep }),
            _ => None,
        };
        // A stretch begins with what the checkpoint before it has.
        found(stage.checked_sub(1)?).filter(|joins| {
            matches!(self.stages.steps[stage], Step::Join(_)) || joins.layer + 1 == self.stages.stages[stage].layers.start
        })
    }

    /// One task of a stage that is cut.
    pub(super) fn task_of_part(&self, task: TaskId) -> TaskPlan {
        let (number, part) = (task.stage as usize, task.part);
        let stage = &self.stages.stages[number];
        let at = stage.layers.start;
        let info = &self.layers[at];
        let outline = self.outline(info.layer.0);
        let run = &info.parts[part as usize];
        let set = |layer: usize, part: u32| file(self.stages.kind(number, layer), &self.layers[layer], part);
        let work = |layer: usize, number: u32| file(ArtifactKind::Work, &self.layers[layer], number);
        let every = |layer: usize| 0..self.layers[layer].parts.len() as u32;
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        let share = match self.stages.steps[number] {
            Step::Find(sweep) => {
                let blocks = blocks_in(&outline, run);
                let joins = self.joins(number);
                for (layer, more) in Self::parents(at).filter(|(layer, _)| joins.is_none_or(|joins| joins.layer != *layer)) {
                    inputs.extend(self.parts_beside(&outline, &blocks, layer, more).into_iter().map(|part| set(layer, part)));
                }
                outputs.push(file(ArtifactKind::Partial, info, partial(info, sweep, part)));
                1.0
            }
            Step::Value => {
                let blocks = blocks_over(&outline, run);
                let own = info.parts_with(&outline.ranks_of(&blocks));
                inputs.extend(own.into_iter().map(|part| set(at, part)));
                for (layer, more) in self.children(at) {
                    inputs.extend(self.parts_beside(&outline, &blocks, layer, more).into_iter().map(|part| work(layer, part)));
                }
                if let Some(above) = self.settles(at).filter(|_| part == 0) {
                    inputs.extend(statistics(above));
                }
                outputs.push(work(at, after_values(info, part)));
                VALUE_SHARE
            }
            Step::Solve => {
                let blocks = blocks_over(&outline, run);
                inputs.extend(every(at).flat_map(|part| [set(at, part), work(at, after_values(info, part))]));
                for (layer, more) in Self::parents(at) {
                    inputs.extend(self.parts_beside(&outline, &blocks, layer, more).into_iter().map(|part| set(layer, part)));
                }
                outputs.extend([part, statistics_of(info, part)].map(|number| work(at, number)));
                outputs.extend(self.shards_of(info, part).map(|shard| file(ArtifactKind::Shard, info, shard)));
                1.0 - VALUE_SHARE
            }
            _ => JOIN_SHARE,
        };
        if let Some(Joins { layer, stage: found, sweep }) = self.joins(number) {
            let joined = &self.layers[layer];
            inputs.extend(every(layer).map(|part| file(ArtifactKind::Partial, joined, partial(joined, sweep, part))));
            let kind = self.stages.kind(found, layer);
            outputs.extend(self.joined_by(layer, stage.parts, part).map(|part| file(kind, joined, part)));
        }
        let cost = ((run.end - run.start) as f64 * share) as u64;
        TaskPlan { inputs, outputs, cost, memory_bytes: memory_of(&self.layers, &self.stages, false, number) }
    }

    /// The layer whose statistics are added up when this one is valued.
    fn settles(&self, layer: usize) -> Option<&LayerInfo> {
        self.layers.get(layer + 1).filter(|_| self.stages.is_cut[layer + 1])
    }

    /// The shards that a task of a layer publishes.
    fn shards_of(&self, info: &LayerInfo, part: u32) -> impl Iterator<Item = u32> + use<R, C> {
        let (shards, parts) = (info.shards.len(), info.parts.len());
        (0..shards).filter(move |&shard| doer(shard, shards, parts) == part as usize).map(|shard| shard as u32)
    }

    /// The parts of a layer whose sets a task puts together, which is one of so many.
    fn joined_by(&self, layer: usize, tasks: u32, task: u32) -> impl Iterator<Item = u32> + use<R, C> {
        let parts = self.layers[layer].parts.len();
        (0..parts).filter(move |&part| doer(part, parts, tasks as usize) == task as usize).map(|part| part as u32)
    }
}

/// What part of the work of the backward pass it is to value afterstates, and of the forward pass to join partial sets.
const VALUE_SHARE: f64 = 0.4;
const JOIN_SHARE: f64 = 0.1;
