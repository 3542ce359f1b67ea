//! A bound of threads that all connections share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many more there may be.
#[derive(Debug)]
pub(super) struct Permits {
    left: AtomicUsize,
}

impl Permits {
    pub(super) fn new(count: usize) -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(count) })
    }

    /// A permit, unless all are given.
    pub(super) fn take(self: &Arc<Self>) -> Option<Permit> {
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        taken.is_ok().then(|| Permit(self.clone()))
    }
}

/// One of the permits. It goes back when it is dropped.
#[derive(Debug)]
pub(super) struct Permit(Arc<Permits>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.left.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permit_comes_back_when_it_is_dropped() {
        let permits = Permits::new(2);
        let (first, second) = (permits.take(), permits.take());
        assert!(first.is_some() && second.is_some() && permits.take().is_none());
        drop(first);
        assert!(permits.take().is_some());
    }
}
