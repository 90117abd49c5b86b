//! A file that is read a block at a time, each of which is compared with the hash of the file before any byte of it is used.
//!
//! Nothing is mapped, so nothing that happens to the file can end the process; and what was read once is a copy, so nothing that happens
//! to the file afterwards can change an answer. A question costs the blocks of 16 KiB that it needs: a probe of a shard of gigabytes,
//! on a disk or behind a URL, reads four. Blocks that were checked are kept in memory as long as there is room ([`GroupCache`]).

use crate::bucket::Bucket;
use crate::cache::{FileId, GroupCache};
use crate::digest::Digest;
use crate::error::Corruption;
use crate::tree::{BLOCK, Leaves};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Some bytes of a file.
#[derive(Clone, Debug)]
pub enum Piece<'a> {
    /// In place.
    Borrowed(&'a [u8]),
    /// A part of a block that others may read, too.
    Block(Arc<[u8]>, Range<usize>),
    /// From several blocks.
    Joined(Vec<u8>),
}

impl Deref for Piece<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Piece::Borrowed(bytes) => bytes,
            Piece::Block(bytes, range) => &bytes[range.clone()],
            Piece::Joined(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Piece<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// Bytes that can be read in part. Ranges are within the length.
pub(crate) trait Pieces<'a> {
    /// How many there are.
    fn length(&self) -> usize;

    /// Some of them.
    fn piece(&self, range: Range<usize>) -> Result<Piece<'a>, Corruption>;
}

impl<'a> Pieces<'a> for &'a [u8] {
    fn length(&self) -> usize {
        self.len()
    }

    fn piece(&self, range: Range<usize>) -> Result<Piece<'a>, Corruption> {
        Ok(Piece::Borrowed(&self[range]))
    }
}

/// Bytes of a file that were compared with its hash.
pub(crate) trait Trusted: Send + Sync + fmt::Debug {
    /// How many there are.
    fn length(&self) -> usize;

    /// Some of them.
    fn piece(&self, range: Range<usize>) -> Result<Piece<'static>, Corruption>;

    /// The chaining values of the blocks of the file, where they are known.
    fn leaves(&self) -> Option<&Leaves>;
}

/// Where the bytes of a file come from.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// A file. It is opened for each read: what is not in memory costs more than that, and no number of files is too large.
    File(PathBuf),
    /// An object of a store.
    Object(Bucket, String),
}

/// Blocks that are asked of a store at once. What is read of a shard lies close together, and a request costs more than its bytes.
const BLOCKS_A_REQUEST: u64 = 4;

impl Origin {
    /// How many bytes there are.
    pub(crate) fn length(&self) -> Result<u64, Corruption> {
        match self {
            Origin::File(path) => Ok(open(path)?.metadata().map_err(Corruption::Io)?.len()),
            Origin::Object(bucket, path) => {
                let length = bucket.block_on(bucket.objects().length(path)).map_err(unread)?;
                length.ok_or(Corruption::Missing)
            }
        }
    }

    /// Some of its bytes.
    pub(crate) fn read(&self, range: Range<u64>) -> Result<Vec<u8>, Corruption> {
        match self {
            Origin::File(path) => {
                let mut file = open(path)?;
                let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap_or(0)];
                let read = file.seek(SeekFrom::Start(range.start)).and_then(|_| file.read_exact(&mut bytes));
                match read {
                    Ok(()) => Ok(bytes),
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                        Err(Corruption::Malformed(format!("it was cut short: byte {} is not there", range.end - 1)))
                    }
                    Err(error) => Err(Corruption::Io(error)),
                }
            }
            Origin::Object(bucket, path) => bucket.block_on(bucket.read_range(path, range)),
        }
    }

    /// The blocks that are read when one is asked for.
    fn run(&self, number: u64) -> Range<u64> {
        let blocks = if matches!(self, Origin::File(_)) { 1 } else { BLOCKS_A_REQUEST };
        let first = number / blocks * blocks;
        first..first + blocks
    }
}

/// Opens a file for reading. A pipe does not keep it waiting, and cannot be read from a position.
fn open(path: &Path) -> Result<File, Corruption> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // The same bits as C has them, which are small and positive.
        options.custom_flags(i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0));
    }
    options.open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Corruption::Missing,
        _ => Corruption::Io(error),
    })
}

fn unread(error: impl std::error::Error + Send + Sync + 'static) -> Corruption {
    Corruption::Io(io::Error::other(error))
}

/// A file, a block at a time.
#[derive(Debug)]
pub(crate) struct Blocks {
    origin: Origin,
    length: u64,
    hash: Digest,
    /// None where the file is one block, which its hash is enough for.
    leaves: Option<Leaves>,
    cache: Arc<GroupCache>,
    file: FileId,
}

/// Where a column would be in the key of a group: blocks are kept beside groups.
const IS_BLOCK: usize = usize::MAX;

impl Blocks {
    /// Opens a file that must have this length and this hash. `values` are chaining values that may be its blocks'; where they are not, or there
    /// are none, all of the file is read once.
    pub(crate) fn open(
        origin: Origin,
        length: u64,
        hash: Digest,
        values: Option<Vec<u8>>,
        cache: &Arc<GroupCache>,
    ) -> Result<Self, Corruption> {
        let found = origin.length()?;
        if found != length {
            return Err(Corruption::Length { found, expected: length });
        }
        let known = values.map(|values| Leaves::from_bytes(&values)).filter(|leaves| leaves.root() == Some(hash));
        let leaves = match known {
            _ if length <= BLOCK => None,
            Some(leaves) => Some(leaves),
            None => {
                let leaves = Leaves::read(length, |range| origin.read(range))?;
                match leaves.root() {
                    Some(found) if found == hash => Some(leaves),
                    found => return Err(Corruption::Hash { found: found.unwrap_or_default(), expected: hash }),
                }
            }
        };
        Ok(Self { origin, length, hash, leaves, cache: cache.clone(), file: FileId::next() })
    }

