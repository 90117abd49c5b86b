//! Words and bits of a byte slice, read without ever stepping outside it.

/// A position as a slice index. What does not fit is past the end of every slice.
#[inline(always)]
pub(super) fn index(x: u64) -> usize {
    usize::try_from(x).unwrap_or(usize::MAX)
}

/// A length in memory as a u64.
#[inline(always)]
pub(super) fn wide(x: usize) -> u64 {
    x as u64
}

/// The little-endian word at byte `at`, aligned or not; bytes past the end read as 0.
#[inline(always)]
pub(super) fn word(bytes: &[u8], at: u64) -> u64 {
    match bytes.get(index(at)..).and_then(|rest| rest.first_chunk::<8>()) {
        Some(eight) => u64::from_le_bytes(*eight),
        None => tail(bytes, at),
    }
}

#[cold]
fn tail(bytes: &[u8], at: u64) -> u64 {
    let mut eight = [0; 8];
    if let Some(rest) = bytes.get(index(at)..) {
        for (to, from) in eight.iter_mut().zip(rest) {
            *to = *from;
        }
    }
    u64::from_le_bytes(eight)
}

/// A word with the low `n` bits set, `n` below 64.
#[inline(always)]
pub(super) fn low_mask(n: u64) -> u64 {
    (1 << (n & 63)) - 1
}

/// A word with the low `n` bits set, all of them from 64 on.
#[inline(always)]
pub(super) fn first_bits(n: u64) -> u64 {
    if n >= 64 { u64::MAX } else { low_mask(n) }
}

/// Number of set bits.
#[inline(always)]
pub(super) fn ones(word: u64) -> u64 {
    u64::from(word.count_ones())
}

/// Bytes to be read from as words and bits; what is not there reads as something, never as a panic.
pub(super) trait Source: Copy {
    /// The little-endian word at byte `at`, aligned or not.
    fn word(self, at: u64) -> u64;

    /// The little-endian 16-bit number at byte `at`.
    #[inline(always)]
    fn half(self, at: u64) -> u64 {
        self.word(at) & 0xFFFF
    }

    /// At least 57 bits from bit `at` on; bits above those are 0.
    #[inline(always)]
    fn bits_from(self, at: u64) -> u64 {
        self.word(at >> 3) >> (at & 7)
    }

    /// How many ones follow one another from bit `at` on, counted no further than `limit` (it may answer a few more).
    #[inline(always)]
    fn run_of_ones(self, at: u64, limit: u64) -> u64 {
        let first = u64::from(self.bits_from(at).trailing_ones());
        let whole = 64 - (at & 7);
        if first < whole { first } else { long_run(self, (at >> 3) + 8, whole, limit) }
    }
}

#[cold]
fn long_run<S: Source>(source: S, mut byte: u64, mut run: u64, limit: u64) -> u64 {
    while run < limit {
        let more = u64::from(source.word(byte).trailing_ones());
        run += more;
        if more < 64 {
            break;
        }
        byte += 8;
    }
    run
}

/// Bytes of which only some may be left: every read is compared with the length, what is past the end reads as 0.
#[derive(Clone, Copy)]
pub(super) struct Careful<'a>(pub(super) &'a [u8]);

impl Source for Careful<'_> {
    #[inline(always)]
    fn word(self, at: u64) -> u64 {
        word(self.0, at)
    }
}

/// So many bytes that reads need no comparison: positions wrap around. Half the instructions of a look-up went into comparing lengths
/// before this was done once for a group of the directory and once for a body.
#[derive(Clone, Copy)]
pub(super) struct Fixed<'a, const N: usize>(pub(super) &'a [u8; N]);

/// A power of two that no sound body is longer than, and a word.
pub(super) type Window<'a> = Fixed<'a, { 1024 + 7 }>;

