//! The manifest `table.json`: what a table holds, by which hashes, and the one root that stands for all of it.
//!
//! The file is canonical JSON ([`canonical_json`](crate::canonical_json)) and an end of line. The root is the BLAKE3 of the canonical JSON
//! of everything but the member `root`; since the BLAKE3 of every shard is in it, whoever knows the root can check every byte of
//! the table. Nothing in it depends on who built the table, or when.

use crate::digest::Digest;
use crate::dir::Publish;
use crate::error::StoreError;
use crate::json::write_value;
use crate::record::{FileKind, FileRecord, artifact_path};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Version of the format of tables that this build reads and writes.
pub const FORMAT: u32 = 1;

/// Why bytes are no manifest.
#[derive(thiserror::Error, Debug)]
pub enum ManifestError {
    /// Not JSON, or not of this shape.
    #[error("table.json is damaged: {0}")]
    Json(#[from] serde_json::Error),
    /// Another version of the format.
    #[error("table.json has format {0}, and this build of strata reads format {FORMAT}")]
    Format(u32),
    /// Not the one text that this content has.
    #[error("table.json was changed after it was written: it is not in canonical form from byte {at} on")]
    NotCanonical {
        /// The first byte that differs.
        at: u64,
    },
    /// Facts that contradict each other.
    #[error("table.json contradicts itself: {0}")]
    Inconsistent(String),
    /// The root is not that of the content.
    #[error("table.json was changed after it was written: its root is {found}, but that of its content is {expected}")]
    Root {
        /// As it says.
        found: Digest,
        /// As it should be.
        expected: Digest,
    },
}

/// One published shard.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestShard {
    /// Its number in the layer, from 0.
    pub shard: u32,
    /// First rank that it covers.
    pub first_rank: u64,
    /// Number of ranks it covers.
    pub universe: u64,
    /// Number of blocks it covers.
    pub blocks: u64,
    /// Its name relative to the table.
    pub path: String,
    /// BLAKE3 of the file.
    pub blake3: Digest,
    /// SHA-256 of the file.
    pub sha256: Digest,
    /// Length of the file.
    pub bytes: u64,
    /// Number of keys.
    pub keys: u64,
    /// Bytes of its index section.
    pub index_bytes: u64,
    /// Bytes of its value columns.
    pub value_bytes: u64,
    /// Bounds on the errors of its values, one for each scalar column.
    pub error_bounds: Vec<f64>,
}

impl ManifestShard {
    /// From the record of a published shard, and what it covers.
    pub fn new(record: &FileRecord, first_rank: u64, universe: u64, blocks: u64) -> Self {
        Self {
            shard: record.shard,
            first_rank,
            universe,
            blocks,
            path: record.path.clone(),
            blake3: record.blake3,
            sha256: record.sha256,
            bytes: record.bytes,
            keys: record.keys,
            index_bytes: record.index_bytes,
            value_bytes: record.value_bytes,
            error_bounds: record.error_bounds.clone(),
        }
    }

    /// The record of the file.
    pub fn record(&self, layer: u32) -> FileRecord {
        FileRecord {
            kind: FileKind::Shard,
            layer,
            shard: self.shard,
            path: self.path.clone(),
            blake3: self.blake3,
            sha256: self.sha256,
            bytes: self.bytes,
            keys: self.keys,
            index_bytes: self.index_bytes,
            value_bytes: self.value_bytes,
            error_bounds: self.error_bounds.clone(),
        }
    }
}

/// What the backward pass found about the states of a layer. The action gap of a state with two or more legal moves is the value of its
/// best move minus that of the second best.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestStats {
    /// Pairs of a state and a legal move in it.
    pub legal_moves: u64,
    /// States whose best move is better than every other legal one by more than 2^-40 of its value; one legal move counts.
    pub single_best: u64,
    /// States with at least two legal moves.
    pub choices: u64,
    /// Sum of the values of all states, terminal ones included.
    pub value_sum: f64,
    /// Sum of the action gaps.
    pub gap_sum: f64,
    /// The largest action gap; 0 when there is none.
    pub gap_most: f64,
}

