//! What a thread knows: the spans it is in, and their clock.

use std::cell::{Cell, RefCell};
use std::num::NonZeroU64;
use std::time::SystemTime;

use super::SpanContext;
use super::clock::{Clock, unix_nanos};
use crate::record::SpanRef;

thread_local! {
    static STACK: RefCell<Stack> = const { RefCell::new(Stack::new()) };
    static UNSAMPLED: Unsampled = const { Unsampled::none() };
}

/// The spans that a thread is in, innermost last.
pub(crate) struct Stack {
    /// The first `depth` of them; behind those are some that were left and are used again, which is cheaper than to
    /// move frames in and out.
    frames: Vec<Frame>,
    depth: usize,
    /// The last id that was given to a frame.
    entered: NonZeroU64,
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

/// The top of the stack, if that is an unsampled span: at hand for all the spans inside it.
struct Unsampled {
    /// Its id; 0 if there is none.
    frame: Cell<u64>,
    /// The span itself and those that share its context.
    spans: Cell<u64>,
}

impl Unsampled {
    const fn none() -> Self {
        Self { frame: Cell::new(0), spans: Cell::new(0) }
    }

    #[inline]
    fn set(&self, frame: NonZeroU64, spans: u64) {
        self.frame.set(frame.get());
        self.spans.set(spans);
    }

    #[inline]
    fn frame(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.frame.get())
    }

    #[cold]
    fn forget(&self, frame: NonZeroU64) {
        if self.frame() == Some(frame) {
            self.frame.set(0);
        }
    }

    /// Says how many spans share it, if there is one, and forgets it.
    #[inline]
    fn take(&self) -> Option<u64> {
        (self.frame.replace(0) != 0).then(|| self.spans.get())
    }
}

/// The innermost span of this thread.
#[inline]
pub(crate) fn current() -> Option<SpanContext> {
    STACK
        .try_with(|stack| {
            let stack = stack.try_borrow().ok()?;
            Some(stack.top()?.context.clone())
        })
        .ok()
        .flatten()
}

/// The innermost span of this thread, if there is one, and the time: of its clock, so that it agrees with the span's.
#[inline]
pub(crate) fn span_and_time() -> (Option<SpanRef>, u64) {
    let current = STACK.try_with(|stack| {
        let stack = stack.try_borrow().ok()?;
        let frame = stack.top()?;
        let now = frame.clock.map_or_else(|| unix_nanos(SystemTime::now()), |clock| clock.go_on().1);
        Some((frame.context.span_ref(), now))
    });
    match current.ok().flatten() {
        Some((span, now)) => (Some(span), now),
        None => (None, unix_nanos(SystemTime::now())),
    }
}

/// Proof that a span is on this thread's stack, until it leaves.
#[derive(Debug)]
pub(crate) struct Entered(NonZeroU64);

/// Makes a span the thread's current one.
#[inline]
pub(crate) fn enter(context: &SpanContext, clock: Option<Clock>) -> Option<Entered> {
    with_stack(|stack| stack.map(|stack| stack.push(context.clone(), clock)))
}

/// Lets `work` see and change what the thread is in; that is `None` if the thread is at its end, or does so already:
/// the program's allocator, which makes room for records, may make some of its own. They belong to no span.
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
    UNSAMPLED.with(|unsampled| unsampled.frame().is_some())
}

/// Makes another span one with the thread's current one, if that is unsampled: nobody will see either of them, so
/// they may share a context. It stays current until all of them have left.
#[inline]
pub(crate) fn enter_unsampled() -> Option<Entered> {
    UNSAMPLED.with(|unsampled| {
        let frame = unsampled.frame()?;
        unsampled.spans.set(unsampled.spans.get() + 1);
        Some(Entered(frame))
    })
}

impl Entered {
    /// Ends the span's part in what it shares, if there are others left to share it; otherwise it must leave the stack,
    /// if it is there.
    #[inline]
    pub(crate) fn leave_to_others(entered: Option<&Self>) -> bool {
        UNSAMPLED.with(|unsampled| {
            let (frame, spans) = (unsampled.frame.get(), unsampled.spans.get());
            let is_left = entered.is_some_and(|entered| entered.0.get() == frame) && spans > 1;
            if is_left {
                unsampled.spans.set(spans - 1);
            }
            is_left
        })
    }

