//! The messages of OTLP as JSON names them: which number and which form each field has on the wire.

use opentelemetry_proto::tonic::logs::v1::SeverityNumber;
use opentelemetry_proto::tonic::metrics::v1::AggregationTemporality;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;

use crate::record::Signal;

/// The fields of a message.
#[derive(Debug)]
pub(super) struct Message {
    fields: &'static [Field],
}

#[derive(Debug)]
pub(super) struct Field {
    name: &'static str,
    pub(super) number: u32,
    pub(super) kind: Kind,
    pub(super) is_list: bool,
}

/// What a field holds, or each element of its list.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Message(&'static Message),
    /// A number, by its name if the sender prefers that.
    Enum(fn(&str) -> Option<i32>),
    Text,
    /// Bytes in hexadecimal.
    Id,
    /// Bytes in base64.
    Bytes,
    Bool,
    Double,
    Fixed32,
    Fixed64,
    SignedFixed64,
    Uint32,
    Uint64,
    Int64,
    ZigZag32,
}

impl Message {
    /// The field of this name; the original names with underscores are none in OTLP/JSON.
    pub(super) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// The export request of a signal.
pub(super) fn request(signal: Signal) -> &'static Message {
    match signal {
        Signal::Traces => &TRACES,
        Signal::Logs => &LOGS,
        Signal::Metrics => &METRICS,
    }
}

/// Messages and their fields. A kind stands for itself, a message in braces, an enum in parentheses, a list in brackets.
macro_rules! messages {
    ($($message:ident { $($name:literal = $number:literal $kind:tt)* })*) => {
        $(static $message: Message = Message { fields: &[$(field!($name, $number, $kind)),*] };)*
    };
}

macro_rules! field {
    ($name:literal, $number:literal, [$kind:tt]) => {
        Field { name: $name, number: $number, kind: kind!($kind), is_list: true }
    };
    ($name:literal, $number:literal, $kind:tt) => {
        Field { name: $name, number: $number, kind: kind!($kind), is_list: false }
    };
}

macro_rules! kind {
    ({ $message:ident }) => {
        Kind::Message(&$message)
    };
    (($numbers:ident)) => {
        Kind::Enum(|name| $numbers::from_str_name(name).map(|number| number as i32))
    };
    ($kind:ident) => {
        Kind::$kind
    };
}

