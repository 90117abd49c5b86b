//! Sets of ranks while they are being made: one bit a rank, or a sorted list where the set is sparse.

use crate::array::Array;

/// One bit for every rank of a run; bit 0 of word 0 is the run's first rank.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Bitmap {
    words: Array<u64>,
    len: u64,
}

impl Bitmap {
    /// An empty set over `len` ranks.
    pub fn new(len: u64) -> Self {
        let words = usize::try_from(len.div_ceil(64)).expect("a bitmap fits in memory");
        Self { words: Array::zeroed(words), len }
    }

    /// A set over `len` ranks from its bits, 64 a word, low bit first; bits past `len` must be 0.
    pub fn from_words(words: Array<u64>, len: u64) -> Self {
        debug_assert_eq!(words.len() as u64, len.div_ceil(64));
        Self { words, len }
    }

    /// Number of ranks, in the set or not.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the run has no ranks at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bits, 64 a word, low bit first. Bits past `len` are 0.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The bits, to be set. Bits past `len` must stay 0.
    pub fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }

    /// For saying that the set will not be used for a while.
    pub fn releaser(&self) -> crate::array::Releaser {
        self.words.releaser()
    }

    /// Puts a rank in.
    pub fn insert(&mut self, rank: u64) {
        debug_assert!(rank < self.len, "rank {rank} of {}", self.len);
        self.words[(rank >> 6) as usize] |= 1 << (rank & 63);
    }

    /// Whether a rank is in.
    pub fn contains(&self, rank: u64) -> bool {
        rank < self.len && self.words[(rank >> 6) as usize] >> (rank & 63) & 1 == 1
    }

    /// Number of ranks in the set.
    pub fn count(&self) -> u64 {
        self.words.iter().map(|w| u64::from(w.count_ones())).sum()
    }

    /// The ranks in the set, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.words.iter().enumerate().flat_map(|(i, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                (rest != 0).then(|| {
                    let bit = u64::from(rest.trailing_zeros());
                    rest &= rest - 1;
                    i as u64 * 64 + bit
                })
            })
        })
    }
}

/// The keys of a shard, ascending, relative to the shard's first rank.
#[derive(Clone, Copy, Debug)]
pub enum Keys<'a> {
    /// One bit a rank.
    Bits(&'a Bitmap),
    /// The ranks themselves, strictly ascending.
    Sorted(&'a [u64]),
}
