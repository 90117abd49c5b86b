//! Writing shard files: the bytes are made, hashed and written in one pass, and the file gets its name last.
//!
//! ```text
//!     build/tmp/...  ──write──▶ fsync ──▶ rename to <shard>-<hash>.shard ──▶ fsync of the folder
//! ```
//!
//! A crash at any moment leaves a file in `build/tmp`, or the whole file under its name. Renaming over a file of the same name
//! is welcome: it has the same content, or it was damaged and is now whole again.

use crate::column::{Encoded, encode};
use crate::digest::Digest;
use crate::dir::{Publish, TableDir, TmpFile};
use crate::error::StoreError;
use crate::index::IndexSet;
use crate::layout::{
    self, CHOICE_GROUP, ColumnInfo, Crc, DIST_GROUP, MAX_NAME, MAX_SCALAR_GROUP, SCALAR_GROUP, SectionKind, Written,
};
use crate::pack::{Packed, Unfit, pack_choices, pack_dists, pack_doubles, pack_halves, pack_scalars, pack_singles};
use crate::record::{FileKind, FileRecord, artifact_path};
use rayon::prelude::*;
use sha2::Digest as _;
use std::collections::BTreeMap;

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
    /// One number a key, computed in f32: 16 bits of it are published. A work file has it as it is, in one piece.
    Single {
        /// Its name.
        name: &'a str,
        /// One value a key.
        values: &'a [f32],
        /// How far the values may be from the exact ones.
        allowance: f64,
    },
    /// Numbers in an order of the game's own, one a key: of work files only, which have them as they are, in one piece.
    Double {
        /// Its name.
        name: &'a str,
        /// One value a key.
        values: &'a [f64],
    },
    /// One whole number from 0 to 3 a key, read as a scalar.
    Choice {
        /// Its name.
        name: &'a str,
        /// One value a key.
        values: &'a [u8],
    },
    /// One distribution a key: the span from its first to its last entry that is not 0.
    Dist {
        /// Its name.
        name: &'a str,
        /// Key `i` has `values[ends[i - 1]..ends[i]]`, key 0 from 0.
        ends: &'a [u64],
        /// The index of the first entry of the span, one a key.
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

/// Published files of so many bytes leave the system's cache when they are written.
const FORGET_BYTES: u64 = 1 << 20;
/// Groups that are made at a time, on the threads of the rayon pool this is called in.
const BATCH: u64 = 64;
/// Groups that are compressed to see whether compression pays.
const SAMPLE: u64 = 16;

/// Writes a shard file, and returns its record. When it returns, the file is on the disk under its name.
///
/// An index file has keys and no columns; a work file has columns in f64, and keys or not; a shard has keys and packed columns.
/// `index` is what [`encode_bits`](crate::encode_bits) or [`encode_sorted`](crate::encode_sorted) made. The bytes depend on nothing
/// but what is given here.
pub fn write_shard(
    dir: &TableDir,
    spec: &ShardSpec<'_>,
    index: Option<&[u8]>,
    columns: &[ColumnRef<'_>],
) -> Result<FileRecord, StoreError> {
    let keys = check(spec, index, columns).map_err(|what| StoreError::BadShard { layer: spec.layer, shard: spec.shard, what })?;
    let infos: Vec<ColumnInfo> = columns.iter().map(|column| column.info(spec.kind)).collect();
    let mut out = Sink::new(dir.create_tmp()?, spec.kind);
    let header = layout::header_bytes(spec.kind, spec.layer, spec.shard, spec.table);
    out.section(SectionKind::Header, &header)?;
    let run = [spec.first_rank, spec.universe, spec.blocks, keys];
    out.section(SectionKind::Directory, &layout::directory_bytes(run, &infos, header.len(), index.is_some()))?;
    if let Some(index) = index {
        out.section(SectionKind::Index, index)?;
    }
    let values_at = out.length;
    let mut error_bounds = Vec::new();
    for ((number, column), info) in (0..).zip(columns).zip(&infos) {
        let error = write_column(&mut out, spec, number, column, info, keys)?;
        if !info.dist {
            error_bounds.push(error);
        }
    }
    let value_bytes = out.length - values_at;
    let footer = layout::footer_bytes(&out.sections);
    out.write(&footer)?;
    let bytes = out.length;
    let (file, blake3, sha256) = out.finish()?;
    let path = artifact_path(spec.kind, spec.layer, spec.shard, &blake3);
    // The build does not read what it published: the cache is for what it does read.
    let how = match spec.kind {
        kind if kind.is_fleeting() => Publish::Unsynced,
        FileKind::Shard if bytes >= FORGET_BYTES => Publish::Forgotten,
        _ => Publish::Synced,
    };
    file.publish(&path, how)?;
    let record = FileRecord {
        kind: spec.kind,
        layer: spec.layer,
        shard: spec.shard,
        path,
        blake3,
        sha256,
        bytes,
        keys,
        index_bytes: index.map_or(0, |index| index.len() as u64),
        value_bytes,
        error_bounds,
    };
    dir.bring(&record)?;
    Ok(record)
}

impl<'a> ColumnRef<'a> {
    fn name(&self) -> &'a str {
        match *self {
            ColumnRef::Scalar { name, .. }
            | ColumnRef::Single { name, .. }
            | ColumnRef::Double { name, .. }
            | ColumnRef::Choice { name, .. }
            | ColumnRef::Dist { name, .. } => name,
        }
    }

    fn info(&self, kind: FileKind) -> ColumnInfo {
        match *self {
            ColumnRef::Single { name, .. } | ColumnRef::Double { name, .. } if kind == FileKind::Work => {
                ColumnInfo { name: name.to_owned(), dist: false, group: MAX_SCALAR_GROUP }
            }
            ColumnRef::Scalar { name, .. } | ColumnRef::Single { name, .. } | ColumnRef::Double { name, .. } => {
                ColumnInfo { name: name.to_owned(), dist: false, group: SCALAR_GROUP }
            }
            ColumnRef::Choice { name, .. } => ColumnInfo { name: name.to_owned(), dist: false, group: CHOICE_GROUP },
            ColumnRef::Dist { name, .. } => ColumnInfo { name: name.to_owned(), dist: true, group: DIST_GROUP },
        }
    }

    fn keys(&self) -> u64 {
        match *self {
            ColumnRef::Scalar { values, .. } | ColumnRef::Double { values, .. } => values.len() as u64,
            ColumnRef::Single { values, .. } => values.len() as u64,
            ColumnRef::Choice { values, .. } => values.len() as u64,
            ColumnRef::Dist { ends, .. } => ends.len() as u64,
        }
    }

    /// What is wrong with the column as such.
    fn check(&self) -> Result<(), String> {
        let ColumnRef::Dist { name, ends, firsts, values } = *self else { return Ok(()) };
        if firsts.len() != ends.len() || ends.last().copied().unwrap_or(0) != values.len() as u64 {
            return Err(format!(
                "column {name} has {} ends, {} first indices, and {} values that should end at {:?}",
                ends.len(),
                firsts.len(),
                values.len(),
                ends.last()
            ));
        }
        match ends.windows(2).position(|pair| pair[0] > pair[1]) {
            Some(key) => Err(format!("column {name}: the values of key {} end before those of key {key}", key + 1)),
            None => Ok(()),
        }
    }

    /// The keys `from..to`, packed.
    fn pack(&self, from: u64, to: u64, exact: bool) -> Result<Packed, Unfit> {
        let at = |i: u64| usize::try_from(i).unwrap_or(usize::MAX);
        match *self {
            ColumnRef::Scalar { values, .. } => pack_scalars(&values[at(from)..at(to)], exact),
            ColumnRef::Double { values, .. } => pack_doubles(&values[at(from)..at(to)]),
            ColumnRef::Single { values, .. } if exact => pack_singles(&values[at(from)..at(to)]),
            ColumnRef::Single { values, allowance, .. } => pack_halves(&values[at(from)..at(to)], allowance),
            ColumnRef::Choice { values, .. } => pack_choices(&values[at(from)..at(to)]),
            ColumnRef::Dist { ends, firsts, values, .. } => {
                let start = |key: usize| if key == 0 { 0 } else { at(ends[key - 1]) };
                pack_dists((at(from)..at(to)).map(|key| (firsts[key], &values[start(key)..at(ends[key])])), exact)
            }
        }
        .map_err(|unfit| Unfit { key: from + unfit.key, ..unfit })
    }
}

/// Checks that the parts of a shard fit together, and counts its keys.
fn check(spec: &ShardSpec<'_>, index: Option<&[u8]>, columns: &[ColumnRef<'_>]) -> Result<u64, String> {
    let names = columns.iter().map(ColumnRef::name);
    if let Some(name) = names.chain([spec.table]).find(|name| !(1..=MAX_NAME).contains(&name.len())) {
        return Err(format!("the name {name:?} is empty or too long"));
    }
    match (spec.kind, index.is_some(), columns.is_empty()) {
        (FileKind::Index | FileKind::Checkpoint | FileKind::Stretch | FileKind::Partial, true, true)
        | (FileKind::Work, _, false)
        | (FileKind::Shard, true, _) => {}
        (FileKind::Index | FileKind::Checkpoint | FileKind::Stretch | FileKind::Partial, ..) => {
            return Err("an index file has keys and nothing else".into());
        }
        (FileKind::Work, ..) => return Err("a work file has values".into()),
        (FileKind::Shard, ..) => return Err("a shard has keys".into()),
    }
    let mut keys = None;
    if let Some(index) = index {
        let set = IndexSet::open(index).map_err(|error| error.to_string())?;
        if set.universe() != spec.universe || index.len() % 8 != 0 {
            return Err(format!("the keys are of {} ranks, but the shard covers {}", set.universe(), spec.universe));
        }
        keys = Some(set.len());
    }
    for column in columns {
        column.check()?;
        let have = *keys.get_or_insert(column.keys());
        if column.keys() != have {
            return Err(format!("column {} has values for {} keys, but there are {have}", column.name(), column.keys()));
        }
    }
    let keys = keys.unwrap_or(0);
    if keys > spec.universe {
        return Err(format!("{keys} keys among {} ranks", spec.universe));
    }
    if spec.first_rank.checked_add(spec.universe).is_none() {
        return Err("the ranks do not fit in 64 bits".into());
    }
    Ok(keys)
}

