//! The service that workers talk to. Its calls are short: a look at the scheduler under its lock. Only a result makes them wait, until
//! its record is durable; results of different tasks wait side by side.

use crate::content::{content_of, message_of_file};
use crate::core::{Core, status_of};
use crate::doubts::{quarantine, remember_doubts};
use crate::drive::{AT_A_TIME, Recorded, put_commit, remove};
use crate::job::Job;
use crate::plan::TaskIndex;
use crate::record::Commit;
use crate::replay::{ReplayError, Stop, check_files};
use crate::scheduler::{Assignment, CommitFailure, Committed, FailAction, Offer, Scheduler, Worker};
use futures::StreamExt;
use std::sync::Arc;
use std::time::Duration;
use strata_games::TaskId;
use strata_proto::v1::complete_reply::Verdict;
use strata_proto::v1::fail_request::Reason;
use strata_proto::v1::work_server::Work;
use strata_proto::v1::{
    CompleteReply, CompleteRequest, FailReply, FailRequest, HeartbeatReply, HeartbeatRequest, LeaseReply, LeaseRequest,
    LeaveReply, LeaveRequest, RegisterReply, RegisterRequest, Task,
};
use strata_proto::{PROTOCOL, QUARANTINED};
use strata_storage::{FileRecord, Store, StoreError};
use tokio::time::{Instant, timeout_at};
use tonic::metadata::MetadataValue;
use tonic::{Request, Response, Status};

/// Longest time that a call for a task is held open.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How long at most until it is looked again whether the same result is recorded.
const WHILE_PENDING: Duration = Duration::from_millis(100);
/// Longest name of a worker that is kept, in characters.
const LONGEST_NAME: usize = 100;
/// Longest text about a failure that is kept, in characters.
const LONGEST_MESSAGE: usize = 2000;

/// The service that workers talk to.
#[derive(Clone)]
pub struct WorkService {
    core: Arc<Core>,
}

impl WorkService {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    /// Refuses workers that were found to be wrong.
    fn trusted(&self, name: &str) -> Result<(), Status> {
        match self.core.distrusts(name) {
            None => Ok(()),
            Some(why) => {
                let why = format!(
                    "{why}; its machine or its build computes wrong numbers: test its memory and processor, and leave it out"
                );
                let mut status = Status::failed_precondition(why);
                status.metadata_mut().insert(QUARANTINED, MetadataValue::from_static("1"));
                Err(status)
            }
        }
    }

    /// The first task that any job has for a worker.
    fn find_task(&self, worker: &Worker) -> Option<Task> {
        let now = self.core.now();
        // Copies of slow tasks only when no job has anything else.
        for is_copy in [false, true] {
            for job in self.core.jobs() {
                let depends = |scheduler: &mut Scheduler| Some(scheduler.depends_on_others(worker.id));
                let others = if job.peek(depends).unwrap_or(false) { self.core.others(worker.id) } else { Vec::new() };
                let lease = |scheduler: &mut Scheduler| {
                    if is_copy { scheduler.lease_copy(now, worker) } else { scheduler.lease_among(now, worker, &others) }
                };
                if let Some(assignment) = job.serve(lease).flatten() {
                    tracing::debug!(table = %job.table, task = %assignment.id, token = assignment.token, worker = %worker.name, is_copy, "leased");
                    self.core.metrics.copies.inc_by(u64::from(is_copy));
                    return Some(task_message(&job, assignment));
                }
            }
        }
        let largest = self.core.largest_memory();
        for job in self.core.jobs() {
            job.serve(|scheduler| scheduler.check_memory(largest));
        }
        None
    }
}

