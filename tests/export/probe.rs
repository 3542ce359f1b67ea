//! A probe passes through the stages in order, and reports the cause and the remedy for the first stage that fails.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

use standpipe::config::Proxy;
use standpipe::probe::{EndpointReport, Outcome, Report, StageKind, probe};
use standpipe::receiver::{Answer, Receiver};
use standpipe::{Compression, Config, Exporter, Signal, Telemetry};

use crate::support::scene::closed_address;
use crate::support::scratch::Scratch;
use crate::support::stubborn::{Unanswered, saying, serve};
use crate::support::tls::{Identity, TestCa, TlsFront};
use crate::support::{skip, step_of};

mod grpc;
mod tls;

/// Longer than anything on loopback takes.
const PATIENCE: Duration = Duration::from_secs(20);
/// Budget of a probe that only its budget can end.
const SHORT: Duration = Duration::from_secs(3);
/// More than any test here needs.
const MAX_CONNECTIONS: usize = 16;
/// Settings of an HTTP/2 server: at most 100 streams.
const SETTINGS: &[u8] = b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64";
/// An alert of TLS 1.2, fatal, unexpected message.
const ALERT: &[u8] = b"\x15\x03\x03\x00\x02\x02\x0a";

/// An exporter of traces only, so that there is one endpoint.
fn traces(endpoint: impl Into<String>) -> Exporter {
    Exporter::http(endpoint).signals([Signal::Traces]).proxy(Proxy::Off)
}

fn only(report: &Report) -> &EndpointReport {
    let [endpoint] = &report.endpoints[..] else { panic!("not one endpoint: {report}") };
    endpoint
}

/// Returns the names of the stages, then cause and advice of the one that failed.
fn failure(exporter: &Exporter) -> (Vec<&'static str>, String, String) {
    let report = probe(exporter, PATIENCE);
    let endpoint = only(&report);
    let names = endpoint.stages.iter().map(|stage| stage.kind.name()).collect();
    match &endpoint.stages.last().unwrap().outcome {
        Outcome::Failed { what, advice } => (names, what.clone(), advice.clone()),
        _ => panic!("nothing failed: {report}"),
    }
}

fn details(endpoint: &EndpointReport) -> Vec<(&'static str, &str)> {
    let detail = |outcome: &'_ Outcome| match outcome {
        Outcome::Passed { .. } => "passed",
        Outcome::Noted { .. } => "noted",
        _ => "failed",
    };
    endpoint.stages.iter().map(|stage| (stage.kind.name(), detail(&stage.outcome))).collect()
}

fn detail(endpoint: &EndpointReport, kind: StageKind) -> &str {
    let stage = endpoint.stages.iter().find(|stage| stage.kind == kind).unwrap();
    match &stage.outcome {
        Outcome::Passed { detail } | Outcome::Noted { detail } => detail,
        _ => panic!("{stage}"),
    }
}

fn receiver_that(answer: Answer) -> Receiver {
    let receiver = Receiver::start().unwrap();
    receiver.always(answer);
    receiver
}

/// Answers clients that use HTTP/2, and closes the connections of other clients without an answer.
fn strict_grpc_server() -> SocketAddr {
    serve(|mut client| {
        let mut greeting = [0; 24];
        if client.read_exact(&mut greeting).is_ok() && greeting.starts_with(b"PRI * HTTP/2.0") {
            let _ = client.write_all(SETTINGS);
        }
        // The client's bytes are read, so that the connection ends without a reset.
        let _ = client.read(&mut [0; 4096]);
    })
}

