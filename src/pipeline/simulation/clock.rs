//! The time of a simulation, for the thread on which the simulation runs.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

thread_local! {
    static NOW: Cell<Option<Instant>> = const { Cell::new(None) };
    static WORLD: RefCell<Option<Rc<dyn World>>> = const { RefCell::new(None) };
}

/// The simulated world. It runs the other simulated threads and the network while a thread waits.
pub(crate) trait World {
    /// Lets time pass until `until`, or until `is_over` returns true. Panics if neither can ever happen.
    fn pass(&self, until: Option<Instant>, is_over: &dyn Fn() -> bool);
}

/// Guard: time on this thread is simulated until the guard is dropped.
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

/// Sets the simulated time.
pub(crate) fn set(now: Instant) {
    NOW.set(Some(now));
}

/// Returns the simulated time; `None` outside of a simulation.
pub(crate) fn now() -> Option<Instant> {
    NOW.get()
}

pub(super) fn pass(until: Option<Instant>, is_over: &dyn Fn() -> bool) {
    let world = WORLD.with_borrow(Option::clone);
    world.into_iter().for_each(|world| world.pass(until, is_over));
}
