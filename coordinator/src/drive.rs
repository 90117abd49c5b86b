//! The life of a job: read the store, let the scheduler work, stitch, publish. One of these runs for every job; it alone writes
//! records of stages, and it alone holds the lock of the directory.

use crate::core::{Busy, Core};
use crate::doubts::remember_doubts;
use crate::job::{Action, Build, Job};
use crate::publish::{KeyCounts, manifest, stitch};
use crate::record::{self, Commit, StageRecord, commit_path, stage_path};
use crate::replay::{ReplayError, Stop, blocking, clean, read_doubts, replay};
use crate::scheduler::{CommitFailure, Phase, StitchJob};
use crate::wish::{Wanted, Wish};
use futures::StreamExt;
use std::sync::Arc;
use std::time::Duration;
use strata_storage::{DirLock, Manifest, PutOutcome, StoreError, TableDir, publish};

/// Files that are looked at or removed at a time: each may be a message to a store that is far away.
pub const AT_A_TIME: usize = 16;
/// How often a store is tried that is full.
const WHILE_FULL: Duration = Duration::from_secs(10);

/// Drives a job to its end, or until the coordinator stops.
pub async fn drive(core: Arc<Core>, job: Arc<Job>, lock: DirLock, busy: Busy) {
    let end = match &job.build {
        Some(build) => run(&core, &job, build).await,
        None => Ok(None),
    };
    if let Err(message) = &end {
        tracing::warn!(table = %job.table, %message, "the build has stopped");
    }
    remember_failure(&job).await;
    drop(lock);
    if job.cancelled_early() {
        job.end_cancelled();
    } else {
        job.end(end);
    }
    drop(busy);
}

/// Two different results of one task: a coordinator that is started again must not take either for the truth.
async fn remember_failure(job: &Job) {
    let failed = job.peek(|scheduler| match scheduler.phase() {
        Phase::Failed(message) => Some(message.clone()),
        _ => None,
    });
    let (Some(build), Some(message)) = (&job.build, failed) else { return };
    let wish = Wish { message, ..Wish::new(Wanted::Failed, job.priority()) };
    if let Err(error) = wish.put(&build.dir).await {
        tracing::error!(table = %job.table, %error, "that the build has failed cannot be written down");
    }
}

async fn run(core: &Arc<Core>, job: &Arc<Job>, build: &Build) -> Result<Option<Manifest>, String> {
    let Build { dir, plan, .. } = build;
    job.know_doubts(read_doubts(dir, plan).await.map_err(|error| error.to_string())?);
    loop {
        let stop: Stop = Arc::new({
            let (core, job) = (Arc::clone(core), Arc::clone(job));
            move || core.is_stopping() || job.cancelled_early()
        });
        let read = async {
            // What is doubted is taken out: that must be known to whoever comes after.
            if !job.doubts().is_empty() {
                remember_doubts(job).await;
            }
            clean(dir, &job.writing_doubts).await?;
            replay(dir, plan, &job.doubts(), &stop).await
        };
        let replayed = match read.await {
            Ok(replayed) => replayed,
            Err(ReplayError::Stopped) => return Ok(settle(job).await),
            Err(error) if core.store.is_some() && may_pass(&error, dir) => {
                tracing::warn!(table = %job.table, %error, "the store cannot be read now; trying again");
                tokio::select! {
                    () = core.stopped() => {}
                    () = tokio::time::sleep(WHILE_FULL) => {}
                }
                continue;
            }
            Err(error) => return Err(error.to_string()),
        };
        if !replayed.dismissed.is_empty() {
            job.taken_out(&replayed.dismissed);
            remember_doubts(job).await;
        }
        if stop() {
            return Ok(settle(job).await);
        }
        let mut keys = KeyCounts::default();
        replayed.restored.commits.values().try_for_each(|commit| keys.add(plan, commit))?;
        tracing::info!(
            table = %job.table,
            tasks = plan.tasks.len(),
            resumed = replayed.resumed,
            rejected = replayed.rejected,
            "the store is read"
        );
        job.start(core.policy, replayed.restored, replayed.resumed, replayed.rejected);
        core.wake();
        loop {
            if core.is_stopping() {
                return Ok(settle(job).await);
            }
            match job.next_action() {
                Action::Rest => tokio::select! {
                    () = core.stopped() => {}
                    () = job.kicked() => {}
                },
                Action::Stitch(stage) => {
                    stitch_stage(core, job, build, &mut keys, stage).await;
                }
                Action::Recheck => {
                    job.begin_recheck();
                    break;
                }
                // Somebody was found to be wrong just now.
                Action::Publish(_) if !job.begin_publishing() => {}
                Action::Publish(commits) => match publish_table(job, build, &commits).await {
                    Ok(manifest) => return Ok(Some(manifest)),
                    Err(failure) if failure.disk_full => {
                        tracing::warn!(table = %job.table, message = %failure.message, "the manifest cannot be written; the job pauses");
                        job.publishing_failed(failure.message);
                        break;
                    }
                    Err(failure) => return Err(failure.message),
                },
                Action::End => return Ok(settle(job).await),
            }
        }
    }
}

/// Whether the store may be read a while later: it is full, or it is far away and does not answer.
fn may_pass(error: &ReplayError, dir: &TableDir) -> bool {
    match error {
        ReplayError::Unread { .. } => true,
        ReplayError::Store(error) => error.is_disk_full() || dir.is_far(),
        _ => false,
    }
}

/// Waits until no record of the job is being written any more.
async fn settle(job: &Job) -> Option<Manifest> {
    while !job.close() {
        job.kicked().await;
    }
    None
}

