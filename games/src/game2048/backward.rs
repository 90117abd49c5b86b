//! The backward pass: the value of every afterstate, in f64, from the last age down.
//!
//! An afterstate is worth the mean over its empty cells and both new tiles of what the states they make are worth; a state is worth
//! the best over its legal moves of the reward and the afterstate. The states of an age are not stored: they are spawned again from
//! the afterstates of the two ages before, valued once, and kept until the afterstates of those ages are done.

use super::bits::RankedBits;
use super::forward::empty_cells;
use super::lines::Lines;
use super::plan::FIRST_AGE;
use super::ranks::LayerRanks;
use super::sweep::map_boards;
use super::{Game2048, value_column};
use crate::keys::{Bitmap, Keys};
use crate::space::*;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Values of all boards of one kind and age.
struct Valued<const R: usize, const C: usize> {
    ranks: Arc<LayerRanks<R, C>>,
    set: RankedBits,
    values: Vec<f64>,
}

impl<const R: usize, const C: usize> Valued<R, C> {
    /// The value of a board of this kind and age.
    #[inline]
    fn get(&self, board: u64) -> f64 {
        let rank = self.ranks.rank(board);
        match self.set.find(rank) {
            Some(i) => self.values[i],
            None => panic!("board {board:x} of age {} has rank {rank}, which the forward pass did not reach", self.ranks.age()),
        }
    }
}

/// The ages around the one being worked on: sets and values by age, dropped when no longer needed.
struct Window<const R: usize, const C: usize> {
    sets: BTreeMap<u32, Bitmap>,
    states: BTreeMap<u32, Valued<R, C>>,
    afters: BTreeMap<u32, Valued<R, C>>,
}

impl<const R: usize, const C: usize> Game2048<R, C> {
    /// The best value of a state over its legal moves.
    #[inline]
    fn best(&self, board: u64, after: &Valued<R, C>) -> f64 {
        let moves = self.lines.moves(board);
        let mut best = f64::NEG_INFINITY;
        for (i, &moved) in moves.boards.iter().enumerate() {
            if moved != board {
                best = best.max(self.reward(moves.score(i)) + after.get(moved));
            }
        }
        best
    }

    /// The value of a state, terminal or not.
    #[inline]
    fn state_value(&self, board: u64, age: u32, after: Option<&Valued<R, C>>) -> f64 {
        match after {
            Some(after) if !self.is_stopped(board, age) => {
                let best = self.best(board, after);
                if best == f64::NEG_INFINITY { self.value_without_moves(board, age) } else { best }
            }
            _ => self.value_without_moves(board, age),
        }
    }

    /// The value of an afterstate: cells in ascending order, first all 2s, then all 4s, so that the sum has one order.
    #[inline]
    fn after_value(&self, board: u64, age: u32, two: Option<&Valued<R, C>>, four: Option<&Valued<R, C>>) -> f64 {
        if self.has_won(board) {
            return 1.0;
        }
        let value = |board: u64, age: u32, states: Option<&Valued<R, C>>| match states {
            Some(states) => states.get(board),
            None => self.value_without_moves(board, age),
        };
        let (mut twos, mut fours, mut cells) = (0.0, 0.0, 0u32);
        for cell in empty_cells::<R, C>(board) {
            twos += value(board | 1 << cell, age + 2, two);
            fours += value(board | 2 << cell, age + 4, four);
            cells += 1;
        }
        ((1.0 - self.spec.four) * twos + self.spec.four * fours) / f64::from(cells)
    }

    /// Spawns the states of an age again and values them.
    fn value_states(&self, age: u32, window: &mut Window<R, C>) {
        let Some(frontier) = self.frontier(age) else { return };
        for (tile, from) in [(1, age - 2), (2, age - 4)] {
            if let Some(after) = window.sets.get(&from) {
                self.spawn_into(&self.ranks(from), after, tile, &frontier);
            }
        }
        let (ranks, states) = frontier.into_states();
        let set = RankedBits::new(&states);
        drop(states);
        let after = window.afters.get(&age);
        let values = map_boards(&ranks, &set, |board| self.state_value(board, age, after));
        window.states.insert(age, Valued { ranks, set, values });
    }

    pub(super) fn run_backward(&self, run: Range<usize>, io: &dyn TaskIo) -> Result<(), TaskError> {
        let first = self.layers[run.start].layer.0;
        let last = self.layers[run.end - 1].layer.0;
        let mut window = Window { sets: BTreeMap::new(), states: BTreeMap::new(), afters: BTreeMap::new() };
        for info in &self.layers[run.end..self.layers.len().min(run.end + 2)] {
            let (age, set) = (info.layer.0, io.load_index(info.layer, 0)?);
            let values = io.load_work(info.layer, 0)?.scalars.swap_remove(0);
            window.afters.insert(age, Valued { ranks: self.ranks(age), set: RankedBits::new(&set), values });
            window.sets.insert(age, set);
        }
        window.sets.insert(last, io.load_index(Layer(last), 0)?);
        self.value_states(last + 4, &mut window);
        for info in self.layers[run.clone()].iter().rev() {
            let age = info.layer.0;
            if age > FIRST_AGE {
                window.sets.insert(age - 2, io.load_index(Layer(age - 2), 0)?);
            }
            self.value_states(age + 2, &mut window);
            window.afters.retain(|&kept, _| kept > age && kept <= if first == FIRST_AGE { FIRST_AGE + 8 } else { age + 2 });
            let ranks = self.ranks(age);
            let set = RankedBits::new(&window.sets[&age]);
            let (two, four) = (window.states.get(&(age + 2)), window.states.get(&(age + 4)));
            let values = map_boards(&ranks, &set, |board| self.after_value(board, age, two, four));
            let columns = value_column(values);
            io.put_shard(info.layer, 0, Keys::Bits(&window.sets[&age]), &columns)?;
            if age <= first + 2 {
                io.put_work(info.layer, 0, &columns)?;
            }
            io.progress(info.layer, set.count())?;
            let values = columns.scalars.into_iter().next().unwrap_or_default();
            window.afters.insert(age, Valued { ranks, set, values });
            window.states.retain(|&kept, _| kept < age + 4);
            window.sets.retain(|&kept, _| kept <= age);
        }
        if first == FIRST_AGE {
            self.put_start_values(&window, io);
        }
        Ok(())
    }

    /// The value over the random start, and the mean over the starts of each age.
    fn put_start_values(&self, window: &Window<R, C>, io: &dyn TaskIo) {
        let mut total = 0.0;
        let mut by_age: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for (board, chance) in self.start_boards() {
            let age = Lines::<R, C>::age(board);
            let value = chance * self.state_value(board, age, window.afters.get(&age));
            total += value;
            let sum = by_age.entry(age).or_default();
            *sum = (sum.0 + value, sum.1 + chance);
        }
        io.put_fact("value", total);
        for (age, (value, chance)) in by_age {
            io.put_fact(&format!("value_age_{age}"), value / chance);
        }
    }
}
