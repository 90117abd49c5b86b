//! A complete table, opened for answers.

use crate::cache::GroupCache;
use crate::error::{Corruption, ShardError};
use crate::manifest::{Manifest, ManifestError, ManifestLayer, ManifestShard};
use crate::shard::{Bounded, ShardFile};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

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
        source: io::Error,
    },
}

/// Longest manifest that is read. One of a table of a million shards is shorter.
const MAX_MANIFEST: u64 = 1 << 30;

/// The content of a small file of a table; `None` when it is missing.
pub(crate) fn read_small(path: &Path) -> io::Result<Option<Vec<u8>>> {
    // Looked at before it is opened: opening a pipe waits for somebody to write into it.
    match fs::metadata(path) {
        Ok(found) if found.is_file() => {}
        Ok(_) => return Err(io::Error::other("it is not a file")),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(None),
        Err(error) => return Err(error),
    }
    let file = File::open(path)?;
    let mut bytes = Vec::new();
    file.take(MAX_MANIFEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_MANIFEST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is longer than {MAX_MANIFEST} bytes")));
    }
    Ok(Some(bytes))
}

/// A complete table, opened for answers. May be used by many threads.
#[derive(Debug)]
pub struct Table {
    root: PathBuf,
    manifest: Manifest,
    /// The files that were needed so far, one place for each shard of each layer.
    files: Vec<Vec<OnceLock<Arc<ShardFile>>>>,
    /// Decompressed groups of all of them.
    cache: Arc<GroupCache>,
}

/// Bytes of decompressed groups that a table keeps, unless told otherwise.
const CACHE_BYTES: u64 = 256 << 20;

impl Table {
    /// Opens a complete table: reads and checks its manifest, and opens no shard.
    pub fn open(root: &Path) -> Result<Self, TableError> {
        let path = root.join("table.json");
        let bytes = match read_small(&path) {
            Ok(Some(bytes)) => bytes,
            Ok(None) if root.join("build").is_dir() => return Err(TableError::Unfinished { path: root.to_owned() }),
            Ok(None) => return Err(TableError::NotATable { path: root.to_owned() }),
            Err(source) => return Err(TableError::Io { path, source }),
        };
        let manifest = Manifest::parse(&bytes).map_err(|cause| TableError::Manifest { path: root.to_owned(), cause })?;
        let root = fs::canonicalize(root).map_err(|source| TableError::Io { path: root.to_owned(), source })?;
        let places = |layer: &ManifestLayer| layer.shards.iter().map(|_| OnceLock::new()).collect();
        let cache = Arc::new(GroupCache::new(CACHE_BYTES));
        Ok(Self { root, files: manifest.layers.iter().map(places).collect(), manifest, cache })
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Keeps at most about so many bytes of decompressed values in memory (256 MiB unless told otherwise). Where columns are compressed
    /// a value that is not kept costs the decompression of its group, some 40 µs.
    pub fn with_cache_bytes(mut self, bytes: u64) -> Self {
        self.cache = Arc::new(GroupCache::new(bytes));
        for place in self.files.iter_mut().flatten() {
            *place = OnceLock::new();
        }
        self
    }

    /// Its manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Where a key is: its shard, and its number among the keys of that shard. `None` when the table does not hold it.
    pub fn find(&self, layer: u32, rank: u64) -> Result<Option<(u32, u64)>, ShardError> {
        let Some(found) = self.manifest.layer(layer).filter(|found| rank < found.universe) else { return Ok(None) };
        // The shards cover the ranks without gaps, so the last that starts at the rank or before covers it.
        let position = found.shards.partition_point(|shard| shard.first_rank <= rank);
        let Some(shard) = position.checked_sub(1).map(|i| &found.shards[i]) else { return Ok(None) };
        let file = self.shard(layer, shard.shard)?;
        let ordinal = file.index()?.find(rank - shard.first_rank);
        Ok(ordinal.map(|ordinal| (shard.shard, ordinal)))
    }

    /// A value of a scalar column.
    pub fn scalar(&self, layer: u32, shard: u32, column: usize, ordinal: u64) -> Result<Bounded, ShardError> {
        self.shard(layer, shard)?.scalar(column, ordinal)
    }

    /// A distribution: the index of its first entry, and its entries.
    pub fn dist(&self, layer: u32, shard: u32, column: usize, ordinal: u64) -> Result<(usize, Vec<f64>), ShardError> {
        self.shard(layer, shard)?.dist(column, ordinal)
    }

    /// A shard, opened when it is first asked for, and kept.
    pub fn shard(&self, layer: u32, shard: u32) -> Result<Arc<ShardFile>, ShardError> {
        let no_such = |what, asked: u32, have: usize| {
            let cause = Corruption::NoSuch { what, asked: u64::from(asked), have: have as u64 };
            ShardError::new(&self.root, None, cause)
        };
        let position = self.manifest.layer_position(layer).ok_or_else(|| no_such("layer", layer, self.manifest.layers.len()))?;
        let shards = &self.manifest.layers[position].shards;
        let number = usize::try_from(shard).ok().filter(|&number| number < shards.len());
        let number = number.ok_or_else(|| no_such("shard", shard, shards.len()))?;
        let place = &self.files[position][number];
        if let Some(file) = place.get() {
            return Ok(file.clone());
        }
        // Two threads may open it at the same time; one of the maps is kept.
        let file = open_published(&self.root, &self.manifest, layer, &shards[number])?;
        let file = Arc::new(file.with_cache(&self.cache));
        Ok(place.get_or_init(|| file).clone())
    }
}

/// Opens a published shard, and compares it with everything that the manifest says of it.
pub(crate) fn open_published(
    root: &Path,
    manifest: &Manifest,
    layer: u32,
    shard: &ManifestShard,
) -> Result<ShardFile, ShardError> {
    let path = root.join(&shard.path);
    let file = ShardFile::open(&path, Some(&shard.record(layer)))?;
    file.expect_table(&manifest.table)?;
    file.expect_run(shard.first_rank, shard.universe, shard.blocks)?;
    file.expect_columns(&manifest.scalar_columns, &manifest.dist_columns)?;
    Ok(file)
}
