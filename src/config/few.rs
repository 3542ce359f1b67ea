//! A map of a few entries.

/// Looks at one entry after the other: for a handful that is fast enough, and it costs a program far less code than a
/// tree or a table of hashes.
#[derive(Debug, Clone)]
pub(super) struct Few<K, V>(Vec<(K, V)>);

impl<K, V> Few<K, V> {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn get<Q: ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: PartialEq<Q>,
    {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    /// Of a key that comes twice the last value counts.
    pub(super) fn insert(&mut self, key: K, value: V)
    where
        K: PartialEq,
    {
        match self.0.iter_mut().find(|(known, _)| *known == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key, value)),
        }
    }

    /// In the order in which they came.
    pub(super) fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        self.0.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

impl<K, V> Default for Few<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_key_that_comes_twice_the_last_value_counts_in_the_place_of_the_first() {
        let mut few = Few::new();
        for (key, value) in [("a", 1), ("b", 2), ("a", 3)] {
            few.insert(key, value);
        }
        assert_eq!((few.get(&"a"), few.get(&"b"), few.get(&"c")), (Some(&3), Some(&2), None));
        assert_eq!(few.iter().collect::<Vec<_>>(), [&("a", 3), &("b", 2)]);
    }
}
