//! The values of the states of a layer, from those of its afterstates.
//!
//! A state is worth the best over its legal moves of the reward and the afterstate. Moves to the left and right are looked up by
//! the stripe, as in the forward pass; moves up and down lead anywhere in the layer, so their places are computed for many boards, and the
//! memory behind them is asked for before it is used. Square boards go another way ([`super::square`]).

use super::Game2048;
use super::after::{Valued, Values};
use super::best::{Best, Finds, Looks};
use super::bits::{AtomicBits, BlockBits, Ranked, RankedBits};
use super::forward::{Bench, fill_windows, pieces_of, releasers};
use super::lanes::{Job, Lanes, is_wide, run};
use super::moves::Batch;
use super::ranks::LayerRanks;
use super::room::Room;
use super::spawn::{Afterstates, Origin, states_of_block};
use crate::array::{Array, Releaser};
use crate::name::Keep;
use crate::space::{LayerStats, TaskError};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// The words that cover a run of places, and the one after them: how many are before it is how many there are.
pub(super) fn words_of(run: &Range<u64>, words: usize) -> Range<usize> {
    (run.start >> 6) as usize..words.min((run.end >> 6) as usize + 1)
}

/// Adds up what was found in the parts of a layer, in their order.
pub(super) fn total(parts: impl IntoIterator<Item = LayerStats>) -> LayerStats {
    let add = |sum: LayerStats, part| sum.checked_add(part).expect("a layer has fewer than 2^32 states");
    parts.into_iter().fold(LayerStats::default(), add)
}

/// The states of a layer, solved.
pub(super) struct Solved<const R: usize, const C: usize> {
    /// Their values.
    pub(super) states: Valued<R, C>,
    /// Where moves are kept, the best move of each, in the order of the values: a number of [`Game2048::move_of`].
    pub(super) chosen: Array<u8>,
    /// What was found on the way of each block, in their order; of square boards of all together.
    pub(super) stats: Vec<LayerStats>,
}

impl<const R: usize, const C: usize> Game2048<R, C> {
    /// All states of a layer.
    pub(super) fn states_of(
        &self,
        room: &Room<'_>,
        ranks: &LayerRanks<R, C>,
        known: &[Afterstates<R, C>],
    ) -> Result<RankedBits, TaskError> {
        self.states_of_blocks(room, ranks, &(0..ranks.blocks.len()), known)
    }

