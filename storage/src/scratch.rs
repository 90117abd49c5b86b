//! Memory with a file behind it: for work that is larger than memory.
//!
//! The file has its room on the disk from the start, so that writing to the map cannot fail later, and no name, so that it is gone
//! with the process whatever happens to it. The map is shared: what is written stays in the file, and taking pages out of this process
//! ([`ScratchMap::releaser`]) loses nothing.
#![allow(unsafe_code)]

use crate::dir::TableDir;
use crate::error::StoreError;
use memmap2::{MmapRaw, UncheckedAdvice};
use rustix::fs::FallocateFlags;
use std::fs::{self, OpenOptions};
use std::sync::Arc;

/// A map of a file without a name, for reading and writing.
#[derive(Debug)]
pub struct ScratchMap {
    map: Arc<MmapRaw>,
    length: usize,
}

impl TableDir {
    /// Zeroed memory of so many bytes with a temporary file of this directory behind it.
    pub fn scratch(&self, bytes: u64) -> Result<ScratchMap, StoreError> {
        let path = self.tmp_path()?;
        let fail = |doing: &'static str| {
            let path = path.clone();
            move |error: std::io::Error| StoreError::io(doing, &path, error)
        };
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).map_err(fail("create"))?;
        fs::remove_file(&path).map_err(fail("remove"))?;
        let length = usize::try_from(bytes).map_err(|error| fail("map")(std::io::Error::other(error)))?;
        // A map of no bytes is refused by the system.
        let room = bytes.max(1);
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, room).map_err(|error| fail("reserve room for")(error.into()))?;
        let map = MmapRaw::map_raw(&file).map_err(fail("map"))?;
        Ok(ScratchMap { map: Arc::new(map), length })
    }
}

impl ScratchMap {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the map has at least `length` bytes, lives as long as `self`, and is written through `&mut self` alone: its file
        // has no name, so nobody else can open it.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr(), self.length) }
    }

    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`; `&mut self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.map.as_mut_ptr(), self.length) }
    }

    /// Takes the map out of this process's memory when called. The bytes stay what they are, in the file or on the way to it.
    pub fn releaser(&self) -> impl Fn() + Send + Sync + 'static {
        let map = Arc::clone(&self.map);
        move || {
            // SAFETY: the map is a shared map of a file: pages that are dropped come back from the file with what was written to them.
            // Only a hint: what is refused stays in memory.
            let _ = unsafe { map.unchecked_advise(UncheckedAdvice::DontNeed) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_survives_being_released_and_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let dir = TableDir::open(folder.path()).unwrap();
        let mut scratch = dir.scratch(3 << 20).unwrap();
        assert!(scratch.bytes().iter().all(|&byte| byte == 0));
        for (i, byte) in scratch.bytes_mut().iter_mut().enumerate() {
            *byte = (i % 251) as u8;
        }
        scratch.releaser()();
        assert!(scratch.bytes().iter().enumerate().all(|(i, &byte)| usize::from(byte) == i % 251));
        assert_eq!(fs::read_dir(dir.path("build/tmp")).unwrap().count(), 0);
        assert!(dir.scratch(0).unwrap().bytes().is_empty());
    }

    #[test]
    fn more_than_the_disk_has_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let error = TableDir::open(folder.path()).unwrap().scratch(1 << 60).unwrap_err();
        assert!(error.to_string().contains("reserve room"), "{error}");
    }
}
