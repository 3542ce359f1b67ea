//! How a failed handshake is reported.

use standpipe::probe::probe;
use standpipe::receiver::Receiver;
use standpipe::{Exporter, Signal};

use super::{PATIENCE, failure, traces};
use crate::support::stubborn::saying;
use crate::support::tls::{BAD_CERTIFICATE, HANDSHAKE_FAILURE, TestCa, TlsFront, refusing_with};

#[test]
fn a_client_certificate_that_is_wanted_over_tls_1_2_is_named() {
    let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
    let front = TlsFront::over_tls_1_2(&ca.leaf("localhost"), &ca, true, receiver.address());
    let advice = "set client-certificate-file and client-key-file";
    for alert in [Some(HANDSHAKE_FAILURE), Some(BAD_CERTIFICATE), None] {
        let url = format!("https://localhost:{}", refusing_with(alert, front.address()).port());
        let over_grpc =
            Exporter::grpc(url.as_str()).signals([Signal::Traces]).proxy(standpipe::config::Proxy::Off);
        for exporter in [traces(url.as_str()), over_grpc] {
            let (stages, what, reported) = failure(&exporter.ca_pem(ca.pem()));
            assert_eq!(stages, ["resolve", "connect", "tls"], "{alert:?}: {what}");
            assert_eq!(
                (what.as_str(), reported.as_str()),
                ("client certificate required", advice),
                "{alert:?}"
            );
        }
    }
    let known = ca.client("shop.example");
    let exporter = traces(front.url()).ca_pem(ca.pem());
    let exporter = exporter.client_pem(known.certificate_pem.as_str(), known.key_pem.as_str());
    let report = probe(&exporter, PATIENCE);
    assert!(report.is_good() && report.to_string().contains("TLS 1.2"), "{report}");
}

#[test]
fn a_client_certificate_that_is_asked_for_and_not_needed_is_no_fault() {
    let (ca, receiver) = (TestCa::new(), Receiver::start().unwrap());
    let front = TlsFront::over_tls_1_2(&ca.leaf("localhost"), &ca, false, receiver.address());
    let report = probe(&traces(front.url()).ca_pem(ca.pem()), PATIENCE);
    assert!(report.is_good(), "{report}");
    // Other faults are not attributed to the client certificate.
    let (_, what, _) = failure(&traces(front.url()).ca_pem(TestCa::new().pem()));
    assert!(what.contains("unknown issuer"), "{what}");
}

#[test]
fn a_server_does_not_speak_tls_only_if_its_first_byte_says_so() {
    let no_tls = "the server does not speak TLS";
    let broken = "the server sends invalid TLS";
    let closed = "the server closed the connection in the TLS handshake";
    for (said, expected) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], no_tls),
        (b"SSH-2.0-OpenSSH_9.6\r\n", no_tls),
        (b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03", no_tls),
        (b"\x16\x03\x03\xff\xff\x02\x00\x00\x00", broken),
        (b"\x16\x03\x03\x00\x04\x02\x00\x00\x00", broken),
        (b"\x16\x09\x09\x00\x04\x02\x00\x00\x00", broken),
        (b"\x16\x03", closed),
        (b"", closed),
    ] {
        let (stages, what, _) = failure(&traces(format!("https://{}", saying(said))));
        assert_eq!(stages, ["resolve", "connect", "tls"], "{said:?}: {what}");
        assert_eq!(what, expected, "{said:?}");
    }
}
