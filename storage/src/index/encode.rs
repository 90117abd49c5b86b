//! From bits or keys to the bytes of a set. There is one shortest encoding of every set, whichever way it came; and a quick one for files that are
//! read soon and then removed.

use super::bits::{first_bits, index, low_mask, ones, wide};
use super::layout::{
    CHUNK, CHUNK_WORDS, COUNT_EVERY, ChunkBits, Entry, GROUP_CHUNKS, HEADER_BYTES, Kind, Layout, SAMPLE_EVERY, buckets,
    copy_chunk, counts, entry_at, group_at, samples,
};
use super::prefetch::{Job, run};
use super::{IndexError, MAX_UNIVERSE};

/// Encodes the set whose members are the set bits of `words`, bit 0 of word 0 being rank 0. Bits from `universe` on are left out.
///
/// Costs about one pass over the bits: measured 0.4 to 1 GB of bitmap a second on one core. Panics if `words` do not cover the universe or the
/// universe is larger than [`MAX_UNIVERSE`]: both are mistakes of the caller, not of any input.
pub fn encode_bits(words: &[u64], universe: u64) -> Vec<u8> {
    encode(words, universe, Kind::cheapest)
}

/// The same, for a set that is to be read soon, and fast: chunks that are not very sparse are bitmaps, which need not be decoded. Such a set is larger
/// than it has to be, and [`IndexSet::check`](super::IndexSet::check) does not accept it.
pub fn encode_quick(words: &[u64], universe: u64) -> Vec<u8> {
    encode(words, universe, Kind::quickest)
}

fn encode(words: &[u64], universe: u64, choose: Choose) -> Vec<u8> {
    assert!(universe <= MAX_UNIVERSE, "a universe of {universe} ranks is more than an index set holds ({MAX_UNIVERSE})");
    assert!(universe.div_ceil(64) <= wide(words.len()), "{} words do not cover {universe} ranks", words.len());
    run(EncodeBits { words, universe, choose })
}

/// How a chunk is written, and in how many bits, by its keys and ranks.
type Choose = fn(u64, u64) -> (Kind, u64);

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
    choose: Choose,
}

impl Job for EncodeBits<'_> {
    type Output = Vec<u8>;

    #[inline(always)]
    fn run(self) -> Vec<u8> {
        let mut encoder = Encoder::new(self.universe, self.choose);
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
        let mut encoder = Encoder::new(self.universe, Kind::cheapest);
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
    choose: Choose,
}

