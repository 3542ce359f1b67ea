//! Encodes one attribute as OTLP `KeyValue` with an `AnyValue`, and cuts the value to its limit while writing.

use super::Value;
use super::buffer::{Buffer, Writer, copy_short, field_len};
use super::schema::tag::{AnyValue as tag, ArrayValue as array_value, KeyValue as key_value};
use super::wire::{decode_varint, encoded_len_varint};

/// Maximum nesting depth of a value; a deeper value is not written. Decoders refuse a request with more than 100
/// nested levels of messages. The `AnyValue` of an event's attribute is at level 6 below the request. Each map adds
/// three levels, and a list of strings in the innermost map adds two: 6 + 30 × 3 + 2 = 98.
pub(crate) const MAX_DEPTH: usize = 30;

/// An attribute that is about to be written: its size is known, and its value is cut to the limit while writing.
#[derive(Clone, Copy)]
pub(crate) struct Attribute<'a> {
    key: &'a str,
    value: Value<'a>,
    longest: Longest,
    value_len: usize,
    body_len: usize,
}

/// Maximum number of characters of a string, and of bytes of a byte value; `None` without a limit.
type Longest = Option<usize>;

impl<'a> Attribute<'a> {
    /// Makes an attribute, or returns `None` if it must not be sent: its key is empty, or its value is nested too
    /// deeply.
    #[inline]
    pub(crate) fn new(key: &'a str, value: Value<'a>, longest: Longest) -> Option<Self> {
        if key.is_empty() || is_too_deep(&value) {
            return None;
        }
        Some(Self::unchecked(key, value, longest))
    }

    /// Makes an attribute without checking its key and its value.
    #[inline]
    pub(super) fn unchecked(key: &'a str, value: Value<'a>, longest: Longest) -> Self {
        let value_len = value_len(&value, longest);
        let body_len = field_len(key.len()) + field_len(value_len);
        Self { key, value, longest, value_len, body_len }
    }

    pub(super) fn to_field(self, tag: u8) -> Vec<u8> {
        let mut field = vec![0; self.field_len()];
        self.write(tag, &mut Writer::over(&mut field));
        field
    }

    /// Returns the size of the whole field, including its one-byte tag.
    #[inline]
    pub(crate) fn field_len(&self) -> usize {
        field_len(self.body_len)
    }

    #[inline]
    pub(crate) fn write(&self, tag: u8, out: &mut Writer<'_>) {
        out.byte(tag);
        out.varint(self.body_len as u64);
        out.field(key_value::key, self.key.as_bytes());
        out.byte(key_value::value);
        out.varint(self.value_len as u64);
        write_value(&self.value, self.longest, out);
    }
}

/// Appends a value that is not part of an attribute, such as the body of a log record. It is not cut. Returns false if
/// the value is nested too deeply.
#[inline]
pub(super) fn put_value(tag: u8, value: Value<'_>, buffer: &mut Buffer) -> bool {
    let is_sendable = !is_too_deep(&value);
    if is_sendable {
        let len = value_len(&value, None);
        if let Some(mut out) = buffer.claim(field_len(len)) {
            out.byte(tag);
            out.varint(len as u64);
            write_value(&value, None, &mut out);
        }
    }
    is_sendable
}

/// The fast path writes only attributes that are smaller than this: in these, each length takes one byte.
pub(super) const SHORT: usize = 0x80;

/// A value that is written on the fast path.
pub(super) trait ShortValue: Copy {
    /// Returns the size of the whole `value` field of a `KeyValue`, or `None` if it is larger than `room`.
    fn field_len_within(self, room: usize) -> Option<usize>;

    /// Writes the whole `value` field, which has this size.
    fn write(self, field_len: usize, out: &mut [u8]);
}

impl ShortValue for &str {
    #[inline(always)]
    fn field_len_within(self, room: usize) -> Option<usize> {
        // The comparison precedes the addition, so that the compiler knows that the sum does not overflow.
        if self.len() <= room.checked_sub(4)? { Some(4 + self.len()) } else { None }
    }

    #[inline(always)]
    fn write(self, _: usize, out: &mut [u8]) {
        // The tags and lengths in front of the text, as one number. Both lengths are below 0x80, so no byte overflows.
        const FIXED: u32 = u32::from_le_bytes([key_value::value, 2, tag::string_value, 0]);
        put(out, 0, (self.len() as u32).wrapping_mul(0x0100_0100).wrapping_add(FIXED).to_le_bytes());
        if let Some(place) = out.get_mut(4..4 + self.len()) {
            copy_short(self.as_bytes(), place);
        }
    }
}

impl ShortValue for bool {
    #[inline(always)]
    fn field_len_within(self, room: usize) -> Option<usize> {
        (room >= 4).then_some(4)
    }

    #[inline(always)]
    fn write(self, _: usize, out: &mut [u8]) {
        put(out, 0, [key_value::value, 2, tag::bool_value, u8::from(self)]);
    }
}