    /// Takes a recorded span off the stack: nearly always it is the innermost one.
    #[inline(always)]
    pub(crate) fn leave_recorded(self) {
        if !with_stack(|stack| stack.is_some_and(|stack| stack.leave_top(self.0))) {
            self.leave();
        }
    }

    /// Takes the span off the stack, wherever it stands: guards may end in any order.
    #[inline(never)]
    pub(crate) fn leave(self) {
        with_stack(|stack| match stack {
            Some(stack) => {
                stack.put_unsampled_back();
                stack.leave(self.0);
            }
            // the thread ends, and its stack is gone
            None => UNSAMPLED.with(|unsampled| unsampled.forget(self.0)),
        });
    }

    /// What the span shares with the others in its place; `None` while the thread ends, or where the stack is in use.
    pub(crate) fn context(&self) -> Option<SpanContext> {
        STACK
            .try_with(|stack| {
                let stack = stack.try_borrow().ok()?;
                let mut frames = stack.frames.iter().take(stack.depth);
                frames.rfind(|frame| frame.id == self.0).map(|frame| frame.context.clone())
            })
            .ok()
            .flatten()
    }
}

impl Stack {
    const fn new() -> Self {
        Self { frames: Vec::new(), depth: 0, entered: NonZeroU64::MIN }
    }

    /// The innermost span.
    #[inline]
    pub(crate) fn top(&self) -> Option<&Frame> {
        self.frames.get(self.depth.wrapping_sub(1))
    }

    /// Makes a span the innermost one.
    #[inline]
    pub(crate) fn push(&mut self, context: SpanContext, clock: Option<Clock>) -> Entered {
        self.put_unsampled_back();
        if !context.is_sampled() {
            UNSAMPLED.with(|unsampled| unsampled.set(self.next_id(), 1));
        }
        self.push_frame(context, clock)
    }

    /// Makes a sampled span below the sampled one that is innermost the innermost one.
    #[inline(always)]
    pub(crate) fn push_below_sampled(&mut self, context: SpanContext, clock: Clock) -> Entered {
        self.push_frame(context, Some(clock))
    }

    #[inline(always)]
    fn push_frame(&mut self, context: SpanContext, clock: Option<Clock>) -> Entered {
        let id = self.next_id();
        self.entered = id;
        match self.frames.get_mut(self.depth) {
            Some(frame) => {
                (frame.id, frame.clock, frame.spans) = (id, clock, 1);
                frame.context = context;
            }
            None => self.grow(Frame { id, context, clock, spans: 1 }),
        }
        self.depth += 1;
        Entered(id)
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, frame: Frame) {
        self.frames.push(frame);
    }

    #[inline]
    fn next_id(&self) -> NonZeroU64 {
        self.entered.saturating_add(1)
    }

    fn leave(&mut self, id: NonZeroU64) {
        if !self.leave_top(id) {
            self.leave_below(id);
            self.note_unsampled();
        }
    }

    /// Takes the innermost span off, if it is this one and shares its place with no other.
    #[inline(always)]
    fn leave_top(&mut self, id: NonZeroU64) -> bool {
        match self.frames.get_mut(self.depth.wrapping_sub(1)) {
            Some(frame) if frame.id == id && frame.spans == 1 => frame.context.state = None,
            _ => return false,
        }
        self.depth -= 1;
        self.note_unsampled();
        true
    }

    /// Once the stack has changed: by a sampled span that left, or after [`put_unsampled_back`](Self::put_unsampled_back).
    #[inline(always)]
    fn note_unsampled(&self) {
        debug_assert!(!is_unsampled(), "what was at hand is back on the stack");
        match self.top() {
            Some(frame) if !frame.context.is_sampled() => {
                UNSAMPLED.with(|unsampled| unsampled.set(frame.id, frame.spans));
            }
            _ => {}
        }
    }

    #[cold]
    fn leave_below(&mut self, id: NonZeroU64) {
        self.frames.truncate(self.depth);
        self.frames.retain_mut(|frame| {
            frame.spans -= u64::from(frame.id == id);
            frame.spans > 0
        });
        self.depth = self.frames.len();
    }

    /// Before the stack changes.
    #[inline]
    fn put_unsampled_back(&mut self) {
        if let Some(spans) = UNSAMPLED.with(Unsampled::take) {
            if let Some(frame) = self.frames.get_mut(self.depth.wrapping_sub(1)) {
                frame.spans = spans;
            }
        }
    }
}
