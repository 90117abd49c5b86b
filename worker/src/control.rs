//! The two-way line between a running kernel and the rest of the worker: progress one way, the wish to stop the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use strata_games::{Layer, TaskError};

/// Shared by the kernel's threads, the heartbeats and the worker's loop. Nothing here blocks.
#[derive(Default, Debug)]
pub struct Control {
    stop: AtomicBool,
    positions: AtomicU64,
    layer: AtomicU32,
}

impl Control {
    /// Asks the kernel to stop at its next report of progress.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked.
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Positions handled so far.
    pub fn positions(&self) -> u64 {
        self.positions.load(Ordering::Relaxed)
    }

    /// The layer last reported.
    pub fn layer(&self) -> Layer {
        Layer(self.layer.load(Ordering::Relaxed))
    }

    /// What [`TaskIo::progress`](strata_games::TaskIo::progress) does.
    pub fn progress(&self, layer: Layer, positions: u64) -> Result<(), TaskError> {
        self.layer.store(layer.0, Ordering::Relaxed);
        self.positions.fetch_add(positions, Ordering::Relaxed);
        if self.stopped() { Err(TaskError::Stopped) } else { Ok(()) }
    }
}

/// Stops the kernel when the future that waits for it is dropped: nobody would hand in its result.
pub(crate) struct StopOnDrop(pub(crate) Arc<Control>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}
