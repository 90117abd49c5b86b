//! Reading the store: what was done before this coordinator started, and which of it is still good.
//!
//! A build may have been killed at any moment, so anything may be half there. Every step of a build leaves the store in a state that
//! this file understands:
//!
//! ```text
//!   killed between                               found                              done about it
//!   files written  | commit record               files that no record names         removed, the task runs again
//!   commit record  | stage record                all commits of a stage             stitched by the scheduler
//!   stage record   | commits removed             a stage record and its commits     the commits are removed
//!   stage record   | working values removed      files that nobody reads            removed
//!   values removed | (a record still names them) a record without its file          fine, unless a task must read it
//!   commits of a damaged stage | its record gone both                               as the first time: the damage is still there
//!   doubts written | records taken out           doubts and all records             taken out as the first time
//! ```
//!
//! What is doubted ([`Doubts`]) is taken out here and nowhere else: the records of tasks whose results differ, and those of
//! workers that were found to be wrong. Their files go, and their tasks run again like any other.

use crate::audit::{Audit, files_to_keep};
use crate::plan::{Plan, TaskIndex};
use crate::record::{
    self, COMMITS, Commit, DOUBTS_PATH, Dismissed, Doubts, EPOCH_PATH, Epoch, LAYERS, RECORD_FORMAT, StageRecord, commit_path,
    stage_path,
};
use crate::scheduler::{Restored, Tally};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use strata_storage::{Corruption, FileRecord, StoreError, TableDir, check_file};

/// Added to the number of starts when the record of it is damaged, so that the new tokens are above all that were given out.
const EPOCHS_SKIPPED: u32 = 1 << 16;

/// Files of an object store that are read at a time.
const MOST_FAR: usize = 8;

/// Why the store could not be read.
#[derive(thiserror::Error, Debug)]
pub enum ReplayError {
    /// The directory could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It holds records of another table.
    #[error("{path} belongs to a build of {found}, not of {table}; choose another directory")]
    OtherTable {
        /// The record.
        path: String,
        /// The table it belongs to.
        found: String,
        /// The table that was asked for.
        table: String,
    },
    /// It was written by another version of the program.
    #[error("{path} is written in form {found}, and this version reads form {RECORD_FORMAT}; go on with the version that began")]
    OtherFormat {
        /// The record.
        path: String,
        /// Its form.
        found: u32,
    },
    /// A file could not be read, which says nothing about what is in it.
    #[error("cannot read {path}: {why}")]
    Unread {
        /// The file.
        path: String,
        /// What the store said.
        why: String,
    },
    /// The coordinator stops, or the job was cancelled.
    #[error("stopped while the files were checked")]
    Stopped,
    /// A thread of this program panicked.
    #[error("checking the files was interrupted: {0}")]
    Interrupted(String),
}

/// What a store holds.
#[derive(Debug)]
pub struct Replayed {
    /// For the scheduler.
    pub restored: Restored,
    /// Finished tasks that were accepted.
    pub resumed: u64,
    /// Finished tasks that were not.
    pub rejected: u64,
    /// The workers whose results were taken out, as they were asked to be.
    pub dismissed: Vec<Dismissed>,
}

/// Answers whether to give up.
pub type Stop = Arc<dyn Fn() -> bool + Send + Sync>;

/// Records as found.
#[derive(Default)]
struct Found {
    commits: BTreeMap<TaskIndex, Commit>,
    /// Stages that have a record.
    stages: BTreeSet<u32>,
    /// Tasks that have a record of their own.
    own: BTreeSet<TaskIndex>,
    /// Records of no use, and why.
    useless: Vec<(String, String)>,
    /// Tasks whose records are among those.
    lost: BTreeSet<TaskIndex>,
    highest_token: u64,
}

/// The results of a build that are not trusted, as they are written down.
pub async fn read_doubts(dir: &TableDir, plan: &Plan) -> Result<Doubts, ReplayError> {
    let Some(bytes) = dir.get(DOUBTS_PATH).await? else { return Ok(Doubts::none(&plan.table)) };
    match record::open::<Doubts>(&bytes) {
        Ok(doubts) => {
            check_owner(DOUBTS_PATH, doubts.format, &doubts.table, plan)?;
            Ok(doubts)
        }
        Err(why) => {
            tracing::warn!(record = DOUBTS_PATH, %why, "which results are not trusted is lost; a check may find them again");
            Ok(Doubts::none(&plan.table))
        }
    }
}

/// Removes files that were being written when a build was stopped, while nobody writes (`writing`) what is doubted.
pub async fn clean(dir: &TableDir, writing: &tokio::sync::Mutex<()>) -> Result<(), ReplayError> {
    let _nobody_writes = writing.lock().await;
    let dir = dir.clone();
    Ok(blocking(move || dir.clean_tmp()).await??)
}

