//! Encodes one attribute as OTLP `KeyValue` with an `AnyValue`, and cuts the value to its limit while writing.

use super::Value;
use super::buffer::{Writer, field_len};
use super::wire::{decode_varint, encoded_len_varint};

/// Maximum nesting depth of a value; a deeper value is not written. Decoders refuse a request with more than 100
/// nested levels of messages. The messages around the value of an event's attribute take six levels, each map takes
/// three, and a list of strings in the innermost map takes two: 6 + 30 × 3 + 2 = 98.
pub(crate) const MAX_DEPTH: usize = 30;

/// Tags of `AnyValue` and of its parts.
mod tag {
    pub(super) const STRING: u8 = 0x0a;
    pub(super) const BOOL: u8 = 0x10;
    pub(super) const INT: u8 = 0x18;
    pub(super) const DOUBLE: u8 = 0x21;
    pub(super) const ARRAY: u8 = 0x2a;
    pub(super) const MAP: u8 = 0x32;
    pub(super) const BYTES: u8 = 0x3a;
    /// `ArrayValue.values` and `KeyValueList.values`.
    pub(super) const ELEMENT: u8 = 0x0a;
    pub(super) const KEY: u8 = 0x0a;
    pub(super) const VALUE: u8 = 0x12;
}

/// An attribute that is about to be written: its size is known, and its value is cut to the limit while writing.
#[derive(Clone, Copy)]
pub(crate) struct Attribute<'a> {
    key: &'a str,
    value: Value<'a>,
    longest: Longest,
    value_len: usize,
    body_len: usize,
}

/// Maximum number of characters of a string, and of bytes of a byte value.
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

    /// Returns the encoded field.
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
        out.field(tag::KEY, self.key.as_bytes());
        out.byte(tag::VALUE);
        out.varint(self.value_len as u64);
        write_value(&self.value, self.longest, out);
    }
}

/// A value that is not part of an attribute, such as the body of a log record. It is not cut.
#[derive(Clone, Copy)]
pub(super) struct AnyValue<'a> {
    value: Value<'a>,
    len: usize,
}

impl<'a> AnyValue<'a> {
    /// Computes the size of the value, or returns `None` if the value is nested too deeply.
    #[inline]
    pub(super) fn new(value: Value<'a>) -> Option<Self> {
        if is_too_deep(&value) {
            return None;
        }
        Some(Self { value, len: value_len(&value, None) })
    }

    /// Returns the size of the whole field, including its one-byte tag.
    #[inline]
    pub(super) fn field_len(&self) -> usize {
        field_len(self.len)
    }

    #[inline]
    pub(super) fn write(&self, tag: u8, out: &mut Writer<'_>) {
        out.byte(tag);
        out.varint(self.len as u64);
        write_value(&self.value, None, out);
    }
}

/// A value that is written on the fast path. All its lengths must fit into one byte, which the caller checks with
/// [`field_len`](ShortValue::field_len).
pub(super) trait ShortValue: Copy {
    /// Returns the size of the whole `value` field of a `KeyValue`.
    fn field_len(self) -> usize;

    /// Writes the whole `value` field.
    fn write(self, out: &mut Writer<'_>);
}

impl ShortValue for &str {
    #[inline(always)]
    fn field_len(self) -> usize {
        4 + self.len()
    }

    #[inline(always)]
    fn write(self, out: &mut Writer<'_>) {
        let len = self.len() as u8;
        *out.chunk() = [tag::VALUE, len + 2, tag::STRING, len];
        out.put_short(self.as_bytes());
    }
}

impl ShortValue for bool {
    #[inline(always)]
    fn field_len(self) -> usize {
        4
    }

    #[inline(always)]
    fn write(self, out: &mut Writer<'_>) {
        *out.chunk() = [tag::VALUE, 2, tag::BOOL, u8::from(self)];
    }
}

impl ShortValue for i64 {
    #[inline(always)]
    fn field_len(self) -> usize {
        3 + encoded_len_varint(self as u64)
    }

