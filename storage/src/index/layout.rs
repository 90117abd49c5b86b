//! The numbers of the byte layout: header, directory entries, and how long each encoding of a chunk is. Drawn in the module docs.

use super::bits::{first_bits, index, low_mask, wide, word};
use super::prefetch::prefetch;
use super::{IndexError, MAX_UNIVERSE};

/// Ranks in a chunk: 2^12. On the afterstates of 2048 on 4x3 at age 160 chunks of 2^9, 2^10, ... 2^16 cost 4.69, 4.48, 4.49, 4.48,
/// 4.52, 4.57, 4.61, 4.65 bits a key, all included: smaller ones pay for entries, larger ones mix sparse and dense stretches.
pub(super) const CHUNK_LOG: u64 = 12;
pub(super) const CHUNK: u64 = 1 << CHUNK_LOG;
/// Words of a chunk's bitmap.
pub(super) const CHUNK_WORDS: usize = 64;
/// Chunks whose directory entries share one 64-byte group.
pub(super) const GROUP_CHUNKS: u64 = 8;
/// Ranks in a bitmap between two counts.
pub(super) const COUNT_EVERY: u64 = 512;
/// Buckets of an Elias-Fano chunk between two samples.
pub(super) const SAMPLE_EVERY: u64 = 256;

pub(super) const HEADER_BYTES: u64 = 24;
pub(super) const GROUP_HEADER_BYTES: u64 = 16;
pub(super) const ENTRY_BYTES: u64 = 6;
pub(super) const GROUP_BYTES: u64 = GROUP_HEADER_BYTES + GROUP_CHUNKS * ENTRY_BYTES;
const MAGIC: u64 = 0x4645; // "EF"
const VERSION: u64 = 1;

/// A chunk's bits, the first rank in bit 0 of word 0.
pub(super) type ChunkBits = [u64; CHUNK_WORDS];

/// How one chunk is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Empty,
    Full,
    Bitmap,
    /// Elias-Fano over the keys, with this many low bits.
    Keys(u64),
    /// Elias-Fano over the ranks that are not keys.
    Gaps(u64),
}

impl Kind {
    pub(super) fn code(self) -> u64 {
        match self {
            Kind::Empty => 0,
            Kind::Full => 1,
            Kind::Bitmap => 2,
            Kind::Keys(low) => 4 + low,
            Kind::Gaps(low) => 17 + low,
        }
    }

    /// Low bits of a list.
    #[inline(always)]
    pub(super) fn low(self) -> u64 {
        match self {
            Kind::Keys(low) | Kind::Gaps(low) => low,
            _ => 0,
        }
    }

    /// The kind of a code. The codes no encoder writes (3, 30, 31) read as empty; `check` refuses them.
    #[inline(always)]
    pub(super) fn of(code: u64) -> Self {
        match code {
            1 => Kind::Full,
            2 => Kind::Bitmap,
            4..=16 => Kind::Keys(code - 4),
            17..=29 => Kind::Gaps(code - 17),
            _ => Kind::Empty,
        }
    }

    /// The cheapest way to write `keys` keys among `ranks` ranks, and its length in bits. Bitmaps are fastest to read: a list must save
    /// a whole byte.
    #[inline(always)]
    pub(super) fn cheapest(keys: u64, ranks: u64) -> (Self, u64) {
        if keys == 0 {
            return (Kind::Empty, 0);
        }
        if keys == ranks {
            return (Kind::Full, 0);
        }
        // Only the set with fewer members can gain; the low bits that serve it best are near log2(ranks / members).
        let members = keys.min(ranks - keys);
        let about = u64::from((ranks / members).ilog2());
        let (mut best_low, mut best) = (0, u64::MAX);
        for low in about.saturating_sub(1)..=(about + 1).min(CHUNK_LOG) {
            let bits = elias_fano_bits(members, ranks, low);
            (best_low, best) = if bits < best { (low, bits) } else { (best_low, best) };
        }
        let bitmap = ranks + 16 * counts(ranks);
        match () {
            () if bitmap.div_ceil(8) <= best.div_ceil(8) => (Kind::Bitmap, bitmap),
            () if members == keys => (Kind::Keys(best_low), best),
            () => (Kind::Gaps(best_low), best),
        }
    }

