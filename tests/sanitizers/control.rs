//! Commits one fault, chosen by name, which the sanitizer must report. A sanitizer that misses it would also miss
//! faults in the test suites.

use std::cell::UnsafeCell;
use std::hint::black_box;
use std::process::ExitCode;
use std::thread;

struct Shared(UnsafeCell<u64>);

// SAFETY: not safe, on purpose
unsafe impl Sync for Shared {}

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("race") => race(),
        Some("use-after-free") => use_after_free(),
        Some("leak") => leak(),
        _ => return ExitCode::from(2),
    }
    ExitCode::SUCCESS
}

fn race() {
    static SHARED: Shared = Shared(UnsafeCell::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            // SAFETY: not safe, on purpose: the threads do not exclude each other
            scope.spawn(|| (0..1000).for_each(|_| unsafe { *black_box(SHARED.0.get()) += 1 }));
        }
    });
}

fn use_after_free() {
    let number = black_box(Box::new(7_u64));
    let pointer: *const u64 = &*number;
    drop(number);
    // SAFETY: not safe, on purpose: the memory was freed
    black_box(unsafe { pointer.read_volatile() });
}

fn leak() {
    for _ in 0..16 {
        std::mem::forget(black_box(vec![0_u8; 4711]));
    }
}
