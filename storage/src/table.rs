//! A complete table, opened for answers.
//!
//! Two ways of reading, with the same answers. [`Table::open`] and [`Table::at`] read blocks of 16 KiB by position, each compared with the root of
//! the table before it is used, from a disk or over a network: whatever happens to the files, an answer is right or an error. [`Table::map`]
//! maps the files, which is several times as fast from memory, and believes checksums: for files that nobody changes.

use crate::blocks::{Blocks, Origin, Trusted};
use crate::bucket::Bucket;
use crate::cache::GroupCache;
use crate::digest::Digest;
use crate::error::{Corruption, ShardError, StoreError};
use crate::manifest::{Manifest, ManifestError, ManifestLayer, ManifestShard};
use crate::place::Place;
use crate::proof::{Log, Opened, Proof, ProofError, Proven, Recorded};
use crate::shard::{Bounded, ShardFile};
use crate::tree::{TREES, Trees};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

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
    /// An object store could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
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

/// How the files of a table are read.
#[derive(Debug)]
enum Access {
    /// Mapped.
    Map,
    /// In blocks, from a folder.
    Folder(Option<Trees>),
    /// In blocks, from an object store.
    Bucket(Bucket, String, Option<Trees>),
    /// As another table does, which has what was read before; what is read is written down for each shard.
    Recording(Arc<Table>, Mutex<BTreeMap<(u32, u32), Log>>),
    /// From a proof, which has a part of some shards.
    Proof(BTreeMap<(u32, u32), Arc<Opened>>),
}

/// A complete table, opened for answers. May be used by many threads.
#[derive(Debug)]
pub struct Table {
    root: PathBuf,
    access: Access,
    manifest: Arc<Manifest>,
    /// The files that were needed so far, one place for each shard of each layer.
    files: Vec<Vec<OnceLock<Arc<ShardFile>>>>,
    /// Blocks and decompressed groups of all of them.
    cache: Arc<GroupCache>,
    /// Held while a shard is opened, each by some of the shards: to read all of one is for one thread.
    opening: [Mutex<()>; OPENING],
    /// Shards, by their positions, that were read as a whole and found to have another hash, and when.
    refused: Mutex<HashMap<(usize, usize), (Instant, Digest)>>,
}

const OPENING: usize = 64;
/// A shard that has another hash is not read again for so long.
const REFUSAL: Duration = Duration::from_secs(20);

/// Bytes of blocks and decompressed groups that a table keeps, unless told otherwise.
const CACHE_BYTES: u64 = 256 << 20;

impl Table {
    /// Opens a complete table: reads and checks its manifest, and opens no shard. Its files are read by position, in blocks that are compared
    /// with the root before they are used. Where the table has no `TREES` (only published ones do), a shard is read once as a whole when it is
    /// first needed.
    pub fn open(root: &Path) -> Result<Self, TableError> {
        let table = Self::map(root)?;
        let trees = Trees::of(&table.manifest);
        let there = fs::metadata(table.root.join(TREES)).is_ok_and(|found| found.is_file() && found.len() == trees.length);
        Ok(Self { access: Access::Folder(there.then_some(trees)), ..table })
    }

    /// Opens a complete table wherever it is. Blocks, outside any runtime, where that is an object store.
    pub fn at(place: &Place) -> Result<Self, TableError> {
        let (bucket, table) = match place {
            Place::Folder(folder) => return Self::open(folder),
            Place::Bucket(bucket, table) => (bucket, table),
        };
        let path = place.shown();
        let bytes = match bucket.block_on(place.get("table.json"))? {
            Some(bytes) => bytes,
            None if bucket.block_on(place.get("build/job.json"))?.is_some() => return Err(TableError::Unfinished { path }),
            None => return Err(TableError::NotATable { path }),
        };
        let manifest = Manifest::parse(&bytes).map_err(|cause| TableError::Manifest { path: path.clone(), cause })?;
        let trees = Trees::of(&manifest);
        let there = bucket.block_on(bucket.objects().under(table)?.length(TREES))? == Some(trees.length);
        Ok(Self::over(path, Arc::new(manifest), Access::Bucket(bucket.clone(), table.clone(), there.then_some(trees))))
    }

