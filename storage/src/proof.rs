//! Proofs that answers belong to a root: the bytes that were read for them, and the chaining values that lead from these to the root.
//!
//! The root of a table is the BLAKE3 of its manifest without the root, the manifest has the BLAKE3 of every shard, and a BLAKE3 is the root of a
//! Merkle tree over chunks of 1,024 bytes ([`tree`](crate::tree)). So a proof is a few *openings* of such trees: of the manifest, with everything in
//! it but the layers, and with the entries of the shards that were asked; and of each of these shards, with the chunks that were read. Whoever has
//! the root checks them without the table, and then answers the question again from them alone, by the very code that reads tables: what the
//! proof leaves out is an error. A proof of one value is some tens of kilobytes, whatever the size of the table.
//!
//! An opening is written by walking the tree from its root: of a subtree without an opened chunk its chaining value, of an opened chunk its
//! bytes, of any other node its left and then its right child.

use crate::blocks::{Piece, Trusted};
use crate::digest::Digest;
use crate::error::{Corruption, ShardError};
use crate::json::canonical_json;
use crate::manifest::{Manifest, ManifestLayer, ManifestShard};
use crate::record::{FileKind, artifact_path};
use crate::tree::{BLOCK, CHUNK, Leaves, Node, VALUE, Value, above, left_of, subtree};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Why a proof proves nothing.
#[derive(thiserror::Error, Debug)]
pub enum ProofError {
    /// It is of another root, or was changed.
    #[error("the proof does not lead to the root {root}: {part} leads to {found}")]
    Root {
        /// The root it should lead to.
        root: Digest,
        /// The opening that does not lead there.
        part: String,
        /// Where that leads.
        found: Digest,
    },
    /// It is not as a proof must be.
    #[error("the proof is not as the format says: {0}")]
    Malformed(String),
}

fn malformed(what: impl Into<String>) -> ProofError {
    ProofError::Malformed(what.into())
}

/// A proof, as it is written in JSON.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// The manifest without its root, in canonical JSON.
    manifest: Opening,
    /// Where the list of layers begins and ends in it.
    layers: (u64, u64),
    /// The shards that were asked.
    shards: Vec<ShardProof>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShardProof {
    /// Where its entry begins and ends in the manifest.
    entry: (u64, u64),
    /// Of the file.
    file: Opening,
}

/// Some chunks of a file, and what leads from them to its hash.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Opening {
    /// Length of the file in bytes.
    bytes: u64,
    /// The chunks: runs of their numbers, ascending, the ends not included.
    chunks: Vec<(u64, u64)>,
    /// The walk, in base 64.
    walk: String,
}

/// Which chunks of a file were read.
pub(crate) type Log = Arc<Mutex<BTreeSet<u64>>>;

/// A file that writes down what is read of it.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) file: Arc<dyn Trusted>,
    pub(crate) log: Log,
}

impl Trusted for Recorded {
    fn length(&self) -> usize {
        self.file.length()
    }

    fn piece(&self, range: Range<usize>) -> Result<Piece<'static>, Corruption> {
        let piece = self.file.piece(range.clone())?;
        if !range.is_empty() {
            let chunks = range.start as u64 / CHUNK..(range.end as u64).div_ceil(CHUNK);
            self.log.lock().unwrap_or_else(PoisonError::into_inner).extend(chunks);
        }
        Ok(piece)
    }

    fn leaves(&self) -> Option<&Leaves> {
        self.file.leaves()
    }
}

/// The chunks of a file that a proof has.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    length: u64,
    chunks: BTreeMap<u64, Vec<u8>>,
}

impl Opened {
    fn read(&self, range: Range<u64>) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let chunk = self.chunks.get(&(at / CHUNK))?;
            let from = usize::try_from(at % CHUNK).ok()?;
            let to = chunk.len().min(usize::try_from(range.end - at / CHUNK * CHUNK).ok()?);
            bytes.extend_from_slice(chunk.get(from..to).filter(|part| !part.is_empty())?);
            at = at / CHUNK * CHUNK + to as u64;
        }
        Some(bytes)
    }
}

