//! OTLP/JSON over HTTP: requests in JSON are answered in JSON.

use std::io::Write;
use std::sync::{Mutex, mpsc};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use standpipe::Signal;
use standpipe::receiver::proto::Data;
use standpipe::receiver::{Answer, Receiver, RefusalKind, RefusedRequest};

use crate::client::{Client, Reply, SOON, ask, post, post_json, traces};

/// A span as Node's SDK (`@opentelemetry/exporter-trace-otlp-http`) writes it.
const SPAN_OF_NODE: &str = r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}},{"key":"process.pid","value":{"intValue":4711}},{"key":"process.command_args","value":{"arrayValue":{"values":[{"stringValue":"node"},{"stringValue":"shop.js"}]}}}],"droppedAttributesCount":0},"scopeSpans":[{"scope":{"name":"till","version":"1.2"},"spans":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","parentSpanId":"eee19b7ec3c1b173","name":"order","kind":2,"startTimeUnixNano":"1544712660000000000","endTimeUnixNano":"1544712661000000000","attributes":[{"key":"order.total","value":{"doubleValue":49.5}},{"key":"express","value":{"boolValue":true}}],"droppedAttributesCount":0,"events":[{"attributes":[],"name":"paid","timeUnixNano":"1544712660500000000","droppedAttributesCount":0}],"droppedEventsCount":0,"status":{"code":0},"links":[],"droppedLinksCount":0,"flags":257}]}]}]}"#;

/// The body of an answer in JSON.
fn said(reply: &Reply) -> Value {
    assert_eq!(reply.header("content-type"), Some("application/json"), "{reply:?}");
    serde_json::from_slice(&reply.body).unwrap()
}

#[test]
fn receive_takes_json_as_nodes_sdk_sends_it() {
    let receiver = Receiver::start().unwrap();
    let reply = ask(&receiver, &post_json(Signal::Traces, "", SPAN_OF_NODE.as_bytes()));
    assert_eq!((reply.status, said(&reply)), (200, json!({})));
    let received = &receiver.spans()[0];
    let span = &received.span;
    assert_eq!(span.trace_id[..3], [0x5b, 0x8e, 0xff]);
    assert_eq!((span.span_id.len(), span.parent_span_id[7]), (8, 0x73));
    assert_eq!((span.name.as_str(), span.kind, span.flags), ("order", 2, 257));
    assert_eq!(span.start_time_unix_nano, 1_544_712_660_000_000_000);
    assert_eq!(received.attribute("order.total"), 49.5);
    assert_eq!(received.attribute("express"), true);
    assert_eq!(received.resource_attribute("process.pid"), 4711);
    assert_eq!((span.events[0].name.as_str(), received.scope.name.as_str()), ("paid", "till"));
    let request = &receiver.requests()[0];
    assert!(request.decoded && request.records == 1 && request.status == Some(200), "{request:?}");
}

#[test]
fn logs_and_metrics_come_in_json_as_well() {
    let receiver = Receiver::start().unwrap();
    let mut client = Client::connect(&receiver);
    let log = json!({ "resourceLogs": [{ "scopeLogs": [{ "logRecords": [
        { "severityNumber": "SEVERITY_NUMBER_WARN", "body": { "stringValue": "sold out" }, "new": [{}] },
    ]}]}]});
    let reply = client.ask(&post_json(Signal::Logs, "", log.to_string().as_bytes()));
    assert_eq!((reply.status, said(&reply)), (200, json!({})));
    assert_eq!(receiver.logs()[0].log.severity_number, 13);
    let point = json!({ "asInt": "-3", "timeUnixNano": 1 });
    let metric = json!({ "name": "orders", "sum": { "dataPoints": [point], "isMonotonic": false } });
    let metrics = json!({ "resourceMetrics": [{ "scopeMetrics": [{ "metrics": [metric] }]}]});
    let reply = client.ask(&post_json(Signal::Metrics, "", metrics.to_string().as_bytes()));
    assert_eq!((reply.status, said(&reply)), (200, json!({})));
    let metric = &receiver.metrics()[0].metric;
    assert!(matches!(&metric.data, Some(Data::Sum(sum)) if sum.data_points.len() == 1), "{metric:?}");
    assert_eq!(receiver.point_count(), 1);
}

#[test]
fn json_may_be_compressed_and_protobuf_may_follow_on_the_same_connection() {
    let receiver = Receiver::start().unwrap();
    let mut client = Client::connect(&receiver);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(SPAN_OF_NODE.as_bytes()).unwrap();
    let packed = encoder.finish().unwrap();
    let reply = client.ask(&post_json(Signal::Traces, "Content-Encoding: gzip\r\n", &packed));
    assert_eq!((reply.status, said(&reply)), (200, json!({})));
    let reply = client.ask(&post(&traces(1)));
    assert_eq!(reply.header("content-type"), Some("application/x-protobuf"));
    assert_eq!((receiver.span_count(), receiver.connection_count()), (2, 1));
}

#[test]
fn malformed_json_is_answered_400_with_a_status_in_json() {
    let (show, kinds) = mpsc::channel();
    let show = Mutex::new(show);
    let on_refusal = move |refused: &RefusedRequest| show.lock().unwrap().send(refused.kind).unwrap();
    let receiver = Receiver::builder().on_refusal(on_refusal).start().unwrap();
    let id = SPAN_OF_NODE.replace("eee19b7ec3c1b174", "no hex");
    let value = format!("{}{}", r#"{"arrayValue":{"values":["#.repeat(60), "]}}".repeat(60));
    let deep = SPAN_OF_NODE.replace(r#"{"boolValue":true}"#, &value);
    let nested = format!("{{\"x\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let cut = &SPAN_OF_NODE[..SPAN_OF_NODE.len() - 1];
    for text in ["", "[]", "{\"resourceSpans\":{}}", "{} {}", "\u{0}", &id, &deep, cut] {
        let reply = ask(&receiver, &post_json(Signal::Traces, "", text.as_bytes()));
        let text = &text[..text.len().min(60)];
        assert_eq!((reply.status, &said(&reply)["code"]), (400, &json!(3)), "{text}");
        let message = said(&reply)["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with("cannot decode the body: "), "{text}: {message}");
        assert_eq!(kinds.recv_timeout(SOON), Ok(RefusalKind::Undecodable), "{text}");
    }
    // The receiver may read or skip the deeply nested field: neither does harm.
    let reply = ask(&receiver, &post_json(Signal::Traces, "", nested.as_bytes()));
    assert!([200, 400].contains(&reply.status), "{reply:?}");
    assert_eq!(receiver.span_count(), 0);
    let reply = ask(&receiver, &post_json(Signal::Traces, "", SPAN_OF_NODE.as_bytes()));
    assert_eq!(reply.status, 200);
}

#[test]
fn a_partial_success_and_errors_are_sent_in_json() {
    let receiver = Receiver::start().unwrap();
    let mut client = Client::connect(&receiver);
    for (signal, name) in [
        (Signal::Traces, "rejectedSpans"),
        (Signal::Logs, "rejectedLogRecords"),
        (Signal::Metrics, "rejectedDataPoints"),
    ] {
        receiver.script([Answer::partial(2, "too old"), Answer::empty_partial()]);
        let partial = client.ask(&post_json(signal, "", b"{}"));
        let expected = json!({ "partialSuccess": { name: "2", "errorMessage": "too old" } });
        assert_eq!((partial.status, said(&partial)), (200, expected));
        let empty = client.ask(&post_json(signal, "", b"{}"));
        assert_eq!(said(&empty), json!({ "partialSuccess": {} }));
    }
    receiver.script([Answer::status(503).message("later"), Answer::status(502).body("<p>")]);
    let busy = client.ask(&post_json(Signal::Logs, "", b"{}"));
    assert_eq!((busy.status, said(&busy)), (503, json!({ "code": 14, "message": "later" })));
    let page = client.ask(&post_json(Signal::Logs, "", b"{}"));
    assert_eq!((page.status, page.body.as_slice()), (502, &b"<p>"[..]), "what was ordered is sent as it is");
    let lost = String::from_utf8(post_json(Signal::Logs, "", b"")).unwrap().replace("/v1/logs", "/v1/log");
    let lost = ask(&receiver, lost.as_bytes());
    assert_eq!((lost.status, &said(&lost)["code"]), (404, &json!(12)));
    let request = String::from_utf8(post_json(Signal::Logs, "", b"{}")).unwrap();
    let hostless = ask(&receiver, request.replace("Host: localhost\r\n", "").as_bytes());
    assert_eq!(
        (hostless.status, said(&hostless)),
        (400, json!({ "code": 3, "message": "missing Host header" }))
    );
}

#[test]
fn json_that_would_unfold_to_too_much_is_refused_before_it_is_decoded() {
    let receiver = Receiver::builder().max_body_bytes(1 << 20).start().unwrap();
    let spans = vec!["{}"; 300_000].join(",");
    let bomb = format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{spans}]}}]}}]}}"#);
    let reply = ask(&receiver, &post_json(Signal::Traces, "", bomb.as_bytes()));
    assert_eq!((reply.status, &said(&reply)["code"]), (413, &json!(8)), "{reply:?}");
    assert_eq!(receiver.span_count(), 0);
}