#[tonic::async_trait]
impl Work for WorkService {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<RegisterReply>, Status> {
        let request = request.into_inner();
        if request.protocol != PROTOCOL {
            return Err(Status::failed_precondition(format!(
                "worker {} speaks protocol {}, and the coordinator {PROTOCOL}; install the same version on both",
                request.name, request.protocol
            )));
        }
        if request.build != self.core.build {
            return Err(Status::failed_precondition(format!(
                "worker {} is of build {}, and the coordinator of build {}; install the same version on both",
                request.name, request.build, self.core.build
            )));
        }
        // It is shown on terminals.
        let name: String = request.name.chars().filter(|c| !c.is_control()).take(LONGEST_NAME).collect();
        self.trusted(&name)?;
        let worker_id = self.core.register(name, request.memory_bytes, request.threads);
        tracing::info!(worker = %request.name, worker_id, memory = request.memory_bytes, threads = request.threads, "registered");
        let lease_ms = u64::try_from(self.core.policy.lease.as_millis()).unwrap_or(u64::MAX);
        let store = self.core.store.as_ref().map_or_else(String::new, Store::shown);
        Ok(Response::new(RegisterReply { worker_id, lease_ms, store }))
    }

    async fn lease(&self, request: Request<LeaseRequest>) -> Result<Response<LeaseReply>, Status> {
        let request = request.into_inner();
        let deadline = Instant::now() + Duration::from_millis(request.wait_ms).min(LONGEST_WAIT);
        loop {
            // Listen first, then look: what becomes ready in between is not missed.
            let mut woken = std::pin::pin!(self.core.woken());
            woken.as_mut().enable();
            if self.core.lets_go(request.worker_id) {
                return Ok(Response::new(LeaseReply { task: None, drained: true }));
            }
            if self.core.is_stopping() {
                return Err(Status::unavailable("the coordinator is shutting down"));
            }
            let Some(worker) = self.core.worker(request.worker_id) else {
                return Err(Status::not_found(format!("there is no worker {}: register first", request.worker_id)));
            };
            self.trusted(&worker.name)?;
            if let Some(task) = self.find_task(&worker) {
                // It may have left since it was looked up: then nobody waits for the task.
                if self.core.worker(request.worker_id).is_none() {
                    self.core.take_back(request.worker_id);
                    return Err(Status::not_found(format!("worker {} has left", request.worker_id)));
                }
                return Ok(Response::new(LeaseReply { task: Some(task), drained: false }));
            }
            if timeout_at(deadline, woken).await.is_err() {
                return Ok(Response::new(LeaseReply { task: None, drained: false }));
            }
        }
    }

    async fn heartbeat(&self, request: Request<HeartbeatRequest>) -> Result<Response<HeartbeatReply>, Status> {
        let r = request.into_inner();
        let id = TaskId { stage: r.stage, part: r.part };
        if self.trusted(&self.core.worker_name(r.worker_id)).is_err() {
            return Ok(Response::new(HeartbeatReply { go_on: false }));
        }
        let now = self.core.now();
        let beat = |job: Arc<Job>| job.serve(|scheduler| scheduler.heartbeat(now, id, r.token, r.positions, r.layer));
        let go_on = !self.core.is_stopping() && self.core.job(&r.table).and_then(beat).unwrap_or(false);
        Ok(Response::new(HeartbeatReply { go_on }))
    }

    async fn complete(&self, request: Request<CompleteRequest>) -> Result<Response<CompleteReply>, Status> {
        let request = request.into_inner();
        self.trusted(&self.core.worker_name(request.worker_id))?;
        let Some(busy) = self.core.busy() else { return Err(Status::unavailable("the coordinator is shutting down")) };
        // A caller that goes away must not leave a record half done, so the work is not its own.
        let handed_in = tokio::spawn({
            let core = Arc::clone(&self.core);
            async move {
                let _busy = busy;
                complete(&core, request).await
            }
        });
        let verdict = handed_in.await.map_err(|error| Status::internal(error.to_string()))??;
        let mut reply = CompleteReply::default();
        reply.set_verdict(verdict);
        Ok(Response::new(reply))
    }