/// Reads the store of a table, checks the content of what it names, and tidies up. What is doubted is taken out. The caller holds the lock.
pub async fn replay(dir: &TableDir, plan: &Arc<Plan>, doubts: &Doubts, stop: &Stop) -> Result<Replayed, ReplayError> {
    let found = read_records(dir, plan).await?;
    let epoch = next_epoch(dir, found.highest_token).await?;
    for (path, why) in &found.useless {
        tracing::warn!(table = %plan.table, record = %path, %why, "a record is not accepted; what it says is done again");
        dir.delete(path).await?;
    }
    let lost = found.lost.iter().filter(|task| !found.commits.contains_key(task)).count();

    let by = |worker: &str| found.commits.iter().filter(|(_, commit)| commit.worker == worker).map(|(&task, _)| task).collect();
    let taken: Vec<(String, BTreeSet<TaskIndex>)> = doubts.pending.iter().map(|worker| (worker.clone(), by(worker))).collect();
    for (worker, tasks) in &taken {
        let tasks: Vec<String> = tasks.iter().map(|&task| plan.tasks[task].id.to_string()).collect();
        let (count, tasks) = (tasks.len(), tasks.join(" "));
        tracing::warn!(table = %plan.table, %worker, count, %tasks, "what this worker has made is taken out, and made again");
    }
    let differing = doubts.open.iter().filter_map(|doubt| plan.index_of(doubt.id()));
    let doubted: BTreeSet<TaskIndex> = taken.iter().flat_map(|(_, tasks)| tasks.iter().copied()).chain(differing).collect();
    let dismissed = taken.iter().map(|(worker, tasks)| Dismissed { worker: worker.clone(), tasks: tasks.len() as u64 }).collect();
    let mut audit = Audit::with_doubts(plan, found.commits, &doubted, !doubts.dismissed.is_empty());
    loop {
        let files = audit.wanted();
        if files.is_empty() {
            break;
        }
        tracing::debug!(table = %plan.table, files = files.len(), "checking files");
        for (file, verdict) in check_files(dir, files, stop).await? {
            audit.answer(&file, verdict);
        }
    }
    let audited = audit.finish();
    for rejection in &audited.rejected {
        tracing::warn!(table = %plan.table, task = %rejection.id, why = %rejection.why, "a finished task is not accepted, and done again");
    }

    let whole = |stage: &u32| plan.stages[*stage as usize].tasks.clone().all(|task| audited.commits.contains_key(&task));
    let (stitched, broken): (BTreeSet<u32>, BTreeSet<u32>) = found.stages.into_iter().partition(whole);
    for &stage in &broken {
        take_apart(dir, plan, stage, &audited.commits).await?;
    }
    for task in found.own {
        let id = plan.tasks[task].id;
        if stitched.contains(&id.stage) || !audited.commits.contains_key(&task) {
            dir.delete(&commit_path(id)).await?;
        }
    }
    let keep = files_to_keep(plan, &audited.commits, &stitched);
    let removed = blocking({
        let dir = dir.clone();
        move || dir.remove_unlisted(&keep)
    })
    .await??;
    if !removed.is_empty() {
        tracing::info!(table = %plan.table, files = removed.len(), "removed files that no finished task accounts for");
    }
    Ok(Replayed {
        resumed: audited.commits.len() as u64,
        rejected: (audited.rejected.len() + lost) as u64,
        dismissed,
        restored: Restored {
            epoch,
            commits: audited.commits,
            stitched,
            expected: audited.expected,
            former: audited.former,
            doubts: None,
            tally: Tally::default(),
        },
    })
}

