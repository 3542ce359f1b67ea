//! How does a test count what a thread allocates, or do something in the middle of an allocation?

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// What a thread does at each step of the allocator, given the step's name and its size in bytes.
pub(crate) type Hook = dyn Fn(&'static str, usize) + Send + Sync;

/// The system's allocator, which counts the allocations of each thread and calls the thread's hook. A test binary that
/// uses this module has it as its `#[global_allocator]`.
pub(crate) struct HookedAllocator;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static HOOK: Cell<Option<&'static Hook>> = const { Cell::new(None) };
}

/// Allocations and reallocations of this thread while `work` runs.
pub(crate) fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

/// Has this thread call `hook` at every step of the allocator from now on, or none.
pub(crate) fn set_hook(hook: Option<&'static Hook>) {
    HOOK.set(hook);
}

fn count() {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
}

/// Calls the thread's hook, unless the thread is in the middle of it.
fn call_hook(step: &'static str, size: usize) {
    if let Some(hook) = HOOK.take() {
        hook(step, size);
        HOOK.set(Some(hook));
    }
}

#[allow(unsafe_code, reason = "an allocator is unsafe to write")]
// SAFETY: the system's allocator does all the work; a hook that runs beside it sees its memory as any code does.
unsafe impl GlobalAlloc for HookedAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        call_hook("alloc", layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        call_hook("alloc", layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        call_hook("realloc", size);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(memory, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        call_hook("dealloc", layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}
