//! Index sets: which ranks of a universe are keys.
//!
//! # The idea
//! A set of n increasing numbers below u can be told by their differences, but then nothing can be found without reading from the
//! start. P. Elias (*Efficient storage and retrieval by content and address of static files*, J. ACM 21, 1974) and R. M. Fano
//! (MIT project MAC memorandum 61, 1971) split every number instead: the `low` lowest bits are stored as they are, packed; the rest
//! is a bucket number, and buckets are told in unary, a one for every member and a zero at the end of every bucket. With
//! `low = floor(log2(u/n))` that is less than `2 + log2(u/n)` bits a number, within half a bit of what any code needs for a random set.
//! The number with ordinal i sits at the i-th one, the bucket b begins after the b-th zero, so select and rank are two look-ups and a
//! short search. Ten members of 0..32 with two low bits:
//!
//! ```text
//! members   3    4  6    9  10    17 18 19    25    31        low = 2, buckets of four ranks: 0..3, 4..7, ...
//! upper     10   110     110  0   1110  0     10    10        ones: members of the bucket, zero: its end (bucket 3 and 5: none)
//! low bits  11   00 10   01 10    01 10 11    01    11        find 18: bucket 4 begins after the 4th zero, after 5 ones;
//!                                                             of the low bits 5, 6, 7 the second is 18's: ordinal 6
//! ```
//!
//! S. Vigna (*Quasi-succinct indices*, WSDM 2013) made this quick in practice: a sampled position for every 256th zero, then population
//! counts of whole words. G. Ottaviano and R. Venturini (*Partitioned Elias-Fano indexes*, SIGIR 2014) cut the list where its density
//! changes, since the keys of real sets crowd together. We cut the *universe*, at fixed places, because then a look-up finds its part
//! by a shift: chunks of 4,096 ranks, each in the shortest of five forms.
//!
//! | form | bits | when |
//! |---|---|---|
//! | empty, full | 0 | no rank, every rank is a key |
//! | bitmap | 1.03 a rank | density from about 0.23 to 0.77 |
//! | keys | low + 1 + (ranks >> low) / keys a key | sparser |
//! | gaps | the same for the ranks that are not keys | denser |
//!
//! Every chunk also has 6 bytes in a directory, in groups of eight with their sums in front: 64 bytes a group.
//!
//! # Costs
//! Open reads the header only. `rank`, `find` and `contains` read one group, one sample or count, a few words (at most 256 zeros are
//! counted) and one bucket of at most 64 keys: O(1) however the keys lie. `select` searches the groups by halving, and bitmaps and lists
//! of gaps too. `find_many` keeps look-ups at three depths in flight with prefetches, which hides most of the waiting for memory: two to
//! three times as fast as one by one on sets larger than the second-level cache, no gain on smaller ones. Sizes and times:
//! `cargo bench -p strata-storage --bench index`.
//!
//! # Same set, same bytes
//! All choices follow from the number of keys in the chunk alone. The list is of the keys or of the gaps, whichever are fewer, with the
//! low bits that give the fewest bits, of equals the fewest low bits; the bitmap is taken unless the list saves a byte. [`encode_bits`]
//! and [`encode_sorted`] give the same bytes, and [`IndexSet::check`] accepts no others.
//!
//! # Bytes
//! All numbers are little-endian; bit k of a run of bits is bit k mod 8 of its byte k / 8. The parts begin at multiples of 8 bytes,
//! but the reader needs no alignment: it reads words from bytes, and where a set lies makes no difference to be measured.
//!
//! ```text
//!          0       1       2       3       4       5       6       7
//!      0  'E'     'F'      1      body bytes (40 bits) ...............   1 is the version
//!      8  universe: number of ranks .................................   at most 2^42
//!     16  keys ......................................................
//!     24  directory: ceil(universe / 32768) groups, then bodies, then zeros up to a multiple of 8
//!
//!  group   0  keys of the set before the group ......................
//!          8  bytes of bodies before the group ......................
//!         16  entry 0 (6 bytes)             entry 1 ...                  8 entries; in the last group as many as there are
//!                                                                       chunks, then zeros up to a multiple of 8
//!
//!  entry   bits  0..15   keys of the group before the chunk
//!          bits 15..28   bytes of the group's bodies before the chunk's
//!          bits 28..33   form: 0 empty, 1 full, 2 bitmap, 4 + low keys, 17 + low gaps (low from 0 to 12)
//!          bits 33..46   keys in the chunk
//!          bits 46..48   zero
//!
//!  body    one for each chunk in order, without gaps, each a whole number of bytes (last bits zero); r = ranks of the chunk, 4096 or
//!          in the last chunk what is left
//!    empty, full   nothing
//!    bitmap        ceil(r / 512) - 1 counts of 16 bits: keys of the chunk before rank 512, 1024, ...; then r bits
//!    keys          m members, b = ceil(r / 2^low) buckets
//!                  ceil(b / 256) - 1 samples of 16 bits: where bucket 256, 512, ... begins in the upper bits
//!                  m + b upper bits: for every bucket a one for every member, then a zero
//!                  m * low low bits, member by member, lowest bit first
//!    gaps          as keys, the members being the ranks that are not keys
//! ```

