//! Over gRPC: the probe opens HTTP/2, then calls each signal's method with an empty request.

use super::*;

/// An exporter of traces only.
fn traces(endpoint: impl Into<String>) -> Exporter {
    Exporter::grpc(endpoint).signals([Signal::Traces]).proxy(Proxy::Off)
}

/// An exporter of all signals to one endpoint.
fn everything(receiver: &Receiver) -> Exporter {
    Exporter::grpc(receiver.grpc_endpoint()).proxy(Proxy::Off)
}

const ALL_STAGES: [(&str, &str); 4] =
    [("resolve", "passed"), ("connect", "passed"), ("http/2", "passed"), ("export", "passed")];

#[test]
fn a_receiver_takes_an_empty_call_of_every_signal_and_counts_no_record() {
    for compression in [Compression::None, Compression::Gzip] {
        let receiver = Receiver::start().unwrap();
        let exporter =
            everything(&receiver).compression(compression).user_agent("shop/1").header("X-Tenant", "seven");
        let report = probe(&exporter, PATIENCE);
        assert!(report.is_good(), "{report}");
        let endpoint = only(&report);
        assert_eq!(
            (endpoint.url.as_str(), &endpoint.signals[..]),
            (&*receiver.grpc_endpoint(), &Signal::ALL[..])
        );
        assert_eq!(details(endpoint), ALL_STAGES, "{report}");
        assert_eq!(detail(endpoint, StageKind::Connect), receiver.grpc_address().to_string());
        assert_eq!(detail(endpoint, StageKind::Http2), "speaks HTTP/2");
        assert_eq!(detail(endpoint, StageKind::Export), "OK");
        assert_eq!((receiver.span_count(), receiver.log_count(), receiver.point_count()), (0, 0, 0));
        assert_eq!(receiver.connection_count(), 1, "one connection serves all stages and signals");
        let requests = receiver.requests();
        let asked: Vec<Option<Signal>> = requests.iter().map(|request| request.signal).collect();
        assert_eq!(asked, Signal::ALL.map(Some));
        for request in requests {
            assert_eq!((request.decoded, request.records), (true, 0));
            assert_eq!(request.header("x-tenant"), Some("seven"));
            assert!(request.header("user-agent").unwrap().starts_with("shop/1 standpipe/"));
            let encoding = (compression == Compression::Gzip).then_some("gzip");
            assert_eq!(request.header("grpc-encoding"), encoding);
        }
    }
}

#[test]
fn a_signal_that_the_collector_does_not_take_is_named() {
    let receiver = Receiver::start().unwrap();
    receiver.always_for(Signal::Logs, Answer::grpc(12).message("unknown service"));
    let (stages, what, advice) = failure(&everything(&receiver));
    assert_eq!(stages, ["resolve", "connect", "http/2", "export", "export"]);
    assert_eq!(what, "UNIMPLEMENTED: the server does not accept logs");
    assert_eq!(advice, "give the collector a pipeline for logs, or do not send them there");
    let without = everything(&receiver).signals([Signal::Traces, Signal::Metrics]);
    assert!(probe(&without, PATIENCE).is_good());
}

#[test]
fn each_status_is_reported_in_words() {
    for (answer, expected) in [
        (
            Answer::grpc(16).message("who are you?"),
            "UNAUTHENTICATED: who are you?; no authorization header is sent: set headers",
        ),
        (Answer::grpc(7), "PERMISSION_DENIED; no authorization header is sent: set headers"),
        (Answer::grpc(12), "UNIMPLEMENTED; is it the gRPC port of a collector, usually 4317?"),
        (Answer::grpc(14).message("starting"), "UNAVAILABLE: starting; the server answers, but is not ready"),
        (Answer::grpc(8), "RESOURCE_EXHAUSTED; the server refuses requests for now"),
        (
            Answer::grpc(13).message("disk full"),
            "INTERNAL: disk full; the server failed to process the request",
        ),
        (Answer::status(401).without_grpc_status(), "UNAUTHENTICATED: HTTP status 401"),
        (Answer::status(502).without_grpc_status(), "UNAVAILABLE: HTTP status 502"),
        (Answer::reset_stream(8), "CANCELLED: the server reset the call"),
        (Answer::close(), "the call failed: the server closed the connection; is it the gRPC port"),
    ] {
        let receiver = receiver_that(answer);
        let report = probe(&traces(receiver.grpc_endpoint()), PATIENCE);
        let failed = only(&report).failure().unwrap_or_else(|| panic!("{expected}: {report}")).to_string();
        assert!(failed.starts_with("export: failed: ") && failed.contains(expected), "{expected}: {failed}");
    }
    let receiver = receiver_that(Answer::grpc(16));
    let (_, _, advice) = failure(&traces(receiver.grpc_endpoint()).header("Authorization", "Bearer hunter2"));
    assert_eq!(
        advice,
        "an authorization header is sent: is its value right, with a scheme such as Bearer, and not expired?"
    );
}

#[test]
fn what_the_collector_says_of_a_success_is_reported() {
    let receiver = receiver_that(Answer::partial(0, "too old"));
    let report = probe(&traces(receiver.grpc_endpoint()), PATIENCE);
    assert_eq!(detail(only(&report), StageKind::Export), "OK, and the collector says: too old");
}