messages! {
    TRACES { "resourceSpans" = 1 [{ RESOURCE_SPANS }] }
    RESOURCE_SPANS { "resource" = 1 { RESOURCE } "scopeSpans" = 2 [{ SCOPE_SPANS }] "schemaUrl" = 3 Text }
    SCOPE_SPANS { "scope" = 1 { SCOPE } "spans" = 2 [{ SPAN }] "schemaUrl" = 3 Text }
    SPAN {
        "traceId" = 1 Id
        "spanId" = 2 Id
        "traceState" = 3 Text
        "parentSpanId" = 4 Id
        "name" = 5 Text
        "kind" = 6 (SpanKind)
        "startTimeUnixNano" = 7 Fixed64
        "endTimeUnixNano" = 8 Fixed64
        "attributes" = 9 [{ KEY_VALUE }]
        "droppedAttributesCount" = 10 Uint32
        "events" = 11 [{ EVENT }]
        "droppedEventsCount" = 12 Uint32
        "links" = 13 [{ LINK }]
        "droppedLinksCount" = 14 Uint32
        "status" = 15 { STATUS }
        "flags" = 16 Fixed32
    }
    EVENT {
        "timeUnixNano" = 1 Fixed64
        "name" = 2 Text
        "attributes" = 3 [{ KEY_VALUE }]
        "droppedAttributesCount" = 4 Uint32
    }
    LINK {
        "traceId" = 1 Id
        "spanId" = 2 Id
        "traceState" = 3 Text
        "attributes" = 4 [{ KEY_VALUE }]
        "droppedAttributesCount" = 5 Uint32
        "flags" = 6 Fixed32
    }
    STATUS { "message" = 2 Text "code" = 3 (StatusCode) }

    LOGS { "resourceLogs" = 1 [{ RESOURCE_LOGS }] }
    RESOURCE_LOGS { "resource" = 1 { RESOURCE } "scopeLogs" = 2 [{ SCOPE_LOGS }] "schemaUrl" = 3 Text }
    SCOPE_LOGS { "scope" = 1 { SCOPE } "logRecords" = 2 [{ LOG_RECORD }] "schemaUrl" = 3 Text }
    LOG_RECORD {
        "timeUnixNano" = 1 Fixed64
        "severityNumber" = 2 (SeverityNumber)
        "severityText" = 3 Text
        "body" = 5 { ANY_VALUE }
        "attributes" = 6 [{ KEY_VALUE }]
        "droppedAttributesCount" = 7 Uint32
        "flags" = 8 Fixed32
        "traceId" = 9 Id
        "spanId" = 10 Id
        "observedTimeUnixNano" = 11 Fixed64
        "eventName" = 12 Text
    }

    METRICS { "resourceMetrics" = 1 [{ RESOURCE_METRICS }] }
    RESOURCE_METRICS { "resource" = 1 { RESOURCE } "scopeMetrics" = 2 [{ SCOPE_METRICS }] "schemaUrl" = 3 Text }
    SCOPE_METRICS { "scope" = 1 { SCOPE } "metrics" = 2 [{ METRIC }] "schemaUrl" = 3 Text }
    METRIC {
        "name" = 1 Text
        "description" = 2 Text
        "unit" = 3 Text
        "gauge" = 5 { GAUGE }
        "sum" = 7 { SUM }
        "histogram" = 9 { HISTOGRAM }
        "exponentialHistogram" = 10 { EXPONENTIAL_HISTOGRAM }
        "summary" = 11 { SUMMARY }
        "metadata" = 12 [{ KEY_VALUE }]
    }
    GAUGE { "dataPoints" = 1 [{ NUMBER_POINT }] }
    SUM {
        "dataPoints" = 1 [{ NUMBER_POINT }]
        "aggregationTemporality" = 2 (AggregationTemporality)
        "isMonotonic" = 3 Bool
    }
    HISTOGRAM {
        "dataPoints" = 1 [{ HISTOGRAM_POINT }]
        "aggregationTemporality" = 2 (AggregationTemporality)
    }
    EXPONENTIAL_HISTOGRAM {
        "dataPoints" = 1 [{ EXPONENTIAL_POINT }]
        "aggregationTemporality" = 2 (AggregationTemporality)
    }
    SUMMARY { "dataPoints" = 1 [{ SUMMARY_POINT }] }
    NUMBER_POINT {
        "startTimeUnixNano" = 2 Fixed64
        "timeUnixNano" = 3 Fixed64
        "asDouble" = 4 Double
        "exemplars" = 5 [{ EXEMPLAR }]
        "asInt" = 6 SignedFixed64
        "attributes" = 7 [{ KEY_VALUE }]
        "flags" = 8 Uint32
    }
    HISTOGRAM_POINT {
        "startTimeUnixNano" = 2 Fixed64
        "timeUnixNano" = 3 Fixed64
        "count" = 4 Fixed64
        "sum" = 5 Double
        "bucketCounts" = 6 [Fixed64]
        "explicitBounds" = 7 [Double]
        "exemplars" = 8 [{ EXEMPLAR }]
        "attributes" = 9 [{ KEY_VALUE }]
        "flags" = 10 Uint32
        "min" = 11 Double
        "max" = 12 Double
    }
    EXPONENTIAL_POINT {
        "attributes" = 1 [{ KEY_VALUE }]
        "startTimeUnixNano" = 2 Fixed64
        "timeUnixNano" = 3 Fixed64
        "count" = 4 Fixed64
        "sum" = 5 Double
        "scale" = 6 ZigZag32
        "zeroCount" = 7 Fixed64
        "positive" = 8 { BUCKETS }
        "negative" = 9 { BUCKETS }
        "flags" = 10 Uint32
        "exemplars" = 11 [{ EXEMPLAR }]
        "min" = 12 Double
        "max" = 13 Double
        "zeroThreshold" = 14 Double
    }
    BUCKETS { "offset" = 1 ZigZag32 "bucketCounts" = 2 [Uint64] }
    SUMMARY_POINT {
        "startTimeUnixNano" = 2 Fixed64
        "timeUnixNano" = 3 Fixed64
        "count" = 4 Fixed64
        "sum" = 5 Double
        "quantileValues" = 6 [{ QUANTILE }]
        "attributes" = 7 [{ KEY_VALUE }]
        "flags" = 8 Uint32
    }
    QUANTILE { "quantile" = 1 Double "value" = 2 Double }
    EXEMPLAR {
        "timeUnixNano" = 2 Fixed64
        "asDouble" = 3 Double
        "spanId" = 4 Id
        "traceId" = 5 Id
        "asInt" = 6 SignedFixed64
        "filteredAttributes" = 7 [{ KEY_VALUE }]
    }

    RESOURCE {
        "attributes" = 1 [{ KEY_VALUE }]
        "droppedAttributesCount" = 2 Uint32
        "entityRefs" = 3 [{ ENTITY_REF }]
    }
    ENTITY_REF { "schemaUrl" = 1 Text "type" = 2 Text "idKeys" = 3 [Text] "descriptionKeys" = 4 [Text] }
    SCOPE {
        "name" = 1 Text
        "version" = 2 Text
        "attributes" = 3 [{ KEY_VALUE }]
        "droppedAttributesCount" = 4 Uint32
    }
    KEY_VALUE { "key" = 1 Text "value" = 2 { ANY_VALUE } }
    ANY_VALUE {
        "stringValue" = 1 Text
        "boolValue" = 2 Bool
        "intValue" = 3 Int64
        "doubleValue" = 4 Double
        "arrayValue" = 5 { ARRAY }
        "kvlistValue" = 6 { KEY_VALUE_LIST }
        "bytesValue" = 7 Bytes
    }
    ARRAY { "values" = 1 [{ ANY_VALUE }] }
    KEY_VALUE_LIST { "values" = 1 [{ KEY_VALUE }] }
}
