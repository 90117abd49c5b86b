//! Where things are in a shard file: header, directory, footer. Drawn in docs/FORMAT.md.
//!
//! A file is a row of sections, each a multiple of 8 bytes long: header, directory, index (not in work files), one for each column,
//! footer. The footer says where each of the others starts and ends and which CRC-32C it has, and ends with its own, at the very end of
//! the file: a file is opened by reading its last 32 bytes. Everything here works on bytes that anybody may have written.

use crate::blocks::{Piece, Pieces};
use crate::error::{Corruption, Section};
use crate::pack::{Form, max_dist_bytes, scalar_bytes};
use crate::record::FileKind;
use crate::shard::ShardHeader;
use std::ops::Range;

/// First bytes of every shard file. The end of line and the control character show damage by text-mode transfers.
pub(crate) const MAGIC: [u8; 8] = *b"STRATA\r\x1a";
/// Last bytes of every shard file.
pub(crate) const END: [u8; 8] = *b"STRATEND";
/// Version of the format of shard files.
pub(crate) const VERSION: u32 = 1;
/// Bytes of an entry of the footer.
const SECTION_BYTES: usize = 32;
/// Bytes after the entries of the footer.
const TRAILER_BYTES: usize = 32;
/// Bytes of an entry of the table of groups.
pub(crate) const GROUP_BYTES: usize = 48;
/// Keys in a group of a scalar column: 16 KiB of values, four pages to read and 1 µs to check, and 0.3 % for the table of groups.
pub(crate) const SCALAR_GROUP: u64 = 4096;
/// Keys in a group of choices: 4 KiB, and 1.2 % for the table of groups.
pub(crate) const CHOICE_GROUP: u64 = 1 << 14;
/// Keys in a group of a distribution column.
pub(crate) const DIST_GROUP: u64 = 256;
/// Largest groups that a reader has to take, so that what it allocates is bounded.
pub(crate) const MAX_SCALAR_GROUP: u64 = 1 << 16;
const MAX_DIST_GROUP: u64 = 1 << 10;
/// Longest name of a table or a column, in bytes.
pub(crate) const MAX_NAME: usize = 1024;

const KIND_HEADER: u32 = 1;
const KIND_DIRECTORY: u32 = 2;
const KIND_INDEX: u32 = 3;
const KIND_COLUMN: u32 = 4;
const COLUMN_SCALAR: u32 = 1;
const COLUMN_DIST: u32 = 2;

/// The CRC-32C (Castagnoli) of some bytes.
pub(crate) fn crc(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// A CRC-32C over bytes that come in pieces.
pub(crate) struct Crc(crc_fast::Digest);

impl Crc {
    pub(crate) fn new() -> Self {
        Self(crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi))
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    // The upper half is 0.
    #[allow(clippy::cast_possible_truncation)]
    pub(crate) fn finish(&self) -> u32 {
        self.0.finalize() as u32
    }
}

pub(crate) fn get_u16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|&b| u16::from_le_bytes(b))
}

pub(crate) fn get_u32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|&b| u32::from_le_bytes(b))
}

pub(crate) fn get_u64(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|&b| u64::from_le_bytes(b))
}

pub(crate) fn get_f64(bytes: &[u8], at: usize) -> Option<f64> {
    bytes.get(at..)?.first_chunk().map(|&b| f64::from_le_bytes(b))
}

/// Zeros up to the next multiple of 8 bytes.
pub(crate) fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(8), 0);
}

/// A column, as the directory has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ColumnInfo {
    pub(crate) name: String,
    pub(crate) dist: bool,
    /// Keys in a group; the last has the rest.
    pub(crate) group: u64,
}

/// A section, as the footer has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    pub(crate) section: Section,
    pub(crate) range: Range<usize>,
    pub(crate) crc: u32,
}

/// Where everything is in a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub(crate) header: ShardHeader,
    pub(crate) index: Option<Span>,
    pub(crate) columns: Vec<(ColumnInfo, Span)>,
}

/// The header section.
pub(crate) fn header_bytes(kind: FileKind, layer: u32, shard: u32, table: &str) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    for word in [VERSION, kind.code(), layer, shard] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&(table.len() as u64).to_le_bytes());
    out.extend_from_slice(table.as_bytes());
    pad(&mut out);
    out
}

