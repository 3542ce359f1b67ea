//! The thread-local stack of entered spans and their clocks, with the current span on top.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::num::NonZeroU64;

use super::baggage::{self, Baggage};
use super::clock::{Clock, unix_now};
use super::{SAMPLED, SpanContext};
use crate::record::{SpanId, SpanRef, TraceId};

thread_local! {
    static STACK: RefCell<Stack> = const { RefCell::new(Stack::new()) };
    /// The bits of [`offering`]. Not part of the stack, because every measurement reads them and would pay for the
    /// `RefCell`.
    static OFFERING: Cell<u8> = const { Cell::new(ANYWHERE) };
}

/// Bit of [`offering`] that is set unless an exemplar is being stored.
pub(crate) const ANYWHERE: u8 = 1;
/// Bit of [`offering`] that is set if [`ANYWHERE`] is set and the current span is sampled and recorded by this process.
pub(crate) const IN_SAMPLED_SPAN: u8 = 2;

/// Returns the bits that decide whether a measurement of this thread may become an exemplar.
#[inline(always)]
pub(crate) fn offering() -> u8 {
    OFFERING.get()
}

/// Runs `work`, which stores an exemplar. Measurements made meanwhile, for example by the program's allocator, do not
/// become exemplars, so that storing one cannot recurse.
pub(crate) fn without_offering(work: impl FnOnce()) {
    let before = OFFERING.replace(0);
    work();
    OFFERING.set(before);
}

/// The entered spans of a thread, innermost last.
pub(crate) struct Stack {
    /// The first `depth` frames are in use. New spans overwrite the frames above, which is cheaper than pushing and
    /// popping frames.
    frames: Vec<Frame>,
    depth: usize,
    /// Id of the frame that was pushed last.
    entered: NonZeroU64,
    /// The entered spans of bridges such as `tracing`, innermost last. Native spans never touch this list.
    #[cfg(feature = "tracing")]
    bridged: Vec<Bridged>,
}

/// Identifies an entered span of a bridge by the bridge's own ids.
#[cfg(feature = "tracing")]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct BridgedSpan {
    pub(crate) layer: u64,
    pub(crate) id: u64,
}

#[cfg(feature = "tracing")]
struct Bridged {
    span: BridgedSpan,
    is_recording: bool,
    /// Id of the frame; `None` if the span did not become current, for example because there is no exporter.
    frame: Option<NonZeroU64>,
}

/// An entered span.
pub(crate) struct Frame {
    /// Id of the entry, with the bit [`CHANGES_OFFERING`] if leaving the entry may change [`offering`].
    id: NonZeroU64,
    pub(crate) context: SpanContext,
    /// Clock of this span or, if it is not recorded, of the nearest recorded span around it; `None` if unknown.
    pub(crate) clock: Option<Clock>,
}

/// Bit in the id of a frame that means: [`offering`] may change when the frame is left.
///
/// The id in [`Entered`] never has the bit. So if a frame has the bit, the ids differ, and `leave` takes its slow path,
/// which updates [`OFFERING`]. Its fast path, for a child sampled like its parent, does not touch [`OFFERING`].
const CHANGES_OFFERING: u64 = 2;

/// Entry of the stack that means "no span", even if there are spans below. The entry is sampled and has no clock. The
/// fast paths of new spans require a clock or an unsampled parent, so only the slow paths check for this entry.
const NO_SPAN: SpanContext = SpanContext {
    trace_id: TraceId([0; 16]),
    span_id: SpanId([0; 8]),
    flags: SAMPLED,
    is_remote: false,
    b3: None,
    state: None,
};

impl Frame {
    /// Returns the context; `None` for the entry that means "no span".
    pub(crate) fn span(&self) -> Option<&SpanContext> {
        self.context.trace_id.is_valid().then_some(&self.context)
    }

    fn is(&self, id: NonZeroU64) -> bool {
        self.id | CHANGES_OFFERING == id | CHANGES_OFFERING
    }
}

/// Returns the bits of [`offering`] for a thread whose current span has this context and clock.
#[inline(always)]
fn offering_of(context: &SpanContext, clock: Option<&Clock>) -> u8 {
    if clock.is_some() && context.is_sampled() { ANYWHERE | IN_SAMPLED_SPAN } else { ANYWHERE }
}

/// Reads the thread's stack, unless the thread is exiting or the stack is in use.
#[inline]
fn read_stack<T>(read: impl FnOnce(&Stack) -> Option<T>) -> Option<T> {
    STACK.try_with(|stack| read(&*stack.try_borrow().ok()?)).ok().flatten()
}

