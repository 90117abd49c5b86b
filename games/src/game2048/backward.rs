//! The backward pass: the value of every afterstate, in f64, from the last age down.
//!
//! For every age downwards: the afterstates are valued from the states of the two ages after ([`super::after`]) and written; the states
//! of the age are made again from the afterstates of the two ages before, valued ([`super::states`]), and kept until the afterstates of
//! those ages are done. What a stage hands to the next is the values of the states of its two lowest ages.

use super::Game2048;
use super::after::Valued;
use super::bits::{Ranked, RankedBits};
use super::forward::for_parts;
use super::lines::Lines;
use super::plan::{FIRST_AGE, LAST_START, SAMPLES};
use super::room::Room;
use super::spawn::Afterstates;
use super::states::{Solved, total};
use crate::array::Array;
use crate::columns::ColumnsView;
use crate::keys::{Bitmap, Keys};
use crate::name::Keep;
use crate::space::*;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

impl<const R: usize, const C: usize> Game2048<R, C> {
    pub(super) fn run_backward(&self, stage: usize, io: &dyn TaskIo) -> Result<(), TaskError> {
        let room = Room::new(io);
        let run = self.stages.stages[stage].layers.clone();
        let kind = |at: usize| self.stages.kind(stage, at);
        let first = self.layers[run.start].layer.0;
        // Afterstates of the ages around the one that is worked on, and the values of the states above it.
        let mut known: Vec<Afterstates<R, C>> = Vec::new();
        for at in run.end.saturating_sub(2)..self.layers.len().min(run.end + 1) {
            known.push(self.loaded(&room, &self.layers[at], kind(at), io)?);
        }
        let mut above: Vec<Valued<R, C>> = Vec::new();
        for info in &self.layers[run.end..self.layers.len().min(run.end + 2)] {
            above.push(self.handed_over(&room, info, &known, io)?);
        }
        if let Some(info) = self.layers.get(run.end).filter(|_| self.stages.is_cut[run.end]) {
            self.settle(info, io)?;
        }
        let mut starts: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for at in run.clone().rev() {
            let (info, age) = (&self.layers[at], self.layers[at].layer.0);
            known.retain(|known| known.ranks.age() <= age);
            if let Some(below) = at.checked_sub(2)
                && !known.iter().any(|known| known.ranks.age() == self.layers[below].layer.0)
            {
                known.push(self.loaded(&room, &self.layers[below], kind(below), io)?);
            }
            let now = known.iter().position(|known| known.ranks.age() == age).expect("the stage loads its layers");
            let now = known.swap_remove(now);
            let children = [2, 4].map(|more| above.iter().find(|states| states.ranks.age() == age + more));
            let words = now.places.words();
            let mut set = RankedBits::begin(words.len(), |words| room.array_anywhere(words, 0))?;
            set.tell(0, words);
            let value = || self.value_afterstates(&room, &now.ranks, &(0..now.ranks.blocks.len()), &set, children);
            let make = || self.states_of(&room, &now.ranks, &known);
            // Side by side where both fit, so that threads wait less for each other.
            let (values, states) = if room.holds(words.len() as u64 * 24 + set.count() * 8) {
                let (values, states) = rayon::join(value, make);
                (values?, Some(states?))
            } else {
                (value()?, None)
            };
            let after = Valued { ranks: Arc::clone(&now.ranks), set, values };
            match self.spec.keep {
                Keep::Values => put_shards(info, &now.places, after.set.view(), &after.values, io)?,
                Keep::Stats => put_samples(info, &now.places, &after, io)?,
                Keep::Play => {}
            }
            after.release();
            drop(now);
            above.retain(|states| states.ranks.age() < age + 4);
            let states = match states {
                Some(states) => states,
                None => self.states_of(&room, &after.ranks, &known)?,
            };
            let blocks = 0..after.ranks.blocks.len();
            let Solved { states, chosen, stats } = self.value_states(&room, &after.ranks, &blocks, states, &after)?;
            let stats = total(stats);
            if self.spec.keep == Keep::Play {
                let set = states.set.view();
                let mut words = room.array::<u64>(states.set.words())?;
                set.copy_words(&mut words);
                put_shards(info, &Bitmap::from_words(words, info.ranks()), set, &chosen, io)?;
            }
            drop(chosen);
            for (shard, _) in (0..).zip(&info.shards) {
                // States do not lie in shards: the first has them all.
                io.put_stats(info.layer, shard, if shard == 0 { stats } else { LayerStats::default() })?;
            }
            io.progress(info.layer, after.set.count())?;
            if run.start > 0 && age <= first + 2 {
                hand_over(info, &states, self.stages.wants_sets(at), io)?;
            }
            if age <= LAST_START {
                starts.insert(age, self.start_value(age, &after));
            }
            above.push(states);
        }
        if first == FIRST_AGE {
            self.put_start_values(&starts, io);
        }
        Ok(())
    }

    /// The values of states that a stage before has handed over.
    fn handed_over(
        &self,
        room: &Room<'_>,
        info: &LayerInfo,
        known: &[Afterstates<R, C>],
        io: &dyn TaskIo,
    ) -> Result<Valued<R, C>, TaskError> {
        let ranks = self.ranks(info.layer.0);
        let set = self.states_of(room, &ranks, known)?;
        let parts = (0..info.parts.len() as u32).map(|part| (part, part));
        let values = self.read_values(room.array::<f64>(set.count() as usize)?, info, set.view(), parts, io)?;
        Ok(Valued { ranks, set, values })
    }

