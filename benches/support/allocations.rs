//! Global allocator that counts the allocations of each thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of counters. No benchmark starts more threads in one process: further threads would share counters and lose
/// counts.
const MAX_THREADS: usize = 256;

static COUNTERS: [Counter; MAX_THREADS] = [const { Counter(AtomicUsize::new(0)) }; MAX_THREADS];
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OWN: Cell<Option<&'static AtomicUsize>> = const { Cell::new(None) };
}

/// Counter in separate cache lines, which avoids false sharing between threads.
#[repr(align(128))]
struct Counter(AtomicUsize);

/// The system allocator, with a counter per thread.
pub(crate) struct CountingAllocator;

/// Returns the allocations and reallocations of this thread so far.
pub(crate) fn of_this_thread() -> u64 {
    own().load(Ordering::Relaxed) as u64
}

/// Returns the allocations and reallocations of all threads so far, including threads that have ended.
#[allow(dead_code, reason = "only some benchmarks measure the whole process")]
pub(crate) fn of_all_threads() -> u64 {
    COUNTERS.iter().map(|counter| counter.0.load(Ordering::Relaxed) as u64).sum()
}

fn count() {
    let own = own();
    // Only this thread writes to its counter, so no atomic read-modify-write is needed.
    own.store(own.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Returns the counter of this thread.
fn own() -> &'static AtomicUsize {
    OWN.get().unwrap_or_else(|| {
        let own = &COUNTERS[THREADS.fetch_add(1, Ordering::Relaxed) % MAX_THREADS].0;
        OWN.set(Some(own));
        own
    })
}

#[allow(unsafe_code)]
// SAFETY: every call is forwarded to the system allocator; counting does not allocate.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `GlobalAlloc`, which is also that of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, new_size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}
