//! Contains panics that the library must survive.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// After this many panics, each in the drop of what the one before it carried, no end is to be expected.
const MAX_IN_A_ROW: usize = 8;

/// The message of a panic.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Panic(pub(crate) String);

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Panic {}

/// Makes a call that may panic. The payload of a panic is dropped.
///
/// # Errors
/// When the call panics.
pub(crate) fn contain_panic<T>(call: impl FnOnce() -> T) -> Result<T, Panic> {
    catch_unwind(AssertUnwindSafe(call)).map_err(message)
}

fn message(payload: Box<dyn Any + Send>) -> Panic {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let message = text.unwrap_or("without a message").to_owned();
    discard(payload);
    Panic(message)
}

/// The drop may panic as well, and what that panic carries may go on so: the last is leaked.
fn discard(mut payload: Box<dyn Any + Send>) {
    for _ in 0..MAX_IN_A_ROW {
        match catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            Ok(()) => return,
            Err(next) => payload = next,
        }
    }
    mem::forget(payload);
}

#[cfg(test)]
mod tests {
    use std::panic::resume_unwind;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Panics when it is dropped, with one more of its kind while any are `left`.
    struct Grenade {
        left: usize,
        dropped: Arc<AtomicUsize>,
    }

    impl Drop for Grenade {
        fn drop(&mut self) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            if self.left > 0 {
                resume_unwind(Box::new(Grenade { left: self.left - 1, dropped: Arc::clone(&self.dropped) }));
            }
        }
    }

    fn dropped_of(left: usize) -> (usize, usize) {
        let dropped = Arc::new(AtomicUsize::new(0));
        let grenade = Grenade { left, dropped: Arc::clone(&dropped) };
        let contained = contain_panic(|| resume_unwind(Box::new(grenade)));
        assert_eq!(contained, Err::<(), _>(Panic("without a message".to_owned())));
        (dropped.load(Ordering::Relaxed), Arc::strong_count(&dropped) - 1)
    }

    #[test]
    fn a_panic_becomes_its_message() {
        assert_eq!(contain_panic(|| 7), Ok(7));
        assert_eq!(contain_panic(|| resume_unwind(Box::new("text"))), Err::<(), _>(Panic("text".to_owned())));
        assert_eq!(
            contain_panic(|| resume_unwind(Box::new("own".to_owned()))),
            Err::<(), _>(Panic("own".to_owned()))
        );
    }

    #[test]
    fn what_a_panic_carries_is_dropped_also_if_that_panics() {
        assert_eq!(dropped_of(0), (1, 0));
        assert_eq!(dropped_of(1), (2, 0));
        assert_eq!(dropped_of(MAX_IN_A_ROW - 1), (MAX_IN_A_ROW, 0));
    }

    #[test]
    fn drops_that_panic_without_end_leak_one_payload_and_end() {
        assert_eq!(dropped_of(usize::MAX), (MAX_IN_A_ROW, 1));
    }
}
