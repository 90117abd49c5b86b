//! One job: the build of one table, from the check of its store to its publication, and what people see of it.

use crate::plan::Plan;
use crate::record::{Commit, Dismissed, Doubts};
use crate::scheduler::{PauseCause, Phase, Policy, Progress, Restored, Scheduler, StitchJob, Tally};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use strata_games::{Pass, StateSpace};
use strata_proto::v1::{self, JobState};
use strata_storage::{Manifest, TableDir};
use tokio::sync::{Notify, watch};

/// What a job builds, and where.
pub struct Build {
    /// The directory.
    pub dir: TableDir,
    /// The game.
    pub space: Box<dyn StateSpace>,
    /// Its plan.
    pub plan: Arc<Plan>,
}

/// One job.
pub struct Job {
    /// Name of the table.
    pub table: String,
    /// Jobs of the same priority are served in this order.
    pub number: u64,
    /// `None` when the table was complete before.
    pub build: Option<Build>,
    priority: AtomicI32,
    state: Mutex<State>,
    changes: watch::Sender<u64>,
    kick: Notify,
    /// One write of what is doubted at a time, so that the last one to be written is the last one to be.
    pub(crate) writing_doubts: tokio::sync::Mutex<()>,
}

/// Where a job is.
enum Step {
    /// The store is being read.
    Checking,
    /// The scheduler has the word.
    Active(Box<Scheduler>),
    /// The manifest is being written.
    Publishing,
    /// The table is there.
    Complete(Box<Manifest>),
    /// The store could not be read, or the manifest not be made.
    Failed(String),
    /// Somebody said so, before there was a scheduler.
    Cancelled,
}

/// What people asked for while there was no scheduler to tell.
#[derive(Clone, PartialEq, Eq)]
enum Wish {
    Go,
    Pause(PauseCause, String),
    Cancel,
}

struct State {
    step: Step,
    wish: Wish,
    /// As it was when the last scheduler went.
    last: Option<Progress>,
    /// Results that are not trusted, while there is no scheduler to know.
    doubts: Doubts,
    /// The checks of the last scheduler.
    tally: Tally,
    resumed: u64,
    rejected: u64,
    /// The store is to be read again.
    recheck: bool,
    /// No new result is taken: the lock of the directory is about to go.
    closed: bool,
    /// It is gone.
    released: bool,
}

/// What the driver of a job does next.
pub enum Action {
    /// Wait to be kicked.
    Rest,
    /// Write the record of a stage.
    Stitch(StitchJob),
    /// Read the store again.
    Recheck,
    /// Write the manifest.
    Publish(Vec<Arc<Commit>>),
    /// The job is over.
    End,
}

/// Why a pause that was asked for is one.
const ASKED: &str = "paused on request; resume it to go on";

impl Job {
    /// A job that begins with a look at the store.
    pub fn new(table: String, number: u64, priority: i32, build: Build) -> Self {
        Self::with(table, number, priority, Some(build), Step::Checking, false)
    }

    /// A job whose table was complete before it was submitted.
    pub fn complete(table: String, number: u64, priority: i32, manifest: Manifest) -> Self {
        Self::with(table, number, priority, None, Step::Complete(Box::new(manifest)), true)
    }

    fn with(table: String, number: u64, priority: i32, build: Option<Build>, step: Step, released: bool) -> Self {
        let state = State {
            step,
            wish: Wish::Go,
            last: None,
            doubts: Doubts::none(&table),
            tally: Tally::default(),
            resumed: 0,
            rejected: 0,
            recheck: false,
            closed: released,
            released,
        };
        Job {
            table,
            number,
            build,
            priority: AtomicI32::new(priority),
            state: Mutex::new(state),
            changes: watch::Sender::new(0),
            kick: Notify::new(),
            writing_doubts: tokio::sync::Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and tells everybody who watches.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.lock());
        self.changes.send_modify(|version| *version += 1);
        self.kick.notify_one();
        result
    }