#[test]
fn a_receiver_takes_the_empty_export_of_every_signal_and_counts_no_record() {
    for compression in [Compression::None, Compression::Gzip] {
        let receiver = Receiver::start().unwrap();
        let exporter = Exporter::http(receiver.endpoint())
            .proxy(Proxy::Off)
            .compression(compression)
            .user_agent("shop/1")
            .header("x-tenant", "seven");
        let report = probe(&exporter, PATIENCE);
        assert!(report.is_good(), "{report}");
        assert_eq!((report.exporter.as_str(), report.endpoints.len()), ("otlp", 3));
        for (endpoint, signal) in report.endpoints.iter().zip(Signal::ALL) {
            assert_eq!(endpoint.url, format!("{}{}", receiver.endpoint(), signal.path()));
            assert_eq!(endpoint.signals, [signal]);
            let expected = [("resolve", "passed"), ("connect", "passed"), ("export", "passed")];
            assert_eq!(details(endpoint), expected, "{report}");
            assert_eq!(detail(endpoint, StageKind::Connect), receiver.address().to_string());
            assert_eq!(detail(endpoint, StageKind::Export), "200 OK");
        }
        assert_eq!(receiver.request_count(), 3);
        assert_eq!((receiver.span_count(), receiver.log_count(), receiver.point_count()), (0, 0, 0));
        for request in receiver.requests() {
            assert_eq!((request.decoded, request.records, request.status), (true, 0, Some(200)));
            assert_eq!(request.header("content-type"), Some("application/x-protobuf"));
            assert_eq!(request.header("x-tenant"), Some("seven"));
            assert!(request.header("user-agent").unwrap().starts_with("shop/1 standpipe/"));
            let encoding = (compression == Compression::Gzip).then_some("gzip");
            assert_eq!(request.header("content-encoding"), encoding);
        }
    }
}

#[test]
fn signals_that_share_a_url_are_asked_about_once() {
    let receiver = receiver_that(Answer::ok());
    let exporter = Exporter::http_verbatim(format!("{}/v1/otel", receiver.endpoint())).proxy(Proxy::Off);
    let report = probe(&exporter, PATIENCE);
    assert_eq!(only(&report).signals, Signal::ALL);
    assert_eq!(receiver.connection_count(), 1, "{report}");
}

#[test]
fn a_name_that_does_not_exist_is_reported() {
    if ("collector.invalid", 4318).to_socket_addrs().is_ok() {
        return skip("this network has an address for every name");
    }
    let (stages, what, advice) = failure(&traces("http://collector.invalid:4318"));
    assert_eq!(stages, ["resolve"]);
    assert!(what.contains("\"collector.invalid\""), "{what}");
    assert!(advice.contains("in a container, is it on the same network?"), "{advice}");
}

#[test]
fn a_refused_connection_asks_whether_a_collector_runs() {
    let address = closed_address();
    let (stages, what, advice) = failure(&traces(format!("http://{address}")));
    assert_eq!(stages, ["resolve", "connect"]);
    assert_eq!(what, format!("connection refused by {address}"));
    assert_eq!(advice, "is a collector running? try: standpipe receive");
}

/// Asserts that the probe ends when its budget is used up, at this stage and with this message. Only the budget can end
/// such a probe.
#[track_caller]
fn ends_in_time(exporter: &Exporter, stages: &[&str], what: &str) {
    let began = Instant::now();
    let report = probe(exporter, SHORT);
    let took = began.elapsed();
    assert!(took >= SHORT - Duration::from_millis(10) && took < PATIENCE, "{took:?}: {report}");
    let endpoint = only(&report);
    assert_eq!(endpoint.stages.iter().map(|stage| stage.kind.name()).collect::<Vec<_>>(), stages);
    let failed = endpoint.failure().unwrap();
    assert!(failed.to_string().contains(what), "{failed}");
    let sum: Duration = endpoint.stages.iter().map(|stage| stage.took).sum();
    assert!(sum <= took, "the stages took longer than all of it: {sum:?} of {took:?}");
}

#[test]
fn whoever_does_not_answer_is_left_when_the_budget_ends() {
    thread::scope(|scope| {
        scope.spawn(|| {
            let (unanswered, stages) = (Unanswered::start(), ["resolve", "connect"]);
            ends_in_time(&traces(unanswered.url()), &stages, "no answer in time from 127.0.0.1:");
        });
        scope.spawn(|| {
            let (stalling, stages) = (TlsFront::stalling(), ["resolve", "connect", "tls"]);
            ends_in_time(&traces(stalling.url()), &stages, "does not answer the TLS handshake in time");
        });
        for answer in [Answer::hang(), Answer::ok().slow_headers(Duration::from_millis(200))] {
            scope.spawn(|| {
                let (receiver, stages) = (receiver_that(answer), ["resolve", "connect", "export"]);
                ends_in_time(&traces(receiver.endpoint()), &stages, "no answer in time");
            });
        }
    });
}

