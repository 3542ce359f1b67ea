//! Counts what each thread asks of the allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// The system's allocator with a counter for each thread.
pub(crate) struct CountingAllocator;

/// Allocations and reallocations of this thread so far.
pub(crate) fn of_this_thread() -> u64 {
    COUNT.get()
}

fn count() {
    // a thread that is ending has nothing to be counted any more
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
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