/// Writes a column, and returns the bound on the error of its values.
fn write_column(
    out: &mut Sink,
    spec: &ShardSpec<'_>,
    number: u32,
    column: &ColumnRef<'_>,
    info: &ColumnInfo,
    keys: u64,
) -> Result<f64, StoreError> {
    let exact = spec.kind == FileKind::Work;
    let groups = keys.div_ceil(info.group);
    let make = |group: u64, compress: bool| -> Result<Encoded, StoreError> {
        let (from, to) = (group * info.group, ((group + 1) * info.group).min(keys));
        let packed = column.pack(from, to, exact).map_err(|unfit| StoreError::BadValue {
            layer: spec.layer,
            shard: spec.shard,
            column: info.name.clone(),
            key: unfit.key,
            what: unfit.what,
        })?;
        Ok(encode(packed, compress))
    };
    let mut made = if exact { BTreeMap::new() } else { sample(groups, &make)? };
    let compress = compression_pays(&made);
    if !compress {
        made.clear();
    }
    out.begin(SectionKind::Column(number));
    let mut table = Vec::new();
    let (mut error, mut offset) = (0.0, 0);
    for first in (0..groups).step_by(usize::try_from(BATCH).unwrap_or(1)) {
        let missing = |group: u64| (!made.contains_key(&group)).then(|| make(group, compress));
        let batch: Vec<Option<Result<Encoded, StoreError>>> =
            (first..(first + BATCH).min(groups)).into_par_iter().map(missing).collect();
        for (group, encoded) in (first..).zip(batch) {
            let encoded = encoded.unwrap_or_else(|| Ok(made.remove(&group).expect("it is made, or missing")))?;
            let Encoded { group: mut entry, mut payload } = encoded;
            entry.offset = offset;
            table.extend_from_slice(&entry.sealed(group, &payload).bytes());
            error = if entry.error > error { entry.error } else { error };
            layout::pad(&mut payload);
            out.write(&payload)?;
            offset += payload.len() as u64;
        }
    }
    out.write(&table)?;
    out.end();
    Ok(error)
}

