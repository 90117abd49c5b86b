//! The bytes of a file, read in place; or a block at a time, where they must not be mapped. The only unsafe code of the file layer is here.
//!
//! A map of a file that somebody cuts short kills the process that touches the missing pages. So the length is compared with what it
//! must be before the file is mapped, files are never changed once they have their name (docs/FORMAT.md, "What is assumed of the
//! disk"), and what is not ours, such as records and the manifest, is never mapped.
#![allow(unsafe_code)]

use crate::blocks::{Piece, Pieces, Trusted};
use crate::error::Corruption;
use memmap2::{Advice, Mmap, UncheckedAdvice};
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Bytes that are mapped from a file, or owned, or read when they are asked for.
#[derive(Debug)]
pub(crate) enum Bytes {
    /// A map of a whole file, for reading.
    Mapped(Mmap),
    /// Bytes from anywhere else.
    Owned(Vec<u8>),
    /// Bytes that were compared with the hash of the file; read when they are asked for.
    Trusted(Arc<dyn Trusted>),
}

/// Why a file was not mapped.
#[derive(Debug)]
pub(crate) enum MapError {
    /// It is not as long as it must be.
    Length { found: u64, expected: u64 },
    /// The operating system refused.
    Io(io::Error),
}

/// Maps a file of `expected` bytes; of any length where that is `None`.
pub(crate) fn map(path: &Path, expected: Option<u64>) -> Result<Bytes, MapError> {
    // Looked at before it is opened: opening a pipe waits for somebody to write into it.
    if !fs::metadata(path).map_err(MapError::Io)?.is_file() {
        return Err(MapError::Io(io::Error::other("it is not a file")));
    }
    let file = File::open(path).map_err(MapError::Io)?;
    let found = file.metadata().map_err(MapError::Io)?.len();
    if let Some(expected) = expected.filter(|&expected| expected != found) {
        return Err(MapError::Length { found, expected });
    }
    if found == 0 {
        return Ok(Bytes::Owned(Vec::new()));
    }
    // SAFETY: shard files are immutable: nobody writes to or truncates one after it got its name.
    let map = unsafe { Mmap::map(&file) }.map_err(MapError::Io)?;
    Ok(Bytes::Mapped(map))
}

impl Bytes {
    /// The bytes, where they are in memory.
    pub(crate) fn in_place(&self) -> Option<&[u8]> {
        match self {
            Bytes::Mapped(map) => Some(map),
            Bytes::Owned(bytes) => Some(bytes),
            Bytes::Trusted(_) => None,
        }
    }

    /// Whether they were compared with the hash of the file: no checksum tells more.
    pub(crate) fn is_trusted(&self) -> bool {
        matches!(self, Bytes::Trusted(_))
    }

    /// Tells the operating system that a range will be read from front to back soon. Only a hint.
    pub(crate) fn will_read(&self, range: Range<usize>) {
        self.advise(Advice::WillNeed, range);
    }

    /// Tells the operating system that a range is read here and there: reading ahead would be wasted. Only a hint.
    pub(crate) fn read_at_random(&self, range: Range<usize>) {
        self.advise(Advice::Random, range);
    }

    /// Takes back what [`read_at_random`](Self::read_at_random) said. Only a hint.
    pub(crate) fn read_in_order(&self, range: Range<usize>) {
        self.advise(Advice::Normal, range);
    }

    /// Tells the operating system to bring in no more around a page that is read than it must: of large pages it would be megabytes. Only a
    /// hint.
    pub(crate) fn read_little_by_little(&self) {
        #[cfg(target_os = "linux")]
        if let Bytes::Mapped(map) = self {
            // A hint that is refused changes no answer.
            let _ = map.advise(Advice::NoHugePage);
        }
    }

    /// Takes the pages out of this process's memory; they come back from the file.
    pub(crate) fn release(&self) {
        if let Bytes::Mapped(map) = self {
            // SAFETY: the map is never written through, so pages that are dropped come back from the file as they were.
            // Only a hint: what is refused stays in memory.
            let _ = unsafe { map.unchecked_advise(UncheckedAdvice::DontNeed) };
        }
    }

    fn advise(&self, advice: Advice, range: Range<usize>) {
        if let Bytes::Mapped(map) = self {
            // A hint that is refused changes no answer.
            let _ = map.advise_range(advice, range.start, range.len());
        }
    }
}

impl<'a> Pieces<'a> for &'a Bytes {
    fn length(&self) -> usize {
        match self {
            Bytes::Mapped(map) => map.len(),
            Bytes::Owned(bytes) => bytes.len(),
            Bytes::Trusted(file) => file.length(),
        }
    }

    #[inline]
    fn piece(&self, range: Range<usize>) -> Result<Piece<'a>, Corruption> {
        match self {
            Bytes::Mapped(map) => Ok(Piece::Borrowed(&map[range])),
            Bytes::Owned(bytes) => Ok(Piece::Borrowed(&bytes[range])),
            Bytes::Trusted(file) => file.piece(range),
        }
    }
}

/// A section of a file.
#[derive(Clone, Debug)]
pub(crate) struct Part<'a> {
    pub(crate) bytes: &'a Bytes,
    pub(crate) range: Range<usize>,
}

impl<'a> Pieces<'a> for Part<'a> {
    fn length(&self) -> usize {
        self.range.len()
    }

    #[inline]
    fn piece(&self, range: Range<usize>) -> Result<Piece<'a>, Corruption> {
        let start = self.range.start;
        self.bytes.piece(start + range.start..start + range.end)
    }
}
