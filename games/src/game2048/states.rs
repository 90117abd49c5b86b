//! The values of the states of a layer, from those of its afterstates.
//!
//! A state is worth the best over its legal moves of the reward and the afterstate. Moves to the left and right are looked up by
//! the stripe, as in the forward pass; moves up and down lead anywhere in the layer, so their places are computed for many boards, and the
//! memory behind them is asked for before it is used. On square boards the moves up and down of a board are those to the left and right of
//! the transposed one: the best of those is found first for every state, then each state takes the better of its own and
//! its image's.

use super::Game2048;
use super::after::{Valued, Values, split_values};
use super::bits::{AtomicBits, BlockBits, Ranked, RankedBits, RankedStripe, ones};
use super::forward::{Bench, parents_of, pieces, releasers};
use super::lanes::{Job, Lanes, prefetch, run};
use super::moves::{BATCH, Batch};
use super::ranks::{Block, Cursor, LayerRanks};
use super::room::Room;
use super::rows::{MOST_ROWS, RowInfo};
use super::spawn::{Afterstates, Parents, Upper, states_of_block, stripes};
use super::vertical::ILLEGAL;
use crate::array::{Array, Releaser};
use crate::space::{LayerStats, TaskError};
use rayon::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// The best two moves of a state, and how many it has, as far as they are known.
#[derive(Clone, Copy, PartialEq, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub(super) struct Best {
    best: f64,
    second: f64,
    moves: u64,
}

impl Best {
    const NONE: Self = Self { best: f64::NEG_INFINITY, second: f64::NEG_INFINITY, moves: 0 };

    /// One more move.
    #[inline(always)]
    fn add(&mut self, value: f64) {
        // Comparisons that the processor does in one instruction: no value is a NaN.
        let loser = if value > self.best { self.best } else { value };
        self.second = if loser > self.second { loser } else { self.second };
        self.best = if value > self.best { value } else { self.best };
        self.moves += 1;
    }

    /// The moves of the transposed board, all.
    #[inline(always)]
    fn join(self, other: Self) -> Self {
        let (best, loser) = if other.best > self.best { (other.best, self.best) } else { (self.best, other.best) };
        let second = if other.second > self.second { other.second } else { self.second };
        Self { best, second: if loser > second { loser } else { second }, moves: self.moves + other.moves }
    }
}

/// Which afterstates are looked up: all of them, or in each of several passes those in a window.
#[derive(Clone)]
struct Looks {
    places: Range<u64>,
    is_first: bool,
    is_last: bool,
}

/// Adds one state to the statistics of its layer.
#[inline(always)]
fn count(stats: &mut LayerStats, value: f64, best: Best) {
    stats.value_sum += value;
    stats.legal_moves += best.moves;
    stats.single_best += u64::from(best.moves == 1);
    if best.moves > 1 {
        stats.single_best += u64::from(LayerStats::is_better(best.best, best.second));
        let gap = best.best - best.second;
        stats.choices += 1;
        stats.gap_sum += gap;
        stats.gap_most = stats.gap_most.max(gap);
    }
}

/// Adds up what was found in the blocks of a layer, in their order.
fn total(blocks: impl IntoIterator<Item = LayerStats>) -> LayerStats {
    let add = |sum: LayerStats, block| sum.checked_add(block).expect("a layer has fewer than 2^32 states");
    blocks.into_iter().fold(LayerStats::default(), add)
}

