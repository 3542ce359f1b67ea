//! TLS: a server with an invalid certificate is refused at once, and the reason is reported.

mod rotation;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustls::HandshakeKind;
use standpipe::receiver::Receiver;
use standpipe::{
    Compression, Config, Exporter, FlushOutcome, Ledger, Problem, ProblemKind, Signal, Telemetry,
};

use crate::support::tls::{BAD_CERTIFICATE, HANDSHAKE_FAILURE, Identity, TestCa, TlsFront, refusing_with};

/// Longer than anything on loopback takes.
const PATIENCE: Duration = Duration::from_secs(20);
/// More than any test here needs.
const MAX_CONNECTIONS: usize = 16;
/// Alerts of TLS.
const ACCESS_DENIED: u8 = 49;
const INTERNAL_ERROR: u8 = 80;

struct Outcome {
    ledger: Ledger,
    problems: Vec<Problem>,
}

/// Exports one span, and waits for its outcome.
fn export(exporter: Exporter) -> Outcome {
    let (report, reported) = mpsc::channel();
    let config = Config::new().service_name("shop").exporter(exporter).on_problem(move |problem| {
        let _ = report.send(problem.clone());
    });
    let telemetry = Telemetry::start(config).expect("a sound configuration");
    telemetry.tracer("shop").span("checkout").end();
    assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
    Outcome { ledger: telemetry.shutdown(PATIENCE), problems: reported.try_iter().collect() }
}

/// Asserts that the span was refused after one attempt on one connection, and that the problem contains `why`.
#[track_caller]
fn assert_refused_at_once(outcome: &Outcome, front: &TlsFront, receiver: &Receiver, why: &str) {
    let Outcome { ledger, problems } = outcome;
    let traces = ledger.exporters[0].traces;
    assert_eq!((traces.delivered, traces.dropped.refused), (0, 1), "{why}: {ledger}");
    assert_eq!((ledger.exporters[0].attempts, front.accepted()), (1, 1), "{why}: it was tried again");
    assert_eq!(receiver.request_count(), 0, "{why}: something came through");
    let [problem] = &problems[..] else { panic!("{why}: one problem should be reported: {problems:?}") };
    assert_eq!(problem.kind, ProblemKind::Refused, "{problem}");
    assert!(problem.message.contains(why), "it should say {why:?}: {problem}");
    assert!(problem.message.contains(&front.url()), "it should say where: {problem}");
}

#[test]
fn every_bad_certificate_is_refused_at_once_for_its_own_reason() {
    let ca = TestCa::new();
    let bad: [(Identity, &str); 3] = [
        (TestCa::new().leaf("localhost"), "unknown issuer"),
        (ca.wrong_host(), "not valid for host localhost"),
        (ca.ca_as_leaf(), "a CA certificate, not a server certificate"),
    ];
    for (identity, why) in &bad {
        let receiver = Receiver::start().unwrap();
        let front = TlsFront::start(identity, receiver.address());
        let outcome = export(Exporter::http(front.url()).ca_pem(ca.pem()));
        assert_refused_at_once(&outcome, &front, &receiver, why);

        let front = TlsFront::offering("h2", identity, receiver.grpc_address());
        let outcome = export(Exporter::grpc(front.url()).ca_pem(ca.pem()));
        assert_refused_at_once(&outcome, &front, &receiver, why);
    }
}

#[test]
fn without_the_client_certificate_that_a_server_asks_for_nothing_is_sent_over_grpc() {
    let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
    let front = TlsFront::offering_to_clients_of("h2", &ca.leaf("localhost"), &ca, receiver.grpc_address());
    let outcome = export(Exporter::grpc(front.url()).ca_pem(ca.pem()));
    assert_refused_at_once(&outcome, &front, &receiver, "client certificate required");
}

#[test]
fn a_certificate_for_a_name_is_not_good_for_another_address() {
    let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
    let front = TlsFront::start(&ca.leaf("localhost"), receiver.address());
    // The certificate needs the address of the URL, 127.0.0.1, but no other address such as [::1].
    let good = export(Exporter::http(format!("https://127.0.0.1:{}", front.port())).ca_pem(ca.pem()));
    assert_eq!(good.ledger.total().delivered, 1, "{}", good.ledger);

    let front = TlsFront::start(&ca.wrong_host(), receiver.address());
    let bad = export(Exporter::http(format!("https://127.0.0.1:{}", front.port())).ca_pem(ca.pem()));
    assert_eq!(bad.ledger.total().dropped.refused, 1, "{}", bad.ledger);
    assert!(bad.problems[0].message.contains("not valid for host 127.0.0.1"), "{:?}", bad.problems);
}

