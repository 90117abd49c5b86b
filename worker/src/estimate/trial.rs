//! A build in a directory that is thrown away: stopped when its time is over, and timed.
//!
//! It is the build that a worker does, files and hashes and all, so that what it costs is what a build costs.

use super::LayerCounts;
use crate::control::Control;
use crate::convert::artifact_id;
use crate::execute::{Ended, run_task};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;
use strata_games::memory::last_uses;
use strata_games::{ArtifactId, Counts, Layer, Pass, StateSpace, TaskError, TaskId};
use strata_storage::{FileRecord, TableDir};

/// What was done of one stage.
pub(super) struct Stretch {
    pub(super) pass: Pass,
    /// Positions with the player to act in the layers of the stage.
    pub(super) states: u64,
    pub(super) seconds: f64,
}

/// What a trial found.
#[derive(Default)]
pub(super) struct Trial {
    pub(super) stretches: Vec<Stretch>,
    pub(super) counts: LayerCounts,
    /// Whether every stage was run.
    pub(super) is_complete: bool,
}

/// Why a trial could not be done.
#[derive(thiserror::Error, Debug)]
#[error("a trial build in {dir} failed: {why}")]
struct Failed {
    dir: String,
    why: String,
}

/// Builds until the time is over, in a temporary folder, on the threads of `pool` and within so much memory.
pub(super) fn run(space: &dyn StateSpace, deadline: Instant, pool: &rayon::ThreadPool, memory: u64) -> Result<Trial, TaskError> {
    let folder = tempfile::tempdir().map_err(|error| failed(std::env::temp_dir().display(), error))?;
    let fail = |why: String| failed(folder.path().display(), why);
    let dir = TableDir::open(folder.path()).map_err(|error| fail(error.to_string()))?;
    let control = Arc::new(Control::default());
    let mut trial = Trial::default();
    let mut files: BTreeMap<ArtifactId, FileRecord> = BTreeMap::new();
    let last_use = last_uses(space);
    for (number, stage) in (0u32..).zip(space.stages()) {
        let started = Instant::now();
        for part in 0..stage.parts {
            let id = TaskId { stage: number, part };
            let inputs = space.task(id).inputs.iter().filter_map(|input| files.get(input).cloned()).collect();
            match with_alarm(&control, deadline, || run_task(space, id, &dir, inputs, &control, pool, memory)) {
                Ended::Finished(output) => {
                    files.extend(output.files.into_iter().map(|file| (artifact_id(&file), file)));
                    for counted in output.counts {
                        let sum = trial.counts.entry(Layer(counted.layer)).or_insert(Counts::default());
                        sum.states += counted.states;
                        sum.afterstates += counted.afterstates;
                        sum.terminal += counted.terminal;
                    }
                }
                Ended::Stopped => return Ok(trial),
                Ended::Failed { message, .. } => return Err(fail(message)),
            }
        }
        let layers = &space.layers()[stage.layers.clone()];
        let states = layers.iter().map(|info| trial.counts.get(&info.layer).map_or(0, |counts| counts.states)).sum();
        trial.stretches.push(Stretch { pass: stage.pass, states, seconds: started.elapsed().as_secs_f64() });
        for (artifact, file) in &files {
            if last_use.get(artifact).is_none_or(|&last| last <= number) {
                // What cannot be removed goes with the folder.
                let _ = std::fs::remove_file(dir.path(&file.path));
            }
        }
        files.retain(|artifact, _| last_use.get(artifact).is_some_and(|&last| last > number));
    }
    trial.is_complete = true;
    Ok(trial)
}

/// Runs a task, and asks it to stop when the time is over.
fn with_alarm(control: &Control, deadline: Instant, task: impl FnOnce() -> Ended) -> Ended {
    let (done, waits) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let left = deadline.saturating_duration_since(Instant::now());
            if waits.recv_timeout(left) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                control.stop();
            }
        });
        let ended = task();
        drop(done);
        ended
    })
}

fn failed(dir: impl std::fmt::Display, why: impl std::fmt::Display) -> TaskError {
    TaskError::Io(Box::new(Failed { dir: dir.to_string(), why: why.to_string() }))
}
