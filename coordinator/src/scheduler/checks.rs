//! Finished tasks given out once more, to another worker than the one that made them: what comes out must be the same again.
//!
//! A worker does not know that a task is a check. It gets one as soon as there is one for it, and from then on about one in 50 tasks
//! is one, at a share of 3 % of the work. Which task: one of the worker whose results have been checked least, and of those the
//! dearest that is no dearer than the mean task, because a check of next to nothing proves next to nothing. All checks together cost
//! no more than the share of the work that the policy allows; half of that may be spent at once. At a share of 100 % every task is
//! made twice before anything is built on it.
//!
//! A task can be checked as long as what it reads is there. Files that a check reads are not removed under it.

use super::{Assignment, Phase, Scheduler, StageState, TaskState, Worker};
use crate::plan::TaskIndex;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use strata_games::ArtifactId;
use strata_proto::v1::fail_request::Reason;

/// A check under way.
#[derive(Clone, Debug)]
pub(super) struct Check {
    task: TaskIndex,
    worker: Worker,
    expires: Duration,
}

/// What outlives a scheduler whose store is read again.
#[derive(Clone, Default, Debug)]
pub struct Tally {
    /// Cost of the checks given out.
    pub spent: u64,
    /// By worker: tasks since its last check, and checks.
    workers: BTreeMap<u64, (u32, u32)>,
    /// By name of the maker: how many results of its were the same again.
    confirmed: BTreeMap<String, u32>,
}

/// The checks of one job.
#[derive(Clone, Default, Debug)]
pub(super) struct Checks {
    tally: Tally,
    leases: BTreeMap<u64, Check>,
    /// By maker: tasks that can be checked, by cost. Some cannot any more; they go when they are met.
    open: BTreeMap<String, BTreeSet<(u64, TaskIndex)>>,
    /// Tasks that two workers have made.
    confirmed: BTreeSet<TaskIndex>,
    /// Files that nobody reads any more but a check.
    held_back: BTreeSet<ArtifactId>,
}

impl Checks {
    /// None yet, after those of an earlier scheduler.
    pub(super) fn after(tally: Tally) -> Self {
        Self { tally, ..Self::default() }
    }

    /// Workers at checks, and their tasks.
    pub(super) fn held(&self) -> impl Iterator<Item = (u64, TaskIndex)> {
        self.leases.values().map(|check| (check.worker.id, check.task))
    }

    /// When the next lease of a check runs out.
    pub(super) fn next_expiry(&self) -> Option<Duration> {
        self.leases.values().map(|check| check.expires).min()
    }
}

impl Scheduler {
    /// A task is done: it can be checked.
    pub(super) fn can_be_checked(&mut self, task: TaskIndex, maker: &str) {
        let cost = self.plan.tasks[task].plan.cost;
        self.checks.open.entry(maker.to_owned()).or_default().insert((cost, task));
    }

    /// A worker was given a task that is none.
    pub(super) fn count_towards_check(&mut self, worker: u64) {
        self.checks.tally.workers.entry(worker).or_default().0 += 1;
    }

    /// Whether every task is to be made twice.
    pub(super) fn checks_all(&self) -> bool {
        self.policy.checks_percent >= 100
    }

    /// What a check may cost now: no more than the mean task, nor than what is left of the share.
    fn affordable(&self) -> u64 {
        if self.checks_all() {
            return u64::MAX;
        }
        let base = u128::from(self.cost_done.max(self.plan.cost / 2));
        let share = u64::try_from(base * u128::from(self.policy.checks_percent) / 100).unwrap_or(u64::MAX);
        let mean = self.plan.cost / (self.plan.tasks.len() as u64).max(1);
        share.saturating_sub(self.checks.tally.spent).min(mean)
    }

    /// Whether a worker could check a task.
    fn may_check(&self, task: TaskIndex, worker: &Worker) -> bool {
        self.plan.tasks[task].plan.memory_bytes <= worker.memory_bytes
            && !self.gave_up.contains(&(task, worker.id))
            && matches!(&self.tasks[task], TaskState::Done(commit) if commit.worker != worker.name)
    }

