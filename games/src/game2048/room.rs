//! How a kernel stays within its memory.
//!
//! Two kinds of arrays are large. Those that are gone through in order (sets of ages that are read or written block by block, values of
//! states) may lie in a file: pieces of work say when they are done with them. Those that are looked up anywhere (the set of
//! afterstates that moves lead to, their values) must be in memory, or every look-up is a read. Where they do not fit, the layer is done
//! in several passes, each of which fills or reads one *window* of their places. So half of the memory is for either kind, and with
//! enough of it nothing lies in files and every layer is one window.

use crate::array::Array;
use crate::space::{TaskError, TaskIo};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Least memory of either kind: below it the windows would not hold what one block needs.
const LEAST: u64 = 1 << 16;

/// The memory of one task.
pub struct Room<'a> {
    io: &'a dyn TaskIo,
    /// Bytes that arrays in order may take in memory, and those that do.
    in_order: u64,
    used: Arc<AtomicU64>,
    /// Bytes that arrays for look-ups may take.
    anywhere: u64,
}

impl<'a> Room<'a> {
    /// The memory that the task was given.
    pub fn new(io: &'a dyn TaskIo) -> Self {
        let half = (io.memory_bytes() / 2).max(LEAST);
        Self { io, in_order: half, used: Arc::default(), anywhere: half }
    }

    /// Zeros that will be gone through in order: in memory while there is room.
    pub fn array<T: bytemuck::Pod>(&self, len: usize) -> Result<Array<T>, TaskError> {
        let bytes = (len * size_of::<T>()) as u64;
        if self.used.load(Relaxed) + bytes <= self.in_order {
            return Ok(Array::zeroed_on(&self.used, len));
        }
        Ok(Array::in_scratch(self.io.scratch(bytes)?))
    }

    /// Zeros that are looked up anywhere: in memory if they fit, with others of so many bytes.
    pub fn array_anywhere<T: bytemuck::Pod>(&self, len: usize, others: u64) -> Result<Array<T>, TaskError> {
        let bytes = (len * size_of::<T>()) as u64;
        if bytes + others <= self.anywhere {
            return Ok(Array::zeroed(len));
        }
        Ok(Array::in_scratch(self.io.scratch(bytes)?))
    }

    /// Whether arrays of so many bytes that are looked up anywhere fit together.
    pub fn holds(&self, bytes: u64) -> bool {
        bytes <= self.anywhere
    }

    /// Cuts so many words into windows, for look-ups in arrays of so many bytes a word.
    pub fn windows(&self, words: usize, bytes_a_word: u64) -> Vec<Range<usize>> {
        let most = usize::try_from((self.anywhere / bytes_a_word.max(1)).max(1)).unwrap_or(usize::MAX);
        let count = words.div_ceil(most).max(1);
        let each = words.div_ceil(count).max(1);
        (0..words.max(1)).step_by(each).map(|start| start..words.min(start + each)).collect()
    }
}
