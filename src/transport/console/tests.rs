//! What is printed, spelled out for every kind of record, and compared with what the protocol's own decoder reads.

mod any;
mod model;

use std::io::ErrorKind;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use proptest::prelude::*;
use prost::Message;
use serde_json::Value as Json;

use super::*;
use crate::record::{
    AggregationTemporality, AttributeSet, BucketsView, ExponentialPoint, HistogramPoint, LinkTarget, LogEnd,
    LogLimits, LogRecord, MetricHead, MetricRecord, Number, Period, Scope, Severity, Shape, Signal, SpanHead,
    SpanId, SpanKind, SpanLimits, SpanRecord, SpanRef, Status, TraceId, Value,
};

/// More than any record here needs.
const AMPLE: usize = 1 << 20;
const PERIOD: Period = Period { start: 1, time: 2 };

/// The line of a request, without its end.
fn line(signal: Signal, request: &[u8]) -> Result<String, Malformed> {
    let mut line = Vec::new();
    line::write(&mut line, signal, request)?;
    Ok(String::from_utf8(line).expect("JSON is UTF-8"))
}

/// The line of a request with this one framed record in it, without what stands around the record.
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

/// A field that holds these bytes.
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
    span.close_sub_message();
    // attributes go on after the event
    span.set("truth", Value::Bool(false));
    span.set("whole", Value::Int(9_007_199_254_740_993));
    span.set("share", Value::Float(0.5));
    span.set("none", Value::Float(f64::NAN));
    span.set("bytes", Value::Bytes(&[0, 255, 16]));
    span.set("list", Value::Strs(&["a", ""]));
    span.set("empty", Value::Array(&[]));
    span.set("map", Value::Map(&[("deep", Value::Array(&[Value::Bool(true)]))]));
    let target = LinkTarget {
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
    let shape = Shape::Sum { monotonic: true, temporality: AggregationTemporality::Cumulative };
    let head = MetricHead { name: "orders", description: "so far", unit: "{order}", shape };
    let country = AttributeSet::new([("shop.country", Value::Str("SE"))]);
    let expected = concat!(
        r#"{"name":"orders","description":"so far","unit":"{order}","sum":{"dataPoints":[{"#,
        r#""attributes":[{"key":"shop.country","value":{"stringValue":"SE"}}],"#,
        r#""startTimeUnixNano":"1","timeUnixNano":"2","asInt":"0"}],"aggregationTemporality":2,"isMonotonic":true}}"#,
    );
    assert_eq!(metric_line(&head, |record| record.number(&country, PERIOD, Number::Int(0))), expected);
}

#[test]
fn a_gauge_is_printed() {
    let head = MetricHead { name: "level", description: "", unit: "", shape: Shape::Gauge };
    let period = Period { start: 0, time: 2 };
    let none = AttributeSet::default();
    for (value, spelled) in
        [(-1.5, "-1.5"), (f64::INFINITY, "\"Infinity\""), (f64::NEG_INFINITY, "\"-Infinity\"")]
    {
        let expected = format!(
            r#"{{"name":"level","gauge":{{"dataPoints":[{{"timeUnixNano":"2","asDouble":{spelled}}}]}}}}"#
        );
        assert_eq!(metric_line(&head, |record| record.number(&none, period, Number::Float(value))), expected);
    }
}

#[test]
fn a_histogram_is_printed() {
    let shape = Shape::Histogram { temporality: AggregationTemporality::Delta };
    let head = MetricHead { name: "took", description: "", unit: "s", shape };
    let point = HistogramPoint {
        count: 3,
        sum: 4.5,
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
    assert_eq!(metric_line(&head, |record| record.histogram(&none, PERIOD, &point)), expected);
}

#[test]
fn an_exponential_histogram_is_printed() {
    let shape = Shape::ExponentialHistogram { temporality: AggregationTemporality::Cumulative };
    let head = MetricHead { name: "took", description: "", unit: "", shape };
    let point = ExponentialPoint {
        count: 4,
        sum: -1.0,
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
    assert_eq!(metric_line(&head, |record| record.exponential(&none, PERIOD, &point)), expected);
}

/// A request that holds one record, whose fields stand in any order.
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
    #![proptest_config(ProptestConfig::with_cases(128))]

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
    // `Buckets` with the counts 3 and 300, each in a field of its own and both in one
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
    // field 100, as a number and as a text
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

/// Takes so many bytes and then no more.
struct Narrow {
    taken: Vec<u8>,
    room: usize,
}

impl Write for Narrow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fitting = bytes.len().min(self.room);
        if fitting == 0 && !bytes.is_empty() {
            return Err(ErrorKind::StorageFull.into());
        }
        self.room -= fitting;
        self.taken.extend_from_slice(&bytes[..fitting]);
        Ok(fitting)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_line_that_was_cut_off_does_not_spoil_the_next_one() {
    let mut console = Console { line: b"{\"a\":1}\n".to_vec(), ..Console::default() };
    let mut out = Narrow { taken: Vec::new(), room: 3 };
    let Verdict::Refused { reason } = console.print(&mut out) else { panic!("it cannot have been printed") };
    assert_eq!(reason, "write to stdout: no storage space");
    out.room = 100;
    assert_eq!(console.print(&mut out), Verdict::Accepted);
    assert_eq!(console.print(&mut out), Verdict::Accepted);
    assert_eq!(String::from_utf8(out.taken).unwrap(), "{\"a\n{\"a\":1}\n{\"a\":1}\n");
}

#[test]
fn nothing_is_printed_when_the_time_is_up() {
    let mut console = Console::default();
    let payload = Payload { signal: Signal::Traces, body: &[] };
    let too_late = Verdict::TryLater { after: None, reason: "write to stdout: no time left".to_owned() };
    assert_eq!(console.send(&payload, Instant::now()), too_late);
    console.interrupter()();
    assert_eq!(console.send(&payload, Instant::now() + Duration::from_secs(60)), too_late);
}

#[test]
fn what_is_no_request_is_refused() {
    let payload = Payload { signal: Signal::Traces, body: &[&[0x0a, 9]] };
    let verdict = Console::default().send(&payload, Instant::now() + Duration::from_secs(60));
    assert_eq!(verdict, Verdict::Refused { reason: "write to stdout: the request is no OTLP".to_owned() });
}
