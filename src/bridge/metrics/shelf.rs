//! Where things are found by their hash: it only grows, and who looks something up needs no lock.

use std::sync::OnceLock;

use crate::process;

/// A tree with four branches at each place: the hash says which way to go, two bits at a step.
#[derive(Debug)]
pub(super) struct Shelf<T>(Slot<T>);

type Slot<T> = OnceLock<Box<Place<T>>>;

#[derive(Debug)]
struct Place<T> {
    hash: u64,
    item: T,
    branches: [Slot<T>; 4],
}

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Self(Slot::new())
    }
}

impl<T> Shelf<T> {
    /// The item with this hash that is the right one.
    #[inline]
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(&T) -> bool) -> Option<&T> {
        self.search(hash, is_it).ok()
    }

    /// Puts an item down, unless the right one is there already: gives the one that is there now.
    pub(super) fn put(&self, hash: u64, item: T, is_it: impl Fn(&T) -> bool) -> &T {
        // one at a time; and a child born meanwhile would find a slot that is being filled for ever
        process::with_fork_lock(|| match self.search(hash, is_it) {
            Ok(there) => there,
            Err(free) => {
                let place = Place { hash, item, branches: [const { Slot::new() }; 4] };
                &free.get_or_init(|| Box::new(place)).item
            }
        })
    }

    /// The right item, or the free slot where it belongs.
    #[inline]
    fn search(&self, hash: u64, is_it: impl Fn(&T) -> bool) -> Result<&T, &Slot<T>> {
        let mut slot = &self.0;
        // the first steps go by the upper bits, to which all others are spread
        let mut way = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        while let Some(place) = slot.get() {
            if place.hash == hash && is_it(&place.item) {
                return Ok(&place.item);
            }
            slot = &place.branches[(way >> 62) as usize];
            way <<= 2;
        }
        Err(slot)
    }
}

#[cfg(test)]
mod tests;
