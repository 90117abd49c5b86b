//! Second copies of tasks whose workers are slow, for workers that have nothing else to do.
//!
//! A copy pays when it would be finished before the first: when what is left to the first, at the pace it has shown, takes longer than the
//! whole task at the pace of the others. Both do the same, so whichever result comes first is taken, and the other is the same or is refused.

use super::{Lease, Scheduler, TaskState, Worker};
use crate::plan::TaskIndex;
use std::time::Duration;
use strata_games::Pass;

/// What was given out less long ago is not worth a copy.
const WORTH_A_COPY: Duration = Duration::from_secs(2);
/// By so much what is left must be longer.
const MARGIN: f64 = 1.25;
/// Weight of the last task in the mean.
const LATEST: f64 = 0.1;

/// Seconds that tasks take for a unit of their cost, by pass: a mean in which later tasks count more.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Pace {
    forward: Option<f64>,
    backward: Option<f64>,
}

impl Scheduler {
    fn pass_of(&self, task: TaskIndex) -> Pass {
        self.plan.stages[self.plan.tasks[task].id.stage as usize].pass
    }

    /// Takes a finished task into account.
    pub(super) fn learn_pace(&mut self, task: TaskIndex, elapsed_ms: u64) {
        let unit = elapsed_ms as f64 / 1000.0 / self.plan.tasks[task].plan.cost.max(1) as f64;
        let pace = match self.pass_of(task) {
            Pass::Forward => &mut self.pace.forward,
            Pass::Backward => &mut self.pace.backward,
        };
        *pace = Some(pace.map_or(unit, |mean| mean + LATEST * (unit - mean)));
    }

    /// Seconds that a task takes as a rule; `None` while nothing is known.
    fn usual(&self, task: TaskIndex) -> Option<f64> {
        let pace = match self.pass_of(task) {
            Pass::Forward => self.pace.forward.or(self.pace.backward),
            Pass::Backward => self.pace.backward.or(self.pace.forward),
        };
        pace.map(|unit| unit * self.plan.tasks[task].plan.cost.max(1) as f64)
    }

    /// Seconds by which a copy of a task that is leased would be finished earlier; `None` when it does not pay.
    fn gain(&self, now: Duration, lease: &Lease) -> Option<f64> {
        let usual = self.usual(lease.task)?;
        let taken = now.checked_sub(lease.since).filter(|&taken| taken >= WORTH_A_COPY)?.as_secs_f64();
        let cost = self.plan.tasks[lease.task].plan.cost;
        let left = match lease.positions {
            // Nothing is heard of it: after the usual time it is as far from its end as it is from its beginning.
            0 if taken < usual => return None,
            0 => taken,
            done => taken * cost.saturating_sub(done) as f64 / done as f64,
        };
        (left > MARGIN * usual).then_some(left - usual)
    }

    /// The leased task of which a copy by this worker pays most. No task has more than two leases.
    pub(super) fn straggler(&self, now: Duration, worker: &Worker) -> Option<TaskIndex> {
        let alone = |lease: &&Lease| {
            let of_task = self.leases.values().filter(|other| other.task == lease.task).count();
            of_task == 1 && lease.worker.id != worker.id && matches!(self.tasks[lease.task], TaskState::Leased)
        };
        let gains = self.leases.values().filter(alone).filter_map(|lease| Some((self.gain(now, lease)?, lease.task)));
        gains.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, task)| task)
    }

    /// Whether a worker that has nothing else to do could be given a copy.
    pub fn has_straggler(&self, now: Duration) -> bool {
        let nobody = Worker { id: u64::MAX, name: String::new(), memory_bytes: u64::MAX };
        self.phase == super::Phase::Running && self.straggler(now, &nobody).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use crate::testing::{FakeSpace, content_of};

    fn worker(id: u64) -> Worker {
        Worker { id, name: format!("worker-{id}"), memory_bytes: 2000 }
    }

    /// A stage of tasks of 10 seconds each on all workers but number 1, which takes 100; gives the time at which it is stitched.
    fn stage_with_a_slow_worker(tasks: u32, workers: u64) -> f64 {
        let plan = Arc::new(Plan::of(&FakeSpace::new("2048-2x2", 1, tasks, 1)).unwrap());
        let policy = Policy { lease: Duration::from_secs(30), max_failures: 3 };
        let mut scheduler = Scheduler::new(Arc::clone(&plan), policy, Restored { epoch: 1, ..Restored::default() });
        let speed = |id: u64| if id == 1 { 0.1 } else { 1.0 };
        let mut busy: BTreeMap<u64, (Assignment, u64)> = BTreeMap::new();
        for second in 0..10_000u64 {
            let now = Duration::from_secs(second);
            for id in 1..=workers {
                if let Some((assignment, since)) = busy.get(&id) {
                    let (cost, task) = (plan.tasks[0].plan.cost, plan.index_of(assignment.id).unwrap());
                    let done = (second - since) as f64 * speed(id) / 10.0;
                    if done >= 1.0 {
                        let elapsed = (second - since) * 1000;
                        let offer = scheduler.offer(now, assignment.id, assignment.token, "w", &content_of(&plan, task), elapsed);
                        if let Offer::Commit(commit) = offer {
                            scheduler.committed(commit.id());
                        }
                        busy.remove(&id);
                    } else if !scheduler.heartbeat(now, assignment.id, assignment.token, (done * cost as f64) as u64, 1) {
                        busy.remove(&id);
                    }
                }
                if !busy.contains_key(&id)
                    && let Some(assignment) = scheduler.lease(now, &worker(id))
                {
                    busy.insert(id, (assignment, second));
                }
            }
            if let Some(stitch) = scheduler.next_stitch() {
                assert_eq!(stitch.stage, 0);
                return second as f64;
            }
        }
        panic!("it does not end");
    }

    #[test]
    fn a_worker_ten_times_slower_than_the_rest_does_not_hold_a_layer_up() {
        // Without it the rest of five would take 80 tasks in 160 seconds, 16 each.
        let alone = 80.0 / 5.0 * 10.0;
        let stretched = stage_with_a_slow_worker(80, 6);
        assert!(stretched <= 1.25 * alone, "{stretched} s instead of {alone} s");
    }
}