    /// Whether something that a finished task read was removed.
    fn is_past(&self, task: TaskIndex) -> bool {
        self.plan.tasks[task].plan.inputs.iter().any(|input| self.readers_left.get(input) == Some(&0))
    }

    /// The task that this worker is to check.
    fn choose_check(&mut self, worker: &Worker) -> Option<TaskIndex> {
        let most = self.affordable();
        let confirmed = |maker: &String| self.checks.tally.confirmed.get(maker).copied().unwrap_or(0);
        let has_some = |open: &BTreeSet<(u64, TaskIndex)>| open.first().is_some_and(|&(cost, _)| cost <= most);
        let others = self.checks.open.iter().filter(|(maker, open)| **maker != worker.name && has_some(open));
        let mut makers: Vec<(u32, &String)> = others.map(|(maker, _)| (confirmed(maker), maker)).collect();
        makers.sort_unstable();
        let mut past = Vec::new();
        let chosen = makers.into_iter().find_map(|(_, maker)| {
            let found = self.checks.open[maker].range(..=(most, TaskIndex::MAX)).rev().find(|&&entry| {
                let is_past = self.is_past(entry.1);
                if is_past {
                    past.push((maker.clone(), entry));
                }
                !is_past && self.may_check(entry.1, worker) && self.inputs_of(entry.1).is_some()
            });
            found.map(|&entry| (maker.clone(), entry))
        });
        for (maker, entry) in past.iter().chain(&chosen) {
            if let Some(open) = self.checks.open.get_mut(maker) {
                open.remove(entry);
            }
        }
        chosen.map(|(_, (_, task))| task)
    }

    /// A finished task for this worker to make again, when it is its turn.
    pub(super) fn lease_check(&mut self, now: Duration, worker: &Worker) -> Option<Assignment> {
        let (since, checks) = self.checks.tally.workers.get(&worker.id).copied().unwrap_or_default();
        let every = self.policy.tasks_between_checks()?;
        if checks > 0 && since < every {
            return None;
        }
        let task = self.choose_check(worker)?;
        let inputs = self.inputs_of(task)?;
        let token = self.next_token();
        self.checks.tally.spent = self.checks.tally.spent.saturating_add(self.plan.tasks[task].plan.cost);
        self.checks.tally.workers.insert(worker.id, (0, checks + 1));
        self.checks.leases.insert(token, Check { task, worker: worker.clone(), expires: now + self.policy.lease });
        let memory_bytes = self.less_memory(task, worker);
        Some(Assignment { id: self.plan.tasks[task].id, token, attempt: self.attempts[task], inputs, memory_bytes })
    }

    /// Keeps a check alive; `None` when the token is of none.
    pub(super) fn heartbeat_of_check(&mut self, now: Duration, task: TaskIndex, token: u64) -> Option<bool> {
        let check = self.checks.leases.get_mut(&token).filter(|check| check.task == task)?;
        check.expires = now + self.policy.lease;
        let goes_on = self.phase == Phase::Running;
        if !goes_on {
            self.drop_check(token);
        }
        Some(goes_on)
    }

    /// A check comes to nothing: somebody else may do it.
    fn drop_check(&mut self, token: u64) -> Option<Check> {
        let check = self.checks.leases.remove(&token)?;
        if let TaskState::Done(commit) = &self.tasks[check.task] {
            let maker = commit.worker.clone();
            self.can_be_checked(check.task, &maker);
        }
        Some(check)
    }

    /// Ends the checks of workers that are not heard of, or leave.
    pub(super) fn drop_checks(&mut self, is_over: impl Fn(Duration, u64) -> bool) {
        let over = self.checks.leases.iter().filter(|(_, check)| is_over(check.expires, check.worker.id));
        let over: Vec<u64> = over.map(|(&token, _)| token).collect();
        for token in over {
            self.drop_check(token);
        }
    }

