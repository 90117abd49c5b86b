//! Second copies of tasks whose workers are slow, for workers that have nothing else to do.
//!
//! A copy pays when it would be finished before the first: when what is left to the first, at the pace it has shown, takes longer than the
//! whole task at the pace of the others. How far it is its worker says now and then, so the pace is that of the time until it last said so. Both do the same, so whichever result comes first is taken, and the other is the same or is refused.

use super::{Assignment, Lease, Phase, Scheduler, TaskState, Worker};
use crate::plan::TaskIndex;
use std::time::Duration;
use strata_games::Pass;

/// What was given out less long ago is not worth a copy.
const WORTH_A_COPY: Duration = Duration::from_secs(2);
/// By so much what is left must be longer.
const MARGIN: f64 = 1.25;
/// By so much two ways to compute the same time may differ.
const ROUNDING: Duration = Duration::from_millis(1);
/// Weight of the last task in the mean.
const LATEST: f64 = 0.1;

/// What tasks took for a unit of their cost: means in which later tasks count more.
#[derive(Clone, Copy, Default, Debug)]
struct Means {
    seconds: Option<f64>,
    /// Positions that they reported. Cost is what the plan knows beforehand, such as ranks, of which a part is reached.
    positions: Option<f64>,
}

/// The same by pass.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Pace {
    forward: Means,
    backward: Means,
}

fn learn(mean: &mut Option<f64>, value: f64) {
    *mean = Some(mean.map_or(value, |mean| mean + LATEST * (value - mean)));
}

impl Scheduler {
    fn pass_of(&self, task: TaskIndex) -> Pass {
        self.plan.stages[self.plan.tasks[task].id.stage as usize].pass
    }

    /// Takes a finished task into account, and how many positions its worker had reported.
    pub(super) fn learn_pace(&mut self, task: TaskIndex, elapsed_ms: u64, positions: u64) {
        let cost = self.plan.tasks[task].plan.cost.max(1) as f64;
        self.no_copy_before = None;
        let means = match self.pass_of(task) {
            Pass::Forward => &mut self.pace.forward,
            Pass::Backward => &mut self.pace.backward,
        };
        learn(&mut means.seconds, elapsed_ms as f64 / 1000.0 / cost);
        if positions > 0 {
            learn(&mut means.positions, positions as f64 / cost);
        }
    }

    /// Seconds that the task of a lease usually takes, and how many more each second that it has taken stands for.
    fn outlook(&self, lease: &Lease) -> Option<(f64, f64)> {
        let (means, others) = match self.pass_of(lease.task) {
            Pass::Forward => (self.pace.forward, self.pace.backward),
            Pass::Backward => (self.pace.backward, self.pace.forward),
        };
        let cost = self.plan.tasks[lease.task].plan.cost.max(1) as f64;
        let usual = means.seconds.or(others.seconds)? * cost;
        let all = means.positions.map(|a_unit| a_unit * cost).filter(|_| lease.positions > 0);
        // Where nothing is known of it, it is as far from its end as it is from its beginning.
        Some((usual, all.map_or(1.0, |all| (all / lease.positions as f64 - 1.0).max(0.0))))
    }

    /// When the worker has last said how far it is, if that is more than nothing.
    fn told(&self, lease: &Lease) -> Option<Duration> {
        lease.told.filter(|_| lease.positions > 0)
    }

    /// Seconds by which a copy of a task that is leased would be finished earlier; `None` when it does not pay.
    fn gain(&self, now: Duration, lease: &Lease) -> Option<f64> {
        let (usual, to_go) = self.outlook(lease)?;
        let taken = now.checked_sub(lease.since).filter(|&taken| taken >= WORTH_A_COPY)?;
        let left = match self.told(lease).filter(|&told| now <= told + self.policy.lease / 2) {
            Some(told) => (told - lease.since).as_secs_f64() * to_go - (now.saturating_sub(told)).as_secs_f64(),
            // It is silent: it may stand still.
            None => taken.as_secs_f64() * to_go,
        };
        (left > MARGIN * usual).then_some(left - usual)
    }

    /// Before which a copy of a task that is leased does not pay, if nothing new is heard of it; `None` when it never does.
    fn pays_from(&self, lease: &Lease) -> Option<Duration> {
        let (usual, to_go) = self.outlook(lease)?;
        let silent = Duration::try_from_secs_f64(MARGIN * usual / to_go).ok().map(|taken| lease.since + taken);
        let from = match self.told(lease) {
            Some(told) if (told - lease.since).as_secs_f64() * to_go > MARGIN * usual => told,
            Some(told) => silent?.max(told + self.policy.lease / 2),
            None => silent?,
        };
        Some(from.max(lease.since + WORTH_A_COPY))
    }

