//! BLAKE3's own tree over a file: so that a part of it can be checked without the rest.
//!
//! BLAKE3 cuts its input into chunks of 1,024 bytes and hashes them in a binary tree, whose left subtrees are full (J. O'Connor and others,
//! *BLAKE3: one function, fast everywhere*, 2020, section 2.1). Every node has a *chaining value* of 32 bytes; that of the root, finished in
//! another way, is the hash of the file. Here the tree is cut off at *blocks* of 16 KiB: whoever has the chaining values of all blocks
//! of a file (two thousandths of its bytes) can find out whether they are those of the hash, by hashing them alone, and from then on check
//! any block by itself. Smaller blocks would cost more memory, larger ones more reading for one answer.
//!
//! `TREES` beside a published table has the chaining values of its larger shards, one after the other in the order of the manifest. Nothing
//! there is believed: what does not lead to the hash in the manifest is made again from the file.

use crate::blocks::Origin;
use crate::digest::Digest;
use crate::error::{Corruption, ShardError};
use crate::manifest::{Manifest, ManifestShard};
use blake3::hazmat::{HasherExt, Mode, merge_subtrees_non_root, merge_subtrees_root};
use rayon::prelude::*;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;

/// Name of the file with the chaining values of the larger shards of a published table.
pub(crate) const TREES: &str = "TREES";
/// Bytes of a block.
pub(crate) const BLOCK: u64 = 16 << 10;
/// Bytes of a chunk of BLAKE3.
pub(crate) const CHUNK: u64 = blake3::CHUNK_LEN as u64;
/// Shards of at most so many bytes are not in `TREES`: to read all of them is as quick as to look there.
const SMALL: u64 = 1 << 20;
/// Bytes of a chaining value.
pub(crate) const VALUE: u64 = blake3::OUT_LEN as u64;

/// The chaining value of a node.
pub(crate) type Value = blake3::hazmat::ChainingValue;

/// The chaining value of a subtree over some bytes of a longer file, which begin at `at`: of a chunk, a block, or whatever else is one.
pub(crate) fn subtree(at: u64, bytes: &[u8]) -> Value {
    blake3::Hasher::new().set_input_offset(at).update(bytes).finalize_non_root()
}

/// The node above two others: the hash of the file when it is the root.
pub(crate) enum Node {
    /// The hash of the file.
    Root(Digest),
    /// Any other.
    Inner(Value),
}

/// The node above two others.
pub(crate) fn above(left: &Value, right: &Value, is_root: bool) -> Node {
    if is_root {
        Node::Root(Digest(*merge_subtrees_root(left, right, Mode::Hash).as_bytes()))
    } else {
        Node::Inner(merge_subtrees_non_root(left, right, Mode::Hash))
    }
}

/// How many of `n` parts of equal size, the last of which may be shorter, are below the left child of the node above them.
pub(crate) fn left_of(n: u64) -> u64 {
    1 << (n - 1).ilog2()
}

/// The chaining values of the blocks of a file that is longer than one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Leaves(Vec<Value>);

impl Leaves {
    /// Those of a file, read from front to back by `read`.
    pub(crate) fn read<E>(length: u64, mut read: impl FnMut(Range<u64>) -> Result<Vec<u8>, E>) -> Result<Self, E> {
        let leaves = Self::read_while(length, |range| read(range).map(Some))?;
        // Nothing stops it.
        Ok(leaves.unwrap_or(Self(Vec::new())))
    }

    /// The same; `None` as soon as `read` gives nothing.
    fn read_while<E>(length: u64, mut read: impl FnMut(Range<u64>) -> Result<Option<Vec<u8>>, E>) -> Result<Option<Self>, E> {
        // A megabyte at a time.
        const RUN: u64 = 64 * BLOCK;
        let mut values = Vec::new();
        for from in (0..length).step_by(usize::try_from(RUN).unwrap_or(usize::MAX)) {
            let Some(bytes) = read(from..(from + RUN).min(length))? else { return Ok(None) };
            let starts = (from..).step_by(usize::try_from(BLOCK).unwrap_or(usize::MAX));
            values.extend(
                starts.zip(bytes.chunks(usize::try_from(BLOCK).unwrap_or(usize::MAX))).map(|(at, block)| subtree(at, block)),
            );
        }
        Ok(Some(Self(values)))
    }

    /// From bytes as `TREES` has them.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Self(bytes.as_chunks().0.to_vec())
    }

    /// As `TREES` has them.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.0.concat()
    }

    /// The hash of the file that has these blocks; `None` when that cannot be told from them, because there is only one.
    pub(crate) fn root(&self) -> Option<Digest> {
        match self.node(0..self.0.len() as u64, true)? {
            Node::Root(hash) => Some(hash),
            Node::Inner(_) => None,
        }
    }

    /// The chaining value of the subtree over some blocks.
    pub(crate) fn value(&self, blocks: Range<u64>) -> Option<Value> {
        match self.node(blocks, false)? {
            Node::Inner(value) => Some(value),
            Node::Root(_) => None,
        }
    }

    fn node(&self, blocks: Range<u64>, is_root: bool) -> Option<Node> {
        let count = blocks.end.checked_sub(blocks.start)?;
        match count {
            0 => None,
            1 => Some(Node::Inner(*self.0.get(usize::try_from(blocks.start).ok()?)?)),
            _ => {
                let middle = blocks.start + left_of(count);
                Some(above(&self.value(blocks.start..middle)?, &self.value(middle..blocks.end)?, is_root))
            }
        }
    }

    /// Whether a block is the one that was hashed.
    pub(crate) fn holds(&self, number: u64, bytes: &[u8]) -> bool {
        let value = usize::try_from(number).ok().and_then(|number| self.0.get(number));
        value.is_some_and(|value| *value == subtree(number * BLOCK, bytes))
    }
}

