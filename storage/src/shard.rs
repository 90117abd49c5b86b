//! One shard file, read in place from a memory map, or in blocks that were compared with its hash.
//!
//! Opening is O(1) in the size of the file: the length is compared with the record, the file mapped, and its header, directory and
//! footer are checked. Everything else is checked when it is first needed: the whole index when [`ShardFile::index`] is first called,
//! and a group of values when one of them is first read. So an answer never rests on a byte that was not checked since the file was
//! opened, and the price is paid once.

use crate::blocks::{Piece, Pieces, Trusted};
use crate::cache::{FileId, GroupCache};
use crate::column::{Checked, Payload, read_entry, read_group};
use crate::error::{Corruption, Section, ShardError};
use crate::index::{HEAD, IndexSet, PieceSet};
use crate::layout::{Codec, ColumnInfo, Entry, Fault, Group, Layout, Span, crc, read_layout};
use crate::map::{Bytes, MapError, Part, map};
use crate::pack::{DistGroup, Form, scalar_place, unpack_scalar, unpack_scalars};
use crate::record::{FileKind, FileRecord};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// A value, and how far it can be from the exact one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bounded {
    /// The value.
    pub value: f64,
    /// The bound on its absolute error: the largest in its group of 4,096 keys, measured when it was written. 0 in work files.
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

/// One shard file, read in place. May be used by many threads.
#[derive(Debug)]
pub struct ShardFile {
    path: PathBuf,
    bytes: Bytes,
    layout: Layout,
    index_checked: AtomicBool,
    /// The header of the index, where it is read in pieces.
    piece_set: OnceLock<PieceSet>,
    /// Where the values are that were found to be in one piece, and their form, by scalar column.
    in_place: Vec<OnceLock<(Form, Range<usize>)>>,
    /// For each column, one bit for each group whose checksum was found right.
    groups_checked: Vec<Vec<AtomicU64>>,
    /// Numbers of the scalar columns among the columns, and of the distribution columns.
    scalar_columns: Vec<usize>,
    dist_columns: Vec<usize>,
    /// Where decompressed groups are kept for the next question, if anywhere.
    cache: Option<(Arc<GroupCache>, FileId)>,
}

impl ShardFile {
    /// Opens a file. With a record, its length is compared before it is mapped, and what the header says afterwards; the hash is not
    /// computed (see [`check_file`](crate::check_file)).
    pub fn open(path: &Path, expected: Option<&FileRecord>) -> Result<Self, ShardError> {
        let bytes = map(path, expected.map(|record| record.bytes)).map_err(|error| {
            let cause = match error {
                MapError::Length { found, expected } => Corruption::Length { found, expected },
                MapError::Io(error) if error.kind() == io::ErrorKind::NotFound => Corruption::Missing,
                MapError::Io(error) => Corruption::Io(error),
            };
            ShardError::new(path, None, cause)
        })?;
        Self::over(path, bytes, expected)
    }

    /// Reads a file that is in memory; `name` is what errors call it.
    pub fn from_bytes(name: &Path, bytes: Vec<u8>, expected: Option<&FileRecord>) -> Result<Self, ShardError> {
        Self::over(name, Bytes::Owned(bytes), expected)
    }

    /// Reads a file whose bytes are compared with its hash before they are given out.
    pub(crate) fn from_trusted(name: &Path, bytes: Arc<dyn Trusted>, expected: Option<&FileRecord>) -> Result<Self, ShardError> {
        Self::over(name, Bytes::Trusted(bytes), expected)
    }

