//! Places for tables that are not what a build hopes for: small file systems, and such as cannot be written.
//!
//! They need root and the `mount` command. Without those the tests that use them say so and do nothing.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use strata_storage::TableDir;

/// A temporary directory in memory where there is room for it, else on the disk. For tests that build small tables by the dozen: syncing
/// their files would be most of the time, and neither `kill -9` nor damage by hand can tell the difference.
///
/// # Panics
/// When there is no place for temporary directories.
pub fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let free = memory.is_dir().then(|| TableDir::open(memory).and_then(|dir| dir.free_bytes()).unwrap_or(0));
    let in_memory = free.filter(|&free| free > 1 << 30).and_then(|_| tempfile::tempdir_in(memory).ok());
    in_memory.unwrap_or_else(|| tempfile::tempdir().expect("a temporary directory can be made"))
}

/// A tmpfs, gone when this is dropped.
pub struct Mount {
    at: tempfile::TempDir,
}

impl Mount {
    /// A tmpfs with these options, such as `size=16m`. `None`, with a line on stderr, where it cannot be had.
    ///
    /// # Panics
    /// When there is no place for temporary directories.
    pub fn tmpfs(options: &str) -> Option<Self> {
        let at = tempfile::tempdir().expect("a temporary directory can be made");
        match Command::new("mount").args(["-t", "tmpfs", "-o", options, "strata-test"]).arg(at.path()).output() {
            Ok(output) if output.status.success() => Some(Self { at }),
            _ => {
                eprintln!("skipped: this test needs root and the mount command");
                None
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.at.path()
    }

    /// Mounts it again with other options, such as `ro`.
    ///
    /// # Panics
    /// When that fails.
    pub fn remount(&self, options: &str) {
        let output = Command::new("mount").args(["-o", &format!("remount,{options}")]).arg(self.path()).output();
        let output = output.expect("there is a mount command");
        assert!(output.status.success(), "{output:?}");
    }

    /// Fills it to the last byte with a file, and returns its path.
    ///
    /// # Panics
    /// When it cannot be filled.
    pub fn fill(&self) -> PathBuf {
        let path = self.path().join("ballast");
        let mut file = OpenOptions::new().create(true).append(true).open(&path).expect("the ballast can be made");
        for size in [1 << 20, 4096, 1] {
            let piece = vec![0x55; size];
            while file.write_all(&piece).is_ok() {}
        }
        assert!(fs::metadata(&path).is_ok_and(|meta| meta.len() > 0), "the ballast has no weight");
        path
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l"]).arg(self.path()).output(); // a leftover is a mount below /tmp, no harm
    }
}
