//! The numbers of a file beside those of a table.

use crate::failure::{Failure, chain};
use crate::signals;
use crate::table::{self, Opened};
use rayon::prelude::*;
use strata_games::bearoff::TwoSided;
use strata_games::bearoff::two_sided::gnubg::{Record, equity};
use strata_games::{Key, Layer, StateSpace};
use strata_storage::ManifestLayer;

/// How far they are apart.
#[derive(Clone, PartialEq, Debug)]
pub struct Difference {
    /// The largest difference.
    pub largest: f64,
    /// Where it is.
    pub at: String,
    /// Numbers that are further apart than was asked about.
    pub over: u64,
}

/// Why there is no answer: stopped by a signal.
pub fn stopped() -> Failure {
    let message = "stopped before it was complete".into();
    Failure { code: signals::received().unwrap_or(1), message, help: Some("run the same command again".into()) }
}

fn damaged(opened: &Opened, what: String) -> Failure {
    table::OpenError::Damaged(what).into_failure(opened.table.root())
}

/// What was found in a part of a table.
#[derive(Clone, Copy, PartialEq)]
struct Found<T> {
    largest: f64,
    at: T,
    over: u64,
}

impl<T> Found<T> {
    fn look(&mut self, off: f64, limit: f64, at: T) {
        self.over += u64::from(off > limit);
        if off > self.largest {
            (self.largest, self.at) = (off, at);
        }
    }

    fn and(self, other: Self) -> Self {
        let over = self.over + other.over;
        if other.largest > self.largest { Self { over, ..other } } else { Self { over, ..self } }
    }
}

/// Goes through the layers of a table on the rayon pool it is called in; of equal differences the first is named.
fn over_layers<T: Copy + Send + Sync>(
    opened: &Opened,
    nowhere: T,
    of_layer: impl Fn(&ManifestLayer, &mut Found<T>) -> Result<(), Failure> + Sync,
) -> Result<Found<T>, Failure> {
    let nothing = Found { largest: 0.0, at: nowhere, over: 0 };
    let look = |layer: &ManifestLayer| {
        if signals::received().is_some() {
            return Err(stopped());
        }
        let mut found = nothing;
        of_layer(layer, &mut found).map(|()| found)
    };
    let found = opened.table.manifest().layers.par_iter().map(look).collect::<Result<Vec<_>, Failure>>()?;
    Ok(found.into_iter().fold(nothing, Found::and))
}

/// Mean numbers of rolls: those of a file of `count` positions are given by index.
///
/// # Errors
/// When the table is damaged, or a signal came.
pub fn one_sided(
    opened: &Opened,
    count: usize,
    limit: f64,
    mean: impl Fn(usize) -> Result<f64, Failure> + Sync,
) -> Result<Difference, Failure> {
    let found = over_layers(opened, Key { layer: Layer(0), rank: 0 }, |layer, found| {
        for shard in &layer.shards {
            let read = opened.table.shard(layer.layer, shard.shard).and_then(|file| {
                let ranks: Vec<u64> = file.index()?.iter().collect();
                Ok((ranks, file.scalars(0)?))
            });
            let (ranks, means) = read.map_err(|e| damaged(opened, chain(&e)))?;
            for (rank, exact) in ranks.into_iter().zip(means) {
                let rank = shard.first_rank + rank;
                let Some(index) = usize::try_from(rank).ok().filter(|&index| index < count) else {
                    let what = format!("layer {} has a key of rank {rank}, and there is no such position", layer.layer);
                    return Err(damaged(opened, what));
                };
                found.look((mean(index)? - exact).abs(), limit, Key { layer: Layer(layer.layer), rank });
            }
        }
        Ok(())
    })?;
    let at = opened.space.unrank(found.at).map_or_else(String::new, |position| opened.space.format(position));
    Ok(Difference { largest: found.largest, at, over: found.over })
}

/// Equities: records are given by the indices of the two positions. Over all pairs that the game can reach: of two players who both have
/// nothing left, only one can be first.
///
/// # Errors
/// When the table is damaged, or a signal came.
pub fn two_sided(
    opened: &Opened,
    space: &TwoSided,
    cubeful: bool,
    limit: f64,
    record: impl Fn(u32, u32) -> Record + Sync,
) -> Result<Difference, Failure> {
    // The columns of the table that a record has.
    let columns: &[usize] = if cubeful { &[0, 1, 2, 4] } else { &[0] };
    let indices = space.indices();
    let found = over_layers(opened, (0, 0), |layer, found| {
        for shard in &layer.shards {
            let read = opened.table.shard(layer.layer, shard.shard);
            let read = read.and_then(|file| columns.iter().map(|&column| file.scalars(column)).collect::<Result<Vec<_>, _>>());
            let values = read.map_err(|e| damaged(opened, chain(&e)))?;
            let pairs = space.indices_of(&indices, (layer.layer, shard.shard));
            for (at, (us, them)) in pairs.enumerate().filter(|&(_, pair)| pair != (0, 0)) {
                let record = record(us, them);
                for (values, number) in values.iter().zip(record) {
                    let Some(value) = values.get(at) else {
                        return Err(damaged(opened, format!("layer {} shard {} is too short", layer.layer, shard.shard)));
                    };
                    found.look((value - equity(number)).abs(), limit, (us, them));
                }
            }
        }
        Ok(())
    })?;
    let (us, them) = found.at;
    Ok(Difference { largest: found.largest, at: space.format(space.of_indices(us, them)), over: found.over })
}
