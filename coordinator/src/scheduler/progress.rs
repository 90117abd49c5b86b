//! How far a job is, for people.

use super::{Scheduler, StageState};
use strata_games::{Pass, TaskId};

/// How far a job is.
#[derive(Clone, PartialEq, Debug)]
pub struct Progress {
    /// Tasks of the plan.
    pub tasks: u64,
    /// Tasks that are done.
    pub tasks_done: u64,
    /// Tasks that are leased.
    pub tasks_running: u64,
    /// Estimated work of the plan, in positions of the universe.
    pub cost: u64,
    /// Estimated work that is done, or done by running tasks so far.
    pub cost_done: u64,
    /// Positions handled since this scheduler started.
    pub positions: u64,
    /// Bytes of the artifacts that exist.
    pub bytes: u64,
    /// Pass of the oldest running task.
    pub pass: Pass,
    /// Layer it is at.
    pub layer: u32,
    /// Layers of the plan, each as often as a stage works on it.
    pub layers: u64,
    /// Those of stitched stages.
    pub layers_done: u64,
    /// Last failures, newest first.
    pub failures: Vec<String>,
}

impl Scheduler {
    /// Who has which task: number of the worker, task, and layer it is at.
    pub fn held(&self) -> impl Iterator<Item = (u64, TaskId, u32)> {
        let leases = self.leases.values().map(|lease| (lease.worker.id, lease.task, lease.layer));
        leases.chain(self.checks.held().map(|(worker, task)| (worker, task, None))).map(|(worker, task, layer)| {
            let id = self.plan.tasks[task].id;
            let (_, first) = super::place_of(&self.plan, &self.plan.stages[id.stage as usize]);
            (worker, id, layer.unwrap_or(first))
        })
    }

    /// How many tasks could be given out now.
    pub fn ready(&self) -> u64 {
        self.ready.len() as u64
    }

    /// How often the build was taken up, this time included.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// How far the job is.
    pub fn progress(&self) -> Progress {
        let planned = |stitched_only: bool| {
            let stages = self.plan.stages.iter().zip(&self.stages);
            let counted = stages.filter(|(_, stage)| !stitched_only || stage.state == StageState::Stitched);
            counted.map(|(planned, _)| planned.layers.len() as u64).sum()
        };
        let running = self.leases.values().map(|lease| lease.positions.min(self.plan.tasks[lease.task].plan.cost));
        let oldest = self.leases.values().min_by_key(|lease| lease.task);
        let (pass, layer) = oldest.map_or(self.last_place, |lease| {
            let stage = &self.plan.stages[self.plan.tasks[lease.task].id.stage as usize];
            let (pass, first) = super::place_of(&self.plan, stage);
            (pass, lease.layer.unwrap_or(first))
        });
        Progress {
            tasks: self.plan.tasks.len() as u64,
            tasks_done: self.tasks_done,
            tasks_running: (self.leases.len() + self.committing.len()) as u64,
            cost: self.plan.cost,
            cost_done: self.cost_done + running.sum::<u64>(),
            positions: self.positions + self.leases.values().map(|lease| lease.positions).sum::<u64>(),
            bytes: self.bytes,
            pass,
            layer,
            layers: planned(false),
            layers_done: planned(true),
            failures: self.failures.iter().cloned().collect(),
        }
    }
}