/// The directory section: one run of ranks, and the columns. `at` is where it starts: zeros at its end make the next section start
/// 40 bytes past a multiple of 64 when it is an index, so that its groups are whole cache lines, and at a multiple of 64 when it is a
/// column.
pub(crate) fn directory_bytes(run: [u64; 4], columns: &[ColumnInfo], at: usize, index: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [1, columns.len() as u64].into_iter().chain(run) {
        out.extend_from_slice(&word.to_le_bytes());
    }
    for column in columns {
        let kind = if column.dist { COLUMN_DIST } else { COLUMN_SCALAR };
        out.extend_from_slice(&kind.to_le_bytes());
        // Names are at most MAX_NAME long.
        #[allow(clippy::cast_possible_truncation)]
        out.extend_from_slice(&(column.name.len() as u32).to_le_bytes());
        out.extend_from_slice(&column.group.to_le_bytes());
        out.extend_from_slice(column.name.as_bytes());
        pad(&mut out);
    }
    while (at + out.len()) % 64 != if index { 40 } else { 0 } {
        out.extend_from_slice(&[0; 8]);
    }
    out
}

/// What the writer knows of a section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) kind: SectionKind,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) crc: u32,
}

/// What a section is, in the footer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SectionKind {
    Header,
    Directory,
    Index,
    Column(u32),
}

/// The footer section.
pub(crate) fn footer_bytes(sections: &[Written]) -> Vec<u8> {
    let mut out = Vec::new();
    for section in sections {
        let (kind, number) = match section.kind {
            SectionKind::Header => (KIND_HEADER, 0),
            SectionKind::Directory => (KIND_DIRECTORY, 0),
            SectionKind::Index => (KIND_INDEX, 0),
            SectionKind::Column(number) => (KIND_COLUMN, number),
        };
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(&section.offset.to_le_bytes());
        out.extend_from_slice(&section.length.to_le_bytes());
        out.extend_from_slice(&section.crc.to_le_bytes());
        out.extend_from_slice(&0u32.to_le_bytes());
    }
    let before = sections.last().map_or(0, |s| s.offset + s.length);
    let length = before + (out.len() + TRAILER_BYTES) as u64;
    out.extend_from_slice(&(sections.len() as u64).to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&crc(&out).to_le_bytes());
    out.extend_from_slice(&0u32.to_le_bytes());
    out.extend_from_slice(&END);
    out
}

/// What is wrong, and in which section.
pub(crate) type Fault = (Option<Section>, Corruption);

fn malformed(section: Section, what: &str) -> Fault {
    (Some(section), Corruption::Malformed(what.to_owned()))
}

/// A section as the footer has it, before the directory has given the columns their names.
struct RawSpan {
    kind: u32,
    number: u32,
    range: Range<usize>,
    crc: u32,
}

fn read_footer<'a>(file: &impl Pieces<'a>) -> Result<Vec<RawSpan>, Fault> {
    let fault = |what| malformed(Section::Footer, what);
    let piece = |range| file.piece(range).map_err(|cause| (Some(Section::Footer), cause));
    let trailer_at = file.length().checked_sub(TRAILER_BYTES).ok_or_else(|| fault("the file is too short to be a shard file"))?;
    let trailer = &piece(trailer_at..file.length())?;
    let (count, length, sum) = match (get_u64(trailer, 0), get_u64(trailer, 8), get_u32(trailer, 16), get_u32(trailer, 20)) {
        (Some(count), Some(length), Some(sum), Some(0)) if trailer.ends_with(&END) => (count, length, sum),
        _ => return Err(fault("it does not end like a shard file")),
    };
    let footer_at = usize::try_from(count)
        .ok()
        .and_then(|count| count.checked_mul(SECTION_BYTES))
        .and_then(|entries| trailer_at.checked_sub(entries))
        .ok_or_else(|| fault("more sections than the file has room for"))?;
    let footer = piece(footer_at..trailer_at + 16)?;
    if crc(&footer) != sum {
        return Err((Some(Section::Footer), Corruption::Checksum));
    }
    if length != file.length() as u64 {
        return Err((Some(Section::Footer), Corruption::Length { found: file.length() as u64, expected: length }));
    }
    let mut at = 0usize;
    let mut spans = Vec::new();
    for entry in footer[..trailer_at - footer_at].chunks_exact(SECTION_BYTES) {
        let (Some(kind), Some(number), Some(offset), Some(length), Some(crc), Some(0)) =
            (get_u32(entry, 0), get_u32(entry, 4), get_u64(entry, 8), get_u64(entry, 16), get_u32(entry, 24), get_u32(entry, 28))
        else {
            return Err(fault("an entry of the footer is not as the format says"));
        };
        let end = usize::try_from(length).ok().and_then(|length| at.checked_add(length));
        match end {
            Some(end) if offset == at as u64 && length % 8 == 0 && end <= footer_at => {
                spans.push(RawSpan { kind, number, range: at..end, crc });
                at = end;
            }
            _ => return Err(fault("the sections do not follow each other")),
        }
    }
    if at != footer_at {
        return Err(fault("the sections do not reach the footer"));
    }
    Ok(spans)
}

