use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{HandshakeKind, ServerConfig, ServerConnection};

use super::*;

const PROTOCOL: &[u8] = b"h2";

#[test]
fn a_connector_made_afresh_knows_nothing_of_the_sessions_of_the_other() {
    let (server, settings) = server();
    let connector = Connector::new(&settings, "localhost", PROTOCOL).unwrap();
    let meet = |connector: &Connector| {
        let mut wire = Wire(ServerConnection::new(Arc::clone(&server)).unwrap());
        let mut session = connector.connect(&mut wire).unwrap();
        session.write_all(&mut wire, b"hello").unwrap();
        wire.0.writer().write_all(b"!").unwrap();
        // the tickets of the session come before it
        assert_eq!(session.read(&mut wire, &mut [0; 1]).unwrap(), 1);
        session.0.handshake_kind()
    };
    assert_eq!(meet(&connector), Some(HandshakeKind::Full));
    assert_eq!(meet(&connector), Some(HandshakeKind::Resumed));
    assert_eq!(meet(&connector.afresh()), Some(HandshakeKind::Full));
}

/// A server, and what makes a client trust it.
fn server() -> (Arc<ServerConfig>, TlsSettings) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let settings = TlsSettings { ca: Some(certificate.pem().into_bytes()), client: None };
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key);
    (Arc::new(config.unwrap()), settings)
}

/// A server that takes in at once what it is sent.
struct Wire(ServerConnection);

impl Read for Wire {
    fn read(&mut self, mut into: &mut [u8]) -> io::Result<usize> {
        self.0.write_tls(&mut into)
    }
}

impl Write for Wire {
    fn write(&mut self, mut from: &[u8]) -> io::Result<usize> {
        let taken = self.0.read_tls(&mut from)?;
        self.0.process_new_packets().map_err(io::Error::other)?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