    /// Calls the scheduler for a worker. `None` when there is no scheduler, or it is about to go.
    pub fn serve<T>(&self, call: impl FnOnce(&mut Scheduler) -> T) -> Option<T> {
        self.change(|state| match &mut state.step {
            Step::Active(scheduler) if !state.closed && !state.recheck => {
                let result = call(scheduler);
                state.recheck = scheduler.wants_recheck();
                Some(result)
            }
            _ => None,
        })
    }

    /// Calls the scheduler, when there is one.
    pub fn schedule<T>(&self, call: impl FnOnce(&mut Scheduler) -> T) -> Option<T> {
        self.change(|state| match &mut state.step {
            Step::Active(scheduler) => {
                let result = call(scheduler);
                state.recheck |= scheduler.wants_recheck();
                Some(result)
            }
            _ => None,
        })
    }

    /// Takes no new results from now on, unless a record is being written just now: then it says no.
    pub fn close(&self) -> bool {
        let mut state = self.lock();
        state.closed = match &state.step {
            Step::Active(scheduler) => !scheduler.is_committing(),
            _ => true,
        };
        state.closed
    }

    /// Looks at the scheduler without telling anybody.
    pub fn peek<T>(&self, call: impl FnOnce(&mut Scheduler) -> Option<T>) -> Option<T> {
        match &mut self.lock().step {
            Step::Active(scheduler) => call(scheduler),
            _ => None,
        }
    }

    /// Follows the changes.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Waits until the driver may have something to do.
    pub async fn kicked(&self) {
        self.kick.notified().await;
    }

    /// Jobs of higher priority get workers first.
    pub fn priority(&self) -> i32 {
        self.priority.load(Ordering::Relaxed)
    }

    /// Changes the priority.
    pub fn set_priority(&self, priority: i32) {
        self.priority.store(priority, Ordering::Relaxed);
    }

    /// Installs the scheduler after the store was read.
    pub fn start(&self, policy: Policy, mut restored: Restored, resumed: u64, rejected: u64) {
        let Some(build) = &self.build else { return };
        self.change(|state| {
            (restored.doubts, restored.tally) = (Some(state.doubts.clone()), std::mem::take(&mut state.tally));
            let scheduler = Scheduler::new(Arc::clone(&build.plan), policy, restored);
            if state.last.is_none() {
                state.resumed = resumed;
            }
            state.rejected += rejected;
            let mut scheduler = Box::new(scheduler);
            match &state.wish {
                Wish::Go => {}
                Wish::Pause(cause, message) => scheduler.pause(*cause, message.clone()),
                Wish::Cancel => scheduler.cancel(),
            }
            state.step = Step::Active(scheduler);
        });
    }

    /// What the driver does next.
    pub fn next_action(&self) -> Action {
        let mut state = self.lock();
        let recheck = state.recheck;
        let Step::Active(scheduler) = &mut state.step else { return Action::End };
        if matches!(scheduler.phase(), Phase::Failed(_) | Phase::Cancelled) {
            return Action::End;
        }
        if recheck {
            return if scheduler.is_committing() { Action::Rest } else { Action::Recheck };
        }
        if let Some(stitch) = scheduler.next_stitch() {
            return Action::Stitch(stitch);
        }
        if scheduler.is_finished() && *scheduler.phase() == Phase::Running {
            return Action::Publish(scheduler.commits());
        }
        Action::Rest
    }

    /// Something in the store is damaged: no more tasks are given out, and those that run are told to stop.
    pub fn ask_recheck(&self) {
        self.change(|state| state.recheck = true);
    }

    /// The scheduler goes, the store is read again.
    pub fn begin_recheck(&self) {
        self.change(|state| {
            if let Step::Active(scheduler) = &state.step {
                state.wish = match scheduler.phase() {
                    Phase::Cancelled => Wish::Cancel,
                    Phase::Paused(cause, message) => Wish::Pause(*cause, message.clone()),
                    _ => Wish::Go,
                };
                (state.doubts, state.tally) = (scheduler.doubts().clone(), scheduler.tally());
                let before = state.last.as_ref().map_or(0, |last| last.positions);
                let mut progress = scheduler.progress();
                progress.positions += before;
                progress.tasks_running = 0;
                state.last = Some(progress);
            }
            state.recheck = false;
            state.step = Step::Checking;
        });
    }