#[test]
fn without_the_client_certificate_that_a_server_asks_for_nothing_is_sent() {
    let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
    let front = TlsFront::requiring_client_certificate(&ca.leaf("localhost"), &ca, receiver.address());
    let outcome = export(Exporter::http(front.url()).ca_pem(ca.pem()));
    assert_refused_at_once(&outcome, &front, &receiver, "client certificate required");
}

#[test]
fn a_client_certificate_that_the_server_does_not_trust_is_refused_at_once() {
    let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
    let stranger = TestCa::new().client("shop.example");
    let front = TlsFront::requiring_client_certificate(&ca.leaf("localhost"), &ca, receiver.address());
    let exporter = Exporter::http(front.url())
        .ca_pem(ca.pem())
        .client_pem(stranger.certificate_pem.as_str(), stranger.key_pem.as_str());
    let outcome = export(exporter);
    assert_refused_at_once(&outcome, &front, &receiver, "refuses the client certificate");
}

#[test]
fn the_bundled_roots_do_not_know_an_authority_of_our_own() {
    let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
    let front = TlsFront::start(&ca.leaf("localhost"), receiver.address());
    let outcome = export(Exporter::http(front.url()));
    assert_refused_at_once(&outcome, &front, &receiver, "unknown issuer");
}

#[test]
fn a_server_that_does_not_speak_tls_is_refused_and_the_message_names_it() {
    let receiver = Receiver::start().unwrap();
    let outcome =
        export(Exporter::http(format!("https://{}", receiver.address())).ca_pem(TestCa::new().pem()));
    assert_eq!(outcome.ledger.total().dropped.refused, 1, "{}", outcome.ledger);
    assert!(outcome.problems[0].message.contains("does not speak TLS"), "{:?}", outcome.problems);
    assert_eq!((receiver.connection_count(), receiver.request_count()), (1, 0));
}

#[test]
fn spans_arrive_through_tls_with_an_authority_of_our_own() {
    for compression in [Compression::None, Compression::Gzip] {
        let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
        let front = TlsFront::start(&ca.leaf("localhost"), receiver.address());
        let exporter =
            Exporter::http(front.url()).ca_pem(ca.pem()).compression(compression).header("x-tenant", "seven");
        let telemetry = Telemetry::start(Config::new().service_name("shop").exporter(exporter)).unwrap();
        let tracer = telemetry.tracer("shop");
        // Takes more than one TLS record and more than one write.
        let picture = "0123456789abcdef".repeat(1024);
        for number in 0..20 {
            tracer.span("checkout").set("number", number).set("picture", &picture);
        }
        let ledger = telemetry.shutdown(PATIENCE);
        assert_eq!((ledger.total().delivered, ledger.lost()), (20, 0), "{ledger}");
        assert_eq!(receiver.span_count(), 20);
        let request = &receiver.requests()[0];
        assert_eq!(request.header("x-tenant"), Some("seven"));
        let encoding = (compression == Compression::Gzip).then_some("gzip");
        assert_eq!(request.header("content-encoding"), encoding);
    }
}

#[test]
fn one_tls_connection_carries_many_requests() {
    let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
    let front = TlsFront::start(&ca.leaf("localhost"), receiver.address());
    let exporter = Exporter::http(front.url()).ca_pem(ca.pem()).throttle(Duration::ZERO);
    let telemetry = Telemetry::start(Config::new().exporter(exporter)).unwrap();
    let tracer = telemetry.tracer("shop");
    for _ in 0..5 {
        tracer.span("checkout").end();
        assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
    }
    assert_eq!(telemetry.shutdown(PATIENCE).total().delivered, 5);
    assert_eq!((receiver.request_count(), front.accepted()), (5, 1));
}

#[test]
fn spans_arrive_where_a_client_certificate_is_asked_for_and_shown() {
    let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
    let client = ca.client("shop.example");
    let front = TlsFront::requiring_client_certificate(&ca.leaf("localhost"), &ca, receiver.address());
    let exporter = Exporter::http(front.url())
        .ca_pem(ca.pem())
        .client_pem(client.certificate_pem.as_str(), client.key_pem.as_str());
    let outcome = export(exporter);
    assert_eq!(outcome.ledger.total().delivered, 1, "{} {:?}", outcome.ledger, outcome.problems);
    assert_eq!(receiver.spans()[0].span.name, "checkout");
}

