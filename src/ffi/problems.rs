//! When is the program's callback called? Until `standpipe_free` has returned, and by one thread at a time.

use std::cell::Cell;
use std::ffi::{CString, c_char, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::problem::{Problem, ProblemKind};
use crate::process::PerProcess;

/// `standpipe_problem_fn`.
pub(super) type Callback =
    unsafe extern "C" fn(user: *mut c_void, kind: i32, message: *const c_char, times: u64);

/// Passes problems to the callback until it is closed.
pub(super) struct Gate {
    callback: Option<Callback>,
    user: *mut c_void,
    is_closed: AtomicBool,
    /// Held while the callback runs. A forked child has its own: the parent's may be held for ever there.
    running: PerProcess<Mutex<()>>,
}

// SAFETY: the header says that the callback is called on the library's threads, and `user` with it. Nothing else is done with
// the pointer.
unsafe impl Send for Gate {}
// SAFETY: the same.
unsafe impl Sync for Gate {}

thread_local! {
    /// The gate whose callback runs on this thread.
    static RUNNING: Cell<*const Gate> = const { Cell::new(ptr::null()) };
}

impl Gate {
    pub(super) fn new(callback: Option<Callback>, user: *mut c_void) -> Self {
        Self { callback, user, is_closed: AtomicBool::new(false), running: PerProcess::new(Mutex::new(())) }
    }

    pub(super) fn call(&self, problem: &Problem) {
        let Some(callback) = self.callback else { return };
        let message = match problem.exporter.as_str() {
            "" => problem.message.clone(),
            exporter => format!("exporter {exporter}: {}", problem.message),
        };
        // control characters are escaped, a zero byte among them
        let message = CString::new(message).unwrap_or_default();
        let _one_at_a_time = self.running().lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_closed.load(Ordering::Acquire) {
            return;
        }
        let around = RUNNING.replace(self);
        // SAFETY: the program has given this function for this purpose, and `standpipe_free`, after which it may be gone, has
        // not returned: it closes the gate first, and waits for the lock.
        unsafe { callback(self.user, number(problem.kind), message.as_ptr(), problem.occurrences) };
        RUNNING.set(around);
    }

    /// Waits until the callback does not run, unless that is what calls this. It is not called again.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        if !ptr::eq(RUNNING.get(), self) {
            drop(self.running().lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    fn running(&self) -> &Mutex<()> {
        self.running.get_or_renew(|| Mutex::new(()))
    }
}

/// What the header calls this kind: a number that never changes.
fn number(kind: ProblemKind) -> i32 {
    match kind {
        ProblemKind::Unavailable => 1,
        ProblemKind::Refused => 2,
        ProblemKind::NotTaken => 3,
        ProblemKind::PartialSuccess => 4,
        ProblemKind::GaveUp => 5,
        ProblemKind::CallersWaiting => 6,
        ProblemKind::QueueFull => 7,
        ProblemKind::TooLarge => 8,
        ProblemKind::WorkerPanicked => 9,
        ProblemKind::CallbackPanicked => 10,
        ProblemKind::Instrument => 11,
        ProblemKind::CardinalityLimit => 12,
        ProblemKind::Configuration => 13,
        ProblemKind::NoServiceName => 14,
        ProblemKind::Spool => 15,
    }
}
