//! Process-wide services: fork safety, mutexes that ignore poisoning, thread creation, panic containment, and 64-bit
//! atomics for machines without them.
//!
//! # Rules for forks
//! Only the forking thread continues in a child. If another thread holds a lock or is changing shared data at the
//! moment of the fork, the child never sees the lock released or the change completed. The library therefore follows
//! these rules:
//!
//! 1. *Generation.* `pthread_atfork` handlers count the forks since the first process ([`generation`]). Each owner of a
//!    thread, a socket or a file lock records the generation in which it was made. A process of a later generation
//!    neither uses nor drops the owner: [`PerProcess`] makes a new value, and the worker leaks its state.
//! 2. *Fork lock.* Shared state that a child needs is changed only inside [`with_fork_lock`]. A fork waits for this
//!    lock, so a child never sees such state half changed. Code under the lock must not fork, wait for another
//!    thread, or call code of the program other than its allocator.
//! 3. *First use.* A foreign library may initialize a static when it is first called. A fork waits until this call is
//!    over: see [`first_use`].
//! 4. *Only std's locks.* A lock that a child may touch must keep its whole state in itself, as `std::sync::Mutex`
//!    does. `parking_lot` keeps a global table of waiting threads, which may stay locked forever in a child.
//! 5. *Inherited records.* Records that were queued or open at the fork belong to the parent, which sends and counts
//!    them. The child starts its own exporters at its first record.
//! 6. *Fork inside a callback.* The problem hook and observable callbacks may fork on an exporter's thread. The
//!    worker checks the generation before and after each step. A child makes no further step, and leaks the worker.
//!
//! # Lock order
//! Locks that are not listed are leaves: a thread that holds a leaf takes no other lock. A thread that holds a listed
//! lock may take leaves, and the locks to the right of the listed lock in the same line.
//!
//! ```text
//! fork lock ─► INSTALLED (telemetry/global), LAYERS (bridge/tracing)
//! fork lock ─► instruments (metrics/registry) ─► misuses (metrics/registry)
//! outcomes (ledger/counters) ─► open chunk of a shard (queue/shard) ─► pool of slots (spool/recorder)
//! waiters (queue/backpressure) ─► parker of a waiter
//! current attempt (worker/attempt) ─► state of the dialer (transport/dial)
//! connector (transport/http) ─► timeline, state of the dialer
//! table (metrics/storage) ─► list of series (metrics/table), parts of an aggregator
//! ```
//!
//! Two locks are exceptions:
//!
//! - A worker holds the export state of an observable instrument (`metrics/observable`) while it enqueues the points,
//!   and sends batches meanwhile if the queue is full. Only this worker ever takes that lock, so no other thread can
//!   wait for it.
//! - The C ABI holds `running` (`ffi/lifecycle`) while the program's problem callback runs, so that `standpipe_free`
//!   can wait for its end. Callbacks of other exporters wait as well, but no thread that emits a record takes this
//!   lock.
//!
//! Two rules keep the program's own code out of this order:
//!
//! - The problem hook and the callbacks of the program are called without any lock except these two. Foreign libraries,
//!   which may call the program's loggers, are called without the fork lock and without locks of the queue.
//! - The program's allocator may emit a record. So a caller that emits a record never allocates or frees while it
//!   holds a lock of the queue. [`with_fork_lock`] may be entered again by the same thread for the same reason.

#[cfg_attr(not(unix), allow(dead_code, reason = "no process forks there"))]
pub(crate) mod first_use;
mod spawn;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::mem::{self, ManuallyDrop};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError, TryLockError};

pub use spawn::spawn;
pub(crate) use spawn::{Driver, spawn_scoped};

/// 64-bit atomics on every machine: those of std or, if the machine has none, those of `portable-atomic`, which use a
/// lock.
pub(crate) mod atomic {
    #[cfg(not(target_has_atomic = "64"))]
    pub(crate) use portable_atomic::{AtomicI64, AtomicU64};
    #[cfg(target_has_atomic = "64")]
    pub(crate) use std::sync::atomic::{AtomicI64, AtomicU64};
}

static GENERATION: AtomicU32 = AtomicU32::new(0);
/// The fork lock. The forking thread holds it during every fork, so that no child is created while an exporter is
/// half started.
static STARTING: Mutex<()> = Mutex::new(());
static WATCH: Once = Once::new();

thread_local! {
    /// The fork lock, held by the forking thread during the fork.
    static HELD: RefCell<Option<MutexGuard<'static, ()>>> = const { RefCell::new(None) };
    /// True while this thread holds the fork lock. Allows [`with_fork_lock`] to be entered again.
    static HOLDS_FORK_LOCK: Cell<bool> = const { Cell::new(false) };
}

/// Returns the id of this process, or zero on targets without processes, where std's function panics.
pub(crate) fn id() -> u32 {
    if cfg!(any(unix, windows)) { std::process::id() } else { 0 }
}

/// Returns the number of forks between the first process and this one.
#[inline]
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Registers the fork handlers. Forks before the first call need no handling, because nothing exists that a child
/// must replace.
pub(crate) fn watch() {
    WATCH.call_once(register);
}

