//! Room on the disk of a build: a job rests before it is full, and goes on by itself when there is room again.
//!
//! Every second the free space of each running build is looked at. Below the low-water mark its job pauses: tasks are told to stop, and no record is
//! half-written. A quarter above it the job goes on. A job that a worker stopped because a file could not be written goes on too, but not
//! before half a minute is over: what was free for the coordinator may not have been for the worker. Pausing frees what tasks had taken for
//! themselves: a job that went on and rested again before any task was finished needs more room than it had then.

use crate::core::{Core, blocking_call};
use crate::job::Job;
use crate::scheduler::{PauseCause, Phase};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the disk is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long a full disk that a worker met is left alone.
const AFTER_A_FAILURE: Duration = Duration::from_secs(30);

/// What a job should do, seen from the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    Leave,
    Pause,
    Resume,
}

fn verdict(phase: &Phase, free: u64, mark: u64, resting: Duration, needed: u64) -> Verdict {
    let has_room = free >= mark.saturating_add(mark / 4).max(needed);
    match phase {
        Phase::Running if free < mark => Verdict::Pause,
        Phase::Paused(PauseCause::LowWater, _) if has_room => Verdict::Resume,
        Phase::Paused(PauseCause::DiskFull, _) if has_room && resting >= AFTER_A_FAILURE => Verdict::Resume,
        _ => Verdict::Leave,
    }
}

/// Watches the disks of all builds until the coordinator stops.
pub(crate) async fn watch(core: Arc<Core>, mark: u64) {
    // Since when jobs rest because of a disk.
    let mut resting: BTreeMap<String, Instant> = BTreeMap::new();
    // Finished tasks, and free bytes, when they went on the last time; and what they need to go on.
    let mut went_on: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut needs: BTreeMap<String, u64> = BTreeMap::new();
    loop {
        tokio::select! {
            () = core.stopped() => return,
            () = tokio::time::sleep(LOOK) => {}
        }
        for job in core.jobs() {
            let look = job.peek(|scheduler| Some((scheduler.phase().clone(), scheduler.progress().tasks_done)));
            let Some((phase, done)) = look else { continue };
            match phase {
                Phase::Paused(PauseCause::DiskFull | PauseCause::LowWater, _) => {
                    resting.entry(job.table.clone()).or_insert_with(Instant::now);
                }
                _ => {
                    resting.remove(&job.table);
                }
            }
            let Some(free) = free_bytes(&job).await else { continue };
            let since = resting.get(&job.table).map_or(Duration::ZERO, Instant::elapsed);
            let needed = needs.get(&job.table).copied().unwrap_or(0);
            match verdict(&phase, free, mark, since, needed) {
                Verdict::Leave => {}
                Verdict::Pause => {
                    match went_on.get(&job.table) {
                        Some(&(then, had)) if then == done => needs.insert(job.table.clone(), had.saturating_add(mark)),
                        _ => needs.remove(&job.table),
                    };
                    let message = format!(
                        "{} MiB are free where {} is built, less than the low-water mark of {} MiB; it goes on by itself when there is room",
                        free >> 20,
                        job.table,
                        mark >> 20
                    );
                    tracing::warn!(table = %job.table, %message, "the job pauses");
                    job.schedule(|scheduler| scheduler.pause(PauseCause::LowWater, message));
                }
                Verdict::Resume => {
                    tracing::info!(table = %job.table, free, "there is room again; the job goes on");
                    went_on.insert(job.table.clone(), (done, free));
                    job.schedule(|scheduler| scheduler.resume());
                    core.wake();
                }
            }
        }
    }
}

/// Bytes that can still be written where a job builds.
pub(crate) async fn free_bytes(job: &Arc<Job>) -> Option<u64> {
    let dir = job.build.as_ref()?.dir.clone();
    blocking_call(move || dir.free_bytes().ok()).await.ok()?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_rests_below_the_mark_and_goes_on_well_above_it() {
        let paused = |cause| Phase::Paused(cause, String::new());
        let (short, long) = (Duration::ZERO, AFTER_A_FAILURE);
        assert_eq!(verdict(&Phase::Running, 99, 100, short, 0), Verdict::Pause);
        assert_eq!(verdict(&Phase::Running, 100, 100, short, 0), Verdict::Leave);
        assert_eq!(verdict(&paused(PauseCause::LowWater), 124, 100, long, 0), Verdict::Leave);
        assert_eq!(verdict(&paused(PauseCause::LowWater), 125, 100, short, 0), Verdict::Resume);
        assert_eq!(verdict(&paused(PauseCause::DiskFull), 125, 100, short, 0), Verdict::Leave);
        assert_eq!(verdict(&paused(PauseCause::DiskFull), 125, 100, long, 0), Verdict::Resume);
        // It went on with 150 before, and that was not enough.
        assert_eq!(verdict(&paused(PauseCause::LowWater), 200, 100, long, 250), Verdict::Leave);
        assert_eq!(verdict(&paused(PauseCause::LowWater), 250, 100, long, 250), Verdict::Resume);
        for cause in [PauseCause::Asked, PauseCause::Failures, PauseCause::Memory(1)] {
            assert_eq!(verdict(&paused(cause), u64::MAX, 100, long, 0), Verdict::Leave);
        }
        assert_eq!(verdict(&Phase::Cancelled, 0, 100, long, 0), Verdict::Leave);
    }
}