    /// The way that is read fastest, and its length in bits.
    #[inline(always)]
    pub(super) fn quickest(keys: u64, ranks: u64) -> (Self, u64) {
        if keys * SPARSE < ranks || keys == ranks {
            Self::cheapest(keys, ranks)
        } else {
            (Kind::Bitmap, ranks + 16 * counts(ranks))
        }
    }
}

/// Fewer keys than one in so many ranks are decoded as fast as a bitmap is copied.
const SPARSE: u64 = 64;

/// Counts stored in a bitmap of so many ranks.
#[inline(always)]
pub(super) fn counts(ranks: u64) -> u64 {
    ranks.saturating_sub(1) / COUNT_EVERY
}

/// Buckets of an Elias-Fano chunk with `low` low bits.
#[inline(always)]
pub(super) fn buckets(ranks: u64, low: u64) -> u64 {
    (ranks + low_mask(low)) >> low
}

/// Samples stored for so many buckets.
#[inline(always)]
pub(super) fn samples(buckets: u64) -> u64 {
    buckets.saturating_sub(1) / SAMPLE_EVERY
}

#[inline(always)]
fn elias_fano_bits(members: u64, ranks: u64, low: u64) -> u64 {
    let buckets = buckets(ranks, low);
    16 * samples(buckets) + members + buckets + members * low
}

/// One chunk's line of the directory, 48 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    /// Keys of the group before this chunk.
    pub(super) before: u64,
    /// Bytes of the group's bodies before this chunk's.
    pub(super) at: u64,
    pub(super) kind: Kind,
    /// Keys in this chunk.
    pub(super) keys: u64,
}

impl Entry {
    pub(super) fn pack(self) -> u64 {
        self.before | self.at << 15 | self.kind.code() << 28 | self.keys << 33
    }

    #[inline(always)]
    pub(super) fn unpack(bits: u64) -> Self {
        Entry { before: bits & 0x7FFF, at: bits >> 15 & 0x1FFF, kind: Kind::of(bits >> 28 & 0x1F), keys: bits >> 33 & 0x1FFF }
    }
}

/// What the header says, with the places that follow from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub(super) universe: u64,
    pub(super) keys: u64,
    /// Bytes of all bodies together.
    pub(super) body_bytes: u64,
}

impl Layout {
    pub(super) fn chunks(&self) -> u64 {
        self.universe.div_ceil(CHUNK)
    }

    pub(super) fn groups(&self) -> u64 {
        self.chunks().div_ceil(GROUP_CHUNKS)
    }

    /// Where the bodies begin. The last group has only as many entries as there are chunks, padded to whole words.
    #[inline(always)]
    pub(super) fn bodies(&self) -> u64 {
        let (whole, rest) = (self.chunks() / GROUP_CHUNKS, self.chunks() % GROUP_CHUNKS);
        let last = if rest == 0 { 0 } else { GROUP_HEADER_BYTES + (rest * ENTRY_BYTES).next_multiple_of(8) };
        HEADER_BYTES + whole * GROUP_BYTES + last
    }

    pub(super) fn total(&self) -> u64 {
        (self.bodies() + self.body_bytes).next_multiple_of(8)
    }

