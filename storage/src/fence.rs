//! Keeps a coordinator that has lost the lead from writing.
//!
//! Whoever leads a bucket holds a lease in it until some moment. A process that was frozen, or cut off, past that moment does not know
//! that somebody else leads now; its clock does. So the moment is compared with the clock before every write. The clock goes on while the machine
//! sleeps, and is never set.

use crate::error::StoreError;
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;
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

    /// Writes something, if that may be now, and gives up when the moment comes: what is repeated for minutes must not land after it.
    pub(crate) async fn within<T>(&self, store: &Path, write: impl Future<Output = T>) -> Result<T, StoreError> {
        let until = *self.until.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(until) = until else { return Ok(write.await) };
        let lost = || StoreError::NotLeading { path: store.to_owned() };
        match until.saturating_sub(now()) {
            Duration::ZERO => Err(lost()),
            left => tokio::time::timeout(left, write).await.map_err(|_| lost()),
        }
    }
}
