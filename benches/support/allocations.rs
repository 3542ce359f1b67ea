//! A global allocator that counts the allocations of each thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// More threads than any benchmark starts in one process. Further threads would share counters and lose some counts.
const MOST_THREADS: usize = 256;

static COUNTERS: [Counter; MOST_THREADS] = [const { Counter(AtomicUsize::new(0)) }; MOST_THREADS];
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OWN: Cell<Option<&'static AtomicUsize>> = const { Cell::new(None) };
}

/// A counter, aligned so that two counters never share a cache line.
#[repr(align(128))]
struct Counter(AtomicUsize);

/// The system's allocator with a counter for each thread.
pub(crate) struct CountingAllocator;

/// Returns the number of allocations and reallocations of this thread so far.
pub(crate) fn of_this_thread() -> u64 {
    own().load(Ordering::Relaxed) as u64
}

/// Returns the number of allocations and reallocations of all threads so far, including ended threads.
#[allow(dead_code, reason = "only benchmarks of a whole process use it")]
pub(crate) fn of_all_threads() -> u64 {
    COUNTERS.iter().map(|counter| counter.0.load(Ordering::Relaxed) as u64).sum()
}

fn count() {
    let own = own();
    // Only this thread writes to its counter, so no atomic read-modify-write operation is needed.
    own.store(own.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Returns the counter of this thread.
fn own() -> &'static AtomicUsize {
    OWN.get().unwrap_or_else(|| {
        let own = &COUNTERS[THREADS.fetch_add(1, Ordering::Relaxed) % MOST_THREADS].0;
        OWN.set(Some(own));
        own
    })
}

#[allow(unsafe_code)]
// SAFETY: all calls are passed to the system's allocator; counting touches only a static counter and a thread-local
// cell.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller upholds the contract of `System`.
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
