//! Attributes that are encoded before the record exists: bridges encode and hash those of a call site once.

use super::AttributeWriter;
use crate::record::Value;
use crate::record::buffer::Buffer;
use crate::record::key_filter::KeyFilter;
#[cfg(feature = "tracing")]
use crate::record::{HashedKey, SpanRecord, span::tag};

/// Attributes that many records share, encoded once. Setting all of them takes a copy and two tests.
#[derive(Debug)]
pub(crate) struct EncodedAttributes {
    /// Encoded fields with the tag of a record's attribute.
    bytes: Box<[u8]>,
    keys: KeyFilter,
    /// Length of the longest string value in bytes. A record with a lower limit has to truncate it.
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
    /// is too long, or the attributes must be counted one by one.
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

#[cfg(feature = "tracing")]
impl SpanRecord {
    /// Sets an attribute while no event or link can be open yet and copies are paused.
    #[inline(always)]
    pub(crate) fn set_at_start(&mut self, key: HashedKey, value: Value<'_>) {
        self.attributes.put_hashed(key.name, key.bit, value);
    }

    /// Like [`set_at_start`](Self::set_at_start), for encoded attributes. Returns false without effect if they must be
    /// set one by one.
    #[inline]
    pub(crate) fn set_encoded_at_start(&mut self, attributes: &EncodedAttributes) -> bool {
        self.attributes.put_encoded(attributes)
    }

    /// Encodes attributes for many spans; `None` if they must be set one by one.
    pub(crate) fn encode(attributes: &[(&str, Value<'_>)]) -> Option<EncodedAttributes> {
        EncodedAttributes::new(tag::ATTRIBUTE, attributes)
    }
}