impl<const R: usize, const C: usize> Game2048<R, C> {
    /// All states of a layer.
    pub(super) fn states_of(
        &self,
        room: &Room<'_>,
        ranks: &LayerRanks<R, C>,
        known: &[Afterstates<R, C>],
    ) -> Result<RankedBits, TaskError> {
        let (parents, done) = (parents_of(known, ranks.age()), releasers(known));
        let starts = self.starts_of(ranks.age());
        let words = ranks.universe().div_ceil(64) as usize;
        let mut states = RankedBits::begin(words, |words| room.array(words))?;
        for window in room.windows(words, 8) {
            let mut filled = Array::<u64>::zeroed(window.len());
            let into = AtomicBits::over(&mut filled, window.start);
            let covered = into.places();
            pieces(ranks).into_par_iter().for_each_init(Bench::default, |bench, blocks| {
                if blocks.end > blocks.start
                    && ranks.block_ranks(blocks.start).start < covered.end
                    && ranks.block_ranks(blocks.end - 1).end > covered.start
                {
                    run(MakeStates {
                        game: self,
                        ranks,
                        parents,
                        starts: &starts,
                        blocks,
                        states: into,
                        within: &mut bench.states,
                    });
                    done.iter().for_each(Releaser::release);
                }
            });
            states.tell(window.start, &filled);
            states.releaser().release();
        }
        Ok(states)
    }

    /// The values of a set of states, in its order, and what was found on the way.
    pub(super) fn value_states(
        &self,
        room: &Room<'_>,
        ranks: &Arc<LayerRanks<R, C>>,
        set: RankedBits,
        after: &Valued<R, C>,
    ) -> Result<(Valued<R, C>, LayerStats), TaskError> {
        let (n, words) = (set.count() as usize, after.set.words());
        let mut windows = room.windows(words, 16 + (8 * after.set.count()).div_ceil(words.max(1) as u64));
        if R == C {
            windows = std::iter::once(0..words).collect();
        }
        let mut values = room.array::<f64>(n)?;
        // What is known of the states between passes. With one pass over a rectangle that is nothing.
        let keeps = R == C || windows.len() > 1;
        let mut bests = room.array::<Best>(if keeps { n } else { 0 })?;
        let no_set = RankedBits::default();
        let done = [values.releaser(), bests.releaser(), set.releaser()];
        let mut stats = LayerStats::default();
        for (number, window) in windows.iter().enumerate() {
            let (is_first, is_last) = (number == 0, number + 1 == windows.len());
            let looks = Looks { places: (window.start as u64) << 6..(window.end as u64) << 6, is_first, is_last };
            let parts = split_values(ranks, if keeps { set.view() } else { no_set.view() }, pieces(ranks), &mut bests);
            let parts: Vec<_> = split_values(ranks, set.view(), pieces(ranks), &mut values).into_iter().zip(parts).collect();
            let found: Vec<Vec<LayerStats>> = parts
                .into_par_iter()
                .map_init(Bench::default, |bench, ((blocks, values), (_, bests))| {
                    let (set, after, looks, batch) = (set.view(), after.view(), &looks, &mut bench.batch);
                    let found = run(ValueStates { game: self, ranks, set, after, looks, blocks, values, bests, batch });
                    done.iter().for_each(Releaser::release);
                    found
                })
                .collect();
            stats = total(found.into_iter().flatten());
            if windows.len() > 1 {
                after.release();
            }
        }
        if R == C {
            let found: Vec<Vec<LayerStats>> = split_values(ranks, set.view(), pieces(ranks), &mut values)
                .into_par_iter()
                .map_init(Bench::default, |bench, (blocks, values)| {
                    run(JoinTransposed {
                        game: self,
                        ranks,
                        set: set.view(),
                        lateral: &bests,
                        blocks,
                        values,
                        batch: &mut bench.batch,
                    })
                })
                .collect();
            stats = total(found.into_iter().flatten());
        }
        Ok((Valued { ranks: Arc::clone(ranks), set, values }, stats))
    }

    /// The moves of a state, board by board.
    pub(super) fn best(&self, board: u64, after: Values<'_, R, C>) -> Best {
        let moves = self.lines.moves(board);
        let mut best = Best::NONE;
        for (i, &moved) in moves.boards.iter().enumerate().filter(|&(_, &moved)| moved != board) {
            best.add(self.reward(moves.score(i)) + after.get(moved));
        }
        best
    }