    #[inline(always)]
    fn write(self, out: &mut Writer<'_>) {
        let head: &mut [u8; 3] = out.chunk();
        // The rest of the claimed bytes is the varint, so its length is known without computing it again.
        *head = [tag::VALUE, 1 + out.room() as u8, tag::INT];
        out.varint(self as u64);
    }
}

/// An integer whose varint has one or two bytes: it is written without a loop.
#[derive(Clone, Copy)]
pub(super) struct SmallInt(pub(super) u16);

impl ShortValue for SmallInt {
    #[inline(always)]
    fn field_len(self) -> usize {
        if self.0 < 0x80 { 4 } else { 5 }
    }

    #[inline(always)]
    fn write(self, out: &mut Writer<'_>) {
        match self.0 {
            small @ 0..0x80 => *out.chunk() = [tag::VALUE, 2, tag::INT, small as u8],
            number => *out.chunk() = [tag::VALUE, 3, tag::INT, number as u8 | 0x80, (number >> 7) as u8],
        }
    }
}

impl ShortValue for f64 {
    #[inline(always)]
    fn field_len(self) -> usize {
        11
    }

    #[inline(always)]
    fn write(self, out: &mut Writer<'_>) {
        *out.chunk() = [tag::VALUE, 9, tag::DOUBLE];
        out.fixed64(self.to_bits());
    }
}

/// Writes an attribute whose lengths all fit into one byte. `out` must have room for exactly the attribute, because the
/// length of the attribute is computed from that room.
#[inline(always)]
pub(super) fn write_short(tag: u8, key: &str, value: impl ShortValue, out: &mut Writer<'_>) {
    let head: &mut [u8; 4] = out.chunk();
    *head = [tag, 2 + out.room() as u8, tag::KEY, key.len() as u8];
    out.put_short(key.as_bytes());
    value.write(out);
}

/// Returns the size of an attribute that [`write_short`] writes.
#[inline(always)]
pub(super) fn short_len(key: &str, value: impl ShortValue) -> usize {
    4 + key.len() + value.field_len()
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
        // Skips tag and length of the attribute, then tag and length of its key.
        let (_, body) = split_length(field.get(1..)?)?;
        let (length, rest) = split_length(body.get(1..)?)?;
        rest.get(..length)
    };
    key().unwrap_or_default()
}

/// Returns the length at the front, and the bytes after it.
fn split_length(mut bytes: &[u8]) -> Option<(usize, &[u8])> {
    let length = decode_varint(&mut bytes)?;
    Some((usize::try_from(length).ok()?, bytes))
}

/// A length above every limit, small enough that a few of them can be added without overflow.
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

/// Returns the size of the `AnyValue` message itself. In a oneof, zero values are written as well, since they show
/// the kind of the value. Always inlined: a call would cost as much as the computation.
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
        Value::Str(text) => out.field(tag::STRING, cut(text, longest).as_bytes()),
        Value::Bool(boolean) => out.put(&[tag::BOOL, u8::from(*boolean)]),
        Value::Int(number) => {
            out.byte(tag::INT);
            out.varint(*number as u64);
        }
        Value::Float(number) => {
            out.byte(tag::DOUBLE);
            out.fixed64(number.to_bits());
        }
        Value::Bytes(bytes) => out.field(tag::BYTES, cut_bytes(bytes, longest)),
        composite => {
            out.byte(if matches!(composite, Value::Map(_)) { tag::MAP } else { tag::ARRAY });
            out.varint(composite_len(composite, longest) as u64);
            write_composite(composite, longest, out);
        }
    }
}

/// Returns the size of the `ArrayValue` or `KeyValueList` message itself. A list that repeats the same text many
/// times may exceed `usize` on a 32-bit machine: the result is then [`TOO_LONG`].
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
        Value::Map(entries) => last_of_each_key(entries)
            .for_each(|(key, value)| Attribute::unchecked(key, *value, longest).write(tag::ELEMENT, out)),
        list => for_each_element(list, |value| {
            out.byte(tag::ELEMENT);
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
        // A text with at most as many bytes as allowed characters is short enough.
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
