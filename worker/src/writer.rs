//! A task's outputs on their way to the disk while the kernel goes on computing.
//!
//! Writing a file means encoding, two hashes and an fsync. Two threads do that beside the kernel. What waits for them is copied, and
//! bounded in bytes: a kernel that is faster than the disk waits here, and an output larger than the bound is written without a
//! copy by the thread that brings it. The first error is kept; whoever comes next gets it, and so does the end of the task.

use crate::error::{IoFault, panic_message};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use strata_storage::FileRecord;

/// Threads that write. Two, so that one can encode and hash while the other waits for the disk.
pub(crate) const WRITERS: usize = 2;
/// The same for an object store: small files wait for its answers, most of the time.
pub(crate) const WRITERS_FAR: usize = 8;

/// A file to write: returns its record when it is durable.
pub(crate) type Write<'a> = Box<dyn FnOnce() -> Result<FileRecord, IoFault> + Send + 'a>;

#[derive(Default)]
struct State<'a> {
    waiting: VecDeque<(u64, Write<'a>)>,
    /// Bytes of copies that wait or are being written.
    bytes: u64,
    closed: bool,
    fault: Option<IoFault>,
    records: Vec<FileRecord>,
}

/// The queue between the kernel and the threads that write.
pub(crate) struct Writer<'a> {
    limit: u64,
    state: Mutex<State<'a>>,
    /// Signalled when something waits, or the queue is closed.
    work: Condvar,
    /// Signalled when there is room, or an error.
    room: Condvar,
}

impl<'a> Writer<'a> {
    /// A queue that holds copies of `limit` bytes.
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, state: Mutex::default(), work: Condvar::new(), room: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State<'a>> {
        // Nothing in here panics with the lock held; if it did the first fault is still worth more than a second panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of copies that may wait.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Whether a copy of so many bytes may wait at all.
    pub(crate) fn takes(&self, bytes: u64) -> bool {
        bytes <= self.limit
    }

    /// Waits until there is room for so many bytes, and takes it.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<(), IoFault> {
        let mut state = self.state();
        loop {
            if let Some(fault) = &state.fault {
                return Err(fault.clone());
            }
            if state.bytes == 0 || state.bytes + bytes <= self.limit {
                state.bytes += bytes;
                return Ok(());
            }
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Queues a file whose copy has room already.
    pub(crate) fn queue(&self, bytes: u64, write: Write<'a>) {
        self.state().waiting.push_back((bytes, write));
        self.work.notify_one();
    }

    /// Writes a file on this thread.
    pub(crate) fn write_now(&self, write: impl FnOnce() -> Result<FileRecord, IoFault>) -> Result<(), IoFault> {
        if let Some(fault) = self.first_fault() {
            return Err(fault);
        }
        self.finished(write())
    }

    fn finished(&self, result: Result<FileRecord, IoFault>) -> Result<(), IoFault> {
        match result {
            Ok(record) => {
                self.state().records.push(record);
                Ok(())
            }
            Err(fault) => {
                self.fault(fault.clone());
                Err(fault)
            }
        }
    }

    /// Keeps a fault, if it is the first.
    pub(crate) fn fault(&self, fault: IoFault) {
        let mut state = self.state();
        state.fault.get_or_insert(fault);
        // What waits will not be missed.
        let dropped: u64 = state.waiting.drain(..).map(|(bytes, _)| bytes).sum();
        state.bytes -= dropped;
        drop(state);
        self.room.notify_all();
    }

    /// The first thing that went wrong.
    pub(crate) fn first_fault(&self) -> Option<IoFault> {
        self.state().fault.clone()
    }

    /// Nothing more will come.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.work.notify_all();
    }

    /// The records of all files that are durable.
    pub(crate) fn into_records(self) -> Vec<FileRecord> {
        self.state.into_inner().unwrap_or_else(PoisonError::into_inner).records
    }

    /// What a writing thread does until the queue is closed and empty.
    pub(crate) fn serve(&self) {
        let mut state = self.state();
        loop {
            if let Some((bytes, write)) = state.waiting.pop_front() {
                drop(state);
                let result = catch_unwind(AssertUnwindSafe(write))
                    .unwrap_or_else(|panic| Err(IoFault::WriterPanic(panic_message(&*panic))));
                // Kept for the kernel's next call.
                let _ = self.finished(result);
                state = self.state();
                state.bytes -= bytes;
                self.room.notify_all();
            } else if state.closed {
                return;
            } else {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    fn fault(what: &str) -> IoFault {
        IoFault::Plan(what.into())
    }

    fn record() -> FileRecord {
        let (blake3, sha256) = Default::default();
        let path = String::new();
        let (kind, error_bounds) = (strata_storage::FileKind::Work, Vec::new());
        FileRecord {
            kind,
            layer: 0,
            shard: 0,
            path,
            blake3,
            sha256,
            bytes: 0,
            keys: 0,
            index_bytes: 0,
            value_bytes: 0,
            error_bounds,
        }
    }

    #[test]
    fn copies_that_wait_never_exceed_the_limit() {
        let (now, most) = (AtomicU64::new(0), AtomicU64::new(0));
        let writer = Writer::new(100);
        std::thread::scope(|scope| {
            (0..WRITERS).for_each(|_| drop(scope.spawn(|| writer.serve())));
            for _ in 0..50 {
                writer.reserve(40).unwrap();
                most.fetch_max(now.fetch_add(40, Ordering::SeqCst) + 40, Ordering::SeqCst);
                writer.queue(
                    40,
                    Box::new(|| {
                        std::thread::sleep(Duration::from_micros(200));
                        now.fetch_sub(40, Ordering::SeqCst);
                        Ok(record())
                    }),
                );
            }
            writer.close();
        });
        assert!(most.load(Ordering::SeqCst) <= 100 + 40, "{most:?}");
        assert_eq!(writer.into_records().len(), 50);
    }

    #[test]
    fn an_error_meets_the_next_call_and_is_kept_for_the_end() {
        let writer = Writer::new(100);
        std::thread::scope(|scope| {
            scope.spawn(|| writer.serve());
            writer.reserve(80).unwrap();
            writer.queue(80, Box::new(|| Err(fault("the first"))));
            // Has to wait for room, and gets the error instead.
            let met = writer.reserve(80).unwrap_err();
            assert!(met.to_string().contains("the first"), "{met}");
            assert!(writer.write_now(|| Ok(record())).is_err());
            writer.close();
        });
        assert!(writer.first_fault().unwrap().to_string().contains("the first"));
    }

    #[test]
    fn a_panic_while_writing_is_an_error() {
        let writer = Writer::new(100);
        std::thread::scope(|scope| {
            scope.spawn(|| writer.serve());
            writer.reserve(1).unwrap();
            writer.queue(1, Box::new(|| panic!("no such column")));
            writer.close();
        });
        assert!(matches!(writer.first_fault(), Some(IoFault::WriterPanic(what)) if what == "no such column"));
    }
}