impl Encoder {
    #[inline(always)]
    fn new(universe: u64, choose: Choose) -> Self {
        let layout = Layout { universe, keys: 0, body_bytes: 0 };
        let out = vec![0; index(layout.bodies())];
        Encoder { out, layout, chunk: 0, group_keys: 0, group_body: 0, body: Body::new(), choose }
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
        let (kind, here) = self.body.encode(bits, ranks, self.choose);
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
    pub(super) fn encode(&mut self, bits: &ChunkBits, ranks: u64, choose: Choose) -> (Kind, u64) {
        let keys = bits.iter().map(|&word| ones(word)).sum();
        let (kind, length) = choose(keys, ranks);
        self.bits = length;
        match kind {
            Kind::Empty | Kind::Full => {}
            Kind::Bitmap => self.write_bitmap(bits, ranks),
            Kind::Keys(low) => self.write_elias_fano(bits, keys, ranks, low),
            Kind::Gaps(low) => {
                let mut gaps = *bits;
                for (word, start) in gaps.iter_mut().zip((0_u64..).step_by(64)) {
                    *word = !*word & first_bits(ranks.saturating_sub(start));
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
        match low {
            2 => self.write_by_bytes::<4>(bits, ranks, low, [&PIECES[0], &PIECES[0]]),
            3 => self.write_by_bytes::<2>(bits, ranks, low, [&PIECES[1], &PIECES[1]]),
            4 => self.write_by_bytes::<2>(bits, ranks, low, [&PIECES[2], &PIECES[3]]),
            _ => self.write_by_members(bits, members, ranks, low),
        }
    }

    /// The way for few members: one after another.
    #[inline(always)]
    fn write_by_members(&mut self, bits: &ChunkBits, members: u64, ranks: u64, low: u64) {
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

    /// The way for many members, the same bits: every byte of the bitmap says through a table what it adds to upper and low bits. No
    /// branch depends on the data; three times as fast as member by member.
    #[inline(always)]
    fn write_by_bytes<const AT_ONCE: usize>(&mut self, bits: &ChunkBits, ranks: u64, low: u64, tables: [&Pieces; 2]) {
        let first = 16 * samples(buckets(ranks, low));
        let (mut upper, mut lower) = (Writer::new(first), Writer::new(0));
        let mut low_words = [0; BODY_WORDS];
        let mut stored_samples = 0;
        let sample_every = SAMPLE_EVERY << low;
        for (&word, start) in bits.iter().zip((0_u64..ranks).step_by(64)) {
            if start > 0 && start % sample_every == 0 {
                stored_samples |= (upper.bits() - first) << (16 * (start / sample_every - 1));
            }
            let bytes = word.to_le_bytes();
            for few in bytes.as_chunks::<AT_ONCE>().0 {
                let (mut up, mut up_bits, mut down, mut down_bits) = (0, 0, 0, 0);
                for place in 0..AT_ONCE {
                    let piece = tables[place % 2][usize::from(few[place])];
                    up |= u64::from(piece.upper) << up_bits;
                    down |= u64::from(piece.lower) << (down_bits & 63);
                    up_bits += u64::from(piece.upper_bits);
                    down_bits += u64::from(piece.lower_bits);
                }
                upper.put(&mut self.words, up, up_bits);
                lower.put(&mut low_words, down, down_bits);
            }
        }
        upper.finish(&mut self.words);
        lower.finish(&mut low_words);
        self.words[0] |= stored_samples;
        // Ranks that fill up the last word make buckets that are not stored; behind the last that is stored begin the low bits.
        let (lower_bits, all) = (lower.bits(), self.bits);
        self.append(all - lower_bits, &low_words, lower_bits);
    }

    /// Puts bits at bit `at`, whatever was there and behind.
    #[inline(always)]
    fn append(&mut self, at: u64, from: &[u64; BODY_WORDS], bits: u64) {
        let (place, shift) = (index(at / 64), at % 64);
        let mut carry = self.words[place] & low_mask(shift);
        for (to, &word) in self.words[place..].iter_mut().zip(&from[..=index(bits.div_ceil(64))]) {
            *to = carry | word << shift;
            carry = if shift == 0 { 0 } else { word >> (64 - shift) };
        }
    }
}

/// Writes a run of bits through a register.
struct Writer {
    word: u64,
    at: usize,
    fill: u64,
}

impl Writer {
    #[inline(always)]
    fn new(first: u64) -> Self {
        Writer { word: 0, at: index(first / 64), fill: first % 64 }
    }

    #[inline(always)]
    fn bits(&self) -> u64 {
        wide(self.at) * 64 + self.fill
    }

    /// Adds `bits` bits, at most 64. `value` has no others.
    #[inline(always)]
    fn put(&mut self, out: &mut [u64; BODY_WORDS], value: u64, bits: u64) {
        self.word |= value << self.fill;
        out[self.at % BODY_WORDS] = self.word;
        let over = value >> 1 >> (63 - self.fill);
        self.fill += bits;
        let full = self.fill >= 64;
        self.word = if full { over } else { self.word };
        self.at += usize::from(full);
        self.fill %= 64;
    }

    #[inline(always)]
    fn finish(&mut self, out: &mut [u64; BODY_WORDS]) {
        out[self.at % BODY_WORDS] = self.word;
        out[(self.at + 1) % BODY_WORDS] = 0;
    }
}

/// What one byte of a bitmap adds to a list.
#[derive(Clone, Copy)]
struct Piece {
    lower: u32,
    upper: u16,
    lower_bits: u8,
    upper_bits: u8,
}

type Pieces = [Piece; 256];

/// The pieces of every byte for two, three and four low bits; for four those of even and of odd bytes, which share a bucket.
static PIECES: [Pieces; 4] = [pieces(2, 0), pieces(3, 0), pieces(4, 0), pieces(4, 8)];

/// The pieces of bytes whose first rank is `first` in its bucket of 2^`low` ranks.
const fn pieces(low: u8, first: u32) -> Pieces {
    let mut table = [Piece { lower: 0, upper: 0, lower_bits: 0, upper_bits: 0 }; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut piece = table[byte];
        let mut bit = 0;
        while bit < 8 {
            let place = (first + bit) % (1 << low);
            if byte >> bit & 1 == 1 {
                piece.lower |= place << piece.lower_bits;
                piece.lower_bits += low;
                piece.upper |= 1 << piece.upper_bits;
                piece.upper_bits += 1;
            }
            if place + 1 == 1 << low {
                piece.upper_bits += 1;
            }
            bit += 1;
        }
        table[byte] = piece;
        byte += 1;
    }
    table
}
