//! One chunk, read in place: find, select, decode. Nothing here trusts the bytes: every read is bounded, every loop ends.

use super::bits::{Careful, Source, Window, first_bits, index, low_mask, ones, select_in_word};
use super::layout::{CHUNK_LOG, CHUNK_WORDS, COUNT_EVERY, ChunkBits, Kind, SAMPLE_EVERY, buckets, counts, samples};
use super::prefetch::prefetch;

/// Buckets of up to so many members are searched at once: their low bits, at most 12 each, come with one load of 57 bits.
const SHORT_BUCKET: u64 = 4;

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
    /// Byte at which the body begins; past the end where the file is damaged.
    pub(super) body: u64,
}

impl<'a> Chunk<'a> {
    /// Number of keys below `x` in this chunk, and whether `x` is one. `x` is relative to the chunk and below `ranks`.
    #[inline(always)]
    pub(super) fn find(&self, x: u64) -> (u64, bool) {
        match Window::at(self.bytes, self.body) {
            Some(window) => self.find_in(window, x),
            None => self.find_near_the_end(x),
        }
    }

    #[inline(never)]
    fn find_near_the_end(&self, x: u64) -> (u64, bool) {
        self.find_in(self.careful(), x)
    }

    #[inline(always)]
    fn find_in<S: Source>(&self, body: S, x: u64) -> (u64, bool) {
        match self.kind {
            Kind::Empty => (0, false),
            Kind::Full => (x, true),
            Kind::Bitmap => self.find_in_bitmap(body, x),
            Kind::Keys(low) => List::new(self.ranks, self.keys, low).find(body, x),
            Kind::Gaps(low) => {
                let (gaps, is_gap) = List::new(self.ranks, self.gaps(), low).find(body, x);
                (x.saturating_sub(gaps), !is_gap)
            }
        }
    }

    #[inline(always)]
    fn find_in_bitmap<S: Source>(&self, body: S, x: u64) -> (u64, bool) {
        let bits = 2 * counts(self.ranks);
        let stretch = x / COUNT_EVERY;
        let mut rank = if stretch == 0 { 0 } else { body.half(2 * (stretch - 1)) };
        let last = bits + (x / 64) * 8;
        let mut at = bits + stretch * (COUNT_EVERY / 8);
        while at < last {
            rank += ones(body.word(at));
            at += 8;
        }
        let here = body.word(last);
        (rank + ones(here & low_mask(x % 64)), here >> (x % 64) & 1 == 1)
    }

    /// Asks for the cache lines that `find(x)` will read. Where exactly is not known before reading; in a chunk whose keys are spread
    /// evenly the guess is right, else `find` waits for a line or two.
    #[inline(always)]
    pub(super) fn prefetch(&self, x: u64) {
        let members = match self.kind {
            Kind::Empty | Kind::Full => return,
            Kind::Bitmap => {
                let bits = self.body.wrapping_add(2 * counts(self.ranks));
                prefetch(self.bytes, self.body);
                prefetch(self.bytes, bits.wrapping_add(x / COUNT_EVERY * (COUNT_EVERY / 8)));
                prefetch(self.bytes, bits.wrapping_add(x / 8));
                return;
            }
            Kind::Keys(_) => self.keys,
            Kind::Gaps(_) => self.gaps(),
        };
        let list = List::new(self.ranks, members, self.kind.low());
        let guess = (members * x) >> CHUNK_LOG;
        prefetch(self.bytes, self.body);
        prefetch(self.bytes, self.body.wrapping_add((list.upper + (x >> list.low) + guess) / 8));
        prefetch(self.bytes, self.body.wrapping_add((list.lower + guess * list.low) / 8));
    }

    /// The key that has `i` keys of this chunk below it.
    #[inline(always)]
    pub(super) fn select(&self, i: u64) -> u64 {
        match self.kind {
            Kind::Empty | Kind::Full => i,
            Kind::Keys(low) => List::new(self.ranks, self.keys, low).select(self.careful(), i),
            // The key is the last rank that has no more than i keys below it.
            Kind::Bitmap | Kind::Gaps(_) => {
                let (mut key, mut end) = (0, self.ranks);
                while end - key > 1 {
                    let middle = (key + end) / 2;
                    (key, end) = if self.find(middle).0 <= i { (middle, end) } else { (key, middle) };
                }
                key
            }
        }
    }

    /// The chunk as a bitmap.
    pub(super) fn decode(&self) -> ChunkBits {
        let mut out = [0; CHUNK_WORDS];
        match Window::at(self.bytes, self.body) {
            Some(window) => self.decode_from(window, &mut out),
            None => self.decode_from(self.careful(), &mut out),
        }
        out
    }

    fn decode_from<S: Source>(&self, body: S, out: &mut ChunkBits) {
        let words = || (0_u64..).step_by(64);
        match self.kind {
            Kind::Empty => {}
            Kind::Full => *out = [u64::MAX; CHUNK_WORDS],
            Kind::Bitmap => {
                let bits = 2 * counts(self.ranks);
                out.iter_mut().zip(words()).for_each(|(to, start)| *to = body.word(bits + start / 8));
            }
            Kind::Keys(low) => List::new(self.ranks, self.keys, low).decode(body, out),
            Kind::Gaps(low) => {
                List::new(self.ranks, self.gaps(), low).decode(body, out);
                out.iter_mut().for_each(|word| *word = !*word);
            }
        }
        out.iter_mut().zip(words()).for_each(|(word, start)| *word &= first_bits(self.ranks.saturating_sub(start)));
    }

