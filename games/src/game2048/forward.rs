//! The forward pass: which states and afterstates can be reached.
//!
//! For every age upwards, block by block: the states come from the afterstates of the two ages before ([`super::spawn`]), are counted,
//! and their moves give the afterstates of the age ([`super::moves`]). Only afterstates are kept. Square boards go another way
//! ([`super::square`]).

use super::Game2048;
use super::bits::{AtomicBits, BlockBits};
use super::lanes::{Job, Lanes, is_wide, run};
use super::lines::Lines;
use super::moves::{Batch, Tally};
use super::ranks::LayerRanks;
use super::room::Room;
use super::spawn::{Afterstates, Origin, Parents, states_of_block};
use crate::array::{Array, Releaser};
use crate::keys::{Bitmap, Keys};
use crate::space::*;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// Pieces that a layer is cut into for each thread.
const PIECES_A_THREAD: u64 = 24;
/// Least ranks of a piece: below this a thread spends more time on fetching work than on doing it.
const LEAST_RANKS: u64 = 1 << 13;
/// Most ranks of a piece: what it touches of files is held in memory until it is done.
const MOST_RANKS: u64 = 1 << 20;

/// Memory that a thread needs for one block, used again for the next.
#[derive(Default)]
pub(super) struct Bench {
    pub(super) states: BlockBits,
    pub(super) after: BlockBits,
    pub(super) batch: Batch,
}

/// Cuts some blocks of a layer into pieces of about the same number of ranks.
pub(super) fn pieces_of<const R: usize, const C: usize>(ranks: &LayerRanks<R, C>, blocks: &Range<usize>) -> Vec<Range<usize>> {
    let all = ranks.ranks_of_blocks(blocks);
    let share = (all.end - all.start) / (PIECES_A_THREAD * rayon::current_num_threads() as u64);
    let least = share.clamp(LEAST_RANKS, MOST_RANKS);
    let (mut pieces, mut start, mut from) = (Vec::new(), blocks.start, all.start);
    for block in blocks.clone() {
        let end = ranks.block_ranks(block).end;
        if end - from >= least || block + 1 == blocks.end {
            pieces.push(start..block + 1);
            (start, from) = (block + 1, end);
        }
    }
    pieces
}

/// Fills some words of a set window by window: `fill` puts in what belongs to the window it is given, and is told whether it is the
/// first; `take` gets the window's words and the number of the first.
pub(super) fn fill_windows(
    room: &Room<'_>,
    words: Range<usize>,
    mut fill: impl FnMut(AtomicBits<'_>, bool),
    mut take: impl FnMut(usize, &[u64]),
) {
    for window in room.windows(words.len(), 8) {
        let (mut filled, first) = (Array::zeroed(window.len()), words.start + window.start);
        fill(AtomicBits::over(&mut filled, first), window.start == 0);
        take(first, &filled);
    }
}

/// A set, filled window by window as [`fill_windows`] does it; in place where that can be.
fn collect(room: &Room<'_>, universe: u64, mut fill: impl FnMut(AtomicBits<'_>, bool)) -> Result<Bitmap, TaskError> {
    let count = universe.div_ceil(64) as usize;
    let mut words = room.array::<u64>(count)?;
    if room.windows(count, 8).len() == 1 && !words.is_scratch() {
        fill(AtomicBits::over(&mut words, 0), true);
    } else {
        let done = words.releaser();
        fill_windows(room, 0..count, fill, |first, filled| {
            words[first..first + filled.len()].copy_from_slice(filled);
            done.release();
        });
    }
    Ok(Bitmap::from_words(words, universe))
}

/// The words of a run of ranks, which begins with one.
pub(super) fn words_in(run: &Range<u64>) -> Range<usize> {
    (run.start >> 6) as usize..run.end.div_ceil(64) as usize
}

/// A part of a set that covers a whole layer.
pub(super) fn part_of(words: &[u64], run: &Range<u64>) -> Bitmap {
    let mut part = Bitmap::new(run.end - run.start);
    part.words_mut().copy_from_slice(&words[words_in(run)]);
    part
}

