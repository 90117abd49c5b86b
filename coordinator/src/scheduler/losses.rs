//! Workers that are not heard of any more: killed, frozen, cut off, or out of memory. Who is lost once is bad luck; a task whose workers are lost
//! again and again is tried with less memory each time, and then the job pauses and names it.

use super::{PauseCause, Scheduler, Worker};
use crate::plan::TaskIndex;

/// After so many losses of one task its job pauses.
const MOST_LOSSES: u32 = 6;
/// The first loss changes nothing: machines fail for reasons of their own.
const FREE_LOSSES: u32 = 1;

impl Scheduler {
    pub(super) fn count_loss(&mut self, task: TaskIndex, worker: &str) {
        self.task_losses[task] += 1;
        let losses = self.task_losses[task];
        if losses >= MOST_LOSSES {
            let id = self.plan.tasks[task].id;
            self.pause(
                PauseCause::Failures,
                format!(
                    "{losses} workers in a row that had task {id} were not heard of any more, the last one {worker}; if they were \
                     killed for want of memory, allow them less with --memory"
                ),
            );
        }
    }

    /// The memory that a task whose workers were lost may use: half for each loss, and no less than it needs.
    pub(super) fn less_memory(&self, task: TaskIndex, worker: &Worker) -> Option<u64> {
        let halvings = self.task_losses[task].saturating_sub(FREE_LOSSES);
        let least = self.plan.tasks[task].plan.memory_bytes;
        (halvings > 0).then(|| (worker.memory_bytes >> halvings.min(63)).max(least))
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use crate::testing::FakeSpace;

    #[test]
    fn a_task_whose_workers_are_lost_gets_less_memory_and_then_the_job_pauses_and_names_it() {
        let plan = Arc::new(Plan::of(&FakeSpace::new("2048-2x2", 1, 1, 1)).unwrap());
        let policy = Policy { lease: Duration::from_secs(30), max_failures: 3, checks_percent: 0 };
        let mut scheduler = Scheduler::new(plan, policy, Restored { epoch: 1, ..Restored::default() });
        // The task needs 1000 bytes.
        let worker = Worker { id: 1, name: "a worker".into(), memory_bytes: 3500 };
        let (mut now, mut given) = (Duration::ZERO, Vec::new());
        while *scheduler.phase() == Phase::Running {
            given.push(scheduler.lease(now, &worker).unwrap().memory_bytes);
            now += policy.lease;
            assert_eq!(scheduler.expire(now), 1);
        }
        assert_eq!(given, [None, None, Some(1750), Some(1000), Some(1000), Some(1000)]);
        let Phase::Paused(PauseCause::Failures, message) = scheduler.phase() else { panic!() };
        assert!(message.contains("6 workers") && message.contains("task 0.0") && message.contains("a worker"), "{message}");
        scheduler.resume();
        assert_eq!(scheduler.lease(now, &worker).unwrap().memory_bytes, None, "a new start");
    }
}