    fn careful(&self) -> Careful<'a> {
        Careful(self.bytes.get(index(self.body)..).unwrap_or_default())
    }

    #[inline(always)]
    fn gaps(&self) -> u64 {
        self.ranks.saturating_sub(self.keys)
    }
}

/// Where things are in the body of an Elias-Fano chunk: samples from its start, then upper bits, then low bits.
#[derive(Clone, Copy)]
struct List {
    ranks: u64,
    members: u64,
    low: u64,
    /// Bit of the body at which the upper bits begin.
    upper: u64,
    /// Bit of the body at which the low bits begin.
    lower: u64,
}

impl List {
    #[inline(always)]
    fn new(ranks: u64, members: u64, low: u64) -> Self {
        let buckets = buckets(ranks, low);
        let upper = 16 * samples(buckets);
        List { ranks, members, low, upper, lower: upper + members + buckets }
    }

    /// Start of the bucket with `number` times `SAMPLE_EVERY` buckets before it, in bits from `upper`.
    #[inline(always)]
    fn sample<S: Source>(&self, body: S, number: u64) -> u64 {
        if number == 0 { 0 } else { body.half(2 * (number - 1)) }
    }

    #[inline(always)]
    fn low_bits<S: Source>(&self, body: S, i: u64) -> u64 {
        body.bits_from(self.lower + i * self.low) & low_mask(self.low)
    }

    /// Bit at which a bucket begins: past as many zeros as there are buckets before it.
    #[inline(always)]
    fn bucket<S: Source>(&self, body: S, bucket: u64) -> u64 {
        let from = self.upper + self.sample(body, bucket / SAMPLE_EVERY);
        let mut need = bucket % SAMPLE_EVERY;
        if need == 0 {
            return from;
        }
        let mut byte = from >> 3;
        let mut zeros = !body.word(byte) & (u64::MAX << (from & 7));
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
            zeros = !body.word(byte);
        }
    }

    /// Number of members below `x`, and whether `x` is one.
    #[inline(always)]
    fn find<S: Source>(&self, body: S, x: u64) -> (u64, bool) {
        let bucket = x >> self.low;
        let start = self.bucket(body, bucket);
        let first = (start - self.upper).saturating_sub(bucket).min(self.members);
        let length = body.run_of_ones(start, self.members - first).min(self.members - first);
        let wanted = x & low_mask(self.low);
        if length > SHORT_BUCKET {
            return self.find_in_long_bucket(body, first, length, wanted);
        }
        // One load, and no branch to guess wrong: all of a short bucket is compared, what follows it made larger than anything.
        let packed = body.bits_from(self.lower + first * self.low) | u64::MAX << (length * self.low);
        let field = |k: u64| packed >> (k * self.low) & low_mask(self.low);
        let below = (0..SHORT_BUCKET).map(|k| u64::from(field(k) < wanted)).sum::<u64>();
        (first + below, (below < length) & (field(below) == wanted))
    }

    /// By halving: a bucket holds at most min(2^low, members) <= 64 members where the file is sound.
    fn find_in_long_bucket<S: Source>(&self, body: S, first: u64, length: u64, wanted: u64) -> (u64, bool) {
        let (mut i, mut end) = (first, first + length);
        while i < end {
            let middle = (i + end) / 2;
            (i, end) = if self.low_bits(body, middle) < wanted { (middle + 1, end) } else { (i, middle) };
        }
        (i, i < first + length && self.low_bits(body, i) == wanted)
    }

    #[inline(always)]
    fn select<S: Source>(&self, body: S, i: u64) -> u64 {
        let before = |number: u64| self.sample(body, number).saturating_sub(number * SAMPLE_EVERY);
        let mut number = samples(buckets(self.ranks, self.low));
        while before(number) > i {
            number -= 1;
        }
        let mut need = i - before(number);
        let from = self.upper + self.sample(body, number);
        let mut byte = from >> 3;
        let mut here = body.word(byte) & (u64::MAX << (from & 7));
        while ones(here) <= need {
            if byte * 8 >= self.lower {
                return 0;
            }
            need -= ones(here);
            byte += 8;
            here = body.word(byte);
        }
        let bucket = (byte * 8 + select_in_word(here, need) - self.upper).saturating_sub(i);
        bucket << self.low | self.low_bits(body, i)
    }

    fn decode<S: Source>(&self, body: S, out: &mut ChunkBits) {
        let (mut i, mut at) = (0, self.upper);
        while at < self.lower && i < self.members {
            let mut upper = body.bits_from(at) & low_mask(56.min(self.lower - at));
            while upper != 0 && i < self.members {
                let bucket = (at + u64::from(upper.trailing_zeros()) - self.upper).saturating_sub(i);
                let x = bucket << self.low | self.low_bits(body, i);
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
