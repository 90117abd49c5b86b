//! Where the rolls lead from each position, as lists that the sweep walks through.

use super::super::Board;
use super::super::count::Counting;
use super::super::dice::ROLLS;
use rayon::prelude::*;
use std::sync::OnceLock;

/// A position that a play leads to: how many pips it takes, less 1, and the position's ordinal among those of its pip count.
const ORDINAL_BITS: u32 = 27;

/// The plays of all positions, listed when they are first needed: some tens of megabytes for the largest tables.
#[derive(Debug)]
pub(super) struct AllPlays(Vec<OnceLock<Plays>>);

/// The plays of all positions of one pip count.
#[derive(Debug, Default)]
pub(super) struct Plays {
    /// For each position and each roll the end of what it can lead to.
    ends: Vec<u32>,
    codes: Vec<u32>,
}

/// What the rolls lead to from one position.
#[derive(Clone, Copy)]
pub(super) struct PlaysOf<'a> {
    start: usize,
    ends: &'a [u32; ROLLS.len()],
    codes: &'a [u32],
}

impl AllPlays {
    /// None listed yet.
    pub fn new(counting: &Counting) -> Self {
        Self((0..=counting.pips()).map(|_| OnceLock::new()).collect())
    }

    /// Of the positions of one pip count.
    pub fn of(&self, counting: &Counting, board: &Board, pips: usize) -> &Plays {
        self.0[pips].get_or_init(|| Plays::new(counting, board, pips))
    }
}

impl Plays {
    fn new(counting: &Counting, board: &Board, pips: usize) -> Self {
        let of = |ordinal: u64| {
            let (mut ends, mut codes) = (Vec::with_capacity(ROLLS.len()), Vec::new());
            let sums = counting.position(pips, ordinal);
            for roll in ROLLS {
                let start = codes.len();
                board.successors(sums, roll, &mut |next| {
                    let (left, ordinal) = counting.place(next);
                    // At most 24 pips; positions of one pip count are counted in 27 bits.
                    #[allow(clippy::cast_possible_truncation)]
                    codes.push(((pips - left - 1) as u32) << ORDINAL_BITS | ordinal as u32);
                });
                codes[start..].sort_unstable();
                let mut end = start;
                for i in start..codes.len() {
                    if end == start || codes[end - 1] != codes[i] {
                        codes[end] = codes[i];
                        end += 1;
                    }
                }
                codes.truncate(end);
                ends.push(end);
            }
            (ends, codes)
        };
        let all: Vec<(Vec<usize>, Vec<u32>)> = (0..counting.layer(pips)).into_par_iter().map(of).collect();
        let mut plays = Self::default();
        for (ends, codes) in all {
            let before = plays.codes.len();
            plays.ends.extend(ends.into_iter().map(|end| u32::try_from(before + end).expect("fewer than 2^32 plays")));
            plays.codes.extend(codes);
        }
        plays
    }

    /// Of one position, which is not the one with nothing left.
    #[inline]
    pub fn get(&self, ordinal: usize) -> PlaysOf<'_> {
        let at = ordinal * ROLLS.len();
        let ends = self.ends[at..].first_chunk().expect("an ordinal of this pip count");
        PlaysOf { start: at.checked_sub(1).map_or(0, |before| self.ends[before] as usize), ends, codes: &self.codes }
    }
}

impl<'a> PlaysOf<'a> {
    /// For each roll the positions that it can lead to, each once, in the order of their pips and ordinals.
    #[inline(always)]
    pub fn rolls(self) -> impl Iterator<Item = &'a [u32]> {
        let mut start = self.start;
        self.ends.iter().map(move |&end| {
            let codes = &self.codes[start..end as usize];
            start = end as usize;
            codes
        })
    }
}

/// The pips that a play takes, less 1, and the ordinal of where it leads.
#[inline(always)]
pub(super) fn decode(code: u32) -> (usize, usize) {
    ((code >> ORDINAL_BITS) as usize, (code & ((1 << ORDINAL_BITS) - 1)) as usize)
}
