//! One chunk, read in place: find, select, decode. Nothing here trusts the bytes: every read is bounded, every loop ends.

use super::bits::{bits_from, half, index, low_mask, ones, run_of_ones, select_in_word, word};
use super::layout::{CHUNK_LOG, COUNT_EVERY, ChunkBits, Kind, SAMPLE_EVERY, buckets, counts, samples};
use super::prefetch::prefetch;

/// Buckets longer than this are searched by halving. A bucket holds at most min(2^low, members) <= 64 keys where the file is sound.
const SHORT_BUCKET: u64 = 8;

/// A chunk of a set.
#[derive(Clone, Copy)]
pub(super) struct Chunk<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) kind: Kind,
    /// Ranks in the chunk: `CHUNK`, or fewer in the last one.
    pub(super) ranks: u64,
    /// Keys in the chunk.
    pub(super) keys: u64,
    /// Keys of the set before the chunk.
    pub(super) before: u64,
    /// Byte at which the body begins, never past the end.
    pub(super) body: u64,
}

impl<'a> Chunk<'a> {
    /// Number of keys below `x` in this chunk, and whether `x` is one. `x` is relative to the chunk and below `ranks`.
    #[inline(always)]
    pub(super) fn find(&self, x: u64) -> (u64, bool) {
        match self.kind {
            Kind::Empty => (0, false),
            Kind::Full => (x, true),
            Kind::Bitmap => self.find_in_bitmap(x),
            Kind::Keys(low) => EliasFano::new(self, self.keys, low).find(x),
            Kind::Gaps(low) => {
                let (gaps, is_gap) = EliasFano::new(self, self.ranks.saturating_sub(self.keys), low).find(x);
                (x.saturating_sub(gaps), !is_gap)
            }
        }
    }

    /// Asks for the cache lines that `find(x)` will read. Where exactly is not known before reading; in a chunk whose keys are spread
    /// evenly the guess is right, else `find` waits for a line or two.
    #[inline(always)]
    pub(super) fn prefetch(&self, x: u64) {
        match self.kind {
            Kind::Empty | Kind::Full => {}
            Kind::Bitmap => {
                let bits = self.body + 2 * counts(self.ranks);
                prefetch(self.bytes, self.body);
                prefetch(self.bytes, bits + (x / COUNT_EVERY * COUNT_EVERY) / 8);
                prefetch(self.bytes, bits + x / 8);
            }
            Kind::Keys(low) => EliasFano::new(self, self.keys, low).prefetch(x),
            Kind::Gaps(low) => EliasFano::new(self, self.ranks.saturating_sub(self.keys), low).prefetch(x),
        }
    }

    /// The key that has `i` keys of this chunk below it.
    pub(super) fn select(&self, i: u64) -> u64 {
        match self.kind {
            Kind::Empty | Kind::Full => i,
            Kind::Keys(low) => EliasFano::new(self, self.keys, low).select(i),
            // Ranks that are not keys do not tell where the i-th key is: look at all of them. Such chunks are rare.
            Kind::Bitmap | Kind::Gaps(_) => {
                let mut left = i;
                for (&word, start) in self.decode().iter().zip((0_u64..).step_by(64)) {
                    let here = ones(word);
                    if left < here {
                        return start + select_in_word(word, left);
                    }
                    left -= here;
                }
                0
            }
        }
    }

    /// The chunk as a bitmap.
    pub(super) fn decode(&self) -> ChunkBits {
        let mut out = [0; 64];
        let all = |start: u64| low_mask(self.ranks.saturating_sub(start));
        match self.kind {
            Kind::Empty => {}
            Kind::Full => {
                for (word, start) in out.iter_mut().zip((0_u64..).step_by(64)) {
                    *word = all(start);
                }
            }
            Kind::Bitmap => {
                let bits = self.body + 2 * counts(self.ranks);
                for (to, start) in out.iter_mut().zip((0_u64..).step_by(64)) {
                    *to = word(self.bytes, bits + start / 8) & all(start);
                }
            }
            Kind::Keys(low) => EliasFano::new(self, self.keys, low).decode(&mut out),
            Kind::Gaps(low) => {
                EliasFano::new(self, self.ranks.saturating_sub(self.keys), low).decode(&mut out);
                for (word, start) in out.iter_mut().zip((0_u64..).step_by(64)) {
                    *word = !*word & all(start);
                }
            }
        }
        out
    }

    #[inline(always)]
    fn find_in_bitmap(&self, x: u64) -> (u64, bool) {
        let bits = self.body + 2 * counts(self.ranks);
        let stretch = x / COUNT_EVERY;
        let mut rank = if stretch == 0 { 0 } else { half(self.bytes, self.body + 2 * (stretch - 1)) };
        let mut at = bits + stretch * (COUNT_EVERY / 8);
        let last = bits + (x / 64) * 8;
        while at < last {
            rank += ones(word(self.bytes, at));
            at += 8;
        }
        let here = word(self.bytes, last);
        (rank + ones(here & low_mask(x % 64)), here >> (x % 64) & 1 == 1)
    }
}

