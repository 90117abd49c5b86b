//! The forward pass: which states and afterstates can be reached.
//!
//! For every age upwards: the states are known; their moves give the afterstates of the same age, and the spawns of those the states
//! of the next two ages. Only the afterstates are kept.

use super::Game2048;
use super::bits::AtomicBits;
use super::lines::Lines;
use super::ranks::LayerRanks;
use super::sweep::for_pieces;
use crate::keys::{Bitmap, Keys};
use crate::space::*;
use std::ops::Range;
use std::sync::Arc;

/// States of one age while they are collected.
pub(super) struct Frontier<const R: usize, const C: usize> {
    pub(super) ranks: Arc<LayerRanks<R, C>>,
    bits: AtomicBits,
}

/// What a piece of a layer counts.
#[derive(Clone, Copy, Default)]
struct Tally {
    states: u64,
    terminal: u64,
}

impl std::iter::Sum for Tally {
    fn sum<I: Iterator<Item = Self>>(pieces: I) -> Self {
        pieces.fold(Self::default(), |a, b| Self { states: a.states + b.states, terminal: a.terminal + b.terminal })
    }
}

impl<const R: usize, const C: usize> Frontier<R, C> {
    pub(super) fn into_states(self) -> (Arc<LayerRanks<R, C>>, Bitmap) {
        (self.ranks, self.bits.into_bitmap())
    }
}

impl<const R: usize, const C: usize> Game2048<R, C> {
    /// Starts collecting the states of an age; `None` when the table has no such layer. Starts of the game are in from the first.
    pub(super) fn frontier(&self, age: u32) -> Option<Frontier<R, C>> {
        let info = self.layer_of(age)?;
        let ranks = self.ranks(age);
        let bits = AtomicBits::new(info.universe);
        for board in self.start_boards().into_keys().filter(|&board| Lines::<R, C>::age(board) == age) {
            bits.insert(ranks.rank(board));
        }
        Some(Frontier { ranks, bits })
    }

    /// Adds the states that chance makes from the afterstates of an age by new tiles of exponent `tile`.
    pub(super) fn spawn_into(&self, ranks: &LayerRanks<R, C>, after: &Bitmap, tile: u64, into: &Frontier<R, C>) {
        for_pieces(ranks, after, |piece| {
            piece.for_each(|board| {
                if self.has_won(board) {
                    return;
                }
                for cell in empty_cells::<R, C>(board) {
                    into.bits.insert(into.ranks.rank(board | tile << cell));
                }
            });
        });
    }

    /// The afterstates of the states of an age.
    fn move_all(&self, ranks: &LayerRanks<R, C>, states: &Bitmap) -> (Bitmap, Tally) {
        let (age, after) = (ranks.age(), AtomicBits::new(ranks.universe()));
        let tallies = for_pieces(ranks, states, |piece| {
            let mut tally = Tally::default();
            piece.for_each(|board| {
                tally.states += 1;
                let moves = self.lines.moves(board);
                let mut legal = moves.boards.iter().filter(|&&moved| moved != board).peekable();
                tally.terminal += u64::from(legal.peek().is_none());
                if !self.is_stopped(board, age) {
                    legal.for_each(|&moved| after.insert(ranks.rank(moved)));
                }
            });
            tally
        });
        (after.into_bitmap(), tallies.into_iter().sum())
    }

    pub(super) fn run_forward(&self, run: Range<usize>, io: &dyn TaskIo) -> Result<(), TaskError> {
        let first = self.layers[run.start].layer.0;
        let (mut now, mut next) = (self.frontier(first), self.frontier(first + 2));
        for info in &self.layers[run.start.saturating_sub(2)..run.start] {
            let (ranks, after) = (self.ranks(info.layer.0), io.load_index(info.layer, 0)?);
            for (tile, age) in [(1, info.layer.0 + 2), (2, info.layer.0 + 4)] {
                let target = if age == first { &now } else { &next };
                if let Some(target) = target.as_ref().filter(|frontier| frontier.ranks.age() == age) {
                    self.spawn_into(&ranks, &after, tile, target);
                }
            }
        }
        for info in &self.layers[run.clone()] {
            let age = info.layer.0;
            let frontier = now.take().expect("every layer of the run has a frontier");
            let (ranks, states) = frontier.into_states();
            let (after, tally) = self.move_all(&ranks, &states);
            drop(states);
            let last_of_run = info.layer == self.layers[run.end - 1].layer;
            let later = if last_of_run { None } else { self.frontier(age + 4) };
            if !last_of_run {
                for (tile, target) in [(1, &next), (2, &later)] {
                    if let Some(target) = target {
                        self.spawn_into(&ranks, &after, tile, target);
                    }
                }
            }
            io.put_index(info.layer, 0, Keys::Bits(&after))?;
            let counts = Counts { states: tally.states, afterstates: after.count(), terminal: tally.terminal };
            io.put_counts(info.layer, 0, counts)?;
            io.progress(info.layer, tally.states)?;
            (now, next) = (next, later);
        }
        Ok(())
    }
}

/// Bit offsets of the empty cells of a board, ascending.
#[inline]
pub(super) fn empty_cells<const R: usize, const C: usize>(board: u64) -> impl Iterator<Item = u32> {
    let low = 0x1111_1111_1111_1111 >> (64 - 4 * R * C);
    let mut empty = !(board | board >> 1 | board >> 2 | board >> 3) & low;
    std::iter::from_fn(move || {
        (empty != 0).then(|| {
            let cell = empty.trailing_zeros();
            empty &= empty - 1;
            cell
        })
    })
}