#[test]
fn several_authorities_in_one_file_are_all_trusted() {
    let (first, second) = (TestCa::new(), TestCa::new());
    let both = format!("# two of them\n{}\n{}", first.pem(), second.pem());
    for ca in [first, second] {
        let receiver = Receiver::start().unwrap();
        let front = TlsFront::start(&ca.leaf("localhost"), receiver.address());
        let outcome = export(Exporter::http(front.url()).ca_pem(both.as_str()));
        assert_eq!(outcome.ledger.total().delivered, 1, "{} {:?}", outcome.ledger, outcome.problems);
    }
}

/// The collector restarts with a renewed certificate: waiting records must be sent without a restart of the program.
#[test]
fn after_a_bad_certificate_the_next_batch_is_delivered_to_a_good_one() {
    let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
    let wrong = TlsFront::start(&ca.wrong_host(), receiver.address());
    let relay = Relay::start(wrong.address());
    let exporter = Exporter::http(format!("https://localhost:{}", relay.address.port()))
        .ca_pem(ca.pem())
        .throttle(Duration::ZERO);
    let telemetry = Telemetry::start(Config::new().exporter(exporter)).unwrap();
    let tracer = telemetry.tracer("shop");
    tracer.span("lost").end();
    assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
    assert_eq!(telemetry.ledger().total().dropped.refused, 1, "{}", telemetry.ledger());

    let renewed = TlsFront::start(&ca.leaf("localhost"), receiver.address());
    relay.lead_to(renewed.address());
    tracer.span("delivered").end();
    let ledger = telemetry.shutdown(PATIENCE);
    assert_eq!((ledger.total().delivered, ledger.lost()), (1, 1), "{ledger}");
    assert_eq!(receiver.spans()[0].span.name, "delivered");
}

/// Servers refuse a client without a certificate with different alerts, and some servers send no alert.
#[test]
fn a_client_certificate_that_is_wanted_over_tls_1_2_is_named_and_not_tried_again() {
    let ca = TestCa::new();
    for alert in [Some(HANDSHAKE_FAILURE), Some(BAD_CERTIFICATE), Some(ACCESS_DENIED), None] {
        for exporter in [Exporter::http as fn(String) -> Exporter, Exporter::grpc] {
            let receiver = Receiver::start().unwrap();
            let front = TlsFront::over_tls_1_2(&ca.leaf("localhost"), &ca, true, receiver.address());
            let url = format!("https://localhost:{}", refusing_with(alert, front.address()).port());
            let exporter = exporter(url.clone()).ca_pem(ca.pem()).give_up_after(PATIENCE / 2);
            let Outcome { ledger, problems } = export(exporter);
            assert_eq!(ledger.total().dropped.refused, 1, "{alert:?}: {ledger} {problems:?}");
            assert_eq!((ledger.exporters[0].attempts, front.accepted()), (1, 1), "{alert:?}: {problems:?}");
            let [problem] = &problems[..] else { panic!("{alert:?}: one problem is reported: {problems:?}") };
            assert_eq!(problem.kind, ProblemKind::Refused, "{problem}");
            assert!(problem.message.contains("tls: client certificate required"), "{problem}");
            assert!(problem.message.contains(&url), "{problem}");
        }
    }
}

#[test]
fn a_client_certificate_that_is_asked_for_and_not_needed_is_no_hindrance() {
    let ca = TestCa::new();
    let receiver = Receiver::start().unwrap();
    let front = |upstream| TlsFront::over_tls_1_2(&ca.leaf("localhost"), &ca, false, upstream);
    let (http, grpc) = (front(receiver.address()), front(receiver.grpc_address()));
    for exporter in [Exporter::http(http.url()), Exporter::grpc(grpc.url())] {
        let Outcome { ledger, problems } = export(exporter.ca_pem(ca.pem()));
        assert_eq!((ledger.total().delivered, ledger.lost()), (1, 0), "{ledger} {problems:?}");
        assert!(problems.is_empty(), "{problems:?}");
    }
    assert_eq!(receiver.span_count(), 2);
}