impl<'a, const N: usize> Fixed<'a, N> {
    /// The bytes from `at` on, unless they end too early.
    #[inline(always)]
    pub(super) fn at(bytes: &'a [u8], at: u64) -> Option<Self> {
        bytes.get(index(at)..)?.first_chunk().map(Fixed)
    }
}

impl<const N: usize> Source for Fixed<'_, N> {
    #[inline(always)]
    fn word(self, at: u64) -> u64 {
        let at = index(at) % (N - 7);
        let mut eight = [0; 8];
        eight.copy_from_slice(&self.0[at..at + 8]);
        u64::from_le_bytes(eight)
    }
}

/// The position of the set bit of `word` that has `k` set bits below it. There must be one: `k < ones(word)`.
///
/// Vigna's broadword selection: byte-wise sums of ones by multiplication, one comparison for all eight bytes, a table for the last.
#[inline(always)]
pub(super) fn select_in_word(word: u64, k: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const TOP: u64 = 0x8080_8080_8080_8080;
    debug_assert!(k < ones(word));
    let pairs = word - ((word >> 1) & 0x5555_5555_5555_5555);
    let fours = (pairs & 0x3333_3333_3333_3333) + ((pairs >> 2) & 0x3333_3333_3333_3333);
    let sums = ((fours + (fours >> 4)) & 0x0F0F_0F0F_0F0F_0F0F).wrapping_mul(EACH);
    let place = (ones((((k * EACH) | TOP) - sums) & TOP) * 8) & 63;
    let rest = (k - (((sums << 8) >> place) & 0xFF)) & 7;
    place + u64::from(SELECT_IN_BYTE[index((rest << 8) | ((word >> place) & 0xFF))])
}

/// `[k << 8 | byte]`: the position of the set bit of `byte` that has `k` set bits below it.
static SELECT_IN_BYTE: [u8; 2048] = {
    let mut table = [0; 2048];
    let mut byte = 0;
    while byte < 256 {
        let (mut bit, mut k) = (0, 0);
        while bit < 8 {
            if byte >> bit & 1 == 1 {
                table[k << 8 | byte] = bit;
                k += 1;
            }
            bit += 1;
        }
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_past_the_end_read_as_zero() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9];
        assert_eq!(word(&bytes, 0), 0x0807_0605_0403_0201);
        assert_eq!(word(&bytes, 1), 0x0908_0706_0504_0302);
        assert_eq!(word(&bytes, 2), 0x0009_0807_0605_0403);
        assert_eq!(word(&bytes, 8), 9);
        assert_eq!(word(&bytes, 9), 0);
        assert_eq!(word(&bytes, u64::MAX), 0);
        assert_eq!(word(&[], 0), 0);
    }

    #[test]
    fn selecting_in_a_word_agrees_with_counting_bit_by_bit() {
        let mut state = 1_u64;
        for round in 0..2000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mixed = state ^ (state >> 29);
            let word = match round % 4 {
                0 => mixed,
                1 => mixed & mixed.rotate_left(17) & mixed.rotate_left(31),
                2 => mixed | mixed.rotate_left(17) | mixed.rotate_left(31),
                _ => u64::MAX << (round % 64),
            };
            let set: Vec<u64> = (0..64).filter(|bit| word >> bit & 1 == 1).collect();
            for (k, bit) in set.iter().enumerate() {
                assert_eq!(select_in_word(word, wide(k)), *bit, "word {word:#x}, bit number {k}");
            }
        }
    }

    #[test]
    fn runs_of_ones_are_counted_across_words() {
        for start in 0..20 {
            for length in [0, 1, 7, 8, 56, 57, 63, 64, 65, 127, 128, 200] {
                let mut bytes = vec![0_u8; 40];
                for bit in start..start + length {
                    bytes[bit >> 3] |= 1 << (bit & 7);
                }
                assert_eq!(Careful(&bytes).run_of_ones(wide(start), 4096), wide(length), "start {start}");
            }
        }
    }
}
