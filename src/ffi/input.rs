//! Texts and attributes from C. Each is read once, before the called function returns.

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

/// Special length of a text that ends with a zero byte.
const NUL_TERMINATED: usize = usize::MAX;
/// Maximum nesting depth of a value. It is greater than the depth that records accept, and ends the traversal of a
/// value that contains itself.
const MAX_DEPTH: usize = 32;
/// Maximum size of all nested lists in a value, larger than the default `batch-bytes`. Without a maximum, lists that
/// share sublists could expand exponentially.
const MAX_NESTED_BYTES: usize = 4 << 20;

/// A zero-terminated text from C, or null.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct CText<'a> {
    first: *const c_char,
    lifetime: PhantomData<&'a [u8]>,
}

impl<'a> CText<'a> {
    pub(super) fn is_null(self) -> bool {
        self.first.is_null()
    }

    #[inline(always)]
    pub(super) fn bytes(self) -> Option<&'a [u8]> {
        if self.first.is_null() {
            return None;
        }
        // SAFETY: the caller guarantees a zero byte, and that the text does not change within the call.
        Some(unsafe { CStr::from_ptr(self.first) }.to_bytes())
    }

    /// Returns the text, or an empty text for null.
    #[inline(always)]
    pub(super) fn text(self) -> Cow<'a, str> {
        lossy_text(self.bytes().unwrap_or_default())
    }

    /// Returns the text as a path, or `None` for null. On Unix, a path may contain any bytes.
    pub(super) fn path(self) -> Option<PathBuf> {
        #[cfg(unix)]
        return Some(PathBuf::from(OsStr::from_bytes(self.bytes()?)));
        #[cfg(not(unix))]
        Some(PathBuf::from(&*self.option()?))
    }

    /// Returns the text, or `None` for null.
    pub(super) fn option(self) -> Option<Cow<'a, str>> {
        self.bytes().map(lossy_text)
    }
}

/// A pointer to the first element of a C array. If the pointer is null, the array is empty, whatever its length is.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct CArray<'a, T> {
    first: *const T,
    lifetime: PhantomData<&'a [T]>,
}

impl<'a, T> CArray<'a, T> {
    /// Returns the elements, or an empty slice for null or an impossible length.
    #[inline]
    pub(super) fn all(self, count: usize) -> &'a [T] {
        let fits = count.checked_mul(size_of::<T>()).is_some_and(|bytes| bytes <= isize::MAX as usize);
        if self.first.is_null() || !fits {
            return &[];
        }
        // SAFETY: the caller guarantees this many elements, and that they do not change within the call. The check
        // above ensures that their size fits into `isize`.
        unsafe { slice::from_raw_parts(self.first, count) }
    }
}

impl<'a> CArray<'a, u8> {
    /// Returns the text of this length, or `None` for null.
    #[inline(always)]
    pub(super) fn option(self, len: usize) -> Option<Cow<'a, str>> {
        (!self.first.is_null()).then(|| self.text(len))
    }

    /// Returns the text of this length, or an empty text for null.
    #[inline(always)]
    pub(super) fn text(self, len: usize) -> Cow<'a, str> {
        lossy_text(self.bytes(len))
    }

    #[inline(always)]
    fn bytes(self, len: usize) -> &'a [u8] {
        match len {
            NUL_TERMINATED => {
                CText { first: self.first.cast(), lifetime: PhantomData }.bytes().unwrap_or_default()
            }
            len => self.all(len),
        }
    }
}

/// Returns the text, with U+FFFD in place of invalid UTF-8.
#[inline(always)]
fn lossy_text(bytes: &[u8]) -> Cow<'_, str> {
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

