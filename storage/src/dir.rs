//! placeholder
use crate::error::StoreError;
use crate::lock::DirLock;
use crate::record::FileRecord;
use crate::shard::ShardFile;
use crate::error::ShardError;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What became of a record that was to be created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PutOutcome {
    /// It is there now, durably.
    Created,
    /// Something with that name was there before, and still is.
    Exists,
}

/// The directory of one table, while it is built. Clones are the same directory.
#[derive(Clone, Debug)]
pub struct TableDir {
    root: Arc<PathBuf>,
}

impl TableDir {
    /// Opens a table's directory, and creates it when it is missing.
    pub fn open(_root: &Path) -> Result<Self, StoreError> { todo!() }
    /// The directory.
    pub fn root(&self) -> &Path { &self.root }
    /// Where a file of the table is in the file system.
    pub fn path(&self, _relative: &str) -> PathBuf { todo!() }
    /// Creates a record, unless one of that name is there.
    pub async fn put_new(&self, _path: &str, _bytes: Vec<u8>) -> Result<PutOutcome, StoreError> { todo!() }
    /// Creates a record or replaces it, at once.
    pub async fn put_over(&self, _path: &str, _bytes: Vec<u8>) -> Result<(), StoreError> { todo!() }
    /// The content of a record, `None` when there is none of that name.
    pub async fn get(&self, _path: &str) -> Result<Option<Vec<u8>>, StoreError> { todo!() }
    /// The names of all files below a folder, sorted.
    pub async fn list(&self, _prefix: &str) -> Result<Vec<String>, StoreError> { todo!() }
    /// Removes a file. One that is not there is as good as removed.
    pub async fn delete(&self, _path: &str) -> Result<(), StoreError> { todo!() }
    /// Takes the lock of the directory.
    pub fn lock(&self) -> Result<DirLock, StoreError> { todo!() }
    /// Files and folders that no table puts there, sorted.
    pub fn foreign_files(&self) -> Result<Vec<String>, StoreError> { todo!() }
    /// Removes what interrupted writes left.
    pub fn clean_tmp(&self) -> Result<(), StoreError> { todo!() }
    /// Removes shard, index and work files that are not listed, and returns their names. Never touches foreign files or records.
    pub fn remove_unlisted(&self, _keep: &BTreeSet<String>) -> Result<Vec<String>, StoreError> { todo!() }
    /// Removes `build/`. The lock stays until it is dropped.
    pub fn remove_build(&self) -> Result<(), StoreError> { todo!() }
    /// Bytes that can still be written here.
    pub fn free_bytes(&self) -> Result<u64, StoreError> { todo!() }
    /// Opens a file of the table `table`, as its record describes it.
    pub fn open_shard(&self, _table: &str, _record: &FileRecord) -> Result<ShardFile, ShardError> { todo!() }
}