#[test]
fn a_wrong_port_is_recognized() {
    let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
    let front = TlsFront::start(&ca.leaf("localhost"), receiver.address());
    let plain = "is it the HTTP port? the gRPC port is usually 4317";
    for (address, expected_what, expected_advice) in [
        (receiver.address(), "this port speaks HTTP/1", plain),
        (front.address(), "this port speaks TLS", "write https:// instead of http://"),
        (saying(b"SSH-2.0-OpenSSH_9.6\r\n"), "the answer is not HTTP/2", ""),
        (saying(b""), "the server closed the connection without an answer", ""),
    ] {
        let (stages, what, advice) = failure(&traces(format!("http://{address}")));
        assert_eq!(stages, ["resolve", "connect", "http/2"]);
        assert_eq!(what, expected_what);
        assert!(advice.starts_with(expected_advice), "{advice}");
    }
    let (stages, what, advice) = failure(&traces(format!("https://{}", receiver.grpc_address())));
    assert_eq!(stages, ["resolve", "connect", "tls"]);
    assert_eq!(
        (what.as_str(), advice.as_str()),
        ("the server does not speak TLS", "write http:// instead of https://")
    );
    // The reverse case: an HTTP exporter whose endpoint is the gRPC port.
    let (_, what, advice) = failure(&super::traces(receiver.grpc_endpoint()));
    assert!(what.contains("this is the gRPC port"), "{what}");
    assert_eq!(
        advice,
        "is it a gRPC port? write the collector's HTTP port, usually 4318, or choose grpc as the transport"
    );
}

#[test]
fn tls_must_lead_to_http2() {
    let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
    let leaf = ca.leaf("localhost");
    let offering = TlsFront::offering("h2", &leaf, receiver.grpc_address());
    let report = probe(&traces(offering.url()).ca_pem(ca.pem()), PATIENCE);
    let expected = [&ALL_STAGES[..2], &[("tls", "passed")], &ALL_STAGES[2..]].concat();
    assert_eq!(details(only(&report)), expected, "{report}");
    let tls = detail(only(&report), StageKind::Tls);
    assert!(tls.starts_with("TLS 1.3, certificate of \"standpipe test server\""), "{tls}");
    assert_eq!(receiver.request_count(), 1);

    let unconcerned = TlsFront::start(&leaf, receiver.grpc_address());
    let unwilling = TlsFront::offering("http/1.1", &leaf, receiver.grpc_address());
    // A server that does not support HTTP/2 may end the TLS handshake, because no protocol matches.
    let tls = ["resolve", "connect", "tls", "http/2"];
    for (front, expected) in [(unconcerned, &tls[..]), (unwilling, &["resolve", "connect", "http/2"])] {
        let (stages, what, _) = failure(&traces(front.url()).ca_pem(ca.pem()));
        assert_eq!(stages, expected);
        assert_eq!(what, "the server offers no HTTP/2, which gRPC needs");
    }
    let (stages, what, _) = failure(&traces(offering.url()));
    assert_eq!(stages, ["resolve", "connect", "tls"]);
    assert!(what.contains("unknown issuer: \"standpipe test authority "), "{what}");
    assert_eq!(receiver.request_count(), 1);
}

#[test]
fn a_refused_connection_asks_whether_a_collector_takes_grpc_there() {
    let address = closed_address();
    let (stages, what, advice) = failure(&traces(format!("http://{address}")));
    assert_eq!(stages, ["resolve", "connect"]);
    assert_eq!(what, format!("connection refused by {address}"));
    assert!(advice.contains("usually 4317") && advice.ends_with("try: standpipe receive"), "{advice}");
}

#[test]
fn whoever_does_not_answer_is_left_when_the_budget_ends() {
    let silent = serve(|mut client| {
        let _ = client.read_to_end(&mut Vec::new());
    });
    let receiver = receiver_that(Answer::hang());
    thread::scope(|scope| {
        scope.spawn(|| {
            let stages = ["resolve", "connect", "http/2"];
            ends_in_time(&traces(format!("http://{silent}")), &stages, "no answer in time");
        });
        let stages = ["resolve", "connect", "http/2", "export"];
        ends_in_time(&traces(receiver.grpc_endpoint()), &stages, "no answer in time");
    });
}

#[test]
fn a_header_that_grpc_cannot_carry_is_reported_before_anything_is_tried() {
    let (stages, what, _) = failure(&traces("http://localhost:1").header("grpc-timeout", "1S"));
    assert_eq!(stages, ["settings"]);
    assert_eq!(what, "header grpc-timeout: gRPC sets this header itself; remove it");
}

#[test]
fn secrets_are_in_no_report() {
    let said = "who is Bearer Hunter2-the-Second?";
    for answer in [Answer::grpc(16).message(said), Answer::partial(0, said)] {
        let receiver = receiver_that(answer);
        let exporter = traces(receiver.grpc_endpoint()).header("Authorization", "Bearer Hunter2-the-Second");
        let report = probe(&exporter, PATIENCE);
        assert_eq!(receiver.requests()[0].header("authorization"), Some("Bearer Hunter2-the-Second"));
        for shown in [report.to_string(), format!("{report:?}")] {
            assert!(shown.contains("who is Bearer ***?"), "{shown}");
        }
    }
}

#[test]
fn a_secret_that_a_server_repeats_when_it_leaves_is_concealed() {
    // A GOAWAY with an internal error, after which every call may still be answered.
    const FAREWELL: &[u8] =
        b"\x00\x00\x1e\x07\x00\x00\x00\x00\x00\x7f\xff\xff\xff\x00\x00\x00\x02bad token s3cret-token";
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().take(MAX_CONNECTIONS).flatten() {
            thread::spawn(move || {
                let _ = stream.write_all(&[SETTINGS, FAREWELL].concat());
                let _ = stream.shutdown(std::net::Shutdown::Write);
                // If the socket is closed with unread input, the sent bytes may be lost.
                let _ = std::io::copy(&mut stream, &mut std::io::sink());
            });
        }
    });
    let exporter = traces(format!("http://{address}")).header("authorization", "Bearer s3cret-token");
    let (_, what, _) = failure(&exporter);
    assert!(what.ends_with("INTERNAL_ERROR: bad token ***"), "{what}");
}