/// Calls `f` with the parts of a layer's set that its files have.
pub(super) fn for_parts(
    info: &LayerInfo,
    set: &Bitmap,
    mut f: impl FnMut(u32, &Range<u64>, &Bitmap) -> Result<(), TaskError>,
) -> Result<(), TaskError> {
    if let [run] = &info.parts[..] {
        return f(0, run, set);
    }
    for (number, run) in (0..).zip(&info.parts) {
        f(number, run, &part_of(set.words(), run))?;
    }
    set.releaser().release();
    Ok(())
}

impl<const R: usize, const C: usize> Game2048<R, C> {
    /// The boards of an age that a game may start with.
    pub(super) fn starts_of(&self, age: u32) -> Vec<u64> {
        if age > super::plan::LAST_START {
            return Vec::new();
        }
        self.start_boards().into_keys().filter(|&board| Lines::<R, C>::age(board) == age).collect()
    }

    /// The exponent of the tile at which play stops.
    pub(super) fn goal(&self) -> Option<u32> {
        self.spec.tile.map(u32::trailing_zeros)
    }

    /// Where the states of a layer come from, given the afterstates of the ages before it and its starts.
    pub(super) fn origin<'a>(
        &self,
        ranks: &'a LayerRanks<R, C>,
        known: &'a [Afterstates<R, C>],
        starts: &'a [u64],
    ) -> Origin<'a, R, C> {
        Origin { ranks, parents: parents_of(known, ranks.age()), starts, goal: self.goal() }
    }

    /// The afterstates of an age, and what was counted.
    fn move_layer(
        &self,
        room: &Room<'_>,
        ranks: &Arc<LayerRanks<R, C>>,
        known: &[Afterstates<R, C>],
    ) -> Result<(Afterstates<R, C>, Tally), TaskError> {
        let (starts, done) = (self.starts_of(ranks.age()), releasers(known));
        let origin = self.origin(ranks, known, &starts);
        if const { R == C } {
            let mut counted = Tally::default();
            let states = self.square_states(room, origin, &done)?;
            let places = collect(room, ranks.universe(), |after, _| counted = self.move_states(ranks, &states, after))?;
            return Ok((Afterstates { ranks: Arc::clone(ranks), places }, counted));
        }
        let (places, counted) = self.move_blocks(room, origin, &(0..ranks.blocks.len()), &done)?;
        Ok((Afterstates { ranks: Arc::clone(ranks), places }, counted))
    }

    /// What the moves of the states of some blocks of a rectangle lead to, and what was counted.
    pub(super) fn move_blocks(
        &self,
        room: &Room<'_>,
        origin: Origin<'_, R, C>,
        blocks: &Range<usize>,
        done: &[Releaser],
    ) -> Result<(Bitmap, Tally), TaskError> {
        let mut counted = Tally::default();
        let places = collect(room, origin.ranks.universe(), |after, is_first| {
            let tallies: Vec<Tally> = pieces_of(origin.ranks, blocks)
                .into_par_iter()
                .map_init(Bench::default, |bench, blocks| {
                    let tally = run(MoveBlocks { game: self, origin, blocks, after, bench });
                    done.iter().for_each(Releaser::release);
                    tally
                })
                .collect();
            if is_first {
                counted = tallies.into_iter().sum();
            }
        })?;
        Ok((places, counted))
    }

    /// The afterstates of an age, from the files of its shards.
    pub(super) fn loaded(
        &self,
        room: &Room<'_>,
        info: &LayerInfo,
        kind: ArtifactKind,
        io: &dyn TaskIo,
    ) -> Result<Afterstates<R, C>, TaskError> {
        let mut words = room.array::<u64>(info.ranks().div_ceil(64) as usize)?;
        for (number, run) in (0..).zip(&info.parts) {
            let part = io.load_index(kind, info.layer, number)?;
            let first = (run.start >> 6) as usize;
            words[first..first + part.words().len()].copy_from_slice(part.words());
        }
        words.releaser().release();
        let places = Bitmap::from_words(words, info.ranks());
        Ok(Afterstates { ranks: self.ranks(info.layer.0), places })
    }

    /// Enumerates the ages of a stage; counts them unless they were counted before.
    pub(super) fn run_forward(&self, stage: usize, counts: bool, io: &dyn TaskIo) -> Result<(), TaskError> {
        let room = Room::new(io);
        let run = self.stages.stages[stage].layers.clone();
        let written = self.stages.written(stage);
        let mut known: Vec<Afterstates<R, C>> = Vec::new();
        for at in run.start.saturating_sub(2)..run.start {
            known.push(self.loaded(&room, &self.layers[at], self.stages.kind(stage, at), io)?);
        }
        for at in run {
            let (info, age) = (&self.layers[at], self.layers[at].layer.0);
            let (after, tally) = self.move_layer(&room, &self.ranks(age), &known)?;
            io.progress(info.layer, tally.states)?;
            let mut of_parts = Vec::with_capacity(info.parts.len());
            for_parts(info, &after.places, |part, _, keys| {
                if written.contains(&at) {
                    io.put_index(self.stages.kind(stage, at), info.layer, part, Keys::Bits(keys))?;
                }
                of_parts.push(keys.count());
                Ok(())
            })?;
            if counts {
                self.put_counts(info, tally, &of_parts, io)?;
            }
            known.retain(|known| known.ranks.age() + 4 > age);
            known.push(after);
        }
        Ok(())
    }

    /// Records what was counted. States do not lie in shards: the first has them all.
    fn put_counts(&self, info: &LayerInfo, tally: Tally, of_parts: &[u64], io: &dyn TaskIo) -> Result<(), TaskError> {
        let all = [of_parts.iter().sum()];
        let afterstates = if info.shards.len() == of_parts.len() { of_parts } else { &all[..] };
        for (shard, &afterstates) in (0..).zip(afterstates) {
            let Tally { states, terminal } = if shard == 0 { tally } else { Tally::default() };
            io.put_counts(info.layer, shard, Counts { states, afterstates, terminal })?;
        }
        Ok(())
    }
}

