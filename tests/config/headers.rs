//! Headers arrive unchanged. A header that could inject another line is refused before anything is sent.

use std::time::Duration;

use standpipe::receiver::{ReceivedRequest, Receiver};
use standpipe::{Compression, Config, ConfigError, Exporter, FlushOutcome, Signal, Telemetry};

use crate::support::scratch::Scratch;

/// Longer than any operation on loopback takes.
const PATIENCE: Duration = Duration::from_secs(20);
const OWN_PRODUCT: &str = concat!("standpipe/", env!("CARGO_PKG_VERSION"), " (rust)");

fn refusal(exporter: Exporter) -> ConfigError {
    Telemetry::start(Config::new().exporter(exporter)).expect_err("this header must not be sent")
}

/// Exports one span and returns the request that contains it.
fn request_of(receiver: &Receiver, exporter: Exporter) -> ReceivedRequest {
    let telemetry = Telemetry::start(Config::new().exporter(exporter)).expect("a sound configuration");
    telemetry.tracer("shop").span("checkout").end();
    let ledger = telemetry.shutdown(PATIENCE);
    assert_eq!((ledger.total().delivered, ledger.lost()), (1, 0), "{ledger}");
    receiver.requests().remove(0)
}

fn values<'a>(request: &'a ReceivedRequest, name: &str) -> Vec<&'a str> {
    let named = request.headers.iter().filter(|(known, _)| known == name);
    named.map(|(_, value)| value.as_str()).collect()
}

#[test]
fn a_line_break_in_a_value_is_refused_with_the_name_and_without_the_value() {
    let receiver = Receiver::start().unwrap();
    for value in
        ["hunter2\r\nX-Evil: 1", "hunter2\n", "hunter2\r", "\r\nhunter2", "hunter2\r\n\r\nGET / HTTP/1.1"]
    {
        let error = refusal(Exporter::http(receiver.endpoint()).header("X-Token", value));
        for text in [error.to_string(), format!("{error:?}"), format!("{:?}", error.diagnostics())] {
            assert!(text.contains("X-Token"), "{value:?} is refused without a name: {text}");
            assert!(!text.contains("hunter2") && !text.contains("Evil"), "{text}");
        }
    }
    assert_eq!(receiver.connection_count(), 0);
}

