//! Finding a key when the set is read piece by piece: its header once, then a group of the directory and a body for each question.

use super::bits::{Careful, index, wide};
use super::chunk::Chunk;
use super::layout::{CHUNK, GROUP_BYTES, GROUP_CHUNKS, HEADER_BYTES, Layout, group_at};
use super::prefetch::{Job, run};
use super::{IndexError, View};
use std::ops::Range;

/// Bytes from which a set can be opened.
pub(crate) const HEAD: usize = 24;
/// No sound body is longer.
const LONGEST_BODY: u64 = 1024;

/// A set of which only the header is at hand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PieceSet {
    layout: Layout,
    bytes: u64,
}

impl PieceSet {
    /// From the first [`HEAD`] bytes of a set, and its length.
    pub(crate) fn open(head: &[u8], bytes: usize) -> Result<Self, IndexError> {
        Ok(Self { layout: Layout::read_header(head, wide(bytes))?, bytes: wide(bytes) })
    }

    pub(crate) fn universe(&self) -> u64 {
        self.layout.universe
    }

    pub(crate) fn len(&self) -> u64 {
        self.layout.keys
    }

    /// The ordinal of a key, as [`IndexSet::find`](super::IndexSet::find) has it. `read` gives bytes of the set.
    pub(crate) fn find<P: AsRef<[u8]>, E>(
        &self,
        x: u64,
        mut read: impl FnMut(Range<usize>) -> Result<P, E>,
    ) -> Result<Option<u64>, E> {
        if x >= self.layout.universe {
            return Ok(None);
        }
        let number = x / CHUNK;
        let at = group_at(number / GROUP_CHUNKS);
        let bodies = self.layout.bodies();
        let group = read(index(at)..index((at + GROUP_BYTES).min(bodies)))?;
        let view = View { bytes: &[], layout: self.layout, bodies };
        let chunk = view.chunk_in(Careful(group.as_ref()), number);
        // Damaged or not, what is read lies within the set.
        let start = chunk.body.clamp(HEADER_BYTES, self.bytes);
        let body = read(index(start)..index((start + LONGEST_BODY).min(self.bytes)))?;
        let (rank, is_key) = run(FindIn(Chunk { bytes: body.as_ref(), body: 0, ..chunk }, x % CHUNK));
        Ok(is_key.then(|| chunk.before.wrapping_add(rank)))
    }
}

struct FindIn<'a>(Chunk<'a>, u64);

impl Job for FindIn<'_> {
    type Output = (u64, bool);

    #[inline(always)]
    fn run(self) -> (u64, bool) {
        self.0.find(self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{IndexSet, encode_sorted};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_answer_as_the_whole_does(
            universe in 1..200_000u64, sparse in 1..3000usize, seed: u64, ends in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        ) {
            let mut keys: Vec<u64> = (0..sparse as u64).map(|i| seed.wrapping_mul(2 * i + 1).wrapping_add(i * i) % universe).collect();
            // A dense stretch, so that every form occurs.
            keys.extend((universe / 3)..(universe / 2));
            keys.sort_unstable();
            keys.dedup();
            let bytes = encode_sorted(&keys, universe).unwrap();
            let whole = IndexSet::open(bytes.as_slice()).unwrap();
            let set = PieceSet::open(&bytes[..HEAD], bytes.len()).unwrap();
            prop_assert_eq!((set.universe(), set.len()), (whole.universe(), whole.len()));
            let read = |range: Range<usize>| bytes.get(range).ok_or(());
            let some = ends.iter().map(|end| end.index(universe as usize) as u64);
            for x in keys.iter().copied().step_by(7).chain(some).chain([0, universe - 1, universe, universe + 5000]) {
                prop_assert_eq!(set.find(x, read), Ok(whole.find(x)), "{}", x);
            }
        }

        #[test]
        fn any_bytes_answer_something(bytes in prop::collection::vec(any::<u8>(), HEAD..600), x in 0..100_000u64) {
            let mut bytes = bytes;
            bytes[..3].copy_from_slice(b"EF\x01");
            if let Ok(set) = PieceSet::open(&bytes[..HEAD], bytes.len()) {
                let _ = set.find(x, |range| bytes.get(range).ok_or(()));
            }
        }
    }
}