/// One layer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestLayer {
    /// Its number.
    pub layer: u32,
    /// Number of ranks.
    pub universe: u64,
    /// Positions with the player to act, terminal ones included.
    pub states: u64,
    /// Positions after the move, before chance. 0 in a game that stores states.
    pub afterstates: u64,
    /// States without a legal move.
    pub terminal: u64,
    /// What was found about its states. Absent from games without states to choose in, and from tables built by versions that kept
    /// no statistics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<ManifestStats>,
    /// Its shards: they cover the ranks without gaps, in order.
    pub shards: Vec<ManifestShard>,
}

/// Everything about a complete table.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of the format of the table.
    pub format: u32,
    /// Name of the table.
    pub table: String,
    /// Names of the scalar columns.
    pub scalar_columns: Vec<String>,
    /// Names of the distribution columns.
    pub dist_columns: Vec<String>,
    /// The layers, ascending.
    pub layers: Vec<ManifestLayer>,
    /// Sum over the layers.
    pub states: u64,
    /// Sum over the layers.
    pub afterstates: u64,
    /// Sum over the layers.
    pub terminal: u64,
    /// Number of keys: sum over the shards.
    pub keys: u64,
    /// Bytes of all shard files.
    pub bytes: u64,
    /// Bytes of all index sections.
    pub index_bytes: u64,
    /// Bytes of all value columns.
    pub value_bytes: u64,
    /// Bounds on the errors of all values, one for each scalar column: the largest over the shards.
    pub error_bounds: Vec<f64>,
    /// Numbers about the whole table, such as `value`.
    pub facts: BTreeMap<String, f64>,
    /// The one hash that stands for the whole table.
    pub root: Digest,
}

impl Manifest {
    /// Puts a manifest together: sorts the layers, adds up sums, bounds and the root, and checks it all as [`parse`](Self::parse) does.
    pub fn new(
        table: &str,
        scalar_columns: &[&str],
        dist_columns: &[&str],
        mut layers: Vec<ManifestLayer>,
        facts: BTreeMap<String, f64>,
    ) -> Result<Self, ManifestError> {
        layers.sort_by_key(|layer| layer.layer);
        let names = |columns: &[&str]| columns.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let mut manifest = Self {
            format: FORMAT,
            table: table.to_owned(),
            scalar_columns: names(scalar_columns),
            dist_columns: names(dist_columns),
            layers,
            facts,
            states: 0,
            afterstates: 0,
            terminal: 0,
            keys: 0,
            bytes: 0,
            index_bytes: 0,
            value_bytes: 0,
            error_bounds: Vec::new(),
            root: Digest::default(),
        };
        let sums = manifest.sums()?;
        [
            manifest.states,
            manifest.afterstates,
            manifest.terminal,
            manifest.keys,
            manifest.bytes,
            manifest.index_bytes,
            manifest.value_bytes,
        ] = sums;
        manifest.error_bounds = manifest.bounds();
        manifest.root = manifest.content_root();
        manifest.check()?;
        Ok(manifest)
    }

