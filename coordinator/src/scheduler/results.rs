//! How tasks end: results handed in, and failures reported.

use super::{Lease, PauseCause, Phase, Scheduler, Settled, TaskState};
use crate::plan::TaskIndex;
use crate::record::{Commit, Content, RECORD_FORMAT, artifact_of, named};
use std::sync::Arc;
use std::time::Duration;
use strata_games::{ArtifactKind, TaskId};
use strata_proto::v1::fail_request::Reason;

/// Failures kept for people to read.
const FAILURES_KEPT: usize = 20;

/// What becomes of a result.
#[derive(Clone, Debug)]
pub enum Offer {
    /// Wanted: write this record, then call [`Scheduler::committed`] or [`Scheduler::commit_failed`].
    Commit(Arc<Commit>),
    /// The same is being written just now: wait, and offer again.
    Pending,
    /// The same is there already.
    AlreadyDone,
    /// Not wanted.
    Stale,
    /// It differs from an earlier result; a third worker is to decide. The sentence names both workers.
    Doubt(String),
    /// It differs from what is known of an earlier one: the job has stopped. The sentence names both workers.
    Conflict(String),
}

/// What became of a task whose record is durable.
#[derive(Clone, Default, Debug)]
pub struct Committed {
    /// Positions that it handled.
    pub positions: u64,
    /// What it has decided, if its results differed before.
    pub settled: Option<Settled>,
}

/// Why a record, or the manifest, could not be written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommitFailure {
    /// No space is left.
    pub disk_full: bool,
    /// For people.
    pub message: String,
}

/// What to do about a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailAction {
    /// Nothing: the token was no longer good.
    Ignored,
    /// Nothing: it is noted.
    Noted,
    /// Look at the files that the task reads, then call [`Scheduler::inputs_are_sound`], or begin again from the store.
    CheckInputs(TaskIndex),
}

impl Scheduler {
    /// A worker hands in the result of a task. The content must have passed [`check_content`](crate::content::check_content).
    pub fn offer(&mut self, now: Duration, id: TaskId, token: u64, worker: &str, content: &Content, elapsed_ms: u64) -> Offer {
        let Some(task) = self.plan.index_of(id) else { return Offer::Stale };
        self.end_check(task, token);
        match &self.tasks[task] {
            TaskState::Done(earlier) if earlier.content == *content => {
                self.confirm(task, worker);
                return Offer::AlreadyDone;
            }
            TaskState::Committing(earlier, _) if earlier.content == *content => return Offer::Pending,
            TaskState::Done(earlier) | TaskState::Committing(earlier, _) => {
                let earlier = Arc::clone(earlier);
                return self.differs(task, &earlier, token, worker, content);
            }
            _ => {}
        }
        let over = matches!(self.phase, Phase::Failed(_) | Phase::Cancelled);
        if over || self.leased(id, token).is_none() {
            return Offer::Stale;
        }
        if let Some(offer) = self.hear(task, token, worker, content) {
            return offer;
        }
        // Made again because its files were lost. From other files than before it may come out otherwise.
        let former = self.former.get(&task).filter(|former| Some(&former.inputs) == self.input_records(task).as_ref());
        if let Some(former) = former.filter(|former| former.content != *content).cloned() {
            return self.differs(task, &former, token, worker, content);
        }
        for file in &content.outputs {
            let evidence = self.expected.get(&artifact_of(file)).filter(|evidence| evidence.blake3 != file.blake3);
            if let Some(evidence) = evidence.filter(|evidence| evidence.is_firm) {
                let message = two_results(id, &named(artifact_of(file)), &evidence.worker, worker);
                self.fail_job(message.clone());
                return Offer::Conflict(message);
            }
        }
        let Some(inputs) = self.input_records(task) else { return Offer::Stale };
        let mut lease = self.leases.remove(&token).expect("the token is good");
        lease.expires = now + self.policy.lease;
        let commit = Arc::new(Commit {
            format: RECORD_FORMAT,
            table: self.plan.table.clone(),
            stage: id.stage,
            part: id.part,
            content: content.clone(),
            inputs,
            worker: worker.to_owned(),
            attempt: lease.attempt,
            token,
            elapsed_ms,
        });
        self.tasks[task] = TaskState::Committing(Arc::clone(&commit), lease);
        self.committing.insert(task);
        Offer::Commit(commit)
    }