impl ShortValue for i64 {
    #[inline(always)]
    fn field_len_within(self, room: usize) -> Option<usize> {
        let len = 3 + encoded_len_varint(self as u64);
        (len <= room).then_some(len)
    }

    #[inline(always)]
    fn write(self, field_len: usize, out: &mut [u8]) {
        put(out, 0, [key_value::value, field_len as u8 - 2, tag::int_value]);
        Writer::over(&mut out[3..]).varint(self as u64);
    }
}

/// An integer whose varint has one or two bytes: it is written without a loop.
#[derive(Clone, Copy)]
pub(super) struct SmallInt(pub(super) u16);

impl ShortValue for SmallInt {
    #[inline(always)]
    fn field_len_within(self, room: usize) -> Option<usize> {
        // Requires room for the longer form, so that the test does not depend on the number and is a constant if the
        // key is a literal.
        (room >= 5).then_some(if self.0 < 0x80 { 4 } else { 5 })
    }

    #[inline(always)]
    fn write(self, _: usize, out: &mut [u8]) {
        match self.0 {
            small @ 0..0x80 => put(out, 0, [key_value::value, 2, tag::int_value, small as u8]),
            number => {
                put(out, 0, [key_value::value, 3, tag::int_value, number as u8 | 0x80, (number >> 7) as u8])
            }
        }
    }
}

impl ShortValue for f64 {
    #[inline(always)]
    fn field_len_within(self, room: usize) -> Option<usize> {
        (room >= 11).then_some(11)
    }

    #[inline(always)]
    fn write(self, _: usize, out: &mut [u8]) {
        put(out, 0, [key_value::value, 9, tag::double_value]);
        put(out, 3, self.to_bits().to_le_bytes());
    }
}

/// Writes bytes at a position, or nothing if they do not fit.
#[inline(always)]
fn put<const COUNT: usize>(out: &mut [u8], at: usize, bytes: [u8; COUNT]) {
    if let Some(place) = out.get_mut(at..at + COUNT).and_then(|place| place.first_chunk_mut()) {
        *place = bytes;
    }
}

/// Returns the size of the `value` field of an attribute that [`write_short`] can write, otherwise `None`.
#[inline(always)]
pub(super) fn short_value_len(key: &str, value: impl ShortValue) -> Option<usize> {
    value.field_len_within((SHORT - 5).checked_sub(key.len())?)
}

/// Writes an attribute whose lengths all fit into one byte. `value_len` is the result of [`short_value_len`]. The size
/// of `out` is a constant, so the compiler knows that writes at constant positions are within it.
#[inline(always)]
pub(super) fn write_short(
    tag: u8,
    key: &str,
    value: impl ShortValue,
    value_len: usize,
    out: &mut [u8; SHORT],
) {
    let (key_len, fields) = (key.len(), 2 + key.len() + value_len);
    let fixed = u32::from_le_bytes([tag, 0, key_value::key, key_len as u8]);
    put(out, 0, (fixed | (fields as u32) << 8).to_le_bytes());
    if let Some((key_place, rest)) = out[4..].split_at_mut_checked(key_len) {
        copy_short(key.as_bytes(), key_place);
        value.write(value_len, rest);
    }
}

/// Like [`write_short`], for a key that was encoded before. The first 4 + `key_len` bytes of `head` are the field up to
/// the end of its key. This function sets the length of the field.
#[cfg(feature = "tracing")]
#[inline(always)]
pub(super) fn write_short_behind(
    head: &[u8; 32],
    key_len: usize,
    value: impl ShortValue,
    value_len: usize,
    out: &mut [u8; SHORT],
) {
    put(out, 0, *head);
    put(out, 1, [(2 + key_len + value_len) as u8]);
    if let Some(rest) = out.get_mut(4 + key_len..) {
        value.write(value_len, rest);
    }
}

/// Returns whether the body of an attribute with one-byte lengths has this key.
#[inline(always)]
pub(super) fn is_short_with_key(body: &[u8], key: &str) -> bool {
    match body {
        [_, len, rest @ ..] => usize::from(*len) == key.len() && rest.starts_with(key.as_bytes()),
        _ => false,
    }
}

/// Returns the key in the body of an attribute with one-byte lengths.
#[inline]
pub(super) fn key_of_short(body: &[u8]) -> &[u8] {
    match body {
        [_, len, rest @ ..] => rest.get(..usize::from(*len)).unwrap_or_default(),
        _ => &[],
    }
}

/// Returns the key of an attribute field that [`Attribute::write`] or [`write_short`] has written.
pub(super) fn key_of_field(field: &[u8]) -> &[u8] {
    let key = || {
        let mut rest = field.get(1..)?;
        decode_varint(&mut rest)?;
        // The length of the attribute is read; the tag and the length of its key follow.
        rest = rest.get(1..)?;
        let length = decode_varint(&mut rest)?;
        rest.get(..usize::try_from(length).ok()?)
    };
    key().unwrap_or_default()
}

