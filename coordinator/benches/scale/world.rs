//! A cluster on a simulated clock: real plans, the real scheduler, and workers that take as long as was measured. Nothing is computed or written.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;
use strata_coordinator::plan::{Plan, TaskIndex};
use strata_coordinator::record::{Content, file_kind};
use strata_coordinator::scheduler::{Assignment, Offer, Policy, Restored, Scheduler, Worker};
use strata_games::{ArtifactId, Pass};
use strata_storage::{Digest, FileRecord, artifact_path};

/// Leases as a coordinator gives them.
/// Without checks, which add at most three hundredths to the work.
const POLICY: Policy = Policy { lease: Duration::from_secs(30), max_failures: 3, checks_percent: 0 };
/// How often workers say that they live, and how often it is looked at leases.
const BEAT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_secs(1);

/// Seconds that a unit of cost takes on one core, by pass.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Enumerating.
    pub forward: f64,
    /// Evaluating.
    pub backward: f64,
    /// How many times as long as that the tasks take of a stage that has several.
    pub shared: f64,
}

/// What no schedule can beat.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Seconds of work on one core.
    pub work: f64,
    /// Seconds along the longest chain of stages, with the longest task of each.
    pub critical_path: f64,
    /// Seconds along the longest chain, when a stage takes at least what its tasks take that one worker must have, and its work
    /// divided among all workers.
    pub chain: f64,
}

impl Bounds {
    /// The larger of the two that do not know of stages.
    pub fn plain(&self, workers: usize) -> f64 {
        self.critical_path.max(self.work / workers as f64)
    }
}

/// What became of a build.
#[derive(Clone, Copy, Debug)]
pub struct Ran {
    /// Results that were taken.
    pub completions: u64,
    /// Calls for a task, answered or not.
    pub asks: u64,
    /// The clock at the end.
    pub seconds: f64,
    /// Mean share of the workers that had a task.
    pub busy: f64,
}

/// A plan, and how long its tasks take.
pub struct World {
    plan: Arc<Plan>,
    pace: Pace,
}

impl World {
    /// A build.
    pub fn new(plan: Arc<Plan>, pace: Pace) -> Self {
        Self { plan, pace }
    }

    fn seconds(&self, task: TaskIndex) -> f64 {
        let planned = &self.plan.tasks[task];
        let stage = &self.plan.stages[planned.id.stage as usize];
        let pace = match stage.pass {
            Pass::Forward => self.pace.forward,
            Pass::Backward => self.pace.backward,
        };
        planned.plan.cost as f64 * pace * if stage.tasks.len() > 1 { self.pace.shared } else { 1.0 }
    }

    /// What no schedule on so many workers can beat.
    pub fn bounds(&self, workers: usize) -> Bounds {
        let (mut ends, mut chains) = (Vec::new(), Vec::new());
        let mut work = 0.0;
        for stage in &self.plan.stages {
            let mut tasks: Vec<f64> = stage.tasks.clone().map(|task| self.seconds(task)).collect();
            tasks.sort_unstable_by(|a, b| b.total_cmp(a));
            let all: f64 = tasks.iter().sum();
            let longest = tasks.first().copied().unwrap_or(0.0);
            // Of so many tasks and one more, somebody has several, and each takes at least as long as the last of them.
            let several =
                (1..).zip(tasks.iter().step_by(workers)).map(|(count, task)| f64::from(count) * task).fold(0.0, f64::max);
            let after = |ends: &[f64]| stage.after.iter().map(|&before| ends[before as usize]).fold(0.0, f64::max);
            ends.push(after(&ends) + longest);
            chains.push(after(&chains) + several.max(all / workers as f64));
            work += all;
        }
        let last = |ends: Vec<f64>| ends.into_iter().fold(0.0, f64::max);
        Bounds { work, critical_path: last(ends), chain: last(chains) }
    }

