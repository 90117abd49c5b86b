//! Two different results of one task: who decides which is right.
//!
//! One of the two workers computes wrong numbers, and nothing says which. So the record of the task is taken out of the store, and the task
//! is given to a worker that has not made it yet. The first result that two workers have made is right, and whoever made another
//! one is wrong: its results are taken out too ([`Settled`]). What others made from them stands where they come out the same.
//!
//! ```text
//!   differs ─▶ Doubt ─▶ the store is read again without the task ─▶ a third worker ─▶ agrees with one ─▶ Settled
//!                                                                        │ with none: a fourth
//!                                                                        └ nobody is there: the job pauses, and says so
//! ```

use super::results::{difference, differing};
use super::{Offer, PauseCause, Phase, Scheduler, TaskState, Worker};
use crate::plan::TaskIndex;
use crate::record::{Commit, Content, Dismissed, Doubt, Doubts, Opinion, artifact_of};
use std::sync::Arc;
use strata_games::TaskId;

/// A task whose result two workers agree on, after others did not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settled {
    /// The task.
    pub id: TaskId,
    /// Who agrees.
    pub right: Vec<String>,
    /// Who made something else.
    pub wrong: Vec<String>,
}

impl Settled {
    /// Why a worker that was wrong is not trusted any more, for people.
    pub fn reason(&self, table: &str) -> String {
        format!("its result of task {} of {table} differs from that of {}, who agree", self.id, self.right.join(" and "))
    }
}

impl Scheduler {
    /// Another result than the one that stands: from now on neither does.
    pub(super) fn differs(&mut self, task: TaskIndex, earlier: &Commit, token: u64, worker: &str, content: &Content) -> Offer {
        let id = self.plan.tasks[task].id;
        let what = differing(id, &difference(&earlier.content, content), &earlier.worker, worker);
        let message = format!("{what}; a third worker decides");
        let is_over = matches!(self.phase, Phase::Failed(_) | Phase::Cancelled);
        // What was begun before results were taken out may have been made from one of them.
        let is_old = u32::try_from(token >> 32) != Ok(self.epoch) && !self.doubts.dismissed.is_empty();
        if is_over || is_old || self.doubt_of(task).is_some() {
            return Offer::Stale;
        }
        let opinion = |worker: &str, content: &Content| Opinion { worker: worker.into(), content: content.clone() };
        let TaskId { stage, part } = id;
        let opinions = vec![opinion(&earlier.worker, &earlier.content), opinion(worker, content)];
        self.doubts.open.push(Doubt { stage, part, inputs: earlier.inputs.clone(), opinions });
        self.wants_recheck = true;
        self.note(task, worker, &message);
        Offer::Doubt(message)
    }

    /// What is known of a task whose results differ.
    pub(super) fn doubt_of(&self, task: TaskIndex) -> Option<&Doubt> {
        let id = self.plan.tasks[task].id;
        self.doubts.open.iter().find(|doubt| doubt.id() == id)
    }

    /// Whether this worker has made a task already, in which case it cannot decide.
    pub(super) fn has_said(&self, task: TaskIndex, worker: &Worker) -> bool {
        self.doubt_of(task).is_some_and(|doubt| doubt.has_heard(&worker.name))
    }

    /// One more result of a task in doubt, by a worker that holds it. `None`: it decides, or there is no doubt any more.
    pub(super) fn hear(&mut self, task: TaskIndex, token: u64, worker: &str, content: &Content) -> Option<Offer> {
        let doubt = self.doubt_of(task)?;
        let id = doubt.id();
        if Some(&doubt.inputs) != self.input_records(task).as_ref() {
            // It is made from other files now: what was made before says nothing.
            self.doubts.open.retain(|doubt| doubt.id() != id);
            return None;
        }
        if doubt.opinions.iter().any(|opinion| opinion.content == *content && opinion.worker != worker) {
            return None;
        }
        let heard: Vec<&str> = doubt.opinions.iter().map(|opinion| opinion.worker.as_str()).collect();
        let message = format!("task {id} has one more result, of worker {worker}, which is not that of {}", heard.join(" or "));
        let opinion = Opinion { worker: worker.into(), content: content.clone() };
        let open = self.doubts.open.iter_mut().find(|doubt| doubt.id() == id)?;
        open.opinions.push(opinion);
        self.note(task, worker, &message);
        self.release(token);
        Some(Offer::Doubt(message))
    }

