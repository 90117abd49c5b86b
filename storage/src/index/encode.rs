//! From bits or keys to the bytes of a set. There is one encoding of every set, whichever way it came.

use super::bits::{index, low_mask, ones, wide};
use super::layout::{
    CHUNK, CHUNK_WORDS, COUNT_EVERY, ChunkBits, Entry, GROUP_CHUNKS, HEADER_BYTES, Kind, Layout, SAMPLE_EVERY, buckets,
    copy_chunk, counts, entry_at, group_at, samples,
};
use super::prefetch::{Job, run};
use super::{IndexError, MAX_UNIVERSE};

/// Encodes the set whose members are the set bits of `words`, bit 0 of word 0 being rank 0. Bits from `universe` on are left out.
///
/// Costs about one pass over the bits: measured 0.4 to 2 GB of bitmap a second. Panics if `words` do not cover the universe or the
/// universe is larger than [`MAX_UNIVERSE`]: both are mistakes of the caller, not of any input.
pub fn encode_bits(words: &[u64], universe: u64) -> Vec<u8> {
    assert!(universe <= MAX_UNIVERSE, "a universe of {universe} ranks is more than an index set holds ({MAX_UNIVERSE})");
    assert!(universe.div_ceil(64) <= wide(words.len()), "{} words do not cover {universe} ranks", words.len());
    run(EncodeBits { words, universe })
}

/// Encodes a set given as its members, strictly ascending and below `universe`: the same bytes as [`encode_bits`].
pub fn encode_sorted(keys: &[u64], universe: u64) -> Result<Vec<u8>, IndexError> {
    if universe > MAX_UNIVERSE {
        return Err(IndexError::Universe { universe });
    }
    if let Some(at) = keys.windows(2).position(|pair| pair[0] >= pair[1]) {
        return Err(IndexError::Unsorted { at: wide(at), left: keys[at], right: keys[at + 1] });
    }
    if let Some(&key) = keys.last().filter(|&&key| key >= universe) {
        return Err(IndexError::OutOfUniverse { key, universe });
    }
    Ok(run(EncodeSorted { keys, universe }))
}

struct EncodeBits<'a> {
    words: &'a [u64],
    universe: u64,
}

impl Job for EncodeBits<'_> {
    type Output = Vec<u8>;

    #[inline(always)]
    fn run(self) -> Vec<u8> {
        let mut encoder = Encoder::new(self.universe);
        let whole = index(self.universe / CHUNK);
        for bits in self.words.as_chunks::<CHUNK_WORDS>().0.iter().take(whole) {
            encoder.push(bits, CHUNK);
        }
        let rest = self.universe % CHUNK;
        if rest > 0 {
            encoder.push(&copy_chunk(self.words, self.universe / 64 - rest / 64, rest), rest);
        }
        encoder.finish()
    }
}

struct EncodeSorted<'a> {
    keys: &'a [u64],
    universe: u64,
}

impl Job for EncodeSorted<'_> {
    type Output = Vec<u8>;

    #[inline(always)]
    fn run(self) -> Vec<u8> {
        let mut encoder = Encoder::new(self.universe);
        let mut keys = self.keys.iter().copied().peekable();
        let mut start = 0;
        while start < self.universe {
            let ranks = CHUNK.min(self.universe - start);
            let mut bits = [0; CHUNK_WORDS];
            while let Some(key) = keys.next_if(|key| key - start < ranks) {
                bits[index((key - start) / 64)] |= 1 << (key % 64);
            }
            encoder.push(&bits, ranks);
            start += CHUNK;
        }
        encoder.finish()
    }
}

/// A set being written: header and directory are filled in as the bodies come.
struct Encoder {
    out: Vec<u8>,
    layout: Layout,
    chunk: u64,
    /// Keys and body bytes at the start of the current group.
    group_keys: u64,
    group_body: u64,
    body: Body,
}

impl Encoder {
    #[inline(always)]
    fn new(universe: u64) -> Self {
        let layout = Layout { universe, keys: 0, body_bytes: 0 };
        let out = vec![0; index(layout.bodies())];
        Encoder { out, layout, chunk: 0, group_keys: 0, group_body: 0, body: Body::new() }
    }

    #[inline(always)]
    fn push(&mut self, bits: &ChunkBits, ranks: u64) {
        let Layout { keys, body_bytes, .. } = self.layout;
        if self.chunk.is_multiple_of(GROUP_CHUNKS) {
            (self.group_keys, self.group_body) = (keys, body_bytes);
            let at = index(group_at(self.chunk / GROUP_CHUNKS));
            self.out[at..at + 8].copy_from_slice(&keys.to_le_bytes());
            self.out[at + 8..at + 16].copy_from_slice(&body_bytes.to_le_bytes());
        }
        let (kind, here) = self.body.encode(bits, ranks);
        let entry = Entry { before: keys - self.group_keys, at: body_bytes - self.group_body, kind, keys: here };
        let at = index(entry_at(self.chunk)) + 2;
        self.out[at..at + 6].copy_from_slice(&entry.pack().to_le_bytes()[..6]);
        self.body.append_to(&mut self.out);
        self.layout.keys += here;
        self.layout.body_bytes += self.body.bytes();
        self.chunk += 1;
    }

