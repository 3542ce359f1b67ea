//! The messages of OTLP: the number, the JSON name and the kind of each field.
//!
//! The console prints requests by this table, and the spool validates records by it. Two fields that only profiles use are
//! left out: they are not printed, and no record of this library has them.

use super::Signal;
use super::wire::{Fields, Raw, WireType};

/// Maximum nesting depth of messages in a request, as far as decoders go.
pub(crate) const MAX_DEPTH: u32 = 1 + 100;

/// The fields of a message, in the order in which they are printed.
pub(crate) struct Message {
    pub(crate) fields: &'static [Field],
}

pub(crate) struct Field {
    pub(crate) number: u8,
    pub(crate) kind: Kind,
    pub(crate) presence: Presence,
    pub(crate) name: &'static str,
}

/// How often a field can occur, and how its absence is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// Zero and empty are the same as not there, and are not printed.
    Implicit,
    /// Printed if it is present, also if it is zero or empty.
    Explicit,
    /// The same; of all of these in a message only the last one counts.
    OneOf,
    Repeated,
}

/// The type of a field: how it is encoded and how it is printed.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Bool,
    /// Enumerations, too: they are printed as numbers.
    Int32,
    Uint32,
    Sint32,
    Fixed32,
    Int64,
    Uint64,
    Fixed64,
    Sfixed64,
    Double,
    Text,
    /// Bytes of a trace's or a span's id: the only ones in hexadecimal.
    Id,
    Bytes,
    /// By its index in [`MESSAGES`], which is smaller than an address.
    Message(u8),
}

impl Kind {
    /// Wire type of a number of this kind; `None` for length-delimited kinds.
    pub(crate) fn number_type(self) -> Option<WireType> {
        match self {
            Bool | Int32 | Uint32 | Sint32 | Int64 | Uint64 => Some(WireType::Varint),
            Fixed32 => Some(WireType::ThirtyTwoBit),
            Fixed64 | Sfixed64 | Double => Some(WireType::SixtyFourBit),
            Text | Id | Bytes | Of(_) => None,
        }
    }
}

/// Message types that are validated before a request is rebuilt from the bytes of a dead process.
#[derive(Clone, Copy)]
pub(crate) enum Part {
    /// `ResourceSpans` and its counterparts.
    Resource,
    /// `ScopeSpans` and its counterparts.
    Scope,
    /// `Span`, `LogRecord` or `Metric`.
    Record,
}

/// Returns whether every decoder accepts these bytes as a message of this signal. Unknown fields, repeated ones that may be
/// there once, and ids of other lengths are refused: the writer has none, so damage made them.
pub(crate) fn is_valid(part: Part, signal: Signal, bytes: &[u8]) -> bool {
    let parts = match signal {
        Signal::Traces => [RESOURCE_SPANS, SCOPE_SPANS, SPAN],
        Signal::Logs => [RESOURCE_LOGS, SCOPE_LOGS, LOG_RECORD],
        Signal::Metrics => [RESOURCE_METRICS, SCOPE_METRICS, METRIC],
    };
    is_message(message(parts[part as usize]), bytes, MAX_DEPTH)
}

fn is_message(known: &Message, bytes: &[u8], depth: u32) -> bool {
    let is_packed = |kind: Kind, bytes| {
        let mut numbers = Fields::of(bytes);
        kind.number_type().is_some_and(|wire_type| {
            while !numbers.is_empty() && numbers.value(wire_type).is_ok() {}
            numbers.is_empty()
        })
    };
    let is_value = |field: &Field, value| match (field.kind, value) {
        (Of(index), Raw::Bytes(bytes)) => depth > 0 && is_message(message(index), bytes, depth - 1),
        (Text, Raw::Bytes(bytes)) => std::str::from_utf8(bytes).is_ok(),
        (Id, Raw::Bytes(id)) => matches!(id.len(), 0 | 8 | 16),
        (Bytes, Raw::Bytes(_)) => true,
        (kind, Raw::Bytes(bytes)) => field.presence == Presence::Repeated && is_packed(kind, bytes),
        (kind, Raw::Varint(_)) => kind.number_type() == Some(WireType::Varint),
        (kind, Raw::Four(_)) => kind.number_type() == Some(WireType::ThirtyTwoBit),
        (kind, Raw::Eight(_)) => kind.number_type() == Some(WireType::SixtyFourBit),
    };
    let mut seen = 0u32;
    Fields::of(bytes).all(|field| {
        let Ok((number, value)) = field else { return false };
        let Some(field) = known.fields.iter().find(|field| u32::from(field.number) == number) else {
            return false;
        };
        let is_first = seen & 1 << number == 0 || field.presence == Presence::Repeated;
        seen |= 1 << number;
        is_first && is_value(field, value)
    })
}

/// The message that a request of this signal is.
pub(crate) fn request(signal: Signal) -> &'static Message {
    match signal {
        Signal::Traces => message(TRACES_REQUEST),
        Signal::Logs => message(LOGS_REQUEST),
        Signal::Metrics => message(METRICS_REQUEST),
    }
}

