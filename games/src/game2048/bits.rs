//! Sets of places as bits: one that many threads fill, the part of one that a thread fills alone, and one that counts.

use crate::array::{Array, Releaser};
use crate::keys::Bitmap;
use crate::space::TaskError;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The lowest `n` of 128 bits.
#[inline(always)]
pub fn low_bits(n: u32) -> u128 {
    if n >= 128 { u128::MAX } else { (1 << n) - 1 }
}

/// `n` bits (at most 66) of a set from a place on, given its words; beyond the last there is nothing.
#[inline(always)]
pub fn read_bits(words: &[u64], start: u64, n: u32) -> u128 {
    let (at, shift) = ((start >> 6) as usize, (start & 63) as u32);
    let three = match words.get(at..at + 3) {
        Some(&[a, b, c]) => [a, b, c],
        _ => near_the_end(words, at),
    };
    joined(three, shift, n)
}

/// `n` bits of three words from one of the first on.
#[inline(always)]
fn joined([a, b, c]: [u64; 3], shift: u32, n: u32) -> u128 {
    let mut bits = (u128::from(a) | u128::from(b) << 64) >> shift;
    if shift + n > 128 {
        bits |= u128::from(c) << (128 - shift);
    }
    bits & low_bits(n)
}

#[cold]
fn near_the_end(words: &[u64], at: usize) -> [u64; 3] {
    [0, 1, 2].map(|more| words.get(at + more).copied().unwrap_or(0))
}

/// The numbers of the bits that are set, ascending.
#[derive(Clone)]
pub struct Ones {
    word: u64,
    high: u64,
    from: u32,
}

/// The numbers of the bits that are set, ascending.
#[inline(always)]
pub fn ones(bits: u128) -> Ones {
    Ones { word: bits as u64, high: (bits >> 64) as u64, from: 0 }
}

impl Iterator for Ones {
    type Item = u32;

    #[inline(always)]
    fn next(&mut self) -> Option<u32> {
        if self.word == 0 {
            if self.high == 0 {
                return None;
            }
            (self.word, self.high, self.from) = (self.high, 0, 64);
        }
        let number = self.from + self.word.trailing_zeros();
        self.word &= self.word - 1;
        Some(number)
    }
}

/// The places whose bits are set in some words.
pub struct Places<W> {
    word: W,
    at: usize,
    end: usize,
    rest: u64,
    range: Range<u64>,
}

/// The places of a range whose bits are set, ascending.
#[inline(always)]
pub fn places<W: Fn(usize) -> u64>(word: W, range: Range<u64>) -> Places<W> {
    let (at, end) = ((range.start >> 6) as usize, range.end.div_ceil(64) as usize);
    let mut places = Places { word, at, end, rest: 0, range };
    if at < end {
        places.rest = places.masked(at);
    }
    places
}

impl<W: Fn(usize) -> u64> Places<W> {
    #[inline(always)]
    fn masked(&self, at: usize) -> u64 {
        let start = (at as u64) << 6;
        let mut bits = (self.word)(at);
        if start < self.range.start {
            bits &= u64::MAX << (self.range.start - start);
        }
        if self.range.end - start < 64 {
            bits &= (1 << (self.range.end - start)) - 1;
        }
        bits
    }
}

impl<W: Fn(usize) -> u64> Iterator for Places<W> {
    type Item = u64;

    #[inline(always)]
    fn next(&mut self) -> Option<u64> {
        while self.rest == 0 {
            self.at += 1;
            if self.at >= self.end {
                return None;
            }
            self.rest = self.masked(self.at);
        }
        let place = (self.at as u64) << 6 | u64::from(self.rest.trailing_zeros());
        self.rest &= self.rest - 1;
        Some(place)
    }
}

/// The part of a set that one block covers, filled by one thread.
#[derive(Default)]
pub struct BlockBits {
    words: Vec<u64>,
    first_word: usize,
}

impl BlockBits {
    /// Empties it, to cover these places.
    pub fn reset(&mut self, places: &Range<u64>) {
        self.first_word = (places.start >> 6) as usize;
        let words = (places.end.div_ceil(64) as usize).saturating_sub(self.first_word);
        self.words.clear();
        // One more than the last place needs, so that runs of bits are written without looking.
        self.words.resize(words + 2, 0);
    }

    /// Puts a place in.
    #[inline(always)]
    pub fn insert(&mut self, place: u64) {
        self.words[(place >> 6) as usize - self.first_word] |= 1 << (place & 63);
    }