#[test]
fn endpoints_are_probed_at_the_same_time_so_that_one_budget_is_enough_for_all() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        // No request is answered before all have arrived.
        let clients: Vec<TcpStream> = listener.incoming().take(Signal::ALL.len()).flatten().collect();
        for mut client in clients {
            let _ = client.read(&mut [0; 4096]);
            let _ = client.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let report = probe(&Exporter::http(format!("http://{address}")).proxy(Proxy::Off), PATIENCE);
    assert_eq!(report.endpoints.len(), Signal::ALL.len(), "{report}");
    assert!(report.is_good(), "{report}");
}

#[test]
fn http_on_a_grpc_port_is_recognized() {
    let expected = "write the collector's HTTP port, usually 4318, or choose grpc as the transport";
    for address in [saying(SETTINGS), strict_grpc_server()] {
        let (stages, what, advice) = failure(&traces(format!("http://{address}")));
        assert_eq!(stages, ["resolve", "connect", "export"]);
        assert_eq!((what.as_str(), advice.as_str()), ("this port speaks gRPC (HTTP/2)", expected));
    }
}

#[test]
fn http_on_a_grpc_port_behind_tls_is_recognized() {
    let ca = TestCa::new();
    let exporter_to = |front: &TlsFront| traces(front.url()).ca_pem(ca.pem());
    let talking = TlsFront::offering("h2", &ca.leaf("localhost"), saying(SETTINGS));
    let (stages, what, advice) = failure(&exporter_to(&talking));
    assert_eq!(stages, ["resolve", "connect", "tls", "export"]);
    assert_eq!(what, "this port speaks gRPC (HTTP/2)");
    assert!(advice.starts_with("write the collector's HTTP port"), "{advice}");
    let strict = TlsFront::offering("h2", &ca.leaf("localhost"), strict_grpc_server());
    let (stages, what, advice) = failure(&exporter_to(&strict));
    assert_eq!(stages, ["resolve", "connect", "tls", "export"]);
    assert_eq!(what, "the server closed the connection without an answer");
    assert!(advice.starts_with("is it a gRPC port?"), "{advice}");
}

#[test]
fn plain_http_on_a_tls_port_is_recognized() {
    let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
    let front = TlsFront::start(&ca.leaf("localhost"), receiver.address());
    let alert = format!("http://{}", saying(ALERT));
    let text = receiver_that(
        Answer::status(400)
            .header("content-type", "text/plain")
            .body("Client sent an HTTP request to an HTTPS server."),
    );
    // Closes connections that begin without a handshake, and forwards the others.
    let (strict, tls) = (TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(), front.address());
    let silent = format!("http://{}", strict.local_addr().unwrap());
    thread::spawn(move || strict.incoming().take(MAX_CONNECTIONS).flatten().for_each(|c| pass_tls(c, tls)));
    for endpoint in [format!("http://localhost:{}", front.port()), alert, text.endpoint(), silent] {
        let (stages, what, advice) = failure(&traces(&endpoint));
        assert_eq!(stages, ["resolve", "connect", "export"], "{endpoint}");
        assert_eq!(what, "this port speaks TLS", "{endpoint}");
        assert_eq!(advice, "write https:// instead of http://");
    }
}

/// Forwards a client to a TLS server if its first byte is that of TLS. Otherwise closes the connection.
fn pass_tls(client: TcpStream, server: SocketAddr) {
    let mut first = [0];
    if !matches!((client.peek(&mut first), first), (Ok(1), [0x16])) {
        // The client's bytes are read, so that the connection ends without a reset.
        let _ = (&client).read(&mut [0; 4096]);
        return;
    }
    let upstream = TcpStream::connect(server).unwrap();
    let (mut from_client, mut to_server) = (client.try_clone().unwrap(), upstream.try_clone().unwrap());
    thread::spawn(move || std::io::copy(&mut from_client, &mut to_server));
    thread::spawn(move || std::io::copy(&mut &upstream, &mut &client));
}

