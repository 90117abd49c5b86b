//! placeholder
use crate::error::ShardError;
use crate::index::IndexSet;
use crate::record::{FileKind, FileRecord};
use std::path::Path;

/// A value, and how far it can be from the exact one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bounded {
    /// The value.
    pub value: f64,
    /// The bound on its absolute error.
    pub error: f64,
}

/// Who a shard file is, and what it covers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShardHeader {
    /// Name of the table.
    pub table: String,
    /// What the file holds.
    pub kind: FileKind,
    /// The layer.
    pub layer: u32,
    /// The shard.
    pub shard: u32,
    /// First rank of the layer's universe that it covers.
    pub first_rank: u64,
    /// Number of ranks it covers.
    pub universe: u64,
    /// Number of blocks it covers.
    pub blocks: u64,
    /// Number of keys.
    pub keys: u64,
    /// Names of the scalar columns.
    pub scalar_columns: Vec<String>,
    /// Names of the distribution columns.
    pub dist_columns: Vec<String>,
}

/// One shard file, read in place.
#[derive(Debug)]
pub struct ShardFile {}

impl ShardFile {
    /// Opens a file.
    pub fn open(_path: &Path, _expected: Option<&FileRecord>) -> Result<Self, ShardError> { todo!() }
    /// Reads a file that is in memory; `name` is what errors call it.
    pub fn from_bytes(_name: &Path, _bytes: Vec<u8>, _expected: Option<&FileRecord>) -> Result<Self, ShardError> { todo!() }
    /// Who it is.
    pub fn header(&self) -> &ShardHeader { todo!() }
    /// Its keys.
    pub fn index(&self) -> Result<IndexSet<&[u8]>, ShardError> { todo!() }
    /// The value of key number `ordinal` in a scalar column.
    pub fn scalar(&self, _column: usize, _ordinal: u64) -> Result<Bounded, ShardError> { todo!() }
    /// All values of a scalar column, in the order of the keys.
    pub fn scalars(&self, _column: usize) -> Result<Vec<f64>, ShardError> { todo!() }
    /// The distribution of key number `ordinal`: its first index and its entries.
    pub fn dist(&self, _column: usize, _ordinal: u64) -> Result<(usize, Vec<f64>), ShardError> { todo!() }
    /// All distributions of a column: ends, firsts, values.
    #[allow(clippy::type_complexity)]
    pub fn dists(&self, _column: usize) -> Result<(Vec<u64>, Vec<u8>, Vec<f64>), ShardError> { todo!() }
}