/// Some groups, spread evenly, compressed.
fn sample(
    groups: u64,
    make: &(dyn Fn(u64, bool) -> Result<Encoded, StoreError> + Sync),
) -> Result<BTreeMap<u64, Encoded>, StoreError> {
    let sample = SAMPLE.min(groups);
    let one = |i| {
        let group = i * groups / sample;
        Ok((group, make(group, true)?))
    };
    (0..sample).into_par_iter().map(one).collect()
}

/// Whether compression saves an eighth of a sample.
fn compression_pays(sample: &BTreeMap<u64, Encoded>) -> bool {
    let sizes = sample.values().map(|made| (u64::from(made.group.raw_length), u64::from(made.group.length)));
    let (raw, stored) = sizes.fold((0, 0), |(a, b), (raw, stored)| (a + raw, b + stored));
    raw - stored >= raw.div_ceil(8) && raw > 0
}

/// Bytes collected before they are hashed and written.
const BUFFER: usize = 1 << 20;

/// The file, and the sums over what went into it.
struct Sink {
    file: TmpFile,
    buffer: Vec<u8>,
    blake3: blake3::Hasher,
    /// Of published files only: nobody checks the others with `sha256sum`.
    sha256: Option<sha2::Sha256>,
    sections: Vec<Written>,
    /// The section that is being written: what, where, and its checksum so far.
    open: Option<(SectionKind, u64, Crc)>,
    length: u64,
}

