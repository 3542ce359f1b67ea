//! Compares the JSON of every kind of record with literals, and with the output of a reference encoder.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use proptest::prelude::*;
use prost::Message;
use serde_json::Value as Json;

use super::*;
use crate::record::{
    AggregationTemporality, AttributeSet, BucketsView, ExponentialPoint, HistogramPoint, LogEnd, LogLimits,
    LogRecord, MetricHead, MetricRecord, Number, OtherSpan, Period, Point, PointKind, Scope, Severity,
    Signal, SpanHead, SpanId, SpanKind, SpanLimits, SpanRecord, SpanRef, Status, TraceId, Value,
};

/// Limit above the size of every record here.
const AMPLE: usize = 1 << 20;
const PERIOD: Period = Period { start: 1, time: 2 };

/// Returns the printed line of a request, without the line end.
fn line(signal: Signal, request: &[u8]) -> Result<String, Malformed> {
    let mut line = Vec::new();
    write(&mut line, signal, request)?;
    Ok(String::from_utf8(line).expect("JSON is UTF-8"))
}

/// Returns the JSON of one framed record, cut out of the line of a request that contains only this record.
fn record_line(signal: Signal, framed: &[u8]) -> String {
    let scope = Scope::new(signal, "shop", "");
    let request = wrapped(0x0a, &wrapped(0x12, &[scope.field(), framed].concat()));
    let line = line(signal, &request).unwrap();
    let names = match signal {
        Signal::Traces => ["resourceSpans", "scopeSpans", "spans"],
        Signal::Logs => ["resourceLogs", "scopeLogs", "logRecords"],
        Signal::Metrics => ["resourceMetrics", "scopeMetrics", "metrics"],
    };
    let [resources, scopes, records] = names;
    let around = format!(r#"{{"{resources}":[{{"{scopes}":[{{"scope":{{"name":"shop"}},"{records}":["#);
    let record = line.strip_prefix(&around).and_then(|rest| rest.strip_suffix("]}]}]}"));
    record.unwrap_or_else(|| panic!("{line}")).to_owned()
}

/// Returns a length-delimited field that holds these bytes.
fn wrapped(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![tag];
    prost::encoding::encode_varint(bytes.len() as u64, &mut field);
    field.extend_from_slice(bytes);
    field
}

fn metric_line(head: &MetricHead<'_>, add: impl FnOnce(&mut MetricRecord) -> bool) -> String {
    let mut record = MetricRecord::default();
    record.begin(head, AMPLE);
    assert!(add(&mut record));
    record_line(Signal::Metrics, record.finish())
}

#[test]
fn a_span_is_printed_with_all_that_it_can_have() {
    let mut span = SpanRecord::default();
    let head = SpanHead {
        trace_id: TraceId([0xab; 16]),
        span_id: SpanId([0x01; 8]),
        parent: Some(SpanId([0xfe; 8])),
        parent_is_remote: true,
        trace_flags: 1,
        trace_state: "vendor=1",
        name: "checkout \"now\"",
        kind: SpanKind::Internal,
        start: 1_700_000_000_000_000_000,
    };
    span.limit(&SpanLimits::default(), AMPLE);
    span.begin(&head);
    span.set("text", Value::Str("naïve\n"));
    assert!(span.open_event("retry", 1_700_000_000_000_000_001));
    span.set_in_sub_message("attempt", Value::Int(-2));
    span.end_sub_message();
    // Attributes continue after the event.
    span.set("truth", Value::Bool(false));
    span.set("whole", Value::Int(9_007_199_254_740_993));
    span.set("share", Value::Float(0.5));
    span.set("none", Value::Float(f64::NAN));
    span.set("bytes", Value::Bytes(&[0, 255, 16]));
    span.set("list", Value::Strs(&["a", ""]));
    span.set("empty", Value::Array(&[]));
    span.set("map", Value::Map(&[("deep", Value::Array(&[Value::Bool(true)]))]));
    let target = OtherSpan {
        trace_id: TraceId([0x0c; 16]),
        span_id: SpanId([0x0d; 8]),
        is_remote: false,
        trace_flags: 0,
        trace_state: "",
    };
    assert!(span.open_link(&target));
    span.set_kind(SpanKind::Server);
    span.set_status(Status::Error("declined"));
    let expected = concat!(
        r#"{"traceId":"abababababababababababababababab","spanId":"0101010101010101","traceState":"vendor=1","#,
        r#""parentSpanId":"fefefefefefefefe","flags":769,"name":"checkout \"now\"","kind":2,"#,
        r#""startTimeUnixNano":"1700000000000000000","endTimeUnixNano":"1700000000000000009","attributes":["#,
        r#"{"key":"text","value":{"stringValue":"naïve\n"}},"#,
        r#"{"key":"truth","value":{"boolValue":false}},"#,
        r#"{"key":"whole","value":{"intValue":"9007199254740993"}},"#,
        r#"{"key":"share","value":{"doubleValue":0.5}},"#,
        r#"{"key":"none","value":{"doubleValue":"NaN"}},"#,
        r#"{"key":"bytes","value":{"bytesValue":"AP8Q"}},"#,
        r#"{"key":"list","value":{"arrayValue":{"values":[{"stringValue":"a"},{"stringValue":""}]}}},"#,
        r#"{"key":"empty","value":{"arrayValue":{}}},"#,
        r#"{"key":"map","value":{"kvlistValue":{"values":["#,
        r#"{"key":"deep","value":{"arrayValue":{"values":[{"boolValue":true}]}}}]}}}],"#,
        r#""events":[{"timeUnixNano":"1700000000000000001","name":"retry","#,
        r#""attributes":[{"key":"attempt","value":{"intValue":"-2"}}]}],"#,
        r#""links":[{"traceId":"0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c","spanId":"0d0d0d0d0d0d0d0d","flags":256}],"#,
        r#""status":{"message":"declined","code":2}}"#,
    );
    let framed = span.finish(1_700_000_000_000_000_009).unwrap();
    assert_eq!(record_line(Signal::Traces, framed), expected);
}

#[test]
fn a_log_record_is_printed_with_all_that_it_can_have() {
    let mut log = LogRecord::default();
    log.begin(&LogLimits::default(), AMPLE);
    log.set_body(Value::Str("paid"));
    log.set("amount", Value::Float(12.5));
    log.set_event_name("payment");
    let span = SpanRef { trace_id: TraceId([0xab; 16]), span_id: SpanId([0x01; 8]), trace_flags: 1 };
    let framed = log.finish(Severity::Warn, &LogEnd { time: 1, observed: 2, span: Some(span) }).unwrap();
    let expected = concat!(
        r#"{"timeUnixNano":"1","observedTimeUnixNano":"2","severityNumber":13,"severityText":"WARN","#,
        r#""eventName":"payment","body":{"stringValue":"paid"},"#,
        r#""attributes":[{"key":"amount","value":{"doubleValue":12.5}}],"#,
        r#""flags":1,"traceId":"abababababababababababababababab","spanId":"0101010101010101"}"#,
    );
    assert_eq!(record_line(Signal::Logs, framed), expected);
}

#[test]
fn a_sum_is_printed() {
    let point_kind = PointKind::Sum { monotonic: true, temporality: AggregationTemporality::Cumulative };
    let head = MetricHead { name: "orders", description: "so far", unit: "{order}", point_kind };
    let country = AttributeSet::new([("shop.country", Value::Str("SE"))]);
    let expected = concat!(
        r#"{"name":"orders","description":"so far","unit":"{order}","sum":{"dataPoints":[{"#,
        r#""attributes":[{"key":"shop.country","value":{"stringValue":"SE"}}],"#,
        r#""startTimeUnixNano":"1","timeUnixNano":"2","asInt":"0"}],"aggregationTemporality":2,"isMonotonic":true}}"#,
    );
    assert_eq!(
        metric_line(&head, |record| record.add(&country, PERIOD, &Point::Number(Number::Int(0)), &[])),
        expected
    );
}

#[test]
fn a_gauge_is_printed() {
    let head = MetricHead { name: "level", description: "", unit: "", point_kind: PointKind::Gauge };
    let period = Period { start: 0, time: 2 };
    let none = AttributeSet::default();
    for (value, spelled) in
        [(-1.5, "-1.5"), (f64::INFINITY, "\"Infinity\""), (f64::NEG_INFINITY, "\"-Infinity\"")]
    {
        let expected = format!(
            r#"{{"name":"level","gauge":{{"dataPoints":[{{"timeUnixNano":"2","asDouble":{spelled}}}]}}}}"#
        );
        assert_eq!(
            metric_line(&head, |record| record.add(&none, period, &Point::Number(Number::Float(value)), &[])),
            expected
        );
    }
}

#[test]
fn a_histogram_is_printed() {
    let point_kind = PointKind::Histogram { temporality: AggregationTemporality::Delta };
    let head = MetricHead { name: "took", description: "", unit: "s", point_kind };
    let point = HistogramPoint {
        count: 3,
        sum: Some(4.5),
        min: Some(0.0),
        max: Some(3.0),
        bounds: &[1.0, 2.5],
        counts: &[1, 0, 2],
    };
    let expected = concat!(
        r#"{"name":"took","unit":"s","histogram":{"dataPoints":[{"startTimeUnixNano":"1","timeUnixNano":"2","#,
        r#""count":"3","sum":4.5,"bucketCounts":["1","0","2"],"explicitBounds":[1.0,2.5],"#,
        r#""min":0.0,"max":3.0}],"aggregationTemporality":1}}"#,
    );
    let none = AttributeSet::default();
    assert_eq!(
        metric_line(&head, |record| record.add(&none, PERIOD, &Point::Histogram(point), &[])),
        expected
    );
}

#[test]
fn an_exponential_histogram_is_printed() {
    let point_kind = PointKind::ExponentialHistogram { temporality: AggregationTemporality::Cumulative };
    let head = MetricHead { name: "took", description: "", unit: "", point_kind };
    let point = ExponentialPoint {
        count: 4,
        sum: Some(-1.0),
        min: Some(-8.0),
        max: Some(4.0),
        scale: -3,
        zero_count: 1,
        zero_threshold: 0.0,
        positive: BucketsView { offset: 2, counts: &[1, 300] },
        negative: BucketsView { offset: -7, counts: &[1] },
    };
    let expected = concat!(
        r#"{"name":"took","exponentialHistogram":{"dataPoints":[{"startTimeUnixNano":"1","timeUnixNano":"2","#,
        r#""count":"4","sum":-1.0,"scale":-3,"zeroCount":"1","positive":{"offset":2,"bucketCounts":["1","300"]},"#,
        r#""negative":{"offset":-7,"bucketCounts":["1"]},"min":-8.0,"max":4.0}],"aggregationTemporality":2}}"#,
    );
    let none = AttributeSet::default();
    assert_eq!(
        metric_line(&head, |record| record.add(&none, PERIOD, &Point::Exponential(point), &[])),
        expected
    );
}

/// Returns a request with one record, whose fields are shuffled; `order` is the seed.
fn request(record: &[u8], order: u64) -> Vec<u8> {
    wrapped(0x0a, &wrapped(0x12, &wrapped(0x12, &any::reordered(record, order))))
}

fn compare(signal: Signal, request: &[u8], expected: &Json) -> Result<(), TestCaseError> {
    let line = line(signal, request).unwrap();
    prop_assert!(!line.contains(char::is_control), "more than a line: {line:?}");
    let printed: Json = serde_json::from_str(&line).unwrap();
    prop_assert_eq!(&printed, expected);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::tests::share_of(128)))]

    #[test]
    fn any_traces_are_printed_as_a_decoder_reads_them(
        whole in any::traces(),
        span in any::span(),
        order in proptest::num::u64::ANY,
    ) {
        compare(Signal::Traces, &whole.encode_to_vec(), &model::traces(&whole))?;
        let request = request(&span.encode_to_vec(), order);
        let read = ExportTraceServiceRequest::decode(&*request).unwrap();
        compare(Signal::Traces, &request, &model::traces(&read))?;
    }

    #[test]
    fn any_logs_are_printed_as_a_decoder_reads_them(
        whole in any::logs(),
        log in any::log(),
        order in proptest::num::u64::ANY,
    ) {
        compare(Signal::Logs, &whole.encode_to_vec(), &model::logs(&whole))?;
        let request = request(&log.encode_to_vec(), order);
        let read = ExportLogsServiceRequest::decode(&*request).unwrap();
        compare(Signal::Logs, &request, &model::logs(&read))?;
    }

    #[test]
    fn any_metrics_are_printed_as_a_decoder_reads_them(
        whole in any::metrics(),
        metric in any::metric(),
        order in proptest::num::u64::ANY,
    ) {
        compare(Signal::Metrics, &whole.encode_to_vec(), &model::metrics(&whole))?;
        let request = request(&metric.encode_to_vec(), order);
        let read = ExportMetricsServiceRequest::decode(&*request).unwrap();
        compare(Signal::Metrics, &request, &model::metrics(&read))?;
    }

    #[test]
    fn hostile_bytes_are_a_line_or_nothing(
        noise in prop::collection::vec(proptest::num::u8::ANY, 0..60),
        span in any::span(),
        metric in any::metric(),
        at in proptest::arbitrary::any::<prop::sample::Index>(),
        byte in prop_oneof![Just(0xff), Just(0x00), Just(0x0b), proptest::num::u8::ANY],
        cut in proptest::arbitrary::any::<prop::sample::Index>(),
    ) {
        let [span, metric] = [span.encode_to_vec(), metric.encode_to_vec()].map(|record| request(&record, 0));
        for whole in [noise, span, metric] {
            let mut changed = whole.clone();
            if !changed.is_empty() {
                *at.get_mut(&mut changed) = byte;
            }
            for signal in Signal::ALL {
                for bytes in [&whole[..], &changed, &whole[..cut.index(whole.len() + 1)]] {
                    if let Ok(line) = line(signal, bytes) {
                        serde_json::from_str::<Json>(&line).unwrap();
                    }
                }
            }
        }
    }
}

