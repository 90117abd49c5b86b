//! Letting go of mapped inputs when the process has more memory than it should.
//!
//! The pages of a map that were touched count as memory of the process until they are unmapped, though they could come back from the
//! system's cache at any time. A kernel that reads its inputs here and there touches all of them in the end, so what bounds its
//! memory is to let go of the maps now and then: when the process has too much, as the system counts it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use strata_storage::ShardFile;

/// So much more than was left the last time may be there before it is done again, even beyond the limit: letting go of little over and over
/// would be all that is done.
const LEAST_GAIN: u64 = 32 << 20;

/// The inputs that a task has mapped.
#[derive(Default)]
pub(crate) struct Relief {
    inputs: Mutex<Inputs>,
    is_under_way: AtomicBool,
}

#[derive(Default)]
struct Inputs {
    maps: Vec<Weak<ShardFile>>,
    /// The memory of the process after it was done the last time.
    left: u64,
}

impl Relief {
    fn inputs(&self) -> MutexGuard<'_, Inputs> {
        self.inputs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an input.
    pub(crate) fn add(&self, file: &Arc<ShardFile>) {
        self.inputs().maps.push(Arc::downgrade(file));
    }

    /// Lets go of all inputs if the process has more than `most` bytes. Where the system does not say how many it has, never.
    pub(crate) fn relieve(&self, most: u64) {
        let Ok(mut inputs) = self.inputs.try_lock() else {
            if self.is_under_way.load(Relaxed) {
                // Thousands of maps take a while, in which a thread that goes on would bring hundreds of megabytes back.
                drop(self.inputs());
            }
            return;
        };
        if resident().is_none_or(|bytes| bytes <= most.max(inputs.left + LEAST_GAIN)) {
            return;
        }
        self.is_under_way.store(true, Relaxed);
        inputs.maps.retain(|file| file.upgrade().inspect(|file| file.release()).is_some());
        inputs.left = resident().unwrap_or(0);
        self.is_under_way.store(false, Relaxed);
    }
}

/// The memory of this process, as the system counts it.
fn resident() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split(' ').nth(1)?.parse().ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_says_how_much_memory_there_is() {
        let before = resident().unwrap();
        let bytes = std::hint::black_box(vec![1u8; 64 << 20]);
        assert!(resident().unwrap() >= before.max(bytes.len() as u64));
    }
}