    /// Results that are not trusted, as they were found in the store.
    pub fn know_doubts(&self, doubts: Doubts) {
        self.lock().doubts = doubts;
    }

    /// Results that are not trusted.
    pub fn doubts(&self) -> Doubts {
        let state = self.lock();
        match &state.step {
            Step::Active(scheduler) => scheduler.doubts().clone(),
            _ => state.doubts.clone(),
        }
    }

    /// The store was read, and the results of these workers are out of it.
    pub fn taken_out(&self, dismissed: &[Dismissed]) {
        self.lock().doubts.taken_out(dismissed);
    }

    /// What a worker has made is to be taken out. Says which of the finished tasks that are known those are.
    pub fn dismiss(&self, worker: &str) -> Vec<Arc<Commit>> {
        let known = self.schedule(|scheduler| scheduler.dismiss(worker));
        known.unwrap_or_else(|| {
            // The store is being read: once more, then.
            self.change(|state| {
                if matches!(state.step, Step::Checking) {
                    state.doubts.dismiss(worker);
                    state.recheck = true;
                }
            });
            Vec::new()
        })
    }

    /// The manifest could not be written: the store is read again, and then the job rests until it is resumed.
    pub fn publishing_failed(&self, message: String) {
        self.change(|state| {
            state.wish = Wish::Pause(PauseCause::DiskFull, message);
            state.step = Step::Checking;
        });
    }

    /// The manifest is to be written now. Says no when results have been taken out meanwhile.
    pub fn begin_publishing(&self) -> bool {
        self.change(|state| {
            if let Step::Active(scheduler) = &state.step {
                if scheduler.wants_recheck() || state.recheck {
                    return false;
                }
                let mut progress = scheduler.progress();
                progress.positions += state.last.as_ref().map_or(0, |last| last.positions);
                state.last = Some(progress);
            }
            state.step = Step::Publishing;
            true
        })
    }

    /// The job is over, one way or another; its lock is free.
    pub fn end(&self, end: Result<Option<Manifest>, String>) {
        self.change(|state| {
            state.released = true;
            match end {
                Ok(Some(manifest)) => state.step = Step::Complete(Box::new(manifest)),
                Ok(None) => {}
                Err(message) => state.step = Step::Failed(message),
            }
        });
    }

    /// Whether nothing more will be written by this job.
    pub fn is_released(&self) -> bool {
        self.lock().released
    }

    /// Waits for that.
    pub async fn released(&self) {
        let mut changes = self.changes();
        while !self.is_released() && changes.changed().await.is_ok() {}
    }

    /// Gives no more tasks out for now.
    pub fn pause(&self) {
        self.change(|state| match &mut state.step {
            Step::Active(scheduler) => scheduler.pause(PauseCause::Asked, ASKED.into()),
            // What is cancelled stays so.
            _ if state.wish == Wish::Cancel => {}
            _ => state.wish = Wish::Pause(PauseCause::Asked, ASKED.into()),
        });
    }

    /// Whether somebody asked for the pause it is in.
    pub fn is_paused_on_request(&self) -> bool {
        let state = self.lock();
        match &state.step {
            Step::Active(scheduler) => matches!(scheduler.phase(), Phase::Paused(PauseCause::Asked, _)),
            _ => matches!(state.wish, Wish::Pause(PauseCause::Asked, _)),
        }
    }

    /// Goes on.
    pub fn resume(&self) {
        self.change(|state| match &mut state.step {
            Step::Active(scheduler) => scheduler.resume(),
            _ if state.wish == Wish::Cancel => {}
            _ => state.wish = Wish::Go,
        });
    }

    /// Ends it; the files stay.
    pub fn cancel(&self) {
        self.change(|state| match &mut state.step {
            Step::Active(scheduler) => scheduler.cancel(),
            Step::Checking => {
                state.wish = Wish::Cancel;
            }
            _ => {}
        });
    }

    /// Somebody cancelled it while the store was read.
    pub fn cancelled_early(&self) -> bool {
        self.lock().wish == Wish::Cancel
    }