    /// The leased task of which a copy by this worker pays most. No task has more than two leases.
    fn straggler(&self, now: Duration, worker: &Worker) -> Option<TaskIndex> {
        let mut held: Vec<TaskIndex> = self.leases.values().map(|lease| lease.task).collect();
        held.sort_unstable();
        let is_alone = |task: TaskIndex| {
            let at = held.partition_point(|&other| other < task);
            held.get(at + 1) != Some(&task)
        };
        let may = |lease: &&Lease| {
            let fits = self.plan.tasks[lease.task].plan.memory_bytes <= worker.memory_bytes;
            let is_wanted = matches!(self.tasks[lease.task], TaskState::Leased);
            let is_new_to_it = !self.gave_up.contains(&(lease.task, worker.id)) && !self.has_said(lease.task, worker);
            is_alone(lease.task) && fits && is_wanted && lease.worker.id != worker.id && is_new_to_it
        };
        let gains = self.leases.values().filter(may).filter_map(|lease| Some((self.gain(now, lease)?, lease.task)));
        gains.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, task)| task)
    }

    /// Whether some copy may pay. Workers ask often, and there are many: until something happens the answer is remembered.
    fn may_pay(&mut self, now: Duration) -> bool {
        let from = match self.no_copy_before {
            Some(from) => from,
            None => self.leases.values().filter_map(|lease| self.pays_from(lease)).min().unwrap_or(Duration::MAX),
        };
        self.no_copy_before = Some(from);
        now + ROUNDING >= from
    }

    /// Gives a second copy of a slow task to a worker that no job has anything else for.
    pub fn lease_copy(&mut self, now: Duration, worker: &Worker) -> Option<Assignment> {
        if self.phase != Phase::Running {
            return None;
        }
        let task = if self.may_pay(now) { self.straggler(now, worker)? } else { return None };
        self.give(now, task, worker)
    }

    /// Whether a worker that has nothing else to do could be given a copy.
    pub fn has_straggler(&mut self, now: Duration) -> bool {
        let nobody = Worker { id: u64::MAX, name: String::new(), memory_bytes: u64::MAX };
        self.phase == Phase::Running && self.may_pay(now) && self.straggler(now, &nobody).is_some()
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
    fn stage_with_a_slow_worker(tasks: u32, workers: u64, positions_a_unit: f64) -> f64 {
        let plan = Arc::new(Plan::of(&FakeSpace::new("2048-2x2", 1, tasks, 1)).unwrap());
        let policy = Policy { lease: Duration::from_secs(30), max_failures: 3, checks_percent: 0 };
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
                    } else if !scheduler.heartbeat(
                        now,
                        assignment.id,
                        assignment.token,
                        (done * positions_a_unit * cost as f64) as u64,
                        1,
                    ) {
                        busy.remove(&id);
                    }
                }
                if !busy.contains_key(&id)
                    && let Some(assignment) = scheduler.lease(now, &worker(id)).or_else(|| scheduler.lease_copy(now, &worker(id)))
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
        for positions_a_unit in [1.0, 0.2] {
            let stretched = stage_with_a_slow_worker(80, 6, positions_a_unit);
            assert!(stretched <= 1.25 * alone, "{stretched} s instead of {alone} s");
        }
    }

    /// Cost counts ranks, and workers report the positions that are reached among them.
    #[test]
    fn a_task_at_the_usual_pace_gets_no_copy_whatever_share_of_its_ranks_is_reached() {
        let plan = Arc::new(Plan::of(&FakeSpace::new("2048-2x2", 1, 2, 1)).unwrap());
        let policy = Policy { lease: Duration::from_secs(30), max_failures: 3, checks_percent: 0 };
        let cost = plan.tasks[0].plan.cost;
        for reached in [1.0, 0.3, 0.1] {
            let mut scheduler = Scheduler::new(Arc::clone(&plan), policy, Restored { epoch: 1, ..Restored::default() });
            for id in 0..2 {
                let start = Duration::from_secs(1000 * id);
                let given = scheduler.lease(start, &worker(id)).unwrap();
                for second in 1..100 {
                    let positions = (reached * cost as f64 * 1e4 * second as f64) as u64;
                    let now = start + Duration::from_secs(second);
                    assert!(scheduler.heartbeat(now, given.id, given.token, positions, 1));
                    assert_eq!(scheduler.lease_copy(now, &worker(7)), None, "{reached} of the ranks, after {second} s");
                }
                let content = content_of(&plan, plan.index_of(given.id).unwrap());
                let Offer::Commit(commit) = scheduler.offer(start, given.id, given.token, "w", &content, 100_000) else {
                    panic!()
                };
                scheduler.committed(commit.id());
            }
        }
    }
}
