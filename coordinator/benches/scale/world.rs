//! A cluster on a simulated clock: real plans, the real scheduler, and workers that take as long as was measured. Nothing is computed or written.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use strata_coordinator::plan::{Plan, TaskIndex};
use strata_coordinator::record::{Content, file_kind};
use strata_coordinator::scheduler::{Assignment, Offer, Policy, Restored, Scheduler, Worker};
use strata_games::{
    Aim, ArtifactId, ArtifactKind, Choice, Key, LayerInfo, Outcome, Pass, Position, PositionError, ReadError, Stage, Standing,
    StateSpace, TableName, TableReader, TaskError, TaskId, TaskIo, TaskPlan,
};
use strata_storage::{Digest, FileRecord, artifact_path};

/// Leases as a coordinator gives them.
/// Without checks, which add at most three hundredths to the work.
const POLICY: Policy = Policy { lease: Duration::from_secs(30), max_failures: 3, checks_percent: 0 };
/// How often workers say that they live, and how often it is looked at leases.
const BEAT: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_secs(1);

/// A game cut finer than it is: every file of every layer, or every piece of one, is a task in both passes, and a layer waits for the whole one
/// before it. A task reads what lies beside its own piece in the two layers before. No kernel works like this; it shows what such a plan would do.
pub struct Cut {
    space: Box<dyn StateSpace>,
    layers: Vec<LayerInfo>,
    stages: Vec<Stage>,
}

impl Cut {
    /// The layers of a space, with every file cut into so many pieces.
    pub fn new(space: Box<dyn StateSpace>, pieces: u64) -> Self {
        let cut = |run: &Range<u64>| {
            let step = (run.end - run.start).div_ceil(pieces).max(1);
            let end = run.end;
            (run.start..end).step_by(step as usize).map(move |start| start..end.min(start + step))
        };
        let finer = |layer: &LayerInfo| {
            let runs: Vec<Range<u64>> = layer.shards.iter().flat_map(cut).collect();
            LayerInfo { shards: runs.clone(), parts: runs, ..layer.clone() }
        };
        let layers: Vec<LayerInfo> = space.layers().iter().map(finer).collect();
        let forward = (0..layers.len()).map(|at| (Pass::Forward, at));
        let passes = forward.chain((0..layers.len()).rev().map(|at| (Pass::Backward, at)));
        let stage = |(number, (pass, at)): (u32, (Pass, usize))| Stage {
            pass,
            layers: at..at + 1,
            parts: layers[at].shards.len() as u32,
            after: number.checked_sub(1).into_iter().collect(),
        };
        let stages = (0..).zip(passes).map(stage).collect();
        Self { space, layers, stages }
    }

    /// The files of a layer that lie beside part `part` of `parts`.
    fn beside(&self, kind: ArtifactKind, at: Option<usize>, part: u32, parts: u32) -> Vec<ArtifactId> {
        let Some(layer) = at.and_then(|at| self.layers.get(at)) else { return Vec::new() };
        let count = layer.shards.len() as u32;
        let middle = (u64::from(part) * u64::from(count) / u64::from(parts)) as u32;
        let near = middle.saturating_sub(1)..(middle + 2).min(count);
        near.map(|shard| ArtifactId { kind, layer: layer.layer, shard }).collect()
    }
}

impl StateSpace for Cut {
    fn name(&self) -> &TableName {
        self.space.name()
    }
    fn layers(&self) -> &[LayerInfo] {
        &self.layers
    }
    fn stages(&self) -> &[Stage] {
        &self.stages
    }
    fn task(&self, task: TaskId) -> TaskPlan {
        let stage = &self.stages[task.stage as usize];
        let at = stage.layers.start;
        let info = &self.layers[at];
        let own = |kind| ArtifactId { kind, layer: info.layer, shard: task.part };
        let beside = |kind, at| self.beside(kind, at, task.part, stage.parts);
        let (inputs, outputs) = match stage.pass {
            Pass::Forward => {
                let before = [at.checked_sub(1), at.checked_sub(2)].map(|at| beside(ArtifactKind::Index, at));
                (before.concat(), vec![own(ArtifactKind::Index)])
            }
            Pass::Backward => {
                let above = [Some(at + 1), Some(at + 2)].map(|at| beside(ArtifactKind::Work, at));
                let inputs = [above.concat(), vec![own(ArtifactKind::Index)]].concat();
                (inputs, vec![own(ArtifactKind::Shard), own(ArtifactKind::Work)])
            }
        };
        let run = &info.shards[task.part as usize];
        TaskPlan { inputs, outputs, cost: run.end - run.start, memory_bytes: 1 << 30 }
    }
    fn scalar_columns(&self) -> &'static [&'static str] {
        self.space.scalar_columns()
    }
    fn dist_columns(&self) -> &'static [&'static str] {
        self.space.dist_columns()
    }
    fn aim(&self) -> Aim {
        self.space.aim()
    }
    fn run(&self, _task: TaskId, _io: &dyn TaskIo) -> Result<(), TaskError> {
        Err(TaskError::Stopped)
    }
    fn rank(&self, position: Position) -> Option<Key> {
        self.space.rank(position)
    }
    fn unrank(&self, key: Key) -> Option<Position> {
        self.space.unrank(key)
    }
    fn canonical(&self, position: Position) -> Position {
        self.space.canonical(position)
    }
    fn outcomes(&self, key: Position) -> Vec<Outcome> {
        self.space.outcomes(key)
    }
    fn choices(&self, state: Position) -> Vec<Choice> {
        self.space.choices(state)
    }
    fn terminal_value(&self, state: Position) -> f64 {
        self.space.terminal_value(state)
    }
    fn starts(&self) -> Vec<Outcome> {
        self.space.starts()
    }
    fn starts_are_states(&self) -> bool {
        self.space.starts_are_states()
    }
    fn parse(&self, text: &str) -> Result<Position, PositionError> {
        self.space.parse(text)
    }
    fn format(&self, position: Position) -> String {
        self.space.format(position)
    }
    fn standing(&self, position: Position, table: &dyn TableReader) -> Result<Standing, ReadError> {
        self.space.standing(position, table)
    }
}

/// Seconds that a unit of cost takes on one core, by pass.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Enumerating.
    pub forward: f64,
    /// Evaluating.
    pub backward: f64,
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
        let pace = match self.plan.stages[planned.id.stage as usize].pass {
            Pass::Forward => self.pace.forward,
            Pass::Backward => self.pace.backward,
        };
        planned.plan.cost as f64 * pace
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

    /// Builds with workers of one core each, which ask whenever something may have become ready, as real ones do.
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
