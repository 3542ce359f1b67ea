//! The C ABI: the functions of `standpipe.h`. The header documents them for callers, so their documentation is not
//! repeated here.
//!
//! | file | contents |
//! |---|---|
//! | `mod.rs` | result codes, containment of panics, versioned structs, output pointers |
//! | `input.rs` | texts, values and attributes that C passes |
//! | `lifecycle.rs` | start, flush, shutdown; the callback for problems |
//! | `ledger.rs` | the ledger as a struct and as JSON |
//! | `spans.rs`, `context.rs` | tracers and spans; the current span of a thread |
//! | `logs.rs`, `metrics.rs` | log records; instruments |
//!
//! A nullable pointer to one object is an `Option` of a reference or of a `Box`, which has the same layout. Every other
//! pointer has its own type, whose methods contain the `unsafe` code and state the caller's guarantee.

#![allow(unsafe_code, reason = "only the caller can guarantee that a pointer from C is valid")]

/// Defines functions of the header. A function that panics returns the default of its result type.
macro_rules! exported {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block)+) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        extern "C" fn $name($($argument: $type),*) $(-> $result)? {
            $crate::ffi::guarded(|| $body)
        }
    )+};
}

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

/// The result of a function that panicked, which only a bug can cause.
impl Default for Code {
    fn default() -> Self {
        Self::PANICKED
    }
}

thread_local! {
    /// True while a function of the header runs on this thread.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs the body of a function of the header. If the body panics, returns the default of `T`.
#[inline(always)]
fn guarded<T: Default>(work: impl FnOnce() -> T) -> T {
    let before = INSIDE.replace(true);
    let result = contain_panic(work).unwrap_or_default();
    INSIDE.set(before);
    result
}

/// Suppresses the message of panics that this library catches. The previous hook still prints all other panics, such as
/// those of a program's own Rust code.
fn keep_panics_silent() {
    static HOOK: Once = Once::new();
    // `take_hook` panics if this thread is already panicking.
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

/// Returns whether the library would catch a panic of this thread.
fn is_caught() -> bool {
    INSIDE.get() || runs_exporter_code()
}

/// A C struct that begins with its size. Later versions of the header add fields at the end, so the struct of the
/// caller may be shorter or longer than that of the library.
#[repr(transparent)]
struct Versioned<'a, T> {
    place: *mut T,
    lifetime: PhantomData<&'a mut T>,
}

/// A C struct that begins with its size, and for which all zeros are a valid value.
///
/// # Safety
/// The type is `repr(C)`, its first field is a `usize`, and all its fields may be zero.
unsafe trait SizeFirst: Copy {}

impl<T: SizeFirst> Versioned<'_, T> {
    /// Reads the caller's struct. Fields that the caller's version lacks are zero. If the pointer is null, all fields
    /// are zero.
    fn read(&self) -> T {
        // SAFETY: zeros are a valid value, by the contract of `SizeFirst`.
        let mut value = unsafe { mem::zeroed::<T>() };
        if let Some(len) = self.len() {
            // SAFETY: the caller guarantees that its struct has this many bytes, and `value` has at least as many.
            unsafe { ptr::copy_nonoverlapping(self.place.cast::<u8>(), (&raw mut value).cast(), len) };
        }
        value
    }

    /// Writes the fields that the caller's version has. Returns `None` if the pointer is null or the size is too small.
    fn write(&self, value: &T) -> Option<()> {
        let first = size_of::<usize>();
        let len = self.len().filter(|len| *len >= first)?;
        // SAFETY: the caller guarantees that its struct has this many bytes, and `value` has at least as many. The
        // first field, the size, is not overwritten.
        unsafe {
            let (from, to) = ((&raw const *value).cast::<u8>(), self.place.cast::<u8>());
            ptr::copy_nonoverlapping(from.add(first), to.add(first), len - first);
        }
        Some(())
    }

    /// Returns the number of bytes that both versions have, rounded down to the struct's alignment; `None` for null.
    fn len(&self) -> Option<usize> {
        if self.place.is_null() {
            return None;
        }
        // SAFETY: the struct begins with its size, which the caller guarantees to have set.
        let size = unsafe { self.place.cast::<usize>().read() };
        let known = size.min(size_of::<T>());
        Some(known - known % align_of::<T>())
    }
}

/// An output pointer, or null if the caller does not want the value. The previous content is not read.
#[repr(transparent)]
struct Out<'a, T> {
    place: *mut T,
    lifetime: PhantomData<&'a mut T>,
}

impl<T> Out<'_, T> {
    fn is_null(&self) -> bool {
        self.place.is_null()
    }

    /// Writes the value, or drops it if the pointer is null.
    fn put(&self, value: T) {
        if !self.place.is_null() {
            // SAFETY: the caller guarantees that the pointer is valid for writes of this type.
            unsafe { self.place.write(value) };
        }
    }
}

/// A text that the library allocates and the caller returns to `standpipe_text_free`.
#[repr(transparent)]
struct OwnedText(*mut c_char);

impl OwnedText {
    const NONE: Self = Self(ptr::null_mut());

    /// Makes a text. A zero byte, which would end a C string, becomes U+FFFD.
    fn new(text: String) -> Self {
        let text = CString::new(text).unwrap_or_else(|error| {
            let lossy_text = String::from_utf8_lossy(&error.into_vec()).replace('\0', "\u{fffd}");
            CString::new(lossy_text).unwrap_or_default()
        });
        Self(text.into_raw())
    }
}

impl Drop for OwnedText {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the pointer is from `CString::into_raw`, and the caller returns it only once.
            drop(unsafe { CString::from_raw(self.0) });
        }
    }
}

/// A buffer of the caller for a text and its terminating zero byte.
#[repr(transparent)]
struct TextBuffer<'a> {
    first: *mut u8,
    lifetime: PhantomData<&'a mut [u8]>,
}

impl TextBuffer<'_> {
    /// Writes `text`, or an empty text if the buffer is too small. Returns the length of `text` in both cases.
    fn write(&self, text: &str, room: usize) -> usize {
        if self.first.is_null() || room == 0 {
            return text.len();
        }
        let written = if text.len() < room { text.as_bytes() } else { &[] };
        // SAFETY: the caller guarantees `room` bytes, and `written` with its zero byte fits into them.
        let place = unsafe { slice::from_raw_parts_mut(self.first, written.len() + 1) };
        place[..written.len()].copy_from_slice(written);
        place[written.len()] = 0;
        text.len()
    }
}

exported! {
    fn standpipe_text_free(text: OwnedText) {
        drop(text);
    }

    /// Returns the version of the library in the format of `STANDPIPE_VERSION`.
    fn standpipe_version() -> u32 {
        let parts = env!("CARGO_PKG_VERSION").split(['.', '-', '+']).take(3);
        parts.fold(0, |version, part| version * 1_000 + part.parse().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests;
