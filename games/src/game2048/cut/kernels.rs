//! What the tasks of cut ages compute.

use super::super::after::Valued;
use super::super::backward::{hand_over_part, other_states, put_samples};
use super::super::bits::{Ranked, RankedBits, places};
use super::super::forward::{part_of, releasers, words_in};
use super::super::moves::Tally;
use super::super::ranks::LayerRanks;
use super::super::room::Room;
use super::super::spawn::Afterstates;
use super::super::states::{Solved, total, words_of};
use super::*;
use crate::array::Array;
use crate::columns::ColumnsView;
use crate::keys::{Bitmap, Keys};
use crate::name::Keep;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many ranks of a run are in a set.
fn count_in(words: &[u64], run: &Range<u64>) -> u64 {
    places(|at| words[at], run.clone()).count() as u64
}

/// Values that a thread reads before those in memory are released.
const HELD: usize = 1 << 20;

/// Cuts ascending runs out of a slice.
fn slices<T>(mut rest: &mut [T], runs: impl Iterator<Item = Range<usize>>) -> Vec<&mut [T]> {
    let mut from = 0;
    let cut = |run: Range<usize>| {
        let (slice, after) = std::mem::take(&mut rest)[run.start - from..].split_at_mut(run.len());
        (rest, from) = (after, run.end);
        slice
    };
    runs.map(cut).collect()
}

/// Numbers in a working file.
fn numbers(values: &[f64]) -> ColumnsView<'_> {
    ColumnsView { scalars: vec![values], ..ColumnsView::default() }
}

impl<const R: usize, const C: usize> Game2048<R, C> {
    /// Some parts of the afterstates of a layer; in the others nothing is.
    fn some_afterstates(
        &self,
        room: &Room<'_>,
        info: &LayerInfo,
        parts: &[u32],
        fill: impl FnOnce(Vec<(u32, &mut [u64])>) -> Result<(), TaskError>,
    ) -> Result<Afterstates<R, C>, TaskError> {
        let mut words = room.array::<u64>(info.ranks().div_ceil(64) as usize)?;
        let runs = parts.iter().map(|&part| words_in(&info.parts[part as usize]));
        fill(parts.iter().copied().zip(slices(&mut words, runs)).collect())?;
        words.releaser().release();
        let places = Bitmap::from_words(words, info.ranks());
        Ok(Afterstates { ranks: self.ranks(info.layer.0), places })
    }

    /// Some parts of the afterstates of a layer, from their files.
    fn loaded_parts(
        &self,
        room: &Room<'_>,
        stage: usize,
        layer: usize,
        parts: &[u32],
        io: &dyn TaskIo,
    ) -> Result<Afterstates<R, C>, TaskError> {
        let (info, kind) = (&self.layers[layer], self.stages.kind(stage, layer));
        self.some_afterstates(room, info, parts, |parts| {
            parts
                .into_par_iter()
                .try_for_each(|(part, words)| io.join_index(kind, info.layer, part, &mut [Run { from: 0, words }]))
        })
    }

    /// The afterstates from which new tiles lead to some blocks.
    fn parents_of_blocks(
        &self,
        room: &Room<'_>,
        stage: usize,
        layer: usize,
        ranks: &LayerRanks<R, C>,
        blocks: &Range<usize>,
        io: &dyn TaskIo,
    ) -> Result<Vec<Afterstates<R, C>>, TaskError> {
        let load =
            |(layer, more)| self.loaded_parts(room, stage, layer, &self.parts_beside(&ranks.blocks, blocks, layer, more), io);
        Self::parents(layer).map(load).collect()
    }

