//! Which keys are checked.
//!
//! All of them, or a stratified sample: the keys of the whole table, in order, are cut into strata of 1/p keys, and the seed picks one
//! key of each. So the size of a sample is certain, no stretch of the table is left out, and whether a key is picked depends on
//! nothing but the seed.

use strata_storage::{Manifest, ManifestShard};

/// Keys of a unit of work: enough to hide the cost of starting it, and few enough to keep its look-ups in the cache.
pub(super) const UNIT_KEYS: u64 = 4096;
/// A sample sparser than this reads single values instead of decoding whole columns.
const DENSE: f64 = 1.0 / 512.0;

/// The part of the keys to check, and the seed that picks them.
pub(super) struct Sample {
    part: f64,
    seed: u64,
}

/// Some keys of one shard.
pub(super) struct Unit {
    pub(super) layer: u32,
    pub(super) shard: u32,
    pub(super) first_rank: u64,
    /// Number of the shard's first key among those of the whole table.
    before: u64,
    /// The keys it is about, by their numbers in the shard, picked or not.
    pub(super) start: u64,
    pub(super) end: u64,
    picked: u64,
}

impl Unit {
    /// About how many keys will be checked.
    pub(super) fn picked(&self) -> u64 {
        self.picked
    }
}

impl Sample {
    pub(super) fn new(part: f64, seed: u64) -> Self {
        Self { part, seed }
    }

    pub(super) fn is_everything(&self) -> bool {
        self.part >= 1.0
    }

    /// Whether decoding whole columns pays.
    pub(super) fn is_dense(&self) -> bool {
        self.part >= DENSE
    }

    /// The keys of a table in units, in the order of the manifest.
    pub(super) fn units<'a>(&'a self, manifest: &'a Manifest) -> impl Iterator<Item = Unit> + 'a {
        let stride = if self.is_everything() { UNIT_KEYS } else { scaled(UNIT_KEYS, 1.0 / self.part) };
        let mut before = 0u64;
        manifest.layers.iter().flat_map(|layer| layer.shards.iter().map(|shard| (layer.layer, shard))).flat_map(
            move |(layer, shard): (u32, &'a ManifestShard)| {
                let of_shard = before;
                before += shard.keys;
                let keys = shard.keys;
                let (number, first_rank) = (shard.shard, shard.first_rank);
                (0..keys.div_ceil(stride)).map(move |i| {
                    let (start, end) = (i * stride, ((i + 1) * stride).min(keys));
                    let picked = scaled(end - start, self.part);
                    Unit { layer, shard: number, first_rank, before: of_shard, start, end, picked }
                })
            },
        )
    }

    /// The numbers, in the shard, of the keys of a unit that are picked.
    pub(super) fn pick(&self, unit: &Unit) -> Vec<u64> {
        if self.is_everything() {
            return (unit.start..unit.end).collect();
        }
        let (first, end) = (unit.before + unit.start, unit.before + unit.end);
        let stratum = 1.0 / self.part;
        let mut picked = Vec::new();
        let mut i = scaled(first, self.part).saturating_sub(1);
        loop {
            let low = scaled(i, stratum);
            let high = scaled(i + 1, stratum).max(low + 1);
            if low >= end {
                return picked;
            }
            let key = low + mixed(self.seed ^ mixed(i)) % (high - low);
            if (first..end).contains(&key) {
                picked.push(key - unit.before);
            }
            i += 1;
        }
    }
}

/// A number times a factor, rounded down.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn scaled(n: u64, factor: f64) -> u64 {
    // Counts of keys are far below 2^53, and a cast of a float saturates.
    (n as f64 * factor) as u64
}

/// splitmix64.
fn mixed(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(before: u64, start: u64, end: u64) -> Unit {
        Unit { layer: 4, shard: 0, first_rank: 0, before, start, end, picked: 0 }
    }

    #[test]
    fn a_sample_has_the_size_asked_for_however_the_table_is_cut() {
        for part in [0.5, 0.37, 0.1, 0.001] {
            let sample = Sample::new(part, 7);
            let whole = sample.pick(&unit(0, 0, 100_000));
            let expected = (100_000.0 * part) as i64;
            assert!((whole.len() as i64 - expected).abs() <= 1, "{part}: {}", whole.len());
            assert!(whole.windows(2).all(|pair| pair[0] < pair[1]));
            let mut cut = Vec::new();
            for (start, end) in [(0, 1), (1, 17), (17, 4096), (4096, 70_001), (70_001, 100_000)] {
                cut.extend(sample.pick(&unit(start, 0, end - start)).into_iter().map(|key| start + key));
            }
            assert_eq!(cut, whole, "{part}");
        }
    }

    #[test]
    fn another_seed_picks_other_keys() {
        let picked = |seed| Sample::new(0.01, seed).pick(&unit(0, 0, 10_000));
        assert_eq!(picked(1), picked(1));
        assert_ne!(picked(1), picked(2));
    }
}