/// The body of an Elias-Fano chunk: samples, upper bits in unary, low bits.
struct EliasFano<'a> {
    bytes: &'a [u8],
    ranks: u64,
    members: u64,
    low: u64,
    /// Byte of the first sample.
    samples: u64,
    /// Bit at which the upper bits begin.
    upper: u64,
    /// Bit at which the low bits begin.
    lower: u64,
}

impl<'a> EliasFano<'a> {
    #[inline(always)]
    fn new(chunk: &Chunk<'a>, members: u64, low: u64) -> Self {
        let buckets = buckets(chunk.ranks, low);
        let upper = (chunk.body + 2 * samples(buckets)) * 8;
        let lower = upper + members + buckets;
        EliasFano { bytes: chunk.bytes, ranks: chunk.ranks, members, low, samples: chunk.body, upper, lower }
    }

    /// Start of the bucket with `number` times `SAMPLE_EVERY` buckets before it, in bits from `upper`.
    #[inline(always)]
    fn sample(&self, number: u64) -> u64 {
        if number == 0 { 0 } else { half(self.bytes, self.samples + 2 * (number - 1)) }
    }

    #[inline(always)]
    fn low_bits(&self, i: u64) -> u64 {
        bits_from(self.bytes, self.lower + i * self.low) & low_mask(self.low)
    }

    /// Bit at which a bucket begins: past as many zeros as there are buckets before it.
    #[inline(always)]
    fn bucket(&self, bucket: u64) -> u64 {
        let from = self.upper + self.sample(bucket / SAMPLE_EVERY);
        let mut need = bucket % SAMPLE_EVERY;
        if need == 0 {
            return from;
        }
        let mut byte = from >> 3;
        let mut zeros = !word(self.bytes, byte) & (u64::MAX << (from & 7));
        loop {
            let here = ones(zeros);
            if here >= need {
                return byte * 8 + select_in_word(zeros, need - 1) + 1;
            }
            if byte * 8 >= self.lower {
                return self.lower;
            }
            need -= here;
            byte += 8;
            zeros = !word(self.bytes, byte);
        }
    }

    /// Number of members below `x`, and whether `x` is one.
    #[inline(always)]
    fn find(&self, x: u64) -> (u64, bool) {
        let bucket = x >> self.low;
        let start = self.bucket(bucket);
        let first = (start - self.upper).saturating_sub(bucket).min(self.members);
        let length = run_of_ones(self.bytes, start, self.members - first).min(self.members - first);
        let wanted = x & low_mask(self.low);
        let end = first + length;
        let mut i = first;
        if length > SHORT_BUCKET {
            let mut size = length;
            while size > SHORT_BUCKET {
                let half = size / 2;
                i = if self.low_bits(i + half) < wanted { i + half } else { i };
                size -= half;
            }
        }
        while i < end {
            let low = self.low_bits(i);
            if low >= wanted {
                return (i, low == wanted);
            }
            i += 1;
        }
        (i, false)
    }

    #[inline(always)]
    fn prefetch(&self, x: u64) {
        let guess = (self.members * x) >> CHUNK_LOG;
        prefetch(self.bytes, self.samples);
        prefetch(self.bytes, (self.upper + (x >> self.low) + guess) >> 3);
        prefetch(self.bytes, (self.lower + guess * self.low) >> 3);
    }

    fn select(&self, i: u64) -> u64 {
        let mut number = samples(buckets(self.ranks, self.low));
        let before = |number: u64| self.sample(number).saturating_sub(number * SAMPLE_EVERY);
        while before(number) > i {
            number -= 1;
        }
        let mut need = i - before(number);
        let from = self.upper + self.sample(number);
        let mut byte = from >> 3;
        let mut here = word(self.bytes, byte) & (u64::MAX << (from & 7));
        while ones(here) <= need {
            if byte * 8 >= self.lower {
                return 0;
            }
            need -= ones(here);
            byte += 8;
            here = word(self.bytes, byte);
        }
        let bucket = (byte * 8 + select_in_word(here, need) - self.upper).saturating_sub(i);
        bucket << self.low | self.low_bits(i)
    }

    fn decode(&self, out: &mut ChunkBits) {
        let (mut i, mut at) = (0, self.upper);
        while at < self.lower && i < self.members {
            let mut upper = bits_from(self.bytes, at) & low_mask(56.min(self.lower - at));
            while upper != 0 && i < self.members {
                let bucket = (at + u64::from(upper.trailing_zeros()) - self.upper).saturating_sub(i);
                let x = bucket << self.low | self.low_bits(i);
                if x < self.ranks {
                    out[index(x / 64)] |= 1 << (x % 64);
                }
                upper &= upper - 1;
                i += 1;
            }
            at += 56;
        }
    }
}
