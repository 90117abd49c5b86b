//! What people asked of a job, written down beside its build, so that a coordinator that is started again remembers it; and what a store holds
//! of unfinished builds, as their records are named.

use crate::core::Core;
use crate::record::{self, RECORD_FORMAT};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use strata_games::TaskId;
use strata_storage::{Place, Store, StoreError, TableDir};

/// Where it is kept.
const WISH_PATH: &str = "build/wish.json";

/// What a job is to do.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Wanted {
    /// Run.
    Go,
    /// Rest until it is resumed.
    Paused,
    /// Nothing, until it is submitted again.
    Cancelled,
    /// Nothing: what is there cannot be trusted.
    Failed,
}

/// `build/wish.json`.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Wish {
    /// [`RECORD_FORMAT`].
    pub format: u32,
    /// What it is to do.
    pub wanted: Wanted,
    /// Jobs of higher priority get workers first.
    pub priority: i32,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl Wish {
    /// To run, or not.
    pub fn new(wanted: Wanted, priority: i32) -> Self {
        Self { format: RECORD_FORMAT, wanted, priority, message: String::new() }
    }

    /// What is written down beside a build; to run, where nothing sound is.
    pub async fn of(place: &Place) -> Result<Self, StoreError> {
        Ok(sound(place.get(WISH_PATH).await?).unwrap_or(Wish::new(Wanted::Go, 0)))
    }

    /// Writes it down, unless that is what is there: a full disk need not hear of it.
    pub async fn put(&self, dir: &TableDir) -> Result<(), StoreError> {
        if dir.get(WISH_PATH).await.ok().and_then(sound).as_ref() == Some(self) {
            return Ok(());
        }
        dir.put_over(WISH_PATH, record::seal(self)).await
    }
}

/// What was written down, if it is sound.
fn sound(found: Option<Vec<u8>>) -> Option<Wish> {
    record::open(&found?).ok()
}

/// A build that was begun in a store and is not finished.
pub struct Unfinished {
    /// Name of the table.
    pub table: String,
    /// What was asked of it; to run, where nothing sound is written down.
    pub wish: Wish,
}

/// The unfinished builds of a store: one folder a table. What is no such folder is left alone.
pub async fn unfinished(store: &Store) -> Result<Vec<Unfinished>, StoreError> {
    let mut found = Vec::new();
    for table in store.folders().await? {
        let place = store.place(&table);
        let job = match place.get(record::JOB_PATH).await {
            Ok(Some(job)) => job,
            Ok(None) => continue,
            // In an object store it is a table's for certain; in a directory it may be anybody's.
            Err(error) if matches!(place, Place::Bucket(..)) => return Err(error),
            Err(_) => continue,
        };
        // A damaged one still says which table it was: the folder has its name. One that was moved aside has another, and is left alone.
        if record::open::<record::Job>(&job).map_or(true, |job| job.table == table) {
            found.push(Unfinished { wish: Wish::of(&place).await?, table });
        }
    }
    Ok(found)
}

/// A build as its folder shows it, by the names of its records; nothing is checked.
pub struct FoundBuild {
    /// Name of the table.
    pub table: String,
    /// What was asked of it: `unfinished`, `paused`, `cancelled`, or `failed` where it went wrong.
    pub wanted: &'static str,
    /// The process that works on it now, on a machine that shares the lock.
    pub builder: Option<u32>,
    /// Stages that have a record.
    pub stages: BTreeSet<u32>,
    /// Tasks that have a record of their own.
    pub commits: Vec<TaskId>,
}

/// The build in the place of a table; `None` when none was begun.
pub async fn found(place: &Place) -> Result<Option<FoundBuild>, StoreError> {
    let Some(job) = place.get(record::JOB_PATH).await? else { return Ok(None) };
    let Ok(job) = record::open::<record::Job>(&job) else { return Ok(None) };
    let (stages, commits) = (place.list(record::LAYERS).await?, place.list(record::COMMITS).await?);
    Ok(Some(FoundBuild {
        table: job.table,
        wanted: match Wish::of(place).await?.wanted {
            Wanted::Go => "unfinished",
            Wanted::Paused => "paused",
            Wanted::Cancelled => "cancelled",
            Wanted::Failed => "failed",
        },
        builder: match place {
            Place::Folder(_) => place.open(None)?.builder(),
            Place::Bucket(..) => None,
        },
        stages: stages.iter().filter_map(|path| record::stage_of_path(path)).collect(),
        commits: commits.iter().filter_map(|path| record::commit_of_path(path)).collect(),
    }))
}

/// Writes down what was asked of a job. That it cannot be is told to the log alone: the job does as it was asked all the same.
pub async fn remember(core: &Arc<Core>, table: &str, wanted: Wanted) {
    let Some(job) = core.job(table) else { return };
    let Some(build) = job.build.as_ref().filter(|_| !job.is_released()) else { return };
    if let Err(error) = Wish::new(wanted, job.priority()).put(&build.dir).await {
        tracing::warn!(%table, %error, "what was asked of the job cannot be written down; a restart would forget it");
    }
}
