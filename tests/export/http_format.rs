//! The format of requests on the wire.

use std::env;

use standpipe::config::Proxy;
use standpipe::receiver::{Answer, ReceivedSpan, Receiver};
use standpipe::{Config, Exporter, FlushOutcome, Signal, WhenFull};

use crate::support::scene::{A_WHILE, LONG, emit, exporter, exporter_to, gathering, start, start_with};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Sends one span and returns it as received.
fn one_span(config: Config) -> impl FnOnce(&Receiver) -> ReceivedSpan {
    |receiver| {
        let telemetry = start_with(config.exporter(exporter(receiver)));
        emit(&telemetry.tracer("shop"), 1);
        assert_eq!(telemetry.shutdown(LONG).lost(), 0);
        receiver.spans().remove(0)
    }
}

fn text<'a>(received: &'a ReceivedSpan, key: &str) -> Option<&'a str> {
    let value = received.resource_attribute(key);
    assert_eq!(value.is_some(), value.as_str().is_some(), "{key} is not text: {value:?}");
    value.as_str()
}

#[test]
fn a_request_is_a_post_of_protobuf_to_the_path_of_its_signal() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(gathering(&receiver));
    emit(&telemetry.tracer("shop"), 3);
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
    let requests = receiver.requests();
    let [request] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/traces"));
    assert!(request.decoded);
    let headers = |name: &str| -> Vec<&str> {
        request.headers.iter().filter(|(n, _)| n == name).map(|(_, value)| value.as_str()).collect()
    };
    // Exactly this value: some receivers refuse parameters such as a charset.
    assert_eq!(headers("content-type"), ["application/x-protobuf"]);
    assert_eq!(headers("content-length"), [request.body_bytes.to_string()]);
    assert_eq!(headers("host"), [receiver.address().to_string()]);
    assert_eq!(headers("user-agent"), [format!("standpipe/{VERSION} (rust)")]);
    assert!(headers("content-encoding").is_empty() && headers("transfer-encoding").is_empty());
}

#[test]
fn a_product_of_the_callers_own_stands_in_front_of_the_user_agent() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).user_agent("shop/1.2"));
    emit(&telemetry.tracer("shop"), 1);
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
    let expected = format!("shop/1.2 standpipe/{VERSION} (rust)");
    assert_eq!(receiver.requests()[0].header("user-agent"), Some(expected.as_str()));
}

#[test]
fn an_endpoint_decides_where_it_is_posted() {
    let receiver = Receiver::start().unwrap();
    let address = receiver.address();
    for (endpoint, path) in [
        (format!("http://{address}"), "/v1/traces"),
        (format!("http://{address}/"), "/v1/traces"),
        (address.to_string(), "/v1/traces"),
        (format!("http://{address}/v1/traces"), "/v1/traces"),
        (format!("http://{address}/v1/logs"), "/v1/traces"),
        (format!("http://{address}/tenant/blue"), "/tenant/blue/v1/traces"),
        (format!("http://{address}/tenant/v1/metrics/"), "/tenant/v1/traces"),
    ] {
        assert_eq!(posted_to(&receiver, exporter_to(&endpoint)), path, "{endpoint}");
    }
}

#[test]
fn posts_to_verbatim_url_as_it_is() {
    let receiver = Receiver::start().unwrap();
    let address = receiver.address();
    for path in ["/", "/tenant/blue", "/tenant/blue/", "/v1/logs"] {
        let exporter = Exporter::http_verbatim(format!("http://{address}{path}"));
        assert_eq!(posted_to(&receiver, exporter.proxy(Proxy::Off)), path);
    }
}

/// The path that a span is posted to.
fn posted_to(receiver: &Receiver, exporter: Exporter) -> String {
    let telemetry = start(exporter.signals([Signal::Traces]));
    emit(&telemetry.tracer("shop"), 1);
    let _ = telemetry.shutdown(LONG);
    let request = receiver.requests().pop().expect("a request");
    assert_eq!(request.method, "POST");
    request.path
}