fn read_name(bytes: &[u8], at: usize, length: usize) -> Option<(String, usize)> {
    let end = at.checked_add(length).filter(|_| (1..=MAX_NAME).contains(&length))?;
    let name = std::str::from_utf8(bytes.get(at..end)?).ok()?;
    let next = end.next_multiple_of(8);
    bytes.get(end..next)?.iter().all(|&b| b == 0).then(|| (name.to_owned(), next))
}

fn read_header(bytes: &[u8]) -> Option<(u32, FileKind, u32, u32, String)> {
    if !bytes.starts_with(&MAGIC) {
        return None;
    }
    let version = get_u32(bytes, 8)?;
    let kind = FileKind::from_code(get_u32(bytes, 12)?)?;
    let (layer, shard) = (get_u32(bytes, 16)?, get_u32(bytes, 20)?);
    let (table, end) = read_name(bytes, 32, usize::try_from(get_u64(bytes, 24)?).ok()?)?;
    (end == bytes.len()).then_some((version, kind, layer, shard, table))
}

fn read_directory(bytes: &[u8]) -> Option<([u64; 4], Vec<ColumnInfo>)> {
    let count = get_u64(bytes, 8)?;
    if get_u64(bytes, 0)? != 1 || count > bytes.len() as u64 / 16 {
        return None;
    }
    let mut run = [0; 4];
    for (i, word) in run.iter_mut().enumerate() {
        *word = get_u64(bytes, 16 + i * 8)?;
    }
    let mut at = 48;
    let mut columns = Vec::new();
    for _ in 0..count {
        let dist = match get_u32(bytes, at)? {
            COLUMN_SCALAR => false,
            COLUMN_DIST => true,
            _ => return None,
        };
        let largest = if dist { MAX_DIST_GROUP } else { MAX_SCALAR_GROUP };
        let group = get_u64(bytes, at + 8).filter(|group| (1..=largest).contains(group))?;
        let (name, next) = read_name(bytes, at + 16, usize::try_from(get_u32(bytes, at + 4)?).ok()?)?;
        columns.push(ColumnInfo { name, dist, group });
        at = next;
    }
    let [first_rank, universe, _, keys] = run;
    let padding = bytes.get(at..)?;
    let sound = padding.len() < 64 && padding.iter().all(|&b| b == 0) && keys <= universe;
    (sound && first_rank.checked_add(universe).is_some()).then_some((run, columns))
}