#[test]
fn tls_on_a_plain_port_is_recognized() {
    let receiver = Receiver::start().unwrap();
    let (stages, what, advice) = failure(&traces(format!("https://{}", receiver.address())));
    assert_eq!(stages, ["resolve", "connect", "tls"]);
    assert_eq!(what, "the server does not speak TLS");
    assert_eq!(advice, "write http:// instead of https://");
}

#[test]
fn a_good_certificate_is_described() {
    let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
    let front = TlsFront::start(&ca.leaf("localhost"), receiver.address());
    let report = probe(&traces(front.url()).ca_pem(ca.pem()), PATIENCE);
    assert!(report.is_good(), "{report}");
    let tls = detail(only(&report), StageKind::Tls);
    assert!(
        tls.starts_with("TLS 1.3, certificate of \"standpipe test server\" by \"standpipe test auth"),
        "{tls}"
    );
    assert!(tls.ends_with(", until 4096-01-01"), "{tls}");
    assert_eq!(receiver.span_count(), 0);
}

#[test]
fn every_bad_certificate_is_described_with_names_and_dates() {
    let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
    let bad: [(Identity, &str, &str); 4] = [
        (
            TestCa::new().leaf("localhost"),
            "unknown issuer: \"standpipe test authority ",
            "ca-file does not contain",
        ),
        (ca.expired(), "has expired on 2002-01-01", "renew it"),
        (ca.not_yet_valid(), "not valid yet: valid from 3001-01-01", "clock"),
        (
            ca.wrong_host(),
            "not valid for host localhost, only for elsewhere.invalid",
            "a name in the certificate",
        ),
    ];
    for (identity, expected_what, expected_advice) in &bad {
        let front = TlsFront::start(identity, receiver.address());
        let (stages, what, advice) = failure(&traces(front.url()).ca_pem(ca.pem()));
        assert_eq!(stages, ["resolve", "connect", "tls"]);
        assert!(what.contains(expected_what), "{what}");
        assert!(advice.contains(expected_advice), "{advice}");
    }
    let front = TlsFront::start(&ca.leaf("localhost"), receiver.address());
    let (_, what, advice) = failure(&traces(front.url()));
    assert!(what.contains("unknown issuer: \"standpipe test authority "), "{what}");
    assert!(advice.starts_with("set ca-file to the certificate of \"standpipe test authority "), "{advice}");
    assert_eq!(receiver.request_count(), 0);
}

#[test]
fn a_client_certificate_that_is_wanted_is_asked_for() {
    let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
    let front = TlsFront::requiring_client_certificate(&ca.leaf("localhost"), &ca, receiver.address());
    let exporter = traces(front.url()).ca_pem(ca.pem());
    let (stages, what, advice) = failure(&exporter);
    assert_eq!(stages, ["resolve", "connect", "tls"]);
    assert_eq!(what, "client certificate required");
    assert_eq!(advice, "set client-certificate-file and client-key-file");

    let stranger = TestCa::new().client("shop.example");
    let (_, what, _) =
        failure(&exporter.clone().client_pem(stranger.certificate_pem.as_str(), stranger.key_pem.as_str()));
    assert!(what.contains("refuses the client certificate"), "{what}");

    let known = ca.client("shop.example");
    let report =
        probe(&exporter.client_pem(known.certificate_pem.as_str(), known.key_pem.as_str()), PATIENCE);
    assert!(report.is_good(), "{report}");
}

#[test]
fn an_authority_that_is_none_is_reported_before_anything_is_tried() {
    let (stages, what, _) = failure(&traces("https://localhost:1").ca_pem("no certificate"));
    assert_eq!(stages, ["settings"]);
    assert_eq!(what, "CA: there is no certificate in it");
}