impl Trusted for Opened {
    fn length(&self) -> usize {
        usize::try_from(self.length).unwrap_or(usize::MAX)
    }

    fn piece(&self, range: Range<usize>) -> Result<Piece<'static>, Corruption> {
        let missing =
            || Corruption::Malformed(format!("the proof does not have the bytes from {} to {}", range.start, range.end));
        self.read(range.start as u64..range.end as u64).map(Piece::Joined).ok_or_else(missing)
    }

    fn leaves(&self) -> Option<&Leaves> {
        None
    }
}

/// Bytes in memory that need no proof of their own: the manifest.
#[derive(Debug)]
struct Text(String);

impl Trusted for Text {
    fn length(&self) -> usize {
        self.0.len()
    }

    fn piece(&self, range: Range<usize>) -> Result<Piece<'static>, Corruption> {
        Ok(Piece::Joined(self.0.as_bytes()[range].to_vec()))
    }

    fn leaves(&self) -> Option<&Leaves> {
        None
    }
}

/// Runs of numbers that follow each other.
fn runs(numbers: &BTreeSet<u64>) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some(last) if last.1 == number => last.1 += 1,
            _ => runs.push((number, number + 1)),
        }
    }
    runs
}

/// Whether any chunk of a range is in the runs.
fn touches(runs: &[(u64, u64)], range: &Range<u64>) -> bool {
    runs.get(runs.partition_point(|run| run.1 <= range.start)).is_some_and(|run| run.0 < range.end)
}

fn chunks_of(bytes: u64) -> u64 {
    bytes.div_ceil(CHUNK).max(1)
}

impl Opening {
    fn of(file: &dyn Trusted, chunks: &BTreeSet<u64>) -> Result<Self, Corruption> {
        let bytes = file.length() as u64;
        let chunks = runs(chunks);
        let mut walk = Vec::new();
        write_walk(file, &chunks, 0..chunks_of(bytes), &mut walk)?;
        Ok(Self { bytes, chunks, walk: BASE64_STANDARD.encode(walk) })
    }

    /// The chunks, once it is clear that they are of the file with this hash. `part` is what is said of it otherwise.
    fn open(&self, hash: Digest, root: Digest, part: impl Fn() -> String) -> Result<Opened, ProofError> {
        let walk = BASE64_STANDARD.decode(&self.walk).map_err(|error| malformed(format!("{}: {error}", part())))?;
        let all = chunks_of(self.bytes);
        let ascending =
            self.chunks.iter().try_fold(0, |end, run| (run.0 >= end && run.1 > run.0 && run.1 <= all).then_some(run.1));
        if ascending.is_none() || self.chunks.is_empty() {
            return Err(malformed(format!("{}: the numbers of its chunks do not ascend", part())));
        }
        let mut opened = Opened { length: self.bytes, chunks: BTreeMap::new() };
        let mut rest = walk.as_slice();
        let node = read_walk(self, 0..all, true, &mut rest, &mut opened);
        let node =
            node.filter(|_| rest.is_empty()).ok_or_else(|| malformed(format!("{}: the walk has another length", part())))?;
        match node {
            Node::Root(found) if found == hash => Ok(opened),
            Node::Root(found) => Err(ProofError::Root { root, part: part(), found }),
            Node::Inner(_) => Err(malformed(format!("{}: the walk does not reach the top", part()))),
        }
    }
}

fn write_walk(file: &dyn Trusted, opened: &[(u64, u64)], chunks: Range<u64>, out: &mut Vec<u8>) -> Result<(), Corruption> {
    let count = chunks.end - chunks.start;
    if !touches(opened, &chunks) {
        out.extend_from_slice(&value(file, &chunks)?);
    } else if count == 1 {
        out.extend_from_slice(&file.piece(place(file.length() as u64, &chunks))?);
    } else {
        let middle = chunks.start + left_of(count);
        write_walk(file, opened, chunks.start..middle, out)?;
        write_walk(file, opened, middle..chunks.end, out)?;
    }
    Ok(())
}

