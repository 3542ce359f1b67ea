//! Which spans of which layers this thread is in.

use std::cell::{Cell, RefCell};
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use tracing::Id;

use crate::context::{self, ContextGuard};
use crate::process::atomic::AtomicU64;
use crate::process::{self, lock};

/// A span that this thread is in.
struct Entered {
    layer: u64,
    span: Innermost,
    guard: ContextGuard,
}

/// What events in a span need to know of it.
#[derive(Clone)]
pub(super) struct Innermost {
    pub(super) id: Id,
    /// Whether anything of it is sent; that is settled once it is entered.
    pub(super) is_recording: bool,
}

thread_local! {
    static ENTERED: RefCell<Vec<Entered>> = const { RefCell::new(Vec::new()) };
    /// How many layers had gone when it was last tidied up.
    static GONE: Cell<u64> = const { Cell::new(0) };
}

/// Notes that the thread is in a span, whose context is current as long as the guard is kept.
#[inline]
pub(super) fn push(layer: u64, id: &Id, is_recording: bool, guard: ContextGuard) {
    let span = Innermost { id: id.clone(), is_recording };
    // A thread that is ending has no current span any more.
    let _ = ENTERED.try_with(move |all| all.borrow_mut().push(Entered { layer, span, guard }));
}

/// Notes that the thread has left a span. Spans may be left in any order.
#[inline]
pub(super) fn remove(layer: u64, id: &Id) {
    let is_it = |entered: &Entered| entered.layer == layer && entered.span.id == *id;
    let _ = ENTERED.try_with(|all| {
        let mut all = all.borrow_mut();
        match all.last() {
            Some(last) if is_it(last) => drop(all.pop()),
            _ => {
                if let Some(index) = all.iter().rposition(is_it) {
                    all.remove(index);
                }
            }
        }
    });
}

/// The innermost span of this layer that the thread is in.
#[inline]
pub(super) fn innermost(layer: u64) -> Option<Innermost> {
    let innermost = ENTERED.try_with(|all| {
        all.borrow().iter().rfind(|entered| entered.layer == layer).map(|entered| entered.span.clone())
    });
    innermost.ok().flatten()
}

/// Returns whether this thread's current span may be one of another layer.
#[inline]
pub(super) fn has_other_layers() -> bool {
    NEXT_LAYER.load(Ordering::Relaxed) - layers_gone() > 2
}

/// Makes the span current that this thread is in apart from the spans of other layers, until the guard is dropped.
#[cold]
pub(super) fn enter_apart_from_other_layers(layer: u64) -> ContextGuard {
    let current = ENTERED.try_with(|all| {
        let all = all.borrow();
        let others = all.iter().filter(|entered| entered.layer != layer);
        context::current_without(others.map(|entered| &entered.guard))
    });
    match current.ok().flatten() {
        Some((context, clock)) => ContextGuard::enter(&context, clock),
        None => ContextGuard::enter_no_span(),
    }
}

/// Leaves the spans of layers that are gone, as by a `reload::Layer`: no exit reaches them any more, and what the thread
/// does next would be below these spans for ever.
#[inline]
pub(super) fn tidy_up() {
    let gone = layers_gone();
    if GONE.replace(gone) != gone {
        leave_gone();
    }
}

#[cold]
fn leave_gone() {
    let _ = ENTERED.try_with(|all| {
        let mut all = all.borrow_mut();
        if !all.is_empty() {
            let there = process::with_fork_lock(|| lock(&LAYERS).clone());
            all.retain(|entered| there.contains(&entered.layer));
        }
    });
}

static NEXT_LAYER: AtomicU64 = AtomicU64::new(1);
static LAYERS_GONE: AtomicU64 = AtomicU64::new(0);
/// Locked only while no fork can happen, or a child might find it locked for ever.
static LAYERS: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// Identifies a layer among all others, dropped ones included.
pub(super) struct LayerId(pub(super) u64);

impl LayerId {
    pub(super) fn next() -> Self {
        let id = NEXT_LAYER.fetch_add(1, Ordering::Relaxed);
        process::with_fork_lock(|| lock(&LAYERS).push(id));
        Self(id)
    }
}

impl Drop for LayerId {
    fn drop(&mut self) {
        process::with_fork_lock(|| lock(&LAYERS).retain(|id| *id != self.0));
        LAYERS_GONE.fetch_add(1, Ordering::Release);
    }
}

/// How many layers are gone.
#[inline]
fn layers_gone() -> u64 {
    LAYERS_GONE.load(Ordering::Acquire)
}
