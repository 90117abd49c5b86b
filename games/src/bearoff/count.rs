//! Counting positions: sizes of layers, GNU Backgammon's index, and a position's number within its layer, from small tables.
//!
//! Let S_k be the number of checkers on the k highest points, so 0 <= S_1 <= S_2 <= ... <= S_P <= C. A checker on point i is in
//! i of these sums, so the pip count is S_1 + ... + S_P: the positions of a layer of `s` pips are the *partitions* of s into at
//! most P parts of at most C each. With P = 3, C = 2 and s = 4 they are (S_3 S_2 S_1) = 2 1 1 and 2 2 0.
//!
//! GNU Backgammon's index is Σ C(S_k + k - 1, k). It orders positions by S_P, then S_{P-1}, and so on, so within a layer it is the
//! lexicographic order of the partitions, and a position's *ordinal* there is a sum of P counts,
//!
//! ```text
//!     Σ over k of  #{ partitions of S_1 + ... + S_k into at most k parts, all smaller than S_k }
//! ```
//!
//! each a look-up in a table of P x (PC + 1) x (C + 2) numbers: 37 KiB for bearoff-6x15, 325 KiB for bearoff-18x15. No set of keys has
//! to be in memory to find a value, and the run of any shard is known without enumerating anything.

use super::board::Sums;

/// The tables.
#[derive(Debug)]
pub(super) struct Counting {
    points: usize,
    checkers: usize,
    pips: usize,
    /// `[k - 1][pips][below]`: partitions of `pips` into at most `k` parts, all smaller than `below`.
    smaller: Vec<u32>,
    /// `[k - 1][s]`: C(s + k - 1, k).
    binomials: Vec<[u64; 17]>,
}

impl Counting {
    /// Counts for a board.
    pub fn new(points: usize, checkers: usize) -> Self {
        let pips = points * checkers;
        let row = checkers + 2;
        let mut smaller = vec![0_u32; points * (pips + 1) * row];
        for k in 1..=points {
            for r in 0..=pips {
                for below in 1..row {
                    // Those whose largest part is exactly `below - 1`, and those where it is smaller.
                    let largest = below - 1;
                    let exactly = match (k, r.checked_sub(largest)) {
                        (_, None) => 0,
                        (1, Some(rest)) => u32::from(rest == 0),
                        (_, Some(rest)) => smaller[((k - 2) * (pips + 1) + rest) * row + below],
                    };
                    let at = ((k - 1) * (pips + 1) + r) * row + below;
                    smaller[at] = smaller[at - 1] + exactly;
                }
            }
        }
        let mut binomials = vec![[0; 17]; points];
        for k in 1..=points {
            for s in 1..17 {
                // C(s + k - 1, k) = C(s + k - 2, k) + C(s + k - 2, k - 1)
                binomials[k - 1][s] = binomials[k - 1][s - 1] + if k == 1 { 1 } else { binomials[k - 2][s] };
            }
        }
        Self { points, checkers, pips, smaller, binomials }
    }

    /// The largest pip count: everything on the farthest point.
    pub fn pips(&self) -> usize {
        self.pips
    }

    /// Most checkers.
    pub fn checkers(&self) -> usize {
        self.checkers
    }

    /// Number of positions of all layers together, C(P + C, P).
    pub fn universe(&self) -> u64 {
        self.binomials[self.points - 1][self.checkers + 1]
    }

    /// Number of positions of a layer.
    pub fn layer(&self, pips: usize) -> u64 {
        self.with_fewer(pips, self.checkers + 1)
    }

    /// Number of positions of a layer that have fewer than so many checkers. They come first in the layer's order.
    pub fn with_fewer(&self, pips: usize, checkers: usize) -> u64 {
        u64::from(self.smaller[self.row(self.points, pips) + checkers])
    }

    fn row(&self, k: usize, pips: usize) -> usize {
        ((k - 1) * (self.pips + 1) + pips) * (self.checkers + 2)
    }

    /// Pip count, and number within the layer.
    #[inline(always)]
    pub fn place(&self, sums: Sums) -> (usize, usize) {
        let row = self.checkers + 2;
        let mut base = 0;
        let mut pips = 0;
        let mut ordinal = 0;
        let mut rest = sums.0;
        for _ in 0..self.points {
            let s = (rest & 15) as usize;
            rest >>= 4;
            pips += s;
            ordinal += self.smaller[base + pips * row + s];
            base += (self.pips + 1) * row;
        }
        (pips, ordinal as usize)
    }

    /// The position with a number within its layer, which must be smaller than [`layer`](Self::layer).
    pub fn position(&self, pips: usize, ordinal: u64) -> Sums {
        debug_assert!(ordinal < self.layer(pips), "ordinal {ordinal} of {}", self.layer(pips));
        let mut sums = 0;
        let (mut pips, mut ordinal) = (pips, ordinal);
        for k in (1..=self.points).rev() {
            let row = self.row(k, pips);
            let counts = &self.smaller[row..row + self.checkers + 2];
            let s = counts.partition_point(|&count| u64::from(count) <= ordinal) - 1;
            ordinal -= u64::from(counts[s]);
            pips -= s;
            sums = sums << 4 | s as u128;
        }
        Sums(sums)
    }

    /// GNU Backgammon's index.
    pub fn index(&self, sums: Sums) -> u64 {
        self.binomials.iter().zip(0..).map(|(row, k)| row[sums.get(k)]).sum()
    }

    /// The position with an index, which must be smaller than [`universe`](Self::universe).
    pub fn of_index(&self, index: u64) -> Sums {
        let mut sums = 0;
        let mut rest = index;
        for row in self.binomials.iter().rev() {
            let s = row.partition_point(|&count| count <= rest) - 1;
            rest -= row[s];
            sums = sums << 4 | s as u128;
        }
        debug_assert!(rest == 0, "index {index}");
        Sums(sums)
    }
}
