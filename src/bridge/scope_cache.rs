//! What a bridge makes of a scope, such as a logger, made once for each key and found without a lock.

use std::borrow::Cow;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::append_map::AppendMap;

/// Keys beyond this many are not remembered: programs that have more make their names up at run time.
pub(super) const MOST_SCOPES: usize = 1024;

/// A bounded cache that forgets nothing.
#[derive(Debug)]
pub(super) struct ScopeCache<K, V, const MOST: usize = MOST_SCOPES> {
    entries: AppendMap<(K, V)>,
    count: AtomicUsize,
    hasher: RandomState,
}

impl<K, V: Clone, const MOST: usize> ScopeCache<K, V, MOST> {
    /// The value of `key`; `is_it` distinguishes the key from others with its hash. A key that is not known gets what `make`
    /// returns, which is remembered if there is room.
    #[inline]
    pub(super) fn get_or_make(
        &self,
        key: impl Hash,
        is_it: impl Fn(&K) -> bool,
        make: impl FnOnce() -> (K, V),
    ) -> Cow<'_, V> {
        self.get_or_make_hashed(self.hasher.hash_one(key), is_it, make)
    }

    /// The same for a key that is its own hash, such as an address.
    #[inline]
    pub(super) fn get_or_make_hashed(
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
        if self.count.fetch_add(1, Ordering::Relaxed) >= MOST {
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

impl<K, V, const MOST: usize> Default for ScopeCache<K, V, MOST> {
    fn default() -> Self {
        Self { entries: AppendMap::default(), count: AtomicUsize::new(0), hasher: RandomState::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length(cache: &ScopeCache<String, usize>, key: &str) -> (usize, bool) {
        let length =
            cache.get_or_make(key, |known| known == key, || (key.to_owned(), key.len() + known_keys(cache)));
        (*length, matches!(length, Cow::Borrowed(_)))
    }

    fn known_keys(cache: &ScopeCache<String, usize>) -> usize {
        cache.count.load(Ordering::Relaxed)
    }

    #[test]
    fn a_value_is_made_once_for_each_key() {
        let cache = ScopeCache::default();
        assert_eq!((length(&cache, "cart"), length(&cache, "cart")), ((4, true), (4, true)));
        assert_eq!(length(&cache, "till"), (5, true));
        assert_eq!(known_keys(&cache), 2);
    }

    #[test]
    fn a_key_that_finds_no_room_has_a_value_of_its_own_nevertheless() {
        let cache = ScopeCache::default();
        for number in 0..MOST_SCOPES {
            assert!(length(&cache, &format!("module {number}")).1);
        }
        assert_eq!(length(&cache, "cart"), (4 + MOST_SCOPES, false));
        assert_eq!(length(&cache, "module 0"), (8, true));
        assert_eq!(known_keys(&cache), MOST_SCOPES);
    }
}
