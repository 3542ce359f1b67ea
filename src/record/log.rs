//! Encodes a log record as OTLP `LogRecord`, field by field until it is emitted. Also defines [`Severity`].

use std::fmt;

use super::attribute::put_value;
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

/// Bytes of the fields of both times and of the severity's number.
const TIMES_BYTES: usize = 20;
/// Bytes of the fields of the trace id, the span id and the flags.
const SPAN_BYTES: usize = 33;
/// Maximum bytes of the field of a severity's name.
const NAME_BYTES: usize = 8;
/// Maximum bytes of all fields that are written last.
const END_BYTES: usize = TIMES_BYTES + SPAN_BYTES + NAME_BYTES;

/// The field of each severity's name, padded with zeros.
const NAME_FIELDS: [[u8; NAME_BYTES]; 24] = {
    let mut fields = [[0; NAME_BYTES]; 24];
    let mut index = 0;
    while index < fields.len() {
        let name = NAMES[index].as_bytes();
        (fields[index][0], fields[index][1]) = (tag::severity_text, name.len() as u8);
        let mut position = 0;
        while position < name.len() {
            fields[index][2 + position] = name[position];
            position += 1;
        }
        index += 1;
    }
    fields
};

/// The span to which a log record belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SpanRef {
    pub(crate) trace_id: TraceId,
    pub(crate) span_id: SpanId,
    pub(crate) trace_flags: u8,
}

/// The encoded bytes of a log record, and its state until it is emitted. Reused by [`begin`](LogRecord::begin).
#[derive(Default)]
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

    /// Writes the body. Must be called only once per record. A body that is nested too deeply is left out and counted
    /// as a dropped attribute, because a record has no other count.
    #[inline]
    pub(crate) fn set_body(&mut self, body: Value<'_>) {
        match body {
            Value::Str(text) => self.set_text_body(text),
            other => self.set_any_body(other),
        }
    }

    #[inline(never)]
    fn set_text_body(&mut self, text: &str) {
        // Fast path: the text with its tag and length is shorter than 0x80 bytes, so each length takes one byte.
        let is_short = text.len() < 0x7e;
        let out = if is_short { self.attributes.buffer.claim_ready(4 + text.len()) } else { None };
        let Some(mut out) = out else { return self.set_any_body(Value::Str(text)) };
        let len = text.len() as u8;
        *out.chunk() = [tag::body, len + 2, any_value::string_value, len];
        out.put_short(text.as_bytes());
    }

    #[inline(never)]
    fn set_any_body(&mut self, body: Value<'_>) {
        if !put_value(tag::body, body, &mut self.attributes.buffer) {
            self.attributes.drop_one();
        }
    }

    /// Like [`set`](Self::set), with the fast path inlined at the call site: for literal keys.
    #[inline(always)]
    pub(crate) fn set_inlined(&mut self, key: &str, value: Value<'_>) {
        match self.attributes.tasks {
            0 => self.attributes.put_inlined(tag::attributes, key, value),
            _ => self.set(key, value),
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

    /// Sets the severity text, the name that the source of the record uses. The default is OpenTelemetry's name.
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

    /// Ends the record and returns its framed bytes; `None` if the record has outgrown its limit.
    // `always`: otherwise the division of the crate into codegen units decides whether its only caller inlines it.
    #[inline(always)]
    pub(crate) fn finish(&mut self, severity: Severity, end: &LogEnd) -> Option<&[u8]> {
        let name = (!self.has_severity_text).then(|| &NAME_FIELDS[usize::from(severity.number() - 1)]);
        self.write_end(severity.number(), name, end)
    }

    /// Writes the severity, the field of its name, and the fields of `end`. Returns the framed bytes, as `finish` does.
    // `always`: otherwise each record would cost a second call.
    #[inline(always)]
    pub(super) fn write_end(
        &mut self,
        severity: u8,
        name: Option<&[u8; NAME_BYTES]>,
        end: &LogEnd,
    ) -> Option<&[u8]> {
        let span_len = if end.span.is_some() { SPAN_BYTES } else { 0 };
        let name_len = name.map_or(0, |name| 2 + usize::from(name[1]));
        let len = TIMES_BYTES + span_len + name_len;
        match self.attributes.buffer.append_window(len) {
            Some(window) => fill_end(window, severity, name, end),
            // The storage has to grow.
            None => {
                let mut window = [0; END_BYTES];
                fill_end(&mut window, severity, name, end);
                if let Some(mut out) = self.attributes.buffer.claim(len) {
                    out.put(&window[..len]);
                }
            }
        }
        self.attributes.write_count(tag::dropped_attributes_count, self.attributes.dropped);
        self.attributes.buffer.framed()
    }

    /// Returns the size of the storage that the record keeps, in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.attributes.capacity()
    }
}

/// Writes the fields of the end one after the other. The bytes behind them are undefined.
#[inline(always)]
fn fill_end(window: &mut [u8; END_BYTES], severity: u8, name: Option<&[u8; NAME_BYTES]>, end: &LogEnd) {
    window[0] = tag::time_unix_nano;
    window[1..9].copy_from_slice(&end.time.to_le_bytes());
    window[9] = tag::observed_time_unix_nano;
    window[10..18].copy_from_slice(&end.observed.to_le_bytes());
    window[18..20].copy_from_slice(&[tag::severity_number, severity]);
    // Each position is a constant, so no copy needs a test of its bounds.
    let behind = match &end.span {
        Some(span) => {
            window[20..22].copy_from_slice(&[tag::trace_id, 16]);
            window[22..38].copy_from_slice(&span.trace_id.0);
            window[38..40].copy_from_slice(&[tag::span_id, 8]);
            window[40..48].copy_from_slice(&span.span_id.0);
            window[48] = tag::flags;
            window[49..53].copy_from_slice(&u32::from(span.trace_flags).to_le_bytes());
            &mut window[53..61]
        }
        None => &mut window[20..28],
    };
    if let Some(name) = name {
        behind.copy_from_slice(name);
    }
}

#[cfg(test)]
mod tests;
