//! What is known of a file of a table without opening it, and what it is called.
//!
//! ```text
//!     shards/<layer>/<shard>-<hash>.shard          keys and packed values, published
//!     build/index/<layer>/<shard>-<hash>.shard     keys, from the forward pass
//!     build/work/<layer>/<shard>-<hash>.shard      values in f64, while tasks still need them
//!     build/checkpoint/... and build/stretch/...   keys, while tasks still need them
//! ```
//!
//! The layer is decimal with at least five digits, the shard decimal, the hash the first 16 digits of the BLAKE3 of the content. So
//! the name of a file follows from its record, a file is never written twice with other content, and names cannot lead elsewhere.

use crate::digest::Digest;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a shard file holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileKind {
    /// The keys of a shard.
    Index,
    /// The values of a shard in f64.
    Work,
    /// Keys and packed values: the published form.
    Shard,
    /// Keys from which the forward pass can be taken up again.
    Checkpoint,
    /// Keys of the stretch that the backward pass is in.
    Stretch,
    /// Keys that one of several tasks has found of a layer.
    Partial,
}

impl FileKind {
    /// All kinds.
    pub(crate) const ALL: [FileKind; 6] =
        [FileKind::Index, FileKind::Work, FileKind::Shard, FileKind::Checkpoint, FileKind::Stretch, FileKind::Partial];

    /// Whether its files are gone after a few stages, and made again without much ado where they are lost: they are named without waiting
    /// for the disk. A record may then name a file that a crash of the machine has damaged; whoever uses one looks at its hash first.
    pub fn is_fleeting(self) -> bool {
        matches!(self, FileKind::Work | FileKind::Partial)
    }

    /// The folder of the table in which files of this kind are.
    pub fn folder(self) -> &'static str {
        match self {
            FileKind::Index => "build/index",
            FileKind::Work => "build/work",
            FileKind::Shard => "shards",
            FileKind::Checkpoint => "build/checkpoint",
            FileKind::Stretch => "build/stretch",
            FileKind::Partial => "build/partial",
        }
    }

    pub(crate) fn code(self) -> u32 {
        match self {
            FileKind::Index => 1,
            FileKind::Work => 2,
            FileKind::Shard => 3,
            FileKind::Checkpoint => 4,
            FileKind::Stretch => 5,
            FileKind::Partial => 6,
        }
    }

    pub(crate) fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            FileKind::Index => "index",
            FileKind::Work => "work",
            FileKind::Shard => "shard",
            FileKind::Checkpoint => "checkpoint",
            FileKind::Stretch => "stretch",
            FileKind::Partial => "partial",
        })
    }
}

/// One immutable file: what it is called, what it holds, and the hashes that tell whether it is still what was written.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRecord {
    /// What it holds.
    pub kind: FileKind,
    /// Of which layer.
    pub layer: u32,
    /// Of which shard of that layer.
    pub shard: u32,
    /// Its name relative to the table, with `/` between the parts.
    pub path: String,
    /// BLAKE3 of its content.
    pub blake3: Digest,
    /// SHA-256 of its content, if it is published; zeros for other files.
    pub sha256: Digest,
    /// Its length in bytes.
    pub bytes: u64,
    /// Number of keys in it.
    pub keys: u64,
    /// Bytes of the index section.
    pub index_bytes: u64,
    /// Bytes of the value columns, their checksums and scales included.
    pub value_bytes: u64,
    /// Largest distance between a value as read and the f64 that was written, one for each scalar column.
    pub error_bounds: Vec<f64>,
}

impl FileRecord {
    /// The path that follows from kind, layer, shard and hash.
    pub fn expected_path(&self) -> String {
        artifact_path(self.kind, self.layer, self.shard, &self.blake3)
    }
}

/// The path of a file, relative to its table.
pub fn artifact_path(kind: FileKind, layer: u32, shard: u32, blake3: &Digest) -> String {
    format!("{}/{}/{}", kind.folder(), layer_name(layer), artifact_name(shard, blake3))
}

/// The name of a layer's folder.
pub(crate) fn layer_name(layer: u32) -> String {
    format!("{layer:05}")
}

fn artifact_name(shard: u32, blake3: &Digest) -> String {
    format!("{shard}-{}.shard", blake3.short())
}

/// Whether this is the name of a layer's folder.
pub(crate) fn is_layer_name(name: &str) -> bool {
    name.parse().is_ok_and(|layer| layer_name(layer) == name)
}

/// Whether this is the name of a shard file.
pub(crate) fn is_artifact_name(name: &str) -> bool {
    let parts = name.strip_suffix(".shard").and_then(|stem| stem.split_once('-'));
    parts.is_some_and(|(shard, hash)| {
        let number = shard.parse::<u32>().is_ok_and(|n| n.to_string() == shard);
        number && hash.len() == 16 && hash.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_from_the_record_and_are_recognised() {
        let digest = Digest::blake3(b"");
        let path = artifact_path(FileKind::Shard, 12, 3, &digest);
        assert_eq!(path, "shards/00012/3-af1349b9f5f9a1a6.shard");
        assert_eq!(artifact_path(FileKind::Work, 1_234_567, 0, &digest), "build/work/1234567/0-af1349b9f5f9a1a6.shard");
        assert!(is_layer_name("00012") && is_layer_name("1234567"));
        assert!(is_artifact_name("3-af1349b9f5f9a1a6.shard"));
        for bad in ["12", "0000012", "+0012", "000x2", "", "..", "99999999999"] {
            assert!(!is_layer_name(bad), "{bad}");
        }
        for bad in [
            "03-af1349b9f5f9a1a6.shard",
            "3-AF1349b9f5f9a1a6.shard",
            "3-af.shard",
            "3-af1349b9f5f9a1a6",
            "+3-af1349b9f5f9a1a6.shard",
            "-.shard",
        ] {
            assert!(!is_artifact_name(bad), "{bad}");
        }
    }
}
