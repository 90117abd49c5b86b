//! The service that clients talk to: submit, list, watch, pause, resume, cancel.

use crate::content::message_of_file;
use crate::core::{Core, Seen, blocking_call, status_of};
use crate::doubts::{Made, remember_doubts};
use crate::drive::{drive, remove_build};
use crate::job::{Build, Job, is_final};
use crate::plan::Plan;
use crate::record::{self, JOB_PATH, RECORD_FORMAT};
use crate::wish::{Wanted, Wish, remember};
use futures::Stream;
use futures::stream;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use strata_games::TableName;
use strata_proto::v1::JobState;
use strata_proto::v1::jobs_server::Jobs;
use strata_proto::v1::{
    DrainRequest, InvalidateRequest, JobRequest, JobStatus, ListReply, ListRequest, MadeFile, MadeTask, SubmitRequest,
    WatchRequest, WorkerStatus, WorkersReply, WorkersRequest,
};
use strata_storage::{Manifest, Place, PutOutcome, StoreError, TableDir};
use tonic::{Request, Response, Status};

/// Shortest time between two messages to one who watches.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// The service that clients talk to.
#[derive(Clone)]
pub struct JobsService {
    core: Arc<Core>,
}

impl JobsService {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// The workers, with the tasks they have.
    fn workers_seen(&self) -> Vec<WorkerStatus> {
        let seen = self.core.seen().into_iter().chain(self.core.quarantined());
        let mut workers: Vec<WorkerStatus> = seen.map(message_of_worker).collect();
        for job in self.core.jobs() {
            let held = job.peek(|scheduler| Some(scheduler.held().collect::<Vec<_>>())).unwrap_or_default();
            for (holder, id, layer) in held {
                if let Some(worker) = workers.iter_mut().find(|worker| worker.worker_id == holder) {
                    (worker.table, worker.stage, worker.part, worker.layer) = (job.table.clone(), id.stage, id.part, layer);
                }
            }
        }
        workers
    }

    fn find(&self, table: &str) -> Result<Arc<Job>, Status> {
        let job = canonical(table).and_then(|name| self.core.job(&name.to_string()));
        job.ok_or_else(|| Status::not_found(format!("there is no job for {table}; submit it first")))
    }
}

/// Resolves when a job is in a state that it stays in.
async fn over(job: &Job) {
    let mut changes = job.changes();
    while !is_final(job.status().state()) && changes.changed().await.is_ok() {}
}

fn message_of_worker(seen: Seen) -> WorkerStatus {
    WorkerStatus {
        worker_id: seen.worker.id,
        name: seen.worker.name,
        memory_bytes: seen.worker.memory_bytes,
        threads: seen.threads,
        silent_ms: u64::try_from(seen.silent.as_millis()).unwrap_or(u64::MAX),
        tasks_done: seen.tasks_done,
        draining: seen.draining,
        quarantined: seen.quarantined,
        ..WorkerStatus::default()
    }
}

fn canonical(table: &str) -> Option<TableName> {
    table.parse().ok()
}

#[tonic::async_trait]
impl Jobs for JobsService {
    async fn submit(&self, request: Request<SubmitRequest>) -> Result<Response<JobStatus>, Status> {
        let request = request.into_inner();
        let core = Arc::clone(&self.core);
        // A caller that goes away must not leave a directory locked that nobody drives.
        let job = tokio::spawn(async move { submit(&core, &request.table, request.priority, false).await });
        let job = job.await.map_err(|error| Status::internal(error.to_string()))??;
        Ok(Response::new(job.status()))
    }

    async fn list(&self, _request: Request<ListRequest>) -> Result<Response<ListReply>, Status> {
        let jobs = self.core.jobs().iter().map(|job| job.status()).collect();
        Ok(Response::new(ListReply { jobs }))
    }

    type WatchStream = Pin<Box<dyn Stream<Item = Result<JobStatus, Status>> + Send>>;

