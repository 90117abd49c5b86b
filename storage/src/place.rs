//! Where tables are: in a folder of a disk, or under a prefix of an object store.

use crate::bucket::Bucket;
use crate::dir::TableDir;
use crate::error::StoreError;
use crate::shelf::Shelf;
use std::fs;
use std::io;
use std::path::PathBuf;

/// A store: a folder or a prefix that has one folder for each table.
#[derive(Clone, Debug)]
pub enum Store {
    /// A folder of a file system.
    Folder(PathBuf),
    /// A prefix of an object store.
    Bucket(Bucket),
}

impl Store {
    /// The store of that name: a URL where it has a scheme (`file://` is a folder), otherwise a folder. Asks nothing of it. Must be called inside a
    /// tokio runtime.
    ///
    /// # Errors
    /// See [`Bucket::open`].
    pub fn open(name: &str, allow_http: bool) -> Result<Self, StoreError> {
        match name.split_once("://") {
            Some(("file", path)) => Ok(Self::Folder(path.into())),
            Some(_) => Bucket::open(name, allow_http).map(Self::Bucket),
            None if ["s3:/", "gs:/", "az:/"].iter().any(|scheme| name.starts_with(scheme)) => {
                Err(StoreError::BadUrl { url: name.to_owned(), what: "it has one slash, where a URL has two".into() })
            }
            None => Ok(Self::Folder(name.into())),
        }
    }

    /// The place of a table in it.
    pub fn place(&self, table: &str) -> Place {
        match self {
            Self::Folder(folder) => Place::Folder(folder.join(table)),
            Self::Bucket(bucket) => Place::Bucket(bucket.clone(), table.to_owned()),
        }
    }

    /// The names of the folders in it, sorted. None when it is not there yet.
    ///
    /// # Errors
    /// When it cannot be listed.
    pub async fn folders(&self) -> Result<Vec<String>, StoreError> {
        let folder = match self {
            Self::Folder(folder) => folder,
            Self::Bucket(bucket) => return bucket.folders().await,
        };
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| StoreError::io("list", folder, error))?,
        };
        let mut names: Vec<String> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        Ok(names)
    }

    /// What people call it.
    pub fn shown(&self) -> String {
        match self {
            Self::Folder(folder) => folder.to_string_lossy().into_owned(),
            Self::Bucket(bucket) => bucket.url().to_owned(),
        }
    }
}

/// Where a table is, or is to be.
#[derive(Clone, Debug)]
pub enum Place {
    /// In a folder.
    Folder(PathBuf),
    /// In an object store, under this name.
    Bucket(Bucket, String),
}

impl From<PathBuf> for Place {
    fn from(folder: PathBuf) -> Self {
        Self::Folder(folder)
    }
}

impl Place {
    /// A small file of the table; `None` when there is none. Creates nothing.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn get(&self, path: &str) -> Result<Option<Vec<u8>>, StoreError> {
        match self {
            Self::Bucket(bucket, table) => bucket.objects().under(table)?.get(path).await,
            Self::Folder(folder) => match fs::read(folder.join(path)) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
                Err(error) => Err(StoreError::io("read", &folder.join(path), error)),
            },
        }
    }

    /// The names of all files below a folder of the table, sorted, relative to it. Creates nothing.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub async fn list(&self, folder: &str) -> Result<Vec<String>, StoreError> {
        match self {
            Self::Bucket(bucket, table) => bucket.objects().under(table)?.list(folder).await,
            Self::Folder(root) if !root.join(folder).is_dir() => Ok(Vec::new()),
            Self::Folder(root) => TableDir::open(root)?.list(folder).await,
        }
    }

    /// Opens it to build there; a folder is made when it is missing. With a shelf shard files of a bucket can be written and read.
    ///
    /// # Errors
    /// See [`TableDir::open`].
    pub fn open(&self, shelf: Option<&Shelf>) -> Result<TableDir, StoreError> {
        match self {
            Self::Folder(folder) => TableDir::open(folder),
            Self::Bucket(bucket, table) => TableDir::of_bucket(bucket.clone(), table, shelf.cloned()),
        }
    }

    /// What people call it.
    pub fn shown(&self) -> PathBuf {
        match self {
            Self::Folder(folder) => folder.clone(),
            Self::Bucket(bucket, table) => bucket.objects().shown(table),
        }
    }
}