/// Where some chunks are in a file of so many bytes.
fn place(bytes: u64, chunks: &Range<u64>) -> Range<usize> {
    let at = |chunk: u64| usize::try_from((chunk * CHUNK).min(bytes)).unwrap_or(usize::MAX);
    at(chunks.start)..at(chunks.end)
}

/// The chaining value of a subtree.
fn value(file: &dyn Trusted, chunks: &Range<u64>) -> Result<Value, Corruption> {
    const CHUNKS: u64 = BLOCK / CHUNK;
    let count = chunks.end - chunks.start;
    let known = file.leaves().filter(|_| chunks.start.is_multiple_of(CHUNKS) && count > CHUNKS / 2);
    // A block that ends the file may have fewer chunks than others, and is a subtree all the same.
    let is_block = chunks.end.is_multiple_of(CHUNKS) || chunks.end == chunks_of(file.length() as u64);
    if let Some(value) =
        known.filter(|_| is_block).and_then(|leaves| leaves.value(chunks.start / CHUNKS..chunks.end.div_ceil(CHUNKS)))
    {
        return Ok(value);
    }
    if count > CHUNKS {
        let middle = chunks.start + left_of(count);
        let (left, right) = (value(file, &(chunks.start..middle))?, value(file, &(middle..chunks.end))?);
        return match above(&left, &right, false) {
            Node::Inner(value) => Ok(value),
            Node::Root(_) => Err(Corruption::Malformed("a subtree is no tree".into())),
        };
    }
    Ok(subtree(chunks.start * CHUNK, &file.piece(place(file.length() as u64, chunks))?))
}

fn read_walk(opening: &Opening, chunks: Range<u64>, is_root: bool, rest: &mut &[u8], opened: &mut Opened) -> Option<Node> {
    let count = chunks.end - chunks.start;
    if !touches(&opening.chunks, &chunks) {
        let (value, after) = rest.split_first_chunk::<{ VALUE as usize }>()?;
        *rest = after;
        return Some(Node::Inner(*value));
    }
    if count == 1 {
        let (bytes, after) = rest.split_at_checked(place(opening.bytes, &chunks).len())?;
        *rest = after;
        opened.chunks.insert(chunks.start, bytes.to_vec());
        return Some(if is_root { Node::Root(Digest::blake3(bytes)) } else { Node::Inner(subtree(chunks.start * CHUNK, bytes)) });
    }
    let middle = chunks.start + left_of(count);
    let left = read_walk(opening, chunks.start..middle, false, rest, opened)?;
    let right = read_walk(opening, middle..chunks.end, false, rest, opened)?;
    match (left, right) {
        (Node::Inner(left), Node::Inner(right)) => Some(above(&left, &right, is_root)),
        _ => None,
    }
}

const LAYERS_BEGIN: &str = "\"layers\":[";
const LAYERS_END: &str = "],\"scalar_columns\":";

/// What a proof says of a table: its manifest, with the layers and shards that were asked and no others, and the chunks of these shards.
pub(crate) struct Proven {
    pub(crate) manifest: Manifest,
    pub(crate) files: BTreeMap<(u32, u32), Arc<Opened>>,
}