/// The server may have requested a certificate without requiring one, and the alert may have another cause.
#[test]
fn an_alert_that_is_not_about_certificates_is_tried_again_though_one_was_asked_for() {
    let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
    let front =
        |is_required, upstream| TlsFront::over_tls_1_2(&ca.leaf("localhost"), &ca, is_required, upstream);
    let (http, grpc) = (front(false, receiver.address()), front(false, receiver.grpc_address()));
    let strict = front(true, receiver.address());
    for (healed, exporter) in [
        (http.address(), Exporter::http as fn(String) -> Exporter),
        (grpc.address(), Exporter::grpc as fn(String) -> Exporter),
    ] {
        let relay = Relay::start(refusing_with(Some(INTERNAL_ERROR), strict.address()));
        let exporter = exporter(format!("https://localhost:{}", relay.address.port()))
            .ca_pem(ca.pem())
            .retry_delays(Duration::from_millis(1), Duration::from_millis(20));
        let (report, problems) = mpsc::channel();
        let config = Config::new().service_name("shop").exporter(exporter).on_problem(move |problem| {
            relay.lead_to(healed);
            let _ = report.send(problem.to_string());
        });
        let telemetry = Telemetry::start(config).unwrap();
        telemetry.tracer("shop").span("checkout").end();
        assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
        let (ledger, problems) = (telemetry.shutdown(PATIENCE), problems.try_iter().collect::<Vec<_>>());
        assert_eq!((ledger.total().delivered, ledger.lost()), (1, 0), "{ledger} {problems:?}");
        let words = "tls: the server ended the handshake: InternalError";
        assert!(problems.len() == 1 && problems[0].contains(words), "{problems:?}");
    }
}

/// A load balancer that temporarily has no server behind it sends an alert, because TLS has no better message.
#[test]
fn an_alert_that_is_not_about_certificates_is_tried_again() {
    const TIMES: usize = 2;
    let ca = TestCa::new();
    for (alert, name) in [
        (10, "UnexpectedMessage"),
        (40, "HandshakeFailure"),
        (80, "InternalError"),
        (112, "UnrecognisedName"),
        (200, "AlertDescription(0xc8)"),
    ] {
        let receiver = Receiver::start().unwrap();
        let http = TlsFront::start(&ca.leaf("localhost"), receiver.address());
        let grpc = TlsFront::offering("h2", &ca.leaf("localhost"), receiver.grpc_address());
        for (front, exporter) in [
            (&http, Exporter::http as fn(String) -> Exporter),
            (&grpc, Exporter::grpc as fn(String) -> Exporter),
        ] {
            let balancer = alerting(alert, TIMES, front.address());
            let exporter = exporter(format!("https://localhost:{}", balancer.port()))
                .ca_pem(ca.pem())
                .retry_delays(Duration::from_millis(1), Duration::from_millis(20));
            let Outcome { ledger, problems } = export(exporter);
            assert_eq!((ledger.total().delivered, ledger.lost()), (1, 0), "{name}: {ledger} {problems:?}");
            assert_eq!(ledger.exporters[0].attempts, 1 + TIMES as u64, "{name}");
            let [problem] = &problems[..] else { panic!("{name}: one problem is reported: {problems:?}") };
            assert_eq!(problem.kind, ProblemKind::Unavailable, "{problem}");
            let words = format!("tls: the server ended the handshake: {name}");
            assert!(problem.message.contains(&words), "{problem}");
        }
    }
}

/// Ends this many handshakes with an alert, and forwards to a TLS server from then on. Runs until the process ends.
fn alerting(alert: u8, times: usize, target: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound listener has an address");
    thread::spawn(move || {
        for (number, client) in listener.incoming().take(MAX_CONNECTIONS).flatten().enumerate() {
            // Errors of a connection are ignored: both ends notice them.
            let _ = match number < times {
                true => end_handshake(client, alert),
                false => TcpStream::connect(target).and_then(|server| join(client, server)),
            };
        }
    });
    address
}

fn end_handshake(mut client: TcpStream, alert: u8) -> io::Result<()> {
    let mut head = [0; 5];
    client.read_exact(&mut head)?;
    let mut hello = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
    client.read_exact(&mut hello)?;
    // A TLS 1.2 record with a fatal alert.
    client.write_all(&[0x15, 3, 3, 0, 2, 2, alert])?;
    client.shutdown(Shutdown::Write)?;
    // The client's bytes are read, so that the connection ends without a reset.
    client.set_read_timeout(Some(PATIENCE))?;
    io::copy(&mut client, &mut io::sink()).map(drop)
}

