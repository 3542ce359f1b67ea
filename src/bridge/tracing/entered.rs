//! The spans of a layer that the current thread has entered, and the list of live layers.
//!
//! Entered spans are on the same thread-local stack as native spans, so entering a span changes no second stack.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use tracing::Id;

use crate::context::{self, BridgedSpan, ContextGuard};
use crate::process::atomic::AtomicU64;
use crate::process::{self, lock};

thread_local! {
    /// Number of dropped layers when this thread last removed their spans.
    static GONE: Cell<u64> = const { Cell::new(0) };
}

#[inline]
pub(super) fn span_of(layer: &LayerId, id: &Id) -> BridgedSpan {
    BridgedSpan { layer: layer.0, id: id.into_u64() }
}

/// Returns the innermost span of this layer that the thread is in, and whether the span was recorded when it was
/// entered. Contextual events belong to this span.
#[inline]
pub(super) fn innermost(layer: &LayerId) -> Option<(Id, bool)> {
    let (id, is_recording) = context::innermost_of_layer(layer.0)?;
    Some((Id::from_u64(id), is_recording))
}

/// Returns whether this thread's current span may belong to another layer.
#[inline]
pub(super) fn has_other_layers() -> bool {
    // The number of dropped layers is loaded first: a layer is created before it is dropped, so the difference below
    // cannot be negative.
    let gone = LAYERS_GONE.load(Ordering::Acquire);
    // Ids start at 1, so the difference is the number of live layers plus one.
    NEXT_LAYER.load(Ordering::Relaxed) - gone > 2
}

/// Sets the current span, until the guard is dropped, to the innermost one that does not belong to another layer.
#[cold]
pub(super) fn enter_without_other_layers(layer: &LayerId) -> ContextGuard {
    match context::current_without_other_layers(layer.0) {
        Some((context, clock)) => ContextGuard::enter(&context, clock),
        None => ContextGuard::enter_no_span(),
    }
}

/// Leaves the spans of layers that were dropped, for example by a `reload::Layer`. Nothing else exits these spans;
/// without this, every later span of the thread would become their child.
#[inline]
pub(super) fn leave_dropped_layers() {
    let gone = LAYERS_GONE.load(Ordering::Acquire);
    if GONE.replace(gone) != gone {
        leave_gone_spans();
    }
}

#[cold]
fn leave_gone_spans() {
    if context::is_in_bridged() {
        let there = process::with_fork_lock(|| lock(&LAYERS).clone());
        context::leave_gone_layers(|layer| there.contains(&layer));
    }
}

static NEXT_LAYER: AtomicU64 = AtomicU64::new(1);
static LAYERS_GONE: AtomicU64 = AtomicU64::new(0);
/// Ids of live layers. Locked only under the fork lock; otherwise a child might find it locked forever.
static LAYERS: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// Identifies a layer. Ids are never reused.
pub(super) struct LayerId(u64);

impl LayerId {
    pub(super) fn next() -> Self {
        let id = NEXT_LAYER.fetch_add(1, Ordering::Relaxed);
        process::with_fork_lock(|| lock(&LAYERS).push(id));
        Self(id)
    }
}

impl Drop for LayerId {
    fn drop(&mut self) {
        // The id is removed before the count changes: a thread that sees the new count then also sees the list without
        // this layer.
        process::with_fork_lock(|| lock(&LAYERS).retain(|id| *id != self.0));
        LAYERS_GONE.fetch_add(1, Ordering::Release);
    }
}
