//! What index sets would take in chunks of other sizes: `cargo bench -p strata-storage --bench chunks -- SHARD FILES`.
//!
//! For the keys of published shards, all files together: bits a key of each encoding, the directory included (8 bytes a chunk, as now), by
//! the sizes that docs/FORMAT.md gives. The row of 4,096 is what is written, but for the rounding of the last group.

use std::path::Path;
use strata_storage::ShardFile;

/// log2 of the sizes that are tried.
const CHUNKS: std::ops::RangeInclusive<u32> = 9..=18;
/// Bits of the directory for each chunk.
const ENTRY: u64 = 64;

/// Bits of a bitmap of so many ranks, with a count for every 512.
fn bitmap(ranks: u64) -> u64 {
    ranks + 16 * (ranks.div_ceil(512) - 1)
}

/// Bits of an Elias-Fano list of so many members, with a sample for every 256 buckets.
fn list(members: u64, ranks: u64) -> u64 {
    let bits = |low: u32| {
        let buckets = ranks.div_ceil(1 << low);
        16 * (buckets.div_ceil(256) - 1) + members + buckets + members * u64::from(low)
    };
    (0..=16).map(bits).min().unwrap_or(0)
}

/// Bits of the shortest form of a chunk, of a list alone, of a bitmap alone, and the least that any code takes for a random set.
fn sizes(keys: u64, ranks: u64) -> [f64; 4] {
    let whole = |bits: u64| (bits.next_multiple_of(8) + ENTRY) as f64;
    let lists = list(keys.min(ranks - keys), ranks);
    let shortest = if keys == 0 || keys == ranks { 0 } else { lists.min(bitmap(ranks)) };
    let share = keys as f64 / ranks as f64;
    let entropy = |p: f64| if p > 0.0 { -p * p.log2() } else { 0.0 };
    [whole(shortest), whole(list(keys, ranks)), whole(bitmap(ranks)), ranks as f64 * (entropy(share) + entropy(1.0 - share))]
}

fn main() {
    let files: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let mut sums = vec![[0.0; 4]; CHUNKS.count()];
    let mut all = 0;
    for path in &files {
        let file = ShardFile::open(Path::new(path), None).unwrap_or_else(|error| panic!("{path}: {error}"));
        let index = file.index().unwrap_or_else(|error| panic!("{path}: {error}"));
        all += index.len();
        for (log, sums) in CHUNKS.zip(&mut sums) {
            let mut counts = vec![0u64; usize::try_from(index.universe().div_ceil(1 << log)).expect("it fits in memory")];
            index.iter().for_each(|key| counts[usize::try_from(key >> log).expect("it fits in memory")] += 1);
            for (number, keys) in (0..).zip(counts) {
                let ranks = (index.universe() - (number << log)).min(1 << log);
                sums.iter_mut().zip(sizes(keys, ranks)).for_each(|(sum, size)| *sum += size);
            }
        }
    }
    if files.is_empty() {
        println!("name published shards, for example tables/2048-4x3+horizon=160/shards/00160/*.shard");
        return;
    }
    println!("{all} keys\n{:>8}{:>10}{:>8}{:>8}{:>9}", "chunk", "shortest", "lists", "bitmaps", "entropy");
    for (log, sums) in CHUNKS.zip(sums) {
        let [shortest, lists, bitmaps, entropy] = sums.map(|bits| bits / all as f64);
        println!("{:>8}{shortest:>10.3}{lists:>8.3}{bitmaps:>8.3}{entropy:>9.3}", 1u64 << log);
    }
}