    async fn watch(&self, request: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let request = request.into_inner();
        let job = self.find(&request.table)?;
        let interval = Duration::from_millis(request.interval_ms).max(SHORTEST_INTERVAL);
        let core = Arc::clone(&self.core);
        let mut changes = job.changes();
        changes.mark_changed();
        // The state of the stream: what it follows, until it has sent a final state.
        let updates = stream::unfold(Some((core, job, changes, false)), move |following| async move {
            let (core, job, mut changes, paced) = following?;
            if paced {
                tokio::select! {
                    () = core.stopped() => {}
                    () = tokio::time::sleep(interval) => {}
                    // What ends a watch is told at once.
                    () = over(&job) => {}
                }
            }
            tokio::select! {
                () = core.stopped() => {}
                changed = changes.changed() => changed.ok()?,
            }
            let status = job.status();
            let ends = is_final(status.state()) || core.is_stopping();
            Some((Ok(status), (!ends).then_some((core, job, changes, true))))
        });
        Ok(Response::new(Box::pin(updates)))
    }

    async fn pause(&self, request: Request<JobRequest>) -> Result<Response<JobStatus>, Status> {
        let job = self.find(&request.into_inner().table)?;
        job.pause();
        remember(&self.core, &job.table, Wanted::Paused).await;
        Ok(Response::new(job.status()))
    }

    async fn resume(&self, request: Request<JobRequest>) -> Result<Response<JobStatus>, Status> {
        let job = self.find(&request.into_inner().table)?;
        job.resume();
        remember(&self.core, &job.table, Wanted::Go).await;
        self.core.wake();
        Ok(Response::new(job.status()))
    }

    async fn cancel(&self, request: Request<JobRequest>) -> Result<Response<JobStatus>, Status> {
        let job = self.find(&request.into_inner().table)?;
        // First, because a job that is cancelled lets go of its directory.
        remember(&self.core, &job.table, Wanted::Cancelled).await;
        job.cancel();
        Ok(Response::new(job.status()))
    }

    async fn workers(&self, _request: Request<WorkersRequest>) -> Result<Response<WorkersReply>, Status> {
        Ok(Response::new(WorkersReply { workers: self.workers_seen() }))
    }

    async fn drain(&self, request: Request<DrainRequest>) -> Result<Response<WorkersReply>, Status> {
        let name = request.into_inner().worker;
        let drained = self.core.drain(&name);
        if drained.is_empty() {
            return Err(Status::not_found(format!("there is no worker {name}; `strata status` lists them")));
        }
        let workers = self.workers_seen().into_iter().filter(|worker| drained.contains(&worker.worker_id)).collect();
        Ok(Response::new(WorkersReply { workers }))
    }

    type InvalidateStream = Pin<Box<dyn Stream<Item = Result<MadeTask, Status>> + Send>>;

    async fn invalidate(&self, request: Request<InvalidateRequest>) -> Result<Response<Self::InvalidateStream>, Status> {
        let InvalidateRequest { worker, tables, dry_run } = request.into_inner();
        let jobs = match tables.is_empty() {
            true => self.core.jobs().into_iter().filter(|job| !is_final(job.status().state())).collect(),
            false => tables.iter().map(|table| self.find(table)).collect::<Result<Vec<_>, _>>()?,
        };
        for job in &jobs {
            let state = job.status().state();
            if !matches!(state, JobState::Running | JobState::Paused) {
                return Err(Status::failed_precondition(cannot_invalidate(&job.table, state)));
            }
        }
        let mut messages = Vec::new();
        for job in jobs {
            let made = match dry_run {
                true => job.peek(|scheduler| Some(scheduler.made_by(&worker))).unwrap_or_default(),
                false => job.dismiss(&worker),
            };
            if !dry_run {
                tracing::warn!(table = %job.table, %worker, tasks = made.len(), "somebody asked to make again what a worker has made");
                remember_doubts(&job).await;
            }
            messages.extend(made.iter().map(|commit| Ok(message_of_made(&job.table, (&**commit).into()))));
        }
        self.core.wake();
        Ok(Response::new(Box::pin(stream::iter(messages))))
    }
}