pub(crate) fn message(index: u8) -> &'static Message {
    &MESSAGES[usize::from(index)]
}

const fn field(number: u8, name: &'static str, kind: Kind) -> Field {
    Field { number, kind, presence: Presence::Implicit, name }
}

const fn optional(number: u8, name: &'static str, kind: Kind) -> Field {
    Field { number, kind, presence: Presence::Explicit, name }
}

const fn one_of(number: u8, name: &'static str, kind: Kind) -> Field {
    Field { number, kind, presence: Presence::OneOf, name }
}

const fn repeated(number: u8, name: &'static str, kind: Kind) -> Field {
    Field { number, kind, presence: Presence::Repeated, name }
}

/// Numbers the messages by their order and puts their fields into one table.
macro_rules! messages {
    ($($name:ident = $fields:expr;)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "they only count the constants below")]
        #[repr(u8)]
        enum MessageIndex { $($name,)* }

        $(const $name: u8 = MessageIndex::$name as u8;)*

        static MESSAGES: &[Message] = &[$(Message { fields: &$fields },)*];
    };
}

use Kind::{
    Bool, Bytes, Double, Fixed32, Fixed64, Id, Int32, Int64, Message as Of, Sfixed64, Sint32, Text, Uint32,
    Uint64,
};

messages! {
    TRACES_REQUEST = [repeated(1, "resourceSpans", Of(RESOURCE_SPANS))];
    LOGS_REQUEST = [repeated(1, "resourceLogs", Of(RESOURCE_LOGS))];
    METRICS_REQUEST = [repeated(1, "resourceMetrics", Of(RESOURCE_METRICS))];

    RESOURCE_SPANS = [
        optional(1, "resource", Of(RESOURCE)),
        repeated(2, "scopeSpans", Of(SCOPE_SPANS)),
        field(3, "schemaUrl", Text),
    ];
    RESOURCE_LOGS = [
        optional(1, "resource", Of(RESOURCE)),
        repeated(2, "scopeLogs", Of(SCOPE_LOGS)),
        field(3, "schemaUrl", Text),
    ];
    RESOURCE_METRICS = [
        optional(1, "resource", Of(RESOURCE)),
        repeated(2, "scopeMetrics", Of(SCOPE_METRICS)),
        field(3, "schemaUrl", Text),
    ];
    RESOURCE = [
        repeated(1, "attributes", Of(KEY_VALUE)),
        field(2, "droppedAttributesCount", Uint32),
        repeated(3, "entityRefs", Of(ENTITY_REF)),
    ];
    ENTITY_REF = [
        field(1, "schemaUrl", Text),
        field(2, "type", Text),
        repeated(3, "idKeys", Text),
        repeated(4, "descriptionKeys", Text),
    ];
    SCOPE = [
        field(1, "name", Text),
        field(2, "version", Text),
        repeated(3, "attributes", Of(KEY_VALUE)),
        field(4, "droppedAttributesCount", Uint32),
    ];
    SCOPE_SPANS = [
        optional(1, "scope", Of(SCOPE)),
        repeated(2, "spans", Of(SPAN)),
        field(3, "schemaUrl", Text),
    ];
    SCOPE_LOGS = [
        optional(1, "scope", Of(SCOPE)),
        repeated(2, "logRecords", Of(LOG_RECORD)),
        field(3, "schemaUrl", Text),
    ];
    SCOPE_METRICS = [
        optional(1, "scope", Of(SCOPE)),
        repeated(2, "metrics", Of(METRIC)),
        field(3, "schemaUrl", Text),
    ];

    KEY_VALUE = [field(1, "key", Text), optional(2, "value", Of(ANY_VALUE))];
    ANY_VALUE = [
        one_of(1, "stringValue", Text),
        one_of(2, "boolValue", Bool),
        one_of(3, "intValue", Int64),
        one_of(4, "doubleValue", Double),
        one_of(5, "arrayValue", Of(ARRAY_VALUE)),
        one_of(6, "kvlistValue", Of(KEY_VALUE_LIST)),
        one_of(7, "bytesValue", Bytes),
    ];
    ARRAY_VALUE = [repeated(1, "values", Of(ANY_VALUE))];
    KEY_VALUE_LIST = [repeated(1, "values", Of(KEY_VALUE))];

    SPAN = [
        field(1, "traceId", Id),
        field(2, "spanId", Id),
        field(3, "traceState", Text),
        field(4, "parentSpanId", Id),
        field(16, "flags", Fixed32),
        field(5, "name", Text),
        field(6, "kind", Int32),
        field(7, "startTimeUnixNano", Fixed64),
        field(8, "endTimeUnixNano", Fixed64),
        repeated(9, "attributes", Of(KEY_VALUE)),
        field(10, "droppedAttributesCount", Uint32),
        repeated(11, "events", Of(EVENT)),
        field(12, "droppedEventsCount", Uint32),
        repeated(13, "links", Of(LINK)),
        field(14, "droppedLinksCount", Uint32),
        optional(15, "status", Of(STATUS)),
    ];
    EVENT = [
        field(1, "timeUnixNano", Fixed64),
        field(2, "name", Text),
        repeated(3, "attributes", Of(KEY_VALUE)),
        field(4, "droppedAttributesCount", Uint32),
    ];
    LINK = [
        field(1, "traceId", Id),
        field(2, "spanId", Id),
        field(3, "traceState", Text),
        repeated(4, "attributes", Of(KEY_VALUE)),
        field(5, "droppedAttributesCount", Uint32),
        field(6, "flags", Fixed32),
    ];
    STATUS = [field(2, "message", Text), field(3, "code", Int32)];

    LOG_RECORD = [
        field(1, "timeUnixNano", Fixed64),
        field(11, "observedTimeUnixNano", Fixed64),
        field(2, "severityNumber", Int32),
        field(3, "severityText", Text),
        field(12, "eventName", Text),
        optional(5, "body", Of(ANY_VALUE)),
        repeated(6, "attributes", Of(KEY_VALUE)),
        field(7, "droppedAttributesCount", Uint32),
        field(8, "flags", Fixed32),
        field(9, "traceId", Id),
        field(10, "spanId", Id),
    ];

    METRIC = [
        field(1, "name", Text),
        field(2, "description", Text),
        field(3, "unit", Text),
        one_of(5, "gauge", Of(GAUGE)),
        one_of(7, "sum", Of(SUM)),
        one_of(9, "histogram", Of(HISTOGRAM)),
        one_of(10, "exponentialHistogram", Of(EXPONENTIAL_HISTOGRAM)),
        one_of(11, "summary", Of(SUMMARY)),
        repeated(12, "metadata", Of(KEY_VALUE)),
    ];
    GAUGE = [repeated(1, "dataPoints", Of(NUMBER_POINT))];
    SUM = [
        repeated(1, "dataPoints", Of(NUMBER_POINT)),
        field(2, "aggregationTemporality", Int32),
        field(3, "isMonotonic", Bool),
    ];
    HISTOGRAM = [
        repeated(1, "dataPoints", Of(HISTOGRAM_POINT)),
        field(2, "aggregationTemporality", Int32),
    ];
    EXPONENTIAL_HISTOGRAM = [
        repeated(1, "dataPoints", Of(EXPONENTIAL_POINT)),
        field(2, "aggregationTemporality", Int32),
    ];
    SUMMARY = [repeated(1, "dataPoints", Of(SUMMARY_POINT))];
    NUMBER_POINT = [
        repeated(7, "attributes", Of(KEY_VALUE)),
        field(2, "startTimeUnixNano", Fixed64),
        field(3, "timeUnixNano", Fixed64),
        one_of(4, "asDouble", Double),
        one_of(6, "asInt", Sfixed64),
        repeated(5, "exemplars", Of(EXEMPLAR)),
        field(8, "flags", Uint32),
    ];
    HISTOGRAM_POINT = [
        repeated(9, "attributes", Of(KEY_VALUE)),
        field(2, "startTimeUnixNano", Fixed64),
        field(3, "timeUnixNano", Fixed64),
        field(4, "count", Fixed64),
        optional(5, "sum", Double),
        repeated(6, "bucketCounts", Fixed64),
        repeated(7, "explicitBounds", Double),
        repeated(8, "exemplars", Of(EXEMPLAR)),
        field(10, "flags", Uint32),
        optional(11, "min", Double),
        optional(12, "max", Double),
    ];
    EXPONENTIAL_POINT = [
        repeated(1, "attributes", Of(KEY_VALUE)),
        field(2, "startTimeUnixNano", Fixed64),
        field(3, "timeUnixNano", Fixed64),
        field(4, "count", Fixed64),
        optional(5, "sum", Double),
        field(6, "scale", Sint32),
        field(7, "zeroCount", Fixed64),
        optional(8, "positive", Of(BUCKETS)),
        optional(9, "negative", Of(BUCKETS)),
        field(10, "flags", Uint32),
        repeated(11, "exemplars", Of(EXEMPLAR)),
        optional(12, "min", Double),
        optional(13, "max", Double),
        field(14, "zeroThreshold", Double),
    ];
    BUCKETS = [field(1, "offset", Sint32), repeated(2, "bucketCounts", Uint64)];
    SUMMARY_POINT = [
        repeated(7, "attributes", Of(KEY_VALUE)),
        field(2, "startTimeUnixNano", Fixed64),
        field(3, "timeUnixNano", Fixed64),
        field(4, "count", Fixed64),
        field(5, "sum", Double),
        repeated(6, "quantileValues", Of(QUANTILE)),
        field(8, "flags", Uint32),
    ];
    QUANTILE = [field(1, "quantile", Double), field(2, "value", Double)];
    EXEMPLAR = [
        repeated(7, "filteredAttributes", Of(KEY_VALUE)),
        field(2, "timeUnixNano", Fixed64),
        one_of(3, "asDouble", Double),
        one_of(6, "asInt", Sfixed64),
        field(4, "spanId", Id),
        field(5, "traceId", Id),
    ];
}
