//! Workers that compute wrong numbers: how a coordinator keeps them out, and how what they made is taken out of builds.
//!
//! What is to be taken out is written down first ([`Doubts`](crate::record::Doubts)) and done when the store is read next, so that a
//! kill at any moment changes nothing. The same record is all that is needed for a build at rest ([`invalidate`]).

use crate::core::Core;
use crate::job::Job;
use crate::record::{self, COMMITS, Commit, DOUBTS_PATH, Doubts, JOB_PATH, LAYERS, RECORD_FORMAT, StageRecord};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use strata_games::TaskId;
use strata_storage::{FileRecord, StoreError, TableDir};

/// Writes down what is doubted in a job. That it cannot be is told to the log alone: it is known as long as this coordinator lives.
pub async fn remember_doubts(job: &Job) {
    let Some(build) = job.build.as_ref().filter(|_| !job.is_released()) else { return };
    let _one_at_a_time = job.writing_doubts.lock().await;
    if let Err(error) = build.dir.put_over(DOUBTS_PATH, record::seal(&job.doubts())).await {
        tracing::error!(table = %job.table, %error, "which results are not trusted cannot be written down; a restart would forget it");
    }
}

/// A worker was found to be wrong: it gets nothing more to do, and what it has made is taken out of all builds.
pub async fn quarantine(core: &Arc<Core>, worker: &str, reason: &str) {
    tracing::error!(%worker, %reason, "a worker computes wrong numbers; it is quarantined, and what it made is made again");
    core.quarantine(worker, reason);
    // In all of them first: writing it down takes a while, in which none may be published.
    let mut jobs = core.jobs();
    jobs.retain(|job| job.build.is_some() && !job.is_released());
    for job in &jobs {
        let made = job.dismiss(worker);
        tracing::warn!(table = %job.table, %worker, tasks = made.len(), "finished tasks of a quarantined worker are taken out");
    }
    for job in &jobs {
        remember_doubts(job).await;
    }
    core.wake();
}

/// Why a build at rest cannot be changed.
#[derive(thiserror::Error, Debug)]
pub enum InvalidateError {
    /// The directory could not be read or written, or somebody builds in it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no build.
    #[error("no build was begun there")]
    NoBuild,
    /// It was begun by another version of the program.
    #[error("its build was begun by version {0} in another form; go on with that version")]
    OtherFormat(String),
    /// A record of it cannot be read: who made what is not known.
    #[error("{path}: {why}; `strata build` reads the rest and makes the lost part again, after that ask once more")]
    Damaged {
        /// The record.
        path: String,
        /// What is wrong with it.
        why: String,
    },
}

/// A finished task of a worker.
#[derive(Clone, PartialEq, Debug)]
pub struct Made {
    /// The task.
    pub task: TaskId,
    /// Its files.
    pub files: Vec<FileRecord>,
}

impl From<&Commit> for Made {
    fn from(commit: &Commit) -> Self {
        Made { task: commit.id(), files: commit.content.outputs.clone() }
    }
}

/// Says what a worker has made in the unfinished build of a folder, by task. Unless it is only asked (`dry_run`), all of it is made again
/// when somebody goes on with the build. Also gives the name of the table.
///
/// # Errors
/// See [`InvalidateError`].
pub async fn invalidate(folder: &Path, worker: &str, dry_run: bool) -> Result<(String, Vec<Made>), InvalidateError> {
    let dir = TableDir::open(folder)?;
    let Some(bytes) = dir.get(JOB_PATH).await? else { return Err(InvalidateError::NoBuild) };
    let _lock = if dry_run { None } else { Some(dir.lock()?) };
    let job: record::Job = open(JOB_PATH, &bytes)?;
    if job.format != RECORD_FORMAT {
        return Err(InvalidateError::OtherFormat(job.build));
    }
    let mut made: BTreeMap<TaskId, Made> = BTreeMap::new();
    let mut add = |commit: &Commit| {
        if commit.worker == worker {
            made.entry(commit.id()).or_insert(commit.into());
        }
    };
    for path in dir.list(LAYERS).await? {
        if let Some(bytes) = dir.get(&path).await? {
            open::<StageRecord>(&path, &bytes)?.commits.iter().for_each(&mut add);
        }
    }
    for path in dir.list(COMMITS).await? {
        if let Some(bytes) = dir.get(&path).await? {
            add(&open(&path, &bytes)?);
        }
    }
    if !dry_run && !made.is_empty() {
        let mut doubts = match dir.get(DOUBTS_PATH).await? {
            Some(bytes) => open(DOUBTS_PATH, &bytes)?,
            None => Doubts::none(&job.table),
        };
        doubts.dismiss(worker);
        dir.put_over(DOUBTS_PATH, record::seal(&doubts)).await?;
    }
    Ok((job.table, made.into_values().collect()))
}

fn open<T: serde::de::DeserializeOwned>(path: &str, bytes: &[u8]) -> Result<T, InvalidateError> {
    record::open(bytes).map_err(|why| InvalidateError::Damaged { path: path.into(), why: why.to_string() })
}