/// Returns the current span of this thread, and its clock.
#[inline]
pub(super) fn current() -> Option<(SpanContext, Option<Clock>)> {
    read_stack(|stack| {
        let frame = stack.top()?;
        Some((frame.span()?.clone(), frame.clock))
    })
}

/// Returns this thread's current span and the time. The time is that of the span's clock or else of the wall clock.
#[inline]
pub(crate) fn span_and_time() -> (Option<SpanRef>, u64) {
    let current = read_stack(|stack| {
        let frame = stack.top()?;
        match frame.clock {
            // `NO_SPAN` never has a clock, so this frame is a span.
            Some(clock) => Some((frame.context.span_ref(), clock.advance().1)),
            None => Some((frame.span()?.span_ref(), unix_now())),
        }
    });
    match current {
        Some((span, now)) => (Some(span), now),
        None => (None, unix_now()),
    }
}

/// Returns the innermost entry of this thread that does not belong to another layer, and its clock. The entry may be
/// [`NO_SPAN`]. If the caller then enters this context, the thread has no current span.
#[cfg(feature = "tracing")]
pub(crate) fn current_without_other_layers(layer: u64) -> Option<(SpanContext, Option<Clock>)> {
    read_stack(|stack| {
        let is_other = |frame: &&Frame| {
            stack
                .bridged
                .iter()
                .any(|other| other.span.layer != layer && other.frame.is_some_and(|id| frame.is(id)))
        };
        let frame = stack.frames[..stack.depth].iter().rfind(|frame| !is_other(frame))?;
        Some((frame.context.clone(), frame.clock))
    })
}

/// Returns the id of the innermost span that this thread has entered in a layer, and whether the span is recorded.
#[cfg(feature = "tracing")]
#[inline]
pub(crate) fn innermost_of_layer(layer: u64) -> Option<(u64, bool)> {
    read_stack(|stack| {
        let innermost = stack.bridged.iter().rfind(|bridged| bridged.span.layer == layer)?;
        Some((innermost.span.id, innermost.is_recording))
    })
}

/// Notes that this thread has entered a span of a bridge. Makes `context` current, if it is given.
#[cfg(feature = "tracing")]
#[inline]
pub(crate) fn enter_bridged(
    span: BridgedSpan,
    is_recording: bool,
    context: Option<(&SpanContext, Option<Clock>)>,
) {
    change(|stack| {
        let frame = context.map(|(context, clock)| stack.push_copy(context, clock).0);
        stack.bridged.push(Bridged { span, is_recording, frame });
    });
}

/// Notes that this thread has left a span of a bridge, and removes its context. Spans may be left in any order.
#[cfg(feature = "tracing")]
#[inline]
pub(crate) fn leave_bridged(span: BridgedSpan) {
    change(|stack| match stack.bridged.last() {
        Some(last) if last.span == span => {
            let frame = last.frame;
            stack.bridged.pop();
            frame.into_iter().for_each(|frame| stack.leave(frame));
        }
        _ => stack.leave_bridged_below(span),
    });
}

/// Leaves the spans of layers for which `is_there` returns false.
#[cfg(feature = "tracing")]
pub(crate) fn leave_gone_layers(is_there: impl Fn(u64) -> bool) {
    change(|stack| {
        let mut gone = Vec::new();
        stack.bridged.retain(|bridged| {
            let is_there = is_there(bridged.span.layer);
            // Collected first: `leave` needs the whole stack, of which `retain` borrows a part.
            gone.extend(bridged.frame.filter(|_| !is_there));
            is_there
        });
        gone.into_iter().for_each(|frame| stack.leave(frame));
    });
}

/// Returns whether this thread has entered a span of a bridge and has not left it.
#[cfg(feature = "tracing")]
pub(crate) fn is_in_bridged() -> bool {
    read_stack(|stack| (!stack.bridged.is_empty()).then_some(())).is_some()
}

/// Changes the thread's stack, unless the thread is exiting or the stack is in use.
#[cfg(feature = "tracing")]
#[inline(always)]
fn change(work: impl FnOnce(&mut Stack)) {
    let _ = STACK.try_with(|stack| {
        if let Ok(mut stack) = stack.try_borrow_mut() {
            work(&mut stack);
        }
    });
}

/// Proof that a span is on this thread's stack, until [`leave`](Self::leave) removes it.
#[derive(Debug)]
pub(crate) struct Entered(NonZeroU64);

/// Makes a span the thread's current one, or returns `None` while the thread ends or its stack is in use.
#[inline]
pub(crate) fn enter(context: &SpanContext, clock: Option<Clock>) -> Option<Entered> {
    with_stack(|stack| stack.map(|stack| stack.push_copy(context, clock)))
}

