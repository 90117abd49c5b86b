//! Which inputs this process has read and found to be what their hashes say.
//!
//! A task's inputs are named with their hashes. Before a file is used for the first time in a process all of it is hashed; later uses
//! look here. The memory is of one state of the file: another length, time of change or inode, and it is hashed again.
//! Section checksums, checked on every use, catch what changes underneath without any of these; but working numbers that are read in
//! place (`singles`) have the hash alone.

use crate::error::IoFault;
use std::collections::HashMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::SystemTime;
use strata_storage::{Corruption, Digest, FileRecord, TableDir, check_copy};

#[derive(PartialEq, Eq)]
struct Known {
    digest: Digest,
    bytes: u64,
    changed: Option<SystemTime>,
    inode: u64,
}

static VERIFIED: LazyLock<Mutex<HashMap<PathBuf, Known>>> = LazyLock::new(Mutex::default);

/// Checks that a file is what its record says, by content; one of an object store is copied here first.
pub(crate) fn verify(dir: &TableDir, record: &FileRecord) -> Result<(), IoFault> {
    let path = dir.path(&record.path);
    let fetch = || {
        dir.fetch(record).map_err(|error| match error {
            Corruption::Io(error) => IoFault::Unread { path: dir.shown(&record.path), cause: error.to_string() },
            damage => IoFault::BadInput { path: dir.shown(&record.path), cause: damage.to_string() },
        })
    };
    if fetch()? {
        if let Ok(now) = state_of(&path, record) {
            VERIFIED.lock().unwrap_or_else(PoisonError::into_inner).insert(path, now);
        }
        return Ok(());
    }
    match verify_file(dir, record, &path) {
        // A copy that went bad on this disk is no reason to doubt what it was made of.
        Err(IoFault::BadInput { cause, .. }) if dir.discard_copy(record) => {
            tracing::warn!(path = %path.display(), cause, "a copy in the cache is damaged; it is made again");
            fetch()?;
            verify_file(dir, record, &path)
        }
        verified => verified,
    }
}

fn verify_file(dir: &TableDir, record: &FileRecord, path: &Path) -> Result<(), IoFault> {
    let fail = |cause: String| IoFault::BadInput { path: path.to_owned(), cause };
    // Taken before the hash: a change in between makes the next look differ, and the file is hashed again.
    let now = state_of(path, record).map_err(fail)?;
    if now.bytes != record.bytes {
        return Err(fail(format!("it has {} bytes instead of {}", now.bytes, record.bytes)));
    }
    if VERIFIED.lock().unwrap_or_else(PoisonError::into_inner).get(path) == Some(&now) {
        return Ok(());
    }
    check_copy(dir, record).map_err(|error| fail(error.to_string()))?;
    VERIFIED.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), now);
    Ok(())
}

fn state_of(path: &Path, record: &FileRecord) -> Result<Known, String> {
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "the file is missing".to_owned(),
        _ => error.to_string(),
    })?;
    Ok(Known { digest: record.blake3, bytes: metadata.len(), changed: metadata.modified().ok(), inode: inode(&metadata) })
}

#[cfg(unix)]
fn inode(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

#[cfg(not(unix))]
fn inode(_: &Metadata) -> u64 {
    0
}
