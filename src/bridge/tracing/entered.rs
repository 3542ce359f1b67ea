//! The spans of a layer that this thread is in: they lie on the thread's stack of spans, so that entering a span changes one
//! stack. And the layers that there are.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use tracing::Id;

use crate::context::{self, BridgedSpan, ContextGuard};
use crate::process::atomic::AtomicU64;
use crate::process::{self, lock};

/// A span that events belong to.
pub(super) struct Innermost {
    pub(super) id: Id,
    /// Whether it is sent: decided when it is entered.
    pub(super) is_recording: bool,
}

thread_local! {
    /// How many layers had gone when it was last tidied up.
    static GONE: Cell<u64> = const { Cell::new(0) };
}

#[inline]
pub(super) fn span_of(layer: &LayerId, id: &Id) -> BridgedSpan {
    BridgedSpan { layer: layer.0, id: id.into_u64() }
}

/// Returns the innermost span of this layer that the thread is in.
#[inline]
pub(super) fn innermost(layer: &LayerId) -> Option<Innermost> {
    let (id, is_recording) = context::innermost_of_layer(layer.0)?;
    Some(Innermost { id: Id::from_u64(id), is_recording })
}

/// Returns whether this thread's current span may be one of another layer.
#[inline]
pub(super) fn has_other_layers() -> bool {
    NEXT_LAYER.load(Ordering::Relaxed) - layers_gone() > 2
}

/// Makes the span current that this thread is in apart from the spans of other layers, until the guard is dropped.
#[cold]
pub(super) fn enter_apart_from_other_layers(layer: &LayerId) -> ContextGuard {
    match context::current_without_other_layers(layer.0) {
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
    if context::is_in_bridged() {
        let there = process::with_fork_lock(|| lock(&LAYERS).clone());
        context::leave_gone_layers(|layer| there.contains(&layer));
    }
}

static NEXT_LAYER: AtomicU64 = AtomicU64::new(1);
static LAYERS_GONE: AtomicU64 = AtomicU64::new(0);
/// Locked only while no fork can happen, or a child might find it locked for ever.
static LAYERS: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// Identifies a layer among all others, dropped ones included.
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
        process::with_fork_lock(|| lock(&LAYERS).retain(|id| *id != self.0));
        LAYERS_GONE.fetch_add(1, Ordering::Release);
    }
}

/// How many layers are gone.
#[inline]
fn layers_gone() -> u64 {
    LAYERS_GONE.load(Ordering::Acquire)
}