    async fn fail(&self, request: Request<FailRequest>) -> Result<Response<FailReply>, Status> {
        let r = request.into_inner();
        let worker = self.core.worker_name(r.worker_id);
        let Some(job) = self.core.job(&r.table) else { return Ok(Response::new(FailReply {})) };
        let id = TaskId { stage: r.stage, part: r.part };
        let message: String = r.message.chars().take(LONGEST_MESSAGE).collect();
        let action = job.serve(|scheduler| scheduler.fail(id, r.token, r.reason(), &message)).unwrap_or(FailAction::Ignored);
        tracing::info!(table = %job.table, task = %id, %worker, reason = r.reason().as_str_name(), %message, ?action, "given back");
        if action != FailAction::Ignored {
            self.core.metrics.failed(r.reason());
        }
        if let FailAction::CheckInputs(task) = action
            && let Some(busy) = self.core.busy()
        {
            let core = Arc::clone(&self.core);
            tokio::spawn(async move {
                check_inputs(&core, &job, task, &worker, &message).await;
                core.wake();
                drop(busy);
            });
        }
        self.core.wake();
        Ok(Response::new(FailReply {}))
    }

    async fn leave(&self, request: Request<LeaveRequest>) -> Result<Response<LeaveReply>, Status> {
        let id = request.into_inner().worker_id;
        let worker = self.core.worker_name(id);
        self.core.forget(id);
        let tasks = self.core.take_back(id);
        tracing::info!(%worker, tasks, "left");
        Ok(Response::new(LeaveReply {}))
    }
}

fn task_message(job: &Job, assignment: Assignment) -> Task {
    Task {
        table: job.table.clone(),
        stage: assignment.id.stage,
        part: assignment.id.part,
        token: assignment.token,
        attempt: assignment.attempt,
        inputs: assignment.inputs.iter().map(message_of_file).collect(),
        memory_bytes: assignment.memory_bytes.unwrap_or(0),
    }
}

async fn complete(core: &Arc<Core>, request: CompleteRequest) -> Result<Verdict, Status> {
    let id = TaskId { stage: request.stage, part: request.part };
    let worker = core.worker_name(request.worker_id);
    let Some(job) = core.job(&request.table) else { return Ok(Verdict::Stale) };
    let Some(build) = &job.build else { return Ok(Verdict::Stale) };
    let Some(task) = build.plan.index_of(id) else {
        return Err(Status::invalid_argument(format!("the plan of {} has no task {id}", job.table)));
    };
    let refuse = |problem: String| {
        job.serve(|scheduler| scheduler.fail(id, request.token, Reason::Error, &problem));
        core.wake();
        tracing::warn!(table = %job.table, task = %id, %worker, %problem, "a result is refused");
        Status::invalid_argument(problem)
    };
    let content = content_of(&build.plan, task, &request).map_err(refuse)?;
    // Catches workers that write to another directory than the coordinator reads, before the table depends on it.
    let length_of = |file: FileRecord| {
        let dir = build.dir.clone();
        async move { Ok::<_, StoreError>((dir.length(&file.path).await?, file)) }
    };
    let mut lengths = futures::stream::iter(content.outputs.clone()).map(length_of).buffer_unordered(AT_A_TIME);
    let mut missing = None;
    while let Some(found) = lengths.next().await {
        let (length, file) = found.map_err(|error| status_of(&error))?;
        if length != Some(file.bytes) {
            missing = Some(build.dir.shown(&file.path));
            break;
        }
    }
    drop(lengths);
    loop {
        let mut changes = job.changes();
        changes.mark_unchanged();
        let now = core.now();
        let offer = job.serve(|scheduler| {
            // A late result may name files that have been removed since; that matters only if it is to be taken.
            let refused = missing.is_some() && scheduler.holds(id, request.token);
            (!refused).then(|| scheduler.offer(now, id, request.token, &worker, &content, request.elapsed_ms))
        });
        match offer {
            None | Some(Some(Offer::Stale)) => return Ok(Verdict::Stale),
            Some(Some(Offer::AlreadyDone)) => {
                tidy(&job, id, &content.outputs).await;
                return Ok(Verdict::AlreadyDone);
            }
            Some(None) => {
                let path = missing.as_ref().map_or_else(String::new, |path| path.display().to_string());
                return Err(refuse(format!(
                    "worker {worker} says it wrote {path}, but it is not there; do worker and coordinator use the same store?"
                )));
            }
            Some(Some(Offer::Doubt(message))) => {
                tracing::error!(table = %job.table, %message, "results differ");
                core.metrics.conflicts.inc();
                remember_doubts(&job).await;
                core.wake();
                return Ok(Verdict::Conflict);
            }
            Some(Some(Offer::Conflict(message))) => {
                tracing::error!(table = %job.table, %message, "the build stops");
                core.metrics.conflicts.inc();
                return Ok(Verdict::Conflict);
            }
            Some(Some(Offer::Pending)) => {
                // Asking was a change too.
                changes.mark_unchanged();
                let _ = tokio::time::timeout(WHILE_PENDING, changes.changed()).await;
            }
            Some(Some(Offer::Commit(commit))) => {
                let verdict = record_result(core, &job, &commit).await?;
                if verdict == Verdict::Accepted {
                    core.did_a_task(request.worker_id);
                }
                return Ok(verdict);
            }
        }
    }
}

