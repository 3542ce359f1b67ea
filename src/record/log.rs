//! Encodes a log record as OTLP `LogRecord`, field by field until it is emitted. Also defines [`Severity`].

use std::fmt;

use super::attribute::AnyValue;
use super::attribute_writer::AttributeWriter;
#[cfg(feature = "log")]
use super::attribute_writer::EncodedAttributes;
use super::buffer::field_len;
use super::id::{SpanId, TraceId};
use super::schema::tag::{AnyValue as any_value, LogRecord as tag};
use super::{LogLimits, Value};

/// Defines the severities in ascending order, with their names.
macro_rules! severities {
    ($(#[$attribute:meta])* $first:ident $first_name:literal $($severity:ident $name:literal)*) => {
        $(#[$attribute])*
        pub enum Severity {
            $first = 1,
            $($severity,)*
        }

        const ALL: [Severity; 24] = [Severity::$first, $(Severity::$severity,)*];
        const NAMES: [&str; 24] = [$first_name, $($name,)*];
    };
}

severities! {
    /// The severity of a log record, with OpenTelemetry's numbers: 1 (`Trace`) to 24 (`Fatal4`). The data model has
    /// exactly these 24 numbers.
    ///
    /// Most programs need only the six severities without a number in their name. The others are finer steps between
    /// them.
    ///
    /// ```
    /// use standpipe::Severity;
    ///
    /// assert!(Severity::Warn > Severity::Info4);
    /// assert_eq!(Severity::Error.number(), 17);
    /// assert_eq!(Severity::Info2.to_string(), "INFO2");
    /// ```
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[repr(u8)]
    #[allow(missing_docs, reason = "the names are those of the specification")]
    Trace "TRACE" Trace2 "TRACE2" Trace3 "TRACE3" Trace4 "TRACE4"
    Debug "DEBUG" Debug2 "DEBUG2" Debug3 "DEBUG3" Debug4 "DEBUG4"
    Info "INFO" Info2 "INFO2" Info3 "INFO3" Info4 "INFO4"
    Warn "WARN" Warn2 "WARN2" Warn3 "WARN3" Warn4 "WARN4"
    Error "ERROR" Error2 "ERROR2" Error3 "ERROR3" Error4 "ERROR4"
    Fatal "FATAL" Fatal2 "FATAL2" Fatal3 "FATAL3" Fatal4 "FATAL4"
}

impl Severity {
    /// Returns the severity with this number; `None` if the number is not between 1 and 24.
    ///
    /// ```
    /// use standpipe::Severity;
    ///
    /// assert_eq!(Severity::from_number(17), Some(Severity::Error));
    /// assert_eq!(Severity::from_number(25), None);
    /// ```
    pub fn from_number(number: u8) -> Option<Self> {
        ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// Returns OpenTelemetry's number of the severity.
    #[inline]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Returns OpenTelemetry's short name in capitals, such as `INFO2`.
    #[inline]
    pub fn name(self) -> &'static str {
        NAMES[usize::from(self.number() - 1)]
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The fields that are known when a log record is emitted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogEnd {
    pub(crate) time: u64,
    pub(crate) observed: u64,
    /// The span to which the record belongs.
    pub(crate) span: Option<SpanRef>,
}

/// The span to which a log record belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SpanRef {
    pub(crate) trace_id: TraceId,
    pub(crate) span_id: SpanId,
    pub(crate) trace_flags: u8,
}

/// The encoded bytes of a log record, and its state until it is emitted. Reused by [`begin`](LogRecord::begin).
#[derive(Debug, Default)]
pub(crate) struct LogRecord {
    attributes: AttributeWriter,
    has_severity_text: bool,
}

impl LogRecord {
    /// Starts a new record and reuses the storage.
    pub(crate) fn begin(&mut self, limits: &LogLimits, max_bytes: usize) {
        self.attributes.limit(max_bytes, limits.value_length);
        self.attributes.begin(tag::attributes, limits.attributes, 0);
        self.has_severity_text = false;
    }

    /// Writes the body, once. A body that is nested too deeply is left out and counted as a dropped attribute, because
    /// a record has no other count.
    #[inline]
    pub(crate) fn set_body(&mut self, body: Value<'_>) {
        match body {
            Value::Str(text) => self.set_text_body(text),
            other => self.set_any_body(other),
        }
    }

    #[inline(never)]
    fn set_text_body(&mut self, text: &str) {
        // Fast path: each length takes one byte.
        let is_short = text.len() < 0x7e;
        let out = if is_short { self.attributes.buffer.claim_ready(4 + text.len()) } else { None };
        let Some(mut out) = out else { return self.set_any_body(Value::Str(text)) };
        let len = text.len() as u8;
        *out.chunk() = [tag::body, len + 2, any_value::string_value, len];
        out.put_short(text.as_bytes());
    }

    #[inline(never)]
    fn set_any_body(&mut self, body: Value<'_>) {
        let Some(body) = AnyValue::new(body) else { return self.attributes.drop_one() };
        if let Some(mut out) = self.attributes.buffer.claim(body.field_len()) {
            body.write(tag::body, &mut out);
        }
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, key: &str, value: Value<'_>) {
        // A log record has no sub-message that would have to be closed.
        self.attributes.put(key, value);
    }

    /// Sets encoded attributes. Returns false without effect if they must be set one by one.
    #[cfg(feature = "log")]
    #[inline]
    pub(crate) fn set_encoded(&mut self, attributes: &EncodedAttributes) -> bool {
        self.attributes.put_encoded(attributes)
    }

    /// Encodes attributes for many records; `None` if they must be set one by one.
    #[cfg(feature = "log")]
    pub(crate) fn encode(attributes: &[(&str, Value<'_>)]) -> Option<EncodedAttributes> {
        EncodedAttributes::new(tag::attributes, attributes)
    }

    /// Sets the severity as its source spells it.
    pub(crate) fn set_severity_text(&mut self, text: &str) {
        if self.has_severity_text {
            self.attributes.take_back(tag::severity_text);
        }
        self.has_severity_text = true;
        self.write_text(tag::severity_text, text);
    }

    pub(crate) fn set_event_name(&mut self, name: &str) {
        self.attributes.take_back(tag::event_name);
        self.write_text(tag::event_name, name);
    }

    #[inline]
    fn write_text(&mut self, tag: u8, text: &str) {
        if let Some(mut out) = self.attributes.buffer.claim(field_len(text.len())) {
            out.field(tag, text.as_bytes());
        }
    }

    /// Ends the record and returns its framed bytes; `None` if the record is larger than the largest message.
    // `always`: otherwise the only caller, in another module, calls it or not depending on how the crate is divided.
    #[inline(always)]
    pub(crate) fn finish(&mut self, severity: Severity, end: &LogEnd) -> Option<&[u8]> {
        if !self.has_severity_text {
            self.write_severity_name(severity.name());
        }
        self.write_end(severity.number(), end)
    }

    /// Writes a short name. Needs no call, unless the buffer has to grow.
    #[inline(always)]
    fn write_severity_name(&mut self, name: &str) {
        match self.attributes.buffer.claim_ready(2 + name.len()) {
            Some(mut out) => {
                *out.chunk() = [tag::severity_text, name.len() as u8];
                out.put_short(name.as_bytes());
            }
            None => self.write_text(tag::severity_text, name),
        }
    }

    // `always`: otherwise each record would cost a second call.
    #[inline(always)]
    pub(super) fn write_end(&mut self, severity: u8, end: &LogEnd) -> Option<&[u8]> {
        if let Some(mut out) = self.attributes.buffer.claim(20) {
            let fixed: &mut [u8; 20] = out.chunk();
            fixed[0] = tag::time_unix_nano;
            fixed[1..9].copy_from_slice(&end.time.to_le_bytes());
            fixed[9] = tag::observed_time_unix_nano;
            fixed[10..18].copy_from_slice(&end.observed.to_le_bytes());
            fixed[18..].copy_from_slice(&[tag::severity_number, severity]);
        }
        if let Some(span) = &end.span {
            self.write_span(span);
        }
        self.attributes.write_count(tag::dropped_attributes_count, self.attributes.dropped);
        self.attributes.buffer.framed()
    }

    fn write_span(&mut self, span: &SpanRef) {
        let Some(mut out) = self.attributes.buffer.claim(33) else { return };
        let fixed: &mut [u8; 33] = out.chunk();
        fixed[..2].copy_from_slice(&[tag::trace_id, 16]);
        fixed[2..18].copy_from_slice(&span.trace_id.0);
        fixed[18..20].copy_from_slice(&[tag::span_id, 8]);
        fixed[20..28].copy_from_slice(&span.span_id.0);
        fixed[28] = tag::flags;
        fixed[29..].copy_from_slice(&u32::from(span.trace_flags).to_le_bytes());
    }

    /// Returns the size of the storage that the record keeps, in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.attributes.capacity()
    }
}

#[cfg(test)]
mod tests;