    /// The content of `table.json`.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = String::new();
        write_value(&mut text, &self.to_value());
        text.push('\n');
        text.into_bytes()
    }

    /// Reads `table.json` and checks that it is in canonical form, that everything in it fits together, and its root.
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        /// The format is looked at first: another one may have other members.
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let manifest: Self = match serde_json::from_slice(bytes) {
            Ok(manifest) => manifest,
            Err(error) => match serde_json::from_slice(bytes) {
                Ok(Version { format }) if format != FORMAT => return Err(ManifestError::Format(format)),
                _ => return Err(error.into()),
            },
        };
        if manifest.format != FORMAT {
            return Err(ManifestError::Format(manifest.format));
        }
        let canonical = manifest.to_bytes();
        if canonical != bytes {
            let at = canonical.iter().zip(bytes).position(|(a, b)| a != b).unwrap_or(canonical.len().min(bytes.len()));
            return Err(ManifestError::NotCanonical { at: at as u64 });
        }
        let expected = manifest.content_root();
        if manifest.root != expected {
            return Err(ManifestError::Root { found: manifest.root, expected });
        }
        manifest.check()?;
        Ok(manifest)
    }

    /// The content of `B3SUMS`: what `b3sum` prints for the files of the table, and `b3sum -c` checks.
    pub fn b3sums(&self) -> String {
        self.sums_file(|shard| shard.blake3, Digest::blake3)
    }

    /// The content of `SHA256SUMS`: what `sha256sum` prints for the files of the table, and `sha256sum -c` checks.
    pub fn sha256sums(&self) -> String {
        self.sums_file(|shard| shard.sha256, Digest::sha256)
    }

    fn sums_file(&self, of_shard: fn(&ManifestShard) -> Digest, of_bytes: fn(&[u8]) -> Digest) -> String {
        let shards = self.layers.iter().flat_map(|layer| &layer.shards);
        let lines = shards.map(|shard| format!("{}  {}\n", of_shard(shard), shard.path));
        lines.chain([format!("{}  table.json\n", of_bytes(&self.to_bytes()))]).collect()
    }

    /// The layer of that number.
    pub fn layer(&self, layer: u32) -> Option<&ManifestLayer> {
        self.layer_position(layer).map(|i| &self.layers[i])
    }

    pub(crate) fn layer_position(&self, layer: u32) -> Option<usize> {
        self.layers.binary_search_by_key(&layer, |layer| layer.layer).ok()
    }

    fn to_value(&self) -> Value {
        // Strings, numbers, lists and maps with string keys: there is nothing that JSON cannot hold.
        serde_json::to_value(self).unwrap_or(Value::Null)
    }

    /// The canonical JSON of everything but the root, which is its BLAKE3.
    pub(crate) fn content(&self) -> String {
        let mut value = self.to_value();
        if let Value::Object(members) = &mut value {
            members.remove("root");
        }
        let mut text = String::new();
        write_value(&mut text, &value);
        text
    }

    fn content_root(&self) -> Digest {
        Digest::blake3(self.content().as_bytes())
    }

    /// A manifest from its content with an empty list of layers. Its sums are those of all layers, and it does not pass [`check`](Self::check).
    pub(crate) fn without_layers(content: &str, root: Digest) -> Result<Self, ManifestError> {
        let mut value: Value = serde_json::from_str(content)?;
        if let Value::Object(members) = &mut value {
            members.insert("root".into(), Value::String(root.to_string()));
        }
        let manifest: Self = serde_json::from_value(value)?;
        if manifest.format != FORMAT {
            return Err(ManifestError::Format(manifest.format));
        }
        if !manifest.layers.is_empty() {
            return Err(ManifestError::Inconsistent("it has layers where there should be none".into()));
        }
        Ok(manifest)
    }

    fn sums(&self) -> Result<[u64; 7], ManifestError> {
        let mut sums = [0u64; 7];
        for layer in &self.layers {
            let counts = [layer.states, layer.afterstates, layer.terminal, 0, 0, 0, 0];
            let shards = layer.shards.iter().map(|s| [0, 0, 0, s.keys, s.bytes, s.index_bytes, s.value_bytes]);
            for (sum, n) in shards.chain([counts]).flat_map(|row| (0..7).zip(row)) {
                let total: Option<u64> = sums[sum].checked_add(n);
                sums[sum] = total.ok_or_else(|| ManifestError::Inconsistent("its sums do not fit in 64 bits".into()))?;
            }
        }
        Ok(sums)
    }

    fn bounds(&self) -> Vec<f64> {
        let mut bounds = vec![0.0; self.scalar_columns.len()];
        for shard in self.layers.iter().flat_map(|layer| &layer.shards) {
            for (bound, &error) in bounds.iter_mut().zip(&shard.error_bounds) {
                *bound = if error > *bound { error } else { *bound };
            }
        }
        bounds
    }

    /// Checks everything but the root.
    fn check(&self) -> Result<(), ManifestError> {
        let wrong = |what: String| Err(ManifestError::Inconsistent(what));
        let names = self.scalar_columns.iter().chain(&self.dist_columns).chain([&self.table]);
        if names.into_iter().any(|name| !(1..=crate::layout::MAX_NAME).contains(&name.len())) {
            return wrong("a name is empty or too long".into());
        }
        if self.layers.windows(2).any(|pair| pair[0].layer >= pair[1].layer) {
            return wrong("the layers are not in ascending order".into());
        }
        for layer in &self.layers {
            if let Err(what) = self.check_layer(layer) {
                return wrong(format!("layer {}: {what}", layer.layer));
            }
        }
        let given = [self.states, self.afterstates, self.terminal, self.keys, self.bytes, self.index_bytes, self.value_bytes];
        if given != self.sums()? {
            return wrong("its sums are not those of its layers".into());
        }
        if self.error_bounds != self.bounds() {
            return wrong("its error bounds are not those of its shards".into());
        }
        match self.facts.iter().find(|(_, value)| !value.is_finite()) {
            Some((name, value)) => wrong(format!("the fact {name} is {value}, not a finite number")),
            None => Ok(()),
        }
    }

    fn check_layer(&self, layer: &ManifestLayer) -> Result<(), String> {
        let mut next = 0u64;
        for (number, shard) in (0..).zip(&layer.shards) {
            let here = |what: &str| Err(format!("shard {number}: {what}"));
            if shard.shard != number || shard.first_rank != next {
                return here("the shards do not follow each other");
            }
            next = next.checked_add(shard.universe).ok_or("the ranks do not fit in 64 bits")?;
            if shard.keys > shard.universe {
                return here("more keys than ranks");
            }
            if shard.path != artifact_path(FileKind::Shard, layer.layer, shard.shard, &shard.blake3) {
                return here("the path is not the one that follows from its hash");
            }
            if shard.index_bytes.checked_add(shard.value_bytes).is_none_or(|sections| sections > shard.bytes) {
                return here("the sections are longer than the file");
            }
            if shard.error_bounds.len() != self.scalar_columns.len()
                || shard.error_bounds.iter().any(|e| !(e.is_finite() && *e >= 0.0))
            {
                return here("there must be one error bound for each scalar column, a number that is not negative");
            }
        }
        if next != layer.universe {
            return Err(format!("its shards cover {next} ranks of {}", layer.universe));
        }
        if layer.terminal > layer.states {
            return Err("more terminal states than states".into());
        }
        layer.stats.as_ref().map_or(Ok(()), |stats| check_stats(stats, layer.states))
    }
}