/// A length above every limit, small enough that the sum of a few such lengths does not overflow.
const TOO_LONG: usize = usize::MAX / 16;

/// Returns whether a value is nested deeper than decoders accept.
#[inline]
pub(super) fn is_too_deep(value: &Value<'_>) -> bool {
    matches!(value, Value::Array(_) | Value::Map(_)) && !shallow(value, MAX_DEPTH)
}

fn shallow(value: &Value<'_>, depth: usize) -> bool {
    match value {
        Value::Array(values) => depth > 0 && values.iter().all(|value| shallow(value, depth - 1)),
        Value::Map(entries) => depth > 0 && entries.iter().all(|(_, value)| shallow(value, depth - 1)),
        _ => true,
    }
}

/// Returns the size of the `AnyValue` message itself. Zero and empty values are written as well, because the field
/// shows the kind of the value. Always inlined: a call would cost as much as the computation.
#[inline(always)]
fn value_len(value: &Value<'_>, longest: Longest) -> usize {
    match value {
        Value::Str(text) => field_len(cut(text, longest).len()),
        Value::Bool(_) => 2,
        Value::Int(number) => 1 + encoded_len_varint(*number as u64),
        Value::Float(_) => 9,
        Value::Bytes(bytes) => field_len(cut_bytes(bytes, longest).len()),
        composite => field_len(composite_len(composite, longest)),
    }
}

// Always inlined: a call would cost as much as the write.
#[inline(always)]
fn write_value(value: &Value<'_>, longest: Longest, out: &mut Writer<'_>) {
    match value {
        Value::Str(text) => out.field(tag::string_value, cut(text, longest).as_bytes()),
        Value::Bool(boolean) => out.put(&[tag::bool_value, u8::from(*boolean)]),
        Value::Int(number) => {
            out.byte(tag::int_value);
            out.varint(*number as u64);
        }
        Value::Float(number) => {
            out.byte(tag::double_value);
            out.fixed64(number.to_bits());
        }
        Value::Bytes(bytes) => out.field(tag::bytes_value, cut_bytes(bytes, longest)),
        composite => {
            out.byte(if matches!(composite, Value::Map(_)) { tag::kvlist_value } else { tag::array_value });
            out.varint(composite_len(composite, longest) as u64);
            write_composite(composite, longest, out);
        }
    }
}

/// Returns the size of the `ArrayValue` or `KeyValueList` message itself. On a 32-bit machine, the size of a list that
/// repeats a text many times may exceed `usize`: the result is then [`TOO_LONG`].
#[inline(never)]
fn composite_len(value: &Value<'_>, longest: Longest) -> usize {
    let mut len = 0;
    match value {
        Value::Map(entries) => last_of_each_key(entries)
            .for_each(|(key, value)| len += Attribute::unchecked(key, *value, longest).field_len() as u64),
        list => for_each_element(list, |value| len += field_len(value_len(&value, longest)) as u64),
    }
    len.min(TOO_LONG as u64) as usize
}

#[inline(never)]
fn write_composite(value: &Value<'_>, longest: Longest, out: &mut Writer<'_>) {
    match value {
        Value::Map(entries) => last_of_each_key(entries).for_each(|(key, value)| {
            Attribute::unchecked(key, *value, longest).write(array_value::values, out)
        }),
        list => for_each_element(list, |value| {
            out.byte(array_value::values);
            out.varint(value_len(&value, longest) as u64);
            write_value(&value, longest, out);
        }),
    }
}

fn for_each_element(list: &Value<'_>, mut each: impl FnMut(Value<'_>)) {
    match list {
        Value::Array(values) => values.iter().for_each(|value| each(*value)),
        Value::Strs(values) => values.iter().for_each(|text| each(Value::Str(text))),
        Value::Bools(values) => values.iter().for_each(|boolean| each(Value::Bool(*boolean))),
        Value::Ints(values) => values.iter().for_each(|number| each(Value::Int(*number))),
        Value::Floats(values) => values.iter().for_each(|number| each(Value::Float(*number))),
        _ => {}
    }
}

fn last_of_each_key<'s, 'a>(
    entries: &'s [(&'a str, Value<'a>)],
) -> impl Iterator<Item = &'s (&'a str, Value<'a>)> {
    entries
        .iter()
        .enumerate()
        .filter(|(index, (key, _))| entries[index + 1..].iter().all(|(later, _)| later != key))
        .map(|(_, entry)| entry)
}

#[inline]
fn cut(text: &str, longest: Longest) -> &str {
    match longest {
        // A text has at most as many characters as bytes, so a shorter text is not searched.
        Some(characters) if text.len() > characters => match text.char_indices().nth(characters) {
            Some((end, _)) => &text[..end],
            None => text,
        },
        _ => text,
    }
}

#[inline]
fn cut_bytes(bytes: &[u8], longest: Longest) -> &[u8] {
    &bytes[..longest.map_or(bytes.len(), |longest| longest.min(bytes.len()))]
}
