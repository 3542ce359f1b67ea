//! Requests as a collector receives them: header fields, timeouts, all signals.

use std::time::Duration;

use standpipe::receiver::{Protocol, Receiver};
use standpipe::{Compression, FlushOutcome, Signal};

use super::{export, exporter};
use crate::support::scene::{FOR_EVER, LONG, emit, start};

/// Parses a `grpc-timeout`.
fn timeout(text: &str) -> Duration {
    let (number, unit) = text.split_at(text.len() - 1);
    let number = number.parse().expect(text);
    match unit {
        "u" => Duration::from_micros(number),
        "m" => Duration::from_millis(number),
        "S" => Duration::from_secs(number),
        _ => panic!("{text}"),
    }
}

#[test]
fn a_request_has_the_fields_that_grpc_prescribes() {
    let receiver = Receiver::start().unwrap();
    let (ledger, problems) = export(exporter(&receiver).user_agent("shop/1.2"));
    assert_eq!((ledger.total().delivered, receiver.span_count()), (1, 1), "{ledger}, {problems:?}");
    let request = &receiver.requests()[0];
    assert_eq!((request.protocol, request.method.as_str()), (Protocol::Grpc, "POST"));
    assert_eq!(request.path, "/opentelemetry.proto.collector.trace.v1.TraceService/Export");
    assert_eq!(request.header("content-type"), Some("application/grpc"));
    assert_eq!(request.header("te"), Some("trailers"));
    assert_eq!(request.header("host"), Some(receiver.grpc_address().to_string().as_str()));
    let agent = request.header("user-agent").unwrap();
    assert!(agent.starts_with("shop/1.2") && agent.contains("standpipe"), "{agent}");
    assert!(request.decoded && request.grpc_status == Some(0), "{request:?}");
}

#[test]
fn headers_arrive_as_metadata() {
    let receiver = Receiver::start().unwrap();
    export(exporter(&receiver).header("X-Tenant", "seven").header("Authorization", "Bearer 123"));
    let request = &receiver.requests()[0];
    let names: Vec<_> = request.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.contains(&"x-tenant") && names.contains(&"authorization"), "{names:?}");
    assert_eq!(
        (request.header("x-tenant"), request.header("authorization")),
        (Some("seven"), Some("Bearer 123"))
    );
}

#[test]
fn a_user_agent_among_the_headers_is_the_only_one() {
    let receiver = Receiver::start().unwrap();
    export(exporter(&receiver).header("User-Agent", "mine"));
    let request = &receiver.requests()[0];
    let agents: Vec<_> = request.headers.iter().filter(|(name, _)| name == "user-agent").collect();
    assert_eq!(agents, [&("user-agent".to_owned(), "mine".to_owned())]);
}

#[test]
fn headers_that_belong_to_grpc_are_a_fault_at_start() {
    for name in ["te", "Grpc-Timeout", "host", "keep-alive"] {
        let config = standpipe::Config::new()
            .exporter(super::exporter_to("http://localhost:4317").header(name, "secret-words"));
        let error = standpipe::Telemetry::start(config).unwrap_err().to_string();
        assert!(error.contains(name) && !error.contains("secret-words"), "{error}");
    }
}

#[test]
fn more_headers_than_any_request_can_carry_are_a_fault_at_start() {
    let exporter = super::exporter_to("http://localhost:4317").header("x-long", "x".repeat(40_000));
    let error =
        standpipe::Telemetry::start(standpipe::Config::new().exporter(exporter)).unwrap_err().to_string();
    let words = "headers: headers, endpoint and user-agent are 40031 bytes long together, and a request can carry 32 KiB";
    assert!(error.contains(words) && !error.contains("xxx"), "{error}");
}

#[test]
fn the_server_gets_the_budget_as_its_timeout() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).timeout(LONG).linger(FOR_EVER));
    emit(&telemetry.tracer("shop"), 1);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    emit(&telemetry.tracer("shop"), 1);
    telemetry.shutdown(LONG / 2);
    let left: Vec<_> =
        receiver.requests().iter().map(|request| timeout(request.header("grpc-timeout").unwrap())).collect();
    let [flushed, shut_down] = left[..] else { panic!("{left:?}") };
    assert!((LONG / 2..=LONG).contains(&flushed), "{flushed:?}");
    assert!(shut_down <= LONG / 2 && !shut_down.is_zero(), "{shut_down:?}");
}

#[test]
fn all_signals_go_over_one_connection_compressed_or_not() {
    for compression in [Compression::None, Compression::Gzip] {
        let receiver = Receiver::start().unwrap();
        let telemetry = start(exporter(&receiver).compression(compression));
        let tracer = telemetry.tracer("shop");
        emit(&tracer, 3);
        telemetry.logger("shop").info("paid").set("amount", 12.5).emit();
        telemetry.meter("shop").counter("orders").add(7, ());
        let ledger = telemetry.shutdown(LONG);
        assert_eq!(ledger.lost(), 0, "{ledger}");
        assert_eq!((receiver.span_count(), receiver.log_count(), receiver.point_count()), (3, 1, 1));
        assert_eq!(receiver.connection_count(), 1);
        for request in receiver.requests() {
            let service = match request.signal {
                Some(Signal::Traces) => "trace.v1.TraceService",
                Some(Signal::Logs) => "logs.v1.LogsService",
                Some(Signal::Metrics) => "metrics.v1.MetricsService",
                other => panic!("{other:?}"),
            };
            assert_eq!(request.path, format!("/opentelemetry.proto.collector.{service}/Export"));
            let encoding = (compression == Compression::Gzip).then_some("gzip");
            assert_eq!(request.header("grpc-encoding"), encoding);
        }
        let spans = receiver.spans();
        assert_eq!(spans[0].span.name, "work");
        assert_eq!(receiver.metrics()[0].metric.name, "orders");
    }
}

#[test]
fn more_than_all_windows_hold_arrives_whole() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).linger(FOR_EVER).queue_bytes(64 << 20));
    let picture = "0123456789abcdef".repeat(4096);
    for _ in 0..40 {
        telemetry.tracer("shop").span("work").set("picture", &picture);
    }
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.total().delivered, receiver.span_count()), (40, 40), "{ledger}");
    assert!(receiver.requests()[0].body_bytes > 65_535);
}