    /// Joins what the tasks of the age before have found, finds what the moves of the states of a part lead to, or both.
    pub(in super::super) fn find_part(&self, task: TaskId, io: &dyn TaskIo) -> Result<(), TaskError> {
        let room = Room::new(io);
        let (stage, part) = (task.stage as usize, task.part);
        let planned = &self.stages.stages[stage];
        let (at, joins) = (planned.layers.start, self.joins(stage));
        let (info, ranks) = (&self.layers[at], self.ranks(self.layers[at].layer.0));
        let finds = match self.stages.steps[stage] {
            Step::Find(sweep) => Some(sweep),
            _ => None,
        };
        let blocks = blocks_in(&ranks.blocks, &info.parts[part as usize]);
        let mut known = Vec::new();
        for (layer, more) in Self::parents(at).filter(|(layer, _)| finds.is_some() && joins.is_none_or(|it| it.layer != *layer)) {
            known.push(self.loaded_parts(&room, stage, layer, &self.parts_beside(&ranks.blocks, &blocks, layer, more), io)?);
        }
        if let Some(joins) = joins {
            let mine: Vec<u32> = self.joined_by(joins.layer, planned.parts, part).collect();
            let mut wanted = mine.clone();
            if finds.is_some() {
                wanted.extend(self.parts_beside(&ranks.blocks, &blocks, joins.layer, -2));
            }
            wanted.sort_unstable();
            wanted.dedup();
            let joined = self.join(&room, joins, &wanted, io)?;
            self.put_joined(joins, &joined, &mine, io)?;
            known.push(joined);
        }
        let Some(sweep) = finds else { return Ok(()) };
        let (starts, done) = (self.starts_of(ranks.age()), releasers(&known));
        let (found, tally) = self.move_blocks(&room, self.origin(&ranks, &known, &starts), &blocks, &done)?;
        io.progress(info.layer, tally.states)?;
        io.put_index(ArtifactKind::Partial, info.layer, partial(info, sweep, part), Keys::Bits(&found))?;
        if sweep != Sweep::Again {
            // States do not lie in shards: the first has them all.
            let Tally { states, terminal } = tally;
            io.put_counts(info.layer, 0, Counts { states, terminal, afterstates: 0 })?;
        }
        Ok(())
    }

    /// Some parts of a layer, from what the tasks of its stage have found.
    fn join(&self, room: &Room<'_>, joins: Joins, parts: &[u32], io: &dyn TaskIo) -> Result<Afterstates<R, C>, TaskError> {
        let info = &self.layers[joins.layer];
        self.some_afterstates(room, info, parts, |parts| {
            let run = |(part, words): (u32, _)| Run { from: info.parts[part as usize].start, words };
            let mut runs: Vec<Run<'_>> = parts.into_iter().map(run).collect();
            (0..info.parts.len() as u32).try_for_each(|from| {
                io.join_index(ArtifactKind::Partial, info.layer, partial(info, joins.sweep, from), &mut runs)
            })
        })
    }

    /// Writes parts of a layer that are put together, and counts them.
    fn put_joined(&self, joins: Joins, joined: &Afterstates<R, C>, parts: &[u32], io: &dyn TaskIo) -> Result<(), TaskError> {
        let (info, words) = (&self.layers[joins.layer], joined.places.words());
        let kind = self.stages.kind(joins.stage, joins.layer);
        // Shards of samples are no runs of ranks: the one there is has all.
        let whole = 0..info.ranks();
        let shards = if self.spec.keep == Keep::Stats { std::slice::from_ref(&whole) } else { &info.shards[..] };
        let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
        for &part in parts {
            let run = &info.parts[part as usize];
            io.put_index(kind, info.layer, part, Keys::Bits(&part_of(words, run)))?;
            for (shard, of_shard) in (0..).zip(shards) {
                let both = of_shard.start.max(run.start)..of_shard.end.min(run.end);
                if both.start < both.end {
                    *counts.entry(shard).or_default() += count_in(words, &both);
                }
            }
        }
        let counts = counts.into_iter().filter(|_| joins.sweep != Sweep::Again);
        counts
            .into_iter()
            .try_for_each(|(shard, afterstates)| io.put_counts(info.layer, shard, Counts { afterstates, ..Counts::default() }))
    }