/// Calls `work` with the thread's stack, or with `None` while the thread ends or the stack is in use. The stack is in
/// use while it allocates memory. If the program's allocator emits a record then, the record belongs to no span.
#[inline]
pub(crate) fn with_stack<T>(work: impl Fn(Option<&mut Stack>) -> T) -> T {
    let done = STACK.try_with(|stack| Some(work(Some(&mut *stack.try_borrow_mut().ok()?))));
    match done {
        Ok(Some(done)) => done,
        _ => work(None),
    }
}

impl Entered {
    /// Removes the span from the stack at any position, because guards may be dropped in any order.
    #[inline(always)]
    pub(crate) fn leave(self) {
        // While the thread exits, its stack may already be destroyed; then there is nothing to leave.
        with_stack(|stack| {
            if let Some(stack) = stack {
                stack.leave(self.0);
            }
        });
    }
}

impl Stack {
    const fn new() -> Self {
        Self {
            frames: Vec::new(),
            depth: 0,
            entered: NonZeroU64::MIN,
            #[cfg(feature = "tracing")]
            bridged: Vec::new(),
        }
    }

    /// Returns the innermost entry, which may be [`NO_SPAN`].
    #[inline]
    pub(crate) fn top(&self) -> Option<&Frame> {
        self.frames.get(self.depth.wrapping_sub(1))
    }

    /// Pushes a span, which becomes the innermost one.
    #[inline(always)]
    pub(crate) fn push(&mut self, context: SpanContext, clock: Option<Clock>) -> Entered {
        // Bit 0 is always set, so the compiler knows without a test that no id is zero. Bit 1 is `CHANGES_OFFERING`.
        let entered = NonZeroU64::MIN | self.entered.get().wrapping_add(4);
        self.entered = entered;
        let offering = offering_of(&context, clock.as_ref());
        let is_changed = OFFERING.replace(offering) != offering;
        let id = entered | if is_changed { CHANGES_OFFERING } else { 0 };
        match self.frames.get_mut(self.depth) {
            Some(frame) => {
                (frame.id, frame.clock) = (id, clock);
                frame.context = context;
            }
            None => self.grow(Frame { id, context, clock }),
        }
        self.depth += 1;
        Entered(entered)
    }

    /// Like [`push`](Self::push), but faster. The caller guarantees that the span is of this process, that its context
    /// has no state, and that [`offering`] stays the same.
    #[inline(always)]
    pub(crate) fn push_span(&mut self, span: SpanRef, clock: Option<Clock>) -> Entered {
        let Some(frame) = self.frames.get_mut(self.depth) else {
            return self.push(SpanContext::of(span, None), clock);
        };
        let id = NonZeroU64::MIN | self.entered.get().wrapping_add(4);
        self.entered = id;
        (frame.id, frame.clock) = (id, clock);
        // Requires a frame without state: `leave` has released the state of the frame's previous span.
        frame.context.replace_by(span);
        self.depth += 1;
        Entered(id)
    }

    /// Like [`push`](Self::push), for a borrowed context.
    #[inline(always)]
    fn push_copy(&mut self, context: &SpanContext, clock: Option<Clock>) -> Entered {
        let is_like_innermost = offering_of(context, clock.as_ref()) == offering();
        match context.state {
            None if !context.is_remote && is_like_innermost => self.push_span(context.span_ref(), clock),
            _ => self.push_clone(context, clock),
        }
    }

    #[inline(never)]
    fn push_clone(&mut self, context: &SpanContext, clock: Option<Clock>) -> Entered {
        self.push(context.clone(), clock)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, frame: Frame) {
        self.frames.push(frame);
    }

    #[inline(always)]
    fn leave(&mut self, id: NonZeroU64) {
        match self.frames.get_mut(self.depth.wrapping_sub(1)) {
            Some(frame) if frame.id == id => {
                // The state is released now, because the frame stays allocated for the next span.
                frame.context.clear_state();
                self.depth -= 1;
            }
            _ => self.leave_other(id),
        }
    }

    #[cfg(feature = "tracing")]
    #[cold]
    fn leave_bridged_below(&mut self, span: BridgedSpan) {
        let left = self.bridged.iter().rposition(|bridged| bridged.span == span);
        let frame = left.and_then(|index| self.bridged.remove(index).frame);
        frame.into_iter().for_each(|frame| self.leave(frame));
    }

    #[inline(never)]
    fn leave_other(&mut self, id: NonZeroU64) {
        match self.frames.get_mut(self.depth.wrapping_sub(1)) {
            Some(frame) if frame.is(id) => {
                frame.context.clear_state();
                self.depth -= 1;
            }
            _ => self.leave_below(id),
        }
        OFFERING.set(self.top().map_or(ANYWHERE, |top| offering_of(&top.context, top.clock.as_ref())));
    }

