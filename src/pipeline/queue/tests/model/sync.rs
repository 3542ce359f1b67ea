//! Replacements for the queue's locks, atomics and channels in a model.
//!
//! They wrap the types of std and crossbeam, but a thread stops before every operation and announces it. So a scheduler
//! knows the next step of each thread, and which threads can run. All threads of a model are shuttle's tasks on one
//! thread. Every operation is one step, as if it were sequentially consistent.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;
use std::sync::{self, LockResult, PoisonError};
use std::time::Duration;

use crossbeam_channel::{TryRecvError, TrySendError};
use shuttle::current;
use shuttle::scheduler::TaskId;
pub(crate) use shuttle::thread_local;

/// All callers of a model share one shard.
pub(crate) const MAX_SHARDS: usize = 1;

/// The next operation of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// An operation that no other thread can observe.
    Begin,
    Read(Object),
    Write(Object),
    /// Takes one of the object's tokens, and is blocked while the object has no token.
    Take(Object),
}

impl Step {
    /// Returns whether the two steps lead to the same state in either order.
    pub(super) fn commutes_with(self, other: Self) -> bool {
        match (self.object(), other.object()) {
            (Some(own), Some(others)) if own == others => {
                matches!((self, other), (Self::Read(_), Self::Read(_)))
            }
            _ => true,
        }
    }

    fn object(self) -> Option<Object> {
        match self {
            Self::Begin => None,
            Self::Read(object) | Self::Write(object) | Self::Take(object) => Some(object),
        }
    }
}

/// An object that threads share, numbered in the order of creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Object(usize);

/// One run of a model.
#[derive(Debug, Default)]
struct Run {
    /// Tokens of each object: a free lock has one, a channel has one per message.
    tokens: Vec<usize>,
    /// Next step of each task.
    announced: Vec<Step>,
}

std::thread_local! {
    static RUN: RefCell<Run> = RefCell::default();
}

/// Resets the state. Must be called before each run.
pub(super) fn start_run() {
    RUN.take();
}

/// Returns the next step of a task, and whether the task can take it.
pub(super) fn announced(task: TaskId) -> (Step, bool) {
    RUN.with_borrow(|run| {
        let step = run.announced.get(usize::from(task)).copied().unwrap_or(Step::Begin);
        let is_enabled = if let Step::Take(object) = step { run.tokens[object.0] > 0 } else { true };
        (step, is_enabled)
    })
}

/// Announces a step, and returns when the scheduler has chosen it.
fn before(step: Step) {
    let task = usize::from(current::me());
    RUN.with_borrow_mut(|run| {
        let tasks = run.announced.len().max(task + 1);
        run.announced.resize(tasks, Step::Begin);
        run.announced[task] = step;
    });
    // In shuttle, a sleep only switches threads, and no time passes.
    shuttle::thread::sleep(Duration::ZERO);
    if let Step::Take(object) = step {
        RUN.with_borrow_mut(|run| run.tokens[object.0] -= 1);
    }
}

impl Object {
    fn new(tokens: usize) -> Self {
        RUN.with_borrow_mut(|run| {
            run.tokens.push(tokens);
            Self(run.tokens.len() - 1)
        })
    }

    fn give(self) {
        RUN.with_borrow_mut(|run| run.tokens[self.0] += 1);
    }
}

