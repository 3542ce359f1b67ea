//! Attributes and keys that are known before the record: bridges encode and hash those of a call site once.

use super::AttributeWriter;
use crate::record::Value;
use crate::record::buffer::Buffer;
use crate::record::key_filter::KeyFilter;
#[cfg(feature = "tracing")]
use crate::record::{HashedKey, SpanRecord, span::tag};

/// Attributes that many records have alike, encoded once: setting all of them takes a copy and two tests.
#[derive(Debug, Default)]
pub(crate) struct EncodedAttributes {
    /// Fields under the tag of an attribute of the record.
    bytes: Box<[u8]>,
    keys: KeyFilter,
    /// Bytes of the longest string value. A record with a lower limit has to cut it.
    longest: usize,
}

impl EncodedAttributes {
    /// `None` if two keys share a bit of the filter, so that the bits do not count the attributes.
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
    /// Sets several attributes of the record at once. Returns false, and sets none, if a key may be set already, a value is
    /// too long, or the attributes have to be counted.
    #[inline]
    pub(in crate::record) fn put_encoded(&mut self, attributes: &EncodedAttributes) -> bool {
        if attributes.longest > self.value_length || !self.fields.seen.add_new(&attributes.keys) {
            return false;
        }
        if let Some(mut out) = self.buffer.claim(attributes.bytes.len()) {
            out.put(&attributes.bytes);
        }
        true
    }
}

#[cfg(feature = "tracing")]
impl SpanRecord {
    /// Sets an attribute before any event or link, so that none can be open, and while copies are paused.
    #[inline(always)]
    pub(crate) fn set_at_start(&mut self, key: HashedKey, value: Value<'_>) {
        self.attributes.put_hashed(key.name, key.bit, value);
    }

    /// As [`set_at_start`](Self::set_at_start), for attributes that were encoded before. Returns false, and sets none, if they
    /// have to be set one by one.
    #[inline]
    pub(crate) fn set_encoded_at_start(&mut self, attributes: &EncodedAttributes) -> bool {
        self.attributes.put_encoded(attributes)
    }

    /// Encodes attributes for many spans; `None` if they have to be set one by one.
    pub(crate) fn encode(attributes: &[(&str, Value<'_>)]) -> Option<EncodedAttributes> {
        EncodedAttributes::new(tag::ATTRIBUTE, attributes)
    }
}
