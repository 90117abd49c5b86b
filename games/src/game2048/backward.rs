//! The backward pass: the value of every afterstate, in f64, from the last age down.
//!
//! For every age downwards: the afterstates are valued from the states of the two ages after ([`super::after`]) and written; the states
//! of the age are made again from the afterstates of the two ages before, valued ([`super::states`]), and kept until the afterstates of
//! those ages are done. What a stage hands to the next is the values of the states of its two lowest ages.

use super::after::Valued;
use super::bits::RankedBits;
use super::forward::parents_of;
use super::lines::Lines;
use super::plan::{FIRST_AGE, LAST_START};
use super::spawn::Afterstates;
use super::{Game2048, value_column};
use crate::keys::{Bitmap, Keys};
use crate::space::*;
use std::collections::BTreeMap;
use std::ops::Range;

impl<const R: usize, const C: usize> Game2048<R, C> {
    pub(super) fn run_backward(&self, run: Range<usize>, io: &dyn TaskIo) -> Result<(), TaskError> {
        let first = self.layers[run.start].layer.0;
        // Afterstates of the ages around the one that is worked on, and the values of the states above it.
        let mut known: Vec<Afterstates<R, C>> = Vec::new();
        let load = |layer: Layer| Ok::<_, TaskError>(self.restored(self.ranks(layer.0), io.load_index(layer, 0)?));
        let top = self.layers.len().min(run.end + 1);
        for info in &self.layers[run.end.saturating_sub(2)..top] {
            known.push(load(info.layer)?);
        }
        let mut above: Vec<Valued<R, C>> = Vec::new();
        for info in &self.layers[run.end..self.layers.len().min(run.end + 2)] {
            let ranks = self.ranks(info.layer.0);
            let set = RankedBits::new(&self.states_of(&ranks, parents_of(&known, info.layer.0)));
            let values = io.load_work(info.layer, 0)?.scalars.swap_remove(0);
            above.push(Valued { ranks, set, values });
        }
        let mut starts: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for at in run.clone().rev() {
            let (layer, age) = (self.layers[at].layer, self.layers[at].layer.0);
            known.retain(|known| known.ranks.age() <= age);
            if let Some(below) = at.checked_sub(2).map(|below| self.layers[below].layer)
                && !known.iter().any(|known| known.ranks.age() == below.0)
            {
                known.push(load(below)?);
            }
            let now = known.iter().position(|known| known.ranks.age() == age).expect("the stage loads its layers");
            let now = known.swap_remove(now);
            let children = [2, 4].map(|more| above.iter().find(|states| states.ranks.age() == age + more));
            let set = RankedBits::new(&now.places);
            let values = self.value_afterstates(&now.ranks, &set, children);
            let values = self.put_values(layer, &now, &set, values, io)?;
            let after = Valued { ranks: now.ranks, set, values };
            let states = RankedBits::new(&self.states_of(&after.ranks, parents_of(&known, age)));
            let (states, stats) = self.value_states(&after.ranks, states, &after);
            io.put_stats(layer, 0, stats)?;
            io.progress(layer, after.set.count())?;
            if run.start > 0 && age <= first + 2 {
                io.put_work(layer, 0, &value_column(states.values.clone()))?;
            }
            if age <= LAST_START {
                starts.insert(age, self.start_value(age, &after));
            }
            above.retain(|states| states.ranks.age() < age + 4);
            above.push(states);
        }
        if first == FIRST_AGE {
            put_start_values(&starts, io);
        }
        Ok(())
    }

    /// Writes the values of a layer: of the stored place of each afterstate. Gives them back.
    fn put_values(
        &self,
        layer: Layer,
        after: &Afterstates<R, C>,
        set: &RankedBits,
        values: Vec<f64>,
        io: &dyn TaskIo,
    ) -> Result<Vec<f64>, TaskError> {
        let Some(stored) = self.stored(after) else {
            let columns = value_column(values);
            io.put_shard(layer, 0, Keys::Bits(&after.places), &columns)?;
            return Ok(columns.scalars.into_iter().next().unwrap_or_default());
        };
        let columns = value_column(stored_values(&stored, set, &values));
        io.put_shard(layer, 0, Keys::Bits(&stored), &columns)?;
        Ok(values)
    }

    /// The chance of a start of this age, and the value over those starts times the chance.
    fn start_value(&self, age: u32, after: &Valued<R, C>) -> (f64, f64) {
        let starts = self.start_boards().into_iter().filter(|&(board, _)| Lines::<R, C>::age(board) == age);
        starts.fold((0.0, 0.0), |(value, chance), (board, p)| {
            (value + p * self.state_value(board, age, Some(after)), chance + p)
        })
    }
}

/// The values of the places that are stored.
fn stored_values(stored: &Bitmap, set: &RankedBits, values: &[f64]) -> Vec<f64> {
    stored.iter().map(|place| values[set.find(place)]).collect()
}

/// The value over the random start, and the mean over the starts of each age.
fn put_start_values(starts: &BTreeMap<u32, (f64, f64)>, io: &dyn TaskIo) {
    io.put_fact("value", starts.values().map(|(value, _)| value).sum());
    for (age, (value, chance)) in starts {
        io.put_fact(&format!("value_age_{age}"), value / chance);
    }
}