    fn over(path: &Path, bytes: Bytes, expected: Option<&FileRecord>) -> Result<Self, ShardError> {
        let fail = |(section, cause): Fault| ShardError::new(path, section, cause);
        let layout = read_layout(&&bytes).map_err(fail)?;
        if let Some(record) = expected {
            compare(&layout, (&bytes).length() as u64, record).map_err(|(s, cause)| fail((Some(s), cause)))?;
        }
        let words =
            |info: &ColumnInfo| (0..layout.header.keys.div_ceil(info.group).div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        let numbers = |dist: bool| (0..layout.columns.len()).filter(|&i| layout.columns[i].0.dist == dist).collect::<Vec<_>>();
        if let (Some((_, first)), Some((_, last))) = (layout.columns.first(), layout.columns.last()) {
            bytes.read_at_random(first.range.start..last.range.end);
        }
        Ok(Self {
            path: path.to_owned(),
            groups_checked: layout.columns.iter().map(|(info, _)| words(info)).collect(),
            in_place: numbers(false).iter().map(|_| OnceLock::new()).collect(),
            scalar_columns: numbers(false),
            dist_columns: numbers(true),
            bytes,
            layout,
            index_checked: AtomicBool::new(false),
            piece_set: OnceLock::new(),
            cache: None,
        })
    }

    /// Its bytes, where they are compared with its hash before they are given out.
    pub(crate) fn trusted(&self) -> Option<Arc<dyn Trusted>> {
        match &self.bytes {
            Bytes::Trusted(file) => Some(file.clone()),
            _ => None,
        }
    }

    /// Keeps decompressed groups in a cache that files share.
    pub(crate) fn with_cache(mut self, cache: &Arc<GroupCache>) -> Self {
        self.cache = Some((cache.clone(), FileId::next()));
        self
    }

    /// Who it is.
    pub fn header(&self) -> &ShardHeader {
        &self.layout.header
    }

    /// Whether it is of this table.
    pub(crate) fn expect_table(&self, table: &str) -> Result<(), ShardError> {
        same("the table", &self.header().table, &table).map_err(|cause| self.fault(Section::Header, cause))
    }

    /// Whether it covers these ranks.
    pub(crate) fn expect_run(&self, first_rank: u64, universe: u64, blocks: u64) -> Result<(), ShardError> {
        let header = self.header();
        same("the first rank", &header.first_rank, &first_rank)
            .and_then(|()| same("the number of ranks", &header.universe, &universe))
            .and_then(|()| same("the number of blocks", &header.blocks, &blocks))
            .map_err(|cause| self.fault(Section::Directory, cause))
    }

    /// Whether it has these columns.
    pub(crate) fn expect_columns(&self, scalars: &[String], dists: &[String]) -> Result<(), ShardError> {
        let header = self.header();
        same("the scalar columns", &header.scalar_columns.join(", "), &scalars.join(", "))
            .and_then(|()| same("the distribution columns", &header.dist_columns.join(", "), &dists.join(", ")))
            .map_err(|cause| self.fault(Section::Directory, cause))
    }

    fn fault(&self, section: Section, cause: Corruption) -> ShardError {
        ShardError::new(&self.path, Some(section), cause)
    }

    fn no_such(&self, what: &'static str, asked: u64, have: u64) -> ShardError {
        ShardError::new(&self.path, None, Corruption::NoSuch { what, asked, have })
    }

    /// The ordinal of a key, by its rank relative to the first rank the file covers; `None` where it is no key. A file that is read in blocks
    /// reads only those that the answer needs.
    pub fn find(&self, rank: u64) -> Result<Option<u64>, ShardError> {
        if self.bytes.in_place().is_some() {
            return Ok(self.index()?.find(rank));
        }
        let Some(span) = &self.layout.index else { return Err(self.no_such("index", 0, 0)) };
        let fail = |cause| self.fault(Section::Index, cause);
        let section = Part { bytes: &self.bytes, range: span.range.clone() };
        let set = match self.piece_set.get() {
            Some(set) => set,
            None => {
                let head = section.piece(0..HEAD.min(section.length())).map_err(fail)?;
                let set = PieceSet::open(&head, section.length()).map_err(|error| fail(error.into()))?;
                self.expect_keys(set.universe(), set.len())?;
                self.piece_set.get_or_init(|| set)
            }
        };
        set.find(rank, |range| section.piece(range)).map_err(fail)
    }

    /// Whether the index has as many ranks and keys as the directory says.
    fn expect_keys(&self, universe: u64, keys: u64) -> Result<(), ShardError> {
        same("the number of ranks", &universe, &self.header().universe)
            .and_then(|()| same("the number of keys", &keys, &self.header().keys))
            .map_err(|cause| self.fault(Section::Index, cause))
    }

    /// Its keys, as ranks relative to the first rank it covers. Of a file that is read in blocks all of the index is read, and is in memory as
    /// long as the answer.
    pub fn index(&self) -> Result<IndexSet<Piece<'_>>, ShardError> {
        let Some(Span { range, crc: sum, .. }) = &self.layout.index else { return Err(self.no_such("index", 0, 0)) };
        let fail = |cause| self.fault(Section::Index, cause);
        let is_checked = self.index_checked.load(Ordering::Acquire);
        if !is_checked {
            self.bytes.will_read(range.clone());
        }
        let bytes = (&self.bytes).piece(range.clone()).map_err(fail)?;
        if !is_checked {
            if crc(&bytes) != *sum {
                return Err(fail(Corruption::Checksum));
            }
            let set = IndexSet::open(bytes).map_err(|error| fail(error.into()))?;
            self.expect_keys(set.universe(), set.len())?;
            self.index_checked.store(true, Ordering::Release);
            return Ok(set);
        }
        IndexSet::open(bytes).map_err(|error| fail(error.into()))
    }