    #[cold]
    fn leave_below(&mut self, id: NonZeroU64) {
        self.frames.truncate(self.depth);
        if let Some(left) = self.frames.iter().rposition(|frame| frame.is(id)) {
            self.frames.remove(left);
            // Only the lowest of these needs the bit: another frame is below it now, so leaving may change `offering`.
            self.frames[left..].iter_mut().for_each(|frame| frame.id |= CHANGES_OFFERING);
        }
        self.depth = self.frames.len();
    }
}

/// Keeps a context current on this thread until the guard is dropped. Returned by
/// [`Context::enter`](crate::Context::enter), [`SpanContext::enter`], [`Baggage::enter`] and
/// [`DetachedSpan::enter`](crate::DetachedSpan::enter). Guards may be dropped in any order.
#[derive(Debug)]
#[must_use = "the context is current until this is dropped: give it a name"]
pub struct ContextGuard {
    entered: Option<Entered>,
    baggage: Option<baggage::Entered>,
    /// Not `Send`: the entry is on this thread's stack.
    not_send: PhantomData<*const ()>,
}

impl ContextGuard {
    #[inline]
    pub(crate) fn enter(context: &SpanContext, clock: Option<Clock>) -> Self {
        Self { entered: enter(context, clock), baggage: None, not_send: PhantomData }
    }

    /// Returns a guard. Until it is dropped, the thread has no current span.
    pub(crate) fn enter_no_span() -> Self {
        // Even if there is no current span: a guard of an earlier entry may be dropped before this one.
        match read_stack(|stack| stack.top().map(|_| ())) {
            Some(()) => Self::enter(&NO_SPAN, None),
            None => Self::none(),
        }
    }

    /// Also makes a baggage current until the guard is dropped.
    pub(super) fn and_baggage(mut self, baggage: &Baggage) -> Self {
        self.baggage = baggage::enter(baggage);
        self
    }

    /// Makes a guard that does nothing.
    pub(crate) fn none() -> Self {
        Self { entered: None, baggage: None, not_send: PhantomData }
    }

    /// Converts the guard to numbers, for the C interface. The context stays current until the guard is restored by
    /// [`from_numbers`](Self::from_numbers) and dropped.
    #[cfg(feature = "ffi")]
    pub(crate) fn into_numbers(mut self) -> [u64; 2] {
        let entered = self.entered.take().map_or(0, |Entered(id)| id.get());
        [entered, self.baggage.take().map_or(0, |baggage::Entered(id)| id.get())]
    }

    /// Restores a guard from its numbers. Must be called on the same thread.
    #[cfg(feature = "ffi")]
    pub(crate) fn from_numbers([entered, baggage]: [u64; 2]) -> Self {
        let entered = NonZeroU64::new(entered).map(Entered);
        let baggage = NonZeroU64::new(baggage).map(baggage::Entered);
        Self { entered, baggage, not_send: PhantomData }
    }
}

impl Drop for ContextGuard {
    #[inline]
    fn drop(&mut self) {
        if let Some(entered) = self.entered.take() {
            entered.leave();
        }
        if let Some(baggage) = self.baggage.take() {
            baggage.leave();
        }
    }
}

impl SpanContext {
    /// Returns the context of this thread's current span, if there is one, to carry it to another thread or process.
    ///
    /// ```
    /// # use standpipe::SpanContext;
    /// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
    /// # let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    /// # let incoming = SpanContext::from_traceparent(header).unwrap();
    /// let span = telemetry.tracer("shop").span_builder("checkout").parent(&incoming).start();
    /// assert_eq!(SpanContext::current().as_ref(), Some(span.context()));
    /// drop(span);
    /// assert_eq!(SpanContext::current(), None);
    /// ```
    pub fn current() -> Option<Self> {
        current().map(|(context, _)| context)
    }

    /// Makes this the thread's current context until the guard is dropped: new spans of the thread become its children,
    /// and log records carry its ids. The thread's [`Baggage`] does not change.
    ///
    /// ```
    /// # use standpipe::SpanContext;
    /// # let telemetry = standpipe::Telemetry::start(standpipe::Config::new()).unwrap();
    /// # let tracer = telemetry.tracer("shop");
    /// let header = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    /// let incoming = SpanContext::from_traceparent(header).unwrap();
    /// let _entered = incoming.enter();
    /// let span = tracer.span("GET /orders"); // of the caller's trace
    /// assert_eq!(span.context().trace_id(), incoming.trace_id());
    /// ```
    pub fn enter(&self) -> ContextGuard {
        ContextGuard::enter(self, None)
    }
}