    /// The value of a state, terminal or not, board by board.
    pub(super) fn state_value(&self, board: u64, age: u32, after: Option<Values<'_, R, C>>) -> f64 {
        match after {
            Some(after) if !self.is_stopped(board, age) => self.value_of(board, age, self.best(board, after)),
            _ => self.value_without_moves(board, age),
        }
    }

    #[inline(always)]
    fn value_of(&self, board: u64, age: u32, best: Best) -> f64 {
        if best.moves == 0 { self.value_without_moves(board, age) } else { best.best }
    }
}

/// The states of some blocks.
struct MakeStates<'a, const R: usize, const C: usize> {
    game: &'a Game2048<R, C>,
    ranks: &'a LayerRanks<R, C>,
    parents: Parents<'a, R, C>,
    starts: &'a [u64],
    blocks: Range<usize>,
    states: AtomicBits<'a>,
    within: &'a mut BlockBits,
}

impl<const R: usize, const C: usize> Job for MakeStates<'_, R, C> {
    type Output = ();
    #[inline(always)]
    fn run<L: Lanes>(self) {
        let Self { game, ranks, parents, starts, blocks, states, within } = self;
        for number in blocks {
            within.reset(&ranks.block_ranks(number));
            states_of_block(ranks, &ranks.blocks[number], parents, starts, game.goal(), within);
            states.insert_block(within);
        }
    }
}

/// The values of the states of some blocks; on square boards, the moves to the left and right alone.
struct ValueStates<'a, const R: usize, const C: usize> {
    game: &'a Game2048<R, C>,
    ranks: &'a LayerRanks<R, C>,
    set: Ranked<'a>,
    after: Values<'a, R, C>,
    looks: &'a Looks,
    blocks: Range<usize>,
    values: &'a mut [f64],
    bests: &'a mut [Best],
    batch: &'a mut Batch,
}

impl<const R: usize, const C: usize> Job for ValueStates<'_, R, C> {
    type Output = Vec<LayerStats>;
    #[inline(always)]
    fn run<L: Lanes>(self) -> Vec<LayerStats> {
        let Self { game, ranks, set, after, looks, blocks, values, bests, batch } = self;
        let mut found = Vec::with_capacity(blocks.len());
        let mut at = 0;
        for number in blocks {
            let block = &ranks.blocks[number];
            let n = (set.before(ranks.block_ranks(number).end) - set.before(block.base.into())) as usize;
            if R == C {
                game.lateral_block(ranks, block, set, after, looks, &mut bests[at..at + n]);
            } else if bests.is_empty() {
                found.push(game.value_block::<false>(ranks, block, set, after, looks, batch, &mut [], &mut values[at..at + n]));
            } else {
                let bests = &mut bests[at..at + n];
                found.push(game.value_block::<true>(ranks, block, set, after, looks, batch, bests, &mut values[at..at + n]));
            }
            at += n;
        }
        found
    }
}

/// States that wait for their moves up and down: of a batch, and what the last stripe brings above it.
const WAITING: usize = BATCH + MOST_ROWS;

