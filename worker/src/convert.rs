//! Artifacts in the three forms they take: named by the plan, described in a message, recorded by the store.

use strata_games::{ArtifactId, ArtifactKind, Layer};
use strata_proto::v1;
use strata_storage::{Digest, FileKind, FileRecord};

/// The store's word for a kind.
pub(crate) fn file_kind(kind: ArtifactKind) -> FileKind {
    match kind {
        ArtifactKind::Index => FileKind::Index,
        ArtifactKind::Work => FileKind::Work,
        ArtifactKind::Shard => FileKind::Shard,
        ArtifactKind::Checkpoint => FileKind::Checkpoint,
        ArtifactKind::Stretch => FileKind::Stretch,
        ArtifactKind::Partial => FileKind::Partial,
    }
}

/// The plan's name of a recorded file.
pub(crate) fn artifact_id(record: &FileRecord) -> ArtifactId {
    let kind = match record.kind {
        FileKind::Index => ArtifactKind::Index,
        FileKind::Work => ArtifactKind::Work,
        FileKind::Shard => ArtifactKind::Shard,
        FileKind::Checkpoint => ArtifactKind::Checkpoint,
        FileKind::Stretch => ArtifactKind::Stretch,
        FileKind::Partial => ArtifactKind::Partial,
    };
    ArtifactId { kind, layer: Layer(record.layer), shard: record.shard }
}

/// A recorded file as it goes into a message.
pub(crate) fn to_message(record: &FileRecord) -> v1::Artifact {
    let kind = match record.kind {
        FileKind::Index => v1::ArtifactKind::Index,
        FileKind::Work => v1::ArtifactKind::Work,
        FileKind::Shard => v1::ArtifactKind::Shard,
        FileKind::Checkpoint => v1::ArtifactKind::Checkpoint,
        FileKind::Stretch => v1::ArtifactKind::Stretch,
        FileKind::Partial => v1::ArtifactKind::Partial,
    };
    v1::Artifact {
        kind: kind.into(),
        layer: record.layer,
        shard: record.shard,
        path: record.path.clone(),
        blake3: record.blake3.as_bytes().to_vec(),
        sha256: record.sha256.as_bytes().to_vec(),
        bytes: record.bytes,
        keys: record.keys,
        index_bytes: record.index_bytes,
        value_bytes: record.value_bytes,
        error_bounds: record.error_bounds.clone(),
    }
}

/// A file that a message names. The sentence says what is wrong with the message.
pub(crate) fn from_message(artifact: &v1::Artifact) -> Result<FileRecord, String> {
    let kind = match artifact.kind() {
        v1::ArtifactKind::Index => FileKind::Index,
        v1::ArtifactKind::Work => FileKind::Work,
        v1::ArtifactKind::Shard => FileKind::Shard,
        v1::ArtifactKind::Checkpoint => FileKind::Checkpoint,
        v1::ArtifactKind::Stretch => FileKind::Stretch,
        v1::ArtifactKind::Partial => FileKind::Partial,
        v1::ArtifactKind::Unspecified => return Err(format!("the coordinator names a file of no known kind: {}", artifact.path)),
    };
    Ok(FileRecord {
        kind,
        layer: artifact.layer,
        shard: artifact.shard,
        path: artifact.path.clone(),
        blake3: digest(&artifact.blake3, &artifact.path)?,
        sha256: digest(&artifact.sha256, &artifact.path)?,
        bytes: artifact.bytes,
        keys: artifact.keys,
        index_bytes: artifact.index_bytes,
        value_bytes: artifact.value_bytes,
        error_bounds: artifact.error_bounds.clone(),
    })
}

fn digest(bytes: &[u8], path: &str) -> Result<Digest, String> {
    Digest::try_from(bytes)
        .map_err(|_| format!("the coordinator gives a hash of {} bytes for {path}; it should have 32", bytes.len()))
}
