//! Small objects under a prefix, by the calls that a file system and an object store have in common: created if absent, replaced, read, listed,
//! removed. The records of a table are these, wherever it is.

use crate::error::StoreError;
use crate::fence::Fence;
use futures::TryStreamExt;
use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use std::path::PathBuf;
use std::sync::Arc;

/// What became of a record that was to be created.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PutOutcome {
    /// It is there now, durably.
    Created,
    /// Something with that name was there before, and still is.
    Exists,
}

/// The version of an object, as the store names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Version {
    pub(crate) e_tag: Option<String>,
    pub(crate) version: Option<String>,
}

/// Objects under a prefix. Names are relative to it.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    pub(crate) store: Arc<dyn ObjectStore>,
    prefix: ObjectPath,
    /// What people call the prefix.
    shown: PathBuf,
    fence: Arc<Fence>,
}

impl Objects {
    /// The objects of a store under a prefix, with a fence that is open.
    pub(crate) fn new(store: Arc<dyn ObjectStore>, prefix: ObjectPath, shown: PathBuf) -> Self {
        Self { store, prefix, shown, fence: Arc::default() }
    }

    /// Those under a folder of this prefix, behind the same fence.
    pub(crate) fn under(&self, folder: &str) -> Result<Self, StoreError> {
        Ok(Self { prefix: self.object(folder)?, shown: self.shown(folder), ..self.clone() })
    }

    /// What people call an object, or all of them where `path` is empty.
    pub(crate) fn shown(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.shown.clone() } else { self.shown.join(path) }
    }

    /// Bars writing when somebody else may lead.
    pub(crate) fn fence(&self) -> &Fence {
        &self.fence
    }

    /// The prefix itself, where there is one.
    pub(crate) fn prefix(&self) -> Option<&ObjectPath> {
        (!self.prefix.as_ref().is_empty()).then_some(&self.prefix)
    }

    /// An object, as the store names it.
    pub(crate) fn object(&self, path: &str) -> Result<ObjectPath, StoreError> {
        let whole = self.prefix().map_or_else(|| path.to_owned(), |prefix| format!("{prefix}/{path}"));
        let parsed = ObjectPath::parse(&whole).ok().filter(|parsed| parsed.as_ref() == whole && !path.is_empty());
        parsed.ok_or_else(|| StoreError::BadName { path: path.to_owned() })
    }

    /// What is said of an error.
    pub(crate) fn fail<'a>(&'a self, doing: &'static str, path: &'a str) -> impl Fn(object_store::Error) -> StoreError + 'a {
        move |error| StoreError::object(doing, &self.shown(path), error)
    }

    /// Creates an object, unless one of that name is there.
    pub(crate) async fn put_new(&self, path: &str, bytes: Vec<u8>) -> Result<PutOutcome, StoreError> {
        let object = self.object(path)?;
        let put = self.store.put_opts(&object, bytes.into(), PutOptions::from(PutMode::Create));
        match self.fence.within(&self.shown, put).await? {
            Ok(_) => Ok(PutOutcome::Created),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(PutOutcome::Exists),
            Err(error) => Err(self.fail("create", path)(error)),
        }
    }

    /// Creates an object or replaces it.
    pub(crate) async fn put_over(&self, path: &str, bytes: Vec<u8>) -> Result<Version, StoreError> {
        let object = self.object(path)?;
        let put = self.store.put(&object, bytes.into());
        let put = self.fence.within(&self.shown, put).await?.map_err(self.fail("write", path))?;
        Ok(Version { e_tag: put.e_tag, version: put.version })
    }

    /// An object, with its version; `None` when there is none.
    pub(crate) async fn get_version(&self, path: &str) -> Result<Option<(Vec<u8>, Version)>, StoreError> {
        let found = match self.store.get(&self.object(path)?).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            found => found.map_err(self.fail("read", path))?,
        };
        let version = Version { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
        let bytes = found.bytes().await.map_err(self.fail("read", path))?;
        Ok(Some((bytes.into(), version)))
    }

    /// An object; `None` when there is none.
    pub(crate) async fn get(&self, path: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.get_version(path).await?.map(|(bytes, _)| bytes))
    }

    /// Its length; `None` when there is none.
    pub(crate) async fn length(&self, path: &str) -> Result<Option<u64>, StoreError> {
        match self.store.head(&self.object(path)?).await {
            Ok(meta) => Ok(Some(meta.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(self.fail("look at", path)(error)),
        }
    }

    /// Removes an object. One that is not there is as good as removed.
    pub(crate) async fn delete(&self, path: &str) -> Result<(), StoreError> {
        let object = self.object(path)?;
        match self.fence.within(&self.shown, self.store.delete(&object)).await? {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.fail("remove", path)(error)),
        }
    }

    /// The names of all objects below a folder, sorted. None when there is no such folder.
    pub(crate) async fn list(&self, folder: &str) -> Result<Vec<String>, StoreError> {
        self.names(Some(&self.object(folder)?), folder).await
    }

    /// The names of all objects, sorted.
    pub(crate) async fn all(&self) -> Result<Vec<String>, StoreError> {
        self.names(self.prefix(), "").await
    }

    async fn names(&self, under: Option<&ObjectPath>, folder: &str) -> Result<Vec<String>, StoreError> {
        let metas: Vec<_> = match self.store.list(under).try_collect().await {
            Err(object_store::Error::NotFound { .. }) => return Ok(Vec::new()),
            listed => listed.map_err(self.fail("list", folder))?,
        };
        let relative = |whole: &str| match self.prefix() {
            Some(prefix) => whole.strip_prefix(prefix.as_ref())?.strip_prefix('/').map(str::to_owned),
            None => Some(whole.to_owned()),
        };
        let mut names: Vec<String> = metas.iter().filter_map(|meta| relative(meta.location.as_ref())).collect();
        names.sort();
        Ok(names)
    }
}