/// Where the chaining values of each shard are in `TREES`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Trees {
    /// For each layer, where its shards begin; in the order of the manifest.
    starts: Vec<Vec<u64>>,
    /// Length of the file.
    pub(crate) length: u64,
}

impl Trees {
    /// As a manifest has it.
    pub(crate) fn of(manifest: &Manifest) -> Self {
        let mut length = 0;
        let mut place = |bytes: u64| {
            let at = length;
            length += values_bytes(bytes);
            at
        };
        let starts = manifest.layers.iter().map(|layer| layer.shards.iter().map(|shard| place(shard.bytes)).collect()).collect();
        Self { starts, length }
    }

    /// Where those of a shard of so many bytes are, by the position of its layer and its own in the manifest; `None` for a small one.
    pub(crate) fn range(&self, layer: usize, shard: usize, bytes: u64) -> Option<Range<u64>> {
        let start = *self.starts.get(layer)?.get(shard)?;
        let length = values_bytes(bytes);
        (length > 0).then(|| start..start + length)
    }
}

/// Why `TREES` was not written.
#[derive(thiserror::Error, Debug)]
pub enum TreesError {
    /// A shard is not what the manifest says.
    #[error(transparent)]
    Shard(#[from] ShardError),
    /// It could not be written.
    #[error("cannot write TREES: {0}")]
    Write(#[source] io::Error),
}

/// Writes the content of `TREES` for a table in a folder. Reads the larger shards as a whole, on the threads of the rayon pool it is called in, and
/// refuses those that are not what the manifest says. `go_on` is told the bytes read of a shard, by many threads; when it answers `false` the
/// work stops, and the answer is `false`.
///
/// # Errors
/// See [`TreesError`].
pub fn write_trees(
    root: &Path,
    manifest: &Manifest,
    out: &mut dyn Write,
    go_on: &(dyn Fn(u64) -> bool + Sync),
) -> Result<bool, TreesError> {
    // So many are in memory at a time: a five hundredth of their bytes.
    const AT_A_TIME: usize = 64;
    let shards: Vec<&ManifestShard> =
        manifest.layers.iter().flat_map(|layer| &layer.shards).filter(|shard| values_bytes(shard.bytes) > 0).collect();
    for shards in shards.chunks(AT_A_TIME) {
        let leaves = |shard: &&ManifestShard| {
            let path = root.join(&shard.path);
            let origin = Origin::File(path.clone());
            let read = |range: Range<u64>| match go_on(range.end - range.start) {
                true => origin.read(range).map(Some),
                false => Ok(None),
            };
            let fail = |cause| ShardError::new(&path, None, cause);
            let leaves = Leaves::read_while(shard.bytes, read).map_err(fail)?;
            match leaves.as_ref().map(Leaves::root) {
                Some(root) if root != Some(shard.blake3) => {
                    Err(fail(Corruption::Hash { found: root.unwrap_or_default(), expected: shard.blake3 }))
                }
                _ => Ok(leaves),
            }
        };
        let leaves: Vec<Option<Leaves>> = shards.par_iter().map(leaves).collect::<Result<_, ShardError>>()?;
        for leaves in leaves {
            let Some(leaves) = leaves else { return Ok(false) };
            out.write_all(&leaves.to_bytes()).map_err(TreesError::Write)?;
        }
    }
    Ok(true)
}

/// Bytes that a shard takes in `TREES`.
fn values_bytes(bytes: u64) -> u64 {
    if bytes <= SMALL { 0 } else { bytes.div_ceil(BLOCK) * VALUE }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(length: u64) -> Vec<u8> {
        // As the test vectors of BLAKE3 have it.
        (0..length).map(|i| (i % 251) as u8).collect()
    }

    fn leaves(bytes: &[u8]) -> Leaves {
        let read = |range: Range<u64>| Ok::<_, ()>(bytes[range.start as usize..range.end as usize].to_vec());
        Leaves::read(bytes.len() as u64, read).unwrap()
    }

    #[test]
    fn the_tree_ends_in_the_hash_of_the_file_whatever_its_length() {
        for length in [16_385, 20_000, 32_768, 32_769, 50_000, 65_536, 102_400, 1_000_000, 1_048_576, 1_048_577, 3_000_001] {
            let bytes = file(length);
            let leaves = leaves(&bytes);
            assert_eq!(leaves.root(), Some(Digest::blake3(&bytes)), "{length}");
            assert_eq!(Leaves::from_bytes(&leaves.to_bytes()), leaves);
            for (number, block) in (0..).zip(bytes.chunks(16 << 10)) {
                assert!(leaves.holds(number, block));
                assert!(!leaves.holds(number + 1, block), "block {number} of {length} in another's place");
            }
        }
    }

    #[test]
    fn the_published_hash_of_a_hundred_kibibytes_comes_out() {
        // test_vectors.json of BLAKE3, input length 102,400.
        let expected = "bc3e3d41a1146b069abffad3c0d44860cf664390afce4d9661f7902e7943e085";
        assert_eq!(leaves(&file(102_400)).root().unwrap().to_string(), expected);
    }

    #[test]
    fn one_block_has_no_tree() {
        assert_eq!(leaves(&file(16_384)).root(), None);
        assert_eq!(leaves(&[]).root(), None);
    }
}
