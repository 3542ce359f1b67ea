//! Attributes that are encoded before the record exists: bridges encode and hash those of a call site once.

use super::AttributeWriter;
use crate::record::Value;
use crate::record::buffer::Buffer;
use crate::record::key_filter::KeyFilter;
#[cfg(feature = "tracing")]
use crate::record::{
    SpanRecord,
    attribute::{SHORT, ShortValue, SmallInt, short_value_len, write_short, write_short_behind},
    key_filter::KeyBit,
    schema::tag,
};

/// Attributes that many records share, encoded once. Setting all of them takes a copy and two tests.
pub(crate) struct EncodedAttributes {
    /// Encoded fields with the tag of a record's attribute.
    bytes: Box<[u8]>,
    keys: KeyFilter,
    /// Length of the longest string value in bytes. A record with a lower limit may have to truncate it.
    longest: usize,
}

impl EncodedAttributes {
    /// Encodes the attributes. Returns `None` if an attribute is dropped, or if two keys share a bit of the filter:
    /// then the number of bits is not the number of attributes.
    pub(in crate::record) fn new(tag: u8, attributes: &[(&str, Value<'_>)]) -> Option<Self> {
        let mut writer = AttributeWriter::default();
        writer.limit(usize::MAX, None);
        writer.begin(tag, u32::MAX, 0);
        attributes.iter().for_each(|(key, value)| writer.put(key, *value));
        let text_len = |(_, value): &(&str, Value<'_>)| match value {
            Value::Str(text) => text.len(),
            _ => 0,
        };
        let is_counted = writer.fields.more == 0 && writer.dropped == 0;
        is_counted.then(|| Self {
            bytes: writer.buffer.bytes(Buffer::START).into(),
            keys: writer.fields.seen,
            longest: attributes.iter().map(text_len).max().unwrap_or(0),
        })
    }
}

impl AttributeWriter {
    /// Sets several attributes of the record at once. Returns false without effect if a key may be set already, a value
    /// may be too long, or the attributes must be counted one by one.
    #[inline]
    pub(in crate::record) fn put_encoded(&mut self, attributes: &EncodedAttributes) -> bool {
        if attributes.longest > self.value_length || !self.fields.seen.add_new(&attributes.keys) {
            return false;
        }
        // `claim` fails only for a record that outgrows its limit, and such a record is never sent.
        if let Some(mut out) = self.buffer.claim(attributes.bytes.len()) {
            out.put(&attributes.bytes);
        }
        true
    }
}

/// A literal key of a span's attribute, hashed and encoded once for all spans of a call site.
#[cfg(feature = "tracing")]
pub(crate) struct EncodedKey {
    name: &'static str,
    bit: KeyBit,
    /// The first 32 bytes of the field, which contain the whole key; `None` if the key is too long for that.
    head: Option<[u8; 32]>,
}

#[cfg(feature = "tracing")]
impl EncodedKey {
    pub(crate) fn new(name: &'static str) -> Self {
        let mut field = [0; SHORT];
        if let Some(value_len) = short_value_len(name, false) {
            write_short(tag::Span::attributes, name, false, value_len, &mut field);
        }
        let head = field.first_chunk().filter(|head| 4 + name.len() <= head.len());
        Self { name, bit: KeyBit::of(name.as_bytes()), head: head.copied() }
    }
}

#[cfg(feature = "tracing")]
impl AttributeWriter {
    /// Like [`put_short`](Self::put_short), for an encoded key: copies a constant number of bytes.
    #[inline(always)]
    fn put_behind_key(&mut self, key: &EncodedKey, value: impl ShortValue) -> bool {
        let EncodedKey { name, bit, head: Some(head) } = key else { return false };
        let Some(value_len) = short_value_len(name, value) else { return false };
        if self.fields.seen.has(name, *bit) {
            return false;
        }
        let Some(window) = self.buffer.append_window(4 + name.len() + value_len) else { return false };
        write_short_behind(head, name.len(), value, value_len, window);
        self.fields.seen.add(name, *bit);
        true
    }
}

#[cfg(feature = "tracing")]
impl SpanRecord {
    /// Sets an attribute. No event or link may be open yet, and copies must be paused.
    #[inline(always)]
    pub(crate) fn set_at_start(&mut self, key: &EncodedKey, value: Value<'_>) {
        let writer = &mut self.attributes;
        let is_set = match value {
            Value::Str(text) => text.len() <= writer.value_length && writer.put_behind_key(key, text),
            Value::Int(number @ 0..0x4000) => writer.put_behind_key(key, SmallInt(number as u16)),
            Value::Bool(boolean) => writer.put_behind_key(key, boolean),
            _ => false,
        };
        if !is_set {
            writer.put_hashed(key.name, key.bit, value);
        }
    }

    /// Like [`set_at_start`](Self::set_at_start), for encoded attributes. Returns false without effect if they must be
    /// set one by one.
    #[inline]
    pub(crate) fn set_encoded_at_start(&mut self, attributes: &EncodedAttributes) -> bool {
        self.attributes.put_encoded(attributes)
    }

    /// Encodes attributes for many spans; `None` if they must be set one by one.
    pub(crate) fn encode(attributes: &[(&str, Value<'_>)]) -> Option<EncodedAttributes> {
        EncodedAttributes::new(tag::Span::attributes, attributes)
    }
}
