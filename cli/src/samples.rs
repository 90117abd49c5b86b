//! `strata stats --samples`: the positions that a table of statistics has samples of, with their values.
//!
//! The shard of a layer has the ranks of its samples in the column `rank` (docs/FORMAT.md), and the rules say which board has a rank.

use crate::failure::{Failure, chain};
use crate::output;
use crate::table::{self, OpenError, Opened};
use std::fmt::Write;
use std::path::Path;
use strata_games::{Key, Layer};
use strata_storage::{ManifestLayer, ShardError};

/// Which column of a shard has the values.
const VALUE: usize = 0;
/// Which has the ranks.
const RANK: usize = 1;

/// Prints the samples of all layers, as they are read.
pub fn print(dir: &Path) -> Result<(), Failure> {
    let opened = table::open(dir).map_err(|e| e.into_failure(dir))?;
    let manifest = opened.table.manifest();
    if table::keep(manifest).has_positions() {
        let shown = output::shell_quote(&dir.to_string_lossy()).into_owned();
        return Err(Failure::usage(format!("--samples: {} keeps all positions, and no samples", manifest.table))
            .help(format!("`strata probe {shown} POSITION` looks any of them up")));
    }
    let mut goes_on = output::piece("age,position,value,error\n")?;
    for layer in &manifest.layers {
        if !goes_on {
            break;
        }
        let lines = lines_of(&opened, layer).map_err(|what| OpenError::Damaged(what).into_failure(dir))?;
        goes_on = output::piece(&lines)?;
    }
    Ok(())
}

/// The samples of a layer, or what is wrong with it.
fn lines_of(opened: &Opened, layer: &ManifestLayer) -> Result<String, String> {
    let age = layer.layer;
    let read = |shard: u32, column, ordinal| opened.table.scalar(age, shard, column, ordinal).map_err(|e: ShardError| chain(&e));
    let mut text = String::new();
    for shard in &layer.shards {
        for ordinal in 0..shard.keys {
            let rank = whole(read(shard.shard, RANK, ordinal)?.value);
            let position = opened.space.unrank(Key { layer: Layer(age), rank });
            let position = position.ok_or_else(|| format!("{}: no position of age {age} has the rank {rank}", shard.path))?;
            let value = read(shard.shard, VALUE, ordinal)?;
            // A String takes all.
            let _ = writeln!(text, "{age},{},{},{}", opened.space.format(position), value.value, value.error);
        }
    }
    Ok(text)
}

/// The whole number that was packed: ranks are below 2^32, so a packed one is less than half off.
fn whole(packed: f64) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // of anything else no position has the rank
    let rank = packed.round() as u64;
    rank
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_ranks_are_read_to_the_nearest() {
        assert_eq!([0.0, 0.49, 0.51, 4_294_967_294.6].map(whole), [0, 0, 1, 4_294_967_295]);
    }
}