    /// The states to which new tiles lead from some blocks, valued.
    fn children_of_blocks(
        &self,
        room: &Room<'_>,
        layer: usize,
        ranks: &LayerRanks<R, C>,
        blocks: &Range<usize>,
        io: &dyn TaskIo,
    ) -> Result<Vec<Valued<R, C>>, TaskError> {
        let load = |(layer, more): (usize, i64)| {
            let info = &self.layers[layer];
            let parts = self.parts_beside(&ranks.blocks, blocks, layer, more);
            let words = info.ranks().div_ceil(64) as usize;
            let mut set = RankedBits::begin(words, |words| room.array(words))?;
            for &part in &parts {
                let run = words_in(&info.parts[part as usize]);
                // With the word after them: how many are before it is how many there are.
                let mut bits = Array::zeroed((run.len() + 1).min(words - run.start));
                io.join_index(ArtifactKind::Work, info.layer, part, &mut [Run { from: 0, words: &mut bits[..run.len()] }])?;
                set.tell(run.start, &bits);
                set.releaser().release();
            }
            let count = set.count() as usize;
            let values =
                self.read_values(room.array::<f64>(count)?, info, set.view(), parts.iter().map(|&part| (part, part)), io)?;
            Ok(Valued { ranks: self.ranks(info.layer.0), set, values })
        };
        self.children(layer).map(load).collect()
    }

    /// Reads the working values of the members of a set, of which each part is in a file.
    pub(in super::super) fn read_values(
        &self,
        mut values: Array<f64>,
        info: &LayerInfo,
        set: Ranked<'_>,
        files: impl Iterator<Item = (u32, u32)>,
        io: &dyn TaskIo,
    ) -> Result<Array<f64>, TaskError> {
        let done = values.releaser();
        let (files, of_parts): (Vec<u32>, Vec<Range<usize>>) =
            files.map(|(part, number)| (number, set.numbers(&info.parts[part as usize]))).unzip();
        files.into_par_iter().zip(slices(&mut values, of_parts.into_iter())).try_for_each(|(number, to)| {
            let (mut at, mut held, mut fits) = (0, 0, true);
            io.read_work(info.layer, number, &mut |values| {
                match to.get_mut(at..at + values.len()) {
                    Some(to) => to.copy_from_slice(values),
                    None => fits = false,
                }
                at += values.len();
                held += values.len();
                if held >= HELD {
                    done.release();
                    held = 0;
                }
            })?;
            done.release();
            if fits && at == to.len() { Ok(()) } else { Err(other_states(info.layer)) }
        })?;
        Ok(values)
    }

    /// Values the afterstates of a part.
    pub(in super::super) fn value_part(&self, task: TaskId, io: &dyn TaskIo) -> Result<(), TaskError> {
        let room = Room::new(io);
        let stage = task.stage as usize;
        let at = self.stages.stages[stage].layers.start;
        let (info, ranks) = (&self.layers[at], self.ranks(self.layers[at].layer.0));
        let run = &info.parts[task.part as usize];
        if let Some(above) = self.settles(at).filter(|_| task.part == 0) {
            self.settle(above, io)?;
        }
        let blocks = blocks_over(&ranks.blocks, run);
        let covered = ranks.ranks_of_blocks(&blocks);
        let now = self.loaded_parts(&room, stage, at, &info.parts_with(&covered), io)?;
        let above = self.children_of_blocks(&room, at, &ranks, &blocks, io)?;
        let set = self.ranked(&room, &now.places, &covered)?;
        drop(now);
        let children = [2, 4].map(|more| above.iter().find(|states| states.ranks.age() == ranks.age() + more));
        let values = self.value_afterstates(&room, &ranks, &blocks, &set, children)?;
        io.put_work(info.layer, after_values(info, task.part), None, numbers(&values[set.view().numbers(run)]))?;
        io.progress(info.layer, set.view().numbers(run).len() as u64)
    }

    /// The members of a set that are in a run of places.
    fn ranked(&self, room: &Room<'_>, places: &Bitmap, run: &Range<u64>) -> Result<RankedBits, TaskError> {
        let words = places.words();
        let mut set = RankedBits::begin(words.len(), |words| room.array_anywhere(words, 0))?;
        let told = words_of(run, words.len());
        let mut within = words[told.clone()].to_vec();
        let (first, last) = (run.start & 63, run.end - ((told.start as u64) << 6));
        if let Some(word) = within.first_mut() {
            *word &= u64::MAX << first;
        }
        for (at, word) in within.iter_mut().enumerate().skip((last >> 6) as usize) {
            *word &= if at as u64 == last >> 6 { (1 << (last & 63)) - 1 } else { 0 };
        }
        set.tell(told.start, &within);
        Ok(set)
    }