    /// The value over the random start, and the mean over the starts of each age.
    fn put_start_values(&self, starts: &BTreeMap<u32, (f64, f64)>, io: &dyn TaskIo) {
        io.put_fact("value", self.at_most_one(starts.values().map(|(value, _)| value).sum()));
        for (age, (value, chance)) in starts {
            io.put_fact(&format!("value_age_{age}"), self.at_most_one(value / chance));
        }
    }

    /// The chance of a start of this age, and the value over those starts times the chance.
    fn start_value(&self, age: u32, after: &Valued<R, C>) -> (f64, f64) {
        let starts = self.start_boards().into_iter().filter(|&(board, _)| Lines::<R, C>::age(board) == age);
        starts.fold((0.0, 0.0), |(value, chance), (board, p)| {
            (value + p * self.state_value(board, age, Some(after.view())), chance + p)
        })
    }
}

/// A number that is published for each position.
trait Published: bytemuck::Pod {
    /// A column of them.
    fn columns(numbers: &[Self]) -> ColumnsView<'_>;
}

/// A value.
impl Published for f64 {
    fn columns(numbers: &[f64]) -> ColumnsView<'_> {
        ColumnsView { scalars: vec![numbers], ..ColumnsView::default() }
    }
}

/// A move.
impl Published for u8 {
    fn columns(numbers: &[u8]) -> ColumnsView<'_> {
        ColumnsView { choices: vec![numbers], ..ColumnsView::default() }
    }
}

/// Writes what is published of the boards of a layer, in the order of their places.
fn put_shards<T: Published>(
    info: &LayerInfo,
    boards: &Bitmap,
    set: Ranked<'_>,
    column: &Array<T>,
    io: &dyn TaskIo,
) -> Result<(), TaskError> {
    for_parts(info, boards, |shard, run, keys| {
        io.put_shard(info.layer, shard, Keys::Bits(keys), T::columns(&column[set.numbers(run)]))?;
        column.releaser().release();
        Ok(())
    })
}

/// Writes the ranks and values of some afterstates of a layer: of one in each of [`SAMPLES`] equal runs of its ordinals, chosen by a hash of
/// the layer and the run; all of them where there are no more.
pub(super) fn put_samples<const R: usize, const C: usize>(
    info: &LayerInfo,
    stored: &Bitmap,
    after: &Valued<R, C>,
    io: &dyn TaskIo,
) -> Result<(), TaskError> {
    let count = stored.count();
    let chosen = (0..SAMPLES.min(count)).map(|run| {
        let [start, end] = [run, run + 1].map(|run| u128::from(run) * u128::from(count) / u128::from(SAMPLES.min(count)));
        let hash = crate::hash::splitmix64(u64::from(info.layer.0) << 8 | run);
        start as u64 + hash % (end - start) as u64
    });
    let mut chosen = chosen.peekable();
    let (mut ranks, mut values, mut before) = (Vec::new(), Vec::new(), 0);
    for (at, &word) in (0u64..).zip(stored.words()) {
        let (mut rest, ones) = (word, u64::from(word.count_ones()));
        let mut passed = before;
        while let Some(&ordinal) = chosen.peek().filter(|&&ordinal| ordinal < before + ones) {
            while passed < ordinal {
                rest &= rest - 1;
                passed += 1;
            }
            let place = at << 6 | u64::from(rest.trailing_zeros());
            ranks.push(place as f64);
            values.push(after.values[after.set.view().find(place)]);
            chosen.next();
        }
        before += ones;
    }
    stored.releaser().release();
    after.release();
    let mut keys = Bitmap::new(SAMPLES);
    (0..ranks.len() as u64).for_each(|key| keys.insert(key));
    io.put_shard(info.layer, 0, Keys::Bits(&keys), ColumnsView { scalars: vec![&values, &ranks], ..ColumnsView::default() })
}

/// Writes the values of the states of a layer for the next stage, in the parts of their places.
fn hand_over<const R: usize, const C: usize>(
    info: &LayerInfo,
    states: &Valued<R, C>,
    with_sets: bool,
    io: &dyn TaskIo,
) -> Result<(), TaskError> {
    (0..).zip(&info.parts).try_for_each(|(part, run)| hand_over_part(info, part, run, states, with_sets, io))
}

/// Writes the values of the states of a part of a layer for the next stage, with the set of their places where that is wanted.
pub(super) fn hand_over_part<const R: usize, const C: usize>(
    info: &LayerInfo,
    part: u32,
    run: &Range<u64>,
    states: &Valued<R, C>,
    with_sets: bool,
    io: &dyn TaskIo,
) -> Result<(), TaskError> {
    let values = &states.values[states.set.view().numbers(run)];
    let bits = with_sets.then(|| states.set.view().part(run));
    let columns = ColumnsView { scalars: vec![values], ..ColumnsView::default() };
    io.put_work(info.layer, part, bits.as_ref().map(Keys::Bits), columns)?;
    states.release();
    Ok(())
}

/// Values that were handed over are not those of the layer's states.
#[derive(thiserror::Error, Debug)]
#[error("the working values of layer {0} are not as many as its states: the files of the build do not belong together")]
struct OtherStates(Layer);

/// Values that were handed over are not those of the layer's states.
pub(super) fn other_states(layer: Layer) -> TaskError {
    TaskError::Io(Box::new(OtherStates(layer)))
}
