//! A small made-up table, and the numbers that were put in it.

// Every test file uses its part of this.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use strata_storage::*;

pub const NAME: &str = "synthetic-1";
pub const SCALARS: [&str; 2] = ["value", "variance"];
pub const DISTS: [&str; 1] = ["rolls"];

/// The statistics of layer 4; layer 6 has none.
pub const STATS: ManifestStats =
    ManifestStats { legal_moves: 21, single_best: 6, choices: 7, value_sum: 1234.5, gap_sum: 3.0, gap_most: 1.0625 };

/// Numbers in 0..1 that look random but are always the same (splitmix64).
pub fn noise(seed: u64) -> f64 {
    let mut z = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// What one shard holds.
pub struct Content {
    pub layer: u32,
    pub shard: u32,
    pub first_rank: u64,
    pub universe: u64,
    /// Relative to the first rank.
    pub keys: Vec<u64>,
    pub scalars: Vec<Vec<f64>>,
    pub dists: Vec<(u8, Vec<f64>)>,
}

impl Content {
    pub fn new(layer: u32, shard: u32, first_rank: u64, universe: u64, one_in: u64) -> Self {
        let seed = u64::from(layer) << 40 | u64::from(shard) << 32;
        let keys: Vec<u64> = (0..universe).filter(|r| noise(seed + r) * (one_in as f64) < 1.0).collect();
        let scalar =
            |column: u64, scale: f64| keys.iter().map(|r| noise(seed + column * 1_000_003 + r) * scale - scale / 3.0).collect();
        let dists = keys
            .iter()
            .map(|r| {
                let weights: Vec<f64> = (0..1 + r % 7).map(|i| noise(seed + 77 * r + i) + 1e-3).collect();
                let total: f64 = weights.iter().sum();
                ((r % 5) as u8, weights.into_iter().map(|w| w / total).collect())
            })
            .collect();
        Self { layer, shard, first_rank, universe, scalars: vec![scalar(1, 5000.0), scalar(2, 0.25)], dists, keys }
    }

    pub fn spec(&self, kind: FileKind) -> ShardSpec<'static> {
        let Self { layer, shard, first_rank, universe, .. } = *self;
        ShardSpec { table: NAME, kind, layer, shard, first_rank, universe, blocks: 1 }
    }

    pub fn write(&self, dir: &TableDir, kind: FileKind) -> Result<FileRecord, StoreError> {
        let index = encode_sorted(&self.keys, self.universe).unwrap();
        let mut ends = Vec::new();
        let mut values = Vec::new();
        for (_, entries) in &self.dists {
            values.extend_from_slice(entries);
            ends.push(values.len() as u64);
        }
        let firsts: Vec<u8> = self.dists.iter().map(|d| d.0).collect();
        let mut columns: Vec<ColumnRef<'_>> =
            SCALARS.iter().zip(&self.scalars).map(|(&name, values)| ColumnRef::Scalar { name, values }).collect();
        columns.push(ColumnRef::Dist { name: DISTS[0], ends: &ends, firsts: &firsts, values: &values });
        let has_values = matches!(kind, FileKind::Work | FileKind::Shard);
        let columns = if has_values { columns.as_slice() } else { &[] };
        write_shard(dir, &self.spec(kind), (kind != FileKind::Work).then_some(index.as_slice()), columns)
    }
}

/// Writes and publishes a table of these shards.
pub fn publish_table(root: &Path, contents: &[Content]) -> Manifest {
    let dir = TableDir::open(root).unwrap();
    let mut layers: BTreeMap<u32, ManifestLayer> = BTreeMap::new();
    for content in contents {
        let record = content.write(&dir, FileKind::Shard).unwrap();
        let layer = layers.entry(content.layer).or_insert(ManifestLayer {
            layer: content.layer,
            universe: 0,
            states: 10,
            afterstates: 7,
            terminal: 1,
            stats: (content.layer == 4).then_some(STATS),
            shards: Vec::new(),
        });
        layer.universe += content.universe;
        layer.shards.push(ManifestShard::new(&record, content.first_rank, content.universe, 1));
    }
    let facts = BTreeMap::from([("value".to_owned(), 17.25)]);
    let manifest = Manifest::new(NAME, &SCALARS, &DISTS, layers.into_values().collect(), facts).unwrap();
    block_on(publish(&dir, &manifest)).unwrap();
    dir.remove_build().unwrap();
    manifest
}

/// The contents of the small table that damage is done to: two layers, one of two shards, one shard without keys.
pub fn small() -> Vec<Content> {
    vec![Content::new(4, 0, 0, 60, 3), Content::new(4, 1, 60, 50, 60_000), Content::new(6, 0, 0, 40, 2)]
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// All files below a directory, relative to it.
pub fn files(root: &Path) -> Vec<PathBuf> {
    let (mut found, mut todo) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = todo.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { todo.push(path) } else { found.push(path.strip_prefix(root).unwrap().to_owned()) }
        }
    }
    found.sort();
    found
}

/// Asks a table for everything that was put in it, both ways of reading it. Every answer must be right or an error; returns the least number of errors
/// there were.
pub fn probe_everything(root: &Path, contents: &[Content]) -> Result<u32, String> {
    let (Ok(read), Ok(mapped)) = (Table::open(root), Table::map(root)) else { return Ok(1) };
    Ok(ask_everything(&read, contents)?.min(ask_everything(&mapped, contents)?))
}

fn ask_everything(table: &Table, contents: &[Content]) -> Result<u32, String> {
    let mut errors = 0;
    for content in contents {
        let mut keys = content.keys.iter().enumerate().peekable();
        for rank in 0..content.universe {
            let ordinal = keys.next_if(|&(_, &key)| key == rank).map(|(i, _)| i);
            let expected = ordinal.map(|i| (content.shard, i as u64));
            match table.find(content.layer, content.first_rank + rank) {
                Ok(found) if found == expected => {}
                Ok(found) => return Err(format!("layer {} rank {rank}: {found:?}, not {expected:?}", content.layer)),
                Err(_) => errors += 1,
            }
            let Some(i) = ordinal else { continue };
            for (column, values) in content.scalars.iter().enumerate() {
                match table.scalar(content.layer, content.shard, column, i as u64) {
                    Ok(found) if (found.value - values[i]).abs() <= found.error && found.error <= 1e-5 => {}
                    Ok(found) => return Err(format!("layer {} key {i}: {found:?}, not {}", content.layer, values[i])),
                    Err(_) => errors += 1,
                }
            }
            let (first, entries) = &content.dists[i];
            match table.dist(content.layer, content.shard, 0, i as u64) {
                Ok((found_first, found)) => {
                    let near = found.iter().zip(entries).all(|(a, b)| (a - b).abs() <= 1.2e-10);
                    if found_first != usize::from(*first) || found.len() != entries.len() || !near {
                        return Err(format!("layer {} key {i}: {found_first} {found:?}, not {first} {entries:?}", content.layer));
                    }
                }
                Err(_) => errors += 1,
            }
        }
    }
    Ok(errors)
}

/// Verifies, and does not care how far it is.
pub fn verify(root: &Path, level: FileLevel) -> Result<Report, TableError> {
    verify_files(root, level, &|_| true)
}