    /// Builds with workers that are all as fast, which ask whenever something may have become ready, as real ones do.
    pub fn run(&self, workers: usize) -> Ran {
        let mut scheduler = Scheduler::new(Arc::clone(&self.plan), POLICY, Restored { epoch: 1, ..Restored::default() });
        let people: Vec<Worker> =
            (0..workers).map(|id| Worker { id: id as u64, name: format!("worker-{id}"), memory_bytes: u64::MAX }).collect();
        let mut doing: Vec<Option<Assignment>> = vec![None; workers];
        let mut since = vec![Duration::ZERO; workers];
        let mut idle: Vec<usize> = (0..workers).rev().collect();
        // When the next result of a worker is there, and when it says that it lives.
        let mut due: BinaryHeap<Reverse<(Duration, usize, u64, bool)>> = BinaryHeap::new();
        let (mut now, mut looked) = (Duration::ZERO, Duration::ZERO);
        let mut outcome = Ran { completions: 0, asks: 0, seconds: 0.0, busy: 0.0 };
        let mut is_awake = true;
        loop {
            let waiting = if is_awake { std::mem::take(&mut idle) } else { Vec::new() };
            is_awake = false;
            for worker in waiting {
                outcome.asks += 1;
                let person = &people[worker];
                let given = scheduler.lease_among(now, person, &people).or_else(|| scheduler.lease_copy(now, person));
                let Some(assignment) = given else {
                    idle.push(worker);
                    continue;
                };
                let task = self.plan.index_of(assignment.id).expect("the plan has the task");
                let seconds = Duration::from_secs_f64(self.seconds(task));
                outcome.busy += seconds.as_secs_f64();
                due.push(Reverse((now + seconds, worker, assignment.token, true)));
                due.push(Reverse((now + BEAT, worker, assignment.token, false)));
                doing[worker] = Some(assignment);
                since[worker] = now;
            }
            if scheduler.is_finished() {
                break;
            }
            let Reverse((then, worker, token, is_end)) = due.pop().expect("nobody has a task, and the build is not over");
            while looked + LOOK <= then {
                looked += LOOK;
                assert!(scheduler.next_expiry().is_none_or(|expiry| expiry > looked), "everybody is alive");
                is_awake |= scheduler.has_straggler(looked);
            }
            now = then;
            let Some(id) = doing[worker].as_ref().filter(|assignment| assignment.token == token).map(|a| a.id) else { continue };
            let task = self.plan.index_of(id).expect("the plan has the task");
            let layer = self.plan.layers[self.plan.stages[id.stage as usize].layers.start].layer;
            let positions =
                || ((now - since[worker]).as_secs_f64() / self.seconds(task) * self.plan.tasks[task].plan.cost as f64) as u64;
            if !is_end && scheduler.heartbeat(now, id, token, positions(), layer.0) {
                due.push(Reverse((now + BEAT, worker, token, false)));
                continue;
            }
            doing[worker] = None;
            idle.push(worker);
            is_awake = true;
            if !is_end {
                continue;
            }
            let elapsed_ms = (self.seconds(task) * 1000.0) as u64;
            match scheduler.offer(now, id, token, &people[worker].name, &self.content(task), elapsed_ms) {
                Offer::Commit(commit) => {
                    scheduler.committed(commit.id());
                    outcome.completions += 1;
                }
                // A second copy was faster.
                Offer::AlreadyDone => {}
                other => panic!("{id}: {other:?}"),
            }
            while let Some(stitch) = scheduler.next_stitch() {
                scheduler.stitched(stitch.stage);
            }
        }
        outcome.seconds = now.as_secs_f64();
        outcome.busy /= outcome.seconds * workers as f64;
        outcome
    }

    /// What a task hands in: files of the right names.
    fn content(&self, task: TaskIndex) -> Content {
        let file = |artifact: &ArtifactId| {
            let blake3 = Digest::blake3(&[artifact.layer.0, artifact.shard].map(u32::to_le_bytes).concat());
            let kind = file_kind(artifact.kind);
            FileRecord {
                kind,
                layer: artifact.layer.0,
                shard: artifact.shard,
                path: artifact_path(kind, artifact.layer.0, artifact.shard, &blake3),
                blake3,
                sha256: blake3,
                bytes: 1,
                keys: 1,
                index_bytes: 0,
                value_bytes: 0,
                error_bounds: Vec::new(),
            }
        };
        let outputs = self.plan.tasks[task].plan.outputs.iter().map(file).collect();
        Content { outputs, counts: Vec::new(), stats: Vec::new(), facts: Vec::new() }
    }
}