#[test]
fn a_line_break_in_a_name_is_refused_without_the_value() {
    let receiver = Receiver::start().unwrap();
    for name in ["X-Token\r\nX-Evil", "X-Token\n", "\rX-Token", "X-Token: a\r\nX-Evil"] {
        let error = refusal(Exporter::http(receiver.endpoint()).header(name, "hunter2"));
        let text = format!("{error} {error:?}");
        assert!(text.contains("header 1"), "{name:?} is refused without saying which: {text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
    assert_eq!(receiver.connection_count(), 0);
}

#[test]
fn a_line_break_from_a_file_is_refused_with_its_place() {
    let scratch = Scratch::new();
    scratch.write("token", "hunter2\r\nX-Evil: 1");
    let written = ["X-Token: hunter2\\r\\nX-Evil: 1", "X-Token: %{file:token}%"];
    for (number, header) in written.into_iter().enumerate() {
        let text = format!(
            "[tracer.otel]\ntype = \"otel\"\ntransport = \"http\"\nheaders = [\n  \"{header}\",\n]\n"
        );
        let file = scratch.write(&format!("telemetry-{number}.toml"), text);
        let error = Config::from_file(&file).map(|_| ()).expect_err("a line break in a header");
        let text = error.to_string();
        assert!(text.contains(&format!("telemetry-{number}.toml:5:")), "{text}");
        assert!(text.contains("X-Token"), "{text}");
        assert!(!text.contains("hunter2") && !text.contains("Evil"), "{text}");
    }
}

#[test]
fn an_exporter_with_a_refused_header_is_not_started_without_it() {
    let good = Exporter::http("http://127.0.0.1:1").named("good");
    let bad = Exporter::http("http://127.0.0.1:2").named("bad").header("Authorization", "Bearer a\nb");
    let error = Telemetry::start(Config::new().exporter(bad).exporter(good)).expect_err("a bad header");
    let usable = error.into_usable();
    assert_eq!(usable.exporters().len(), 1);
    assert!(format!("{usable:?}").contains("good"));
}

#[test]
fn a_control_character_in_a_value_is_refused() {
    for value in ["a\0b", "a\x1b[2Jb", "a\x7fb", "ä"] {
        let error = refusal(Exporter::http("http://127.0.0.1:1").header("X-Token", value)).to_string();
        assert!(error.contains("X-Token") && !error.contains(value), "{error:?}");
    }
}

#[test]
fn headers_that_frame_the_body_are_refused() {
    for name in ["Content-Length", "transfer-encoding", "CONTENT-TYPE", "Content-Encoding", "Connection"] {
        let error = refusal(Exporter::http("http://127.0.0.1:1").header(name, "chunked")).to_string();
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn headers_arrive_as_they_were_set_with_every_request() {
    let receiver = Receiver::start().unwrap();
    let long = "0123456789abcdef".repeat(512);
    let sent = [
        ("Authorization", "Bearer 3q2+7w==:~!#$%&'*"),
        ("x-tenant", "7"),
        ("X-With-Spaces", "one two  three\tfour"),
        ("x-long", &long),
        ("x!#$%&'*+-.^_`|~9", "strange but legal"),
    ];
    let exporter = Exporter::http(receiver.endpoint()).throttle(Duration::ZERO);
    let exporter = sent.iter().fold(exporter, |exporter, (name, value)| exporter.header(*name, *value));
    let telemetry = Telemetry::start(Config::new().exporter(exporter)).unwrap();
    let tracer = telemetry.tracer("shop");
    for name in ["one", "two", "three"] {
        tracer.span(name).end();
        assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
    }
    assert_eq!(telemetry.shutdown(PATIENCE).total().delivered, 3);

    let requests = receiver.requests();
    assert_eq!(requests.len(), 3);
    for request in &requests {
        for (name, value) in sent {
            assert_eq!(values(request, &name.to_ascii_lowercase()), [value], "{name}");
        }
    }
}

#[test]
fn a_header_set_twice_arrives_twice_in_its_order() {
    let receiver = Receiver::start().unwrap();
    let exporter = Exporter::http(receiver.endpoint())
        .header("x-scope", "first")
        .header("x-other", "between")
        .header("X-Scope", "second");
    let request = request_of(&receiver, exporter);
    assert_eq!(values(&request, "x-scope"), ["first", "second"]);
    assert_eq!(values(&request, "x-other"), ["between"]);
}

#[test]
fn short_values_of_one_name_are_not_mixed_up() {
    let receiver = Receiver::start().unwrap();
    let letters: Vec<String> = ('a'..='z').map(String::from).collect();
    let exporter = letters.iter().fold(Exporter::http(receiver.endpoint()), |exporter, letter| {
        exporter.header("x-letter", letter.as_str())
    });
    let request = request_of(&receiver, exporter);
    assert_eq!(values(&request, "x-letter"), letters);
}

#[test]
fn headers_beyond_what_one_request_can_carry_are_refused_at_start_or_arrive_whole() {
    let receiver = Receiver::builder().max_header_bytes(4 << 20).start().unwrap();
    for bytes in [16 << 10, 48 << 10, 64 << 10, 200 << 10] {
        let long = "x".repeat(bytes);
        let exporter =
            Exporter::http(receiver.endpoint()).header("a-long", long.as_str()).header("z-token", "hunter2");
        match Telemetry::start(Config::new().exporter(exporter)) {
            Ok(telemetry) => {
                telemetry.tracer("shop").span("checkout").end();
                let ledger = telemetry.shutdown(PATIENCE);
                assert_eq!((ledger.total().delivered, ledger.lost()), (1, 0), "{bytes}: {ledger}");
                let request = receiver.requests().pop().unwrap();
                assert_eq!(values(&request, "z-token"), ["hunter2"], "{bytes}");
                assert!(values(&request, "a-long") == [long.as_str()], "{bytes}: the long value is another");
            }
            Err(error) => {
                assert!(bytes > 16 << 10, "{error}");
                assert!(!error.to_string().contains("xxxx") && !error.to_string().contains("hunter2"));
            }
        }
    }
}

/// The head of a request must fit into the buffer of the HTTP library, together with what a proxy needs.
#[test]
fn a_head_beyond_what_can_be_sent_is_refused_at_start() {
    const KIB: usize = 1 << 10;
    let receiver = Receiver::builder().max_header_bytes(4 << 20).start().unwrap();
    for (target, product, header, fits) in [
        // Only this head exceeds 64 KiB, the HTTP library's buffer. The others exceed at most our own limit, 32 KiB.
        (7 * KIB, 40 * KIB, 31 * KIB, false),
        (0, 0, 30 * KIB, true),
        (0, 0, 33 * KIB, false),
        (7 * KIB, 0, 24 * KIB, true),
        (7 * KIB, 0, 26 * KIB, false),
        (0, 7 * KIB, 26 * KIB, false),
        (4 * KIB, 4 * KIB, 22 * KIB, true),
        (4 * KIB, 4 * KIB, 26 * KIB, false),
    ] {
        let case = format!("target {target}, product {product}, header {header}");
        let text = |bytes: usize| "hunter2".repeat(bytes / 7 + 1)[..bytes].to_owned();
        let setup = |exporter: Exporter| match product {
            0 => exporter.header("z-token", text(header)),
            bytes => exporter.header("z-token", text(header)).user_agent(text(bytes)),
        };
        let endpoint = format!("{}/v1/traces?{}", receiver.endpoint(), text(target));
        let mut exporters = vec![
            setup(Exporter::http(&endpoint)),
            setup(Exporter::http(&endpoint).signals([Signal::Traces])),
        ];
        if target == 0 {
            exporters.push(setup(Exporter::grpc(receiver.grpc_endpoint())));
        }
        for exporter in exporters {
            match Telemetry::start(Config::new().exporter(exporter)) {
                Ok(telemetry) => {
                    telemetry.tracer("shop").span("checkout").end();
                    let ledger = telemetry.shutdown(PATIENCE);
                    assert_eq!((ledger.total().delivered, ledger.lost()), (1, 0), "{case}: {ledger}");
                    let request = receiver.requests().pop().unwrap();
                    assert!(values(&request, "z-token") == [text(header)], "{case}: a stand-in arrived");
                    assert!(fits, "{case}: it was sent");
                }
                Err(error) => {
                    let words = error.to_string();
                    assert!(!fits, "{case}: {words}");
                    assert!(words.contains("headers") && words.contains("32 KiB"), "{case}: {words}");
                    assert!(!words.contains("hunter2"), "{case}: {words}");
                }
            }
        }
    }
}

#[test]
fn what_standpipe_writes_itself_is_in_every_request_once() {
    let receiver = Receiver::start().unwrap();
    let exporter = Exporter::http(receiver.endpoint()).compression(Compression::Gzip);
    let request = request_of(&receiver, exporter);
    assert_eq!(values(&request, "content-type"), ["application/x-protobuf"]);
    assert_eq!(values(&request, "content-encoding"), ["gzip"]);
    assert_eq!(values(&request, "content-length"), [request.body_bytes.to_string()]);
    assert_eq!(values(&request, "user-agent"), [OWN_PRODUCT]);
    assert_eq!(values(&request, "host"), [receiver.address().to_string()]);
}

#[test]
fn the_callers_product_stands_in_front_of_ours() {
    let receiver = Receiver::start().unwrap();
    let request = request_of(&receiver, Exporter::http(receiver.endpoint()).user_agent("shop/1.2 (test)"));
    assert_eq!(values(&request, "user-agent"), [format!("shop/1.2 (test) {OWN_PRODUCT}")]);
}

#[test]
fn a_line_break_in_the_callers_product_is_refused() {
    let error = refusal(Exporter::http("http://127.0.0.1:1").user_agent("shop/1\r\nX-Evil: 1")).to_string();
    assert!(error.contains("user-agent") && !error.contains("Evil"), "{error}");
}