    /// Puts in the places from `start` on whose bits are set.
    #[inline(always)]
    pub fn insert_bits(&mut self, start: u64, bits: u128) {
        let (at, shift) = ((start >> 6) as usize - self.first_word, (start & 63) as u32);
        let low = bits << shift;
        let words = &mut self.words[at..at + 2];
        words[0] |= low as u64;
        words[1] |= (low >> 64) as u64;
        if shift > 0 {
            let high = (bits >> (128 - shift)) as u64;
            if high != 0 {
                self.words[at + 2] |= high;
            }
        }
    }

    /// `n` bits from a place on.
    #[inline(always)]
    pub fn read(&self, start: u64, n: u32) -> u128 {
        read_bits(&self.words, start - ((self.first_word as u64) << 6), n)
    }

    /// Words that are not 0, with their numbers in the whole set.
    pub fn words(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.words.iter().enumerate().filter(|&(_, &word)| word != 0).map(|(i, &word)| (self.first_word + i, word))
    }
}

/// A set under construction, or the part of it that a window covers. Insertion is one OR, so threads may fill it in any order and twice.
#[derive(Clone, Copy)]
pub struct AtomicBits<'a> {
    words: &'a [AtomicU64],
    first: usize,
}

impl<'a> AtomicBits<'a> {
    /// Over words of which the first is number `first` of the set.
    pub fn over(words: &'a mut [u64], first: usize) -> Self {
        Self { words: super::lanes::as_atomic(words), first }
    }

    /// Puts a place in. Most come more than once, so the locked OR is done only for those that are not in yet.
    #[inline(always)]
    pub fn insert(&self, place: u64) {
        self.or((place >> 6) as usize, 1 << (place & 63));
    }

    #[inline(always)]
    fn or(&self, at: usize, bits: u64) {
        if let Some(word) = self.words.get(at.wrapping_sub(self.first))
            && word.load(Relaxed) & bits != bits
        {
            word.fetch_or(bits, Relaxed);
        }
    }

    /// Puts in what one thread collected for a block.
    pub fn insert_block(&self, block: &BlockBits) {
        block.words().for_each(|(at, bits)| self.or(at, bits));
    }

    /// Asks for the memory of a place.
    #[inline(always)]
    pub fn prefetch(&self, place: u64) {
        super::lanes::prefetch(self.words, ((place >> 6) as usize).wrapping_sub(self.first));
    }

    /// The places that are covered; others are not put in.
    pub fn places(&self) -> Range<u64> {
        (self.first as u64) << 6..((self.first + self.words.len()) as u64) << 6
    }
}

/// 64 places: which of them are in the set, and how many are before them. One cache line answers a look-up.
#[derive(Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct Record {
    bits: u64,
    before: u64,
}

/// A finished set that gives each of its places a number.
#[derive(Default)]
pub struct RankedBits {
    records: Array<Record>,
    count: u64,
}

impl RankedBits {
    /// A set without members, over so many words that are still to be told: `records` are as many zeros.
    pub fn begin(words: usize, records: impl FnOnce(usize) -> Result<Array<Record>, TaskError>) -> Result<Self, TaskError> {
        Ok(Self { records: records(words)?, count: 0 })
    }

    /// Tells the next words, which begin with word `first`.
    pub fn tell(&mut self, first: usize, words: &[u64]) {
        const PIECE: usize = 1 << 13;
        // How many there are before each piece first, so that the pieces can be filled at the same time.
        let counts: Vec<u64> =
            words.par_chunks(PIECE).map(|piece| piece.iter().map(|bits| u64::from(bits.count_ones())).sum()).collect();
        let before = counts.iter().scan(self.count, |sum, count| Some(std::mem::replace(sum, *sum + count)));
        let pieces: Vec<_> = words.chunks(PIECE).zip(self.records[first..].chunks_mut(PIECE)).zip(before).collect();
        pieces.into_par_iter().for_each(|((words, records), mut before)| {
            for (record, &bits) in records.iter_mut().zip(words) {
                *record = Record { bits, before };
                before += u64::from(bits.count_ones());
            }
        });
        self.count += counts.iter().sum::<u64>();
    }

