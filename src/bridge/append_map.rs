//! A map that only grows and is read without a lock, also in a forked child: a hash trie.

use std::sync::OnceLock;

use crate::process;

/// A tree with four branches at each node: the hash says which one to follow, two bits at a step.
#[derive(Debug)]
pub(super) struct AppendMap<T>(Slot<T>);

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
    /// The item with this hash for which `is_it` holds.
    #[inline]
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(&T) -> bool) -> Option<&T> {
        self.search(hash, is_it).ok()
    }

    /// Inserts an item, unless one for which `is_it` holds is there already; returns the one that is there now,
    /// and whether it is this one.
    pub(super) fn insert(&self, hash: u64, item: T, is_it: impl Fn(&T) -> bool) -> (&T, bool) {
        // Allocated before the lock is taken and freed after it: the program's allocator may log, and so come here.
        let mut fresh = Some(Box::new(Node { hash, item, branches: [const { Slot::new() }; 4] }));
        let mut take = || fresh.take().unwrap_or_else(|| unreachable!("it is taken once"));
        // The fork lock makes this the only insertion, and no child is born with a slot that is half filled.
        let item = process::with_fork_lock(|| match self.search(hash, is_it) {
            Ok(there) => there,
            Err(free) => &free.get_or_init(&mut take).item,
        });
        (item, fresh.is_none())
    }

    /// The item, or the free slot where it belongs.
    #[inline]
    fn search(&self, hash: u64, is_it: impl Fn(&T) -> bool) -> Result<&T, &Slot<T>> {
        let mut slot = &self.0;
        // The first steps go by the upper bits, to which the multiplication spreads all others.
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
