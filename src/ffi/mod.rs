//! The C ABI: the functions of `standpipe.h`. The header documents them for callers; this module does not repeat it.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | the boundary: codes, panics, structs that begin with their size, memory that the library fills |
//! | `input.rs` | texts, values and attributes that C passes |
//! | `lifecycle.rs` | start, flush, shutdown; the callback for problems |
//! | `ledger.rs` | the ledger as a struct and as JSON |
//! | `spans.rs`, `context.rs` | tracers and spans; the current span of a thread |
//! | `logs.rs`, `metrics.rs` | log records; instruments |
//!
//! A pointer to one object, or to nothing, is an `Option` of a reference or of a `Box`, which has the layout of a nullable
//! pointer. All other pointers arrive in their own types, whose `unsafe` code stands beside the promise that it relies on.

#![allow(unsafe_code, reason = "pointers from C are only as good as the caller's word for them")]

mod context;
mod input;
mod ledger;
mod lifecycle;
mod logs;
mod metrics;
mod spans;

use std::cell::Cell;
use std::ffi::{CString, c_char};
use std::marker::PhantomData;
use std::panic::{set_hook, take_hook};
use std::sync::Once;
use std::{mem, ptr, slice, thread};

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

/// A function that panics returns the default of its type. Only a bug makes it panic.
impl Default for Code {
    fn default() -> Self {
        Self::PANICKED
    }
}

thread_local! {
    /// Whether a function of the header runs on this thread.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs the body of a function of the header and contains a panic: then it returns the default.
#[inline(always)]
fn border<T: Default>(work: impl FnOnce() -> T) -> T {
    let before = INSIDE.replace(true);
    let result = contain_panic(work).unwrap_or_default();
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

/// A place of the caller for one thing; null if it is not wanted. What was there before is not read.
#[repr(transparent)]
struct Out<'a, T> {
    place: *mut T,
    lifetime: PhantomData<&'a mut T>,
}

impl<T> Out<'_, T> {
    fn is_null(&self) -> bool {
        self.place.is_null()
    }

    /// Dropped if there is no place for it.
    fn put(&self, value: T) {
        if !self.place.is_null() {
            // SAFETY: the caller says that it is a place for such a thing.
            unsafe { self.place.write(value) };
        }
    }
}

/// A text that the library allocates, and the caller gives back.
#[repr(transparent)]
struct OwnedText(*mut c_char);

impl OwnedText {
    const NONE: Self = Self(ptr::null_mut());

    /// A zero byte, which would end it, becomes U+FFFD.
    fn new(text: String) -> Self {
        let text = CString::new(text).unwrap_or_else(|error| {
            let mended = String::from_utf8_lossy(&error.into_vec()).replace('\0', "\u{fffd}");
            CString::new(mended).unwrap_or_default()
        });
        Self(text.into_raw())
    }
}

impl Drop for OwnedText {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: it was made by `CString::into_raw`, and the caller gives it back once.
            drop(unsafe { CString::from_raw(self.0) });
        }
    }
}

/// A room of the caller for a text and the zero byte behind it.
#[repr(transparent)]
struct Room<'a> {
    first: *mut u8,
    lifetime: PhantomData<&'a mut [u8]>,
}

impl Room<'_> {
    /// Writes the text, or an empty one if there is not enough room for all of it. The length of the text.
    fn write(&self, text: &str, room: usize) -> usize {
        if self.first.is_null() || room == 0 {
            return text.len();
        }
        let written = if text.len() < room { text.as_bytes() } else { &[] };
        // SAFETY: the caller says that there is this much room, which is more than the text takes.
        let place = unsafe { slice::from_raw_parts_mut(self.first, written.len() + 1) };
        place[..written.len()].copy_from_slice(written);
        place[written.len()] = 0;
        text.len()
    }
}

#[unsafe(no_mangle)]
extern "C" fn standpipe_text_free(text: OwnedText) {
    border(|| drop(text));
}

/// The version of the library, as `STANDPIPE_VERSION` of the header it was built with.
#[unsafe(no_mangle)]
extern "C" fn standpipe_version() -> u32 {
    let parts = env!("CARGO_PKG_VERSION").split(['.', '-', '+']).take(3);
    parts.fold(0, |version, part| version * 1_000 + part.parse().unwrap_or(0))
}

#[cfg(test)]
mod tests;