impl Proof {
    /// A proof of what was read of some shards of a table.
    pub(crate) fn of(
        manifest: &Manifest,
        read: impl IntoIterator<Item = (u32, u32, Arc<dyn Trusted>, BTreeSet<u64>)>,
    ) -> Result<Self, ShardError> {
        let text = manifest.content();
        let odd = |what: &str| ShardError::new(std::path::Path::new("table.json"), None, Corruption::Malformed(what.to_owned()));
        let at = |found: Option<usize>| found.ok_or_else(|| odd("it has no list of layers"));
        let begin = at(text.find(LAYERS_BEGIN))? + LAYERS_BEGIN.len();
        let end = at(text.rfind(LAYERS_END))?;
        let mut chunks = BTreeSet::new();
        let mut open = |from: usize, to: usize| chunks.extend(from as u64 / CHUNK..(to as u64).div_ceil(CHUNK));
        open(0, begin);
        open(end, text.len());
        let mut shards = Vec::new();
        for (layer, number, file, read) in read {
            let shard = manifest.layer(layer).and_then(|layer| layer.shards.iter().find(|shard| shard.shard == number));
            let entry = shard
                .and_then(|shard| canonical_json(shard).ok())
                .ok_or_else(|| odd("it does not have a shard that was asked"))?;
            let from = text.find(&entry).ok_or_else(|| odd("it does not have a shard that was asked"))?;
            open(from, from + entry.len());
            let name = || std::path::PathBuf::from(shard.map(|shard| shard.path.clone()).unwrap_or_default());
            let opening = Opening::of(file.as_ref(), &read).map_err(|cause| ShardError::new(&name(), None, cause))?;
            shards.push(ShardProof { entry: (from as u64, (from + entry.len()) as u64), file: opening });
        }
        let manifest = Opening::of(&Text(text), &chunks)
            .map_err(|cause| ShardError::new(std::path::Path::new("table.json"), None, cause))?;
        Ok(Self { manifest, layers: (begin as u64, end as u64), shards })
    }

    /// Checks it against a root.
    pub(crate) fn check(&self, root: Digest) -> Result<Proven, ProofError> {
        let text = self.manifest.open(root, root, || "the manifest".into())?;
        let read = |range: (u64, u64)| {
            let bytes = (range.0 <= range.1 && range.1 <= text.length).then(|| text.read(range.0..range.1)).flatten();
            bytes
                .and_then(|bytes| String::from_utf8(bytes).ok())
                .ok_or_else(|| malformed("it does not have a part of the manifest that it names"))
        };
        let head = read((0, self.layers.0))?;
        let tail = read((self.layers.1, text.length))?;
        if !head.ends_with(LAYERS_BEGIN) || !tail.starts_with(LAYERS_END) {
            return Err(malformed("the list of layers is not where it says"));
        }
        // Without layers and root, all else is as in the table: text between quotes cannot look like the end of the list.
        let mut manifest: Manifest =
            Manifest::without_layers(&format!("{head}{tail}"), root).map_err(|error| malformed(error.to_string()))?;
        let mut files = BTreeMap::new();
        let mut layers: BTreeMap<u32, Vec<ManifestShard>> = BTreeMap::new();
        for proof in &self.shards {
            if proof.entry.0 < self.layers.0 || proof.entry.1 > self.layers.1 {
                return Err(malformed("the entry of a shard is not in the list of layers"));
            }
            let entry = read(proof.entry)?;
            let shard: ManifestShard =
                serde_json::from_str(&entry).map_err(|error| malformed(format!("the entry of a shard: {error}")))?;
            let layer =
                layer_of(&shard).ok_or_else(|| malformed("the path of a shard is not the one that follows from its hash"))?;
            if shard.bytes != proof.file.bytes || shard.first_rank.checked_add(shard.universe).is_none() {
                return Err(malformed(format!("{} has another length", shard.path)));
            }
            let opened = proof.file.open(shard.blake3, root, || shard.path.clone())?;
            if files.insert((layer, shard.shard), Arc::new(opened)).is_some() {
                return Err(malformed(format!("{} is there twice", shard.path)));
            }
            layers.entry(layer).or_default().push(shard);
        }
        manifest.layers = layers.into_iter().map(|(layer, shards)| partial_layer(layer, shards)).collect();
        Ok(Proven { manifest, files })
    }
}

