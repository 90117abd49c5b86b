//! placeholder
use crate::error::ShardError;
use crate::manifest::{Manifest, ManifestError};
use crate::shard::{Bounded, ShardFile};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory that cannot be opened as a table.
#[derive(thiserror::Error, Debug)]
pub enum TableError {
    /// There is no table.
    #[error("there is no table in {}: it has no table.json", path.display())]
    NotATable {
        /// Where.
        path: PathBuf,
    },
    /// A table that is still being built.
    #[error("the table in {} is not complete; run the same `strata build` command again to finish it", path.display())]
    Unfinished {
        /// Where.
        path: PathBuf,
    },
    /// Its manifest is damaged.
    #[error("{}: {cause}", path.display())]
    Manifest {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        cause: ManifestError,
    },
    /// The operating system could not read it.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// A complete table, opened for answers.
#[derive(Debug)]
pub struct Table {}

impl Table {
    /// Opens a complete table.
    pub fn open(_root: &Path) -> Result<Self, TableError> { todo!() }
    /// Its manifest.
    pub fn manifest(&self) -> &Manifest { todo!() }
    /// Where a key is: its shard, and its number in the shard.
    pub fn find(&self, _layer: u32, _rank: u64) -> Result<Option<(u32, u64)>, ShardError> { todo!() }
    /// A value of a scalar column.
    pub fn scalar(&self, _layer: u32, _shard: u32, _column: usize, _ordinal: u64) -> Result<Bounded, ShardError> { todo!() }
    /// A distribution: its first index and its entries.
    pub fn dist(&self, _layer: u32, _shard: u32, _column: usize, _ordinal: u64) -> Result<(usize, Vec<f64>), ShardError> { todo!() }
    /// A shard, opened when first asked for.
    pub fn shard(&self, _layer: u32, _shard: u32) -> Result<Arc<ShardFile>, ShardError> { todo!() }
}