    fn holds(&self, number: u64, bytes: &[u8]) -> bool {
        match &self.leaves {
            Some(leaves) => leaves.holds(number, bytes),
            None => Digest::blake3(bytes) == self.hash,
        }
    }

    fn block(&self, number: u64) -> Result<Arc<[u8]>, Corruption> {
        let key = |number| (self.file, IS_BLOCK, number);
        if let Some(bytes) = self.cache.get(key(number)) {
            return Ok(bytes);
        }
        let run = self.origin.run(number);
        let range = run.start * BLOCK..(run.end * BLOCK).min(self.length);
        let bytes = self.origin.read(range)?;
        let mut wanted = None;
        for (other, block) in run.zip(bytes.chunks(usize::try_from(BLOCK).unwrap_or(usize::MAX))) {
            // What was not asked for may be damaged without harm.
            if self.holds(other, block) {
                let block: Arc<[u8]> = block.into();
                self.cache.put(key(other), block.clone());
                wanted = if other == number { Some(block) } else { wanted };
            }
        }
        let at = number * BLOCK;
        wanted.ok_or(Corruption::Block { from: at, to: (at + BLOCK).min(self.length) })
    }
}

impl Trusted for Blocks {
    fn length(&self) -> usize {
        usize::try_from(self.length).unwrap_or(usize::MAX)
    }

    fn piece(&self, range: Range<usize>) -> Result<Piece<'static>, Corruption> {
        let size = usize::try_from(BLOCK).unwrap_or(usize::MAX);
        if range.is_empty() {
            return Ok(Piece::Borrowed(&[]));
        }
        let (first, last) = (range.start / size, (range.end - 1) / size);
        if first == last {
            let start = range.start - first * size;
            return Ok(Piece::Block(self.block(first as u64)?, start..start + range.len()));
        }
        let mut bytes = Vec::with_capacity(range.len());
        for number in first..=last {
            let block = self.block(number as u64)?;
            let start = range.start.max(number * size) - number * size;
            let end = (range.end - number * size).min(block.len());
            bytes.extend_from_slice(&block[start..end]);
        }
        Ok(Piece::Joined(bytes))
    }

    fn leaves(&self) -> Option<&Leaves> {
        self.leaves.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn opened(path: &Path, bytes: &[u8], values: Option<Vec<u8>>) -> Result<Blocks, Corruption> {
        let cache = Arc::new(GroupCache::new(1 << 20));
        Blocks::open(Origin::File(path.to_owned()), bytes.len() as u64, Digest::blake3(bytes), values, &cache)
    }

    #[test]
    fn every_range_of_a_file_comes_back_and_damage_is_told_by_the_block() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("x");
        for length in [1usize, 5, 16_384, 16_385, 40_000, 100_000] {
            let bytes: Vec<u8> = (0..length).map(|i| (i * i % 253) as u8).collect();
            fs::write(&path, &bytes).unwrap();
            let blocks = opened(&path, &bytes, None).unwrap();
            for (from, to) in
                [(0, 1), (0, length), (length / 2, length / 2 + 1), (length.saturating_sub(3), length), (length / 3, length)]
            {
                let to = to.max(from);
                assert_eq!(*blocks.piece(from..to).unwrap(), bytes[from..to], "{from}..{to} of {length}");
            }
            // Values from elsewhere are believed only where they lead to the hash.
            let values = blocks.leaves().map(Leaves::to_bytes);
            fs::write(&path, vec![7; length]).unwrap();
            let at_once = opened(&path, &bytes, None).map(|blocks| blocks.piece(0..1).is_err());
            assert!(matches!(at_once, Err(Corruption::Hash { .. }) | Ok(true)), "{at_once:?}");
            if let Some(values) = values {
                let blocks = opened(&path, &bytes, Some(values.clone())).unwrap();
                assert!(matches!(blocks.piece(0..1), Err(Corruption::Block { from: 0, to: 16_384 })));
                let mut half = bytes.clone();
                half[0] ^= 1;
                fs::write(&path, &half).unwrap();
                let blocks = opened(&path, &bytes, Some(values.clone())).unwrap();
                assert!(blocks.piece(0..1).is_err());
                assert_eq!(*blocks.piece(length - 1..length).unwrap(), bytes[length - 1..]);
                let mut wrong = values;
                wrong[40] ^= 1;
                fs::write(&path, &bytes).unwrap();
                assert!(opened(&path, &bytes, Some(wrong)).is_ok(), "what is wrong there is made again");
            }
        }
    }

    #[test]
    fn a_file_that_changes_under_an_open_table_is_an_error_or_what_it_was() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("x");
        let bytes: Vec<u8> = (0..50_000u32).map(|i| (i % 241) as u8).collect();
        fs::write(&path, &bytes).unwrap();
        let blocks = opened(&path, &bytes, None).unwrap();
        blocks.piece(0..10).unwrap();
        fs::write(&path, &bytes[..20_000]).unwrap();
        assert_eq!(*blocks.piece(0..10).unwrap(), bytes[..10], "what was read is kept");
        assert!(matches!(blocks.piece(40_000..40_001), Err(Corruption::Malformed(_))));
        fs::remove_file(&path).unwrap();
        assert!(matches!(blocks.piece(40_000..40_001), Err(Corruption::Missing)));
    }
}
