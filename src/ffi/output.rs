//! How does C get a text? In memory of its own, or in the library's, which it frees by `standpipe_text_free`.

use std::ffi::{CString, c_char};
use std::marker::PhantomData;
use std::{ptr, slice};

/// A place of the caller for one thing; null if it is not wanted. What was there before is not read.
#[repr(transparent)]
pub(super) struct Out<'a, T> {
    place: *mut T,
    lifetime: PhantomData<&'a mut T>,
}

impl<T> Out<'_, T> {
    pub(super) fn is_null(&self) -> bool {
        self.place.is_null()
    }

    /// Dropped if there is no place for it.
    pub(super) fn put(&self, value: T) {
        if !self.place.is_null() {
            // SAFETY: the caller says that it is a place for such a thing.
            unsafe { self.place.write(value) };
        }
    }
}

/// A text that the library allocates, and the caller gives back.
#[repr(transparent)]
pub(super) struct OwnedText(*mut c_char);

impl OwnedText {
    pub(super) const NONE: Self = Self(ptr::null_mut());

    /// A zero byte, which would end it, becomes U+FFFD.
    pub(super) fn new(text: String) -> Self {
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
pub(super) struct Room<'a> {
    first: *mut u8,
    lifetime: PhantomData<&'a mut [u8]>,
}

impl Room<'_> {
    /// Writes the text, or an empty one if there is not enough room for all of it. The length of the text.
    pub(super) fn write(&self, text: &str, room: usize) -> usize {
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

    /// Writes bytes into room that is just as large.
    pub(super) fn write_bytes(&self, bytes: &[u8]) {
        if !self.first.is_null() {
            // SAFETY: the caller says that there is as much room as the header demands.
            unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.first, bytes.len()) };
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn standpipe_text_free(text: OwnedText) {
    super::border(|| drop(text));
}
