//! One build at a time in a directory, and one coordinator at a time on a store.
//!
//! The lock is `build/lock`, held with `flock`: the operating system lets go of it when the process ends, however it ends, so no stale
//! lock is ever in the way. The file names the process for people. It is removed when the lock is dropped; since another process
//! may have opened it just before, whoever gets the lock looks whether the file is still the one of that name.

use crate::dir::create_dirs;
use crate::error::StoreError;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Held while a build runs on a directory; let go when dropped.
#[derive(Debug)]
pub struct DirLock {
    /// The file; none where no lock is needed.
    path: Option<PathBuf>,
    // Holds the lock as long as it is open.
    _file: Option<File>,
}

impl DirLock {
    /// Takes the lock in this folder, which is created when it is missing.
    pub(crate) fn take(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join("lock");
        let locked =
            |text: &str| StoreError::Locked { path: folder.parent().unwrap_or(folder).to_owned(), pid: text.trim().parse().ok() };
        let file = take(folder, &path, &format!("{}\n", std::process::id()), locked)?;
        Ok(Self { path: Some(path), _file: Some(file) })
    }

    /// Where something else sees to it that one builds.
    pub(crate) fn unneeded() -> Self {
        Self { path: None, _file: None }
    }
}

/// The process that builds in a folder, if one does: its lock is held. Changes nothing.
pub(crate) fn holder(folder: &Path) -> Option<u32> {
    let path = folder.join("lock");
    let file = File::open(&path).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => fs::read_to_string(&path).ok()?.trim().parse().ok(),
        _ => None,
    }
}

/// Leadership of a store on a disk: held by one coordinator at a time, let go when dropped, or when the process ends.
#[derive(Debug)]
pub struct StoreLock {
    // Holds the lock as long as it is open. The file stays, and says who led last.
    _file: File,
}

impl StoreLock {
    /// Takes the lead of the store in this folder, which is created when it is missing. `leader` says who that is then, for people.
    ///
    /// # Errors
    /// [`StoreError::Led`] when somebody else leads it; what the file system says.
    pub fn take(store: &Path, leader: &str) -> Result<Self, StoreError> {
        let led = |text: &str| StoreError::Led {
            path: store.to_owned(),
            leader: if text.trim().is_empty() { "another coordinator".into() } else { text.trim().to_owned() },
        };
        let file = take(store, &store.join("coordinator.lock"), &format!("{leader}\n"), led)?;
        Ok(Self { _file: file })
    }
}

/// Opens a file of a folder, which is created when it is missing, and holds its lock; `text` is in it then. `locked` says from the text that is
/// there why it cannot be had.
fn take(folder: &Path, path: &Path, text: &str, locked: impl Fn(&str) -> StoreError) -> Result<File, StoreError> {
    loop {
        create_dirs(folder)?;
        let fail = |error| StoreError::io("lock", path, error);
        let mut file = match OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path) {
            // Removed by the build that just ended.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened.map_err(fail)?,
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(locked(&fs::read_to_string(path).unwrap_or_default())),
            Err(TryLockError::Error(error)) => return Err(fail(error)),
        }
        let mine = file.metadata().map_err(fail)?;
        match fs::metadata(path) {
            Ok(named) if (named.dev(), named.ino()) == (mine.dev(), mine.ino()) => {}
            _ => continue,
        }
        file.set_len(0).and_then(|()| file.write_all(text.as_bytes())).map_err(fail)?;
        return Ok(file);
    }
}

impl Drop for DirLock {
    fn drop(&mut self) {
        // Before the lock goes, so that nobody who gets it then has it under a name that is gone.
        let Some(path) = &self.path else { return };
        let _ = fs::remove_file(path);
        if let Some(folder) = path.parent() {
            // Only when nothing else is in it.
            let _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dir::TableDir;

    #[test]
    fn a_directory_is_locked_by_one_build_and_free_when_that_ends() {
        let temp = tempfile::tempdir().unwrap();
        let dir = TableDir::open(temp.path()).unwrap();
        let lock = dir.lock().unwrap();
        let error = dir.lock().unwrap_err();
        assert!(matches!(error, StoreError::Locked { pid: Some(pid), .. } if pid == std::process::id()), "{error}");
        assert!(error.to_string().contains("another build (process"), "{error}");
        drop(lock);
        assert!(!temp.path().join("build").exists());
        dir.lock().unwrap();
    }

    #[test]
    fn a_store_has_one_leader_and_says_who_that_is() {
        let temp = tempfile::tempdir().unwrap();
        let store = temp.path().join("tables");
        let lock = StoreLock::take(&store, "process 7 at 127.0.0.1:9").unwrap();
        let error = StoreLock::take(&store, "me").unwrap_err();
        assert!(error.to_string().contains("led by process 7 at 127.0.0.1:9;"), "{error}");
        drop(lock);
        StoreLock::take(&store, "me").unwrap();
    }

    #[test]
    fn many_threads_never_hold_it_together() {
        use std::sync::atomic::{AtomicU32, Ordering};
        let temp = tempfile::tempdir().unwrap();
        let dir = TableDir::open(temp.path()).unwrap();
        let (holders, taken) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        if let Ok(_lock) = dir.lock() {
                            assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                            taken.fetch_add(1, Ordering::SeqCst);
                            holders.fetch_sub(1, Ordering::SeqCst);
                        }
                    }
                });
            }
        });
        assert!(taken.load(Ordering::SeqCst) >= 4);
    }

    #[test]
    fn a_lock_left_by_a_killed_process_is_no_obstacle() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join("build")).unwrap();
        fs::write(temp.path().join("build/lock"), "999999\n").unwrap();
        TableDir::open(temp.path()).unwrap().lock().unwrap();
    }
}