    /// A worker gives a check back; `false` when the token is of none. The task is done, so nothing comes of it.
    pub(super) fn fail_check(&mut self, task: TaskIndex, token: u64, reason: Reason, message: &str) -> bool {
        if !self.is_check(task, token) {
            return false;
        }
        let Some(check) = self.drop_check(token) else { return false };
        if reason != Reason::Leaving {
            self.note(task, &check.worker.name, message);
            self.gave_up.insert((task, check.worker.id));
        }
        true
    }

    /// Whether a token is that of a check of this task.
    pub(super) fn is_check(&self, task: TaskIndex, token: u64) -> bool {
        self.checks.leases.get(&token).is_some_and(|check| check.task == task)
    }

    /// A result has come: if the token was that of a check, the check is over.
    pub(super) fn end_check(&mut self, task: TaskIndex, token: u64) {
        if self.is_check(task, token) {
            self.checks.leases.remove(&token);
        }
    }

    /// Another worker has made the same of a task as the one whose record stands.
    pub(super) fn confirm(&mut self, task: TaskIndex, worker: &str) {
        let TaskState::Done(commit) = &self.tasks[task] else { return };
        let maker = commit.worker.clone();
        if maker == worker || !self.checks.confirmed.insert(task) {
            return;
        }
        if let Some(open) = self.checks.open.get_mut(&maker) {
            open.remove(&(self.plan.tasks[task].plan.cost, task));
        }
        *self.checks.tally.confirmed.entry(maker).or_default() += 1;
    }

    /// Whether a stage whose tasks are done may be built on.
    pub(super) fn is_checked(&self, stage: usize) -> bool {
        !self.checks_all() || self.plan.stages[stage].tasks.clone().all(|task| self.checks.confirmed.contains(&task))
    }

    /// Takes out of these files what a check reads just now, and adds what earlier checks have read.
    pub(super) fn hold_back(&mut self, garbage: &mut Vec<ArtifactId>) {
        garbage.extend(std::mem::take(&mut self.checks.held_back));
        let read: BTreeSet<ArtifactId> =
            self.checks.leases.values().flat_map(|check| self.plan.tasks[check.task].plan.inputs.iter().copied()).collect();
        self.checks.held_back = garbage.extract_if(.., |artifact| read.contains(artifact)).collect();
    }

    /// Where every task is made twice: a stage that waits for a second worker, and there is none.
    pub(super) fn waits_for_second(&self, there: &[&Worker]) -> Option<String> {
        let busy = !self.ready.is_empty() || !self.leases.is_empty() || !self.checks.leases.is_empty();
        if !self.checks_all() || busy {
            return None;
        }
        let open = self
            .stages
            .iter()
            .zip(&self.plan.stages)
            .filter(|(stage, _)| stage.state == StageState::Open && stage.unfinished == 0);
        let mut waiting =
            open.flat_map(|(_, planned)| planned.tasks.clone()).filter(|task| !self.checks.confirmed.contains(task));
        let task = waiting.find(|&task| !there.iter().any(|worker| self.may_check(task, worker)))?;
        let TaskState::Done(commit) = &self.tasks[task] else { return None };
        Some(format!(
            "every task is to be made by two workers, and nobody is there to make task {} a second time after worker {}; start another \
             worker",
            self.plan.tasks[task].id, commit.worker
        ))
    }

    /// What the next scheduler of this job has to know.
    pub fn tally(&self) -> Tally {
        self.checks.tally.clone()
    }
}

impl super::Policy {
    /// So many tasks lie between two checks of a worker; `None`: there are no checks.
    fn tasks_between_checks(&self) -> Option<u32> {
        match u32::from(self.checks_percent) {
            0 => None,
            // Two thirds of the share, so that there is room for the first check of each.
            percent @ 1..100 => Some(150 / percent),
            _ => Some(0),
        }
    }
}
