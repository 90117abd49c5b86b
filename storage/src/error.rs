//! What can go wrong, and where: the variants carry the file and its section, the sentences say what to do.

use crate::index::IndexError;
use serde::Serialize;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A part of a shard file. Every byte of the file belongs to exactly one, and each has a checksum.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Section {
    /// Who the file is: table, kind, layer, shard.
    Header,
    /// Which ranks it covers, and its columns.
    Directory,
    /// The keys.
    Index,
    /// The values of one column, by its name.
    Column(String),
    /// Where the sections are, and their checksums.
    Footer,
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Section::Header => f.write_str("header"),
            Section::Directory => f.write_str("directory"),
            Section::Index => f.write_str("index"),
            Section::Column(name) => write!(f, "column {name}"),
            Section::Footer => f.write_str("footer"),
        }
    }
}

impl Serialize for Section {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What is wrong with a file.
#[derive(thiserror::Error, Debug)]
pub enum Corruption {
    /// It is not there.
    #[error("the file is missing")]
    Missing,
    /// The operating system could not read it.
    #[error("it cannot be read: {0}")]
    Io(#[source] io::Error),
    /// It is shorter or longer than what was written.
    #[error("it is {found} bytes long, but {expected} were written")]
    Length {
        /// Bytes there are.
        found: u64,
        /// Bytes there should be.
        expected: u64,
    },
    /// Its content has another hash than what was written.
    #[error("its BLAKE3 is {found}, but {expected} was written")]
    Hash {
        /// The hash of the content.
        found: crate::Digest,
        /// The hash in the record.
        expected: crate::Digest,
    },
    /// Some bytes are others than those that were published; the rest may be sound.
    #[error("the bytes from {from} to {to} are not those that were published")]
    Block {
        /// Where they start.
        from: u64,
        /// Where they end.
        to: u64,
    },
    /// Bytes do not have the checksum that was written with them.
    #[error("the bytes do not have the checksum written with them")]
    Checksum,
    /// The bytes are not what the format allows; the sentence says where.
    #[error("{0}")]
    Malformed(String),
    /// A sound file, but another one than the record says.
    #[error("{what} is {found}, but should be {expected}: another file has this name")]
    Mismatch {
        /// What differs.
        what: &'static str,
        /// As the file has it.
        found: String,
        /// As the record has it.
        expected: String,
    },
    /// The keys are damaged.
    #[error("{0}")]
    Index(#[from] IndexError),
    /// A question about a key or a column that the file does not have. The file is sound.
    #[error("there is no {what} {asked}: the file has {have}")]
    NoSuch {
        /// `key`, `scalar column`, `distribution column`, `index`, `shard` or `layer`.
        what: &'static str,
        /// The number asked for.
        asked: u64,
        /// How many there are.
        have: u64,
    },
}

/// A shard file that cannot answer: which file, which section, and why.
#[derive(Debug)]
pub struct ShardError {
    /// The file.
    pub path: PathBuf,
    /// The section, where it is known.
    pub section: Option<Section>,
    /// What is wrong.
    pub cause: Corruption,
}

impl ShardError {
    pub(crate) fn new(path: &Path, section: Option<Section>, cause: Corruption) -> Self {
        Self { path: path.to_owned(), section, cause }
    }
}

impl fmt::Display for ShardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(section) = &self.section {
            write!(f, ", {section}")?;
        }
        write!(f, ": {}", self.cause)
    }
}

impl Error for ShardError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.source()
    }
}

