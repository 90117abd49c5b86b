//! What the machine has: cores, memory, room on a disk. Limits of a container (cgroup version 2) count.

use crate::failure::Failure;
use crate::units;
use std::path::{Path, PathBuf};

/// Cores that this process may use.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Threads of one of several workers that share them.
pub fn share(threads: usize, workers: usize, number: usize) -> usize {
    (threads / workers + usize::from(number < threads % workers)).max(1)
}

/// Name of this machine.
pub fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Memory to work with: what is given, or three quarters of what is free, or a little where the system does not say.
pub fn memory(given: Option<u64>) -> u64 {
    given.or_else(|| available_memory().map(|free| free / 4 * 3)).unwrap_or(1 << 30)
}

/// Threads to compute with.
pub fn pool(threads: usize) -> Result<rayon::ThreadPool, Failure> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|e| Failure::failed(format!("cannot start {threads} threads: {e}")).help("ask for fewer with --threads"))
}

/// Memory that can be had now without swapping, in bytes; `None` where the system does not say.
pub fn available_memory() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| meminfo(&text));
    let group = cgroup_dirs().into_iter().filter_map(|dir| {
        let read = |file: &str| std::fs::read_to_string(dir.join(file)).ok();
        let limit: u64 = read("memory.max")?.trim().parse().ok()?; // "max" where there is no limit
        let used: u64 = read("memory.current")?.trim().parse().ok()?;
        let cache = read("memory.stat").and_then(|text| stat(&text, "inactive_file")).unwrap_or(0);
        Some(limit.saturating_sub(used.saturating_sub(cache)))
    });
    machine.into_iter().chain(group).min()
}

/// `MemAvailable` of /proc/meminfo.
fn meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// A line of memory.stat.
fn stat(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// The control groups of this process, from its own up to the root.
fn cgroup_dirs() -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|l| l.strip_prefix("0::/")).unwrap_or_default();
    root.join(own).ancestors().take_while(|dir| dir.starts_with(root)).map(Path::to_path_buf).collect()
}

/// Bytes that this user may still write where `path` is, or will be.
pub fn free_disk(path: &Path) -> Option<u64> {
    let path = std::path::absolute(path).ok()?;
    let existing = path.ancestors().find(|p| p.exists())?;
    let stat = rustix::fs::statvfs(existing).ok()?;
    stat.f_bavail.checked_mul(stat.f_frsize)
}

/// Bytes of the files below a directory; what cannot be read counts nothing.
pub fn used_by(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => used_by(&entry.path()),
            Ok(meta) if meta.is_file() => meta.len(),
            _ => 0,
        })
        .sum()
}

/// Refuses what certainly does not fit in memory: `what` takes so many bytes.
pub fn expect_memory(needed: u64, what: &str, help: &str) -> Result<(), Failure> {
    match available_memory() {
        Some(free) if free < needed => {
            let (needed, free) = (units::bytes(needed), units::bytes(free));
            Err(Failure::failed(format!("{what} {needed} of memory, and {free} are free")).help(help))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_shared_out_and_no_worker_has_none() {
        let shares = |threads, workers| (0..workers).map(|n| share(threads, workers, n)).collect::<Vec<_>>();
        assert_eq!(shares(7, 3), [3, 2, 2]);
        assert_eq!(shares(2, 1), [2]);
        assert_eq!(shares(1, 3), [1, 1, 1]);
    }

    #[test]
    fn meminfo_is_in_kibibytes() {
        assert_eq!(meminfo("MemTotal:       24 kB\nMemAvailable:   16 kB\n"), Some(16 << 10));
        assert_eq!(meminfo("MemTotal: 24 kB\n"), None);
    }

    #[test]
    fn lines_of_memory_stat_are_found_by_their_whole_name() {
        assert_eq!(stat("inactive_file_x 1\ninactive_file 42\n", "inactive_file"), Some(42));
    }

    #[test]
    fn a_directory_that_is_still_to_be_made_has_the_room_of_its_parent() {
        let dir = tempfile::tempdir().unwrap();
        assert!(free_disk(&dir.path().join("a/b/c")).unwrap() > 0);
    }

    #[test]
    fn files_below_a_directory_are_added_up() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        std::fs::write(dir.path().join("a"), [0; 10]).unwrap();
        std::fs::write(dir.path().join("sub/b"), [0; 5]).unwrap();
        assert_eq!(used_by(dir.path()), 15);
    }
}
