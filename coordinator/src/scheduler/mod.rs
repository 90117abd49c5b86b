//! Who does what next: a pure state machine over a [`Plan`]. It reads no clock and touches no file; the time comes in as an argument,
//! and what must be made durable goes out as a value. So every order of events can be tried in a test.
//!
//! The life of a task, and of the stage it belongs to:
//!
//! ```text
//!              stages before      lease            offer            committed
//!   Waiting ───────────────▶ Ready ─────▶ Leased ─────────▶ Committing ─────▶ Done        all parts done: next_stitch
//!                              ▲            │  expire, fail      │ commit_failed            ─────▶ Stitching ─────▶ Stitched
//!                              └────────────┴────────────────────┘ (lease goes on)
//! ```
//!
//! Invariants, which `simulation` throws seeded storms of events at:
//! * a task is leased only when every stage it waits for is stitched, to one worker at a time, or to a second one where the first is slow;
//! * tokens strictly increase; only a token whose lease is not over can hand in the first result of a task;
//! * a task's first result stands: the same again is welcome, after another one neither does until a third worker has decided;
//! * a file is garbage only when every stage with a task that reads it is stitched;
//! * as long as workers come back, the plan ends.

mod checks;
mod doubts;
#[cfg(test)]
mod lies;
mod losses;
mod progress;
mod results;
#[cfg(test)]
mod simulation;
mod stitching;
mod stragglers;

pub use checks::Tally;
pub use doubts::Settled;
pub use progress::Progress;
pub use results::{CommitFailure, Committed, FailAction, Offer};
pub use stitching::StitchJob;

use crate::plan::{Plan, TaskIndex};
use crate::record::{Commit, Doubts, InputRecord, artifact_of};
use checks::Checks;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use stragglers::Pace;
use strata_games::{ArtifactId, Pass, TaskId};
use strata_storage::{Digest, FileRecord};

/// How patient the scheduler is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// A lease not renewed for this long is given to somebody else.
    pub lease: Duration,
    /// After this many failures of one task the job pauses.
    pub max_failures: u32,
    /// Share of the work, in percent, that is done a second time by other workers to see whether the same comes out. At 100
    /// nothing is built on a task before two workers have made it.
    pub checks_percent: u8,
}

/// A worker that asks for a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Worker {
    /// Its number.
    pub id: u64,
    /// What people call it.
    pub name: String,
    /// Bytes of memory it may use.
    pub memory_bytes: u64,
}

/// A task given to a worker.
#[derive(Clone, PartialEq, Debug)]
pub struct Assignment {
    /// Which.
    pub id: TaskId,
    /// The fencing token.
    pub token: u64,
    /// 1 for the first time.
    pub attempt: u32,
    /// What it reads.
    pub inputs: Vec<FileRecord>,
    /// The memory it may use, where that is less than the worker has: workers that had it before were lost.
    pub memory_bytes: Option<u64>,
}

/// Why a job rests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PauseCause {
    /// Somebody asked for it.
    Asked,
    /// A task failed too often, or a record could not be written.
    Failures,
    /// No space is left.
    DiskFull,
    /// Little space is left.
    LowWater,
    /// No worker has this much memory.
    Memory(u64),
    /// A worker is needed that has not made a task yet: results differ, or one is to be made twice.
    Opinion,
}

/// Whether tasks are given out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Phase {
    /// They are.
    Running,
    /// Not now; the sentence says why.
    Paused(PauseCause, String),
    /// Never again; the sentence says why.
    Failed(String),
    /// Never again, because somebody said so.
    Cancelled,
}

/// What the store holds when a scheduler starts.
#[derive(Clone, Default, Debug)]
pub struct Restored {
    /// Number of this start; the upper half of every token.
    pub epoch: u32,
    /// Finished tasks whose files have been checked.
    pub commits: BTreeMap<TaskIndex, Commit>,
    /// Stages that have their record.
    pub stitched: BTreeSet<u32>,
    /// Hashes that files must have when they are made again, and who says so.
    pub expected: BTreeMap<ArtifactId, Evidence>,
    /// Records of tasks that must run again because their files were lost.
    pub former: BTreeMap<TaskIndex, Commit>,
    /// Results that are not trusted; `None` where none ever were.
    pub doubts: Option<Doubts>,
    /// The checks of earlier schedulers of this job.
    pub tally: Tally,
}