    pub(super) fn header(&self) -> [u8; 24] {
        let mut out = [0; 24];
        out[..8].copy_from_slice(&(MAGIC | VERSION << 16 | self.body_bytes << 24).to_le_bytes());
        out[8..16].copy_from_slice(&self.universe.to_le_bytes());
        out[16..].copy_from_slice(&self.keys.to_le_bytes());
        out
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Self, IndexError> {
        Self::read_header(bytes, wide(bytes.len()))
    }

    /// From the first bytes of a set of `found` bytes.
    pub(super) fn read_header(bytes: &[u8], found: u64) -> Result<Self, IndexError> {
        if found < HEADER_BYTES {
            return Err(IndexError::Length { expected: HEADER_BYTES, found });
        }
        let first = word(bytes, 0);
        if first & 0xFFFF != MAGIC {
            return Err(IndexError::NotAnIndex);
        }
        if first >> 16 & 0xFF != VERSION {
            return Err(IndexError::Version { found: first >> 16 & 0xFF });
        }
        let layout = Layout { universe: word(bytes, 8), keys: word(bytes, 16), body_bytes: first >> 24 };
        if layout.universe > MAX_UNIVERSE {
            return Err(IndexError::Universe { universe: layout.universe });
        }
        if layout.keys > layout.universe {
            return Err(IndexError::TooManyKeys { keys: layout.keys, universe: layout.universe });
        }
        if layout.total() != found {
            return Err(IndexError::Length { expected: layout.total(), found });
        }
        Ok(layout)
    }
}

/// Where a group's 64 bytes begin.
#[inline(always)]
pub(super) fn group_at(group: u64) -> u64 {
    HEADER_BYTES + group * GROUP_BYTES
}

/// Byte of the group at which a chunk's entry is read, as the upper 48 bits of a word that never reaches past the group.
#[inline(always)]
pub(super) fn entry_in_group(chunk: u64) -> u64 {
    GROUP_HEADER_BYTES - 2 + chunk % GROUP_CHUNKS * ENTRY_BYTES
}

/// The same in bytes of the set.
#[inline(always)]
pub(super) fn entry_at(chunk: u64) -> u64 {
    group_at(chunk / GROUP_CHUNKS) + entry_in_group(chunk)
}

/// Asks for a chunk's line of the directory; where the set does not begin on a cache line a group lies on two.
#[inline(always)]
pub(super) fn prefetch_entry(bytes: &[u8], chunk: u64) {
    prefetch(bytes, group_at(chunk / GROUP_CHUNKS));
    prefetch(bytes, entry_at(chunk));
}

/// The chunk of `ranks` ranks that begins with word `first`. Words that are missing read as 0, bits past `ranks` are left out.
pub(super) fn copy_chunk(words: &[u64], first: u64, ranks: u64) -> ChunkBits {
    let mut bits = [0; CHUNK_WORDS];
    for (to, from) in bits.iter_mut().zip(words.get(index(first)..).unwrap_or_default()) {
        *to = *from;
    }
    for (word, start) in bits.iter_mut().zip((0_u64..).step_by(64)) {
        *word &= first_bits(ranks.saturating_sub(start));
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_form_is_the_shortest_of_all() {
        for ranks in [1, 2, 7, 64, 300, 512, 513, 1000, 4095, 4096] {
            for keys in 1..ranks {
                let bitmap = ranks + 16 * counts(ranks);
                let list = |members| (0..=CHUNK_LOG).map(|low| (elias_fano_bits(members, ranks, low), low)).min();
                let (of_keys, of_gaps) = (list(keys).expect("a length"), list(ranks - keys).expect("a length"));
                let expected = if bitmap.div_ceil(8) <= of_keys.min(of_gaps).0.div_ceil(8) {
                    (Kind::Bitmap, bitmap)
                } else if of_keys < of_gaps {
                    (Kind::Keys(of_keys.1), of_keys.0)
                } else {
                    (Kind::Gaps(of_gaps.1), of_gaps.0)
                };
                assert_eq!(Kind::cheapest(keys, ranks), expected, "{keys} of {ranks}");
            }
        }
    }

    #[test]
    fn the_fullest_group_fits_its_fields() {
        let longest = (CHUNK + 16 * counts(CHUNK)).div_ceil(8);
        let entry = Entry { before: 7 * CHUNK, at: 7 * longest, kind: Kind::Gaps(12), keys: CHUNK };
        assert_eq!(Entry::unpack(entry.pack()), entry);
        assert!(entry.pack() < 1 << 46);
    }
}