fn check_stats(stats: &ManifestStats, states: u64) -> Result<(), String> {
    if stats.single_best > states || stats.choices > states {
        return Err("statistics of more states than it has".into());
    }
    if ![stats.value_sum, stats.gap_sum, stats.gap_most].iter().all(|number| number.is_finite()) {
        return Err("statistics that are not finite numbers".into());
    }
    if stats.gap_sum < 0.0 || stats.gap_most < 0.0 {
        return Err("an action gap below 0".into());
    }
    Ok(())
}

/// Publishes a table whose shards are all there: `B3SUMS` and `SHA256SUMS`, and then, last of all, `table.json`. From then on the table
/// is complete. Each file is on the disk before the next one is written; doing it again is welcome.
pub async fn publish(dir: &crate::TableDir, manifest: &Manifest) -> Result<(), StoreError> {
    let files = [
        ("B3SUMS", manifest.b3sums().into_bytes()),
        ("SHA256SUMS", manifest.sha256sums().into_bytes()),
        ("table.json", manifest.to_bytes()),
    ];
    for (name, bytes) in files {
        if dir.is_far() {
            dir.put_over(name, bytes).await?;
            continue;
        }
        // Through build/tmp, so that a crash leaves nothing in the table that does not belong there.
        let mut file = dir.create_tmp()?;
        file.write(&bytes)?;
        file.publish(name, Publish::Synced)?;
    }
    Ok(())
}
