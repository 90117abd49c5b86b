//! Going through the boards of a set with all threads, in pieces of neighbouring ranks.

use super::bits::RankedBits;
use super::ranks::{Cursor, LayerRanks};
use crate::keys::Bitmap;
use rayon::prelude::*;
use std::ops::Range;

/// Least 64-rank words of a piece: below this a thread spends more time on fetching work than on doing it.
const LEAST_WORDS: usize = 256;
/// Most words of a piece: a layer of the largest boards still falls into thousands.
const MOST_WORDS: usize = 1 << 14;

fn piece_words(words: usize) -> usize {
    (words / (8 * rayon::current_num_threads())).clamp(LEAST_WORDS, MOST_WORDS)
}

/// Calls `f` on every board of the set inside a range of words, in order of rank.
fn boards<const R: usize, const C: usize>(
    ranks: &LayerRanks<R, C>,
    word: impl Fn(usize) -> u64,
    words: Range<usize>,
    mut f: impl FnMut(u64),
) {
    let mut cursor = None;
    for w in words {
        let mut rest = word(w);
        while rest != 0 {
            let rank = (w as u64) << 6 | u64::from(rest.trailing_zeros());
            rest &= rest - 1;
            f(cursor.get_or_insert_with(|| Cursor::at(ranks, rank)).board(rank));
        }
    }
}

/// A piece of a set: the boards of a range of its words.
pub struct Piece<'a, const R: usize, const C: usize> {
    ranks: &'a LayerRanks<R, C>,
    words: &'a [u64],
    range: Range<usize>,
}

impl<const R: usize, const C: usize> Piece<'_, R, C> {
    /// Calls `f` on every board of the piece, in order of rank.
    #[inline]
    pub fn for_each(&self, f: impl FnMut(u64)) {
        boards(self.ranks, |w| self.words[w], self.range.clone(), f);
    }
}

/// Cuts a set into pieces, calls `f` on them in parallel, and gives back what it returns, in the order of the pieces.
pub fn for_pieces<const R: usize, const C: usize, T: Send>(
    ranks: &LayerRanks<R, C>,
    set: &Bitmap,
    f: impl Fn(Piece<'_, R, C>) -> T + Sync,
) -> Vec<T> {
    let words = set.words();
    let size = piece_words(words.len());
    (0..words.len().div_ceil(size))
        .into_par_iter()
        .map(|i| f(Piece { ranks, words, range: i * size..words.len().min((i + 1) * size) }))
        .collect()
}

/// Computes a value for every board of a set, in order of rank. Each value depends on its board alone, so the result does not depend
/// on the pieces.
pub fn map_boards<const R: usize, const C: usize>(
    ranks: &LayerRanks<R, C>,
    set: &RankedBits,
    value: impl Fn(u64) -> f64 + Sync,
) -> Vec<f64> {
    let mut values = vec![0.0; set.count() as usize];
    let piece = piece_words(set.words());
    let mut slices = Vec::with_capacity(set.words().div_ceil(piece));
    let mut rest = &mut values[..];
    for start in (0..set.words()).step_by(piece) {
        let end = set.words().min(start + piece);
        let (slice, tail) = rest.split_at_mut((set.before(end) - set.before(start)) as usize);
        slices.push((start..end, slice));
        rest = tail;
    }
    slices.into_par_iter().for_each(|(range, slice)| {
        let mut slots = slice.iter_mut();
        boards(
            ranks,
            |w| set.word(w),
            range,
            |board| {
                if let Some(slot) = slots.next() {
                    *slot = value(board);
                }
            },
        );
    });
    values
}