/// Why what a worker has made cannot be taken out of a job now.
fn cannot_invalidate(table: &str, state: JobState) -> String {
    match state {
        JobState::Complete | JobState::Publishing => format!(
            "{table} is complete, and nothing says any more who made what of it; `strata verify --level bellman` recomputes its values"
        ),
        JobState::Checking => format!("the files of {table} are being checked; try again when it runs"),
        _ => format!("the build of {table} has ended; submit it again, or name its directory"),
    }
}

fn message_of_made(table: &str, made: Made) -> MadeTask {
    let files =
        made.files.iter().map(message_of_file).map(|file| MadeFile { kind: file.kind, layer: file.layer, shard: file.shard });
    MadeTask { table: table.into(), stage: made.task.stage, part: made.task.part, files: files.collect() }
}

/// Begins a job, or goes on with it: from a look at what is there, and at rest where it is to begin `paused`.
pub(crate) async fn submit(core: &Arc<Core>, table: &str, priority: i32, paused: bool) -> Result<Arc<Job>, Status> {
    let name: TableName = table.parse().map_err(|error: strata_games::NameError| Status::invalid_argument(error.to_string()))?;
    let table = name.to_string();
    let _one_at_a_time = core.submitting.lock().await;
    let Some(busy) = core.busy() else { return Err(Status::unavailable("the coordinator is shutting down")) };
    if let Some(job) = core.job(&table) {
        if !is_final(job.status().state()) {
            job.set_priority(priority);
            let wanted = if job.is_paused_on_request() { Wanted::Paused } else { Wanted::Go };
            remember(core, &table, wanted).await;
            return Ok(job);
        }
        job.released().await;
    }
    let place = (core.locate)(&name);
    if let Some(manifest) = published(&place, &name).await? {
        tidy(&place).await;
        let job = Arc::new(Job::complete(table, core.job_number(), priority, manifest));
        core.insert(Arc::clone(&job));
        return Ok(job);
    }

    let open = Arc::clone(&core.open);
    // The plan of a large table takes seconds.
    let (space, plan) = blocking_call({
        let name = name.clone();
        move || {
            let space = open(&name).map_err(Status::invalid_argument)?;
            let plan = Plan::of(&*space).map_err(|error| Status::internal(error.to_string()))?;
            Ok::<_, Status>((space, plan))
        }
    })
    .await??;
    let (dir, lock) = blocking_call({
        let place = place.clone();
        move || open_dir(&place)
    })
    .await?
    .map_err(|error| status_of(&error))?;
    // Another process may have finished the table just before its lock became ours.
    if let Some(manifest) = published(&place, &name).await? {
        remove_build(&dir).await;
        drop(lock);
        let job = Arc::new(Job::complete(table, core.job_number(), priority, manifest));
        core.insert(Arc::clone(&job));
        return Ok(job);
    }
    claim(&dir, &table, &core.build).await?;
    let wish = Wish::of(&place).await.map_err(|error| status_of(&error))?;
    if wish.wanted == Wanted::Failed {
        return Err(Status::failed_precondition(format!(
            "the build of {table} has failed: {}; remove {} and submit it again to build it anew",
            wish.message,
            place.shown().display()
        )));
    }
    let wanted = if paused { Wanted::Paused } else { Wanted::Go };
    Wish::new(wanted, priority).put(&dir).await.map_err(|error| status_of(&error))?;
    tracing::info!(%table, dir = %place.shown().display(), tasks = plan.tasks.len(), "submitted");
    let build = Build { dir, space, plan: Arc::new(plan) };
    let job = Arc::new(Job::new(table, core.job_number(), priority, build));
    if paused {
        job.pause();
    }
    core.insert(Arc::clone(&job));
    tokio::spawn(drive(Arc::clone(core), Arc::clone(&job), lock, busy));
    Ok(job)
}

