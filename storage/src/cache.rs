//! Decompressed groups that may be asked for again, in bounded memory.
//!
//! Two generations: what is asked for goes to the young one; when that holds half of the budget it becomes the old one, and the old one
//! goes. So what was asked for within the last half budget is always there, nothing is sorted, and a look-up is one or two look-ups in
//! a map. The cache is split in 16 so that threads seldom wait for each other.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Tells files apart in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct FileId(u64);

impl FileId {
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A group: its file, the number of its column, its number.
pub(crate) type GroupKey = (FileId, usize, u64);

const PARTS: usize = 16;

/// Decompressed groups, up to a number of bytes.
#[derive(Debug)]
pub(crate) struct GroupCache {
    hasher: RandomState,
    parts: [Mutex<Part>; PARTS],
    /// Bytes of one generation of one part.
    generation_bytes: u64,
}

#[derive(Debug, Default)]
struct Part {
    young: HashMap<GroupKey, Arc<[u8]>>,
    old: HashMap<GroupKey, Arc<[u8]>>,
    young_bytes: u64,
}

impl GroupCache {
    pub(crate) fn new(bytes: u64) -> Self {
        Self { hasher: RandomState::new(), parts: Default::default(), generation_bytes: bytes / (2 * PARTS as u64) }
    }

    fn part(&self, key: GroupKey) -> std::sync::MutexGuard<'_, Part> {
        #[allow(clippy::cast_possible_truncation)]
        let number = self.hasher.hash_one(key) as usize % PARTS;
        // Nothing in here can panic half-way.
        self.parts[number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, key: GroupKey) -> Option<Arc<[u8]>> {
        let mut part = self.part(key);
        if let Some(bytes) = part.young.get(&key) {
            return Some(bytes.clone());
        }
        let bytes = part.old.get(&key).cloned()?;
        part.insert(key, bytes.clone(), self.generation_bytes);
        Some(bytes)
    }

    pub(crate) fn put(&self, key: GroupKey, bytes: Arc<[u8]>) {
        self.part(key).insert(key, bytes, self.generation_bytes);
    }
}

impl Part {
    fn insert(&mut self, key: GroupKey, bytes: Arc<[u8]>, generation_bytes: u64) {
        let size = bytes.len() as u64;
        if size > generation_bytes {
            return;
        }
        if self.young_bytes + size > generation_bytes {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        if self.young.insert(key, bytes).is_none() {
            self.young_bytes += size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_gives_back_what_was_put_in_and_stays_within_its_budget() {
        let cache = GroupCache::new(32 * 1000);
        let file = FileId::next();
        for number in 0..1000u64 {
            let key = (file, 0, number);
            cache.put(key, vec![number as u8; 100].into());
            assert_eq!(cache.get(key).unwrap()[..], [number as u8; 100]);
            assert!(cache.get((file, 1, number)).is_none());
        }
        let held = (0..1000).filter(|&number| cache.get((file, 0, number)).is_some()).count();
        assert!((1..=320).contains(&held), "{held}");
        // A group that is larger than its share is not kept.
        cache.put((file, 2, 0), vec![0; 1001].into());
        assert!(cache.get((file, 2, 0)).is_none());
    }
}