mod bits;
mod check;
mod chunk;
mod encode;
mod iter;
mod layout;
mod pieces;
mod prefetch;

pub use check::{IndexStats, KindStats};
pub use encode::{encode_bits, encode_quick, encode_sorted};
pub use iter::Iter;
pub(crate) use pieces::{HEAD, PieceSet};

use bits::{Careful, Fixed, Source, index, wide, word};
use chunk::Chunk;
use layout::{CHUNK, CHUNK_WORDS, Entry, GROUP_CHUNKS, Kind, Layout, entry_at, entry_in_group, group_at, prefetch_entry};
use prefetch::{Job, run};
use std::hint::select_unpredictable;
use std::ops::Range;

/// What [`IndexSet::find_many`] writes for a rank that is not a key.
pub const ABSENT: u64 = u64::MAX;

/// The largest universe: 2^42 ranks.
pub const MAX_UNIVERSE: u64 = 1 << 42;

/// Why bytes are not an index set, or keys cannot become one.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum IndexError {
    /// The bytes begin otherwise than every index set does.
    #[error("not an index set: it does not begin with \"EF\"")]
    NotAnIndex,
    /// An index set of another version of the format.
    #[error("index set of format version {found}, this program reads version 1: use the program that built the table")]
    Version {
        /// The version found.
        found: u64,
    },
    /// Cut short, or followed by something else.
    #[error("index set of {found} bytes where its header says {expected}: the file is cut short or damaged")]
    Length {
        /// Bytes there should be.
        expected: u64,
        /// Bytes there are.
        found: u64,
    },
    /// More ranks than the format has room for.
    #[error("a universe of {universe} ranks is more than an index set holds (2^42)")]
    Universe {
        /// Number of ranks asked for.
        universe: u64,
    },
    /// More keys than ranks.
    #[error("index set damaged: its header claims {keys} keys among {universe} ranks")]
    TooManyKeys {
        /// Keys claimed.
        keys: u64,
        /// Number of ranks.
        universe: u64,
    },
    /// The sums in front of a group of chunks are wrong.
    #[error("index set damaged: wrong sums in group {group} of the directory (ranks from {first_rank})")]
    Group {
        /// Number of the group.
        group: u64,
        /// First rank of its first chunk.
        first_rank: u64,
    },
    /// A chunk or its entry in the directory is not what an encoder writes.
    #[error("index set damaged: chunk {chunk} (ranks from {first_rank}) is not what its keys encode to")]
    Chunk {
        /// Number of the chunk.
        chunk: u64,
        /// Its first rank.
        first_rank: u64,
    },
    /// The header's totals are not those of the chunks.
    #[error("index set damaged: its header claims {stated} keys, its chunks hold {keys}")]
    Totals {
        /// Keys counted.
        keys: u64,
        /// Keys claimed.
        stated: u64,
    },
    /// Bytes that should be zero are not.
    #[error("index set damaged: its padding is not zero")]
    Padding,
    /// Keys given to the encoder do not ascend.
    #[error("keys must strictly ascend: key {at} is {left}, the next is {right}")]
    Unsorted {
        /// Position of the first of the two.
        at: u64,
        /// The key there.
        left: u64,
        /// The key after it.
        right: u64,
    },
    /// A key given to the encoder is not in the universe.
    #[error("key {key} is outside the universe of {universe} ranks")]
    OutOfUniverse {
        /// The largest key.
        key: u64,
        /// Number of ranks.
        universe: u64,
    },
}

/// A set of ranks, read in place from bytes: a vector, a slice or a memory map.
///
/// On bytes that pass [`check`](Self::check) every answer is right. On others answers may be wrong, but no method panics, reads outside
/// the bytes, or runs longer than the bytes allow.
#[derive(Clone, Copy)]
pub struct IndexSet<B: AsRef<[u8]>> {
    bytes: B,
    layout: Layout,
    /// Where the bodies begin: it follows from the layout.
    bodies: u64,
}