impl<const R: usize, const C: usize> Game2048<R, C> {
    /// Adds the moves to the left and right of the states of a stripe, whose last rows are given by their bits. `W`: in passes, each
    /// of which looks up the afterstates of a window.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn lateral_stripe<const W: bool>(
        &self,
        ranks: &LayerRanks<R, C>,
        block: &Block,
        upper: &Upper<R>,
        bits: u128,
        after: Values<'_, R, C>,
        looks: &Looks,
        bests: &mut [Best],
    ) {
        let (rows, last) = (&*ranks.rows, usize::from(block.last));
        let steps = rows.steps_of(last);
        if block.is_even() || self.is_odd() {
            let of_last = rows.of_sum(last);
            for (number, best) in ones(bits).zip(bests) {
                let board = upper.board | u64::from(of_last[number as usize]) << (4 * C * (R - 1));
                if self.has_won(board) {
                    continue;
                }
                let moves = self.lines.moves(board);
                for &moved in &moves.boards[..2] {
                    if moved != board {
                        let place = ranks.place(moved);
                        if !W || looks.places.contains(&place) {
                            best.add(self.reward(moves.across) + after.values[after.set.find(place)]);
                        }
                    }
                }
            }
            return;
        }
        let sides = self.sides(ranks, upper, last);
        let found = sides.map(|side| RankedStripe::of(after.set, side.start.into(), rows.count[last] as u32));
        for (number, best) in ones(bits).zip(bests) {
            let step = &steps[number as usize];
            if sides[0].legal >> number & 1 == 1 {
                let to = step.left[sides[0].reading as usize];
                if !W || looks.places.contains(&(u64::from(sides[0].start) + u64::from(to))) {
                    best.add(self.reward(sides[0].score + step.score) + after.values[found[0].find(to.into())]);
                }
            }
            if sides[1].legal >> number & 1 == 1 {
                let to = step.right[sides[1].reading as usize];
                if !W || looks.places.contains(&(u64::from(sides[1].start) + u64::from(to))) {
                    best.add(self.reward(sides[1].score + step.score) + after.values[found[1].find(to.into())]);
                }
            }
        }
    }

    /// The best moves to the left and right of the states of a block.
    #[inline(always)]
    fn lateral_block(
        &self,
        ranks: &LayerRanks<R, C>,
        block: &Block,
        set: Ranked<'_>,
        after: Values<'_, R, C>,
        looks: &Looks,
        bests: &mut [Best],
    ) {
        let width = ranks.rows.count[usize::from(block.last)] as u32;
        let mut at = 0;
        bests.fill(Best::NONE);
        for upper in stripes(ranks, block) {
            let bits = set.read(upper.start, width);
            if bits != 0 {
                let n = bits.count_ones() as usize;
                self.lateral_stripe::<false>(ranks, block, &upper, bits, after, looks, &mut bests[at..at + n]);
                at += n;
            }
        }
    }

    /// The values of the states of a block of a rectangle; in passes (`W`) `known` keeps what is known of them.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn value_block<const W: bool>(
        &self,
        ranks: &LayerRanks<R, C>,
        block: &Block,
        set: Ranked<'_>,
        after: Values<'_, R, C>,
        looks: &Looks,
        batch: &mut Batch,
        known: &mut [Best],
        values: &mut [f64],
    ) -> LayerStats {
        let mut stats = LayerStats::default();
        let (rows, last) = (&*ranks.rows, usize::from(block.last));
        let (width, of_last) = (rows.count[last] as u32, rows.of_sum(last));
        let (mut own, mut earned, mut waiting, mut done) = ([Best::NONE; WAITING], [0u32; WAITING], 0, 0);
        if W && looks.is_first {
            known.fill(Best::NONE);
        }
        batch.boards.clear();
        for upper in stripes(ranks, block) {
            let bits = set.read(upper.start, width);
            if bits == 0 {
                continue;
            }
            let n = bits.count_ones() as usize;
            let bests = if W { &mut known[done + waiting..done + waiting + n] } else { &mut own[waiting..waiting + n] };
            if !W {
                bests.fill(Best::NONE);
            }
            self.lateral_stripe::<W>(ranks, block, &upper, bits, after, looks, bests);
            let mut before = 0;
            for info in &upper.infos[..R - 1] {
                before += info.earned();
            }
            for number in ones(bits) {
                let row = of_last[number as usize];
                earned[waiting] = (before + RowInfo(rows.info[usize::from(row)]).earned()) as u32;
                batch.boards.push(upper.board | u64::from(row) << (4 * C * (R - 1)));
                waiting += 1;
            }
            if waiting >= BATCH {
                let bests = if W { &mut known[done..done + waiting] } else { &mut own[..waiting] };
                let values = &mut values[done..done + waiting];
                self.finish_batch::<W>(ranks, after, looks, batch, bests, &earned, values, &mut stats);
                done += waiting;
                waiting = 0;
            }
        }
        if waiting > 0 {
            let bests = if W { &mut known[done..] } else { &mut own[..waiting] };
            self.finish_batch::<W>(ranks, after, looks, batch, bests, &earned, &mut values[done..], &mut stats);
        }
        stats
    }

    /// Adds the moves up and down of states whose other moves are known, and gives their values.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    fn finish_batch<const W: bool>(
        &self,
        ranks: &LayerRanks<R, C>,
        after: Values<'_, R, C>,
        looks: &Looks,
        batch: &mut Batch,
        bests: &mut [Best],
        earned: &[u32; WAITING],
        values: &mut [f64],
        stats: &mut LayerStats,
    ) {
        let n = batch.up_down(ranks, &self.lines);
        if W {
            for place in batch.up[..n].iter_mut().chain(&mut batch.down[..n]) {
                if !looks.places.contains(&u64::from(*place)) {
                    *place = ILLEGAL;
                }
            }
        }
        for (&up, &down) in batch.up[..n].iter().zip(&batch.down[..n]) {
            after.set.prefetch(up.into());
            after.set.prefetch(down.into());
        }
        let mut found = [[usize::MAX; 2]; WAITING];
        for (i, found) in found[..n].iter_mut().enumerate() {
            for (place, found) in [batch.up[i], batch.down[i]].into_iter().zip(found) {
                if place != ILLEGAL {
                    *found = after.set.find(place.into());
                    prefetch(after.values, *found);
                }
            }
        }
        for (i, best) in bests.iter_mut().enumerate() {
            let reward = self.reward(batch.earned[i].wrapping_sub(earned[i]));
            let open = !self.is_odd() || !self.has_won(batch.boards[i]);
            for found in found[i] {
                if found != usize::MAX && open {
                    best.add(reward + after.values[found]);
                }
            }
            if !W || looks.is_last {
                values[i] = self.value_of(batch.boards[i], ranks.age(), *best);
                count(stats, values[i], *best);
            }
        }
        batch.boards.clear();
    }
}