/// What is known of a file that has to be made again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Evidence {
    /// The hash it had.
    pub blake3: Digest,
    /// The worker that wrote or read it.
    pub worker: String,
    /// Whether another hash stops the job. If not, the finished tasks that read the file are judged again: somebody whose results were
    /// taken out may have made it, or what it was made from.
    pub is_firm: bool,
}

#[derive(Clone, Debug)]
struct Lease {
    task: TaskIndex,
    worker: Worker,
    attempt: u32,
    since: Duration,
    expires: Duration,
    /// When the worker has last said how far it is, if it has.
    told: Option<Duration>,
    positions: u64,
    layer: Option<u32>,
    /// Its result was handed in, and its record could not be written: it will be handed in again.
    is_finished: bool,
}

#[derive(Clone, Debug)]
enum TaskState {
    /// Stages before it are not stitched.
    Waiting,
    /// Can be given out.
    Ready,
    /// Given out: there is a lease, or two where the first is slow.
    Leased,
    /// Its record is being written.
    Committing(Arc<Commit>, Lease),
    /// Its inputs are being looked at, because a worker complained.
    Suspect,
    /// Its record is durable.
    Done(Arc<Commit>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StageState {
    Open,
    Stitching,
    Stitched,
}

#[derive(Clone, Debug)]
struct StageProgress {
    state: StageState,
    /// Stages before it that are not stitched.
    waits_for: usize,
    /// Tasks that are not done.
    unfinished: usize,
    /// Stages that wait for it.
    before: Vec<u32>,
}

/// The state of one job.
#[derive(Clone, Debug)]
pub struct Scheduler {
    plan: Arc<Plan>,
    policy: Policy,
    epoch: u32,
    given_out: u32,
    phase: Phase,
    tasks: Vec<TaskState>,
    attempts: Vec<u32>,
    task_failures: Vec<u32>,
    /// How often a worker that had a task was not heard of any more.
    task_losses: Vec<u32>,
    pace: Pace,
    /// Before then no lease is worth a copy; `None` when that is not known.
    no_copy_before: Option<Duration>,
    /// Workers that failed at a task that is not done.
    gave_up: BTreeSet<(TaskIndex, u64)>,
    stages: Vec<StageProgress>,
    /// Open stages whose tasks are all done.
    complete: BTreeSet<u32>,
    stages_left: usize,
    ready: BTreeSet<TaskIndex>,
    leases: BTreeMap<u64, Lease>,
    /// For files that can become garbage: tasks of stages not yet stitched that read them.
    readers_left: BTreeMap<ArtifactId, usize>,
    expected: BTreeMap<ArtifactId, Evidence>,
    former: BTreeMap<TaskIndex, Commit>,
    checks: Checks,
    doubts: Doubts,
    wants_recheck: bool,
    failures: VecDeque<String>,
    positions: u64,
    bytes: u64,
    cost_done: u64,
    tasks_done: u64,
    /// Handed in, their records being written.
    committing: BTreeSet<TaskIndex>,
    last_place: (Pass, u32),
}

impl Scheduler {
    /// Starts from what the store holds.
    pub fn new(plan: Arc<Plan>, policy: Policy, restored: Restored) -> Scheduler {
        let stages = plan.stages.iter().map(|stage| StageProgress {
            state: StageState::Open,
            waits_for: stage.after.len(),
            unfinished: stage.tasks.len(),
            before: Vec::new(),
        });
        let mut stages: Vec<StageProgress> = stages.collect();
        for (stage, planned) in (0u32..).zip(&plan.stages) {
            planned.after.iter().for_each(|&earlier| stages[earlier as usize].before.push(stage));
        }
        let passing = |artifact: &ArtifactId| artifact.kind.is_passing();
        let readers_left =
            plan.artifacts().map(|(artifact, _)| artifact).filter(passing).map(|a| (a, plan.readers(a).len())).collect();
        let count = plan.tasks.len();
        let first_place = plan.stages.first().map_or((Pass::Forward, 0), |stage| place_of(&plan, stage));
        let mut scheduler = Scheduler {
            policy,
            epoch: restored.epoch,
            given_out: 0,
            phase: Phase::Running,
            tasks: vec![TaskState::Waiting; count],
            attempts: vec![0; count],
            task_failures: vec![0; count],
            task_losses: vec![0; count],
            pace: Pace::default(),
            no_copy_before: None,
            gave_up: BTreeSet::new(),
            complete: (0u32..).zip(&stages).filter(|(_, stage)| stage.unfinished == 0).map(|(stage, _)| stage).collect(),
            stages_left: stages.len(),
            stages,
            ready: BTreeSet::new(),
            leases: BTreeMap::new(),
            readers_left,
            expected: restored.expected,
            former: restored.former,
            checks: Checks::after(restored.tally),
            doubts: restored.doubts.unwrap_or_else(|| Doubts::none(&plan.table)),
            wants_recheck: false,
            failures: VecDeque::new(),
            positions: 0,
            bytes: 0,
            cost_done: 0,
            tasks_done: 0,
            committing: BTreeSet::new(),
            last_place: first_place,
            plan,
        };
        for (task, commit) in restored.commits {
            scheduler.attempts[task] = commit.attempt;
            scheduler.finish(task, Arc::new(commit));
        }
        // Files that no task will read again are gone already, or go now: the caller has removed them from the store.
        for stage in restored.stitched {
            scheduler.stitched(stage);
        }
        for stage in 0..scheduler.stages.len() {
            if scheduler.stages[stage].waits_for == 0 {
                scheduler.open_stage(stage);
            }
        }
        scheduler
    }

    /// Whether tasks are given out, and if not, why.
    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// The plan.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Gives out the first ready task, in the order of the plan, that fits the worker's memory, to a worker that is alone.
    pub fn lease(&mut self, now: Duration, worker: &Worker) -> Option<Assignment> {
        self.lease_among(now, worker, &[])
    }

    /// The same, where there are other workers: a task that this one has failed at is left to them, until all have who have the memory for it.
    pub fn lease_among(&mut self, now: Duration, worker: &Worker, others: &[Worker]) -> Option<Assignment> {
        match (self.needs_another(worker, others), &self.phase) {
            (Some(message), _) => self.pause(PauseCause::Opinion, message),
            // Whoever was waited for is heard of again.
            (None, Phase::Paused(PauseCause::Opinion, _)) => self.resume(),
            _ => {}
        }
        if self.phase != Phase::Running || self.wants_recheck {
            return None;
        }
        if let Some(check) = self.lease_check(now, worker) {
            return Some(check);
        }
        let fits = |task: &TaskIndex| self.plan.tasks[*task].plan.memory_bytes <= worker.memory_bytes;
        let has_failed = |task: TaskIndex, id: u64| self.gave_up.contains(&(task, id));
        let can_do = |task: TaskIndex, other: &Worker| {
            let may = !has_failed(task, other.id) && !self.has_said(task, other);
            self.plan.tasks[task].plan.memory_bytes <= other.memory_bytes && may
        };
        let is_for_it = |&task: &TaskIndex| !has_failed(task, worker.id) || !others.iter().any(|other| can_do(task, other));
        let decides = |task: &TaskIndex| !self.has_said(*task, worker);
        let task = self.ready.iter().copied().filter(fits).filter(decides).find(is_for_it)?;
        self.count_towards_check(worker.id);
        self.give(now, task, worker)
    }

    /// Whether it matters for a lease who else is there: the worker has failed at a task that is not done, or somebody else must decide about one.
    pub fn depends_on_others(&self, worker: u64) -> bool {
        self.gave_up.iter().any(|&(_, id)| id == worker) || !self.doubts.open.is_empty() || self.checks_all()
    }

    fn next_token(&mut self) -> u64 {
        self.given_out = self.given_out.checked_add(1).expect("fewer than 2^32 leases in the life of a coordinator");
        u64::from(self.epoch) << 32 | u64::from(self.given_out)
    }

    /// Makes a lease of a task.
    fn give(&mut self, now: Duration, task: TaskIndex, worker: &Worker) -> Option<Assignment> {
        let inputs = self.inputs_of(task)?;
        self.ready.remove(&task);
        let token = self.next_token();
        self.attempts[task] += 1;
        let attempt = self.attempts[task];
        let expires = now + self.policy.lease;
        self.leases.insert(
            token,
            Lease {
                task,
                worker: worker.clone(),
                attempt,
                since: now,
                expires,
                told: None,
                positions: 0,
                layer: None,
                is_finished: false,
            },
        );
        self.tasks[task] = TaskState::Leased;
        self.no_copy_before = None;
        let memory_bytes = self.less_memory(task, worker);
        Some(Assignment { id: self.plan.tasks[task].id, token, attempt, inputs, memory_bytes })
    }

    /// Pauses the job when nothing runs, and nothing that is ready fits into the memory of any worker there is.
    pub fn check_memory(&mut self, largest: u64) {
        if self.phase != Phase::Running || !self.leases.is_empty() {
            return;
        }
        let least = self.ready.iter().map(|&task| (self.plan.tasks[task].plan.memory_bytes, task)).min();
        let is_busy = |task: &TaskState| matches!(task, TaskState::Suspect);
        // All tasks are looked at last, and hardly ever: workers ask often.
        if let Some((need, task)) = least.filter(|(need, _)| *need > largest)
            && !self.is_committing()
            && !self.tasks.iter().any(is_busy)
        {
            let id = self.plan.tasks[task].id;
            let message = format!(
                "task {id} needs {} of memory, and the largest worker may use {}; allow it more, or add a larger worker",
                size(need),
                size(largest)
            );
            self.pause(PauseCause::Memory(need), message);
        }
    }

    /// Keeps a lease alive. The answer says whether the worker should go on.
    pub fn heartbeat(&mut self, now: Duration, id: TaskId, token: u64, positions: u64, layer: u32) -> bool {
        if let Some(goes_on) = self.plan.index_of(id).and_then(|task| self.heartbeat_of_check(now, task, token)) {
            return goes_on;
        }
        let Some(task) = self.leased(id, token) else {
            // Handed in, and its record is being written: the lease may still be needed if that fails.
            let committing =
                |task: TaskIndex| matches!(&self.tasks[task], TaskState::Committing(commit, _) if commit.token == token);
            return self.plan.index_of(id).is_some_and(committing);
        };
        let is_finished = self.leases.get(&token).is_some_and(|lease| lease.is_finished);
        if self.phase != Phase::Running && !is_finished {
            self.release(token);
            return false;
        }
        if matches!(self.tasks[task], TaskState::Committing(..)) {
            // A copy of it was faster.
            self.leases.remove(&token);
            return false;
        }
        let in_plan = self.plan.layer(strata_games::Layer(layer)).is_some();
        let lease = self.leases.get_mut(&token).expect("the lease was just found");
        lease.expires = now + self.policy.lease;
        lease.told = Some(now);
        if positions > lease.positions {
            lease.positions = positions;
            self.no_copy_before = None;
        }
        if in_plan && positions > 0 {
            lease.layer = Some(layer);
        }
        debug_assert_eq!(lease.task, task);
        true
    }

    /// Takes back the leases that were not renewed in time; says how many.
    pub fn expire(&mut self, now: Duration) -> usize {
        self.drop_checks(|expires, _| expires <= now);
        let late: Vec<u64> = self.leases.iter().filter(|(_, lease)| lease.expires <= now).map(|(&token, _)| token).collect();
        for &token in &late {
            let lease = &self.leases[&token];
            let note = format!("no sign of life for {} s", self.policy.lease.as_secs_f64());
            let (task, worker) = (lease.task, lease.worker.name.clone());
            self.note(task, &worker, &note);
            self.release(token);
            // While somebody else has it, nothing is lost.
            if matches!(self.tasks[task], TaskState::Ready) {
                self.count_loss(task, &worker);
            }
        }
        late.len()
    }

    /// Takes back the leases of a worker that leaves; says how many. What it has handed in already is not among them.
    pub fn take_back(&mut self, worker: u64) -> usize {
        self.drop_checks(|_, holder| holder == worker);
        let held: Vec<u64> = self.leases.iter().filter(|(_, lease)| lease.worker.id == worker).map(|(&token, _)| token).collect();
        for &token in &held {
            self.release(token);
        }
        held.len()
    }

    /// When the next lease runs out.
    pub fn next_expiry(&self) -> Option<Duration> {
        self.leases.values().map(|lease| lease.expires).chain(self.checks.next_expiry()).min()
    }

    /// Stops giving tasks out. Does nothing in a job that is over. What somebody asked for stands, whatever else the job rests for.
    pub fn pause(&mut self, cause: PauseCause, message: String) {
        let rests = matches!(self.phase, Phase::Paused(..)) && cause == PauseCause::Asked;
        if self.phase == Phase::Running || rests {
            self.phase = Phase::Paused(cause, message);
        }
    }

    /// Goes on after a pause, with a clean slate of failures.
    pub fn resume(&mut self) {
        if let Phase::Paused(..) = self.phase {
            self.phase = Phase::Running;
            self.task_failures.fill(0);
            self.task_losses.fill(0);
            self.gave_up.clear();
        }
    }

    /// Ends the job; its files stay.
    pub fn cancel(&mut self) {
        if !matches!(self.phase, Phase::Failed(_)) {
            self.phase = Phase::Cancelled;
        }
    }

    /// Ends the job for a reason that a retry cannot mend.
    pub fn fail_job(&mut self, message: String) {
        if !matches!(self.phase, Phase::Failed(_) | Phase::Cancelled) {
            self.phase = Phase::Failed(message);
        }
    }

    /// Whether a record is being written somewhere.
    pub fn is_committing(&self) -> bool {
        !self.committing.is_empty()
    }

    /// The task under a token that is still good.
    fn leased(&self, id: TaskId, token: u64) -> Option<TaskIndex> {
        let task = self.plan.index_of(id)?;
        self.leases.get(&token).filter(|lease| lease.task == task).map(|_| task)
    }

    /// Whether a token is still good for a task. Not that of a check: its files may be past being needed, and are gone then.
    pub fn holds(&self, id: TaskId, token: u64) -> bool {
        self.leased(id, token).is_some()
    }

    /// Ends a lease; its task can be given out again, unless somebody else has it too.
    fn release(&mut self, token: u64) -> Option<Lease> {
        let lease = self.leases.remove(&token)?;
        if matches!(self.tasks[lease.task], TaskState::Leased) && !self.is_held(lease.task) {
            self.tasks[lease.task] = TaskState::Ready;
            self.ready.insert(lease.task);
        }
        self.remember_place(&lease);
        Some(lease)
    }

    /// Whether there is a lease of a task.
    fn is_held(&self, task: TaskIndex) -> bool {
        self.leases.values().any(|lease| lease.task == task)
    }

    /// Marks the unfinished tasks of a stage as ready.
    fn open_stage(&mut self, stage: usize) {
        for task in self.plan.stages[stage].tasks.clone() {
            if matches!(self.tasks[task], TaskState::Waiting) {
                self.tasks[task] = TaskState::Ready;
                self.ready.insert(task);
            }
        }
    }

    /// The files that a task reads, once they are all there.
    pub fn inputs_of(&self, task: TaskIndex) -> Option<Vec<FileRecord>> {
        self.plan.tasks[task].plan.inputs.iter().map(|&input| self.file(input).cloned()).collect()
    }

    /// The file of an artifact, when the task that writes it is done.
    fn file(&self, artifact: ArtifactId) -> Option<&FileRecord> {
        let TaskState::Done(commit) = &self.tasks[self.plan.producer(artifact)?] else { return None };
        let outputs = &commit.content.outputs;
        outputs.binary_search_by_key(&artifact, artifact_of).ok().map(|at| &outputs[at])
    }

    fn input_records(&self, task: TaskIndex) -> Option<Vec<InputRecord>> {
        let record =
            |file: FileRecord| InputRecord { kind: file.kind, layer: file.layer, shard: file.shard, blake3: file.blake3 };
        Some(self.inputs_of(task)?.into_iter().map(record).collect())
    }
}

/// A number of bytes, for people: rounded up, so that what is asked for is enough.
fn size(bytes: u64) -> String {
    match bytes {
        0..=9999 => format!("{bytes} bytes"),
        _ if bytes < 10 << 20 => format!("{} KiB", bytes.div_ceil(1 << 10)),
        _ => format!("{} MiB", bytes.div_ceil(1 << 20)),
    }
}

/// Where a stage begins to work.
fn place_of(plan: &Plan, stage: &crate::plan::PlannedStage) -> (Pass, u32) {
    let at = match stage.pass {
        Pass::Forward => stage.layers.start,
        Pass::Backward => stage.layers.end.saturating_sub(1),
    };
    (stage.pass, plan.layers.get(at).map_or(0, |layer| layer.layer.0))
}