/// Reads header, directory and footer, and checks their checksums. Looks at no index and no value.
pub(crate) fn read_layout<'a>(file: &impl Pieces<'a>) -> Result<Layout, Fault> {
    let spans = read_footer(file)?;
    let piece = |span: &RawSpan, section| file.piece(span.range.clone()).map_err(|cause| (Some(section), cause));
    let order = |what| malformed(Section::Footer, what);
    let [header_span, directory_span, rest @ ..] = spans.as_slice() else {
        return Err(order("a shard file has at least a header and a directory"));
    };
    for (span, kind, section) in
        [(header_span, KIND_HEADER, Section::Header), (directory_span, KIND_DIRECTORY, Section::Directory)]
    {
        if span.kind != kind {
            return Err(order("the sections are not in their order"));
        }
        if crc(&piece(span, section.clone())?) != span.crc {
            return Err((Some(section), Corruption::Checksum));
        }
    }
    let (version, kind, layer, shard, table) = read_header(&piece(header_span, Section::Header)?)
        .ok_or_else(|| malformed(Section::Header, "it does not start like a shard file"))?;
    if version != VERSION {
        let what = format!("the file has version {version} of the format, this build reads version {VERSION}");
        return Err((Some(Section::Header), Corruption::Malformed(what)));
    }
    let ([first_rank, universe, blocks, keys], infos) = read_directory(&piece(directory_span, Section::Directory)?)
        .ok_or_else(|| malformed(Section::Directory, "the directory is not as the format says"))?;
    let (index, column_spans) = match rest {
        [first, others @ ..] if first.kind == KIND_INDEX => {
            (Some(Span { section: Section::Index, range: first.range.clone(), crc: first.crc }), others)
        }
        all => (None, all),
    };
    let fits = column_spans.len() == infos.len()
        && column_spans.iter().enumerate().all(|(i, span)| span.kind == KIND_COLUMN && span.number as usize == i)
        && (index.is_some() || kind == FileKind::Work);
    if !fits {
        return Err(order("the sections are not those of the directory"));
    }
    let mut columns = Vec::new();
    for (info, span) in infos.into_iter().zip(column_spans) {
        let section = Section::Column(info.name.clone());
        let table = usize::try_from(keys.div_ceil(info.group)).ok().and_then(|groups| groups.checked_mul(GROUP_BYTES));
        if table.is_none_or(|table| table > span.range.len()) {
            return Err(malformed(section, "the column is too short for its table of groups"));
        }
        columns.push((info, Span { section, range: span.range.clone(), crc: span.crc }));
    }
    let names = |dist: bool| columns.iter().filter(|(info, _)| info.dist == dist).map(|(info, _)| info.name.clone()).collect();
    let header = ShardHeader {
        scalar_columns: names(false),
        dist_columns: names(true),
        table,
        kind,
        layer,
        shard,
        first_rank,
        universe,
        blocks,
        keys,
    };
    Ok(Layout { header, index, columns })
}

/// The sections whose bytes do not have their checksum; the footer alone when it is damaged itself.
pub(crate) fn damaged_sections(file: &[u8]) -> Vec<Fault> {
    let spans = match read_footer(&file) {
        Ok(spans) => spans,
        Err(fault) => return vec![fault],
    };
    let bad: Vec<&RawSpan> = spans.iter().filter(|span| crc(&file[span.range.clone()]) != span.crc).collect();
    // The names of the columns are in the directory; where that is damaged their numbers must do.
    let directory = spans.get(1).filter(|span| crc(&file[span.range.clone()]) == span.crc);
    let infos = directory.and_then(|span| read_directory(&file[span.range.clone()])).map_or(Vec::new(), |(_, infos)| infos);
    bad.into_iter()
        .map(|span| {
            let section = match span.kind {
                KIND_HEADER => Section::Header,
                KIND_DIRECTORY => Section::Directory,
                KIND_INDEX => Section::Index,
                _ => Section::Column(
                    infos.get(span.number as usize).map_or_else(|| span.number.to_string(), |info| info.name.clone()),
                ),
            };
            (Some(section), Corruption::Checksum)
        })
        .collect()
}

/// How the payload of a group is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Codec {
    Raw,
    Zstd,
}

impl Codec {
    fn code(self) -> u8 {
        match self {
            Codec::Raw => 0,
            Codec::Zstd => 1,
        }
    }
}

/// A group as it was found.
pub(crate) struct Entry<'a> {
    pub(crate) group: Group,
    /// Its bytes in the table of groups.
    pub(crate) entry: Piece<'a>,
    /// Where its payload is in the section.
    pub(crate) payload: Range<usize>,
}

