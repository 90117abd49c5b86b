//! Sets of ranks as bitmaps: one that many threads fill, and one that counts.

use crate::keys::Bitmap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A set under construction. Insertion is one OR, so threads may fill it in any order and twice.
pub struct AtomicBits {
    words: Vec<AtomicU64>,
    len: u64,
}

impl AtomicBits {
    /// An empty set over `len` ranks.
    pub fn new(len: u64) -> Self {
        Self { words: (0..len.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(), len }
    }

    /// Puts a rank in. Most ranks come more than once, so the locked OR is done only for those that are not in yet.
    #[inline]
    pub fn insert(&self, rank: u64) {
        let (word, bit) = (&self.words[(rank >> 6) as usize], 1 << (rank & 63));
        if word.load(Relaxed) & bit == 0 {
            word.fetch_or(bit, Relaxed);
        }
    }

    /// The finished set.
    pub fn into_bitmap(self) -> Bitmap {
        Bitmap::from_words(self.words.into_iter().map(AtomicU64::into_inner).collect(), self.len)
    }
}

/// 64 ranks: which of them are in the set, and how many are before them. One cache line answers a look-up.
#[derive(Clone, Copy)]
struct Record {
    bits: u64,
    before: u64,
}

/// A finished set that gives each of its ranks a number.
pub struct RankedBits {
    records: Vec<Record>,
    count: u64,
}

impl RankedBits {
    /// Counts a set.
    pub fn new(bitmap: &Bitmap) -> Self {
        let mut count = 0;
        let records = bitmap
            .words()
            .iter()
            .map(|&bits| {
                let before = count;
                count += u64::from(bits.count_ones());
                Record { bits, before }
            })
            .collect();
        Self { records, count }
    }

    /// Number of ranks in the set.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Number of 64-rank words.
    pub fn words(&self) -> usize {
        self.records.len()
    }

    /// How many ranks of the set are in words before this one.
    pub fn before(&self, word: usize) -> u64 {
        self.records.get(word).map_or(self.count, |record| record.before)
    }

    /// The bits of a word.
    #[inline]
    pub fn word(&self, word: usize) -> u64 {
        self.records[word].bits
    }

    /// The number of a rank among those of the set; `None` when it is not in.
    #[inline]
    pub fn find(&self, rank: u64) -> Option<usize> {
        let record = self.records[(rank >> 6) as usize];
        let bit = 1u64 << (rank & 63);
        (record.bits & bit != 0).then(|| (record.before + u64::from((record.bits & (bit - 1)).count_ones())) as usize)
    }
}