    /// The value of key number `ordinal` in a scalar column.
    pub fn scalar(&self, column: usize, ordinal: u64) -> Result<Bounded, ShardError> {
        let column = self.column("scalar column", &self.scalar_columns, column)?;
        let (number, at, keys) = column.place(ordinal)?;
        let short = || column.fault(Corruption::Malformed("a group is shorter than its keys need".into()));
        if self.bytes.is_trusted() {
            // Nothing but the value is needed of a group that is not compressed.
            let Entry { group, payload, .. } =
                read_entry(&column.section, number, column.groups()).map_err(|cause| column.fault(cause))?;
            if group.codec == Codec::Raw && group.fits(false, keys) {
                let (place, at) = scalar_place(group.form, at);
                let place = payload.start + place.start..payload.start + place.end;
                let bytes = column.section.piece(place).map_err(|cause| column.fault(cause))?;
                let value = unpack_scalar(group.form, group.base, group.step, &bytes, at).ok_or_else(short)?;
                return Ok(Bounded { value, error: group.error });
            }
        }
        let (group, bytes) = column.payload(number, keys)?;
        let value = unpack_scalar(group.form, group.base, group.step, &bytes, at).ok_or_else(short)?;
        Ok(Bounded { value, error: group.error })
    }

    /// All values of a scalar column, in the order of the keys.
    pub fn scalars(&self, column: usize) -> Result<Vec<f64>, ShardError> {
        let mut out = Vec::new();
        self.each_scalars(column, |values| out.extend_from_slice(values))?;
        Ok(out)
    }

    /// Calls `f` with the values of a scalar column, some thousands at a time, in the order of the keys.
    pub fn each_scalars(&self, column: usize, mut f: impl FnMut(&[f64])) -> Result<(), ShardError> {
        let column = self.column("scalar column", &self.scalar_columns, column)?;
        let mut values = Vec::new();
        column.each_group(|checked, keys| {
            let group = checked.group;
            let bytes = checked.decode(false, keys)?;
            values.clear();
            // At most 65,536 keys in a group.
            unpack_scalars(group.form, group.base, group.step, &bytes, usize::try_from(keys).unwrap_or(0), &mut values);
            f(&values);
            Ok(())
        })
    }

    /// The values of a scalar column of a work file that were computed in f32, in place. Their checksums are not looked at: they are for
    /// files whose hash was found right ([`check_file`](crate::check_file)).
    pub fn singles(&self, column: usize) -> Result<&[f32], ShardError> {
        self.in_place(column, Form::Single)
    }

    /// The same of a column that is in f64, all of it without a break.
    pub fn doubles(&self, column: usize) -> Result<&[f64], ShardError> {
        self.in_place(column, Form::Exact)
    }

    fn in_place<T: bytemuck::AnyBitPattern>(&self, column: usize, form: Form) -> Result<&[T], ShardError> {
        let of = self.column("scalar column", &self.scalar_columns, column)?;
        let malformed =
            || of.fault(Corruption::Malformed(format!("the values are not numbers of {} bytes in one piece", size_of::<T>())));
        let (found, range) = match self.in_place[column].get() {
            Some(found) => found.clone(),
            None => {
                let range = of.one_piece(form)?.ok_or_else(malformed)?;
                self.bytes.read_in_order(range.clone());
                self.in_place[column].get_or_init(|| (form, range)).clone()
            }
        };
        match self.bytes.in_place().map(|bytes| bytemuck::try_cast_slice(&bytes[range])) {
            Some(Ok(values)) if found == form => Ok(values),
            _ => Err(malformed()),
        }
    }