    /// Ends it before there was a scheduler.
    pub fn end_cancelled(&self) {
        self.change(|state| {
            state.step = Step::Cancelled;
            state.released = true;
        });
    }

    /// What a client sees.
    pub fn status(&self) -> v1::JobStatus {
        let state = self.lock();
        let mut status = v1::JobStatus {
            table: self.table.clone(),
            tasks_resumed: state.resumed,
            tasks_rejected: state.rejected,
            priority: self.priority(),
            ..v1::JobStatus::default()
        };
        match (&state.step, &self.build) {
            (Step::Active(scheduler), _) => {
                fill(&mut status, &scheduler.progress());
                status.positions += state.last.as_ref().map_or(0, |last| last.positions);
            }
            (_, Some(build)) => match &state.last {
                Some(last) => fill(&mut status, last),
                None => {
                    status.tasks = build.plan.tasks.len() as u64;
                    status.cost = build.plan.cost;
                    status.layers = build.plan.stages.iter().map(|stage| stage.layers.len() as u64).sum();
                }
            },
            (_, None) => {}
        }
        let (job_state, message) = match &state.step {
            Step::Checking => (JobState::Checking, "reading what is there, and checking it against its hashes"),
            Step::Active(scheduler) => match scheduler.phase() {
                _ if state.recheck => (JobState::Checking, "something is damaged or doubted; checking all files"),
                Phase::Running => (JobState::Running, ""),
                Phase::Paused(_, message) => (JobState::Paused, message.as_str()),
                Phase::Failed(message) => (JobState::Failed, message.as_str()),
                Phase::Cancelled => (JobState::Cancelled, "cancelled; submit it again to go on"),
            },
            Step::Publishing => (JobState::Publishing, ""),
            Step::Complete(_) => (JobState::Complete, ""),
            Step::Failed(message) => (JobState::Failed, message.as_str()),
            Step::Cancelled => (JobState::Cancelled, "cancelled; submit it again to go on"),
        };
        status.set_state(job_state);
        if let Step::Active(scheduler) = &state.step
            && let Phase::Paused(cause, _) = scheduler.phase()
        {
            status.set_pause_cause(match cause {
                PauseCause::Asked => v1::PauseCause::Asked,
                PauseCause::Failures => v1::PauseCause::Failures,
                PauseCause::DiskFull | PauseCause::LowWater => v1::PauseCause::DiskFull,
                PauseCause::Memory(_) => v1::PauseCause::Memory,
                PauseCause::Opinion => v1::PauseCause::Worker,
            });
        }
        status.message = message.to_owned();
        let doubts = match &state.step {
            Step::Active(scheduler) => scheduler.doubts(),
            _ => &state.doubts,
        };
        let dismissed = doubts.dismissed.iter().filter(|dismissed| dismissed.tasks > 0);
        status.failures.extend(dismissed.map(|Dismissed { worker, tasks }| {
            format!("{tasks} tasks that worker {worker} had made were taken out, to be made again")
        }));
        if let Step::Complete(manifest) = &state.step {
            status.root = manifest.root.as_bytes().to_vec();
            status.bytes = manifest.bytes;
            status.tasks_running = 0;
            if self.build.is_none() {
                status.layers = manifest.layers.len() as u64;
                status.layers_done = status.layers;
            }
        }
        status
    }
}

fn fill(status: &mut v1::JobStatus, progress: &Progress) {
    status.tasks = progress.tasks;
    status.tasks_done = progress.tasks_done;
    status.tasks_running = progress.tasks_running;
    status.cost = progress.cost;
    status.cost_done = progress.cost_done;
    status.positions = progress.positions;
    status.bytes = progress.bytes;
    status.pass = match progress.pass {
        Pass::Forward => "forward".into(),
        Pass::Backward => "backward".into(),
    };
    status.layer = progress.layer;
    status.layers = progress.layers;
    status.layers_done = progress.layers_done;
    status.failures = progress.failures.clone();
}

/// Whether a job in this state stays in it.
pub fn is_final(state: JobState) -> bool {
    matches!(state, JobState::Complete | JobState::Failed | JobState::Cancelled)
}