    /// Values the states of a part, and writes its share of what is published of the layer.
    pub(in super::super) fn solve_part(&self, task: TaskId, io: &dyn TaskIo) -> Result<(), TaskError> {
        let room = Room::new(io);
        let (stage, part) = (task.stage as usize, task.part);
        let at = self.stages.stages[stage].layers.start;
        let (info, ranks) = (&self.layers[at], self.ranks(self.layers[at].layer.0));
        let run = &info.parts[part as usize];
        let blocks = blocks_over(&ranks.blocks, run);
        let known = self.parents_of_blocks(&room, stage, at, &ranks, &blocks, io)?;
        let states = self.states_of_blocks(&room, &ranks, &blocks, &known)?;
        drop(known);
        let every: Vec<u32> = (0..info.parts.len() as u32).collect();
        let now = self.loaded_parts(&room, stage, at, &every, io)?;
        let mut set = RankedBits::begin(now.places.words().len(), |words| room.array_anywhere(words, 0))?;
        set.tell(0, now.places.words());
        let values = room.array_anywhere::<f64>(set.count() as usize, set.bytes())?;
        let files = every.iter().map(|&part| (part, after_values(info, part)));
        let values = self.read_values(values, info, set.view(), files, io)?;
        let after = Valued { ranks: Arc::clone(&ranks), set, values };
        for shard in self.shards_of(info, part) {
            if self.spec.keep == Keep::Stats {
                put_samples(info, &now.places, &after, io)?;
                continue;
            }
            let run = &info.shards[shard as usize];
            let keys = part_of(now.places.words(), run);
            io.put_shard(info.layer, shard, Keys::Bits(&keys), numbers(&after.values[after.set.view().numbers(run)]))?;
            after.release();
        }
        drop(now);
        let Solved { states, stats, .. } = self.value_states(&room, &ranks, &blocks, states, &after)?;
        hand_over_part(info, part, run, &states, self.stages.wants_sets(at), io)?;
        let own = blocks_in(&ranks.blocks, run);
        let of_blocks = &stats[own.start - blocks.start..own.end - blocks.start];
        let told: Vec<f64> = of_blocks.iter().flat_map(to_numbers).collect();
        io.put_work(info.layer, statistics_of(info, part), None, numbers(&told))?;
        io.progress(info.layer, states.set.view().numbers(run).len() as u64)
    }

    /// Adds up the statistics of the blocks of a layer.
    pub(in super::super) fn settle(&self, info: &LayerInfo, io: &dyn TaskIo) -> Result<(), TaskError> {
        let mut told = Vec::new();
        for of_part in statistics(info) {
            io.read_work(info.layer, of_part.shard, &mut |part| told.extend_from_slice(part))?;
        }
        let stats = total(told.as_chunks().0.iter().map(of_numbers));
        for (shard, _) in (0..).zip(&info.shards) {
            // States do not lie in shards: the first has them all.
            io.put_stats(info.layer, shard, if shard == 0 { stats } else { LayerStats::default() })?;
        }
        Ok(())
    }
}

/// The statistics of a block as numbers. Its counts are below 2^53.
fn to_numbers(stats: &LayerStats) -> [f64; STATISTICS as usize] {
    let LayerStats { legal_moves, single_best, choices, value_sum, gap_sum, gap_most } = *stats;
    [legal_moves as f64, single_best as f64, choices as f64, value_sum, gap_sum, gap_most]
}

/// The statistics of a block, from numbers.
fn of_numbers(&[legal_moves, single_best, choices, value_sum, gap_sum, gap_most]: &[f64; STATISTICS as usize]) -> LayerStats {
    let [legal_moves, single_best, choices] = [legal_moves, single_best, choices].map(|count| count as u64);
    LayerStats { legal_moves, single_best, choices, value_sum, gap_sum, gap_most }
}