    /// Keeps what is read here and there from taking more memory than it must.
    pub fn read_little_by_little(&self) {
        self.bytes.read_little_by_little();
    }

    /// Takes the file out of this process's memory; what is read again comes from the system's cache, or the disk.
    pub fn release(&self) {
        self.bytes.release();
    }

    /// The distribution of key number `ordinal`: the index of its first entry, and its entries. All others are 0. Entries of
    /// published shards are within 1.2e-10 of the exact ones.
    pub fn dist(&self, column: usize, ordinal: u64) -> Result<(usize, Vec<f64>), ShardError> {
        let column = self.column("distribution column", &self.dist_columns, column)?;
        let (number, at, keys) = column.place(ordinal)?;
        let (group, bytes) = column.payload(number, keys)?;
        let mut entries = Vec::new();
        let first = usize::try_from(keys)
            .ok()
            .and_then(|keys| DistGroup::parse(group.form, &bytes, keys))
            .and_then(|group| group.read(at, &mut entries))
            .ok_or_else(|| column.fault(Corruption::Malformed(NOT_A_GROUP.into())))?;
        Ok((usize::from(first), entries))
    }

    /// All distributions of a column: the entries of key `i` are `values[ends[i - 1]..ends[i]]`, the first of them has index
    /// `firsts[i]`.
    #[allow(clippy::type_complexity)]
    pub fn dists(&self, column: usize) -> Result<(Vec<u64>, Vec<u8>, Vec<f64>), ShardError> {
        let column = self.column("distribution column", &self.dist_columns, column)?;
        let (mut ends, mut firsts, mut values) = (Vec::new(), Vec::new(), Vec::new());
        column.each_group(|checked, keys| {
            let wrong = || Corruption::Malformed(NOT_A_GROUP.into());
            let form = checked.group.form;
            let bytes = checked.decode(true, keys)?;
            let keys = usize::try_from(keys).map_err(|_| wrong())?;
            let group = DistGroup::parse(form, &bytes, keys).ok_or_else(wrong)?;
            for i in 0..keys {
                firsts.push(group.read(i, &mut values).ok_or_else(wrong)?);
                ends.push(values.len() as u64);
            }
            Ok(())
        })?;
        Ok((ends, firsts, values))
    }

    fn column(&self, what: &'static str, numbers: &[usize], column: usize) -> Result<Column<'_>, ShardError> {
        match numbers.get(column) {
            Some(&number) => {
                let (info, span) = &self.layout.columns[number];
                Ok(Column { file: self, number, info, span, section: Part { bytes: &self.bytes, range: span.range.clone() } })
            }
            None => Err(self.no_such(what, column as u64, numbers.len() as u64)),
        }
    }
}

const NOT_A_GROUP: &str = "a group of distributions is not as the format says";

/// A column of a file.
struct Column<'a> {
    file: &'a ShardFile,
    number: usize,
    info: &'a ColumnInfo,
    span: &'a Span,
    section: Part<'a>,
}

impl<'a> Column<'a> {
    fn fault(&self, cause: Corruption) -> ShardError {
        self.file.fault(self.span.section.clone(), cause)
    }

    /// The bytes of the file that have all values, if they have this form and follow each other.
    fn one_piece(&self, form: Form) -> Result<Option<Range<usize>>, ShardError> {
        let mut end = 0;
        for number in 0..self.groups() {
            let group = read_entry(&self.section, number, self.groups()).map_err(|cause| self.fault(cause))?.group;
            let is_next = group.offset == end && group.fits(false, self.keys_in(number));
            if group.form != form || group.codec != Codec::Raw || !is_next {
                return Ok(None);
            }
            end += u64::from(group.raw_length);
        }
        let start = self.span.range.start;
        let end = usize::try_from(end).ok().and_then(|end| start.checked_add(end));
        Ok(end.filter(|&end| end <= self.span.range.end).map(|end| start..end))
    }

    fn groups(&self) -> u64 {
        self.file.header().keys.div_ceil(self.info.group)
    }

    /// The group of a key, its place in it, and the number of keys in it.
    fn place(&self, ordinal: u64) -> Result<(u64, usize, u64), ShardError> {
        let keys = self.file.header().keys;
        if ordinal >= keys {
            return Err(self.file.no_such("key", ordinal, keys));
        }
        let number = ordinal / self.info.group;
        let at = usize::try_from(ordinal % self.info.group).unwrap_or(usize::MAX);
        Ok((number, at, self.keys_in(number)))
    }

