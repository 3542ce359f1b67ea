//! Storage that a thread keeps for its next records.

use std::cell::{Cell, RefCell};
use std::thread::LocalKey;

/// What is larger than this is not worth keeping.
const MOST_BYTES: usize = 16 << 10;

/// Up to so many pieces of storage and one, used before. Boxed, as records are moved about while they are open.
pub(crate) struct Pool<T, const MOST: usize> {
    /// The one that was used last: mostly the only one that is asked for.
    last: Cell<Option<Box<T>>>,
    others: RefCell<Vec<Box<T>>>,
}

impl<T, const MOST: usize> Pool<T, MOST> {
    pub(crate) const fn new() -> Self {
        Self { last: Cell::new(None), others: RefCell::new(Vec::new()) }
    }

    /// `None` if there is none, or the thread is at its end.
    #[inline]
    pub(crate) fn take(pool: &'static LocalKey<Self>) -> Option<Box<T>> {
        pool.try_with(|pool| pool.last.take().or_else(|| pool.take_other())).ok().flatten()
    }

    #[inline(never)]
    fn take_other(&self) -> Option<Box<T>> {
        self.others.try_borrow_mut().ok()?.pop()
    }

    /// Keeps storage of so many bytes, if there is room for it.
    #[inline]
    pub(crate) fn keep(pool: &'static LocalKey<Self>, storage: Box<T>, bytes: usize) {
        if bytes > MOST_BYTES {
            return;
        }
        let _ = pool.try_with(|pool| {
            if let Some(other) = pool.last.replace(Some(storage)) {
                pool.keep_other(other);
            }
        });
    }

    #[inline(never)]
    fn keep_other(&self, storage: Box<T>) {
        if let Ok(mut others) = self.others.try_borrow_mut() {
            if others.len() < MOST {
                others.push(storage);
            }
        }
    }
}
