//! Limits that all connections of a receiver share: the memory of their requests, and the threads that answer.
//!
//! Memory for a request is reserved before it is allocated, and stays reserved until the request is answered and its
//! batch is dropped. Therefore no number of clients can make the receiver exceed the limit. Even an empty record counts
//! with the size of its struct, so the budget limits the number of records, too.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use super::refusal::Refusal;

/// A limited number of bytes or threads, which is reserved in shares.
#[derive(Debug)]
pub(super) struct Budget {
    limit: usize,
    used: AtomicUsize,
}

impl Budget {
    pub(super) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicUsize::new(0) })
    }

    /// Returns an empty share.
    pub(super) fn share(self: &Arc<Self>) -> Share {
        Share { budget: self.clone(), bytes: 0 }
    }

    /// Returns a share of `amount`, or `None` if less is left.
    pub(super) fn share_of(self: &Arc<Self>, amount: usize) -> Option<Share> {
        let mut share = self.share();
        share.grow(amount).ok().map(|()| share)
    }
}

/// A reserved part of a budget. Dropping the share releases the reservation.
#[derive(Debug)]
pub(super) struct Share {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Share {
    /// Reserves `bytes` more.
    ///
    /// # Errors
    /// Returns a final refusal (413) if the request alone exceeds the budget, and a retryable one (503) if other
    /// requests leave too little for it.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Refusal> {
        let limit = self.budget.limit;
        if self.bytes.saturating_add(bytes) > limit {
            let what =
                format!("request body too large: it needs more than {limit} bytes of memory when decoded");
            return Err(Refusal::new(413, what));
        }
        let reserve = |used: usize| used.checked_add(bytes).filter(|used| *used <= limit);
        if self.budget.used.fetch_update(Relaxed, Relaxed, reserve).is_err() {
            let what = "the requests of all connections exceed the memory limit; try again";
            return Err(Refusal::new(503, what));
        }
        self.bytes += bytes;
        Ok(())
    }

    /// Makes room for `more` bytes in `body`, whose capacity this share has reserved. If the capacity must grow, it
    /// doubles, up to `most`. If the result is still too small, the capacity becomes exactly the needed size.
    ///
    /// # Errors
    /// Returns the errors of [`grow`](Self::grow). The body is then unchanged.
    pub(super) fn make_room(&mut self, body: &mut Vec<u8>, more: usize, most: usize) -> Result<(), Refusal> {
        let (capacity, needed) = (body.capacity(), body.len().saturating_add(more));
        if needed > capacity {
            let larger = needed.max(most.min(capacity.saturating_mul(2)));
            self.grow(larger - capacity)?;
            body.reserve_exact(larger - body.len());
        }
        Ok(())
    }

    /// Releases all but `bytes`.
    pub(super) fn shrink_to(&mut self, bytes: usize) {
        let surplus = self.bytes.saturating_sub(bytes);
        self.budget.used.fetch_sub(surplus, Relaxed);
        self.bytes -= surplus;
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn status(result: Result<(), Refusal>) -> u16 {
        result.unwrap_err().status
    }

    #[test]
    fn what_one_request_reserves_others_cannot_have() {
        let budget = Budget::new(100);
        let (mut one, mut other) = (budget.share(), budget.share());
        one.grow(60).unwrap();
        assert_eq!(status(other.grow(41)), 503);
        other.grow(40).unwrap();
        assert_eq!(status(one.grow(1)), 503);
        one.shrink_to(10);
        other.grow(50).unwrap();
        drop(one);
        other.grow(10).unwrap();
        assert_eq!(other.bytes(), 100);
    }

    #[test]
    fn what_no_wait_can_make_room_for_is_refused_for_good() {
        let budget = Budget::new(100);
        let (mut one, mut other) = (budget.share(), budget.share());
        other.grow(90).unwrap();
        assert_eq!(status(one.grow(101)), 413);
        one.grow(10).unwrap();
        assert_eq!(status(one.grow(91)), 413);
        assert_eq!(status(one.grow(usize::MAX)), 413);
    }

    #[test]
    fn a_refused_request_keeps_what_it_had_until_it_is_dropped() {
        let budget = Budget::new(100);
        let mut one = budget.share();
        one.grow(70).unwrap();
        one.grow(40).unwrap_err();
        assert_eq!(one.bytes(), 70);
        drop(one);
        assert_eq!(budget.used.load(Relaxed), 0);
    }

    #[test]
    fn a_share_has_reserved_the_capacity_of_the_buffers_that_it_makes_room_in() {
        let mut share = Budget::new(100).share();
        let mut buffer = Vec::new();
        for (more, capacity) in [(10, 10), (1, 20), (9, 20), (1, 40), (30, 55), (5, 56)] {
            share.make_room(&mut buffer, more, 55).unwrap();
            buffer.resize(buffer.len() + more, 0);
            assert_eq!((buffer.capacity(), share.bytes()), (capacity, capacity), "{} bytes", buffer.len());
        }
        assert_eq!(status(share.make_room(&mut buffer, 45, 1000)), 413);
        assert_eq!((buffer.capacity(), share.bytes()), (56, 56));
    }

    #[test]
    fn a_share_comes_back_when_it_is_dropped() {
        let budget = Budget::new(2);
        let (first, second) = (budget.share_of(1), budget.share_of(1));
        assert!(first.is_some() && second.is_some() && budget.share_of(1).is_none());
        drop(first);
        assert!(budget.share_of(1).is_some());
    }
}