    /// The states of some blocks of a layer; of square boards all of them.
    pub(super) fn states_of_blocks(
        &self,
        room: &Room<'_>,
        ranks: &LayerRanks<R, C>,
        blocks: &Range<usize>,
        known: &[Afterstates<R, C>],
    ) -> Result<RankedBits, TaskError> {
        let (starts, done) = (self.starts_of(ranks.age()), releasers(known));
        let origin = self.origin(ranks, known, &starts);
        let words = ranks.universe().div_ceil(64) as usize;
        let mut states = RankedBits::begin(words, |words| room.array(words))?;
        let to_fill = words_of(&ranks.ranks_of_blocks(blocks), words);
        let told = states.releaser();
        let fill = |into: AtomicBits<'_>, _| {
            if const { R == C } {
                return self.push_states(origin, into, &done);
            }
            let covered = into.places();
            pieces_of(ranks, blocks).into_par_iter().for_each_init(Bench::default, |bench, blocks| {
                if blocks.end > blocks.start
                    && ranks.block_ranks(blocks.start).start < covered.end
                    && ranks.block_ranks(blocks.end - 1).end > covered.start
                {
                    run(MakeStates { origin, blocks, states: into, within: &mut bench.states });
                    done.iter().for_each(Releaser::release);
                }
            });
        };
        fill_windows(room, to_fill, fill, |first, filled| {
            states.tell(first, filled);
            told.release();
        });
        Ok(states)
    }

    /// Solves the states of some blocks, which the set has and no others.
    pub(super) fn value_states(
        &self,
        room: &Room<'_>,
        ranks: &Arc<LayerRanks<R, C>>,
        blocks: &Range<usize>,
        set: RankedBits,
        after: &Valued<R, C>,
    ) -> Result<Solved<R, C>, TaskError> {
        if const { R == C } {
            return self.value_square_states(room, ranks, set, after);
        }
        let (n, words) = (set.count() as usize, after.set.words());
        let windows = room.windows(words, 16 + (8 * after.set.count()).div_ceil(words.max(1) as u64));
        let mut values = room.array::<f64>(n)?;
        // What is known of the states between passes. With one pass that is nothing.
        let keeps = windows.len() > 1;
        let mut bests = room.array::<Best>(if keeps { n } else { 0 })?;
        let plays = self.spec.keep == Keep::Play;
        let mut chosen = room.array::<u8>(if plays { n } else { 0 })?;
        let done = [values.releaser(), bests.releaser(), set.releaser(), chosen.releaser()];
        let mut stats = Vec::new();
        for (number, window) in windows.iter().enumerate() {
            let (is_first, is_last) = (number == 0, number + 1 == windows.len());
            let looks = Looks { places: (window.start as u64) << 6..(window.end as u64) << 6, is_first, is_last };
            let finds = Finds { values: &mut values, bests: &mut bests, chosen: &mut chosen };
            let found: Vec<Vec<LayerStats>> = finds
                .split(set.view(), pieces_of(ranks, blocks), |blocks| ranks.ranks_of_blocks(blocks))
                .into_par_iter()
                .map_init(Bench::default, |bench, (blocks, finds)| {
                    let (set, after, looks, batch) = (set.view(), after.view(), &looks, &mut bench.batch);
                    let found = run(ValueStates { game: self, ranks, set, after, looks, blocks, finds, batch });
                    done.iter().for_each(Releaser::release);
                    found
                })
                .collect();
            stats = found.into_iter().flatten().collect();
            if windows.len() > 1 {
                after.release();
            }
        }
        Ok(Solved { states: Valued { ranks: Arc::clone(ranks), set, values }, chosen, stats })
    }

    /// The board that a numbered move makes, and what it scores: 0 to the left, 1 to the right, 2 up and 3 down. `None` when the move is not
    /// legal.
    pub(super) fn move_of(&self, board: u64, number: usize) -> Option<(u64, u32)> {
        let moves = self.lines.moves(board);
        let moved = *moves.boards.get(number)?;
        (moved != board).then(|| (moved, moves.score(number)))
    }

    /// The value of a state, terminal or not, board by board.
    pub(super) fn state_value(&self, board: u64, age: u32, after: Option<Values<'_, R, C>>) -> f64 {
        let after = after.filter(|_| !self.is_stopped(board, age));
        let best = after.and_then(|after| {
            let moves = self.lines.moves(board);
            let legal = moves.boards.iter().enumerate().filter(|&(_, &moved)| moved != board);
            legal.map(|(i, &moved)| self.reward(moves.score(i)) + after.get(moved)).reduce(f64::max)
        });
        best.unwrap_or_else(|| self.value_without_moves(board, age))
    }
}

/// The states of some blocks.
struct MakeStates<'a, const R: usize, const C: usize> {
    origin: Origin<'a, R, C>,
    blocks: Range<usize>,
    states: AtomicBits<'a>,
    within: &'a mut BlockBits,
}

impl<const R: usize, const C: usize> Job for MakeStates<'_, R, C> {
    type Output = ();
    const IS_WIDE: bool = is_wide::<R, C>();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let Self { origin, blocks, states, within } = self;
        for number in blocks {
            states_of_block(origin, number, within);
            states.insert_block(within);
        }
    }
}

/// The values of the states of some blocks of rectangles.
struct ValueStates<'a, const R: usize, const C: usize> {
    game: &'a Game2048<R, C>,
    ranks: &'a LayerRanks<R, C>,
    set: Ranked<'a>,
    after: Values<'a, R, C>,
    looks: &'a Looks,
    blocks: Range<usize>,
    finds: Finds<'a>,
    batch: &'a mut Batch,
}

impl<const R: usize, const C: usize> Job for ValueStates<'_, R, C> {
    type Output = Vec<LayerStats>;
    const IS_WIDE: bool = is_wide::<R, C>();
    #[inline(always)]
    fn run<L: Lanes>(self) -> Vec<LayerStats> {
        let Self { game, ranks, set, after, looks, blocks, mut finds, batch } = self;
        let mut found = Vec::with_capacity(blocks.len());
        for number in blocks {
            let block = &ranks.blocks[number];
            let of_block = finds.take(set.numbers(&ranks.block_ranks(number)).len());
            if of_block.bests.is_empty() {
                found.push(game.value_block::<false>(ranks, block, set, after, looks, batch, of_block));
            } else {
                found.push(game.value_block::<true>(ranks, block, set, after, looks, batch, of_block));
            }
        }
        found
    }
}