/// Checks a stage, writes its record, removes what it replaces and what nobody reads any more. Errors end up in the job's state.
async fn stitch_stage(core: &Core, job: &Job, build: &Build, keys: &mut KeyCounts, stage: StitchJob) {
    let dir = &build.dir;
    let number = stage.stage;
    let record = match stitch(&build.plan, keys, &stage) {
        Ok(record) => record,
        Err(problem) => {
            tracing::error!(table = %job.table, stage = number, %problem, "the tasks of a stage do not fit together");
            job.schedule(|scheduler| scheduler.fail_job(problem));
            core.wake();
            return;
        }
    };
    if let Err(error) = put_stage(dir, &record).await {
        let (full, message) = (error.is_disk_full(), error.to_string());
        job.schedule(|scheduler| scheduler.stitch_failed(number, full, message));
        core.wake();
        return;
    }
    core.metrics.stitched();
    let garbage = job.schedule(|scheduler| scheduler.stitched(number)).unwrap_or_default();
    tracing::debug!(table = %job.table, stage = number, removed = garbage.len(), "stitched");
    // Workers need not wait for what follows.
    core.wake();
    // From here on only tidying: what is left over if this is interrupted goes when the store is read again.
    let commits = record.commits.iter().map(|commit| commit_path(commit.id()));
    remove(job, dir, commits.chain(garbage.into_iter().map(|file| file.path))).await;
}

/// Removes files of a build that nobody needs any more. What cannot be removed goes when the table is published.
pub async fn remove(job: &Job, dir: &TableDir, paths: impl Iterator<Item = String>) {
    let removed = futures::stream::iter(paths).for_each_concurrent(AT_A_TIME, async |path| {
        if let Err(error) = dir.delete(&path).await {
            tracing::warn!(table = %job.table, %path, %error, "cannot remove what is not needed any more");
        }
    });
    removed.await;
}

/// Creates the record of a stage. One that is there already was written by us in an earlier life, or is in the way.
async fn put_stage(dir: &TableDir, record: &StageRecord) -> Result<(), StoreError> {
    let path = stage_path(record.stage);
    let bytes = record::seal(record);
    if dir.put_new(&path, bytes.clone()).await? == PutOutcome::Created {
        return Ok(());
    }
    let found = dir.get(&path).await?;
    if found.as_deref() != Some(&bytes) {
        tracing::warn!(record = %path, "replacing a record that is not the one of this build");
        dir.put_over(&path, bytes).await?;
    }
    Ok(())
}

/// What became of the record of a task.
pub enum Recorded {
    /// It is durable.
    Durable,
    /// The store holds another one.
    Conflict(Box<Commit>),
}

/// Creates the record of a task, durably.
pub async fn put_commit(dir: &TableDir, commit: &Commit) -> Result<Recorded, StoreError> {
    let path = commit_path(commit.id());
    let bytes = record::seal(commit);
    if dir.put_new(&path, bytes.clone()).await? == PutOutcome::Created {
        return Ok(Recorded::Durable);
    }
    let found = dir.get(&path).await?.map(|bytes| record::open::<Commit>(&bytes));
    match found {
        Some(Ok(other)) if other.content == commit.content => Ok(Recorded::Durable),
        Some(Ok(other)) => Ok(Recorded::Conflict(Box::new(other))),
        Some(Err(_)) | None => {
            tracing::warn!(record = %path, "replacing a damaged record");
            dir.put_over(&path, bytes).await?;
            Ok(Recorded::Durable)
        }
    }
}

async fn publish_table(job: &Job, build: &Build, commits: &[Arc<Commit>]) -> Result<Manifest, CommitFailure> {
    let space = &build.space;
    let failed = |message: String| CommitFailure { disk_full: false, message };
    let manifest = manifest(&build.plan, space.scalar_columns(), space.dist_columns(), commits).map_err(failed)?;
    // It waits for the disk, so not on a thread that serves calls.
    let published = blocking({
        let (dir, manifest, runtime) = (build.dir.clone(), manifest.clone(), tokio::runtime::Handle::current());
        move || runtime.block_on(publish(&dir, &manifest))
    });
    let published = published.await.map_err(|error| failed(error.to_string()))?;
    published.map_err(|error| CommitFailure { disk_full: error.is_disk_full(), message: error.to_string() })?;
    tracing::info!(table = %job.table, root = %manifest.root, "published");
    remove_unpublished(job, &build.dir, &manifest).await;
    remove_build(&build.dir).await;
    Ok(manifest)
}

/// Removes shards that the table does not name: a worker that computes wrong numbers may have written some, and said nothing of them.
async fn remove_unpublished(job: &Job, dir: &TableDir, manifest: &Manifest) {
    let shards = manifest.layers.iter().flat_map(|layer| layer.shards.iter().map(|shard| shard.record(layer.layer).path));
    let keep = shards.collect();
    let removed = blocking({
        let dir = dir.clone();
        move || dir.remove_unlisted(&keep)
    });
    match removed.await {
        Ok(Ok(removed)) if removed.is_empty() => {}
        Ok(Ok(removed)) => {
            tracing::info!(table = %job.table, files = removed.len(), "removed files that the table does not name")
        }
        Ok(Err(error)) => tracing::warn!(table = %job.table, %error, "cannot remove files that the table does not name"),
        Err(error) => tracing::warn!(table = %job.table, %error, "cannot remove files that the table does not name"),
    }
}

/// Removes what only the build needed. The table is complete with or without it.
pub async fn remove_build(dir: &TableDir) {
    let removed = blocking({
        let dir = dir.clone();
        move || dir.remove_build()
    })
    .await;
    let error = match removed {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    tracing::warn!(dir = %dir.shown("").display(), %error, "the table is complete, but its build folder cannot be removed");
}
