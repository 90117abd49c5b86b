//! placeholder
use crate::digest::Digest;
use crate::dir::TableDir;
use crate::error::StoreError;
use crate::record::FileRecord;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the format.
pub const FORMAT: u32 = 1;

/// Why bytes are no manifest.
#[derive(thiserror::Error, Debug)]
pub enum ManifestError {
    /// Not JSON, or not of this shape.
    #[error("table.json: {0}")]
    Json(#[from] serde_json::Error),
    /// Another format.
    #[error("table.json: format {0}; this build reads format {FORMAT}")]
    Format(u32),
    /// Not the one form that this content has.
    #[error("table.json is not in canonical form, from byte {at} on: it was changed after it was written")]
    NotCanonical {
        /// The first byte that differs.
        at: u64,
    },
    /// Facts that contradict each other.
    #[error("table.json: {0}")]
    Inconsistent(String),
    /// The root is not that of the content.
    #[error("table.json: the root is {found}, but the content has {expected}: it was changed after it was written")]
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
    /// From the record of a published shard and what it covers.
    pub fn new(record: &FileRecord, first_rank: u64, universe: u64, blocks: u64) -> Self { let _ = (record, first_rank, universe, blocks); todo!() }
    /// The record of the file.
    pub fn record(&self, _layer: u32) -> FileRecord { todo!() }
}

/// One layer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestLayer {
    /// Its number.
    pub layer: u32,
    /// Number of ranks.
    pub universe: u64,
    /// Positions with the player to act.
    pub states: u64,
    /// Positions after the move, before chance.
    pub afterstates: u64,
    /// States without a legal move.
    pub terminal: u64,
    /// Its shards, in order.
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
    /// Sum over the shards.
    pub keys: u64,
    /// Sum over the shards.
    pub bytes: u64,
    /// Sum over the shards.
    pub index_bytes: u64,
    /// Sum over the shards.
    pub value_bytes: u64,
    /// Largest over the shards, one for each scalar column.
    pub error_bounds: Vec<f64>,
    /// Numbers about the whole table, such as `value`.
    pub facts: BTreeMap<String, f64>,
    /// The one hash that stands for the whole table.
    pub root: Digest,
}

impl Manifest {
    /// Puts a manifest together: sorts the layers, computes sums, bounds and the root, and checks it all.
    pub fn new(_table: &str, _scalar_columns: &[&str], _dist_columns: &[&str], _layers: Vec<ManifestLayer>, _facts: BTreeMap<String, f64>) -> Result<Self, ManifestError> { todo!() }
    /// The content of `table.json`.
    pub fn to_bytes(&self) -> Vec<u8> { todo!() }
    /// Reads `table.json` and checks it.
    pub fn parse(_bytes: &[u8]) -> Result<Self, ManifestError> { todo!() }
    /// The content of `B3SUMS`.
    pub fn b3sums(&self) -> String { todo!() }
    /// The content of `SHA256SUMS`.
    pub fn sha256sums(&self) -> String { todo!() }
}

/// Publishes a table: the sums, then the manifest.
pub async fn publish(_dir: &TableDir, _manifest: &Manifest) -> Result<(), StoreError> { todo!() }