impl<B: AsRef<[u8]>> IndexSet<B> {
    /// Opens a set: reads the header and compares lengths, nothing else.
    pub fn open(bytes: B) -> Result<Self, IndexError> {
        let layout = Layout::read(bytes.as_ref())?;
        Ok(IndexSet { bytes, layout, bodies: layout.bodies() })
    }

    /// Reads everything. Accepts exactly the bytes that [`encode_bits`] gives for the set. Damage that makes the one encoding of another
    /// set passes: telling that is the work of the checksums of the file around it.
    pub fn check(&self) -> Result<(), IndexError> {
        check::check(self.view())
    }

    /// Number of ranks, keys or not.
    pub fn universe(&self) -> u64 {
        self.layout.universe
    }

    /// Number of keys.
    pub fn len(&self) -> u64 {
        self.layout.keys
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Length in bytes, everything included.
    pub fn bytes(&self) -> u64 {
        wide(self.bytes.as_ref().len())
    }

    /// Number of keys below `x`; all of them if `x` is the universe or more.
    pub fn rank(&self, x: u64) -> u64 {
        if x >= self.layout.universe { self.layout.keys } else { run(Find(self.view(), x)).0 }
    }

    /// Whether `x` is a key.
    pub fn contains(&self, x: u64) -> bool {
        x < self.layout.universe && run(Find(self.view(), x)).1
    }

    /// The ordinal of the key `x`: how many keys there are below it. `None` if it is not a key.
    pub fn find(&self, x: u64) -> Option<u64> {
        if x >= self.layout.universe {
            return None;
        }
        let (rank, is_key) = run(Find(self.view(), x));
        is_key.then_some(rank)
    }

    /// The key of ordinal `i`. `None` if there are no more than `i` keys.
    pub fn select(&self, i: u64) -> Option<u64> {
        (i < self.layout.keys).then(|| run(Select(self.view(), i)))
    }

    /// All keys, ascending.
    pub fn iter(&self) -> Iter<'_> {
        self.iter_range(0..self.layout.universe)
    }

    /// The keys in a range, ascending.
    pub fn iter_range(&self, range: Range<u64>) -> Iter<'_> {
        Iter::new(self.view(), range.start, range.end)
    }

    /// Finds many ranks at once: `out[k]` becomes the ordinal of `ranks[k]`, or [`ABSENT`]. Two to three times as fast as one by one
    /// where the set is larger than the caches. Panics if the slices differ in length.
    pub fn find_many(&self, ranks: &[u64], out: &mut [u64]) {
        assert_eq!(ranks.len(), out.len(), "one answer for every rank");
        run(FindMany { set: self.view(), ranks, out });
    }

    /// Sets the bits of the keys in a bitmap, leaving the others as they are. Panics if `words` do not cover the universe.
    pub fn fill_bitmap(&self, words: &mut [u64]) {
        assert!(
            self.universe().div_ceil(64) <= wide(words.len()),
            "{} words do not cover {} ranks",
            words.len(),
            self.universe()
        );
        self.fill_chunks(0, words);
    }

    /// Sets the bits of the keys from rank `from` on in words that cover a run of ranks, leaving the others as they are. Runs begin and end
    /// with chunks, of 4,096 ranks, or with the universe: if this one does not, nothing is done and the answer is `false`.
    #[must_use]
    pub fn fill_run(&self, from: u64, words: &mut [u64]) -> bool {
        let to = from + wide(words.len()) * 64;
        let ends = |rank: u64| rank.is_multiple_of(CHUNK) && rank <= self.universe();
        let fits = ends(from) && (ends(to) || to == self.universe().next_multiple_of(64));
        if fits {
            self.fill_chunks(from / CHUNK, words);
        }
        fits
    }

    fn fill_chunks(&self, first: u64, words: &mut [u64]) {
        let view = self.view();
        for (number, to) in (first..self.layout.chunks()).zip(words.chunks_mut(CHUNK_WORDS)) {
            for (word, bits) in to.iter_mut().zip(view.chunk(number).decode()) {
                *word |= bits;
            }
        }
    }

    /// How many chunks of which kind, and what they take. Reads the directory.
    pub fn stats(&self) -> IndexStats {
        check::stats(self.view())
    }

    fn view(&self) -> View<'_> {
        View { bytes: self.bytes.as_ref(), layout: self.layout, bodies: self.bodies }
    }
}

impl<B: AsRef<[u8]>> std::fmt::Debug for IndexSet<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IndexSet({} of {} ranks, {} bytes)", self.len(), self.universe(), self.bytes())
    }
}

