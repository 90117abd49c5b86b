//! Positions packed for moving: a move is one subtraction.
//!
//! Nibble q of [`Sums`] (q = 0..P) holds S_{q+1}, the number of checkers on the q + 1 highest points. Moving a checker from point
//! P - q down by `die` points takes one off each of the `die` nibbles from q on; bearing it off takes one off all nibbles from q to the
//! last. So with ones in `die` nibbles, shifted to q and cut at the board's end, both are the same subtraction, overshooting
//! included, and no nibble can go below zero.

use crate::space::Position;

/// The checkers on the k highest points, for every k.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sums(pub u128);

impl Sums {
    /// Nothing on the board.
    pub const OFF: Self = Self(0);

    /// Nibble q: the checkers on the q + 1 highest points.
    pub fn get(self, q: usize) -> usize {
        (self.0 >> (4 * q) & 15) as usize
    }
}

const ONES: u128 = 0x1111_1111_1111_1111_1111_1111_1111_1111;

/// Points of the home board.
const HOME: usize = 6;

/// The geometry of the board.
#[derive(Clone, Copy, Debug)]
pub(super) struct Board {
    points: usize,
    /// All bits of the nibbles that the board has.
    full: u128,
    /// All bits of the nibbles of points outside the home board.
    outside: u128,
    /// For a die the lowest bits of the nibbles whose point is not nearer than the die.
    far: [u128; 8],
    /// For a die that many ones.
    steps: [u128; 7],
}

impl Board {
    /// A board of so many points.
    pub fn new(points: usize) -> Self {
        let nibbles = |count: usize| (1_u128 << (4 * count)) - 1;
        let far = |die: usize| ONES & nibbles((points + 1).saturating_sub(die));
        let steps = |die: usize| ONES & nibbles(die);
        Self {
            points,
            full: nibbles(points),
            outside: nibbles(points.saturating_sub(HOME)),
            far: std::array::from_fn(|die| if die == 0 { 0 } else { far(die) }),
            steps: std::array::from_fn(steps),
        }
    }

    /// From the packed position: point i in nibble i - 1.
    pub fn sums(&self, position: Position) -> Sums {
        let mut sums = 0;
        let mut total = 0;
        for q in 0..self.points {
            total += position.0 >> (4 * (self.points - 1 - q)) & 15;
            sums |= total << (4 * q);
        }
        Sums(sums)
    }

    /// To the packed position: point i in nibble i - 1.
    pub fn position(&self, sums: Sums) -> Position {
        let checkers = self.checkers(sums);
        Position((0..self.points).fold(0, |position, q| position << 4 | (checkers >> (4 * q) & 15)))
    }

    /// Nibble q: the checkers on point P - q.
    fn checkers(&self, sums: Sums) -> u128 {
        sums.0.wrapping_sub(sums.0 << 4) & self.full
    }

    /// The point of nibble q.
    pub fn point(&self, q: u32) -> usize {
        self.points - q as usize
    }

    /// Where a die can be played, as bits 4q. With a checker outside the home board: points farther than the die. Otherwise points not
    /// nearer than it; where there is none, the farthest checker, which it bears off. Empty only when nothing is on the board.
    #[inline(always)]
    pub fn sources(&self, sums: Sums, die: u8) -> u128 {
        let checkers = self.checkers(sums);
        let pairs = checkers | checkers >> 1;
        let occupied = (pairs | pairs >> 2) & ONES;
        if self.is_outside(sums) {
            return occupied & self.far[usize::from(die) + 1];
        }
        match occupied & self.far[usize::from(die)] {
            0 => occupied & occupied.wrapping_neg(),
            far => far,
        }
    }

    /// Whether a checker is outside the home board.
    fn is_outside(&self, sums: Sums) -> bool {
        sums.0 & self.outside != 0
    }

    /// Plays a die from nibble q, which must be one of its [`sources`](Self::sources).
    #[inline(always)]
    pub fn play(&self, sums: Sums, q: u32, die: u8) -> Sums {
        Sums(sums.0 - (self.steps[usize::from(die)] << (4 * q) & self.full))
    }

    /// Calls `found` with every position that a roll can lead to, some of them more than once.
    ///
    /// Both dice are played whenever a checker is left. With all checkers at home and the larger die first, the smaller one first can
    /// add only plays in which the larger then bears off a nearer checker than it needs to: any other pair of moves can be played
    /// in either order.
    #[inline]
    pub fn successors(&self, sums: Sums, (high, low): (u8, u8), found: &mut impl FnMut(Sums)) {
        if high == low {
            return self.doubles(sums, high, 4, 0, found);
        }
        let outside = self.is_outside(sums);
        self.two_dice(sums, high, low, true, found);
        self.two_dice(sums, low, high, outside, found);
    }

    /// Two dice in this order: everything, or only where the second bears off a nearer checker than it needs to.
    fn two_dice(&self, sums: Sums, first: u8, second: u8, all: bool, found: &mut impl FnMut(Sums)) {
        for q in bits(self.sources(sums, first)) {
            let between = self.play(sums, q, first);
            if between == Sums::OFF {
                found(between);
            } else if all || self.point(between.0.trailing_zeros() / 4) < usize::from(second) {
                for q in bits(self.sources(between, second)) {
                    found(self.play(between, q, second));
                }
            }
        }
    }

    /// `left` equal dice from nibble `first` on: four moves in any order can be played in the order of the board.
    fn doubles(&self, sums: Sums, die: u8, left: u8, first: u32, found: &mut impl FnMut(Sums)) {
        for q in bits(self.sources(sums, die) >> (4 * first) << (4 * first)) {
            let next = self.play(sums, q, die);
            if left == 1 || next == Sums::OFF {
                found(next);
            } else {
                self.doubles(next, die, left - 1, q, found);
            }
        }
    }
}

/// The nibbles whose lowest bit is set, from the lowest: from the farthest point to the nearest.
#[inline]
pub(super) fn bits(mut set: u128) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        (set != 0).then(|| {
            let q = set.trailing_zeros() / 4;
            set &= set - 1;
            q
        })
    })
}
