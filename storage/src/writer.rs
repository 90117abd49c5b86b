//! placeholder
use crate::dir::TableDir;
use crate::error::StoreError;
use crate::record::{FileKind, FileRecord};

/// A column to be written.
#[derive(Clone, Copy, Debug)]
pub enum ColumnRef<'a> {
    /// One number a key.
    Scalar {
        /// Its name.
        name: &'a str,
        /// One value a key.
        values: &'a [f64],
    },
    /// One distribution a key.
    Dist {
        /// Its name.
        name: &'a str,
        /// Key `i` has `values[ends[i - 1]..ends[i]]`.
        ends: &'a [u64],
        /// The index of the first entry, one a key.
        firsts: &'a [u8],
        /// The entries of all keys.
        values: &'a [f64],
    },
}

/// Who a shard file is, and what it covers.
#[derive(Clone, Copy, Debug)]
pub struct ShardSpec<'a> {
    /// Name of the table.
    pub table: &'a str,
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
}

/// Writes a shard file.
pub fn write_shard(_dir: &TableDir, _spec: &ShardSpec<'_>, _index: Option<&[u8]>, _columns: &[ColumnRef<'_>]) -> Result<FileRecord, StoreError> { todo!() }
