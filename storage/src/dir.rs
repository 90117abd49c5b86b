//! The place of one table, while it is built: a directory, or a prefix of an object store.
//!
//! Two kinds of files live in it. *Records* (JSON, small) go through an object store's calls in either case: `put_new`
//! creates a record only if there is none of that name, which is how two workers that finished the same task find out. *Shard files*
//! are written to a file in `build/tmp` that gets its name when every byte is on the disk; where the table is in an object store that is the
//! copy of a [`Shelf`], and it is brought there then. Files of an object store are read the same way: copied to the shelf, hashed, and mapped.
//!
//! Every write is durable when the call returns: the file is synced, and so is each folder whose entries changed. The exception are files of
//! kinds that are fleeting ([`FileKind::is_fleeting`](crate::FileKind::is_fleeting)).

use crate::bucket::Bucket;
use crate::error::{Corruption, ShardError, StoreError};
use crate::lock::DirLock;
use crate::objects::{Objects, PutOutcome};
use crate::record::FileRecord;
use crate::shard::ShardFile;
use crate::shelf::Shelf;
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Where files are written before they get their names.
pub(crate) const TMP: &str = "build/tmp";

/// How often at most it is asked whether a table in an object store is complete.
const LOOK: Duration = Duration::from_secs(10);

/// The place of one table, while it is built. Clones are the same place.
#[derive(Clone, Debug)]
pub struct TableDir {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Where its files are in the file system; of an object store, copies of them.
    root: PathBuf,
    /// Its records, and all else that is in the store.
    objects: Objects,
    far: Option<Remote>,
    /// Numbers the files in `build/tmp` of this process.
    next: AtomicU64,
}

/// A table in an object store.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) bucket: Bucket,
    pub(crate) table: String,
    shelf: Option<Shelf>,
    /// When it was last looked whether the table is complete, and it was not.
    looked: Mutex<Option<Instant>>,
}

impl Remote {
    /// The name of one of its files in the store.
    pub(crate) fn name(&self, path: &str) -> String {
        format!("{}/{path}", self.table)
    }
}

