//! Copies of files of a bucket on a local disk, in bounded space.
//!
//! ```text
//!     <cache>/<n>/lock                               held by the process that uses place n
//!     <cache>/<n>/<bucket>/<table>/shards/...        as in the bucket; the name of a file has its hash
//! ```
//!
//! A copy is made under another name and renamed when its hash is right. It is mapped and never changed; one that is removed while it is mapped
//! stays readable until then. What was used longest ago goes first, and that is written down as the file's time of access, so the next process
//! knows it too. Several processes may be given the same folder: each takes a place of its own in it, which is bounded by itself.

use crate::dir::create_dirs;
use crate::error::StoreError;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, FileTimes, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Copies of files in a folder. Clones are the same.
#[derive(Clone, Debug)]
pub struct Shelf {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    limit: u64,
    held: Mutex<Held>,
    // Holds the place as long as it is open.
    _lock: File,
}

/// What is there. Stamps are larger for what was used later.
#[derive(Default, Debug)]
struct Held {
    files: HashMap<PathBuf, (u64, u64)>,
    by_use: BTreeMap<u64, PathBuf>,
    bytes: u64,
    next: u64,
}

impl Held {
    fn remove(&mut self, path: &Path) {
        if let Some((stamp, bytes)) = self.files.remove(path) {
            self.by_use.remove(&stamp);
            self.bytes -= bytes;
        }
    }

    fn insert(&mut self, path: &Path, bytes: u64) {
        self.remove(path);
        self.files.insert(path.to_owned(), (self.next, bytes));
        self.by_use.insert(self.next, path.to_owned());
        (self.next, self.bytes) = (self.next + 1, self.bytes + bytes);
    }
}

impl Shelf {
    /// Takes a place in a folder, which is made when it is missing, for at most `limit` bytes. What an earlier process left there is kept, as far
    /// as it has room.
    ///
    /// # Errors
    /// What the file system says.
    pub fn open(folder: &Path, limit: u64) -> Result<Self, StoreError> {
        create_dirs(folder)?;
        let folder = folder.canonicalize().map_err(|error| StoreError::io("open", folder, error))?;
        let (root, lock) = (0u32..)
            .find_map(|number| take(folder.join(number.to_string())).transpose())
            .expect("there are more numbers than processes")?;
        let mut found = Vec::new();
        walk(&root, &mut found)?;
        found.sort();
        let mut held = Held::default();
        found.into_iter().for_each(|(_, path, bytes)| held.insert(&path, bytes));
        let shelf = Self { inner: Arc::new(Inner { root, limit, held: Mutex::new(held), _lock: lock }) };
        shelf.make_room(&mut shelf.lock(), None);
        Ok(shelf)
    }

    /// Where the copies of a table are.
    pub(crate) fn folder(&self, bucket: &str, table: &str) -> PathBuf {
        let bucket: String = bucket.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
        self.inner.root.join(bucket).join(table)
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.inner.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file is there, and is used now. Others go where there is no room for it.
    pub(crate) fn use_now(&self, path: &Path, bytes: u64) {
        // Only the order of removal after a restart depends on it.
        let _ = File::open(path).and_then(|file| file.set_times(FileTimes::new().set_accessed(SystemTime::now())));
        let mut held = self.lock();
        held.insert(path, bytes);
        self.make_room(&mut held, Some(path));
    }

    /// A file is damaged, and goes.
    pub(crate) fn discard(&self, path: &Path) {
        self.lock().remove(path);
        // One that cannot be removed is replaced.
        let _ = fs::remove_file(path);
    }

    /// Bytes of the copies there are.
    pub fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    fn make_room(&self, held: &mut Held, keep: Option<&Path>) {
        while held.bytes > self.inner.limit {
            let Some(path) = held.by_use.values().find(|path| Some(path.as_path()) != keep).cloned() else { return };
            held.remove(&path);
            if let Err(error) = fs::remove_file(&path)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!(path = %path.display(), %error, "a copy cannot be removed from the cache");
            }
        }
    }
}

/// Takes a place; `None` when another process has it.
fn take(place: PathBuf) -> Result<Option<(PathBuf, File)>, StoreError> {
    create_dirs(&place)?;
    let path = place.join("lock");
    let fail = |error| StoreError::io("lock", &path, error);
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(fail)?;
    match file.try_lock() {
        Ok(()) => Ok(Some((place, file))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(fail(error)),
    }
}

/// The files below a folder with their times of use. What was being written when its process ended goes.
fn walk(folder: &Path, found: &mut Vec<(Duration, PathBuf, u64)>) -> Result<(), StoreError> {
    let fail = |error| StoreError::io("list", folder, error);
    for entry in fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let (path, metadata) = (entry.path(), entry.metadata().map_err(fail)?);
        if metadata.is_dir() {
            walk(&path, found)?;
        } else if folder.ends_with(crate::dir::TMP) {
            fs::remove_file(&path).map_err(|error| StoreError::io("remove", &path, error))?;
        } else if path.extension().is_some_and(|extension| extension == "shard") {
            let used = metadata.accessed().ok().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok()).unwrap_or_default();
            found.push((used, path, metadata.len()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(shelf: &Shelf, name: &str, bytes: usize) -> PathBuf {
        let path = shelf.folder("s3://b/p", "t").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, vec![1; bytes]).unwrap();
        shelf.use_now(&path, bytes as u64);
        path
    }

    #[test]
    fn what_was_used_longest_ago_goes_first_and_a_restart_remembers() {
        let temp = tempfile::tempdir().unwrap();
        let shelf = Shelf::open(temp.path(), 100).unwrap();
        let paths: Vec<PathBuf> = (0..3).map(|n| put(&shelf, &format!("{n}.shard"), 30)).collect();
        shelf.use_now(&paths[0], 30);
        let last = put(&shelf, "3.shard", 30);
        let there = |path: &Path| path.exists();
        assert!(there(&paths[0]) && !there(&paths[1]) && there(&paths[2]) && there(&last));
        assert_eq!(shelf.bytes(), 90);
        drop(shelf);
        let shelf = Shelf::open(temp.path(), 60).unwrap();
        assert_eq!(shelf.bytes(), 60);
        assert!(there(&paths[0]) && !there(&paths[2]) && there(&last), "the one that was used longest ago went");
        shelf.discard(&last);
        assert!(!there(&last) && shelf.bytes() == 30);
    }

    #[test]
    fn a_file_larger_than_all_of_it_stays_alone() {
        let temp = tempfile::tempdir().unwrap();
        let shelf = Shelf::open(temp.path(), 100).unwrap();
        let small = put(&shelf, "small.shard", 30);
        let large = put(&shelf, "large.shard", 500);
        assert!(!small.exists() && large.exists());
    }

    #[test]
    fn two_processes_have_places_of_their_own_and_unfinished_copies_go() {
        let temp = tempfile::tempdir().unwrap();
        let (one, two) = (Shelf::open(temp.path(), 100).unwrap(), Shelf::open(temp.path(), 100).unwrap());
        assert_ne!(one.folder("b", "t"), two.folder("b", "t"));
        let unfinished = one.folder("b", "t").join("build/tmp/1-2");
        fs::create_dir_all(unfinished.parent().unwrap()).unwrap();
        fs::write(&unfinished, "x").unwrap();
        drop(one);
        Shelf::open(temp.path(), 100).unwrap();
        assert!(!unfinished.exists());
    }
}