fn open_dir(place: &Place) -> Result<(TableDir, strata_storage::DirLock), StoreError> {
    let dir = place.open(None)?;
    let names = dir.foreign_files()?;
    if !names.is_empty() {
        return Err(StoreError::Foreign { path: dir.shown(""), names });
    }
    let lock = dir.lock()?;
    Ok((dir, lock))
}

/// The manifest of the complete table that a build of this name publishes, if there is one.
async fn published(place: &Place, name: &TableName) -> Result<Option<Manifest>, Status> {
    let Some(bytes) = place.get("table.json").await.map_err(|error| status_of(&error))? else { return Ok(None) };
    let manifest = Manifest::parse(&bytes).map_err(|error| {
        Status::failed_precondition(format!(
            "{} is damaged: {error}; `strata verify` says what is left of the table, or choose another directory",
            place.shown().join("table.json").display()
        ))
    })?;
    let table = name.published().to_string();
    if manifest.table != table {
        return Err(Status::failed_precondition(format!(
            "{} holds the table {}, not {table}; choose another directory",
            place.shown().display(),
            manifest.table
        )));
    }
    Ok(Some(manifest))
}

/// Removes the build folder that a build left when it was killed after it had published its table.
async fn tidy(place: &Place) {
    let is_there = match place {
        Place::Folder(folder) => folder.join("build").exists(),
        Place::Bucket(..) => place.list("build").await.is_ok_and(|names| !names.is_empty()),
    };
    if !is_there {
        return;
    }
    let opened = blocking_call({
        let place = place.clone();
        move || place.open(None).and_then(|dir| dir.lock().map(|lock| (dir, lock)))
    });
    match opened.await {
        Ok(Ok((dir, lock))) => {
            remove_build(&dir).await;
            drop(lock);
        }
        // The one that published it is just about to do the same.
        Ok(Err(StoreError::Locked { .. })) => {}
        Ok(Err(error)) => {
            tracing::warn!(dir = %place.shown().display(), %error, "the build folder of a complete table cannot be removed")
        }
        Err(error) => {
            tracing::warn!(dir = %place.shown().display(), %error, "the build folder of a complete table cannot be removed")
        }
    }
}

/// Writes down which table is built here, or makes sure that it is this one.
async fn claim(dir: &TableDir, table: &str, build: &str) -> Result<(), Status> {
    let ours = record::Job { format: RECORD_FORMAT, table: table.into(), build: build.into() };
    let bytes = record::seal(&ours);
    let store = |error: StoreError| status_of(&error);
    // Looked at first: on a full disk nothing can be put, not even what is there.
    if dir.get(JOB_PATH).await.map_err(store)?.as_ref() == Some(&bytes) {
        return Ok(());
    }
    if dir.put_new(JOB_PATH, bytes.clone()).await.map_err(store)? == PutOutcome::Created {
        return Ok(());
    }
    let found = dir.get(JOB_PATH).await.map_err(store)?.unwrap_or_default();
    match record::open::<record::Job>(&found) {
        Ok(job) if job.format != RECORD_FORMAT => Err(Status::failed_precondition(format!(
            "the build in {} was begun by version {} in another form ({}, not {RECORD_FORMAT}); go on with that version, or remove its build folder",
            dir.shown("").display(),
            job.build,
            job.format
        ))),
        Ok(job) if job.table != table => Err(Status::failed_precondition(format!(
            "{} holds an unfinished build of {}, not of {table}; choose another directory",
            dir.shown("").display(),
            job.table
        ))),
        Ok(_) => Ok(()),
        Err(why) => {
            tracing::warn!(record = JOB_PATH, %why, "replacing a damaged record");
            dir.put_over(JOB_PATH, bytes).await.map_err(store)
        }
    }
}
