//! What a thread knows: the spans it is in, their clock, and whether it must keep quiet.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant, SystemTime};

use super::SpanContext;
use crate::record::SpanRef;

/// A trace keeps its first span's clock so long; then the wall clock is asked again, as it may have been set.
const CLOCK_AGE: Duration = Duration::from_secs(60);

thread_local! {
    static STACK: RefCell<Stack> = const { RefCell::new(Stack { frames: Vec::new(), next_id: 0 }) };
    static SILENCED: Cell<bool> = const { Cell::new(false) };
}

struct Stack {
    frames: Vec<Frame>,
    next_id: u64,
}

struct Frame {
    id: u64,
    context: SpanContext,
    clock: Clock,
}

impl Frame {
    /// Its clock, or a new one if that is too old, and the time it shows now.
    #[inline]
    fn clock_and_time(&self) -> (Clock, u64) {
        let elapsed = self.clock.moment.elapsed();
        match elapsed < CLOCK_AGE {
            true => (self.clock, self.clock.after(elapsed)),
            false => Clock::start(),
        }
    }
}

/// A wall-clock time and the monotonic moment it was read: all times of a trace are counted from it,
/// so that they agree with each other and cost one reading each.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    wall: u64,
    moment: Instant,
}

impl Clock {
    /// A clock, and the time it shows now.
    pub(crate) fn start() -> (Self, u64) {
        let clock = Self { wall: unix_nanos(SystemTime::now()), moment: Instant::now() };
        (clock, clock.wall)
    }

    /// This moment in nanoseconds since 1970.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.after(self.moment.elapsed())
    }

    #[inline]
    fn after(&self, elapsed: Duration) -> u64 {
        self.wall + (elapsed.as_secs() * 1_000_000_000 + u64::from(elapsed.subsec_nanos()))
    }
}

/// Nanoseconds since 1970; before it: 0.
pub(crate) fn unix_nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The innermost span of this thread, and its clock with the time it shows now.
#[inline]
pub(crate) fn current() -> Option<(SpanContext, Clock, u64)> {
    STACK
        .try_with(|stack| {
            let stack = stack.try_borrow().ok()?;
            let frame = stack.frames.last()?;
            let (clock, now) = frame.clock_and_time();
            Some((frame.context.clone(), clock, now))
        })
        .ok()
        .flatten()
}

/// The innermost span of this thread, if there is one, and the time: of its clock, so that it agrees with the span's.
#[inline]
pub(crate) fn span_and_time() -> (Option<SpanRef>, u64) {
    let current = STACK.try_with(|stack| {
        let stack = stack.try_borrow().ok()?;
        let frame = stack.frames.last()?;
        Some((frame.context.span_ref(), frame.clock_and_time().1))
    });
    match current.ok().flatten() {
        Some((span, now)) => (Some(span), now),
        None => (None, unix_nanos(SystemTime::now())),
    }
}

/// Proof that a span is on this thread's stack; give it back to [`Entered::leave`].
#[derive(Debug)]
pub(crate) struct Entered(u64);

/// Makes a span the thread's current one.
#[inline]
pub(crate) fn enter(context: &SpanContext, clock: Clock) -> Option<Entered> {
    STACK
        .try_with(|stack| {
            let mut stack = stack.try_borrow_mut().ok()?;
            let id = stack.next_id;
            stack.next_id += 1;
            stack.frames.push(Frame { id, context: context.clone(), clock });
            Some(Entered(id))
        })
        .ok()
        .flatten()
}

impl Entered {
    /// Takes the span off the stack, wherever it stands: guards may end in any order.
    #[inline]
    pub(crate) fn leave(self) {
        let _ = STACK.try_with(|stack| {
            if let Ok(mut stack) = stack.try_borrow_mut() {
                match stack.frames.last() {
                    Some(frame) if frame.id == self.0 => drop(stack.frames.pop()),
                    _ => stack.frames.retain(|frame| frame.id != self.0),
                }
            }
        });
    }
}

/// Keeps this thread's own doings out of the telemetry from now on: what the worker and the libraries
/// it calls would record about sending would be sent in turn, for ever.
pub(crate) fn silence() {
    SILENCED.set(true);
}

/// As [`silence`], for as long as `work` takes: for what a caller's own thread does to an exporter.
pub(crate) fn quietly<T>(work: impl FnOnce() -> T) -> T {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            SILENCED.set(self.0);
        }
    }
    let _before = Before(SILENCED.replace(true));
    work()
}

#[inline]
pub(crate) fn silenced() -> bool {
    SILENCED.get()
}
