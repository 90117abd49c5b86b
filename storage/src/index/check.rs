//! The whole of a set against its own rules, and what it is made of.
//!
//! There is exactly one encoding of every set, so a check needs no list of things that can be wrong: it decodes each chunk, encodes it
//! again and compares. Bytes that pass are the bytes of the set they decode to.

use super::IndexError;
use super::View;
use super::bits::{index, word};
use super::encode::Body;
use super::layout::{CHUNK, Entry, GROUP_CHUNKS, Kind, entry_at, group_at};
use super::prefetch::{Job, run};

/// Number, keys and body bytes of the chunks of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KindStats {
    /// Chunks.
    pub chunks: u64,
    /// Keys in them.
    pub keys: u64,
    /// Bytes of their bodies; entries in the directory not counted.
    pub bytes: u64,
}

/// What a set is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IndexStats {
    /// Chunks without a key.
    pub empty: KindStats,
    /// Chunks of which every rank is a key.
    pub full: KindStats,
    /// Chunks kept as bitmaps.
    pub bitmap: KindStats,
    /// Chunks kept as Elias-Fano lists of their keys.
    pub keys: KindStats,
    /// Chunks kept as Elias-Fano lists of the ranks that are not keys.
    pub gaps: KindStats,
    /// Bytes of header and directory.
    pub directory_bytes: u64,
    /// Bytes of everything.
    pub bytes: u64,
}

/// Goes through all chunks; see [`super::IndexSet::check`].
pub(super) struct Check<'a>(pub(super) View<'a>);

impl Job for Check<'_> {
    type Output = Result<(), IndexError>;

    #[inline(always)]
    fn run(self) -> Self::Output {
        let set = self.0;
        let (bytes, layout) = (set.bytes, set.layout);
        let mut body = Body::new();
        let (mut keys, mut at, mut group_keys, mut group_at_body) = (0, 0, 0, 0);
        for number in 0..layout.chunks() {
            let damaged = || IndexError::Chunk { chunk: number, first_rank: number * CHUNK };
            if number % GROUP_CHUNKS == 0 {
                let group = group_at(number / GROUP_CHUNKS);
                if word(bytes, group) != keys || word(bytes, group + 8) != at {
                    return Err(IndexError::Group { group: number / GROUP_CHUNKS, first_rank: number * CHUNK });
                }
                (group_keys, group_at_body) = (keys, at);
            }
            let chunk = set.chunk(number);
            let (kind, here) = body.encode(&chunk.decode(), chunk.ranks, Kind::cheapest);
            let entry = Entry { before: keys - group_keys, at: at - group_at_body, kind, keys: here };
            let from = index(layout.bodies() + at);
            let same = bytes.get(from..from + index(body.bytes())).is_some_and(|stored| body.is(stored));
            if word(bytes, entry_at(number)) >> 16 != entry.pack() || !same {
                return Err(damaged());
            }
            keys += here;
            at += body.bytes();
        }
        if (keys, at) != (layout.keys, layout.body_bytes) {
            return Err(IndexError::Totals { keys, stated: layout.keys });
        }
        let last_entry = if layout.chunks() == 0 { layout.bodies() } else { entry_at(layout.chunks() - 1) + 8 };
        let padding = [(last_entry, layout.bodies()), (layout.bodies() + at, layout.total())];
        let clean = |&(from, to): &(u64, u64)| bytes[index(from)..index(to)].iter().all(|&byte| byte == 0);
        if padding.iter().all(clean) { Ok(()) } else { Err(IndexError::Padding) }
    }
}

pub(super) fn check(set: View<'_>) -> Result<(), IndexError> {
    run(Check(set))
}

pub(super) fn stats(set: View<'_>) -> IndexStats {
    let layout = set.layout;
    let mut out = IndexStats { directory_bytes: layout.bodies(), bytes: layout.total(), ..IndexStats::default() };
    for number in 0..layout.chunks() {
        let chunk = set.chunk(number);
        let kind = match chunk.kind {
            Kind::Empty => &mut out.empty,
            Kind::Full => &mut out.full,
            Kind::Bitmap => &mut out.bitmap,
            Kind::Keys(_) => &mut out.keys,
            Kind::Gaps(_) => &mut out.gaps,
        };
        kind.chunks += 1;
        kind.keys = kind.keys.saturating_add(chunk.keys);
        let end = if number + 1 < layout.chunks() { set.chunk(number + 1).body } else { layout.bodies() + layout.body_bytes };
        // Of a damaged set anything may be claimed.
        kind.bytes = kind.bytes.saturating_add(end.saturating_sub(chunk.body));
    }
    out
}