    /// Opens a complete table whose files nobody changes: they are mapped. A file that is cut short while it is mapped ends the process.
    pub fn map(root: &Path) -> Result<Self, TableError> {
        let path = root.join("table.json");
        let bytes = match read_small(&path) {
            Ok(Some(bytes)) => bytes,
            Ok(None) if root.join("build").is_dir() => return Err(TableError::Unfinished { path: root.to_owned() }),
            Ok(None) => return Err(TableError::NotATable { path: root.to_owned() }),
            Err(source) => return Err(TableError::Io { path, source }),
        };
        let manifest = Manifest::parse(&bytes).map_err(|cause| TableError::Manifest { path: root.to_owned(), cause })?;
        let root = fs::canonicalize(root).map_err(|source| TableError::Io { path: root.to_owned(), source })?;
        Ok(Self::over(root, Arc::new(manifest), Access::Map))
    }

    /// The same table, to ask the questions of one proof. Shards are opened once, there.
    pub fn recording(self: &Arc<Self>) -> Self {
        Self::over(self.root.clone(), self.manifest.clone(), Access::Recording(self.clone(), Mutex::default()))
    }

    /// A proof of everything that was read of a [`recording`](Self::recording) table.
    ///
    /// # Errors
    /// When a shard cannot be read, or this is no such table.
    pub fn proof(&self) -> Result<Proof, ShardError> {
        let Access::Recording(of, logs) = &self.access else {
            let cause = Corruption::Malformed("nothing was written down that could be proven".into());
            return Err(ShardError::new(&self.root, None, cause));
        };
        let logs = logs.lock().unwrap_or_else(PoisonError::into_inner);
        let read = logs.iter().map(|(&(layer, shard), log)| {
            let read = log.lock().unwrap_or_else(PoisonError::into_inner).clone();
            Ok((layer, shard, of.trusted(layer, shard)?, read))
        });
        Proof::of(&self.manifest, read.collect::<Result<Vec<_>, ShardError>>()?)
    }

    /// The part of a table that a proof has, once it is clear that it belongs to a root. What the proof does not have is an error.
    ///
    /// # Errors
    /// See [`ProofError`].
    pub fn of_proof(proof: &Proof, root: Digest) -> Result<Self, ProofError> {
        let Proven { manifest, files } = proof.check(root)?;
        Ok(Self::over(PathBuf::from("the proof"), Arc::new(manifest), Access::Proof(files)))
    }

    fn over(root: PathBuf, manifest: Arc<Manifest>, access: Access) -> Self {
        let places = |layer: &ManifestLayer| layer.shards.iter().map(|_| OnceLock::new()).collect();
        let cache = Arc::new(GroupCache::new(CACHE_BYTES));
        let files = manifest.layers.iter().map(places).collect();
        Self { root, access, files, manifest, cache, opening: [const { Mutex::new(()) }; OPENING], refused: Mutex::default() }
    }