/// Writing to a table's directory, or reading its records, failed.
#[derive(thiserror::Error, Debug)]
pub enum StoreError {
    /// The table should be in a directory, and something else has that name.
    #[error("{} is not a directory; choose another place for the table", path.display())]
    NotADirectory {
        /// What is there.
        path: PathBuf,
    },
    /// The user may not do this here.
    #[error("not permitted to {doing} {}; check who owns the directory, or choose another", path.display())]
    NotPermitted {
        /// What was tried.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The file system is mounted for reading only.
    #[error("cannot {doing} {}: the file system is read-only", path.display())]
    ReadOnly {
        /// What was tried.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A name is longer than the file system allows.
    #[error("the name {} is too long for this file system; choose a shorter one", path.display())]
    NameTooLong {
        /// The name.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// No space is left, or the user's quota is used up.
    #[error("no space is left to {doing} {}; make space there, then run the same command again", path.display())]
    DiskFull {
        /// What was tried.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// What the operating system said.
        source: Box<dyn Error + Send + Sync>,
    },
    /// An object store does not let this be done.
    #[error("cannot {doing} {}: {why}", path.display())]
    Refused {
        /// What was tried.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not, and what to do.
        why: &'static str,
        /// What the store said.
        source: Box<dyn Error + Send + Sync>,
    },
    /// Another process builds in this directory.
    #[error("another build{} is running on {}; wait for it, or stop it first", pid.map_or(String::new(), |p| format!(" (process {p})")), path.display())]
    Locked {
        /// The lock.
        path: PathBuf,
        /// The process that holds it, where it could be read.
        pid: Option<u32>,
    },
    /// Another coordinator leads this store.
    #[error("{} is led by {leader}; stop that coordinator first, or use it", path.display())]
    Led {
        /// The store.
        path: PathBuf,
        /// Who leads it.
        leader: String,
    },
    /// This process does not lead the store any more: what it would write somebody else may have decided otherwise.
    #[error("the lead of {} is lost: another coordinator has it, or the store could not be reached in time; start this one again", path.display())]
    NotLeading {
        /// The store.
        path: PathBuf,
    },
    /// A store that ignores conditions.
    #[error("{} cannot be a store: {what}; use a service with conditional writes, or a directory", path.display())]
    Unfit {
        /// The store.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// An address that is no store.
    #[error("{url} is no store: {what}")]
    BadUrl {
        /// The address.
        url: String,
        /// What is wrong with it.
        what: String,
    },
    /// A service without TLS, which nobody has asked for.
    #[error(
        "the endpoint {endpoint} of {url} has no TLS: anybody between could read and change what is stored; --allow-http says that the network is trusted"
    )]
    PlainHttp {
        /// The store.
        url: String,
        /// The service.
        endpoint: String,
    },
    /// Files that do not belong to a table are in the way.
    #[error("{} holds files that are no part of a table: {}; move them away", path.display(), list(names))]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// The files, relative to it.
        names: Vec<String>,
    },
    /// A name that cannot be a name within a table.
    #[error("{path:?} cannot be the name of a file in a table")]
    BadName {
        /// The name.
        path: String,
    },
    /// A value that no table can hold.
    #[error("layer {layer}, shard {shard}: column {column}, key {key}: {what}")]
    BadValue {
        /// The layer.
        layer: u32,
        /// The shard.
        shard: u32,
        /// The column.
        column: String,
        /// Number of the key among the keys of the shard.
        key: u64,
        /// What is wrong with the value.
        what: String,
    },
    /// What is to be written does not fit together.
    #[error("layer {layer}, shard {shard}: {what}")]
    BadShard {
        /// The layer.
        layer: u32,
        /// The shard.
        shard: u32,
        /// What does not fit.
        what: String,
    },
    /// Something else went wrong.
    #[error("cannot {doing} {}: {source}", path.display())]
    Other {
        /// What was tried.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// What went wrong.
        source: Box<dyn Error + Send + Sync>,
    },
}

fn list(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let mut text = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    text
}

impl StoreError {
    /// Whether making space would help.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, StoreError::DiskFull { .. })
    }

    /// What the system says, while something was done (`list`, `write`) with a path.
    pub fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { doing, path, source: source.into() },
            io::ErrorKind::PermissionDenied => Self::NotPermitted { doing, path, source },
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { doing, path, source },
            io::ErrorKind::InvalidFilename => Self::NameTooLong { path, source },
            io::ErrorKind::NotADirectory => Self::NotADirectory { path },
            _ => Self::Other { doing, path, source: source.into() },
        }
    }

    /// Anything that went wrong while something was done with a path.
    pub(crate) fn other(doing: &'static str, path: PathBuf, source: impl Error + Send + Sync + 'static) -> Self {
        Self::Other { doing, path, source: source.into() }
    }

    /// An error of the object store: what the operating system said is somewhere down the chain.
    pub(crate) fn object(doing: &'static str, path: &Path, source: object_store::Error) -> Self {
        let said = source.to_string();
        let why = match &source {
            _ if said.contains("NoSuchBucket") => Some("there is no such bucket; make it first"),
            _ if said.contains("SignatureDoesNotMatch") || said.contains("InvalidAccessKeyId") => {
                Some("the key or the secret in the environment is wrong (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)")
            }
            // Where nothing else is said, credentials are asked for at the address that virtual machines have for that.
            _ if said.contains("169.254.169.254") => Some(
                "there are no credentials in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), and this machine has no role",
            ),
            object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
                Some("the credentials in the environment do not allow it")
            }
            _ => None,
        };
        if let Some(why) = why {
            return Self::Refused { doing, path: path.to_owned(), why, source: source.into() };
        }
        let mut cause: Option<&(dyn Error + 'static)> = Some(&source);
        while let Some(error) = cause {
            if let Some(io) = error.downcast_ref::<io::Error>() {
                // An io::Error cannot be cloned; its number says the same.
                let copy = io.raw_os_error().map_or_else(|| io::Error::from(io.kind()), io::Error::from_raw_os_error);
                return Self::io(doing, path, copy);
            }
            cause = error.source();
        }
        Self::Other { doing, path: path.to_owned(), source: source.into() }
    }
}