    /// The set, for look-ups.
    pub fn view(&self) -> Ranked<'_> {
        Ranked { records: &self.records, count: self.count }
    }

    /// Number of places in the set.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> u64 {
        size_of_val(&*self.records) as u64
    }

    /// Number of 64-place words.
    pub fn words(&self) -> usize {
        self.records.len()
    }

    /// For saying that the set will not be used for a while.
    pub fn releaser(&self) -> Releaser {
        self.records.releaser()
    }
}

/// A finished set, at hand for look-ups.
#[derive(Clone, Copy)]
pub struct Ranked<'a> {
    records: &'a [Record],
    count: u64,
}

impl<'a> Ranked<'a> {
    /// How many of the set are before a place, which may be the one after the last.
    #[inline(always)]
    pub fn before(self, place: u64) -> u64 {
        match self.records.get((place >> 6) as usize) {
            Some(record) => record.before + u64::from((record.bits & ((1 << (place & 63)) - 1)).count_ones()),
            None => self.count,
        }
    }

    /// Copies the bits, 64 places a word.
    pub fn copy_words(self, to: &mut [u64]) {
        to.iter_mut().zip(self.records).for_each(|(word, record)| *word = record.bits);
    }

    /// The part of the set that covers a run of places, of which the first is that of a word.
    pub fn part(self, run: &Range<u64>) -> Bitmap {
        debug_assert!(run.start.is_multiple_of(64));
        let mut part = Bitmap::new(run.end - run.start);
        let first = ((run.start >> 6) as usize).min(self.records.len());
        part.words_mut().iter_mut().zip(&self.records[first..]).for_each(|(word, record)| *word = record.bits);
        // The next part has the rest of the last word.
        let rest = run.end & 63;
        if let Some(last) = part.words_mut().last_mut().filter(|_| rest > 0) {
            *last &= (1 << rest) - 1;
        }
        part
    }

    /// The numbers of the set's members in a range of places.
    pub fn numbers(self, places: &Range<u64>) -> Range<usize> {
        self.before(places.start) as usize..self.before(places.end) as usize
    }

    /// `n` bits from a place on.
    #[inline(always)]
    pub fn read(self, start: u64, n: u32) -> u128 {
        let (at, shift) = ((start >> 6) as usize, (start & 63) as u32);
        let three = match self.records.get(at..at + 3) {
            Some([a, b, c]) => [a.bits, b.bits, c.bits],
            _ => [0, 1, 2].map(|more| self.records.get(at + more).map_or(0, |record| record.bits)),
        };
        joined(three, shift, n)
    }

    /// The number of a place among those of the set. It must be in.
    #[inline(always)]
    pub fn find(self, place: u64) -> usize {
        let record = self.records[(place >> 6) as usize];
        let bit = 1u64 << (place & 63);
        debug_assert!(record.bits & bit != 0, "place {place} is not in the set");
        (record.before + u64::from((record.bits & (bit - 1)).count_ones())) as usize
    }

    /// Asks for the memory of a place.
    #[inline(always)]
    pub fn prefetch(self, place: u64) {
        super::lanes::prefetch(self.records, (place >> 6) as usize);
    }

    /// The places of a range that are in the set, ascending.
    #[inline(always)]
    pub fn places(self, range: Range<u64>) -> Places<impl Fn(usize) -> u64> {
        places(move |at| self.records.get(at).map_or(0, |record| record.bits), range)
    }
}

/// A stripe of a ranked set, at hand: its bits, and the number of its first member.
#[derive(Clone, Copy)]
pub struct RankedStripe {
    low: u64,
    high: u64,
    before: usize,
    below_high: usize,
}

impl RankedStripe {
    /// The stripe of `n` places from `start` on.
    #[inline(always)]
    pub fn of(set: Ranked<'_>, start: u64, n: u32) -> Self {
        let bits = set.read(start, n);
        let before = set.before(start) as usize;
        let low = bits as u64;
        Self { low, high: (bits >> 64) as u64, before, below_high: before + low.count_ones() as usize }
    }

    /// The number of a member of the set.
    #[inline(always)]
    pub fn find(&self, number: u32) -> usize {
        if number < 64 {
            debug_assert!(self.low >> number & 1 == 1, "number {number} is not in the stripe");
            self.before + (self.low & ((1 << number) - 1)).count_ones() as usize
        } else {
            debug_assert!(self.high >> (number - 64) & 1 == 1, "number {number} is not in the stripe");
            self.below_high + (self.high & ((1 << (number - 64)) - 1)).count_ones() as usize
        }
    }
}