#[test]
fn each_status_is_reported_in_words() {
    for (answer, expected) in [
        (Answer::status(401), "401 Unauthorized; no authorization header is sent"),
        (Answer::status(403), "403 Forbidden; no authorization header is sent"),
        (Answer::status(404), "404 Not Found: no telemetry is accepted at /v1/traces; is it a collector"),
        (Answer::status(405), "405 Method Not Allowed: POST is not allowed at /v1/traces"),
        (Answer::status(413), "413 "),
        (Answer::status(415), "415 Unsupported Media Type; does the server accept OTLP as protobuf"),
        (Answer::status(429), "the server refuses requests for now"),
        (
            Answer::status(500).message("disk full"),
            "500 Internal Server Error: disk full; the server failed to process the request",
        ),
        (Answer::status(502), "the collector behind it does not"),
        (Answer::status(503), "503 Service Unavailable; the server failed to process the request"),
        (
            Answer::redirect(307, "https://user:pass@login.example/in?token=hunter2"),
            "307 Temporary Redirect to https://login.example/in; redirects are not followed",
        ),
        (
            Answer::ok().header("content-type", "text/html").body("<html>welcome</html>"),
            "200 OK: the answer is not from a collector: content type text/html",
        ),
        (Answer::garbage("220 mail.example ESMTP\r\n"), "the answer is not HTTP"),
    ] {
        let receiver = receiver_that(answer);
        let report = probe(&traces(receiver.endpoint()), PATIENCE);
        let failed = only(&report).failure().unwrap_or_else(|| panic!("{expected}: {report}")).to_string();
        assert!(failed.starts_with("export: failed: ") && failed.contains(expected), "{expected}: {failed}");
        assert_eq!(receiver.connection_count(), 1, "{failed}");
    }
}

#[test]
fn a_doubled_path_is_seen() {
    let receiver = Receiver::start().unwrap();
    let endpoint = format!("{}/v1/traces/v1/traces", receiver.endpoint());
    let (_, what, advice) = failure(&traces(endpoint));
    assert_eq!(what, "404 Not Found: the path /v1/traces/v1/traces names a signal twice");
    assert_eq!(advice, "write only one signal path in the endpoint");
}

#[test]
fn metrics_on_the_path_of_traces_are_noted_though_the_server_is_content() {
    let receiver = Receiver::start().unwrap();
    let exporter = Exporter::http_verbatim(format!("{}/v1/traces", receiver.endpoint()))
        .proxy(Proxy::Off)
        .signals([Signal::Metrics]);
    let report = probe(&exporter, PATIENCE);
    let noted = detail(only(&report), StageKind::Export);
    assert!(noted.contains("metrics are posted to /v1/traces, the path of traces"), "{noted}");
}

#[test]
fn no_more_than_a_part_of_an_endless_answer_is_read() {
    for answer in [Answer::oversized(1 << 40), Answer::status(500).body(vec![b'x'; 8 << 20])] {
        let receiver = receiver_that(answer);
        let began = Instant::now();
        let report = probe(&traces(receiver.endpoint()), PATIENCE);
        assert!(!report.is_good() && began.elapsed() < PATIENCE / 2, "{report}");
        assert!(report.to_string().len() < 2000);
    }
}

