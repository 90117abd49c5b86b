//! Keeps a coordinator that has lost the lead from writing.
//!
//! Whoever leads a bucket holds a lease in it until some moment. A process that was frozen, or cut off, past that moment does not know
//! that somebody else leads now; its clock does. So the moment is compared with the clock before every write. The clock goes on while the machine
//! sleeps, and is never set.

use crate::bucket::Bucket;
use crate::error::StoreError;
use rustix::time::{ClockId, clock_gettime};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Time since the machine was started, sleep included.
pub(crate) fn now() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Until when this process may write. Without a moment always: workers write under names that have a hash.
#[derive(Default, Debug)]
pub(crate) struct Fence {
    until: Mutex<Option<Duration>>,
}

impl Fence {
    /// Opens it until a moment, or closes it for good with one that is over.
    pub(crate) fn open_until(&self, moment: Duration) {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner) = Some(moment);
    }

    /// Whether something may be written now.
    pub(crate) fn check(&self, bucket: &Bucket) -> Result<(), StoreError> {
        match *self.until.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(until) if now() >= until => Err(StoreError::NotLeading { path: bucket.shown("") }),
            _ => Ok(()),
        }
    }
}