    #[inline(always)]
    fn finish(mut self) -> Vec<u8> {
        self.out[..index(HEADER_BYTES)].copy_from_slice(&self.layout.header());
        self.out.resize(index(self.layout.total()), 0);
        self.out
    }
}

/// Room for the longest body, and for the word after it.
const BODY_WORDS: usize = 128;

/// The body of one chunk, as a run of bits.
pub(super) struct Body {
    words: [u64; BODY_WORDS],
    bits: u64,
}

impl Body {
    pub(super) fn new() -> Self {
        Body { words: [0; BODY_WORDS], bits: 0 }
    }

    /// Length in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bits.div_ceil(8)
    }

    #[inline(always)]
    fn append_to(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let whole = index(self.bits.div_ceil(64));
        out.resize(start + whole * 8, 0);
        for (to, word) in out[start..].as_chunks_mut::<8>().0.iter_mut().zip(self.words) {
            *to = word.to_le_bytes();
        }
        out.truncate(start + index(self.bytes()));
    }

    /// Whether these are the bytes of the body.
    pub(super) fn is(&self, bytes: &[u8]) -> bool {
        wide(bytes.len()) == self.bytes()
            && self.words.iter().flat_map(|word| word.to_le_bytes()).zip(bytes).all(|(a, b)| a == *b)
    }

    /// Writes the body of a chunk of `ranks` ranks; says how it did and how many keys there are.
    #[inline(always)]
    pub(super) fn encode(&mut self, bits: &ChunkBits, ranks: u64) -> (Kind, u64) {
        let keys = bits.iter().map(|&word| ones(word)).sum();
        let (kind, length) = Kind::cheapest(keys, ranks);
        self.bits = length;
        match kind {
            Kind::Empty | Kind::Full => {}
            Kind::Bitmap => self.write_bitmap(bits, ranks),
            Kind::Keys(low) => self.write_elias_fano(bits, keys, ranks, low),
            Kind::Gaps(low) => {
                let mut gaps = *bits;
                for (word, start) in gaps.iter_mut().zip((0_u64..).step_by(64)) {
                    *word = !*word & low_mask(ranks.saturating_sub(start));
                }
                self.write_elias_fano(&gaps, ranks - keys, ranks, low);
            }
        }
        (kind, keys)
    }

    /// Sets bits from bit `at` on, which were 0.
    #[inline(always)]
    fn or(&mut self, at: u64, value: u64) {
        let (place, shift) = (index(at / 64) % BODY_WORDS, at % 64);
        self.words[place] |= value << shift;
        if shift > 0 {
            self.words[(place + 1) % BODY_WORDS] |= value >> (64 - shift);
        }
    }

    #[inline(always)]
    fn clear(&mut self) {
        self.words[..index(self.bits / 64 + 2)].fill(0);
    }

    #[inline(always)]
    fn write_bitmap(&mut self, bits: &ChunkBits, ranks: u64) {
        self.clear();
        let first = 16 * counts(ranks);
        let mut before = 0;
        for (&word, start) in bits.iter().zip((0_u64..).step_by(64)) {
            if start >= ranks {
                break;
            }
            if start > 0 && start % COUNT_EVERY == 0 {
                self.or(16 * (start / COUNT_EVERY - 1), before);
            }
            self.or(first + start, word);
            before += ones(word);
        }
    }

    #[inline(always)]
    fn write_elias_fano(&mut self, bits: &ChunkBits, members: u64, ranks: u64, low: u64) {
        self.clear();
        let buckets = buckets(ranks, low);
        let upper = 16 * samples(buckets);
        let mut next_low = upper + members + buckets;
        let sample_every = SAMPLE_EVERY << low; // in ranks, a multiple of 64
        let mut i = 0;
        for (&word, start) in bits.iter().zip((0_u64..).step_by(64)) {
            if start > 0 && start % sample_every == 0 && start < ranks {
                self.or(16 * (start / sample_every - 1), i + (start >> low));
            }
            let mut rest = word;
            while rest != 0 {
                let x = start + u64::from(rest.trailing_zeros());
                rest &= rest - 1;
                let at = upper + i + (x >> low);
                self.words[index(at / 64) % BODY_WORDS] |= 1 << (at % 64);
                self.or(next_low, x & low_mask(low));
                next_low += low;
                i += 1;
            }
        }
    }
}