async fn read_records(dir: &TableDir, plan: &Plan) -> Result<Found, ReplayError> {
    let mut found = Found::default();
    for path in dir.list(LAYERS).await? {
        let Some(stage) = record::stage_of_path(&path) else { continue };
        let Some(bytes) = dir.get(&path).await? else { continue };
        match record::open::<StageRecord>(&bytes) {
            Ok(record) => {
                check_owner(&path, record.format, &record.table, plan)?;
                let ids = record.commits.iter().map(Commit::id);
                let tasks = plan.stages.get(stage as usize).map(|stage| stage.tasks.clone());
                match tasks {
                    Some(tasks) if record.stage == stage && plan.tasks[tasks.clone()].iter().map(|task| task.id).eq(ids) => {
                        found.stages.insert(stage);
                        for (task, commit) in tasks.zip(record.commits) {
                            found.highest_token = found.highest_token.max(commit.token);
                            found.commits.insert(task, commit);
                        }
                    }
                    _ => found.useless.push((path, "it is not a stage of this plan".into())),
                }
            }
            Err(damage) => {
                let tasks = plan.stages.get(stage as usize).map(|stage| stage.tasks.clone());
                found.lost.extend(tasks.into_iter().flatten());
                found.useless.push((path, damage.to_string()));
            }
        }
    }
    for path in dir.list(COMMITS).await? {
        let Some(id) = record::commit_of_path(&path) else { continue };
        let Some(bytes) = dir.get(&path).await? else { continue };
        let task = plan.index_of(id);
        match record::open::<Commit>(&bytes) {
            Ok(commit) => {
                check_owner(&path, commit.format, &commit.table, plan)?;
                found.highest_token = found.highest_token.max(commit.token);
                match task {
                    Some(task) if commit.id() == id => {
                        found.own.insert(task);
                        found.commits.entry(task).or_insert(commit);
                    }
                    _ => found.useless.push((path, "it is not a task of this plan".into())),
                }
            }
            Err(damage) => {
                found.lost.extend(task);
                found.useless.push((path, damage.to_string()));
            }
        }
    }
    Ok(found)
}

/// A sound record of something else is no damage: nothing may be removed then.
fn check_owner(path: &str, format: u32, table: &str, plan: &Plan) -> Result<(), ReplayError> {
    if format != RECORD_FORMAT {
        return Err(ReplayError::OtherFormat { path: path.into(), found: format });
    }
    if table != plan.table {
        return Err(ReplayError::OtherTable { path: path.into(), found: table.into(), table: plan.table.clone() });
    }
    Ok(())
}

/// Replaces the record of a stage, some of whose tasks must run again, by records of the others.
async fn take_apart(dir: &TableDir, plan: &Plan, stage: u32, accepted: &BTreeMap<TaskIndex, Commit>) -> Result<(), StoreError> {
    for task in plan.stages[stage as usize].tasks.clone() {
        if let Some(commit) = accepted.get(&task) {
            dir.put_over(&commit_path(commit.id()), record::seal(commit)).await?;
        }
    }
    dir.delete(&stage_path(stage)).await
}

/// Counts this start, durably, before the first token of it is given out.
async fn next_epoch(dir: &TableDir, highest_token: u64) -> Result<u32, StoreError> {
    let seen = u32::try_from(highest_token >> 32).expect("32 bits are left");
    let last = match dir.get(EPOCH_PATH).await? {
        None => seen,
        Some(bytes) => match record::open::<Epoch>(&bytes) {
            Ok(record) => record.epoch.max(seen),
            Err(why) => {
                tracing::warn!(record = EPOCH_PATH, %why, "the number of starts is lost; going on well above it");
                seen.saturating_add(EPOCHS_SKIPPED)
            }
        },
    };
    let epoch = last.saturating_add(1);
    dir.put_over(EPOCH_PATH, record::seal(&Epoch { epoch })).await?;
    Ok(epoch)
}

/// Hashes files, as many at a time as there are processors.
pub async fn check_files(
    dir: &TableDir,
    files: Vec<FileRecord>,
    stop: &Stop,
) -> Result<Vec<(FileRecord, Result<(), String>)>, ReplayError> {
    let (dir, stop) = (dir.clone(), Arc::clone(stop));
    blocking(move || {
        let next = AtomicUsize::new(0);
        let verdicts = Mutex::new(Vec::with_capacity(files.len()));
        let unread = Mutex::new(None);
        let most = if dir.is_far() { MOST_FAR } else { usize::MAX };
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(files.len()).min(most);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while let Some(file) = files.get(next.fetch_add(1, Ordering::Relaxed)).filter(|_| !stop()) {
                        let verdict = match check_file(&dir, file) {
                            // A store that does not answer is not damaged; a disk that cannot be read is.
                            Err(Corruption::Io(error)) if dir.is_far() => {
                                let why = ReplayError::Unread { path: file.path.clone(), why: error.to_string() };
                                unread.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
                                return;
                            }
                            verdict => verdict.map_err(|damage| damage.to_string()),
                        };
                        verdicts.lock().unwrap_or_else(PoisonError::into_inner).push((file.clone(), verdict));
                    }
                });
            }
        });
        if let Some(unread) = unread.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(unread);
        }
        let mut verdicts = verdicts.into_inner().unwrap_or_else(PoisonError::into_inner);
        verdicts.sort_by(|(a, _), (b, _)| a.path.cmp(&b.path));
        if verdicts.len() == files.len() { Ok(verdicts) } else { Err(ReplayError::Stopped) }
    })
    .await?
}

/// Runs something that blocks where it may.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ReplayError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| ReplayError::Interrupted(error.to_string()))
}
