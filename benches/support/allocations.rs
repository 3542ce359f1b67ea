//! Counts what each thread asks of the allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// More threads than any benchmark starts in one process; beyond them some would share a counter and miss a few.
const MAX_THREADS: usize = 256;

static COUNTERS: [Counter; MAX_THREADS] = [const { Counter(AtomicUsize::new(0)) }; MAX_THREADS];
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static OWN: Cell<Option<&'static AtomicUsize>> = const { Cell::new(None) };
}

/// Far enough from the next one that no thread waits for another's.
#[repr(align(128))]
struct Counter(AtomicUsize);

/// The system's allocator with a counter for each thread.
pub(crate) struct CountingAllocator;

/// Allocations and reallocations of this thread so far.
pub(crate) fn of_this_thread() -> u64 {
    own().load(Ordering::Relaxed) as u64
}

/// Allocations and reallocations of all threads so far, those that have ended included.
#[allow(dead_code, reason = "only those who measure a whole process ask for it")]
pub(crate) fn of_all_threads() -> u64 {
    COUNTERS.iter().map(|counter| counter.0.load(Ordering::Relaxed) as u64).sum()
}

fn count() {
    let own = own();
    // no other thread writes to it, so that no locked instruction is needed
    own.store(own.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// The counter of this thread.
fn own() -> &'static AtomicUsize {
    OWN.get().unwrap_or_else(|| {
        let own = &COUNTERS[THREADS.fetch_add(1, Ordering::Relaxed) % MAX_THREADS].0;
        OWN.set(Some(own));
        own
    })
}

#[allow(unsafe_code)]
// SAFETY: everything is passed on to the system's allocator; counting touches no memory but the thread's own cell.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the promises that `System` asks for.
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