/// Runs `work` while no other thread can fork. `work` must not fork. It may call this function again, because the
/// program's allocator may emit records.
pub(crate) fn with_fork_lock<T>(work: impl FnOnce() -> T) -> T {
    if HOLDS_FORK_LOCK.get() {
        return work();
    }
    let _held = lock(&STARTING);
    HOLDS_FORK_LOCK.set(true);
    let _marked = ForkLockHeld;
    work()
}

/// Runs `work` on the value of a mutex while no fork can happen. All users of the mutex must use this function, so
/// that only the thread with the fork lock can hold it. Returns `None` if this thread already holds the mutex: `work`
/// has called the program's allocator, which has emitted a record. So `work` should neither allocate nor free.
pub(crate) fn with_locked<L, T>(lock: &Mutex<L>, work: impl FnOnce(&mut L) -> T) -> Option<T> {
    with_fork_lock(|| match lock.try_lock() {
        Ok(mut locked) => Some(work(&mut locked)),
        Err(TryLockError::Poisoned(locked)) => Some(work(&mut locked.into_inner())),
        Err(TryLockError::WouldBlock) => None,
    })
}

/// Guard: resets [`HOLDS_FORK_LOCK`] when it is dropped.
struct ForkLockHeld;

impl Drop for ForkLockHeld {
    fn drop(&mut self) {
        HOLDS_FORK_LOCK.set(false);
    }
}

/// A value that every process makes for itself. A child makes a new one, even if another thread of the parent was
/// changing the parent's value during the fork.
#[derive(Debug)]
pub(crate) struct PerProcess<T> {
    /// Not dropped in a forked child: its locks and channels may be held by threads that do not exist there.
    value: ManuallyDrop<T>,
    generation: u32,
    child_instance: OnceLock<Box<PerProcess<T>>>,
}

impl<T> PerProcess<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: ManuallyDrop::new(value), generation: generation(), child_instance: OnceLock::new() }
    }

    /// Returns the value of this process, if it exists already.
    #[inline]
    pub(crate) fn get(&self) -> Option<&T> {
        self.original().or_else(|| self.get_in_child())
    }

    /// Returns the value that [`new`](Self::new) stored, or `None` in a forked child. Fast paths call this function,
    /// and handle `None` in a separate cold function, so that they need only one comparison.
    #[inline]
    pub(crate) fn original(&self) -> Option<&T> {
        if self.generation == generation() { Some(&self.value) } else { None }
    }

    /// Returns the value that [`new`](Self::new) stored, even in a forked child, which must not lock anything in it.
    pub(crate) fn inherited(&self) -> &T {
        &self.value
    }

    #[cold]
    fn get_in_child(&self) -> Option<&T> {
        self.child_instance.get()?.get()
    }

    /// Returns the value of this process, made by `fresh` if it does not exist. No lock is held while `fresh` runs:
    /// if several threads make a value, the first to finish installs its own.
    #[inline]
    pub(crate) fn get_or_renew(&self, fresh: impl FnOnce() -> T) -> &T {
        match self.get() {
            Some(own) => own,
            None => self.install(|| Box::new(Self::new(fresh())), |fresh| fresh),
        }
    }

    /// Returns the value of this process, made by `start` if it does not exist. `start` runs once, under the fork
    /// lock. `prepare` runs before it without the lock, possibly on several threads.
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
        // If another thread is faster, the prepared value is dropped at the end of this function, after the lock is
        // released.
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

    // A thread that forks while its thread-locals are being destroyed does not hold the lock during the fork.
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

    // SAFETY: the handlers exist for the whole life of the process. They touch only atomics, a thread-local of the
    // forking thread, and a lock that keeps its whole state in itself. If the call fails for lack of memory, the
    // library does not detect forks.
    unsafe { pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

#[cfg(not(unix))]
fn register() {}

/// Maximum number of nested payloads that [`discard`] drops. The drop of a payload may panic with another payload.
const MAX_IN_A_ROW: usize = 8;

/// Makes a call that may panic, and contains the panic. The payload of the panic is dropped.
///
/// # Errors
/// Returns the message of the panic if the call panics.
pub(crate) fn contain_panic<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(message)
}

fn message(payload: Box<dyn Any + Send>) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let message = text.unwrap_or("without a message").to_owned();
    discard(payload);
    message
}

/// Drops the payload of a panic. The drop may panic with another payload, whose drop may panic as well; after
/// [`MAX_IN_A_ROW`] of them the last payload is leaked.
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

    /// Panics when it is dropped, unless `left` is zero. The payload of the panic is another grenade.
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
        assert_eq!(contained, Err::<(), _>("without a message".to_owned()));
        (dropped.load(Ordering::Relaxed), Arc::strong_count(&dropped) - 1)
    }

    #[test]
    fn a_panic_becomes_its_message() {
        assert_eq!(contain_panic(|| 7), Ok(7));
        assert_eq!(contain_panic(|| resume_unwind(Box::new("text"))), Err::<(), _>("text".to_owned()));
        assert_eq!(
            contain_panic(|| resume_unwind(Box::new("own".to_owned()))),
            Err::<(), _>("own".to_owned())
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