/// Gives each state of some blocks of a square board the moves of its image.
struct JoinTransposed<'a, const R: usize, const C: usize> {
    game: &'a Game2048<R, C>,
    ranks: &'a LayerRanks<R, C>,
    set: Ranked<'a>,
    lateral: &'a [Best],
    blocks: Range<usize>,
    values: &'a mut [f64],
    batch: &'a mut Batch,
}

impl<const R: usize, const C: usize> Job for JoinTransposed<'_, R, C> {
    type Output = Vec<LayerStats>;
    #[inline(always)]
    fn run<L: Lanes>(self) -> Vec<LayerStats> {
        let Self { game, ranks, set, lateral, blocks, values, batch } = self;
        let mut found = Vec::with_capacity(blocks.len());
        let Some(first) = ranks.blocks.get(blocks.start) else { return found };
        let (first, mut at) = (set.before(first.base.into()) as usize, 0);
        for number in blocks {
            let mut stats = LayerStats::default();
            let (mut cursor, mut waiting) = (None, set.places(ranks.block_ranks(number)).peekable());
            while waiting.peek().is_some() {
                let mut places = [0u64; BATCH];
                batch.boards.clear();
                for place in waiting.by_ref().take(BATCH) {
                    places[batch.boards.len()] = place;
                    batch.boards.push(cursor.get_or_insert_with(|| Cursor::at(ranks, place)).board(place));
                }
                let n = batch.transposed(ranks);
                for &place in &batch.up[..n] {
                    set.prefetch(place.into());
                }
                let mut images = [0usize; BATCH];
                for (image, &place) in images.iter_mut().zip(&batch.up[..n]) {
                    *image = set.find(place.into());
                    prefetch(lateral, *image);
                }
                for i in 0..n {
                    let best = lateral[first + at].join(lateral[images[i]]);
                    values[at] = game.value_of(batch.boards[i], ranks.age(), best);
                    if places[i] <= u64::from(batch.up[i]) {
                        count(&mut stats, values[at], best);
                    }
                    at += 1;
                }
            }
            found.push(stats);
        }
        found
    }
}
