//! How stages end: all parts together, then the next stages open, and files that nobody reads any more go.

use super::{PauseCause, Phase, Scheduler, StageState, TaskState};
use crate::plan::TaskIndex;
use crate::record::{Commit, artifact_of};
use std::ops::Range;
use std::sync::Arc;
use strata_games::{ArtifactId, TaskId};
use strata_storage::FileRecord;

/// A stage whose tasks are all done: check it, write its record, then call [`Scheduler::stitched`] or [`Scheduler::stitch_failed`].
#[derive(Clone, Debug)]
pub struct StitchJob {
    /// The stage.
    pub stage: u32,
    /// Its commits, in the order of the parts.
    pub commits: Vec<Arc<Commit>>,
}

impl Scheduler {
    /// The next stage to stitch, if the job runs.
    pub fn next_stitch(&mut self) -> Option<StitchJob> {
        if self.phase != Phase::Running || self.wants_recheck {
            return None;
        }
        let stage = self.complete.iter().copied().find(|&stage| self.is_checked(stage as usize))?;
        self.complete.remove(&stage);
        self.stages[stage as usize].state = StageState::Stitching;
        let commits = self.commits_of(self.plan.stages[stage as usize].tasks.clone());
        Some(StitchJob { stage, commits })
    }

    /// The record of a stage is durable: stages that waited for it open. Returns the files that nobody will read again.
    pub fn stitched(&mut self, stage: u32) -> Vec<FileRecord> {
        let at = stage as usize;
        if self.stages[at].state == StageState::Stitched {
            return Vec::new();
        }
        self.stages[at].state = StageState::Stitched;
        self.complete.remove(&stage);
        self.stages_left -= 1;
        for next in self.stages[at].before.clone() {
            let next = next as usize;
            self.stages[next].waits_for -= 1;
            if self.stages[next].waits_for == 0 {
                self.open_stage(next);
            }
        }
        self.garbage_of(at)
    }

    /// The record of a stage could not be written: tried again after a pause.
    pub fn stitch_failed(&mut self, stage: u32, disk_full: bool, message: String) {
        self.stages[stage as usize].state = StageState::Open;
        self.complete.insert(stage);
        self.pause(if disk_full { PauseCause::DiskFull } else { PauseCause::Failures }, message);
    }

    /// Whether every stage is stitched.
    pub fn is_finished(&self) -> bool {
        self.stages_left == 0
    }

    /// All commits, in the order of the plan. Complete when [`is_finished`](Self::is_finished).
    pub fn commits(&self) -> Vec<Arc<Commit>> {
        self.commits_of(0..self.tasks.len())
    }

    fn commits_of(&self, tasks: Range<TaskIndex>) -> Vec<Arc<Commit>> {
        let done = |task: TaskIndex| match &self.tasks[task] {
            TaskState::Done(commit) => Some(Arc::clone(commit)),
            _ => None,
        };
        tasks.filter_map(done).collect()
    }

    /// Files of a late result that nobody will read: its worker made them again after they had been removed.
    pub fn leftovers(&self, id: TaskId, files: &[FileRecord]) -> Vec<FileRecord> {
        let is_stitched = self.stages.get(id.stage as usize).is_some_and(|stage| stage.state == StageState::Stitched);
        let is_garbage = |file: &&FileRecord| is_stitched && self.readers_left.get(&artifact_of(file)) == Some(&0);
        files.iter().filter(is_garbage).cloned().collect()
    }

    /// Files of passing kinds that this stage read last, or wrote for nobody.
    fn garbage_of(&mut self, stage: usize) -> Vec<FileRecord> {
        let plan = Arc::clone(&self.plan);
        let mut candidates: Vec<ArtifactId> = Vec::new();
        for task in plan.stages[stage].tasks.clone() {
            for &input in &plan.tasks[task].plan.inputs {
                if let Some(left) = self.readers_left.get_mut(&input) {
                    *left -= 1;
                    candidates.push(input);
                }
            }
            candidates.extend(plan.tasks[task].plan.outputs.iter().filter(|output| output.kind.is_passing()));
        }
        candidates.sort_unstable();
        candidates.dedup();
        // A file can have been read by all while its own stage is being made again after damage: it goes when that is stitched.
        candidates.retain(|artifact| {
            let stage_of = |task: TaskIndex| plan.tasks[task].id.stage as usize;
            self.readers_left.get(artifact) == Some(&0)
                && plan.producer(*artifact).is_some_and(|p| self.stages[stage_of(p)].state == StageState::Stitched)
        });
        self.hold_back(&mut candidates);
        let garbage: Vec<FileRecord> = candidates.into_iter().filter_map(|artifact| self.file(artifact).cloned()).collect();
        self.bytes = self.bytes.saturating_sub(garbage.iter().map(|file| file.bytes).sum());
        garbage
    }
}
