//! What is kept of a span while it is open, and which spans this thread is in.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::Id;
use tracing_subscriber::registry::Extensions;

use crate::context::{ContextGuard, SpanContext};
use crate::tracer::DetachedSpan;

/// A span of this layer, shared by the registry and by the threads that are in it.
#[derive(Debug, Clone)]
pub(super) struct Slot {
    /// The number of the layer.
    layer: u64,
    content: Arc<Mutex<Content>>,
}

#[derive(Debug)]
pub(super) struct Content {
    /// `None` once it is closed.
    pub(super) span: Option<DetachedSpan>,
    pub(super) activity: Option<Activity>,
}

/// How long a span was entered, and how long it was not.
#[derive(Debug)]
pub(super) struct Activity {
    since: Instant,
    /// How many times it is entered now.
    entered: usize,
    pub(super) busy: Duration,
    pub(super) idle: Duration,
}

impl Slot {
    pub(super) fn new(layer: u64, span: DetachedSpan, activity: Option<Activity>) -> Self {
        Self { layer, content: Arc::new(Mutex::new(Content { span: Some(span), activity })) }
    }

    /// The one that a layer has left with a span of the registry.
    pub(super) fn find(extensions: &Extensions<'_>) -> Option<Self> {
        extensions.get::<Self>().cloned()
    }

    pub(super) fn is_of(&self, layer: u64) -> bool {
        self.layer == layer
    }

    /// Nothing but the span is touched while this is held: no code of the program runs.
    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What identifies the span to others; `None` once it is closed.
    pub(super) fn context(&self) -> Option<SpanContext> {
        self.lock().span.as_mut().map(|span| span.context().clone())
    }
}

impl Activity {
    pub(super) fn start() -> Self {
        Self { since: Instant::now(), entered: 0, busy: Duration::ZERO, idle: Duration::ZERO }
    }

    fn enter(&mut self) {
        if self.entered == 0 {
            let idle = self.turn();
            self.idle += idle;
        }
        self.entered += 1;
    }

    fn exit(&mut self) {
        self.entered = self.entered.saturating_sub(1);
        if self.entered == 0 {
            let busy = self.turn();
            self.busy += busy;
        }
    }

    fn turn(&mut self) -> Duration {
        let now = Instant::now();
        now.saturating_duration_since(std::mem::replace(&mut self.since, now))
    }
}

/// A span that this thread is in.
struct Entered {
    id: Id,
    slot: Slot,
    _guard: ContextGuard,
}

thread_local! {
    static ENTERED: RefCell<Vec<Entered>> = const { RefCell::new(Vec::new()) };
}

/// Makes a span the thread's current one.
#[inline]
pub(super) fn enter(id: &Id, slot: Slot) {
    let mut content = slot.lock();
    if let Some(activity) = &mut content.activity {
        activity.enter();
    }
    let Some(guard) = content.span.as_mut().map(DetachedSpan::enter) else { return };
    drop(content);
    let entered = Entered { id: id.clone(), slot, _guard: guard };
    // while a thread ends it has no current span any more
    let _ = ENTERED.try_with(|all| all.borrow_mut().push(entered));
}

/// Ends what [`enter`] began. The span ends here, unless it is entered again.
#[inline]
pub(super) fn exit(layer: u64, id: &Id) {
    let is_it = |entered: &Entered| entered.slot.is_of(layer) && entered.id == *id;
    let entered = ENTERED.try_with(|all| {
        let mut all = all.borrow_mut();
        // nearly always the last one
        let index = all.iter().rposition(is_it)?;
        Some(all.remove(index))
    });
    if let Ok(Some(entered)) = entered {
        let mut content = entered.slot.lock();
        if let Some(activity) = &mut content.activity {
            activity.exit();
        }
        if let Some(span) = &mut content.span {
            span.end_here();
        }
    }
}

/// The innermost span of this layer that the thread is in.
#[inline]
pub(super) fn current(layer: u64) -> Option<Slot> {
    let innermost = ENTERED.try_with(|all| {
        all.borrow().iter().rfind(|entered| entered.slot.is_of(layer)).map(|entered| entered.slot.clone())
    });
    innermost.ok().flatten()
}
