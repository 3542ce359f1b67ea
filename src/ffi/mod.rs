//! How does a program in C use the library? By the functions of `standpipe.h`, which says all that their callers need to
//! know: what is written there is not repeated here.
//!
//! | file | what it holds |
//! |---|---|
//! | `mod.rs` | the border: codes, panics, structs with a size |
//! | `input.rs` | texts, values and attributes, as C has them |
//! | `output.rs` | texts that C gets |
//! | `lifecycle.rs` | start, flush, shutdown |
//! | `problems.rs` | the callback, and the gate that closes it |
//! | `ledger.rs` | the ledger as a struct and as JSON |
//! | `spans.rs`, `context.rs` | tracers and spans; which span a thread is in |
//! | `logs.rs`, `metrics.rs` | log records; instruments |
//!
//! A pointer to one thing, or to nothing, is an `Option` of a reference or of a `Box`: it has the form of a pointer that may
//! be null. All other pointers arrive in types of their own, whose `unsafe` code stands beside their promise.

#![allow(unsafe_code, reason = "pointers from C are only as good as the caller's word for them")]

mod context;
mod input;
mod ledger;
mod lifecycle;
mod logs;
mod metrics;
mod output;
mod problems;
mod spans;

use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::{set_hook, take_hook};
use std::sync::Once;
use std::{mem, ptr, thread};

use crate::context::runs_exporter_code;
use crate::process::contain_panic;

/// The outcome of a call; the header has the same numbers.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Code(i32);

impl Code {
    const OK: Self = Self(0);
    const INVALID_ARGUMENT: Self = Self(1);
    const CONFIGURATION: Self = Self(2);
    const INCOMPLETE: Self = Self(3);
    const WRONG_THREAD: Self = Self(4);
    const NO_SPAN: Self = Self(5);
    const PANICKED: Self = Self(6);
}

/// What a function returns if it panics, which only a bug makes it do.
trait Panicked {
    const PANICKED: Self;
}

impl Panicked for () {
    const PANICKED: Self = ();
}

impl Panicked for bool {
    const PANICKED: Self = false;
}

impl Panicked for usize {
    const PANICKED: Self = 0;
}

impl Panicked for Code {
    const PANICKED: Self = Code::PANICKED;
}

impl<T> Panicked for Option<T> {
    const PANICKED: Self = None;
}

thread_local! {
    /// Whether a function of the header runs on this thread.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Does the work of a function of the header: no panic leaves it.
#[inline(always)]
fn border<T: Panicked>(work: impl FnOnce() -> T) -> T {
    let before = INSIDE.replace(true);
    let result = contain_panic(work).unwrap_or(T::PANICKED);
    INSIDE.set(before);
    result
}

/// Keeps panics that are caught at the border, or by an exporter's thread, from being printed. All others are printed as
/// before: of a program that is written in Rust as well.
fn keep_panics_silent() {
    static HOOK: Once = Once::new();
    // a thread that panics must not change the hook
    if cfg!(panic = "unwind") && !thread::panicking() {
        HOOK.call_once(|| {
            let before = take_hook();
            set_hook(Box::new(move |panic| {
                if !is_caught() {
                    before(panic);
                }
            }));
        });
    }
}

/// Whether the library catches a panic of this thread.
fn is_caught() -> bool {
    INSIDE.get() || runs_exporter_code()
}

/// A struct of C that begins with its size. Later versions of the header add fields at its end, and the caller may have an
/// older or a newer one than the library.
#[repr(transparent)]
struct Versioned<'a, T> {
    place: *mut T,
    lifetime: PhantomData<&'a mut T>,
}

/// A type that C knows, which begins with a size, and of which zeros are a value.
///
/// # Safety
/// It is `repr(C)`, its first field is a `usize`, and all its fields may be zero.
unsafe trait SizeFirst: Copy {}

impl<T: SizeFirst> Versioned<'_, T> {
    /// What the caller has set. The fields that its version lacks are zero; all of them are, if there is no struct.
    fn read(&self) -> T {
        // SAFETY: zeros are a value of every such type.
        let mut value = unsafe { mem::zeroed::<T>() };
        if let Some(len) = self.len() {
            // SAFETY: the caller says that its struct has this many bytes, and they are no more than `value` has.
            unsafe { ptr::copy_nonoverlapping(self.place.cast::<u8>(), (&raw mut value).cast(), len) };
        }
        value
    }

    /// Writes the fields that the caller's version has. `None` if there is no place for any.
    fn write(&self, value: &T) -> Option<()> {
        let first = size_of::<usize>();
        let len = self.len().filter(|len| *len >= first)?;
        // SAFETY: the caller says that its struct has this many bytes, and they are no more than `value` has. The size, which
        // comes first, stays the caller's.
        unsafe {
            let (from, to) = ((&raw const *value).cast::<u8>(), self.place.cast::<u8>());
            ptr::copy_nonoverlapping(from.add(first), to.add(first), len - first);
        }
        Some(())
    }

    /// Bytes that both versions have: of whole fields, so that no pointer is cut in half.
    fn len(&self) -> Option<usize> {
        if self.place.is_null() {
            return None;
        }
        // SAFETY: the struct begins with its size, which the caller must have set.
        let size = unsafe { self.place.cast::<usize>().read() };
        let known = size.min(size_of::<T>());
        Some(known - known % align_of::<T>())
    }
}

/// The version of the library, as `STANDPIPE_VERSION` of the header it was built with.
#[unsafe(no_mangle)]
extern "C" fn standpipe_version() -> u32 {
    const fn number(text: &str) -> u32 {
        let (mut number, mut index) = (0, 0);
        while index < text.len() {
            number = 10 * number + (text.as_bytes()[index] - b'0') as u32;
            index += 1;
        }
        number
    }
    const MAJOR: u32 = number(env!("CARGO_PKG_VERSION_MAJOR"));
    const MINOR: u32 = number(env!("CARGO_PKG_VERSION_MINOR"));
    const PATCH: u32 = number(env!("CARGO_PKG_VERSION_PATCH"));
    MAJOR * 1_000_000 + MINOR * 1_000 + PATCH
}

#[cfg(test)]
mod tests;
