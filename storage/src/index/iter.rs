//! Going through a set in order, a chunk at a time.

use super::View;
use super::bits::{first_bits, index, low_mask};
use super::layout::{CHUNK, CHUNK_WORDS, ChunkBits};
use std::iter::FusedIterator;

/// The keys of a set in ascending order. Each chunk is decoded once, into 512 bytes on the stack.
#[derive(Clone)]
pub struct Iter<'a> {
    set: View<'a>,
    bits: ChunkBits,
    /// The next word of `bits` to look at.
    word: usize,
    /// What is left of the word before it, and its first rank.
    rest: u64,
    start: u64,
    next_chunk: u64,
    /// Where to stop.
    end: u64,
}

impl<'a> Iter<'a> {
    pub(super) fn new(set: View<'a>, from: u64, to: u64) -> Self {
        let end = to.min(set.universe());
        let from = from.min(end);
        let mut iter = Iter { set, bits: [0; CHUNK_WORDS], word: CHUNK_WORDS, rest: 0, start: 0, next_chunk: from / CHUNK, end };
        if iter.load() {
            iter.word = index(from % CHUNK / 64);
            iter.bits[iter.word] &= !low_mask(from % 64);
        }
        iter
    }

    /// Decodes the next chunk that begins before the end, leaving out what lies past it.
    fn load(&mut self) -> bool {
        let first = self.next_chunk * CHUNK;
        if first >= self.end {
            return false;
        }
        self.bits = self.set.chunk(self.next_chunk).decode();
        if self.end - first < CHUNK {
            for (word, start) in self.bits.iter_mut().zip((first..).step_by(64)) {
                *word &= first_bits(self.end.saturating_sub(start));
            }
        }
        self.word = 0;
        self.next_chunk += 1;
        true
    }
}

impl Iterator for Iter<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        while self.rest == 0 {
            if let Some(&word) = self.bits.get(self.word) {
                self.rest = word;
                self.start = (self.next_chunk - 1) * CHUNK + 64 * self.word as u64;
                self.word += 1;
            } else if !self.load() {
                return None;
            }
        }
        let key = self.start + u64::from(self.rest.trailing_zeros());
        self.rest &= self.rest - 1;
        Some(key)
    }
}

impl FusedIterator for Iter<'_> {}