macro_rules! atomic {
    ($name:ident, $std:ty, $value:ty, $(fn $change:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        #[derive(Debug)]
        pub(crate) struct $name(Object, $std);

        impl $name {
            pub(crate) fn new(value: $value) -> Self {
                Self(Object::new(0), <$std>::new(value))
            }

            pub(crate) fn load(&self, order: Ordering) -> $value {
                before(Step::Read(self.0));
                self.1.load(order)
            }

            $(pub(crate) fn $change(&self, $($argument: $type),*) -> $result {
                before(Step::Write(self.0));
                self.1.$change($($argument),*)
            })*
        }
    };
}

atomic! {
    AtomicBool, sync::atomic::AtomicBool, bool,
    fn store(value: bool, order: Ordering) -> ();
}
atomic! {
    AtomicUsize, sync::atomic::AtomicUsize, usize,
    fn fetch_add(value: usize, order: Ordering) -> usize;
    fn fetch_sub(value: usize, order: Ordering) -> usize;
    fn fetch_max(value: usize, order: Ordering) -> usize;
}
atomic! {
    AtomicU64, crate::process::atomic::AtomicU64, u64,
    fn store(value: u64, order: Ordering) -> ();
    fn swap(value: u64, order: Ordering) -> u64;
    fn fetch_add(value: u64, order: Ordering) -> u64;
    fn compare_exchange_weak(now: u64, new: u64, success: Ordering, failure: Ordering) -> Result<u64, u64>;
}

/// A lock. Its release belongs to the preceding step: before the release, no other thread can observe the data.
#[derive(Debug)]
pub(crate) struct Mutex<T>(Object, sync::Mutex<T>);

#[derive(Debug)]
pub(crate) struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    locked: sync::MutexGuard<'a, T>,
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Object::new(1), sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        before(Step::Take(self.0));
        Ok(MutexGuard { mutex: self, locked: self.1.lock().unwrap_or_else(PoisonError::into_inner) })
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.mutex.0.give();
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.locked
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.locked
    }
}

/// A condition variable for one waiting thread, as in a parker. It has no spurious wake-ups, and timeouts never expire.
#[derive(Debug)]
pub(crate) struct Condvar {
    object: Object,
    has_waiter: sync::atomic::AtomicBool,
}

impl Default for Condvar {
    fn default() -> Self {
        Self { object: Object::new(0), has_waiter: sync::atomic::AtomicBool::new(false) }
    }
}

impl Condvar {
    pub(crate) fn wait_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        while condition(&mut guard) {
            before(Step::Write(self.object));
            assert!(!self.has_waiter.swap(true, Ordering::SeqCst), "two threads wait at one parker");
            let mutex = guard.mutex;
            drop(guard);
            before(Step::Take(self.object));
            guard = mutex.lock()?;
        }
        Ok(guard)
    }

    pub(crate) fn wait_timeout_while<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        _: Duration,
        condition: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, ())> {
        Ok((self.wait_while(guard, condition).unwrap_or_else(PoisonError::into_inner), ()))
    }

    pub(crate) fn notify_one(&self) {
        before(Step::Write(self.object));
        if self.has_waiter.swap(false, Ordering::SeqCst) {
            self.object.give();
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Sender<T>(Object, crossbeam_channel::Sender<T>);

#[derive(Debug)]
pub(crate) struct Receiver<T>(Object, crossbeam_channel::Receiver<T>);

pub(crate) fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let (object, (sender, receiver)) = (Object::new(0), crossbeam_channel::bounded(capacity));
    (Sender(object, sender), Receiver(object, receiver))
}

/// Needed to compile the code that opens an exporter's queues with the channel of its worker. No model runs that code.
impl<T> From<crossbeam_channel::Sender<T>> for Sender<T> {
    fn from(sender: crossbeam_channel::Sender<T>) -> Self {
        Self(Object::new(0), sender)
    }
}

impl<T> Sender<T> {
    pub(crate) fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        before(Step::Write(self.0));
        self.1.try_send(message).inspect(|()| self.0.give())
    }
}

impl<T> Receiver<T> {
    pub(crate) fn len(&self) -> usize {
        before(Step::Read(self.0));
        self.1.len()
    }

    pub(crate) fn try_recv(&self) -> Result<T, TryRecvError> {
        before(Step::Write(self.0));
        self.1.try_recv().inspect(|_| RUN.with_borrow_mut(|run| run.tokens[self.0.0] -= 1))
    }

    pub(crate) fn try_iter(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.try_recv().ok())
    }

    pub(super) fn recv(&self) -> T {
        before(Step::Take(self.0));
        self.1.try_recv().expect("there is one for each token")
    }
}

/// Counts events, for the thread that waits for them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends(Object);

impl Ends {
    pub(super) fn new() -> Self {
        Self(Object::new(0))
    }

    /// Notes an event. This is a part of the thread's preceding step.
    pub(super) fn note(self) {
        self.0.give();
    }

    pub(super) fn wait_for(self, threads: usize) {
        (0..threads).for_each(|_| before(Step::Take(self.0)));
    }
}