#[test]
fn numbers_that_are_not_packed_are_printed_all_the_same() {
    // `Buckets` with the counts 3 and 300, as two fields and packed into one.
    let apart = [0x10, 3, 0x10, 0xac, 0x02];
    let packed = [0x12, 3, 3, 0xac, 0x02];
    for buckets in [&apart[..], &packed] {
        let point = wrapped(0x42, buckets);
        let metric = wrapped(0x52, &wrapped(0x0a, &point));
        assert_eq!(
            record_line(Signal::Metrics, &wrapped(0x12, &metric)),
            r#"{"exponentialHistogram":{"dataPoints":[{"positive":{"bucketCounts":["3","300"]}}]}}"#
        );
    }
}

#[test]
fn of_values_that_exclude_each_other_the_last_is_printed() {
    let (whole, truth) = ([0x18, 5], [0x10, 1]);
    for (value, printed) in
        [([whole, truth].concat(), r#"{"boolValue":true}"#), ([truth, whole].concat(), r#"{"intValue":"5"}"#)]
    {
        let log = wrapped(0x2a, &value);
        assert_eq!(record_line(Signal::Logs, &wrapped(0x12, &log)), format!(r#"{{"body":{printed}}}"#));
    }
}

#[test]
fn what_is_not_known_is_left_out() {
    // field 100, as a number and as text
    let strange = [0xa0, 0x06, 1, 0xa2, 0x06, 1, b'x'];
    let log = [&strange[..], &wrapped(0x1a, b"WARN"), &strange].concat();
    assert_eq!(record_line(Signal::Logs, &wrapped(0x12, &log)), r#"{"severityText":"WARN"}"#);
}

#[test]
fn the_deepest_body_that_is_written_can_be_printed() {
    let mut body = Value::Str("leaf");
    let mut record = LogRecord::default();
    for depth in 0.. {
        record.begin(&LogLimits::default(), AMPLE);
        record.set_body(body);
        let framed = record.finish(Severity::Info, &LogEnd { time: 1, observed: 2, span: None }).unwrap();
        let line = record_line(Signal::Logs, framed);
        if !line.contains("leaf") {
            assert!(depth > 10 && line.contains("droppedAttributesCount"), "{depth}: {line}");
            break;
        }
        body = Value::Map(vec![("key", body)].leak());
    }
}

#[test]
fn nested_messages_are_followed_as_far_as_decoders_go() {
    for levels in (0..100).chain([5_000]) {
        // arrays in arrays
        let body = (0..levels).fold(Vec::new(), |value, _| wrapped(0x2a, &wrapped(0x0a, &value)));
        let request = request(&wrapped(0x2a, &body), 0);
        let is_read = ExportLogsServiceRequest::decode(&*request).is_ok();
        assert_eq!(line(Signal::Logs, &request).is_ok(), is_read, "{levels}");
        assert_eq!(is_read, levels < 49, "{levels}");
    }
}

#[test]
fn what_is_zero_or_empty_is_left_out_unless_that_says_something() {
    let (no_time, no_text) = ([&[0x09][..], &[0; 8]].concat(), [0x1a, 0]);
    let empty_body = wrapped(0x2a, &[0x0a, 0]);
    let log = [&no_time[..], &no_text, &empty_body].concat();
    assert_eq!(record_line(Signal::Logs, &wrapped(0x12, &log)), r#"{"body":{"stringValue":""}}"#);
}

#[test]
fn refuses_a_request_that_is_longer_than_the_limit_or_is_not_otlp() {
    let mut text = Vec::new();
    let mut encode = |body: &[&[u8]], max_bytes| {
        super::encode(&mut text, &Payload { signal: Signal::Traces, body }, max_bytes)
            .then(|| String::from_utf8_lossy(&text).into_owned())
    };
    assert_eq!(encode(&[b"\x0a", b"\x00"], 22).as_deref(), Some(r#"{"resourceSpans":[{}]}"#));
    assert_eq!(encode(&[b"\x0a\x00"], 21), None);
    assert_eq!(encode(&[b"\x0a\x09"], 1000), None);
}

fn written(write: impl Fn(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).expect("JSON is UTF-8")
}

#[test]
fn base64_is_padded_to_whole_groups() {
    // the examples of RFC 4648
    for (bytes, encoded) in [
        ("", ""),
        ("f", "Zg=="),
        ("fo", "Zm8="),
        ("foo", "Zm9v"),
        ("foob", "Zm9vYg=="),
        ("fooba", "Zm9vYmE="),
        ("foobar", "Zm9vYmFy"),
    ] {
        assert_eq!(written(|out| quoted(out, base64::encode(bytes.as_bytes()))), format!("{encoded:?}"));
    }
    assert_eq!(written(|out| quoted(out, base64::encode(&[0xff, 0xef, 0xbf]))), "\"/++/\"");
}

#[test]
fn doubles_are_numbers_unless_json_has_none_for_them() {
    for (number, spelled) in [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (12.5, "12.5"),
        (-1e300, "-1e300"),
        (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
        (0.1 + 0.2, "0.30000000000000004"),
        (f64::NAN, "\"NaN\""),
        (-f64::NAN, "\"NaN\""),
        (f64::INFINITY, "\"Infinity\""),
        (f64::NEG_INFINITY, "\"-Infinity\""),
    ] {
        assert_eq!(written(|out| double(out, number)), spelled);
    }
}

#[test]
fn nothing_in_a_text_can_end_its_line_or_speak_to_a_terminal() {
    for (given, spelled) in [
        ("", r#""""#),
        ("plain wäter 🚰", r#""plain wäter 🚰""#),
        ("say \"hi\" \\o/", r#""say \"hi\" \\o/""#),
        ("a\nb\r\tc", r#""a\nb\r\tc""#),
        ("\u{1b}[31m\u{7}\0", r#""\u001b[31m\u0007\u0000""#),
        ("\u{7f}\u{9b}2J", r#""\u007f\u009b2J""#),
        ("\u{202e}gpj\u{2028}\u{61c}", r#""\u202egpj\u2028\u061c""#),
        ("\u{e0041}", r#""\udb40\udc41""#),
    ] {
        assert_eq!(written(|out| text(out, given)), spelled);
    }
}

#[test]
fn ids_are_lower_case_hexadecimal() {
    assert_eq!(written(|out| hex(out, &[0x00, 0x1f, 0xab])), "\"001fab\"");
}

mod any {
    //! Generators of requests with everything that OTLP allows.

    use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::common::v1::{
        AnyValue, ArrayValue, EntityRef, InstrumentationScope, KeyValue, KeyValueList,
    };
    use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
    use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
    use opentelemetry_proto::tonic::metrics::v1::metric::Data;
    use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
    use opentelemetry_proto::tonic::metrics::v1::{
        Exemplar, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint,
        Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, Summary, SummaryDataPoint, exemplar,
        number_data_point,
    };
    use opentelemetry_proto::tonic::resource::v1::Resource;
    use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
    use proptest::collection::vec;
    use proptest::option::of;
    use proptest::prelude::*;
    use prost::encoding::{DecodeContext, decode_key, skip_field};

    pub(super) fn traces() -> impl Strategy<Value = ExportTraceServiceRequest> {
        let scopes = (of(scope()), vec(span(), 0..3), text())
            .prop_map(|(scope, spans, schema_url)| ScopeSpans { scope, spans, schema_url });
        let resources =
            (of(resource()), vec(scopes, 0..3), text()).prop_map(|(resource, scope_spans, schema_url)| {
                ResourceSpans { resource, scope_spans, schema_url }
            });
        vec(resources, 0..2).prop_map(|resource_spans| ExportTraceServiceRequest { resource_spans })
    }

    pub(super) fn logs() -> impl Strategy<Value = ExportLogsServiceRequest> {
        let scopes = (of(scope()), vec(log(), 0..3), text())
            .prop_map(|(scope, log_records, schema_url)| ScopeLogs { scope, log_records, schema_url });
        let resources = (of(resource()), vec(scopes, 0..3), text())
            .prop_map(|(resource, scope_logs, schema_url)| ResourceLogs { resource, scope_logs, schema_url });
        vec(resources, 0..2).prop_map(|resource_logs| ExportLogsServiceRequest { resource_logs })
    }

    pub(super) fn metrics() -> impl Strategy<Value = ExportMetricsServiceRequest> {
        let scopes = (of(scope()), vec(metric(), 0..3), text())
            .prop_map(|(scope, metrics, schema_url)| ScopeMetrics { scope, metrics, schema_url });
        let resources =
            (of(resource()), vec(scopes, 0..3), text()).prop_map(|(resource, scope_metrics, schema_url)| {
                ResourceMetrics { resource, scope_metrics, schema_url }
            });
        vec(resources, 0..2).prop_map(|resource_metrics| ExportMetricsServiceRequest { resource_metrics })
    }

    pub(super) fn span() -> impl Strategy<Value = Span> {
        let status = (text(), number()).prop_map(|(message, code)| Status { message, code });
        let ids = (bytes(), bytes(), bytes(), text(), text());
        let lists = (attributes(), vec(event(), 0..3), vec(link(), 0..3), of(status));
        let numbers = (long(), long(), number(), count(), count(), count(), count());
        (ids, lists, numbers).prop_map(|(ids, lists, numbers)| {
            let (trace_id, span_id, parent_span_id, trace_state, name) = ids;
            let (attributes, events, links, status) = lists;
            let (start_time_unix_nano, end_time_unix_nano, kind, flags, dropped_attributes_count, ..) =
                numbers;
            let (.., dropped_events_count, dropped_links_count) = numbers;
            Span {
                trace_id,
                span_id,
                trace_state,
                parent_span_id,
                flags,
                name,
                kind,
                start_time_unix_nano,
                end_time_unix_nano,
                attributes,
                dropped_attributes_count,
                events,
                dropped_events_count,
                links,
                dropped_links_count,
                status,
            }
        })
    }

    fn event() -> impl Strategy<Value = Event> {
        (long(), text(), attributes(), count()).prop_map(
            |(time_unix_nano, name, attributes, dropped_attributes_count)| Event {
                time_unix_nano,
                name,
                attributes,
                dropped_attributes_count,
            },
        )
    }

    fn link() -> impl Strategy<Value = Link> {
        (bytes(), bytes(), text(), attributes(), count(), count()).prop_map(
            |(trace_id, span_id, trace_state, attributes, dropped_attributes_count, flags)| Link {
                trace_id,
                span_id,
                trace_state,
                attributes,
                dropped_attributes_count,
                flags,
            },
        )
    }

    pub(super) fn log() -> impl Strategy<Value = LogRecord> {
        let texts = (text(), text(), of(value()), attributes());
        (long(), long(), number(), texts, count(), count(), bytes(), bytes()).prop_map(
            |(
                time_unix_nano,
                observed_time_unix_nano,
                severity_number,
                texts,
                dropped,
                flags,
                trace_id,
                span_id,
            )| {
                let (severity_text, event_name, body, attributes) = texts;
                LogRecord {
                    time_unix_nano,
                    observed_time_unix_nano,
                    severity_number,
                    severity_text,
                    body,
                    attributes,
                    dropped_attributes_count: dropped,
                    flags,
                    trace_id,
                    span_id,
                    event_name,
                }
            },
        )
    }

    pub(super) fn metric() -> impl Strategy<Value = Metric> {
        (text(), text(), text(), attributes(), of(data())).prop_map(
            |(name, description, unit, metadata, data)| Metric { name, description, unit, metadata, data },
        )
    }

    fn data() -> impl Strategy<Value = Data> {
        prop_oneof![
            vec(number_point(), 0..3).prop_map(|data_points| Data::Gauge(Gauge { data_points })),
            (vec(number_point(), 0..3), number(), any::<bool>()).prop_map(
                |(data_points, aggregation_temporality, is_monotonic)| {
                    Data::Sum(Sum { data_points, aggregation_temporality, is_monotonic })
                }
            ),
            (vec(histogram_point(), 0..3), number()).prop_map(|(data_points, aggregation_temporality)| {
                Data::Histogram(Histogram { data_points, aggregation_temporality })
            }),
            (vec(exponential_point(), 0..3), number()).prop_map(|(data_points, aggregation_temporality)| {
                Data::ExponentialHistogram(ExponentialHistogram { data_points, aggregation_temporality })
            }),
            vec(summary_point(), 0..3).prop_map(|data_points| Data::Summary(Summary { data_points })),
        ]
    }

    fn number_point() -> impl Strategy<Value = NumberDataPoint> {
        let value = prop_oneof![
            double().prop_map(number_data_point::Value::AsDouble),
            whole().prop_map(number_data_point::Value::AsInt),
        ];
        (attributes(), long(), long(), of(value), vec(exemplar(), 0..2), count()).prop_map(
            |(attributes, start_time_unix_nano, time_unix_nano, value, exemplars, flags)| NumberDataPoint {
                attributes,
                start_time_unix_nano,
                time_unix_nano,
                exemplars,
                flags,
                value,
            },
        )
    }

    fn histogram_point() -> impl Strategy<Value = HistogramDataPoint> {
        let totals = (long(), of(double()), of(double()), of(double()));
        let buckets = (vec(long(), 0..5), vec(double(), 0..5));
        (attributes(), long(), long(), totals, buckets, vec(exemplar(), 0..2), count()).prop_map(
            |(attributes, start_time_unix_nano, time_unix_nano, totals, buckets, exemplars, flags)| {
                let (count, sum, min, max) = totals;
                let (bucket_counts, explicit_bounds) = buckets;
                HistogramDataPoint {
                    attributes,
                    start_time_unix_nano,
                    time_unix_nano,
                    count,
                    sum,
                    bucket_counts,
                    explicit_bounds,
                    exemplars,
                    flags,
                    min,
                    max,
                }
            },
        )
    }

    fn exponential_point() -> impl Strategy<Value = ExponentialHistogramDataPoint> {
        let buckets = || {
            (number(), vec(long(), 0..5))
                .prop_map(|(offset, bucket_counts)| Buckets { offset, bucket_counts })
        };
        let totals = (long(), of(double()), of(double()), of(double()));
        let middle = (number(), long(), double(), of(buckets()), of(buckets()));
        (attributes(), long(), long(), totals, middle, vec(exemplar(), 0..2), count()).prop_map(
            |(attributes, start_time_unix_nano, time_unix_nano, totals, middle, exemplars, flags)| {
                let (count, sum, min, max) = totals;
                let (scale, zero_count, zero_threshold, positive, negative) = middle;
                ExponentialHistogramDataPoint {
                    attributes,
                    start_time_unix_nano,
                    time_unix_nano,
                    count,
                    sum,
                    scale,
                    zero_count,
                    positive,
                    negative,
                    flags,
                    exemplars,
                    min,
                    max,
                    zero_threshold,
                }
            },
        )
    }

    fn summary_point() -> impl Strategy<Value = SummaryDataPoint> {
        let quantile = (double(), double()).prop_map(|(quantile, value)| ValueAtQuantile { quantile, value });
        (attributes(), long(), long(), long(), double(), vec(quantile, 0..3), count()).prop_map(
            |(attributes, start_time_unix_nano, time_unix_nano, count, sum, quantile_values, flags)| {
                SummaryDataPoint {
                    attributes,
                    start_time_unix_nano,
                    time_unix_nano,
                    count,
                    sum,
                    quantile_values,
                    flags,
                }
            },
        )
    }

    fn exemplar() -> impl Strategy<Value = Exemplar> {
        let value = prop_oneof![
            double().prop_map(exemplar::Value::AsDouble),
            whole().prop_map(exemplar::Value::AsInt)
        ];
        (attributes(), long(), bytes(), bytes(), of(value)).prop_map(
            |(filtered_attributes, time_unix_nano, span_id, trace_id, value)| Exemplar {
                filtered_attributes,
                time_unix_nano,
                span_id,
                trace_id,
                value,
            },
        )
    }

    fn resource() -> impl Strategy<Value = Resource> {
        let entity = (text(), text(), vec(text(), 0..3), vec(text(), 0..3)).prop_map(
            |(schema_url, r#type, id_keys, description_keys)| EntityRef {
                schema_url,
                r#type,
                id_keys,
                description_keys,
            },
        );
        (attributes(), count(), vec(entity, 0..2)).prop_map(
            |(attributes, dropped_attributes_count, entity_refs)| Resource {
                attributes,
                dropped_attributes_count,
                entity_refs,
            },
        )
    }

    fn scope() -> impl Strategy<Value = InstrumentationScope> {
        (text(), text(), attributes(), count()).prop_map(
            |(name, version, attributes, dropped_attributes_count)| InstrumentationScope {
                name,
                version,
                attributes,
                dropped_attributes_count,
            },
        )
    }

    fn attributes() -> impl Strategy<Value = Vec<KeyValue>> {
        vec(attribute(of(value())), 0..3)
    }

    fn attribute(value: impl Strategy<Value = Option<AnyValue>>) -> impl Strategy<Value = KeyValue> {
        (text(), value).prop_map(|(key, value)| KeyValue { key, value, ..Default::default() })
    }

    fn value() -> impl Strategy<Value = AnyValue> {
        let leaf = prop_oneof![
            text().prop_map(Value::StringValue),
            any::<bool>().prop_map(Value::BoolValue),
            whole().prop_map(Value::IntValue),
            double().prop_map(Value::DoubleValue),
            bytes().prop_map(Value::BytesValue),
        ];
        let leaf = of(leaf).prop_map(|value| AnyValue { value });
        leaf.prop_recursive(3, 8, 3, |inner| {
            let array = vec(inner.clone(), 0..3).prop_map(|values| Value::ArrayValue(ArrayValue { values }));
            let map = vec(attribute(of(inner)), 0..3)
                .prop_map(|values| Value::KvlistValue(KeyValueList { values }));
            prop_oneof![array, map].prop_map(|value| AnyValue { value: Some(value) })
        })
    }

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![2 => Just(String::new()), 3 => "[a-zé水🚰\"\\\\\n]{0,8}", 1 => any::<String>()]
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        vec(any::<u8>(), 0..9)
    }

    fn double() -> impl Strategy<Value = f64> {
        prop_oneof![1 => Just(0.0), 1 => Just(f64::INFINITY), 6 => proptest::num::f64::ANY]
    }

    fn whole() -> impl Strategy<Value = i64> {
        prop_oneof![1 => Just(0), 3 => any::<i64>()]
    }

    fn long() -> impl Strategy<Value = u64> {
        prop_oneof![1 => Just(0), 1 => Just(u64::MAX), 3 => any::<u64>()]
    }

    fn number() -> impl Strategy<Value = i32> {
        prop_oneof![1 => Just(0), 2 => -3..30, 1 => any::<i32>()]
    }

    fn count() -> impl Strategy<Value = u32> {
        prop_oneof![1 => Just(0), 3 => any::<u32>()]
    }

    /// Returns the same message with its fields in another order.
    pub(super) fn reordered(message: &[u8], mut order: u64) -> Vec<u8> {
        let mut fields = Vec::new();
        let mut rest = message;
        while !rest.is_empty() {
            let from_here = rest;
            let (number, wire_type) = decode_key(&mut rest).expect("a message");
            skip_field(wire_type, number, &mut rest, DecodeContext::default()).expect("a message");
            fields.push(&from_here[..from_here.len() - rest.len()]);
        }
        for last in (1..fields.len()).rev() {
            fields.swap(last, (order % (last as u64 + 1)) as usize);
            order = order.rotate_left(13).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        fields.concat()
    }
}

mod model {
    //! A reference encoder of OTLP JSON from decoded messages: slow, long, and obviously right.

    use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, EntityRef, InstrumentationScope, KeyValue};
    use opentelemetry_proto::tonic::logs::v1::LogRecord;
    use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
    use opentelemetry_proto::tonic::metrics::v1::metric::Data;
    use opentelemetry_proto::tonic::metrics::v1::{
        Exemplar, ExponentialHistogramDataPoint, HistogramDataPoint, Metric, NumberDataPoint,
        SummaryDataPoint, exemplar, number_data_point,
    };
    use opentelemetry_proto::tonic::resource::v1::Resource;
    use opentelemetry_proto::tonic::trace::v1::Span;
    use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
    use serde_json::{Map, Value as Json, json};

    pub(super) fn traces(request: &ExportTraceServiceRequest) -> Json {
        object([(
            "resourceSpans",
            list(&request.resource_spans, |part| {
                let scopes = list(&part.scope_spans, |part| {
                    records(&part.scope, "spans", list(&part.spans, span), &part.schema_url)
                });
                object([
                    ("resource", part.resource.as_ref().map(resource)),
                    ("scopeSpans", scopes),
                    ("schemaUrl", text(&part.schema_url)),
                ])
            }),
        )])
    }

    pub(super) fn logs(request: &ExportLogsServiceRequest) -> Json {
        object([(
            "resourceLogs",
            list(&request.resource_logs, |part| {
                let scopes = list(&part.scope_logs, |part| {
                    records(&part.scope, "logRecords", list(&part.log_records, log), &part.schema_url)
                });
                object([
                    ("resource", part.resource.as_ref().map(resource)),
                    ("scopeLogs", scopes),
                    ("schemaUrl", text(&part.schema_url)),
                ])
            }),
        )])
    }

    pub(super) fn metrics(request: &ExportMetricsServiceRequest) -> Json {
        object([(
            "resourceMetrics",
            list(&request.resource_metrics, |part| {
                let scopes = list(&part.scope_metrics, |part| {
                    records(&part.scope, "metrics", list(&part.metrics, metric), &part.schema_url)
                });
                object([
                    ("resource", part.resource.as_ref().map(resource)),
                    ("scopeMetrics", scopes),
                    ("schemaUrl", text(&part.schema_url)),
                ])
            }),
        )])
    }

    fn records(
        scope: &Option<InstrumentationScope>,
        name: &str,
        records: Option<Json>,
        schema_url: &str,
    ) -> Json {
        object([("scope", scope.as_ref().map(self::scope)), (name, records), ("schemaUrl", text(schema_url))])
    }

    fn resource(resource: &Resource) -> Json {
        object([
            ("attributes", list(&resource.attributes, attribute)),
            ("droppedAttributesCount", count(resource.dropped_attributes_count)),
            ("entityRefs", list(&resource.entity_refs, entity)),
        ])
    }

    fn entity(entity: &EntityRef) -> Json {
        object([
            ("schemaUrl", text(&entity.schema_url)),
            ("type", text(&entity.r#type)),
            ("idKeys", list(&entity.id_keys, |key| json!(key))),
            ("descriptionKeys", list(&entity.description_keys, |key| json!(key))),
        ])
    }

    fn scope(scope: &InstrumentationScope) -> Json {
        object([
            ("name", text(&scope.name)),
            ("version", text(&scope.version)),
            ("attributes", list(&scope.attributes, attribute)),
            ("droppedAttributesCount", count(scope.dropped_attributes_count)),
        ])
    }

    fn attribute(attribute: &KeyValue) -> Json {
        object([("key", text(&attribute.key)), ("value", attribute.value.as_ref().map(value))])
    }

    fn value(value: &AnyValue) -> Json {
        let Some(value) = &value.value else { return json!({}) };
        match value {
            Value::StringValue(text) => json!({ "stringValue": text }),
            Value::BoolValue(truth) => json!({ "boolValue": truth }),
            Value::IntValue(number) => json!({ "intValue": number.to_string() }),
            Value::DoubleValue(number) => json!({ "doubleValue": double(*number) }),
            Value::ArrayValue(array) => {
                json!({ "arrayValue": object([("values", list(&array.values, self::value))]) })
            }
            Value::KvlistValue(map) => {
                json!({ "kvlistValue": object([("values", list(&map.values, attribute))]) })
            }
            Value::BytesValue(bytes) => json!({ "bytesValue": base64(bytes) }),
            Value::StringValueStrindex(_) => panic!("only profiles have it"),
        }
    }

    fn span(span: &Span) -> Json {
        object([
            ("traceId", hex(&span.trace_id)),
            ("spanId", hex(&span.span_id)),
            ("traceState", text(&span.trace_state)),
            ("parentSpanId", hex(&span.parent_span_id)),
            ("flags", count(span.flags)),
            ("name", text(&span.name)),
            ("kind", number(span.kind)),
            ("startTimeUnixNano", long(span.start_time_unix_nano)),
            ("endTimeUnixNano", long(span.end_time_unix_nano)),
            ("attributes", list(&span.attributes, attribute)),
            ("droppedAttributesCount", count(span.dropped_attributes_count)),
            ("events", list(&span.events, event)),
            ("droppedEventsCount", count(span.dropped_events_count)),
            ("links", list(&span.links, link)),
            ("droppedLinksCount", count(span.dropped_links_count)),
            (
                "status",
                span.status.as_ref().map(|status| {
                    object([("message", text(&status.message)), ("code", number(status.code))])
                }),
            ),
        ])
    }

    fn event(event: &Event) -> Json {
        object([
            ("timeUnixNano", long(event.time_unix_nano)),
            ("name", text(&event.name)),
            ("attributes", list(&event.attributes, attribute)),
            ("droppedAttributesCount", count(event.dropped_attributes_count)),
        ])
    }

    fn link(link: &Link) -> Json {
        object([
            ("traceId", hex(&link.trace_id)),
            ("spanId", hex(&link.span_id)),
            ("traceState", text(&link.trace_state)),
            ("attributes", list(&link.attributes, attribute)),
            ("droppedAttributesCount", count(link.dropped_attributes_count)),
            ("flags", count(link.flags)),
        ])
    }

    fn log(log: &LogRecord) -> Json {
        object([
            ("timeUnixNano", long(log.time_unix_nano)),
            ("observedTimeUnixNano", long(log.observed_time_unix_nano)),
            ("severityNumber", number(log.severity_number)),
            ("severityText", text(&log.severity_text)),
            ("eventName", text(&log.event_name)),
            ("body", log.body.as_ref().map(value)),
            ("attributes", list(&log.attributes, attribute)),
            ("droppedAttributesCount", count(log.dropped_attributes_count)),
            ("flags", count(log.flags)),
            ("traceId", hex(&log.trace_id)),
            ("spanId", hex(&log.span_id)),
        ])
    }

    fn metric(metric: &Metric) -> Json {
        let mut json = object([
            ("name", text(&metric.name)),
            ("description", text(&metric.description)),
            ("unit", text(&metric.unit)),
            ("metadata", list(&metric.metadata, attribute)),
        ]);
        let points = |points| ("dataPoints", points);
        let (name, data) = match &metric.data {
            None => return json,
            Some(Data::Gauge(data)) => ("gauge", object([points(list(&data.data_points, number_point))])),
            Some(Data::Sum(data)) => (
                "sum",
                object([
                    points(list(&data.data_points, number_point)),
                    ("aggregationTemporality", number(data.aggregation_temporality)),
                    ("isMonotonic", data.is_monotonic.then_some(Json::Bool(true))),
                ]),
            ),
            Some(Data::Histogram(data)) => (
                "histogram",
                object([
                    points(list(&data.data_points, histogram_point)),
                    ("aggregationTemporality", number(data.aggregation_temporality)),
                ]),
            ),
            Some(Data::ExponentialHistogram(data)) => (
                "exponentialHistogram",
                object([
                    points(list(&data.data_points, exponential_point)),
                    ("aggregationTemporality", number(data.aggregation_temporality)),
                ]),
            ),
            Some(Data::Summary(data)) => {
                ("summary", object([points(list(&data.data_points, summary_point))]))
            }
        };
        json[name] = data;
        json
    }

    fn number_point(point: &NumberDataPoint) -> Json {
        let (name, value) = match point.value {
            None => ("asInt", None),
            Some(number_data_point::Value::AsDouble(number)) => ("asDouble", Some(double(number))),
            Some(number_data_point::Value::AsInt(number)) => ("asInt", Some(json!(number.to_string()))),
        };
        object([
            ("attributes", list(&point.attributes, attribute)),
            ("startTimeUnixNano", long(point.start_time_unix_nano)),
            ("timeUnixNano", long(point.time_unix_nano)),
            (name, value),
            ("exemplars", list(&point.exemplars, exemplar)),
            ("flags", count(point.flags)),
        ])
    }

    fn histogram_point(point: &HistogramDataPoint) -> Json {
        object([
            ("attributes", list(&point.attributes, attribute)),
            ("startTimeUnixNano", long(point.start_time_unix_nano)),
            ("timeUnixNano", long(point.time_unix_nano)),
            ("count", long(point.count)),
            ("sum", point.sum.map(double)),
            ("bucketCounts", list(&point.bucket_counts, |count| json!(count.to_string()))),
            ("explicitBounds", list(&point.explicit_bounds, |bound| double(*bound))),
            ("exemplars", list(&point.exemplars, exemplar)),
            ("flags", count(point.flags)),
            ("min", point.min.map(double)),
            ("max", point.max.map(double)),
        ])
    }

    fn exponential_point(point: &ExponentialHistogramDataPoint) -> Json {
        object([
            ("attributes", list(&point.attributes, attribute)),
            ("startTimeUnixNano", long(point.start_time_unix_nano)),
            ("timeUnixNano", long(point.time_unix_nano)),
            ("count", long(point.count)),
            ("sum", point.sum.map(double)),
            ("scale", number(point.scale)),
            ("zeroCount", long(point.zero_count)),
            ("positive", point.positive.as_ref().map(buckets)),
            ("negative", point.negative.as_ref().map(buckets)),
            ("flags", count(point.flags)),
            ("exemplars", list(&point.exemplars, exemplar)),
            ("min", point.min.map(double)),
            ("max", point.max.map(double)),
            ("zeroThreshold", plain_double(point.zero_threshold)),
        ])
    }

    fn buckets(buckets: &Buckets) -> Json {
        object([
            ("offset", number(buckets.offset)),
            ("bucketCounts", list(&buckets.bucket_counts, |count| json!(count.to_string()))),
        ])
    }

    fn summary_point(point: &SummaryDataPoint) -> Json {
        object([
            ("attributes", list(&point.attributes, attribute)),
            ("startTimeUnixNano", long(point.start_time_unix_nano)),
            ("timeUnixNano", long(point.time_unix_nano)),
            ("count", long(point.count)),
            ("sum", plain_double(point.sum)),
            (
                "quantileValues",
                list(&point.quantile_values, |at| {
                    object([("quantile", plain_double(at.quantile)), ("value", plain_double(at.value))])
                }),
            ),
            ("flags", count(point.flags)),
        ])
    }

    fn exemplar(exemplar: &Exemplar) -> Json {
        let (name, value) = match exemplar.value {
            None => ("asInt", None),
            Some(exemplar::Value::AsDouble(number)) => ("asDouble", Some(double(number))),
            Some(exemplar::Value::AsInt(number)) => ("asInt", Some(json!(number.to_string()))),
        };
        object([
            ("filteredAttributes", list(&exemplar.filtered_attributes, attribute)),
            ("timeUnixNano", long(exemplar.time_unix_nano)),
            (name, value),
            ("spanId", hex(&exemplar.span_id)),
            ("traceId", hex(&exemplar.trace_id)),
        ])
    }

    /// Returns an object of the fields that are not `None`.
    fn object<'a>(fields: impl IntoIterator<Item = (&'a str, Option<Json>)>) -> Json {
        let there = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Json::Object(there.collect::<Map<_, _>>())
    }

    fn list<T>(items: &[T], item: impl Fn(&T) -> Json) -> Option<Json> {
        (!items.is_empty()).then(|| Json::Array(items.iter().map(item).collect()))
    }

    fn text(text: &str) -> Option<Json> {
        (!text.is_empty()).then(|| json!(text))
    }

    fn count(count: u32) -> Option<Json> {
        (count != 0).then(|| json!(count))
    }

    fn number(number: i32) -> Option<Json> {
        (number != 0).then(|| json!(number))
    }

    fn long(number: u64) -> Option<Json> {
        (number != 0).then(|| json!(number.to_string()))
    }

    fn plain_double(number: f64) -> Option<Json> {
        (number != 0.0).then(|| double(number))
    }

    fn double(number: f64) -> Json {
        match number {
            number if number.is_nan() => json!("NaN"),
            f64::INFINITY => json!("Infinity"),
            f64::NEG_INFINITY => json!("-Infinity"),
            number => json!(number),
        }
    }

    fn hex(bytes: &[u8]) -> Option<Json> {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        text(&digits)
    }

    /// Encodes base64 bit by bit.
    fn base64(bytes: &[u8]) -> String {
        let bits: String = bytes.iter().map(|byte| format!("{byte:08b}")).collect();
        let alphabet: Vec<char> = ('A'..='Z').chain('a'..='z').chain('0'..='9').chain(['+', '/']).collect();
        let sixes = bits.as_bytes().chunks(6).map(|six| {
            let padded = format!("{:0<6}", String::from_utf8_lossy(six));
            alphabet[usize::from_str_radix(&padded, 2).expect("they are bits")]
        });
        let mut digits: String = sixes.collect();
        while digits.len() % 4 != 0 {
            digits.push('=');
        }
        digits
    }
}
