//! How much this process holds, as its allocator sees it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator with a count of what is held.
pub(crate) struct Weighing;

/// Lets [`rise`] start anew from what is held now, which it gives.
pub(crate) fn mark() -> usize {
    let held = HELD.load(Ordering::SeqCst);
    PEAK.store(held, Ordering::SeqCst);
    held
}

/// The most that was held at once since the [`mark`], above what was held then.
pub(crate) fn rise(marked: usize) -> usize {
    PEAK.load(Ordering::SeqCst).saturating_sub(marked)
}

fn taken(bytes: usize) {
    let held = HELD.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(held, Ordering::Relaxed);
}

fn given_back(bytes: usize) {
    HELD.fetch_sub(bytes, Ordering::Relaxed);
}

#[allow(unsafe_code)]
// SAFETY: everything is passed on to the system's allocator; counting touches no memory but two numbers.
unsafe impl GlobalAlloc for Weighing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: the caller keeps the promises that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        taken(new_size);
        given_back(layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, new_size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        given_back(layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}