    /// The record of a task is durable. If its results differed before, this one has decided.
    pub fn committed(&mut self, id: TaskId) -> Committed {
        let Some(task) = self.plan.index_of(id) else { return Committed::default() };
        let TaskState::Committing(commit, lease) = &self.tasks[task] else { return Committed::default() };
        let (commit, lease) = (Arc::clone(commit), lease.clone());
        self.committing.remove(&task);
        // Short tasks end before their first heartbeat; what they made is then the best count of what they handled.
        let keys =
            commit.content.outputs.iter().filter(|file| artifact_of(file).kind != ArtifactKind::Work).map(|file| file.keys);
        let positions = lease.positions.max(keys.sum());
        self.positions += positions;
        self.remember_place(&lease);
        self.learn_pace(task, commit.elapsed_ms, lease.positions);
        self.wants_recheck |= self.is_news(&commit);
        let settled = self.settle(&commit);
        self.finish(task, commit);
        if let Some(settled) = &settled {
            settled.right.iter().for_each(|worker| self.confirm(task, worker));
            // At once: nothing may be stitched or published of those who were wrong.
            settled.wrong.iter().for_each(|worker| drop(self.dismiss(worker)));
        }
        Committed { positions, settled }
    }

    /// The record of a task could not be written. The lease goes on, so that the worker may hand the result in again.
    pub fn commit_failed(&mut self, now: Duration, id: TaskId, failure: &CommitFailure) {
        let Some(task) = self.plan.index_of(id) else { return };
        let TaskState::Committing(commit, lease) = &self.tasks[task] else { return };
        let (token, mut lease) = (commit.token, lease.clone());
        lease.expires = now + self.policy.lease;
        lease.is_finished = true;
        self.committing.remove(&task);
        self.tasks[task] = TaskState::Leased;
        self.note(task, "coordinator", &failure.message);
        self.leases.insert(token, lease);
        self.no_copy_before = None;
        let cause = if failure.disk_full { PauseCause::DiskFull } else { PauseCause::Failures };
        self.pause(cause, failure.message.clone());
    }

    /// The store holds another record for a task whose record was to be written: the job stops.
    pub fn commit_conflicts(&mut self, id: TaskId, stored: &Commit) -> String {
        let Some(task) = self.plan.index_of(id) else { return String::new() };
        let (what, worker) = match &self.tasks[task] {
            TaskState::Committing(ours, _) => (difference(&stored.content, &ours.content), ours.worker.clone()),
            _ => (String::from("its record"), String::from("this one")),
        };
        let message = two_results(id, &what, &stored.worker, &worker);
        self.committing.remove(&task);
        if self.is_held(task) {
            self.tasks[task] = TaskState::Leased;
        } else {
            self.tasks[task] = TaskState::Ready;
            self.ready.insert(task);
        }
        self.fail_job(message.clone());
        message
    }

    /// A worker gives a task back.
    pub fn fail(&mut self, id: TaskId, token: u64, reason: Reason, message: &str) -> FailAction {
        if self.plan.index_of(id).is_some_and(|task| self.fail_check(task, token, reason, message)) {
            return FailAction::Noted;
        }
        if self.leased(id, token).is_none() {
            return FailAction::Ignored;
        }
        let Some(lease) = self.release(token) else { return FailAction::Ignored };
        let (task, worker) = (lease.task, lease.worker.name);
        if reason == Reason::Leaving {
            return FailAction::Noted;
        }
        self.note(task, &worker, message);
        if reason == Reason::DiskFull {
            self.pause(PauseCause::DiskFull, message.to_owned());
            return FailAction::Noted;
        }
        self.gave_up.insert((task, lease.worker.id));
        if !matches!(self.tasks[task], TaskState::Ready) {
            // Somebody else has the task too, or has just handed it in: it is up to them.
            return FailAction::Noted;
        }
        if reason == Reason::BadInput {
            self.ready.remove(&task);
            self.tasks[task] = TaskState::Suspect;
            return FailAction::CheckInputs(task);
        }
        self.count_failure(task, &worker, message);
        FailAction::Noted
    }