    /// The record of a task is durable. If its results differed, that is over.
    pub(super) fn settle(&mut self, commit: &Commit) -> Option<Settled> {
        let at = self.doubts.open.iter().position(|doubt| doubt.id() == commit.id())?;
        let doubt = self.doubts.open.swap_remove(at);
        let (same, other): (Vec<Opinion>, Vec<Opinion>) =
            doubt.opinions.into_iter().partition(|opinion| opinion.content == commit.content);
        let names = |opinions: Vec<Opinion>| opinions.into_iter().map(|opinion| opinion.worker);
        let right = names(same).chain([commit.worker.clone()]).collect();
        Some(Settled { id: commit.id(), right, wrong: names(other).collect() })
    }

    /// Whether a file of a finished task differs from one that finished tasks were made from: those have to be looked at again.
    pub(super) fn is_news(&self, commit: &Commit) -> bool {
        let id = self.plan.index_of(commit.id());
        let former = id.and_then(|task| self.former.get(&task)).is_some_and(|former| former.content != commit.content);
        let differs = |file| self.expected.get(&artifact_of(file)).is_some_and(|evidence| evidence.blake3 != file.blake3);
        former || commit.content.outputs.iter().any(differs)
    }

    /// What this worker has made is to be taken out. Says which of the finished tasks those are.
    pub fn dismiss(&mut self, worker: &str) -> Vec<Arc<Commit>> {
        let made = self.made_by(worker);
        self.doubts.dismiss(worker);
        if made.is_empty() {
            self.doubts.taken_out(&[Dismissed { worker: worker.into(), tasks: 0 }]);
        } else {
            self.wants_recheck = true;
        }
        if let Phase::Paused(PauseCause::Opinion, _) = self.phase {
            self.resume();
        }
        made
    }

    /// The finished tasks that a worker has made.
    pub fn made_by(&self, worker: &str) -> Vec<Arc<Commit>> {
        let of_worker = |task: &TaskState| match task {
            TaskState::Done(commit) | TaskState::Committing(commit, _) if commit.worker == worker => Some(Arc::clone(commit)),
            _ => None,
        };
        self.tasks.iter().filter_map(of_worker).collect()
    }

    /// Why the job cannot go on with the workers there are: nobody is left to decide, or to make a task a second time.
    pub(super) fn needs_another(&self, worker: &Worker, others: &[Worker]) -> Option<String> {
        if self.doubts.open.is_empty() && !self.checks_all() {
            return None;
        }
        let there: Vec<&Worker> = others.iter().chain([worker]).collect();
        let undecided = |doubt: &&Doubt| {
            let ready = self.plan.index_of(doubt.id()).filter(|task| self.ready.contains(task));
            ready.is_some_and(|task| {
                let memory = self.plan.tasks[task].plan.memory_bytes;
                !there.iter().any(|worker| worker.memory_bytes >= memory && !doubt.has_heard(&worker.name))
            })
        };
        let Some(doubt) = self.doubts.open.iter().find(undecided) else { return self.waits_for_second(&there) };
        let names: Vec<&str> = doubt.opinions.iter().map(|opinion| opinion.worker.as_str()).collect();
        Some(format!(
            "task {} has different results, of the workers {}, and nobody else is there to decide; start another worker, or if you know \
             which of them is wrong, `strata invalidate --built-by {}`",
            doubt.id(),
            names.join(" and "),
            names.last().unwrap_or(&"WORKER")
        ))
    }

    /// Whether the store must be read again before anything else is built.
    pub fn wants_recheck(&self) -> bool {
        self.wants_recheck
    }

    /// Results that are not trusted.
    pub fn doubts(&self) -> &Doubts {
        &self.doubts
    }
}