/// Returns whether all bytes are ASCII. For short keys and values, this takes a third of the time of the standard
/// library's check.
#[inline(always)]
fn is_ascii(bytes: &[u8]) -> bool {
    const HIGH_BITS: u64 = 0x8080_8080_8080_8080;
    let (mut bits, mut rest) = (0, bytes);
    while let Some((word, after)) = rest.split_first_chunk::<8>() {
        bits |= u64::from_ne_bytes(*word);
        rest = after;
    }
    // The last word may overlap the previous one, so only texts of less than eight bytes need a loop over the bytes.
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
    pub(super) first: CArray<'a, u8>,
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

pub(super) type AttributeArray<'a> = CArray<'a, Attribute<'a>>;

/// Calls `set` with each attribute that has a valid value.
#[inline]
pub(super) fn each_attribute(
    attributes: AttributeArray<'_>,
    count: usize,
    mut set: impl FnMut(&str, Value<'_>),
) {
    Arena::default().attributes(attributes, count).for_each(|(key, value)| set(key, value));
}

/// The kinds of a value, with the numbers of the header.
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

/// An arena for converted parts of attributes: texts with replaced bytes, and the elements of lists. Most attributes
/// need no conversion.
#[derive(Default)]
pub(super) struct Arena {
    kept: RefCell<Vec<(*mut u8, Layout)>>,
    /// Total size of all nested lists in the value that is being converted.
    nested: Cell<usize>,
}

impl Arena {
    /// Returns all attributes with a valid value.
    #[inline]
    pub(super) fn attributes<'a>(
        &'a self,
        attributes: AttributeArray<'a>,
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

    /// Converts a value; `None` if its kind is unknown.
    #[inline]
    pub(super) fn value<'a>(&'a self, value: &AnyValue<'a>) -> Option<Value<'a>> {
        // SAFETY: the kind determines the field of the union that the caller has set. All bytes of the union are
        // initialized, and every bit pattern is a valid number.
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
            // A zeroed value is left out here: the method `value` would treat it as a list and reset `nested` to 0.
            0 => None,
            // If an element exceeds a limit, the whole value is returned as too deep, so that the record drops and
            // counts the attribute.
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
            // Read as bytes, because a C `bool` may contain values other than 0 and 1. Every byte but zero is true.
            kind::BOOLS => Value::Bools(self.keep(list.all::<u8>().iter().map(|byte| *byte != 0).collect())),
            kind::STRS => {
                Value::Strs(self.keep(list.all::<Text<'a>>().iter().map(|text| self.text(*text)).collect()))
            }
            kind::ARRAY if depth < MAX_DEPTH => {
                Value::Array(self.keep(list.all::<AnyValue<'a>>().iter().filter_map(element).collect()))
            }
            kind::MAP if depth < MAX_DEPTH => {
                let entry = |entry: &Attribute<'a>| Some((self.text(entry.key), element(&entry.value)?));
                Value::Map(self.keep(list.all::<Attribute<'a>>().iter().filter_map(entry).collect()))
            }
            kind::ARRAY | kind::MAP => Value::Array(&[]),
            _ => return None,
        })
    }

    /// Returns a value that is too deep for any record, which then drops and counts the attribute.
    fn too_deep(&self) -> Value<'_> {
        (0..MAX_DEPTH).fold(Value::Array(&[]), |inner, _| Value::Array(self.keep(vec![inner])))
    }

    fn keep_text(&self, text: &str) -> &str {
        // SAFETY: the bytes were copied from a valid `str`.
        unsafe { str::from_utf8_unchecked(self.keep(text.as_bytes().to_vec())) }
    }

    /// Copies items into the arena.
    fn keep<T: Copy>(&self, items: Vec<T>) -> &[T] {
        let layout = Layout::for_value(items.as_slice());
        if layout.size() == 0 {
            return &[];
        }
        // SAFETY: the layout is not empty and fits the items. They have no destructor, do not move, and are freed with
        // the arena.
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
            // SAFETY: the block was allocated with this layout, and nothing borrows from the arena anymore.
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
        CArray { first: self.first.cast::<T>(), lifetime: PhantomData }.all(self.len)
    }
}