/// Removes what a late result brought back of files that were removed before.
async fn tidy(job: &Job, id: TaskId, outputs: &[FileRecord]) {
    let Some(build) = &job.build else { return };
    let leftovers = job.peek(|scheduler| Some(scheduler.leftovers(id, outputs))).unwrap_or_default();
    remove(job, &build.dir, leftovers.into_iter().map(|file| file.path)).await;
}

/// Makes the record of a task durable. No lock is held meanwhile.
async fn record_result(core: &Arc<Core>, job: &Job, commit: &Commit) -> Result<Verdict, Status> {
    let Some(build) = &job.build else { return Ok(Verdict::Stale) };
    let id = commit.id();
    let verdict = match put_commit(&build.dir, commit).await {
        Ok(Recorded::Durable) => {
            let Committed { positions, settled } = job.schedule(|scheduler| scheduler.committed(id)).unwrap_or_default();
            core.metrics.finished(build.plan.stages[id.stage as usize].pass, commit.elapsed_ms, positions);
            tracing::debug!(table = %job.table, task = %id, worker = %commit.worker, ms = commit.elapsed_ms, "committed");
            if let Some(settled) = settled {
                let reason = settled.reason(&job.table);
                for wrong in &settled.wrong {
                    quarantine(core, wrong, &reason).await;
                }
            }
            Ok(Verdict::Accepted)
        }
        Ok(Recorded::Conflict(stored)) => {
            let message = job.schedule(|scheduler| scheduler.commit_conflicts(id, &stored)).unwrap_or_default();
            tracing::error!(table = %job.table, %message, "the build stops");
            core.metrics.conflicts.inc();
            Ok(Verdict::Conflict)
        }
        Err(error) => {
            let failure = CommitFailure { disk_full: error.is_disk_full(), message: error.to_string() };
            job.schedule(|scheduler| scheduler.commit_failed(core.now(), id, &failure));
            tracing::warn!(table = %job.table, task = %id, %error, "a record cannot be written; the job pauses");
            Err(status_of(&error))
        }
    };
    core.wake();
    verdict
}

/// Looks at the files that a worker complained about. When one is damaged, everything is read again from the store.
async fn check_inputs(core: &Arc<Core>, job: &Job, task: TaskIndex, worker: &str, message: &str) {
    let Some(build) = &job.build else { return };
    let files = job.peek(|scheduler| scheduler.inputs_of(task)).unwrap_or_default();
    let stop: Stop = Arc::new({
        let core = Arc::clone(core);
        move || core.is_stopping()
    });
    let damaged = match check_files(&build.dir, files, &stop).await {
        Ok(verdicts) => verdicts.into_iter().find_map(|(file, verdict)| Some(format!("{}: {}", file.path, verdict.err()?))),
        // The worker could not read it either, then.
        Err(ReplayError::Unread { .. }) => None,
        Err(error) => Some(error.to_string()),
    };
    match damaged {
        None => {
            job.schedule(|scheduler| scheduler.inputs_are_sound(task, worker, message));
        }
        Some(problem) => {
            tracing::warn!(table = %job.table, %problem, "a file is damaged; everything is checked again");
            job.ask_recheck();
        }
    }
}
