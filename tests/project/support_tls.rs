//! The TLS front and the memory measurement, on which other tests rely, work as those tests assume.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::{CertificateError, ClientConfig, ClientConnection, Error, RootCertStore, StreamOwned};

use crate::support::tls::{Identity, TestCa, TlsFront};
#[cfg(target_os = "linux")]
use crate::support::{memory, process};

/// Longer than anything on loopback takes.
const PATIENCE: Duration = Duration::from_secs(10);
/// More than any test here needs.
const MAX_EXCHANGES: usize = 16;

#[test]
fn plaintext_goes_through_both_ways() {
    let ca = TestCa::new();
    let upstream = start_echo();
    let front = TlsFront::start(&ca.leaf("localhost"), upstream);
    // More than one TLS record and more than one socket buffer.
    let request = vec![b'x'; 3_000_000];
    let answer = exchange(&front, &ca, None, &request).expect("an answer");
    assert!(answer == request, "{} bytes came back of {}", answer.len(), request.len());
    assert_eq!(front.accepted(), 1);
}

#[test]
fn a_certificate_is_good_for_its_name_and_its_address() {
    let ca = TestCa::new();
    let upstream = start_echo();
    let front = TlsFront::start(&ca.leaf("localhost"), upstream);
    for name in ["localhost", "127.0.0.1"] {
        let stream = connect(&front, name, client_config(&ca, None));
        assert_eq!(exchange_on(stream, b"hello").expect(name), b"hello");
    }
}

#[test]
fn each_bad_certificate_fails_for_its_own_reason() {
    let ca = TestCa::new();
    let refusal = |identity: &Identity| {
        let upstream = start_echo();
        let front = TlsFront::start(identity, upstream);
        let error = exchange(&front, &ca, None, b"secret").expect_err("a refusal");
        match tls_error(&error) {
            Error::InvalidCertificate(reason) => reason.clone(),
            other => panic!("not about the certificate: {other}"),
        }
    };
    let reason = refusal(&ca.expired());
    assert!(matches!(reason, CertificateError::ExpiredContext { .. }), "{reason:?}");
    let reason = refusal(&ca.not_yet_valid());
    assert!(matches!(reason, CertificateError::NotValidYetContext { .. }), "{reason:?}");
    let reason = refusal(&ca.wrong_host());
    assert!(matches!(reason, CertificateError::NotValidForNameContext { .. }), "{reason:?}");
    let reason = refusal(&ca.ca_as_leaf());
    assert!(format!("{reason:?}").contains("CaUsedAsEndEntity"), "{reason:?}");
    assert_eq!(refusal(&TestCa::new().leaf("localhost")), CertificateError::UnknownIssuer);
}

#[test]
fn a_required_client_certificate_is_asked_for_and_checked() {
    let ca = TestCa::new();
    let upstream = start_echo();
    let front = TlsFront::requiring_client_certificate(&ca.leaf("localhost"), &ca, upstream);

    let known = ca.client("shop.example");
    assert_eq!(exchange(&front, &ca, Some(&known), b"hello").expect("an answer"), b"hello");

    let error = exchange(&front, &ca, None, b"hello").expect_err("a refusal");
    assert!(tls_error(&error).to_string().contains("CertificateRequired"), "{error}");

    let stranger = TestCa::new().client("shop.example");
    let error = exchange(&front, &ca, Some(&stranger), b"hello").expect_err("a refusal");
    assert!(matches!(tls_error(&error), Error::AlertReceived(_)), "{error}");
}

#[test]
fn a_stalling_front_accepts_and_says_nothing() {
    let front = TlsFront::stalling();
    let mut stream = connect(&front, "localhost", client_config(&TestCa::new(), None));
    stream.sock.set_read_timeout(Some(Duration::from_millis(50))).expect("a time-out");
    let error = stream.write_all(b"hello").expect_err("no handshake");
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
}

#[test]
fn dropping_a_front_ends_its_connections() {
    let ca = TestCa::new();
    let upstream = start_echo();
    let front = TlsFront::start(&ca.leaf("localhost"), upstream);
    let mut stream = connect(&front, "localhost", client_config(&ca, None));
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).expect("a handshake");
    }

    let stalling = TlsFront::stalling();
    let mut held = TcpStream::connect(stalling.address()).expect("a connection");

    drop(front);
    drop(stalling);
    assert_ended(stream.sock.read_to_end(&mut Vec::new()));
    assert_ended(held.read_to_end(&mut Vec::new()));
}

#[test]
#[cfg(target_os = "linux")]
fn memory_held_is_seen_while_it_is_held_and_as_the_peak_afterwards() {
    if !process::is_alone("memory_held_is_seen_while_it_is_held_and_as_the_peak_afterwards") {
        return;
    }
    let before = memory::resident().expect("Linux says");
    let block = vec![1_u8; 64 << 20];
    let during = memory::resident().expect("Linux says");
    drop(block);
    let peak = memory::resident_peak().expect("Linux says");
    assert!(during >= before + (60 << 20), "{before} bytes before, {during} with 64 MiB more");
    assert!(peak >= before + (60 << 20), "{before} bytes before, {peak} at the peak");
}

/// Asserts that the connection is closed or reset. An open connection without data would time out.
fn assert_ended(read: io::Result<usize>) {
    if let Err(error) = read {
        assert!(!matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    }
}

/// A plain server that reads each connection to its end and then sends everything back, one connection after the other.
fn start_echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound listener has an address");
    thread::spawn(move || {
        for stream in listener.incoming().take(MAX_EXCHANGES) {
            // Errors are ignored, because some of these tests break the connection on purpose.
            let _ = stream.and_then(|stream| echo(&stream));
        }
    });
    address
}

fn echo(mut stream: &TcpStream) -> io::Result<()> {
    let mut request = Vec::new();
    stream.read_to_end(&mut request)?;
    stream.write_all(&request)
}

/// Sends `request` to the front as a client that trusts `ca`, and returns what comes back.
fn exchange(
    front: &TlsFront,
    ca: &TestCa,
    identity: Option<&Identity>,
    request: &[u8],
) -> io::Result<Vec<u8>> {
    exchange_on(connect(front, "localhost", client_config(ca, identity)), request)
}

fn exchange_on(mut stream: Stream, request: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(request)?;
    stream.conn.send_close_notify();
    stream.flush()?;
    stream.sock.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

type Stream = StreamOwned<ClientConnection, TcpStream>;

/// Connects; the handshake begins with the first byte written.
fn connect(front: &TlsFront, name: &'static str, config: ClientConfig) -> Stream {
    let name = name.try_into().expect("a name or an address");
    let tls = ClientConnection::new(Arc::new(config), name).expect("a sound configuration");
    let socket = TcpStream::connect(front.address()).expect("the front listens");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    socket.set_write_timeout(Some(PATIENCE)).expect("a time-out");
    StreamOwned::new(tls, socket)
}

fn client_config(ca: &TestCa, identity: Option<&Identity>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(ca.der()).expect("the authority is a certificate");
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider knows TLS 1.2 and 1.3")
        .with_root_certificates(roots);
    match identity {
        Some(identity) => config
            .with_client_auth_cert(identity.chain(), identity.key())
            .expect("certificate and key belong together"),
        None => config.with_no_client_auth(),
    }
}

fn tls_error(error: &io::Error) -> &Error {
    error.get_ref().and_then(|cause| cause.downcast_ref()).unwrap_or_else(|| panic!("not of TLS: {error}"))
}