impl TableDir {
    /// Opens a table's directory, and creates it when it is missing. What is in it already is not looked at.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        match fs::metadata(root) {
            Ok(metadata) if !metadata.is_dir() => return Err(StoreError::NotADirectory { path: root.to_owned() }),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => create_dirs(root)?,
            Err(error) => return Err(StoreError::io("open", root, error)),
        }
        let root = root.canonicalize().map_err(|error| StoreError::io("open", root, error))?;
        fs::read_dir(&root).map_err(|error| StoreError::io("open", &root, error))?;
        let store =
            LocalFileSystem::new_with_prefix(&root).map_err(|error| StoreError::object("open", &root, error))?.with_fsync(true);
        let objects = Objects::new(Arc::new(store), ObjectPath::default(), root.clone());
        Ok(Self { inner: Arc::new(Inner { root, objects, far: None, next: AtomicU64::new(0) }) })
    }

    /// The place of a table in an object store. Without a shelf, records can be written and read, and files checked and removed, which is all that
    /// a coordinator does.
    pub(crate) fn of_bucket(bucket: Bucket, table: &str, shelf: Option<Shelf>) -> Result<Self, StoreError> {
        let objects = bucket.objects().under(table)?;
        let root = shelf.as_ref().map_or_else(|| objects.shown(""), |shelf| shelf.folder(bucket.url(), table));
        let far = Some(Remote { bucket, table: table.to_owned(), shelf, looked: Mutex::default() });
        Ok(Self { inner: Arc::new(Inner { root, objects, far, next: AtomicU64::new(0) }) })
    }

    pub(crate) fn remote(&self) -> Option<&Remote> {
        self.inner.far.as_ref()
    }

    /// The directory; of a table in an object store, where copies of its files are.
    pub fn root(&self) -> &Path {
        &self.inner.root
    }

    /// Where a file of the table is in the file system, or its copy.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.inner.root.join(relative)
    }

    /// What people call a file of the table, or all of it where `relative` is empty.
    pub fn shown(&self, relative: &str) -> PathBuf {
        self.inner.objects.shown(relative)
    }

    /// Creates a record, unless one of that name is there: of two calls with the same name at the same time one wins.
    pub async fn put_new(&self, path: &str, bytes: impl Into<Vec<u8>>) -> Result<PutOutcome, StoreError> {
        self.inner.objects.put_new(path, bytes.into()).await
    }

    /// Creates a record or replaces it, at once: readers see the old one or the new one. For what needs no fencing.
    pub async fn put_over(&self, path: &str, bytes: impl Into<Vec<u8>>) -> Result<(), StoreError> {
        self.inner.objects.put_over(path, bytes.into()).await.map(|_| ())
    }

    /// The content of a record, `None` when there is none of that name.
    pub async fn get(&self, path: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.objects.get(path).await
    }

    /// The names of all files below a folder, sorted, relative to the table. None when there is no such folder.
    pub async fn list(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        self.inner.objects.list(prefix.trim_end_matches('/')).await
    }

    /// The names of all files that a table in an object store has, sorted.
    pub(crate) async fn list_all(&self) -> Result<Vec<String>, StoreError> {
        self.inner.objects.all().await
    }

    /// Removes a file. One that is not there is as good as removed.
    pub async fn delete(&self, path: &str) -> Result<(), StoreError> {
        self.inner.objects.delete(path).await
    }

    /// The length of a file; `None` when there is none.
    pub async fn length(&self, path: &str) -> Result<Option<u64>, StoreError> {
        if self.is_far() {
            return self.inner.objects.length(path).await;
        }
        Ok(fs::metadata(self.path(path)).ok().filter(fs::Metadata::is_file).map(|file| file.len()))
    }

    /// Whether the table is complete; of an object store as it was at most ten seconds ago. Blocks.
    pub fn is_published(&self) -> Result<bool, StoreError> {
        let Some(remote) = self.remote() else { return Ok(self.path("table.json").exists()) };
        let mut looked = remote.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.is_some_and(|at| at.elapsed() < LOOK) {
            return Ok(false);
        }
        let is_there = remote.bucket.block_on(self.length("table.json"))?.is_some();
        *looked = (!is_there).then(Instant::now);
        Ok(is_there)
    }

    /// Whether its files are in an object store, where each is a message or more.
    pub fn is_far(&self) -> bool {
        self.remote().is_some()
    }

    /// Takes the lock of the directory, or says which process has it. An object store has one coordinator, which needs no lock.
    pub fn lock(&self) -> Result<DirLock, StoreError> {
        if self.is_far() {
            return Ok(DirLock::unneeded());
        }
        DirLock::take(&self.path("build"))
    }

    /// The process that builds here, if one does.
    pub fn builder(&self) -> Option<u32> {
        crate::lock::holder(&self.path("build"))
    }

    /// Bytes that can still be written here; `u64::MAX` in an object store, which has no such number.
    pub fn free_bytes(&self) -> Result<u64, StoreError> {
        if self.is_far() {
            return Ok(u64::MAX);
        }
        let stat = rustix::fs::statvfs(self.root())
            .map_err(|error| StoreError::io("ask for the free space of", self.root(), error.into()))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Opens a file of the table called `table`, as its record describes it.
    pub fn open_shard(&self, table: &str, record: &FileRecord) -> Result<ShardFile, ShardError> {
        let file = ShardFile::open(&self.path(&record.path), Some(record))?;
        file.expect_table(table)?;
        Ok(file)
    }

    /// Makes sure that a file is in the file system: one of an object store is copied here, unless it was before. Says whether all of it was hashed just
    /// now. Blocks.
    ///
    /// # Errors
    /// What is wrong with the file in the store, or that it cannot be copied.
    pub fn fetch(&self, record: &FileRecord) -> Result<bool, Corruption> {
        let Some(remote) = self.remote() else { return Ok(false) };
        let path = self.path(&record.path);
        if fs::metadata(&path).is_ok_and(|found| found.len() == record.bytes) {
            self.used(record);
            return Ok(false);
        }
        let local = |error: StoreError| Corruption::Io(io::Error::other(error));
        let mut file = self.create_tmp().map_err(local)?;
        let name = remote.name(&record.path);
        let copied = remote.bucket.read_checked(&name, record, |bytes| file.write(bytes).map_err(io::Error::other));
        remote.bucket.block_on(copied)?;
        file.publish(&record.path, Publish::Synced).map_err(local)?;
        self.used(record);
        Ok(true)
    }

    /// Removes the copy of a file, which is damaged; of a directory's own files nothing. Says whether there was one.
    pub fn discard_copy(&self, record: &FileRecord) -> bool {
        let shelf = self.remote().and_then(|remote| remote.shelf.as_ref());
        if let Some(shelf) = shelf {
            shelf.discard(&self.path(&record.path));
        }
        shelf.is_some()
    }

    /// Brings a file that was written to where the table is, if that is an object store. Blocks.
    pub(crate) fn bring(&self, record: &FileRecord) -> Result<(), StoreError> {
        let Some(remote) = self.remote() else { return Ok(()) };
        let path = self.path(&record.path);
        // Opened first: a shelf that is full may remove it before it is there.
        let file = File::open(&path).map_err(|error| StoreError::io("read", &path, error))?;
        remote.bucket.block_on(remote.bucket.upload(file, &path, &remote.name(&record.path)))?;
        self.used(record);
        Ok(())
    }

    fn used(&self, record: &FileRecord) {
        if let Some(shelf) = self.remote().and_then(|remote| remote.shelf.as_ref()) {
            shelf.use_now(&self.path(&record.path), record.bytes);
        }
    }

    /// A path in the folder of temporary files, which is there, that this process has not used yet.
    pub(crate) fn tmp_path(&self) -> Result<PathBuf, StoreError> {
        create_dirs(&self.path(TMP))?;
        let number = self.inner.next.fetch_add(1, Ordering::Relaxed);
        Ok(self.path(&tmp_name(number)))
    }

    /// A new file in `build/tmp`, removed again when it is dropped before it got its name.
    pub(crate) fn create_tmp(&self) -> Result<TmpFile, StoreError> {
        loop {
            let number = self.inner.next.fetch_add(1, Ordering::Relaxed);
            let path = self.path(&tmp_name(number));
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(TmpFile { dir: self.clone(), path: Some(path), file: Some(file) }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => create_dirs(&self.path(TMP))?,
                Err(error) => return Err(StoreError::io("create", &path, error)),
            }
        }
    }
}