    /// The files that a worker complained about are what they should be: the failure is the worker's.
    pub fn inputs_are_sound(&mut self, task: TaskIndex, worker: &str, message: &str) {
        if let TaskState::Suspect = self.tasks[task] {
            self.tasks[task] = TaskState::Ready;
            self.ready.insert(task);
            self.count_failure(task, worker, &format!("{message} (the coordinator finds the file sound)"));
        }
    }

    fn count_failure(&mut self, task: TaskIndex, worker: &str, message: &str) {
        self.task_failures[task] += 1;
        let failures = self.task_failures[task];
        if failures >= self.policy.max_failures {
            let id = self.plan.tasks[task].id;
            self.pause(
                PauseCause::Failures,
                format!("task {id} has failed {failures} times, the last time on {worker}: {message}"),
            );
        }
    }

    /// Adds a line to what people read about failures.
    pub(super) fn note(&mut self, task: TaskIndex, worker: &str, message: &str) {
        let id = self.plan.tasks[task].id;
        self.failures.truncate(FAILURES_KEPT - 1);
        self.failures.push_front(format!("task {id} on {worker}, attempt {}: {message}", self.attempts[task]));
    }

    /// A task is done, now or in an earlier life.
    pub(super) fn finish(&mut self, task: TaskIndex, commit: Arc<Commit>) {
        let planned = &self.plan.tasks[task];
        self.bytes += commit.content.outputs.iter().map(|file| file.bytes).sum::<u64>();
        self.cost_done += planned.plan.cost;
        self.tasks_done += 1;
        let stage = &mut self.stages[planned.id.stage as usize];
        stage.unfinished -= 1;
        if stage.unfinished == 0 {
            self.complete.insert(planned.id.stage);
        }
        commit.content.outputs.iter().for_each(|file| {
            self.expected.remove(&artifact_of(file));
        });
        self.former.remove(&task);
        self.ready.remove(&task);
        // Whoever else has it hears at the next heartbeat that it is not wanted any more.
        self.leases.retain(|_, lease| lease.task != task);
        self.gave_up.retain(|&(given_up, _)| given_up != task);
        self.can_be_checked(task, &commit.worker);
        self.tasks[task] = TaskState::Done(commit);
    }

    pub(super) fn remember_place(&mut self, lease: &Lease) {
        let stage = &self.plan.stages[self.plan.tasks[lease.task].id.stage as usize];
        let (pass, first) = super::place_of(&self.plan, stage);
        self.last_place = (pass, lease.layer.unwrap_or(first));
    }
}

pub(super) fn differing(id: TaskId, what: &str, earlier: &str, later: &str) -> String {
    format!("task {id} has two different results: {what} from worker {earlier} is not the same from worker {later}")
}

fn two_results(id: TaskId, what: &str, earlier: &str, later: &str) -> String {
    let differs = differing(id, what, earlier, later);
    format!("{differs}; one of the two machines or builds computes wrong numbers, so nothing is published")
}

/// The first thing in which two results differ.
pub(super) fn difference(a: &Content, b: &Content) -> String {
    if let Some((file, _)) = a.outputs.iter().zip(&b.outputs).find(|(a, b)| a != b) {
        return named(artifact_of(file));
    }
    match () {
        () if a.counts != b.counts => "what was counted".into(),
        () if a.stats != b.stats => "the statistics of the states".into(),
        () => "a fact".into(),
    }
}
