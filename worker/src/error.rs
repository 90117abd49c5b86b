//! What can go wrong in a worker, and what it tells the coordinator about it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use strata_games::{ArtifactId, TaskError};
use strata_proto::v1::fail_request::Reason;
use strata_storage::StoreError;

/// Why a worker ended although nobody told it to. A task that fails is not among these: it is reported to the coordinator and the
/// worker asks for another.
#[derive(thiserror::Error, Debug)]
pub enum WorkerError {
    /// The coordinator will not have this worker; the sentence is its own.
    #[error("the coordinator refuses this worker: {0}")]
    Refused(String),
    /// The coordinator has found that this worker computes wrong numbers; the sentence is its own.
    #[error("the coordinator refuses this worker: {0}")]
    Quarantined(String),
    /// The coordinator answered nothing for longer than the worker was told to wait.
    #[error("the coordinator has not answered for {} s ({last}); start the worker again when it is back", waited.as_secs())]
    Away {
        /// How long.
        waited: Duration,
        /// The last error of the transport.
        last: String,
    },
    /// This build or this machine computes wrong numbers.
    #[error("the self-test failed, so nothing this worker computes can be trusted: {0}")]
    SelfTest(String),
    /// The store that the coordinator names cannot be used from here.
    #[error("cannot use the coordinator's store: {0}")]
    Store(#[source] StoreError),
    /// The threads could not be started.
    #[error("cannot start {threads} threads: {cause}; ask for fewer with --threads")]
    Threads {
        /// How many were asked for.
        threads: usize,
        /// What the system said.
        cause: String,
    },
}

/// Why reading an input or writing an output of a task failed.
#[derive(thiserror::Error, Clone, Debug)]
pub enum IoFault {
    /// An input is missing, or is not what the coordinator says it is.
    #[error("input {}: {cause}", path.display())]
    BadInput {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// An input could not be brought here, which says nothing about what is in it.
    #[error("cannot copy {} here: {cause}", path.display())]
    Unread {
        /// The file.
        path: PathBuf,
        /// What the store, or the disk of the cache, said.
        cause: String,
    },
    /// An output could not be written.
    #[error("cannot write the {} of layer {} shard {}: {source}", kind_name(artifact), artifact.layer, artifact.shard)]
    Write {
        /// Which.
        artifact: ArtifactId,
        /// What the store said.
        source: Arc<StoreError>,
    },
    /// A temporary file for work that is larger than memory could not be made.
    #[error("cannot make a temporary file to work in: {0}")]
    Scratch(Arc<StoreError>),
    /// The kernel asked for a file that its plan does not name, or wrote one that it should not, or none. A fault of the program.
    #[error("the kernel does not keep to its plan: {0}")]
    Plan(String),
    /// The table is complete: somebody else has finished the task, and nothing more may be written.
    #[error("the table in {} is complete", .0.display())]
    Complete(PathBuf),
    /// A thread that writes outputs panicked. A fault of the program.
    #[error("writing the outputs panicked: {0}")]
    WriterPanic(String),
}

impl IoFault {
    /// What the coordinator should make of it.
    pub(crate) fn reason(&self, is_far: bool) -> Reason {
        match self {
            // The disk that is full is this worker's own: others go on.
            IoFault::Write { .. } | IoFault::Scratch(_) if is_far => Reason::Error,
            IoFault::BadInput { .. } => Reason::BadInput,
            IoFault::Write { source, .. } | IoFault::Scratch(source) if source.is_disk_full() => Reason::DiskFull,
            _ => Reason::Error,
        }
    }
}

impl From<IoFault> for TaskError {
    fn from(fault: IoFault) -> Self {
        TaskError::Io(Box::new(fault))
    }
}

fn kind_name(artifact: &ArtifactId) -> &'static str {
    match artifact.kind {
        strata_games::ArtifactKind::Index => "keys",
        strata_games::ArtifactKind::Work => "working values",
        strata_games::ArtifactKind::Shard => "finished values",
        strata_games::ArtifactKind::Checkpoint => "checkpoint",
        strata_games::ArtifactKind::Stretch => "keys of the stretch",
        strata_games::ArtifactKind::Partial => "keys that a task found",
    }
}

/// The message of a caught panic.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "no message".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_games::{ArtifactKind, Layer};

    #[test]
    fn a_full_disk_is_told_apart_from_other_failures_of_writing() {
        let write = |source| {
            let artifact = ArtifactId { kind: ArtifactKind::Shard, layer: Layer(12), shard: 3 };
            IoFault::Write { artifact, source: Arc::new(source) }
        };
        let path = PathBuf::from("/t/shards");
        let full = write(StoreError::DiskFull { doing: "write", path: path.clone(), source: "ENOSPC".into() });
        assert_eq!(full.reason(false), Reason::DiskFull);
        assert_eq!(full.reason(true), Reason::Error, "the disk of a cache is the worker's own");
        assert!(full.to_string().contains("layer 12 shard 3") && full.to_string().contains("make space"), "{full}");
        let other = write(StoreError::Other { doing: "write", path, source: "EIO".into() });
        assert_eq!(other.reason(false), Reason::Error);
        assert_eq!(IoFault::BadInput { path: PathBuf::new(), cause: String::new() }.reason(true), Reason::BadInput);
    }
}