/// The layer of a shard, which its path has.
fn layer_of(shard: &ManifestShard) -> Option<u32> {
    let layer: u32 = shard.path.strip_prefix("shards/")?.split('/').next()?.parse().ok()?;
    (artifact_path(FileKind::Shard, layer, shard.shard, &shard.blake3) == shard.path).then_some(layer)
}

/// A layer of which only some shards are known.
fn partial_layer(layer: u32, mut shards: Vec<ManifestShard>) -> ManifestLayer {
    shards.sort_by_key(|shard| shard.shard);
    ManifestLayer { layer, universe: 0, states: 0, afterstates: 0, terminal: 0, stats: None, shards }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug)]
    struct Whole(Vec<u8>, Option<Leaves>);

    impl Trusted for Whole {
        fn length(&self) -> usize {
            self.0.len()
        }

        fn piece(&self, range: Range<usize>) -> Result<Piece<'static>, Corruption> {
            Ok(Piece::Joined(self.0[range].to_vec()))
        }

        fn leaves(&self) -> Option<&Leaves> {
            self.1.as_ref()
        }
    }

    fn whole(length: usize, with_leaves: bool) -> Whole {
        let bytes: Vec<u8> = (0..length).map(|i| (i * 7 + i / 255) as u8).collect();
        let read = |range: Range<u64>| Ok::<_, ()>(bytes[range.start as usize..range.end as usize].to_vec());
        let leaves = (with_leaves && length > BLOCK as usize).then(|| Leaves::read(length as u64, read).unwrap());
        Whole(bytes, leaves)
    }

    proptest! {
        #[test]
        fn an_opening_leads_to_the_hash_and_nothing_else_does(
            length in 1..200_000usize, picked in prop::collection::vec(any::<prop::sample::Index>(), 1..12), leaves: bool, at: prop::sample::Index,
        ) {
            let file = whole(length, leaves);
            let hash = Digest::blake3(&file.0);
            let all = chunks_of(length as u64);
            let chunks: BTreeSet<u64> = picked.iter().map(|i| i.index(all as usize) as u64).collect();
            let opening = Opening::of(&file, &chunks).unwrap();
            let opened = opening.open(hash, hash, String::new).unwrap();
            for &chunk in &chunks {
                let range = place(length as u64, &(chunk..chunk + 1));
                prop_assert_eq!(&*opened.piece(range.clone()).unwrap(), &file.0[range]);
            }
            for chunk in (0..all).filter(|chunk| !chunks.contains(chunk)).take(3) {
                prop_assert!(opened.piece(place(length as u64, &(chunk..chunk + 1))).is_err());
            }
            // No other bytes lead there: not with one bit changed, nor with another length, nor with other numbers.
            let mut walk = BASE64_STANDARD.decode(&opening.walk).unwrap();
            let at = at.index(walk.len());
            walk[at] ^= 1 << (at % 8);
            let changed = Opening { walk: BASE64_STANDARD.encode(&walk), ..opening.clone() };
            prop_assert!(changed.open(hash, hash, String::new).is_err());
            // The end of a file is bound by its last chunk; proofs have that of the manifest, which has the lengths of the shards.
            let longer = Opening { bytes: opening.bytes + CHUNK, ..opening.clone() };
            prop_assert!(longer.open(hash, hash, String::new).is_err() || !chunks.contains(&(all - 1)));
            if !chunks.contains(&0) {
                let moved = Opening { chunks: opening.chunks.iter().map(|&(a, b)| (a - 1, b - 1)).collect(), ..opening };
                prop_assert!(moved.open(hash, hash, String::new).is_err());
            }
        }

        #[test]
        fn any_opening_is_refused_or_read(
            bytes: u64, chunks in prop::collection::vec((0..40u64, 0..40u64), 0..4), walk in prop::collection::vec(any::<u8>(), 0..3000),
        ) {
            let opening = Opening { bytes, chunks, walk: BASE64_STANDARD.encode(walk) };
            prop_assert!(opening.open(Digest::default(), Digest::default(), String::new).is_err());
        }
    }
}
