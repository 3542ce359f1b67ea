//! OTLP/JSON over HTTP. `opentelemetry-proto` decodes the bodies.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::thread;

use flate2::read::GzDecoder;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::{metric, number_data_point};
use standpipe::probe::probe;
use standpipe::receiver::{Answer, Receiver};
use standpipe::{Compression, Config, Exporter, ProblemKind, Telemetry};

use crate::support::scene::{LONG, Problems, emit, exporter, exporter_to, gathering, start};
use crate::support::size_within;

/// A received request: its head in lower case, and its body.
type Request = (String, Vec<u8>);

/// Answers each request on one connection with an empty JSON object.
fn collector() -> (String, mpsc::Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (seen, requests) = mpsc::channel();
    thread::spawn(move || {
        let mut client = BufReader::new(listener.accept().unwrap().0);
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if client.read_line(&mut head).unwrap_or(0) == 0 {
                    return;
                }
            }
            let head = head.to_ascii_lowercase();
            let length = head.split("content-length: ").nth(1).unwrap().lines().next().unwrap();
            let mut body = vec![0; length.parse().unwrap()];
            client.read_exact(&mut body).unwrap();
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
            client.get_mut().write_all(answer.as_bytes()).unwrap();
            seen.send((head, body)).unwrap();
        }
    });
    (endpoint, requests)
}

#[test]
fn posts_json_that_another_decoder_reads_for_every_signal() {
    for compression in [Compression::None, Compression::Gzip] {
        let (endpoint, requests) = collector();
        let telemetry = start(exporter_to(&endpoint).json().compression(compression));
        let mut span = telemetry.tracer("shop").span("check \"out\"\n");
        telemetry.logger("shop").info("paid").emit();
        span.set("order.id", 9_007_199_254_740_993_i64);
        drop(span);
        telemetry.meter("shop").counter("orders").add(3, &[("share", 0.5)]);
        let ledger = telemetry.shutdown(LONG);
        assert_eq!((ledger.total().delivered, ledger.lost()), (3, 0), "{ledger}");

        let (mut traces, mut logs, mut metrics) = (None, None, None);
        for (head, body) in requests {
            assert!(head.contains("\r\ncontent-type: application/json\r\n"), "{head}");
            assert!(head.contains("\r\naccept: application/json\r\n"), "{head}");
            let is_packed = head.contains("\r\ncontent-encoding: gzip\r\n");
            assert_eq!(is_packed, compression == Compression::Gzip);
            let mut text = Vec::new();
            match is_packed {
                true => _ = GzDecoder::new(&body[..]).read_to_end(&mut text).unwrap(),
                false => text = body,
            }
            match head.split(' ').nth(1).unwrap() {
                "/v1/traces" => {
                    traces = Some(serde_json::from_slice::<ExportTraceServiceRequest>(&text).unwrap());
                }
                "/v1/logs" => {
                    logs = Some(serde_json::from_slice::<ExportLogsServiceRequest>(&text).unwrap());
                }
                "/v1/metrics" => {
                    metrics = Some(serde_json::from_slice::<ExportMetricsServiceRequest>(&text).unwrap());
                }
                path => panic!("{path}"),
            }
        }
        let of_resource = &traces.unwrap().resource_spans[0];
        let service = &of_resource.resource.as_ref().unwrap().attributes[0];
        let named = service.value.as_ref().unwrap().value.clone();
        assert_eq!((&*service.key, named), ("service.name", Some(Value::StringValue("shop".to_owned()))));
        let span = &of_resource.scope_spans[0].spans[0];
        let value = span.attributes[0].value.as_ref().unwrap().value.clone();
        assert_eq!((&*span.name, value), ("check \"out\"\n", Some(Value::IntValue(9_007_199_254_740_993))));
        let log = &logs.unwrap().resource_logs[0].scope_logs[0].log_records[0];
        assert_eq!((&log.trace_id, &log.span_id), (&span.trace_id, &span.span_id));
        assert_eq!(log.severity_number, 9);
        let metric = &metrics.unwrap().resource_metrics[0].scope_metrics[0].metrics[0];
        let Some(metric::Data::Sum(sum)) = &metric.data else { panic!("{metric:?}") };
        assert_eq!(sum.data_points[0].value, Some(number_data_point::Value::AsInt(3)));
    }
}

