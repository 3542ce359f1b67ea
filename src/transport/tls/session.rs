//! An encrypted connection for gRPC, over a socket that the caller owns.

use std::io::{self, ErrorKind, Read, Write};

use rustls::pki_types::ServerName;

use super::{Handshakes, Secured};
use crate::config::TlsSettings;

/// Begins sessions with one server, in one protocol.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    handshakes: Handshakes,
    name: ServerName<'static>,
}

impl Connector {
    /// # Errors
    /// What is wrong with the certificates or the host's name.
    pub(crate) fn new(settings: &TlsSettings, host: &str, protocol: &[u8]) -> Result<Self, String> {
        let handshakes = Handshakes::new(settings, Some(protocol))?;
        let name = ServerName::try_from(host.to_owned())
            // the host may have been put in from elsewhere: it is not shown
            .map_err(|_| "no certificate can be for this host".to_owned())?;
        Ok(Self { handshakes, name })
    }

    /// The same for another process: nothing that has a lock is shared.
    pub(crate) fn without_sessions(&self) -> Self {
        Self { handshakes: self.handshakes.without_sessions(), name: self.name.clone() }
    }

    /// Does the handshake, and verifies the server.
    pub(crate) fn connect<W: Read + Write>(&self, wire: &mut W) -> io::Result<Session> {
        self.handshakes.connect(self.name.clone(), wire).map(Session)
    }
}

/// An encrypted connection to a verified server.
#[derive(Debug)]
pub(crate) struct Session(Secured);

impl Session {
    /// The protocol that both agreed on.
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        self.0.connection.alpn_protocol()
    }

    /// Gives 0 when the server has left, in good order or not.
    pub(crate) fn read<W: Read + Write>(&mut self, wire: &mut W, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.connection.reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                done => return done,
            }
            self.0.connection.read_tls(wire)?;
            let processed = self.0.connection.process_new_packets();
            let processed =
                processed.map_err(|error| self.0.explain(io::Error::new(ErrorKind::InvalidData, error)));
            // an alert for the server, or an answer to its key update
            let flushed = self.flush(wire);
            processed.and(flushed)?;
        }
    }

    pub(crate) fn write_all<W: Write>(&mut self, wire: &mut W, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let taken = self.0.connection.writer().write(bytes)?;
            bytes = &bytes[taken..];
            self.flush(wire)?;
        }
        Ok(())
    }

    fn flush<W: Write>(&mut self, wire: &mut W) -> io::Result<()> {
        while self.0.connection.wants_write() {
            self.0.connection.write_tls(wire)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rcgen::{CertificateParams, KeyPair};
    use rustls::crypto::ring;
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use rustls::server::{NoClientAuth, WebPkiClientVerifier};
    use rustls::{
        AlertDescription, Error, HandshakeKind, RootCertStore, ServerConfig, ServerConnection,
        SupportedProtocolVersion, version,
    };

    use super::super::fault;
    use super::*;

    const PROTOCOL: &[u8] = b"h2";

    #[test]
    fn a_connector_without_sessions_resumes_none_of_the_other() {
        let (server, settings) = server(&version::TLS13, false);
        let connector = Connector::new(&settings, "localhost", PROTOCOL).unwrap();
        let handshake = |connector: &Connector| {
            let mut wire = Wire(ServerConnection::new(Arc::clone(&server)).unwrap());
            let mut session = connector.connect(&mut wire).unwrap();
            session.write_all(&mut wire, b"hello").unwrap();
            wire.0.writer().write_all(b"!").unwrap();
            // the tickets of the session come before it
            assert_eq!(session.read(&mut wire, &mut [0; 1]).unwrap(), 1);
            session.0.connection.handshake_kind()
        };
        assert_eq!(handshake(&connector), Some(HandshakeKind::Full));
        assert_eq!(handshake(&connector), Some(HandshakeKind::Resumed));
        assert_eq!(handshake(&connector.without_sessions()), Some(HandshakeKind::Full));
    }

    #[test]
    fn a_handshake_is_not_judged_by_what_the_server_asked_for_in_an_earlier_one() {
        let (server, settings) = server(&version::TLS12, true);
        let connector = Connector::new(&settings, "localhost", PROTOCOL).unwrap();
        connector.connect(&mut Wire(ServerConnection::new(server).unwrap())).unwrap();
        // this server leaves before it asks for anything
        let error = connector.connect(&mut io::Cursor::new(Vec::new())).unwrap_err();
        assert_eq!(fault(&error), None, "{error:?}");
    }

    #[test]
    fn an_alert_after_the_handshake_names_the_certificate_only_if_the_server_asked_for_one() {
        for (asks, of_certificate) in [
            (true, "client certificate required"),
            (false, "the server refuses the client certificate: BadCertificate"),
        ] {
            let (server, settings) = server(&version::TLS13, asks);
            let connector = Connector::new(&settings, "localhost", PROTOCOL).unwrap();
            let session = connector.connect(&mut Wire(ServerConnection::new(server).unwrap())).unwrap();
            for (alert, expected) in [
                (AlertDescription::BadCertificate, of_certificate),
                (AlertDescription::InternalError, "the server ended the handshake: InternalError"),
            ] {
                let error = session.0.explain(io::Error::other(Error::AlertReceived(alert)));
                assert_eq!(fault(&error).map(|fault| fault.what).as_deref(), Some(expected));
            }
        }
    }

    /// A server, and what makes a client trust it. It may ask for a certificate, and takes clients without one.
    fn server(version: &'static SupportedProtocolVersion, asks: bool) -> (Arc<ServerConfig>, TlsSettings) {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        let settings = TlsSettings { ca: Some(certificate.pem().into_bytes()), ..TlsSettings::default() };
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(certificate.der().clone()).unwrap();
        let verifier = match asks {
            true => WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .allow_unauthenticated()
                .build()
                .unwrap(),
            false => Arc::new(NoClientAuth),
        };
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_client_cert_verifier(verifier)
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
}
