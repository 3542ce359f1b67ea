//! A global allocator for tests: counts the allocations of a thread and the bytes of the process, and can call a hook
//! in the middle of an allocation.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The function that a thread calls at each step of the allocator, with the step's name and its size in bytes.
pub(crate) type Hook = dyn Fn(&'static str, usize) + Send + Sync;

/// The system's allocator, which counts the allocations of each thread and the bytes that all threads hold, and calls
/// the thread's hook. A test binary that uses this module has it as its `#[global_allocator]`.
pub(crate) struct HookedAllocator;

/// Bytes that are allocated now, and the peak since the last [`mark`].
static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static HOOK: Cell<Option<&'static Hook>> = const { Cell::new(None) };
}

/// Returns the number of allocations and reallocations of this thread while `work` runs.
pub(crate) fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

/// Resets the peak for [`rise`] to the current number of bytes, and returns that number.
pub(crate) fn mark() -> usize {
    let held = HELD.load(Ordering::SeqCst);
    PEAK.store(held, Ordering::SeqCst);
    held
}

/// Returns the number of bytes by which the peak since [`mark`] exceeds `marked`, the result of [`mark`].
pub(crate) fn rise(marked: usize) -> usize {
    PEAK.load(Ordering::SeqCst).saturating_sub(marked)
}

/// Sets the hook that this thread calls at every step of the allocator. `None` removes the hook.
pub(crate) fn set_hook(hook: Option<&'static Hook>) {
    HOOK.set(hook);
}

fn count(bytes: usize) {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
    let held = HELD.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK.fetch_max(held, Ordering::Relaxed);
}

fn count_freed(bytes: usize) {
    HELD.fetch_sub(bytes, Ordering::Relaxed);
}

/// Calls the thread's hook, unless the hook is already running.
fn call_hook(step: &'static str, size: usize) {
    if let Some(hook) = HOOK.take() {
        hook(step, size);
        HOOK.set(Some(hook));
    }
}

#[allow(unsafe_code, reason = "an allocator is unsafe to write")]
// SAFETY: the system's allocator does all the work; the hook gets no pointer to this memory.
unsafe impl GlobalAlloc for HookedAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        call_hook("alloc", layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        call_hook("alloc", layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        count_freed(layout.size());
        call_hook("realloc", size);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count_freed(layout.size());
        call_hook("dealloc", layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}