    fn keys_in(&self, number: u64) -> u64 {
        (self.file.header().keys - number * self.info.group).min(self.info.group)
    }

    /// A group, checked unless it was before.
    fn group(&self, number: u64) -> Result<Checked<'a>, ShardError> {
        let word = usize::try_from(number / 64).ok().and_then(|i| self.file.groups_checked[self.number].get(i));
        let bit = 1 << (number % 64);
        let before = self.file.bytes.is_trusted() || word.is_some_and(|word| word.load(Ordering::Acquire) & bit != 0);
        let checked = read_group(&self.section, number, self.groups(), before).map_err(|cause| self.fault(cause))?;
        if let Some(word) = word.filter(|_| !before) {
            word.fetch_or(bit, Ordering::Release);
        }
        Ok(checked)
    }

    /// A group with its payload, from the cache if it was decompressed before.
    fn payload(&self, number: u64, keys: u64) -> Result<(Group, Payload<'a>), ShardError> {
        let group = read_entry(&self.section, number, self.groups()).map_err(|cause| self.fault(cause))?.group;
        let kept = self
            .file
            .cache
            .as_ref()
            .filter(|_| group.codec == Codec::Zstd)
            .map(|(cache, file)| (cache, (*file, self.number, number)));
        if let Some(bytes) = kept.and_then(|(cache, key)| cache.get(key)) {
            // It was checked when it was decompressed.
            return Ok((group, Payload::Decompressed(bytes)));
        }
        let checked = self.group(number)?;
        let group = checked.group;
        let payload = checked.decode(self.info.dist, keys).map_err(|cause| self.fault(cause))?;
        if let (Some((cache, key)), Payload::Decompressed(bytes)) = (kept, &payload) {
            cache.put(key, bytes.clone());
        }
        Ok((group, payload))
    }

    /// Reads the column from front to back. The whole section is not asked of the disk at once: it may be larger than memory.
    fn each_group(&self, mut take: impl FnMut(Checked<'a>, u64) -> Result<(), Corruption>) -> Result<(), ShardError> {
        const AHEAD: usize = 8 << 20;
        let mut asked = 0;
        for number in 0..self.groups() {
            let checked = self.group(number)?;
            let at = usize::try_from(checked.group.offset).unwrap_or(0);
            if at >= asked {
                let range: Range<usize> = self.span.range.start + at..self.span.range.end.min(self.span.range.start + at + AHEAD);
                self.file.bytes.will_read(range);
                asked = at + AHEAD / 2;
            }
            take(checked, self.keys_in(number)).map_err(|cause| self.fault(cause))?;
        }
        Ok(())
    }
}

fn same<A: PartialEq<B> + ToString, B: ToString>(what: &'static str, found: &A, expected: &B) -> Result<(), Corruption> {
    if found == expected {
        return Ok(());
    }
    Err(Corruption::Mismatch { what, found: found.to_string(), expected: expected.to_string() })
}

/// Whether a file is the one of a record: the same shard, and sections of the same lengths.
fn compare(layout: &Layout, bytes: u64, record: &FileRecord) -> Result<(), (Section, Corruption)> {
    let header = &layout.header;
    let at = |section: Section| move |cause| (section, cause);
    let index_bytes = layout.index.as_ref().map_or(0, |span| span.range.len() as u64);
    let value_bytes: u64 = layout.columns.iter().map(|(_, span)| span.range.len() as u64).sum();
    same("the kind of file", &header.kind, &record.kind).map_err(at(Section::Header))?;
    same("the layer", &header.layer, &record.layer).map_err(at(Section::Header))?;
    same("the shard", &header.shard, &record.shard).map_err(at(Section::Header))?;
    same("the number of keys", &header.keys, &record.keys).map_err(at(Section::Directory))?;
    same("the number of scalar columns", &header.scalar_columns.len(), &record.error_bounds.len())
        .map_err(at(Section::Directory))?;
    same("the length of the index", &index_bytes, &record.index_bytes).map_err(at(Section::Footer))?;
    same("the length of the values", &value_bytes, &record.value_bytes).map_err(at(Section::Footer))?;
    same("the length", &bytes, &record.bytes).map_err(at(Section::Footer))
}