/// A set whose bytes are at hand.
#[derive(Clone, Copy)]
struct View<'a> {
    bytes: &'a [u8],
    layout: Layout,
    /// Where the bodies begin.
    bodies: u64,
}

impl<'a> View<'a> {
    fn universe(&self) -> u64 {
        self.layout.universe
    }

    /// The chunk of this number, which must be there.
    #[inline(always)]
    fn chunk(&self, number: u64) -> Chunk<'a> {
        let at = group_at(number / GROUP_CHUNKS);
        match Fixed::<{ 64 + 7 }>::at(self.bytes, at) {
            Some(group) => self.chunk_in(group, number),
            None => self.chunk_in(Careful(self.bytes.get(index(at)..).unwrap_or_default()), number),
        }
    }

    #[inline(always)]
    fn chunk_in<S: Source>(&self, group: S, number: u64) -> Chunk<'a> {
        let entry = Entry::unpack(group.word(entry_in_group(number)) >> 16);
        Chunk {
            bytes: self.bytes,
            kind: entry.kind,
            ranks: CHUNK.min(self.layout.universe.saturating_sub(number * CHUNK)),
            keys: entry.keys,
            before: group.word(0).wrapping_add(entry.before),
            body: self.bodies.wrapping_add(group.word(8)).wrapping_add(entry.at),
        }
    }

    #[inline(always)]
    fn entry(&self, chunk: u64) -> Entry {
        Entry::unpack(word(self.bytes, entry_at(chunk)) >> 16)
    }

    /// Ordinal of the first key not below `x`, and whether it is `x`. `x` must be in the universe.
    #[inline(always)]
    fn find(&self, x: u64) -> (u64, bool) {
        let chunk = self.chunk(x / CHUNK);
        let (rank, is_key) = chunk.find(x % CHUNK);
        (chunk.before.wrapping_add(rank), is_key)
    }

    #[inline(always)]
    fn select(&self, i: u64) -> u64 {
        let (mut group, mut size) = (0, self.layout.groups());
        while size > 1 {
            let half = size / 2;
            if word(self.bytes, group_at(group + half)) <= i {
                group += half;
            }
            size -= half;
        }
        let within = i.saturating_sub(word(self.bytes, group_at(group)));
        let first = group * GROUP_CHUNKS;
        let mut number = (first + GROUP_CHUNKS).min(self.layout.chunks()).saturating_sub(1);
        while number > first && self.entry(number).before > within {
            number -= 1;
        }
        number * CHUNK + self.chunk(number).select(within.saturating_sub(self.entry(number).before))
    }
}

struct Find<'a>(View<'a>, u64);

impl Job for Find<'_> {
    type Output = (u64, bool);

    #[inline(always)]
    fn run(self) -> (u64, bool) {
        self.0.find(self.1)
    }
}

struct Select<'a>(View<'a>, u64);

impl Job for Select<'_> {
    type Output = u64;

    #[inline(always)]
    fn run(self) -> u64 {
        self.0.select(self.1)
    }
}

/// How many look-ups further on the next lines are asked for: of the directory two distances ahead, of the chunk one.
const AHEAD: usize = 8;

struct FindMany<'a, 'b> {
    set: View<'a>,
    ranks: &'b [u64],
    out: &'b mut [u64],
}

impl Job for FindMany<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let FindMany { set, ranks, out } = self;
        let universe = set.universe();
        let ask_entry = |x: u64| {
            if x < universe {
                prefetch_entry(set.bytes, x / CHUNK);
            }
        };
        // What is outside the universe is looked up in a chunk without keys.
        let nowhere = Chunk { bytes: set.bytes, kind: Kind::Empty, ranks: 0, keys: 0, before: 0, body: 0 };
        let ask_chunk = |x: u64| {
            let chunk = if x < universe { set.chunk(x / CHUNK) } else { nowhere };
            chunk.prefetch(x % CHUNK);
            chunk
        };
        let mut asked = [nowhere; AHEAD];
        ranks.iter().take(2 * AHEAD).for_each(|&x| ask_entry(x));
        ranks.iter().zip(&mut asked).for_each(|(&x, chunk)| *chunk = ask_chunk(x));
        for (k, (&x, to)) in ranks.iter().zip(out).enumerate() {
            if let Some(&far) = ranks.get(k + 2 * AHEAD) {
                ask_entry(far);
            }
            let chunk = asked[k % AHEAD];
            if let Some(&near) = ranks.get(k + AHEAD) {
                asked[k % AHEAD] = ask_chunk(near);
            }
            let (rank, is_key) = chunk.find(x % CHUNK);
            *to = select_unpredictable(is_key, chunk.before.wrapping_add(rank), ABSENT);
        }
    }
}
