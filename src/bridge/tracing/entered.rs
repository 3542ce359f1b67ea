//! Which spans this thread is in.

use std::cell::{Cell, RefCell};

use tracing::Id;

use super::layers;
use crate::context::ContextGuard;

/// A span that this thread is in.
struct Entered {
    /// The number of the layer.
    layer: u64,
    span: Innermost,
    _guard: ContextGuard,
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
    let mut entered = Some(Entered { layer, span, _guard: guard });
    // while a thread ends it has no current span any more
    let _ = ENTERED.try_with(|all| {
        if let Some(entered) = entered.take() {
            all.borrow_mut().push(entered);
        }
    });
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

/// Leaves the spans of layers that are gone, as by a `reload::Layer`: they hear of no exit any more, and what the thread
/// does next would be below these spans for ever.
#[inline]
pub(super) fn tidy_up() {
    let gone = layers::gone();
    if GONE.replace(gone) != gone {
        leave_gone();
    }
}

#[cold]
fn leave_gone() {
    let _ = ENTERED.try_with(|all| {
        let mut all = all.borrow_mut();
        if !all.is_empty() {
            let there = layers::there();
            all.retain(|entered| there.contains(&entered.layer));
        }
    });
}
