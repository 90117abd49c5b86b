//! One build at a time in a directory.
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
    path: PathBuf,
    // Holds the lock as long as it is open.
    _file: File,
}

impl DirLock {
    /// Takes the lock in this folder, which is created when it is missing.
    pub(crate) fn take(folder: &Path) -> Result<Self, StoreError> {
        let path = folder.join("lock");
        loop {
            create_dirs(folder)?;
            let fail = |error| StoreError::io("lock", &path, error);
            let mut file = match OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path) {
                // Removed by the build that just ended.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                opened => opened.map_err(fail)?,
            };
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let pid = fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
                    return Err(StoreError::Locked { path: folder.parent().unwrap_or(folder).to_owned(), pid });
                }
                Err(TryLockError::Error(error)) => return Err(fail(error)),
            }
            let mine = file.metadata().map_err(fail)?;
            match fs::metadata(&path) {
                Ok(named) if (named.dev(), named.ino()) == (mine.dev(), mine.ino()) => {}
                _ => continue,
            }
            file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(fail)?;
            return Ok(Self { path, _file: file });
        }
    }
}

impl Drop for DirLock {
    fn drop(&mut self) {
        // Before the lock goes, so that nobody who gets it then has it under a name that is gone.
        let _ = fs::remove_file(&self.path);
        if let Some(folder) = self.path.parent() {
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