    /// The directory, or what people call the place.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Keeps at most about so many bytes of blocks and decompressed values in memory (256 MiB unless told otherwise). Where columns are compressed
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
        let is_part = matches!(self.access, Access::Proof(_));
        let shard = self.manifest.layer(layer).filter(|found| is_part || rank < found.universe).and_then(|found| {
            // The shards cover the ranks without gaps, so the last that starts at the rank or before covers it.
            let position = found.shards.partition_point(|shard| shard.first_rank <= rank);
            position.checked_sub(1).map(|i| &found.shards[i]).filter(|shard| rank - shard.first_rank < shard.universe)
        });
        let shard = match shard {
            Some(shard) => shard,
            None if is_part => {
                let cause = Corruption::Malformed(format!("it does not have rank {rank} of layer {layer}"));
                return Err(ShardError::new(&self.root, None, cause));
            }
            None => return Ok(None),
        };
        let file = self.shard(layer, shard.shard)?;
        let ordinal = file.find(rank - shard.first_rank)?;
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
        // All of them but in a proof, so it is its own number.
        let number =
            shards.binary_search_by_key(&shard, |shard| shard.shard).map_err(|_| no_such("shard", shard, shards.len()))?;
        let place = &self.files[position][number];
        if let Some(file) = place.get() {
            return Ok(file.clone());
        }
        let _opening = self.opening[(position + number) % OPENING].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = place.get() {
            return Ok(file.clone());
        }
        let file = self.open_shard(position, number)?;
        let file = Arc::new(file.with_cache(&self.cache));
        Ok(place.get_or_init(|| file).clone())
    }

    /// Opens a shard by the positions of its layer and its own.
    fn open_shard(&self, layer: usize, number: usize) -> Result<ShardFile, ShardError> {
        let (of, shard) = (&self.manifest.layers[layer], &self.manifest.layers[layer].shards[number]);
        let key = (of.layer, shard.shard);
        let path = self.root.join(&shard.path);
        let file: Arc<dyn Trusted> = match &self.access {
            Access::Map => return open_published(&self.root, &self.manifest, of.layer, shard),
            Access::Folder(trees) => Arc::new(self.open_blocks(layer, number, trees.as_ref())?),
            Access::Bucket(_, _, trees) => Arc::new(self.open_blocks(layer, number, trees.as_ref())?),
            Access::Recording(table, logs) => {
                // The same for both threads that may open it at the same time.
                let log = logs.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default().clone();
                Arc::new(Recorded { file: table.trusted(of.layer, shard.shard)?, log })
            }
            Access::Proof(files) => {
                let missing = || ShardError::new(&path, None, Corruption::Missing);
                files.get(&key).cloned().ok_or_else(missing)?
            }
        };
        expect(ShardFile::from_trusted(&path, file, Some(&shard.record(of.layer)))?, &self.manifest, shard)
    }

    fn open_blocks(&self, layer: usize, number: usize, trees: Option<&Trees>) -> Result<Blocks, ShardError> {
        let shard = &self.manifest.layers[layer].shards[number];
        let fail = |cause| ShardError::new(&self.root.join(&shard.path), None, cause);
        let refused = || self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&(at, found)) = refused().get(&(layer, number))
            && at.elapsed() < REFUSAL
        {
            return Err(fail(Corruption::Hash { found, expected: shard.blake3 }));
        }
        let origin = |path: &str| match &self.access {
            Access::Bucket(bucket, table, _) => Origin::Object(bucket.clone(), format!("{table}/{path}")),
            _ => Origin::File(self.root.join(path)),
        };
        let range = trees.and_then(|trees| trees.range(layer, number, shard.bytes));
        // What cannot be read there is made from the file.
        let values = range.and_then(|range| origin(TREES).read(range).ok());
        Blocks::open(origin(&shard.path), shard.bytes, shard.blake3, values, &self.cache).map_err(|cause| {
            if let Corruption::Hash { found, .. } = cause {
                refused().insert((layer, number), (Instant::now(), found));
            }
            fail(cause)
        })
    }

    /// The bytes of a shard, compared with its hash before they are given out.
    fn trusted(&self, layer: u32, shard: u32) -> Result<Arc<dyn Trusted>, ShardError> {
        if let Some(file) = self.shard(layer, shard)?.trusted() {
            return Ok(file);
        }
        // A mapped table believes checksums: for a proof the file is read again.
        let layer = self.manifest.layer_position(layer).unwrap_or_default();
        Ok(Arc::new(self.open_blocks(layer, usize::try_from(shard).unwrap_or_default(), None)?))
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
    expect(ShardFile::open(&path, Some(&shard.record(layer)))?, manifest, shard)
}

fn expect(file: ShardFile, manifest: &Manifest, shard: &ManifestShard) -> Result<ShardFile, ShardError> {
    file.expect_table(&manifest.table)?;
    file.expect_run(shard.first_rank, shard.universe, shard.blocks)?;
    file.expect_columns(&manifest.scalar_columns, &manifest.dist_columns)?;
    Ok(file)
}