impl Sink {
    fn new(file: TmpFile, kind: FileKind) -> Self {
        Self {
            file,
            buffer: Vec::with_capacity(BUFFER),
            blake3: blake3::Hasher::new(),
            sha256: (kind == FileKind::Shard).then(sha2::Sha256::new),
            sections: Vec::new(),
            open: None,
            length: 0,
        }
    }

    fn section(&mut self, kind: SectionKind, bytes: &[u8]) -> Result<(), StoreError> {
        self.begin(kind);
        self.write(bytes)?;
        self.end();
        Ok(())
    }

    fn begin(&mut self, kind: SectionKind) {
        self.open = Some((kind, self.length, Crc::new()));
    }

    fn end(&mut self) {
        if let Some((kind, offset, crc)) = self.open.take() {
            self.sections.push(Written { kind, offset, length: self.length - offset, crc: crc.finish() });
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.length += bytes.len() as u64;
        if let Some((_, _, crc)) = &mut self.open {
            crc.update(bytes);
        }
        for piece in bytes.chunks(BUFFER) {
            if self.buffer.len() + piece.len() > BUFFER {
                self.flush()?;
            }
            self.buffer.extend_from_slice(piece);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.blake3.update(&self.buffer);
        if let Some(sha256) = &mut self.sha256 {
            sha256.update(&self.buffer);
        }
        self.file.write(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<(TmpFile, Digest, Digest), StoreError> {
        self.flush()?;
        let sha256 = self.sha256.map_or_else(Digest::default, |sha256| Digest(sha256.finalize().into()));
        Ok((self.file, Digest::of_hasher(&self.blake3), sha256))
    }
}
