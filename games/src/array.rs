//! Large arrays of plain numbers: zeroed, in large pages where the system has them, or in a file where memory is short.
//!
//! A look-up in a table of a hundred megabytes misses the cache, and with pages of 4 KiB also the table of pages; in large pages that second
//! miss goes away. An array in a file ([`Scratch`]) is read and written like any other; what of it stays in memory is up to the
//! system, and whoever is done with a part of it for a while says so ([`Array::releaser`]).

use bytemuck::Pod;
use memmap2::MmapMut;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// From so many bytes on an array is mapped; smaller ones come from the allocator.
const MAPPED_BYTES: usize = 4 << 20;

/// Memory with a file behind it: zeroed, and aligned to pages.
pub trait Scratch: Send + Sync {
    /// The bytes.
    fn bytes(&self) -> &[u8];
    /// The bytes, to be written.
    fn bytes_mut(&mut self) -> &mut [u8];
    /// Takes it out of this process's memory when called; the bytes stay what they are.
    fn releaser(&self) -> Releaser;
}

/// Tells the system that an array will not be used for a while.
#[derive(Clone, Default)]
pub struct Releaser(Option<Arc<dyn Fn() + Send + Sync>>);

impl Releaser {
    /// One that calls `release`.
    pub fn new(release: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(release)))
    }

    /// The array will not be used for a while.
    pub fn release(&self) {
        if let Some(release) = &self.0 {
            release();
        }
    }
}

/// A zeroed array of fixed length.
pub struct Array<T> {
    memory: Memory<T>,
    /// Where the bytes are counted as long as the array lives.
    _charge: Option<Charge>,
}

/// Bytes that are counted until this is dropped.
struct Charge {
    account: Arc<AtomicU64>,
    bytes: u64,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.fetch_sub(self.bytes, Relaxed);
    }
}

enum Memory<T> {
    Heap(Vec<T>),
    Mapped(MmapMut, PhantomData<T>),
    Scratch(Box<dyn Scratch>, PhantomData<T>),
}

impl<T: Pod> Array<T> {
    /// An array of zeros in memory.
    pub fn zeroed(len: usize) -> Self {
        let bytes = len * size_of::<T>();
        if bytes < MAPPED_BYTES {
            return Self { memory: Memory::Heap(vec![T::zeroed(); len]), _charge: None };
        }
        let memory = match MmapMut::map_anon(bytes) {
            Ok(map) => {
                #[cfg(target_os = "linux")]
                // A hint: without large pages everything works, only slower.
                let _ = map.advise(memmap2::Advice::HugePage);
                Memory::Mapped(map, PhantomData)
            }
            // As the allocator would say it.
            Err(_) => Memory::Heap(vec![T::zeroed(); len]),
        };
        Self { memory, _charge: None }
    }

    /// An array of zeros in memory, whose bytes are counted in an account as long as it lives.
    pub fn zeroed_on(account: &Arc<AtomicU64>, len: usize) -> Self {
        let bytes = (len * size_of::<T>()) as u64;
        account.fetch_add(bytes, Relaxed);
        Self { _charge: Some(Charge { account: Arc::clone(account), bytes }), ..Self::zeroed(len) }
    }

    /// An array in a file. The length is a whole number of elements.
    pub fn in_scratch(scratch: Box<dyn Scratch>) -> Self {
        Self { memory: Memory::Scratch(scratch, PhantomData), _charge: None }
    }

    /// Whether it lies in a file.
    pub fn is_scratch(&self) -> bool {
        matches!(self.memory, Memory::Scratch(..))
    }

    /// For saying that the array will not be used for a while, also while parts of it are borrowed.
    pub fn releaser(&self) -> Releaser {
        match &self.memory {
            Memory::Scratch(scratch, _) => scratch.releaser(),
            Memory::Heap(_) | Memory::Mapped(..) => Releaser::default(),
        }
    }
}

impl<T: Pod> Default for Array<T> {
    fn default() -> Self {
        Self { memory: Memory::Heap(Vec::new()), _charge: None }
    }
}

impl<T: Pod> From<Vec<T>> for Array<T> {
    fn from(values: Vec<T>) -> Self {
        Self { memory: Memory::Heap(values), _charge: None }
    }
}

impl<T: Pod> Clone for Array<T> {
    fn clone(&self) -> Self {
        let mut copy = Self::zeroed(self.len());
        copy.copy_from_slice(self);
        copy
    }
}

impl<T: Pod + PartialEq> PartialEq for Array<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Pod + std::fmt::Debug> std::fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: Pod> Deref for Array<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match &self.memory {
            Memory::Heap(values) => values,
            Memory::Mapped(map, _) => bytemuck::cast_slice(map),
            Memory::Scratch(scratch, _) => bytemuck::cast_slice(scratch.bytes()),
        }
    }
}

impl<T: Pod> DerefMut for Array<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.memory {
            Memory::Heap(values) => values,
            Memory::Mapped(map, _) => bytemuck::cast_slice_mut(map),
            Memory::Scratch(scratch, _) => bytemuck::cast_slice_mut(scratch.bytes_mut()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_arrays_are_zeroed_and_writable() {
        for len in [0, 1, 1000, MAPPED_BYTES / 8 + 1] {
            let mut array = Array::<f64>::zeroed(len);
            assert_eq!(array.len(), len);
            assert!(array.iter().all(|&x| x == 0.0));
            if let Some(last) = array.last_mut() {
                *last = 1.5;
            }
            assert_eq!(array.iter().sum::<f64>(), if len > 0 { 1.5 } else { 0.0 });
            assert_eq!(array.clone(), array);
        }
    }
}
