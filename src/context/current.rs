//! What a thread knows: the spans it is in, their clock, and whether it must keep quiet.

use std::cell::{Cell, RefCell};
use std::num::NonZeroU64;
use std::time::SystemTime;

use super::clock::{Clock, unix_nanos};
use super::{SpanContext, suppress};
use crate::record::SpanRef;

thread_local! {
    static STACK: RefCell<Stack> = const { RefCell::new(Stack { frames: Vec::new(), entered: 0 }) };
    /// The top of the stack, if that is an unsampled span: at hand for all the spans inside it.
    static UNSAMPLED: Cell<Option<Unsampled>> = const { Cell::new(None) };
    static SILENCED: Cell<bool> = const { Cell::new(false) };
}

/// The spans that a thread is in, innermost last.
pub(crate) struct Stack {
    frames: Vec<Frame>,
    /// How many frames there have been.
    entered: u64,
}

/// One of them.
pub(crate) struct Frame {
    id: NonZeroU64,
    pub(crate) context: SpanContext,
    /// Of the nearest recorded span, itself included; a trace that nobody records needs none.
    pub(crate) clock: Option<Clock>,
    /// The span itself and those that share its context; if it is at hand as [`UNSAMPLED`], that one counts.
    spans: u64,
}

#[derive(Clone, Copy)]
struct Unsampled {
    frame: NonZeroU64,
    spans: u64,
}

/// The innermost span of this thread, and its clock.
#[inline]
pub(crate) fn current() -> Option<(SpanContext, Option<Clock>)> {
    STACK
        .try_with(|stack| {
            let stack = stack.try_borrow().ok()?;
            let frame = stack.frames.last()?;
            Some((frame.context.clone(), frame.clock))
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
        let now = frame.clock.map_or_else(|| unix_nanos(SystemTime::now()), |clock| clock.go_on().1);
        Some((frame.context.span_ref(), now))
    });
    match current.ok().flatten() {
        Some((span, now)) => (Some(span), now),
        None => (None, unix_nanos(SystemTime::now())),
    }
}

/// Proof that a span is on this thread's stack; give it back to [`Entered::leave`].
#[derive(Debug)]
pub(crate) struct Entered(NonZeroU64);

/// Makes a span the thread's current one.
#[inline]
pub(crate) fn enter(context: &SpanContext, clock: Option<Clock>) -> Option<Entered> {
    with_stack(|stack| stack.map(|stack| stack.push(context.clone(), clock)))
}

/// Lets `work` see and change what the thread is in; that is `None` if the thread is at its end, or does so already:
/// the program's allocator, which makes room for records, may make some of its own.
#[inline]
pub(crate) fn with_stack<T>(work: impl Fn(Option<&mut Stack>) -> T) -> T {
    let done = STACK.try_with(|stack| Some(work(Some(&mut *stack.try_borrow_mut().ok()?))));
    match done {
        Ok(Some(done)) => done,
        _ => work(None),
    }
}

/// Whether the thread's current span is unsampled.
#[inline]
pub(crate) fn is_unsampled() -> bool {
    UNSAMPLED.get().is_some()
}

/// Makes another span one with the thread's current one, if that is unsampled: nobody will see either of them, so
/// they may share a context. It stays current until all of them have left.
#[inline]
pub(crate) fn enter_unsampled() -> Option<Entered> {
    let Unsampled { frame, spans } = UNSAMPLED.get()?;
    UNSAMPLED.set(Some(Unsampled { frame, spans: spans + 1 }));
    Some(Entered(frame))
}

impl Entered {
    /// Ends the span's part in what it shares, if there are others left to share it; otherwise it must leave the stack.
    #[inline]
    pub(crate) fn leave_to_others(&self) -> bool {
        match UNSAMPLED.get() {
            Some(Unsampled { frame, spans }) if frame == self.0 && spans > 1 => {
                UNSAMPLED.set(Some(Unsampled { frame, spans: spans - 1 }));
                true
            }
            _ => false,
        }
    }

    /// Takes the span off the stack, wherever it stands: guards may end in any order.
    #[inline]
    pub(crate) fn leave(self) {
        let _ = STACK.try_with(|stack| {
            if let Ok(mut stack) = stack.try_borrow_mut() {
                stack.put_unsampled_back();
                stack.leave(self.0);
            }
        });
    }

    /// What the span shares with the others in its place; `None` only while the thread ends.
    pub(crate) fn context(&self) -> Option<SpanContext> {
        STACK
            .try_with(|stack| {
                let stack = stack.try_borrow().ok()?;
                stack.frames.iter().rfind(|frame| frame.id == self.0).map(|frame| frame.context.clone())
            })
            .ok()
            .flatten()
    }
}

impl Stack {
    /// The innermost span.
    #[inline]
    pub(crate) fn top(&self) -> Option<&Frame> {
        self.frames.last()
    }

    /// Makes a span the innermost one.
    #[inline(always)]
    pub(crate) fn push(&mut self, context: SpanContext, clock: Option<Clock>) -> Entered {
        // before the frame is put together, which is then built where it stays
        if self.frames.len() == self.frames.capacity() {
            self.grow();
        }
        self.put_unsampled_back();
        self.entered += 1;
        let id = NonZeroU64::new(self.entered).unwrap_or(NonZeroU64::MIN);
        if !context.is_sampled() {
            UNSAMPLED.set(Some(Unsampled { frame: id, spans: 1 }));
        }
        self.frames.push(Frame { id, context, clock, spans: 1 });
        Entered(id)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.frames.reserve(self.frames.len().max(16));
    }

    #[inline]
    fn leave(&mut self, id: NonZeroU64) {
        match self.frames.last() {
            // not pop(), which would move it out first
            Some(frame) if frame.id == id && frame.spans == 1 => self.frames.truncate(self.frames.len() - 1),
            _ => self.leave_below(id),
        }
        match self.frames.last() {
            Some(frame) if !frame.context.is_sampled() => {
                UNSAMPLED.set(Some(Unsampled { frame: frame.id, spans: frame.spans }));
            }
            _ => {}
        }
    }

    #[cold]
    fn leave_below(&mut self, id: NonZeroU64) {
        self.frames.retain_mut(|frame| {
            frame.spans -= u64::from(frame.id == id);
            frame.spans > 0
        });
    }

    /// Before the stack changes.
    #[inline]
    fn put_unsampled_back(&mut self) {
        if let Some(unsampled) = UNSAMPLED.get() {
            UNSAMPLED.set(None);
            if let Some(frame) = self.frames.last_mut() {
                frame.spans = unsampled.spans;
            }
        }
    }
}

/// Keeps this thread's own doings out of the telemetry from now on: what the worker and the libraries
/// it calls would record about sending would be sent in turn, for ever.
pub(crate) fn silence() {
    SILENCED.set(true);
    suppress::for_ever();
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
    let _suppressed = suppress::for_now();
    work()
}

#[inline]
pub(crate) fn silenced() -> bool {
    SILENCED.get()
}
