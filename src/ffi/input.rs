//! Texts and attributes that C passes. Each is read once, within the call.

use std::alloc::{Layout, alloc, dealloc};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
#[cfg(unix)]
use std::ffi::OsStr;
use std::ffi::{CStr, c_char, c_void};
use std::marker::PhantomData;
#[cfg(unix)]
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::{ptr, slice, str};

use crate::record::Value;

/// A length that says: the text ends before its first zero byte.
const NUL_TERMINATED: usize = usize::MAX;
/// More than the deepest value that is written; one that is deeper, or contains itself, is not looked into.
const DEEPEST: usize = 32;
/// More than a request may have; a value whose lists within lists have more bytes, as lists do that share others, is not
/// looked into either.
const MAX_NESTED_BYTES: usize = 4 << 20;

/// A text from C that ends before its first zero byte. Null is no text.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct Chars<'a> {
    first: *const c_char,
    lifetime: PhantomData<&'a [u8]>,
}

impl<'a> Chars<'a> {
    pub(super) fn is_null(self) -> bool {
        self.first.is_null()
    }

    #[inline(always)]
    pub(super) fn bytes(self) -> Option<&'a [u8]> {
        if self.first.is_null() {
            return None;
        }
        // SAFETY: the caller says that there is a zero byte, and that nothing changes before it within the call.
        Some(unsafe { CStr::from_ptr(self.first) }.to_bytes())
    }

    /// An empty text if there is none.
    #[inline(always)]
    pub(super) fn text(self) -> Cow<'a, str> {
        mended(self.bytes().unwrap_or_default())
    }

    /// The name of a file; any bytes where the system allows them.
    pub(super) fn path(self) -> Option<PathBuf> {
        #[cfg(unix)]
        return Some(PathBuf::from(OsStr::from_bytes(self.bytes()?)));
        #[cfg(not(unix))]
        Some(PathBuf::from(&*self.option()?))
    }

    /// `None` if there is none.
    pub(super) fn option(self) -> Option<Cow<'a, str>> {
        self.bytes().map(mended)
    }
}

/// The first of several things that C has in a row. Null is none, whatever their number.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct First<'a, T> {
    first: *const T,
    lifetime: PhantomData<&'a [T]>,
}

impl<'a, T> First<'a, T> {
    /// All of them. None if there cannot be as many.
    #[inline]
    pub(super) fn all(self, count: usize) -> &'a [T] {
        let fits = count.checked_mul(size_of::<T>()).is_some_and(|bytes| bytes <= isize::MAX as usize);
        if self.first.is_null() || !fits {
            return &[];
        }
        // SAFETY: the caller says that there are this many, and that they do not change within the call; a row of them is not
        // larger than any object may be.
        unsafe { slice::from_raw_parts(self.first, count) }
    }
}

impl<'a> First<'a, u8> {
    /// `None` if there is none.
    #[inline(always)]
    pub(super) fn option(self, len: usize) -> Option<Cow<'a, str>> {
        (!self.first.is_null()).then(|| self.text(len))
    }

    /// The text of this length; an empty one if there is none.
    #[inline(always)]
    pub(super) fn text(self, len: usize) -> Cow<'a, str> {
        mended(self.bytes(len))
    }

    #[inline(always)]
    fn bytes(self, len: usize) -> &'a [u8] {
        match len {
            NUL_TERMINATED => {
                Chars { first: self.first.cast(), lifetime: PhantomData }.bytes().unwrap_or_default()
            }
            len => self.all(len),
        }
    }
}

/// The text, with U+FFFD for what is not UTF-8.
#[inline(always)]
fn mended(bytes: &[u8]) -> Cow<'_, str> {
    if is_ascii(bytes) {
        // SAFETY: ASCII is UTF-8.
        return Cow::Borrowed(unsafe { str::from_utf8_unchecked(bytes) });
    }
    not_ascii(bytes)
}

#[cold]
#[inline(never)]
fn not_ascii(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

/// The standard library's takes three times as long for the few bytes that keys and values have.
#[inline(always)]
fn is_ascii(bytes: &[u8]) -> bool {
    const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
    let (mut bits, mut rest) = (0, bytes);
    while let Some((word, after)) = rest.split_first_chunk::<8>() {
        bits |= u64::from_ne_bytes(*word);
        rest = after;
    }
    // the last word overlaps the one before it
    bits |= match bytes.last_chunk::<8>() {
        Some(word) => u64::from_ne_bytes(*word),
        None => rest.iter().fold(0, |bits, byte| bits | u64::from(*byte)),
    };
    bits & HIGH_BITS == 0
}

/// `standpipe_text`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Text<'a> {
    pub(super) first: First<'a, u8>,
    pub(super) len: usize,
}

/// `standpipe_value`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct AnyValue<'a> {
    pub(super) kind: u32,
    pub(super) reserved: u32,
    pub(super) content: Content<'a>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) union Content<'a> {
    pub(super) text: Text<'a>,
    pub(super) list: List,
    pub(super) int: i64,
    pub(super) double: f64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct List {
    pub(super) first: *const c_void,
    pub(super) len: usize,
}

/// `standpipe_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Attribute<'a> {
    pub(super) key: Text<'a>,
    pub(super) value: AnyValue<'a>,
}

/// The kinds of a value; the header has the same numbers.
mod kind {
    pub(super) const STR: u32 = 1;
    pub(super) const INT: u32 = 2;
    pub(super) const DOUBLE: u32 = 3;
    pub(super) const BOOL: u32 = 4;
    pub(super) const BYTES: u32 = 5;
    pub(super) const STRS: u32 = 6;
    pub(super) const INTS: u32 = 7;
    pub(super) const DOUBLES: u32 = 8;
    pub(super) const BOOLS: u32 = 9;
    pub(super) const ARRAY: u32 = 10;
    pub(super) const MAP: u32 = 11;
}

