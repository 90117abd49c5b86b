//! Where the rolls lead from each position, as lists that the sweep walks through.
//!
//! The rollers of a strip are swept together, one roll at a time. Within a roll those with as many plays stand together, so that a
//! processor which has learned how often the loop over plays goes round is seldom wrong about it.

use super::super::Board;
use super::geometry::{Block, LANES};
use crate::bearoff::count::Counting;
use crate::bearoff::dice::ROLLS;
use rayon::prelude::*;
use std::sync::OnceLock;

/// A code has an ordinal in its lower bits, and above them the pips that a play takes, less 1.
const ORDINAL_BITS: u32 = 27;

/// Bytes of the lists of a position, at most: some 400 plays of 4 bytes, and each row once for the strip.
pub(super) const LIST_BYTES: u64 = 2500;

/// The plays of all positions, listed when they are first needed and then kept.
#[derive(Debug)]
pub(super) struct AllPlays(Vec<OnceLock<Vec<Plays>>>);

/// The plays of the rollers of a strip.
#[derive(Debug)]
pub(super) struct Plays {
    /// For each roll where its rollers and its codes end.
    ends: [(u32, u32); ROLLS.len()],
    rollers: Vec<Roller>,
    codes: Vec<u32>,
    /// Each code once, in ascending order.
    pub rows: Vec<u32>,
}

/// How many plays a roller has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Roller {
    /// Its place in the strip.
    pub at: u16,
    /// How many positions a roll can lead to.
    pub plays: u16,
}

impl AllPlays {
    /// None listed yet.
    pub fn new(pips: usize) -> Self {
        Self((0..=pips).map(|_| OnceLock::new()).collect())
    }

    /// Of the rollers of a block, by strip; they are the same for every block of as many pips.
    pub fn of(&self, counting: &Counting, board: &Board, block: &Block) -> &[Plays] {
        let strip = |number| Plays::new(counting, board, block, number);
        self.0[block.pips].get_or_init(|| (0..block.strips()).into_par_iter().map(strip).collect())
    }
}

impl Plays {
    fn new(counting: &Counting, board: &Board, block: &Block, strip: usize) -> Self {
        let pips = block.pips;
        let rollers: Vec<_> = block.strip(strip).rollers().map(|ordinal| counting.position(pips, ordinal as u64)).collect();
        debug_assert!(rollers.len() <= LANES);
        let mut plays = Self { ends: [(0, 0); ROLLS.len()], rollers: Vec::new(), codes: Vec::new(), rows: Vec::new() };
        for (roll, ends) in ROLLS.into_iter().zip(0..) {
            let mut all: Vec<(u16, Vec<u32>)> =
                (0..).zip(&rollers).map(|(at, &sums)| (at, codes(counting, board, pips, sums, roll))).collect();
            all.sort_by_key(|(at, codes)| (codes.len(), *at));
            for (at, codes) in all {
                plays
                    .rollers
                    .push(Roller { at, plays: u16::try_from(codes.len()).expect("fewer plays than positions of 4 moves") });
                plays.codes.extend(codes);
            }
            let end = |length| u32::try_from(length).expect("some thousand plays of a strip");
            plays.ends[ends] = (end(plays.rollers.len()), end(plays.codes.len()));
        }
        plays.rows = plays.codes.clone();
        plays.rows.sort_unstable();
        plays.rows.dedup();
        plays.rows.shrink_to_fit();
        plays.rollers.shrink_to_fit();
        plays.codes.shrink_to_fit();
        plays
    }

    /// Number of plays of all rolls and rollers.
    pub fn codes(&self) -> usize {
        self.codes.len()
    }

    /// For a roll its rollers, those with the fewest plays first, and the codes of all their plays in the same order.
    #[inline(always)]
    pub fn roll(&self, number: usize) -> (&[Roller], &[u32]) {
        let start = number.checked_sub(1).map_or((0, 0), |before| self.ends[before]);
        let end = self.ends[number];
        (&self.rollers[start.0 as usize..end.0 as usize], &self.codes[start.1 as usize..end.1 as usize])
    }
}

/// What a roll can lead to, each once, in the order of pips and ordinals.
fn codes(counting: &Counting, board: &Board, pips: usize, roller: super::Sums, roll: (u8, u8)) -> Vec<u32> {
    let mut codes = Vec::new();
    board.successors(roller, roll, &mut |next| {
        let (left, ordinal) = counting.place(next);
        // At most 24 pips; positions of one pip count are counted in 27 bits.
        #[allow(clippy::cast_possible_truncation)]
        codes.push(((pips - left - 1) as u32) << ORDINAL_BITS | ordinal as u32);
    });
    codes.sort_unstable();
    codes.dedup();
    codes
}

/// The pips that a play takes, less 1, and the ordinal of where it leads.
#[inline(always)]
pub(super) fn decode(code: u32) -> (usize, usize) {
    ((code >> ORDINAL_BITS) as usize, (code & ((1 << ORDINAL_BITS) - 1)) as usize)
}
