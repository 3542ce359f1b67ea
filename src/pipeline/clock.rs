//! The clock that an exporter waits by: the system's, or in tests the time that a simulation lets pass.

use std::time::Instant;

/// This moment.
#[inline]
pub(crate) fn now() -> Instant {
    #[cfg(test)]
    if let Some(now) = simulated::now() {
        return now;
    }
    Instant::now()
}

/// Comes before every wait of a thread that a simulation can play: there, the time passes until then, or until the wait `is_over`,
/// and so the wait that follows ends at once. With the system's clock it does nothing.
#[inline]
pub(crate) fn before_wait(until: Option<Instant>, is_over: impl Fn() -> bool) {
    #[cfg(test)]
    simulated::pass(until, &is_over);
    #[cfg(not(test))]
    let _ = (until, is_over);
}

/// Time that passes when a simulation lets it, on the thread that simulates.
#[cfg(test)]
pub(crate) mod simulated {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;
    use std::time::Instant;

    thread_local! {
        static NOW: Cell<Option<Instant>> = const { Cell::new(None) };
        static WORLD: RefCell<Option<Rc<dyn World>>> = const { RefCell::new(None) };
    }

    /// What goes on while something waits.
    pub(crate) trait World {
        /// Lets time pass until then, or until the wait `is_over`; if neither ever comes, it panics.
        fn pass(&self, until: Option<Instant>, is_over: &dyn Fn() -> bool);
    }

    /// Simulated time on this thread, for as long as it lives.
    pub(crate) struct Simulated;

    impl Simulated {
        pub(crate) fn start(world: Rc<dyn World>, now: Instant) -> Self {
            WORLD.set(Some(world));
            NOW.set(Some(now));
            Self
        }
    }

    impl Drop for Simulated {
        fn drop(&mut self) {
            NOW.set(None);
            WORLD.set(None);
        }
    }

    /// Sets the time, which must be simulated.
    pub(crate) fn set(now: Instant) {
        NOW.set(Some(now));
    }

    /// The simulated time; `None` if no simulation plays this thread.
    pub(crate) fn now() -> Option<Instant> {
        NOW.get()
    }

    pub(super) fn pass(until: Option<Instant>, is_over: &dyn Fn() -> bool) {
        let world = WORLD.with_borrow(Option::clone);
        world.into_iter().for_each(|world| world.pass(until, is_over));
    }
}