/// An entry of the table of groups.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Group {
    /// Where the payload is, from the start of the section.
    pub(crate) offset: u64,
    /// Bytes of the payload as stored.
    pub(crate) length: u32,
    /// Bytes of the payload when decompressed.
    pub(crate) raw_length: u32,
    pub(crate) base: f64,
    pub(crate) step: f64,
    pub(crate) error: f64,
    pub(crate) form: Form,
    pub(crate) codec: Codec,
    pub(crate) crc: u32,
}

impl Group {
    /// The entry, its checksum included: the checksum of the number of the group, the entry up to there, and the payload.
    pub(crate) fn bytes(&self) -> [u8; GROUP_BYTES] {
        let mut out = [0; GROUP_BYTES];
        out[0..8].copy_from_slice(&self.offset.to_le_bytes());
        out[8..12].copy_from_slice(&self.length.to_le_bytes());
        out[12..16].copy_from_slice(&self.raw_length.to_le_bytes());
        out[16..24].copy_from_slice(&self.base.to_le_bytes());
        out[24..32].copy_from_slice(&self.step.to_le_bytes());
        out[32..40].copy_from_slice(&self.error.to_le_bytes());
        out[40] = self.form.code();
        out[41] = self.codec.code();
        out[44..48].copy_from_slice(&self.crc.to_le_bytes());
        out
    }

    /// Fills in the checksum.
    pub(crate) fn sealed(mut self, number: u64, payload: &[u8]) -> Self {
        self.crc = checksum(number, &self.bytes(), payload);
        self
    }

    /// Where entry `number` is in a section of so many bytes, at whose end the table of groups is.
    fn place(length: usize, number: u64, groups: u64) -> Option<(usize, Range<usize>)> {
        let table = length.checked_sub(usize::try_from(groups).ok()?.checked_mul(GROUP_BYTES)?)?;
        let at = table.checked_add(usize::try_from(number).ok()?.checked_mul(GROUP_BYTES)?)?;
        let end = at.checked_add(GROUP_BYTES).filter(|&end| end <= length)?;
        Some((table, at..end))
    }

    /// Reads entry `number` of the table at the end of a section, and finds its payload; `None` where it is not as the format says. Checks
    /// only that it can be read; whether it is what was written is for [`checksum`] to say.
    pub(crate) fn read<'a>(section: &impl Pieces<'a>, number: u64, groups: u64) -> Result<Option<Entry<'a>>, Corruption> {
        let Some((table, place)) = Self::place(section.length(), number, groups) else { return Ok(None) };
        let entry = section.piece(place)?;
        Ok(Self::parse(&entry, table).map(|(group, payload)| Entry { group, entry, payload }))
    }

    fn parse(entry: &[u8], table: usize) -> Option<(Self, Range<usize>)> {
        let group = Group {
            offset: get_u64(entry, 0)?,
            length: get_u32(entry, 8)?,
            raw_length: get_u32(entry, 12)?,
            base: get_f64(entry, 16)?,
            step: get_f64(entry, 24)?,
            error: get_f64(entry, 32)?,
            form: Form::from_code(entry[40])?,
            codec: [Codec::Raw, Codec::Zstd].into_iter().find(|codec| codec.code() == entry[41])?,
            crc: get_u32(entry, 44)?,
        };
        let start = usize::try_from(group.offset).ok()?;
        let end = start.checked_add(usize::try_from(group.length).ok()?).filter(|&end| end <= table)?;
        let sane = entry[42..44] == [0, 0] && (group.codec != Codec::Raw || group.length == group.raw_length);
        sane.then_some((group, start..end))
    }

    /// Whether a payload of this length can be that of a group of so many keys.
    pub(crate) fn fits(&self, dist: bool, keys: u64) -> bool {
        let raw = u64::from(self.raw_length);
        if dist { raw <= max_dist_bytes(keys) } else { raw == scalar_bytes(self.form, keys) }
    }
}

/// The checksum of a group.
pub(crate) fn checksum(number: u64, entry: &[u8], payload: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(&number.to_le_bytes());
    crc.update(&entry[..GROUP_BYTES - 4]);
    crc.update(payload);
    crc.finish()
}