#[test]
fn headers_of_the_callers_own_are_sent_with_every_request() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver).header("X-Tenant", "blue").header("Authorization", "Bearer 1"));
    for _ in 0..2 {
        emit(&telemetry.tracer("shop"), 1);
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    }
    assert_eq!(receiver.request_count(), 2);
    for request in receiver.requests() {
        assert_eq!(request.header("x-tenant"), Some("blue"));
        assert_eq!(request.header("authorization"), Some("Bearer 1"));
    }
}

#[test]
fn the_resource_says_who_speaks_and_by_what() {
    let receiver = Receiver::start().unwrap();
    let config = Config::new().service_name("shop").resource("deployment.environment.name", "test");
    let received = one_span(config)(&receiver);
    assert_eq!(text(&received, "service.name"), Some("shop"));
    assert_eq!(text(&received, "deployment.environment.name"), Some("test"));
    assert_eq!(text(&received, "telemetry.sdk.language"), Some("rust"));
    assert_eq!(text(&received, "telemetry.sdk.name"), Some("standpipe"));
    assert_eq!(text(&received, "telemetry.sdk.version"), Some(VERSION));
    assert!(text(&received, "service.instance.id").is_some());
    assert_eq!(received.resource.attributes.len(), 6, "{:?}", received.resource);
}

#[test]
fn a_service_without_a_name_is_called_after_its_program() {
    let program = env::current_exe().unwrap();
    let expected = format!("unknown_service:{}", program.file_name().unwrap().to_string_lossy());
    for config in [Config::new(), Config::new().service_name("")] {
        let receiver = Receiver::start().unwrap();
        let received = one_span(config)(&receiver);
        assert_eq!(text(&received, "service.name"), Some(expected.as_str()));
    }
}

#[test]
fn what_exports_cannot_be_renamed() {
    let receiver = Receiver::start().unwrap();
    let received = one_span(Config::new().resource("telemetry.sdk.name", "opentelemetry"))(&receiver);
    assert_eq!(text(&received, "telemetry.sdk.name"), Some("standpipe"));
}

#[test]
fn a_program_with_nothing_to_send_does_not_even_connect() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start(exporter(&receiver));
    let _tracer = telemetry.tracer("shop");
    for _ in 0..3 {
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    }
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.exporters[0].attempts, ledger.lost()), (0, 0));
    drop(telemetry);
    assert_eq!((receiver.connection_count(), receiver.request_count()), (0, 0));
}

#[test]
fn no_request_is_ever_empty() {
    let receiver = Receiver::start().unwrap();
    receiver.script([
        Answer::status(413),
        Answer::status(413),
        Answer::partial(1, "one"),
        Answer::status(503),
        Answer::status(400),
    ]);
    let small = exporter(&receiver).batch_bytes(2048).queue_records(50).when_full(WhenFull::DropNewest);
    let telemetry = start(small);
    let tracer = telemetry.tracer("shop");
    let too_large = "x".repeat(4096);
    for round in 0..30 {
        tracer.span("too large").set("text", too_large.as_str());
        if round % 3 == 0 {
            emit(&tracer, round);
        }
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
        assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    }
    let _ = telemetry.shutdown(LONG);
    let requests = receiver.requests();
    assert!(requests.len() > 9, "{}", requests.len());
    assert!(requests.iter().all(|request| request.records > 0 && request.body_bytes > 0), "{requests:?}");
}

#[test]
fn requests_of_one_exporter_never_overlap() {
    let receiver = Receiver::start().unwrap();
    receiver.pause();
    let telemetry = start(exporter(&receiver).batch_records(10));
    emit(&telemetry.tracer("shop"), 100);
    assert!(receiver.wait_for_held(1, LONG));
    assert!(!receiver.wait_for_held(2, A_WHILE), "the first was not answered yet");
    assert_eq!(receiver.connection_count(), 1);
    receiver.resume();
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
    assert_eq!(receiver.span_count(), 100);
}

#[test]
fn a_configuration_without_an_exporter_does_nothing() {
    let telemetry = start_with(Config::new());
    emit(&telemetry.tracer("shop"), 10);
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    let ledger = telemetry.shutdown(LONG);
    assert_eq!((ledger.exporters.len(), ledger.total().accepted, ledger.lost()), (0, 0, 0));
}
