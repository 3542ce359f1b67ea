//! Forks: the state of one process and the lock that keeps forks away. Also locks that ignore poisoning, the start of threads, the
//! containment of panics, and the atomics that a machine may lack.
//!
//! Only the forking thread lives on in a child. Its copies of locks and channels may be held or
//! half-changed by threads that no longer exist, so the child must not touch them: everything that
//! owns a thread or a socket remembers the generation it was made in and is made anew in a later one.

#[cfg_attr(not(unix), allow(dead_code, reason = "no process forks there"))]
pub(crate) mod first_use;
mod spawn;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::error::Error;
use std::fmt;
use std::mem::{self, ManuallyDrop};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError, TryLockError};

pub use spawn::spawn;
pub(crate) use spawn::{Driver, spawn_scoped};

/// Atomic numbers of 64 bits on every machine: std's, or, where the machine has none, `portable-atomic`'s, which take a lock.
pub(crate) mod atomic {
    #[cfg(not(target_has_atomic = "64"))]
    pub(crate) use portable_atomic::{AtomicI64, AtomicU64};
    #[cfg(target_has_atomic = "64")]
    pub(crate) use std::sync::atomic::{AtomicI64, AtomicU64};
}

static GENERATION: AtomicU32 = AtomicU32::new(0);
/// Held across every fork, so that no child is born while a pipeline is half started. Like all locks that a
/// child may touch it is std's, which keep their state in themselves: a table of waiting threads, as
/// `parking_lot` has it, may be locked for ever in a child.
static STARTING: Mutex<()> = Mutex::new(());
static WATCH: Once = Once::new();

thread_local! {
    /// What the forking thread holds during the fork.
    static HELD: RefCell<Option<MutexGuard<'static, ()>>> = const { RefCell::new(None) };
    /// Whether this thread keeps forks away.
    static HOLDS_FORK_LOCK: Cell<bool> = const { Cell::new(false) };
}

/// The id of this process, or zero where there are none: std's function panics there.
pub(crate) fn id() -> u32 {
    if cfg!(any(unix, windows)) { std::process::id() } else { 0 }
}

/// How many forks lie between the first process and this one.
#[inline]
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Starts to notice forks; forks before the first call need no notice, as there is nothing to renew.
pub(crate) fn watch() {
    WATCH.call_once(register);
}

/// Runs `work` while no fork can happen. It must not fork. It may call this again: the program's
/// allocator may make a record of what it allocates.
pub(crate) fn with_fork_lock<T>(work: impl FnOnce() -> T) -> T {
    if HOLDS_FORK_LOCK.get() {
        return work();
    }
    let _held = lock(&STARTING);
    HOLDS_FORK_LOCK.set(true);
    let _marked = ForkLockHeld;
    work()
}

/// Changes what a lock protects while no fork can happen. All users of the lock come this way, so that nothing else holds
/// it. `None` if this thread holds the lock already: `work` must neither come back here, nor allocate or free, as the
/// program's allocator may come back here.
pub(crate) fn with_locked<L, T>(lock: &Mutex<L>, work: impl FnOnce(&mut L) -> T) -> Option<T> {
    with_fork_lock(|| match lock.try_lock() {
        Ok(mut locked) => Some(work(&mut locked)),
        Err(TryLockError::Poisoned(locked)) => Some(work(&mut locked.into_inner())),
        Err(TryLockError::WouldBlock) => None,
    })
}

/// Lasts as long as this thread keeps forks away.
struct ForkLockHeld;

impl Drop for ForkLockHeld {
    fn drop(&mut self) {
        HOLDS_FORK_LOCK.set(false);
    }
}

/// Something that every process makes for itself: a child starts with a fresh one, also if its parent's was in the
/// middle of.
#[derive(Debug)]
pub(crate) struct PerProcess<T> {
    /// Not dropped in a forked child, where its locks and channels belong to threads that do not exist.
    value: ManuallyDrop<T>,
    generation: u32,
    child_instance: OnceLock<Box<PerProcess<T>>>,
}

impl<T> PerProcess<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: ManuallyDrop::new(value), generation: generation(), child_instance: OnceLock::new() }
    }

    /// This process's own, if it has one already.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        self.original().or_else(|| self.get_in_child())
    }

    /// What it was made with, in the process that made it. Callers on the fast path take everything else from a function of its
    /// own, and so need no second test.
    #[inline]
    pub(crate) fn original(&self) -> Option<&T> {
        if self.generation == generation() { Some(&self.value) } else { None }
    }

    #[cold]
    fn get_in_child(&self) -> Option<&T> {
        self.child_instance.get()?.get()
    }

    /// This process's own, made by `fresh` if need be. No lock is held meanwhile: of several threads that make one, the
    /// first to return installs its own.
    #[inline]
    pub(crate) fn get_or_renew(&self, fresh: impl FnOnce() -> T) -> &T {
        match self.get() {
            Some(own) => own,
            None => self.install(|| Box::new(Self::new(fresh())), |fresh| fresh),
        }
    }

    /// This process's own, made by `start` if need be: once, and while no fork can happen. What needs no lock is done by
    /// `prepare` before.
    #[inline]
    pub(crate) fn get_or_start<P>(&self, prepare: impl FnOnce() -> P, start: impl FnOnce(P) -> T) -> &T {
        match self.get() {
            Some(own) => own,
            None => self.install(prepare, |prepared| Box::new(Self::new(start(prepared)))),
        }
    }

    #[cold]
    fn install<P>(&self, prepare: impl FnOnce() -> P, finish: impl FnOnce(P) -> Box<Self>) -> &T {
        if let Some(child_instance) = self.child_instance.get() {
            return child_instance.install(prepare, finish);
        }
        // if another thread is faster, it is dropped without the lock
        let mut prepared = Some(prepare());
        let mut take = || prepared.take().unwrap_or_else(|| unreachable!("it is taken once"));
        &with_fork_lock(|| self.child_instance.get_or_init(|| finish(take()))).value
    }
}

impl<T> Drop for PerProcess<T> {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        if self.generation == generation() {
            // SAFETY: the value is dropped once, here, and not used afterwards
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

/// Locks a mutex, even after a thread has panicked while it held the lock.
#[inline]
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(unix)]
#[allow(unsafe_code)]
fn register() {
    use std::ffi::c_int;

    type Handler = Option<extern "C" fn()>;
    unsafe extern "C" {
        fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
    }

    // a thread that forks while its locals are being destroyed goes on unprotected
    extern "C" fn before() {
        let _ = HELD.try_with(|held| held.replace(Some(first_use::lock_for_fork())));
    }
    extern "C" fn in_parent() {
        let _ = HELD.try_with(RefCell::take);
    }
    extern "C" fn in_child() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
        first_use::forget_other_threads();
        let _ = HELD.try_with(RefCell::take);
    }

    // SAFETY: the handlers are functions for the life of the process; they touch atomics, a local of the
    // thread that forks and a lock that needs nothing but itself. A failure (no memory) leaves forks
    // unnoticed, which is no worse than not asking.
    unsafe { pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

#[cfg(not(unix))]
fn register() {}

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