#[test]
fn a_probe_is_content_with_exactly_what_an_export_counts_as_delivered() {
    let answer = |content_type: &str, body: &[u8]| {
        Answer::ok().header("content-type", content_type).body(body.to_vec())
    };
    let page = b"<!doctype html><title>Log in</title>";
    let mut answers = vec![
        Answer::ok(),
        Answer::status(202),
        Answer::status(204),
        Answer::empty_partial(),
        Answer::partial(0, "use v2"),
        Answer::oversized(64 << 10),
        Answer::oversized(4 << 20),
        Answer::oversized((4 << 20) + 1),
        Answer::gzip_bomb(1 << 20),
        answer("text/html", page).cut_short(),
        answer("text/html", b"").cut_short(),
        answer("application/json", b"{\"partialSuccess\":{").cut_short(),
        answer("application/json", b"{\"error\":1,").cut_short(),
        answer("application/x-protobuf", b"\x0a").cut_short(),
        Answer::redirect(302, "/login"),
        Answer::status(405),
        Answer::status(401),
    ];
    let mut others = Vec::new();
    for content_type in [
        "",
        "application/x-protobuf",
        "Application/X-Protobuf; charset=utf-8",
        "application/protobuf",
        "application/octet-stream",
        "application/json",
        "application/json;charset=utf-8",
        "text/json",
        "text/html",
        "text/plain",
    ] {
        for body in [
            &b""[..],
            b"\x0a\x00",
            b"\x0a\x05\x12\x03old",
            b"{}",
            b"{\"partialSuccess\":{\"rejectedSpans\":\"0\"}}",
            b"{\"partialSuccess\":[]}",
            b"{\"error\":\"no\"}",
            b"ok",
            b"hi",
            page,
        ] {
            others.push(answer(content_type, body));
        }
    }
    // By default, the step has no divisor in common with the number of bodies, so each body occurs.
    answers.extend(others.into_iter().step_by(step_of(7)));
    for answer in answers {
        let receiver = receiver_that(answer.clone());
        let exporter = traces(receiver.endpoint());
        let report = probe(&exporter, PATIENCE);
        let telemetry = Telemetry::start(Config::new().exporter(exporter)).unwrap();
        telemetry.tracer("shop").span("checkout").end();
        let ledger = telemetry.shutdown(PATIENCE);
        assert_eq!(report.is_good(), ledger.total().delivered == 1, "{answer:?}: {report}{ledger}");
    }
}

#[test]
fn an_answer_whose_end_does_not_come_is_noted() {
    let receiver = receiver_that(Answer::ok().body("ab").cut_short().then_close());
    let report = probe(&traces(receiver.endpoint()), PATIENCE);
    assert_eq!(detail(only(&report), StageKind::Export), "200 OK, but the answer was cut short");
}

#[test]
fn secrets_are_in_no_report() {
    let said = "who is Bearer Hunter2-the-Second? bad key=swordfish-and-chips";
    for answer in [
        Answer::status(401).header("content-type", "text/plain").body(said),
        Answer::redirect(302, "/login/Hunter2-the-Second?key=swordfish-and-chips"),
        Answer::ok().header("content-type", "Hunter2-the-Second").body("x"),
        Answer::ok().message(said),
    ] {
        let receiver = receiver_that(answer);
        let endpoint = format!("{}/v1/traces?key=swordfish-and-chips", receiver.endpoint());
        let exporter = traces(endpoint).header("Authorization", "Bearer Hunter2-the-Second");
        let report = probe(&exporter, PATIENCE);
        let request = &receiver.requests()[0];
        assert_eq!(request.header("authorization"), Some("Bearer Hunter2-the-Second"));
        assert!(request.path.ends_with("?key=swordfish-and-chips"));
        for shown in [report.to_string(), format!("{report:?}")] {
            assert!(!shown.to_lowercase().contains("hunter2") && !shown.contains("swordfish"), "{shown}");
        }
    }
}

#[test]
fn a_host_that_was_put_in_from_elsewhere_is_not_shown() {
    let gone = closed_address();
    let receiver = Receiver::start().unwrap();
    for (address, last) in [(gone, "connection refused by ***"), (receiver.address(), "export: 200 OK")] {
        let scratch = Scratch::new();
        let file = scratch.write("address", address.to_string());
        let endpoint = format!("http://%{{file:{}}}%/v1/traces", file.display());
        let text = format!("[tracer.otel]\ntype = \"otel\"\ntransport = \"http\"\nendpoint = '{endpoint}'\n");
        let config = standpipe::Config::from_toml_str(&text).unwrap();
        let report = probe(&config.exporters()[0].clone().proxy(Proxy::Off), PATIENCE).to_string();
        assert!(report.contains(last), "{report}");
        assert!(!report.contains(&address.to_string()) && !report.contains("127.0.0.1"), "{report}");
    }
}
