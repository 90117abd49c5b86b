//! Files of GNU Backgammon's bearoff databases: what their first 40 bytes say, and how their numbers compare with a table.

pub mod compare;

use std::fmt;
use strata_games::bearoff::gnubg::MOST_ROLLS;
use strata_games::bearoff::two_sided::gnubg::NUMBERS;

/// Bytes of the header.
pub const HEADER: usize = 40;
/// Checkers of a one-sided file.
pub const ONE_SIDED_CHECKERS: usize = 15;

/// Which file it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Header {
    /// Chances of needing 0, 1, ... rolls.
    OneSided {
        /// Points of the board.
        points: usize,
        /// With the rolls until the first checker is off.
        gammons: bool,
        /// Chances from the first to the last that is not 0, and an entry for each position that says where; otherwise all 32.
        compressed: bool,
    },
    /// Equities of every pair of positions.
    TwoSided {
        /// Points of the board.
        points: usize,
        /// Most checkers of a side.
        checkers: usize,
        /// With three values with the cube.
        cubeful: bool,
    },
}

impl Header {
    /// As a file has it.
    pub fn bytes(self) -> [u8; HEADER] {
        let start = match self {
            Header::OneSided { points, gammons, compressed } => {
                format!("gnubg-OS-{points:02}-{ONE_SIDED_CHECKERS}-{}-{}-0", u8::from(gammons), u8::from(compressed))
            }
            Header::TwoSided { points, checkers, cubeful } => format!("gnubg-TS-{points:02}-{checkers:02}-{}", u8::from(cubeful)),
        };
        let mut header = [b'x'; HEADER];
        header[..start.len()].copy_from_slice(start.as_bytes());
        header[HEADER - 1] = b'\n';
        header
    }

    /// Reads it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let bytes = bytes.get(..HEADER).ok_or("it has no room for a header of 40 bytes")?;
        if !bytes.starts_with(b"gnubg-") {
            return Err("it does not begin with `gnubg-`".into());
        }
        let flag = |at: usize| bytes[at] == b'1';
        let digit = |at: usize| bytes[at].is_ascii_digit().then(|| usize::from(bytes[at] - b'0'));
        let number = |at: usize| Some(digit(at)? * 10 + digit(at + 1)?);
        let numbers = number(9).zip(number(12)).ok_or("its points and checkers are not two digits each")?;
        let read = match &bytes[6..8] {
            b"OS" => Header::OneSided { points: numbers.0, gammons: flag(15), compressed: flag(17) },
            b"TS" => Header::TwoSided { points: numbers.0, checkers: numbers.1, cubeful: flag(15) },
            _ => return Err("it is neither one-sided (OS) nor two-sided (TS)".into()),
        };
        let in_range = match read {
            Header::OneSided { points, .. } => (1..=18).contains(&points),
            Header::TwoSided { points, checkers, .. } => (1..=18).contains(&points) && (1..=15).contains(&checkers),
        };
        if !in_range {
            return Err(format!("it is {read}; boards have 1 to 18 points and 1 to 15 checkers"));
        }
        // Written again it must be the same: that finds every other letter that is not as it should be.
        if read.bytes() != bytes {
            let text = String::from_utf8_lossy(bytes);
            return Err(format!("its header is {:?}; the one of {read} is {:?}", text, String::from_utf8_lossy(&read.bytes())));
        }
        Ok(read)
    }

    /// Bytes of an entry, or of a record where there are no entries.
    pub fn record_bytes(self) -> u64 {
        match self {
            Header::OneSided { gammons, compressed: true, .. } => {
                if gammons {
                    8
                } else {
                    6
                }
            }
            Header::OneSided { gammons, .. } => MOST_ROLLS as u64 * if gammons { 4 } else { 2 },
            Header::TwoSided { cubeful, .. } => 2 * if cubeful { NUMBERS as u64 } else { 1 },
        }
    }
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Header::OneSided { points, gammons, compressed } => {
                let form = if compressed { "compressed" } else { "uncompressed" };
                let with = if gammons { "with" } else { "without" };
                write!(f, "one-sided, {points} points, {ONE_SIDED_CHECKERS} checkers, {with} gammons, {form}")
            }
            Header::TwoSided { points, checkers, cubeful } => {
                write!(f, "two-sided, {points} points, {checkers} checkers, {}", if cubeful { "cubeful" } else { "cubeless" })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_forty_bytes_with_a_line_feed() {
        let one = |points, gammons, compressed| Header::OneSided { points, gammons, compressed };
        let two = |points, checkers, cubeful| Header::TwoSided { points, checkers, cubeful };
        for (header, bytes) in [
            (one(6, true, true), b"gnubg-OS-06-15-1-1-0xxxxxxxxxxxxxxxxxxx\n"),
            (one(10, false, false), b"gnubg-OS-10-15-0-0-0xxxxxxxxxxxxxxxxxxx\n"),
            (two(6, 4, true), b"gnubg-TS-06-04-1xxxxxxxxxxxxxxxxxxxxxxx\n"),
            (two(7, 11, false), b"gnubg-TS-07-11-0xxxxxxxxxxxxxxxxxxxxxxx\n"),
        ] {
            assert_eq!(&header.bytes(), bytes);
            assert_eq!(Header::parse(bytes), Ok(header));
        }
    }

    #[test]
    fn a_bad_header_says_what_is_wrong() {
        for (bytes, what) in [
            (&b"gnubg-TS"[..], "no room"),
            (b"bearoff-06-06-1xxxxxxxxxxxxxxxxxxxxxxxx\n", "begin with"),
            (b"gnubg-XS-06-06-1xxxxxxxxxxxxxxxxxxxxxxx\n", "neither"),
            (b"gnubg-TS-6x-06-1xxxxxxxxxxxxxxxxxxxxxxx\n", "two digits each"),
            (b"gnubg-TS-19-06-1xxxxxxxxxxxxxxxxxxxxxxx\n", "1 to 18"),
            (b"gnubg-TS-06-06-1xxxxxxxxxxxxxxxxxxxxxxxx", "the one of"),
            (b"gnubg-OS-06-14-1-1-0xxxxxxxxxxxxxxxxxxx\n", "the one of"),
        ] {
            let error = Header::parse(bytes).unwrap_err();
            assert!(error.contains(what), "{error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_a_header_or_an_error(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..60)) {
            let _ = Header::parse(&bytes);
        }
    }
}
