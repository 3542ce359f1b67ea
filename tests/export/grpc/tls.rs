//! gRPC over TLS: a server that cannot be verified or does not support HTTP/2 is refused.

use standpipe::Compression;
use standpipe::receiver::Receiver;

use super::{assert_refused_at_once, export, exporter_to};
use crate::support::tls::{Identity, TestCa, TlsFront};

fn setting() -> (TestCa, Receiver) {
    (TestCa::new(), Receiver::start().expect("loopback has a free port"))
}

#[test]
fn spans_arrive_through_tls() {
    for compression in [Compression::None, Compression::Gzip] {
        let (ca, receiver) = setting();
        let front = TlsFront::offering("h2", &ca.leaf("localhost"), receiver.grpc_address());
        let (ledger, problems) = export(exporter_to(&front.url()).ca_pem(ca.pem()).compression(compression));
        assert_eq!((ledger.total().delivered, receiver.span_count()), (1, 1), "{ledger}, {problems:?}");
        let host = receiver.requests()[0].header("host").map(str::to_owned);
        assert_eq!(host, Some(format!("localhost:{}", front.port())));
    }
}

#[test]
fn a_server_without_http_2_is_refused_and_reported() {
    let (ca, receiver) = setting();
    let identity = ca.leaf("localhost");
    for front in [
        TlsFront::start(&identity, receiver.address()),
        TlsFront::offering("http/1.1", &identity, receiver.address()),
    ] {
        let outcome = export(exporter_to(&front.url()).ca_pem(ca.pem()));
        assert_refused_at_once(&outcome, "the server offers no HTTP/2, which gRPC needs");
        assert_eq!(front.accepted(), 1);
    }
}

#[test]
fn every_bad_certificate_is_refused_at_once_for_its_own_reason() {
    let (ca, receiver) = setting();
    let bad: [(Identity, &str); 3] = [
        (TestCa::new().leaf("localhost"), "unknown issuer"),
        (ca.wrong_host(), "not valid for host localhost"),
        (ca.ca_as_leaf(), "a CA certificate, not a server certificate"),
    ];
    for (identity, why) in &bad {
        let front = TlsFront::offering("h2", identity, receiver.grpc_address());
        let outcome = export(exporter_to(&front.url()).ca_pem(ca.pem()));
        assert_refused_at_once(&outcome, why);
        assert_eq!((front.accepted(), receiver.request_count()), (1, 0), "{why}");
    }
}

#[test]
fn a_client_shows_its_certificate_where_one_is_asked_for() {
    let (ca, receiver) = setting();
    let identity = ca.leaf("localhost");
    let front = TlsFront::offering_to_clients_of("h2", &identity, &ca, receiver.grpc_address());
    let exporter = exporter_to(&front.url()).ca_pem(ca.pem());
    let known = ca.client("shop.example");
    let shown = exporter.clone().client_pem(known.certificate_pem.as_str(), known.key_pem.as_str());
    let (ledger, problems) = export(shown);
    assert_eq!((ledger.total().delivered, receiver.span_count()), (1, 1), "{ledger}, {problems:?}");

    assert_refused_at_once(&export(exporter.clone()), "client certificate required");
    let stranger = TestCa::new().client("shop.example");
    let shown = exporter.client_pem(stranger.certificate_pem.as_str(), stranger.key_pem.as_str());
    assert_refused_at_once(&export(shown), "refuses the client certificate");
    assert_eq!(receiver.request_count(), 1);
}

#[test]
fn each_side_of_a_missing_s_is_named() {
    let (ca, receiver) = setting();
    let front = TlsFront::offering("h2", &ca.leaf("localhost"), receiver.grpc_address());
    let outcome = export(exporter_to(&format!("http://localhost:{}", front.port())));
    assert_refused_at_once(&outcome, "the peer speaks TLS: write https:// in the endpoint");
    let outcome = export(exporter_to(&format!("https://{}", receiver.grpc_address())).ca_pem(ca.pem()));
    assert_refused_at_once(&outcome, "the server does not speak TLS");
}