/// Name of a temporary file. Machines share directories, and process numbers of containers are all alike: so a number that nobody else has.
fn tmp_name(number: u64) -> String {
    static OURS: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish());
    format!("{TMP}/{}-{:016x}-{number}", std::process::id(), *OURS)
}

/// How a file gets its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Publish {
    /// It and its name are durable.
    Synced,
    /// The same, and it leaves the system's cache: nobody will read it soon.
    Forgotten,
    /// When the system gets to it.
    Unsynced,
}

/// A file that has no name yet.
pub(crate) struct TmpFile {
    dir: TableDir,
    path: Option<PathBuf>,
    file: Option<File>,
}

impl TmpFile {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        match (&mut self.file, &self.path) {
            (Some(file), Some(path)) => file.write_all(bytes).map_err(|error| StoreError::io("write", path, error)),
            _ => Ok(()),
        }
    }

    /// Brings the bytes to the disk and gives them a name, in place of what had it.
    pub(crate) fn publish(mut self, relative: &str, how: Publish) -> Result<(), StoreError> {
        let target = self.dir.path(relative);
        let folder = target.parent().unwrap_or(self.dir.root()).to_owned();
        if let (Some(file), Some(path)) = (self.file.take(), &self.path) {
            if how != Publish::Unsynced {
                file.sync_all().map_err(|error| StoreError::io("write", path, error))?;
            }
            if how == Publish::Forgotten {
                // Only a hint.
                let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
            }
            create_dirs(&folder)?;
            fs::rename(path, &target).map_err(|error| StoreError::io("create", &target, error))?;
            self.path = None;
            if how != Publish::Unsynced {
                sync_dir(&folder)?;
            }
        }
        Ok(())
    }
}

impl Drop for TmpFile {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Whatever went wrong is reported already; the next start of a build removes what is left.
            let _ = fs::remove_file(path);
        }
    }
}

/// Creates a directory and its missing parents, and syncs those whose entries changed.
pub(crate) fn create_dirs(path: &Path) -> Result<(), StoreError> {
    if create_dir(path)? {
        return Ok(());
    }
    // Its parent is missing.
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create_dirs(parent)?;
    }
    match create_dir(path)? {
        true => Ok(()),
        false => Err(StoreError::io("create", path, io::ErrorKind::NotFound.into())),
    }
}

/// Creates a directory; `false` when its parent is missing.
fn create_dir(path: &Path) -> Result<bool, StoreError> {
    match fs::create_dir(path) {
        Ok(()) => {
            path.parent().filter(|parent| !parent.as_os_str().is_empty()).map_or(Ok(()), sync_dir)?;
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match fs::metadata(path) {
            Ok(there) if !there.is_dir() => Err(StoreError::NotADirectory { path: path.to_owned() }),
            _ => Ok(true),
        },
        Err(error) => Err(StoreError::io("create", path, error)),
    }
}

/// Makes the entries of a directory durable.
pub(crate) fn sync_dir(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|dir| dir.sync_all()).map_err(|error| StoreError::io("sync", path, error))
}
