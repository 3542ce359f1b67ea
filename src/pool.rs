//! Storage that a thread keeps for its next records.

use std::cell::RefCell;
use std::thread::LocalKey;

/// What is larger than this is not worth keeping.
const MOST_BYTES: usize = 16 << 10;

/// Up to so many pieces of storage, used before. Boxed, as records are moved about while they are open.
pub(crate) struct Pool<T, const MOST: usize>(RefCell<Vec<Box<T>>>);

impl<T, const MOST: usize> Pool<T, MOST> {
    pub(crate) const fn new() -> Self {
        Self(RefCell::new(Vec::new()))
    }

    /// `None` if there is none, or the thread is at its end.
    #[inline]
    pub(crate) fn take(pool: &'static LocalKey<Self>) -> Option<Box<T>> {
        pool.try_with(|pool| pool.0.try_borrow_mut().ok()?.pop()).ok().flatten()
    }

    /// Keeps storage of so many bytes, if there is room for it.
    #[inline]
    pub(crate) fn keep(pool: &'static LocalKey<Self>, storage: Box<T>, bytes: usize) {
        if bytes > MOST_BYTES {
            return;
        }
        let _ = pool.try_with(|pool| {
            if let Ok(mut kept) = pool.0.try_borrow_mut() {
                if kept.len() < MOST {
                    kept.push(storage);
                }
            }
        });
    }
}
