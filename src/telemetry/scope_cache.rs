//! Append-only maps that are read without a lock, even in a forked child.
//!
//! [`AppendMap`] is a hash trie. [`ScopeCache`] is a bounded map on top of it, which stores one value, such as a
//! logger, per scope. A lookup takes one atomic load (acquire) for each of about log₄ n levels.

use std::borrow::Cow;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::process;

/// Maximum number of keys in a cache. Only programs that generate names at run time have more.
pub(crate) const MAX_SCOPES: usize = 1024;

/// A bounded cache without eviction.
#[derive(Debug)]
pub(crate) struct ScopeCache<K, V, const MAX: usize = MAX_SCOPES> {
    entries: AppendMap<(K, V)>,
    count: AtomicUsize,
    hasher: RandomState,
}

impl<K, V: Clone, const MAX: usize> ScopeCache<K, V, MAX> {
    /// Returns the value of `key`; `is_it` distinguishes the key from others with the same hash. For a new key, returns
    /// the value that `make` returns, and stores it if there is room.
    #[inline]
    pub(crate) fn get_or_make(
        &self,
        key: impl Hash,
        is_it: impl Fn(&K) -> bool,
        make: impl FnOnce() -> (K, V),
    ) -> Cow<'_, V> {
        self.get_or_make_hashed(self.hasher.hash_one(key), is_it, make)
    }

    /// Like [`get_or_make`](Self::get_or_make), for a key that is its own hash, such as an address.
    #[inline]
    pub(crate) fn get_or_make_hashed(
        &self,
        hash: u64,
        is_it: impl Fn(&K) -> bool,
        make: impl FnOnce() -> (K, V),
    ) -> Cow<'_, V> {
        match self.entries.find(hash, |(known, _)| is_it(known)) {
            Some((_, value)) => Cow::Borrowed(value),
            None => self.remember(hash, is_it, make()),
        }
    }

    #[cold]
    fn remember(&self, hash: u64, is_it: impl Fn(&K) -> bool, made: (K, V)) -> Cow<'_, V> {
        if self.count.fetch_add(1, Ordering::Relaxed) >= MAX {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return Cow::Owned(made.1);
        }
        let ((_, value), is_new) = self.entries.insert(hash, made, |(known, _)| is_it(known));
        if !is_new {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        Cow::Borrowed(value)
    }
}

impl<K, V, const MAX: usize> Default for ScopeCache<K, V, MAX> {
    fn default() -> Self {
        Self { entries: AppendMap::default(), count: AtomicUsize::new(0), hasher: RandomState::new() }
    }
}

/// A hash trie with four branches per node: two bits of the hash select the branch at each level.
#[derive(Debug)]
pub(crate) struct AppendMap<T>(Slot<T>);

type Slot<T> = OnceLock<Box<Node<T>>>;

#[derive(Debug)]
struct Node<T> {
    hash: u64,
    item: T,
    branches: [Slot<T>; 4],
}

impl<T> Default for AppendMap<T> {
    fn default() -> Self {
        Self(Slot::new())
    }
}

impl<T> AppendMap<T> {
    /// Returns the item with this hash for which `is_it` holds.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is_it: impl Fn(&T) -> bool) -> Option<&T> {
        self.search(hash, is_it).ok()
    }

    /// Inserts an item unless the map contains one for which `is_it` holds. Returns the item in the map, and whether it
    /// is the new one.
    pub(crate) fn insert(&self, hash: u64, item: T, is_it: impl Fn(&T) -> bool) -> (&T, bool) {
        // Allocated before the lock is taken, and freed after its release: the program's allocator may emit a log
        // record, which calls this function.
        let mut fresh = Some(Box::new(Node { hash, item, branches: [const { Slot::new() }; 4] }));
        let mut take = || fresh.take().unwrap_or_else(|| unreachable!("it is taken once"));
        // The fork lock serializes insertions, and keeps a child from inheriting a half-initialized slot.
        let item = process::with_fork_lock(|| match self.search(hash, is_it) {
            Ok(there) => there,
            Err(free) => &free.get_or_init(&mut take).item,
        });
        (item, fresh.is_none())
    }

    /// Returns the item for which `is_it` holds, or the free slot for such an item.
    #[inline]
    fn search(&self, hash: u64, is_it: impl Fn(&T) -> bool) -> Result<&T, &Slot<T>> {
        let mut slot = &self.0;
        // Fibonacci hashing: the multiplication mixes all bits into the upper ones, which select the first branches.
        let mut way = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        while let Some(node) = slot.get() {
            if node.hash == hash && is_it(&node.item) {
                return Ok(&node.item);
            }
            slot = &node.branches[(way >> 62) as usize];
            way <<= 2;
        }
        Err(slot)
    }
}

#[cfg(test)]
mod tests;