/// For saying that sets will not be used for a while.
pub(super) fn releasers<const R: usize, const C: usize>(known: &[Afterstates<R, C>]) -> Vec<Releaser> {
    known.iter().map(|after| after.places.releaser()).collect()
}

/// The afterstates that lead to an age by a new 2 and a new 4.
fn parents_of<const R: usize, const C: usize>(known: &[Afterstates<R, C>], age: u32) -> Parents<'_, R, C> {
    [2, 4].map(|less| known.iter().find(|after| after.ranks.age() + less == age).map(Afterstates::view))
}

/// The forward pass over some blocks of a layer.
struct MoveBlocks<'a, const R: usize, const C: usize> {
    game: &'a Game2048<R, C>,
    origin: Origin<'a, R, C>,
    blocks: Range<usize>,
    after: AtomicBits<'a>,
    bench: &'a mut Bench,
}

impl<const R: usize, const C: usize> Job for MoveBlocks<'_, R, C> {
    type Output = Tally;
    const IS_WIDE: bool = is_wide::<R, C>();
    #[inline(always)]
    fn run<L: Lanes>(self) -> Tally {
        let Self { game, origin, blocks, after, bench: Bench { states, after: within, batch } } = self;
        let ranks = origin.ranks;
        let mut tally = Tally::default();
        for number in blocks {
            let (block, places) = (&ranks.blocks[number], ranks.block_ranks(number));
            states_of_block(origin, number, states);
            within.reset(&places);
            let counted = game.move_block(ranks, block, states, within, after, batch);
            tally = [tally, counted].into_iter().sum();
            after.insert_block(within);
        }
        tally
    }
}

/// Bit offsets of the empty cells of a board, ascending.
#[inline]
pub(super) fn empty_cells<const R: usize, const C: usize>(board: u64) -> impl Iterator<Item = u32> {
    let mut empty = Lines::<R, C>::empty(board);
    std::iter::from_fn(move || {
        (empty != 0).then(|| {
            let cell = empty.trailing_zeros();
            empty &= empty - 1;
            cell
        })
    })
}