#[test]
fn reads_rejections_and_errors_in_json() {
    let receiver = Receiver::start().unwrap();
    // The receiver answers JSON with JSON.
    receiver.script([Answer::partial(2, "too old"), Answer::status(400).message("no \"tenant\"")]);
    let problems = Problems::default();
    let telemetry = problems.start(gathering(&receiver).json());
    let tracer = telemetry.tracer("shop");
    emit(&tracer, 3);
    let _ = telemetry.flush(LONG);
    emit(&tracer, 4);
    let ledger = telemetry.shutdown(LONG);
    let total = ledger.total();
    assert_eq!((total.delivered, total.rejected, total.dropped.refused), (1, 2, 4), "{ledger}");
    let said = |kind| problems.wait_for(kind).message;
    assert_eq!(said(ProblemKind::PartialSuccess), "2 records rejected: too old");
    let refused = said(ProblemKind::Refused);
    assert!(refused.ends_with("400 Bad Request: no \"tenant\""), "{refused}");
}

#[test]
fn retries_and_divides_like_protobuf() {
    let receiver = Receiver::start().unwrap();
    receiver.script([Answer::status(503).retry_after("0"), Answer::status(413)]);
    let telemetry = start(gathering(&receiver).json().compression(Compression::Gzip));
    emit(&telemetry.tracer("shop"), 8);
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, ledger.lost()), (8, 0), "{ledger}");
    let records: Vec<usize> = receiver.requests().iter().map(|request| request.records).collect();
    assert_eq!(records, [8, 8, 4, 4]);
}

#[test]
fn keeps_requests_below_batch_bytes_as_json_before_compression() {
    const LIMIT: usize = 100_000;
    let records = size_within(50..=300) as usize;
    // JSON writes a control character with six bytes.
    let text = "\u{1}".repeat(1000);
    for compression in [Compression::None, Compression::Gzip] {
        // The limit of the receiver counts decompressed bytes.
        let receiver = Receiver::builder().max_body_bytes(LIMIT).start().unwrap();
        let problems = Problems::default();
        let telemetry =
            problems.start(gathering(&receiver).json().compression(compression).batch_bytes(LIMIT));
        let tracer = telemetry.tracer("shop");
        for _ in 0..records {
            tracer.span("work").set("text", text.as_str());
        }
        let ledger = telemetry.shutdown(LONG);
        let total = ledger.total();
        assert_eq!((total.delivered, ledger.lost()), (records as u64, 0), "{ledger}");
        // A request that is divided before it is sent is neither an attempt nor a problem.
        assert_eq!(problems.reported(), []);
        let requests = receiver.requests();
        assert!(requests.iter().all(|request| request.status == Some(200)));
        assert!((records * 6000 / LIMIT..records / 5).contains(&requests.len()), "{}", requests.len());
        assert_eq!(ledger.exporters[0].attempts, requests.len() as u64);
    }
}

#[test]
fn counts_a_record_whose_json_is_longer_than_a_request_as_too_large() {
    let receiver = Receiver::start().unwrap();
    let problems = Problems::default();
    let telemetry = problems.start(gathering(&receiver).json().batch_bytes(10_000));
    let tracer = telemetry.tracer("shop");
    tracer.span("small").end();
    tracer.span("large").set("text", "\u{1}".repeat(5000));
    tracer.span("small").end();
    let ledger = telemetry.shutdown(LONG);
    let total = ledger.total();
    assert_eq!((total.delivered, total.dropped.too_large, ledger.lost()), (2, 1, 1), "{ledger}");
    let message = problems.wait_for(ProblemKind::TooLarge).message;
    assert!(message.ends_with("is lost: its JSON exceeds batch-bytes, or 1 MiB in a file"), "{message}");
}

#[test]
fn refuses_json_over_grpc_at_start() {
    let config = Config::new().exporter(Exporter::grpc("localhost:4317").json());
    let error = Telemetry::start(config).err().unwrap().to_string();
    assert!(error.contains("only HTTP can send JSON; begin with Exporter::http"), "{error}");
}

#[test]
fn probes_with_an_empty_request_in_json() {
    let receiver = Receiver::start().unwrap();
    let report = probe(&exporter(&receiver).json(), LONG);
    assert!(report.is_good(), "{report}");
    assert_eq!(receiver.request_count(), 3);
    for request in receiver.requests() {
        assert_eq!(request.header("content-type"), Some("application/json"));
        assert_eq!((request.body_bytes, request.decoded, request.status), (2, true, Some(200)));
    }
}