#[test]
fn bad_certificate_files_are_errors_at_start_that_say_what_is_wrong() {
    let ca = TestCa::new();
    let (client, other) = (ca.client("shop.example"), ca.client("other.example"));
    let here = || Exporter::http("https://127.0.0.1:1");
    let framed =
        |label: &str, text: &str| format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n");
    let unended = ca.pem().replace("END", "EDN");
    for (what, exporter, said) in [
        ("no PEM", here().ca_pem("not a certificate"), "CERTIFICATE"),
        ("empty", here().ca_pem(""), "CERTIFICATE"),
        ("a key for a CA", here().ca_pem(client.key_pem.as_str()), "CERTIFICATE"),
        ("no base64", here().ca_pem(framed("CERTIFICATE", "!!!!")), "CA"),
        ("no end", here().ca_pem(unended.as_str()), "CA"),
        ("no certificate inside", here().ca_pem(framed("CERTIFICATE", "AAAA")), "CA"),
        ("no key", here().client_pem(client.certificate_pem.as_str(), ""), "PRIVATE KEY"),
        (
            "a certificate for a key",
            here().client_pem(client.certificate_pem.as_str(), ca.pem()),
            "PRIVATE KEY",
        ),
        (
            "no key inside",
            here().client_pem(client.certificate_pem.as_str(), framed("PRIVATE KEY", "AAAA")),
            "client key",
        ),
        (
            "no certificate of the client inside",
            here().client_pem(framed("CERTIFICATE", "AAAA"), client.key_pem.as_str()),
            "client",
        ),
        (
            "another's key",
            here().client_pem(client.certificate_pem.as_str(), other.key_pem.as_str()),
            "does not belong",
        ),
    ] {
        let error = Telemetry::start(Config::new().exporter(exporter)).expect_err(what);
        assert!(error.to_string().contains(said), "{what}: it should mention {said:?}: {error}");
        assert_eq!(error.into_usable().exporters().len(), 0, "{what}");
    }
}

#[test]
fn a_server_that_stalls_the_handshake_costs_no_more_than_the_time_of_an_attempt() {
    let (ca, front) = (TestCa::new(), TlsFront::stalling());
    let exporter = Exporter::http(front.url())
        .ca_pem(ca.pem())
        .timeout(Duration::from_millis(200))
        .give_up_after(Duration::from_millis(1));
    let start = Instant::now();
    let outcome = export(exporter);
    assert!(start.elapsed() < Duration::from_secs(5), "it took {:?}", start.elapsed());
    assert_eq!(outcome.ledger.total().dropped.gave_up, 1, "{}", outcome.ledger);
}

/// Forwards bytes to an address that can change, so that one address can have two servers, one after the other.
struct Relay {
    address: SocketAddr,
    target: Arc<Mutex<SocketAddr>>,
}

impl Relay {
    /// Starts a relay that runs until the process ends.
    fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let target = Arc::new(Mutex::new(target));
        thread::spawn({
            let target = Arc::clone(&target);
            move || {
                for client in listener.incoming().take(MAX_CONNECTIONS).flatten() {
                    let target = *target.lock().expect("nobody panics with it");
                    // Errors of a connection are ignored: both ends notice them.
                    let _ = TcpStream::connect(target).and_then(|server| join(client, server));
                }
            }
        });
        Self { address, target }
    }

    fn lead_to(&self, target: SocketAddr) {
        *self.target.lock().expect("nobody panics with it") = target;
    }
}

fn join(client: TcpStream, server: TcpStream) -> io::Result<()> {
    let (from_client, from_server) = (client.try_clone()?, server.try_clone()?);
    for (mut from, mut to) in [(from_client, server), (from_server, client)] {
        thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        });
    }
    Ok(())
}

/// The interval of metrics is longer than idle connections are kept, so each export of a program without other signals
/// needs a new connection.
#[test]
fn resumes_the_tls_session_on_every_new_connection() {
    for is_over_grpc in [false, true] {
        let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
        let identity = ca.leaf("localhost");
        let (front, exporter) = if is_over_grpc {
            let front = TlsFront::offering("h2", &identity, receiver.grpc_address());
            let exporter = Exporter::grpc(front.url());
            (front, exporter)
        } else {
            let front = TlsFront::start(&identity, receiver.address());
            let exporter = Exporter::http(front.url());
            (front, exporter)
        };
        let exporter = exporter.ca_pem(ca.pem()).signals([Signal::Metrics]);
        let telemetry = Telemetry::start(Config::new().service_name("shop").exporter(exporter)).unwrap();
        let orders = telemetry.meter("shop").counter("orders");
        for _ in 0..3 {
            orders.add(1, ());
            assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
            front.hang_up();
        }
        use HandshakeKind::{Full, Resumed};
        assert_eq!(front.handshakes(), [Full, Resumed, Resumed], "over gRPC: {is_over_grpc}");
    }
}
