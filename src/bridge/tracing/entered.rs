//! Which spans this thread is in.

use std::cell::RefCell;

use tracing::Id;

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
}

/// Notes that the thread is in a span, whose context is current as long as the guard is kept.
#[inline]
pub(super) fn push(layer: u64, span: Innermost, guard: ContextGuard) {
    let entered = Entered { layer, span, _guard: guard };
    // while a thread ends it has no current span any more
    let _ = ENTERED.try_with(|all| all.borrow_mut().push(entered));
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
