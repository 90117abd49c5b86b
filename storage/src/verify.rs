//! placeholder
use crate::dir::TableDir;
use crate::error::{Corruption, Section};
use crate::record::FileRecord;
use crate::table::TableError;
use serde::Serialize;
use std::path::Path;

/// How much to look at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FileLevel {
    /// Files, sizes, headers, directories, footers, manifest.
    Structure,
    /// Every byte.
    Hash,
}

/// Something that is not as it was published.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub struct Problem {
    /// The file, relative to the table.
    pub path: String,
    /// Its layer, when it is a shard.
    pub layer: Option<u32>,
    /// Its shard.
    pub shard: Option<u32>,
    /// The section that is damaged, where that is known.
    pub section: Option<Section>,
    /// What is wrong.
    pub what: String,
}

/// What verifying found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Report {
    /// Everything that is wrong, sorted by path.
    pub problems: Vec<Problem>,
    /// Files looked at.
    pub files: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Whether it was stopped before the end.
    pub interrupted: bool,
}

/// Whether the content of a file is what its record says.
pub fn check_file(_dir: &TableDir, _record: &FileRecord) -> Result<(), Corruption> { todo!() }

/// Verifies the files of a complete table.
pub fn verify_files(_root: &Path, _level: FileLevel, _progress: &(dyn Fn(u64) -> bool + Sync)) -> Result<Report, TableError> { todo!() }