/// Keeps what had to be made of attributes: mended texts, and the insides of lists. Most need nothing.
#[derive(Default)]
pub(super) struct Arena {
    kept: RefCell<Vec<(*mut u8, Layout)>>,
    /// Bytes of all lists within lists.
    nested: Cell<usize>,
}

impl Arena {
    /// All attributes that have a value.
    #[inline]
    pub(super) fn attributes<'a>(
        &'a self,
        attributes: First<'a, Attribute<'a>>,
        count: usize,
    ) -> impl Iterator<Item = (&'a str, Value<'a>)> {
        let all = attributes.all(count).iter();
        all.filter_map(|attribute| Some((self.text(attribute.key), self.value(&attribute.value)?)))
    }

    #[inline(always)]
    fn text<'a>(&'a self, text: Text<'a>) -> &'a str {
        match text.first.text(text.len) {
            Cow::Borrowed(text) => text,
            Cow::Owned(text) => self.keep_text(&text),
        }
    }

    /// `None` for a value of no kind.
    #[inline]
    pub(super) fn value<'a>(&'a self, value: &AnyValue<'a>) -> Option<Value<'a>> {
        // SAFETY: the kind says which part of the content the caller has set; all of its bytes are there in any case, and any
        // bytes are a number.
        unsafe {
            Some(match value.kind {
                kind::STR => Value::Str(self.text(value.content.text)),
                kind::INT => Value::Int(value.content.int),
                kind::DOUBLE => Value::Float(value.content.double),
                kind::BOOL => Value::Bool(value.content.int != 0),
                other => {
                    self.nested.set(0);
                    let list = self.list(other, value.content.list, 1);
                    return if self.nested.get() <= MAX_NESTED_BYTES { list } else { Some(self.too_deep()) };
                }
            })
        }
    }

    #[cold]
    #[inline(never)]
    fn list<'a>(&'a self, kind: u32, list: List, depth: usize) -> Option<Value<'a>> {
        if depth > 1 {
            self.nested.set(self.nested.get().saturating_add(list.bytes(kind)));
        }
        if self.nested.get() > MAX_NESTED_BYTES {
            return None;
        }
        let element = |value: &AnyValue<'a>| match value.kind {
            // not by `value`, which counts anew
            0 => None,
            // what does not fit makes the whole value too deep, so that it is left out and counted
            kind::BYTES.. => {
                // SAFETY: as in `value`.
                self.list(value.kind, unsafe { value.content.list }, depth + 1)
            }
            _ => self.value(value),
        };
        Some(match kind {
            kind::BYTES => Value::Bytes(list.all::<u8>()),
            kind::INTS => Value::Ints(list.all::<i64>()),
            kind::DOUBLES => Value::Floats(list.all::<f64>()),
            // read as bytes: any but zero is true
            kind::BOOLS => Value::Bools(self.keep(list.all::<u8>().iter().map(|byte| *byte != 0).collect())),
            kind::STRS => {
                Value::Strs(self.keep(list.all::<Text<'a>>().iter().map(|text| self.text(*text)).collect()))
            }
            kind::ARRAY if depth < DEEPEST => {
                Value::Array(self.keep(list.all::<AnyValue<'a>>().iter().filter_map(element).collect()))
            }
            kind::MAP if depth < DEEPEST => {
                let entry = |entry: &Attribute<'a>| Some((self.text(entry.key), element(&entry.value)?));
                Value::Map(self.keep(list.all::<Attribute<'a>>().iter().filter_map(entry).collect()))
            }
            kind::ARRAY | kind::MAP => Value::Array(&[]),
            _ => return None,
        })
    }

    /// Stands for a value that is not looked into: the record leaves it out and counts it.
    fn too_deep(&self) -> Value<'_> {
        (0..DEEPEST).fold(Value::Array(&[]), |inner, _| Value::Array(self.keep(vec![inner])))
    }

    fn keep_text(&self, text: &str) -> &str {
        // SAFETY: the bytes are those of a text.
        unsafe { str::from_utf8_unchecked(self.keep(text.as_bytes().to_vec())) }
    }

    /// Keeps items as long as the arena.
    fn keep<T: Copy>(&self, items: Vec<T>) -> &[T] {
        let layout = Layout::for_value(items.as_slice());
        if layout.size() == 0 {
            return &[];
        }
        // SAFETY: the layout has a size, and fits the items. They have no destructor, do not move, and are freed with the arena.
        unsafe {
            let place = alloc(layout);
            if place.is_null() {
                return &[];
            }
            self.kept.borrow_mut().push((place, layout));
            ptr::copy_nonoverlapping(items.as_ptr(), place.cast::<T>(), items.len());
            slice::from_raw_parts(place.cast::<T>(), items.len())
        }
    }
}

impl Drop for Arena {
    #[inline]
    fn drop(&mut self) {
        for (place, layout) in self.kept.get_mut().drain(..) {
            // SAFETY: it was allocated with this layout, and nothing borrows it any more.
            unsafe { dealloc(place, layout) };
        }
    }
}

impl List {
    fn bytes(self, kind: u32) -> usize {
        let each = match kind {
            kind::BYTES | kind::BOOLS => 1,
            kind::INTS | kind::DOUBLES => 8,
            _ => size_of::<AnyValue<'_>>(),
        };
        self.len.saturating_mul(each)
    }

    fn all<'a, T>(self) -> &'a [T] {
        First { first: self.first.cast::<T>(), lifetime: PhantomData }.all(self.len)
    }
}
