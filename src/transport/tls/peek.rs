//! A handshake of a probe that keeps the server's certificate, also if it is not valid.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConnection, DigitallySignedStruct, Error, ProtocolVersion, SignatureScheme, StreamOwned};

use super::certificates::Certificates;
use super::handshake::NoCertificate;
use crate::config::ConnectionSettings;
use crate::transport::{DeadlineStream, ReadWrite, TlsPeek};

/// Opens a connection of its own, and keeps the certificate whether it is good or not. It never goes on unverified.
pub(crate) fn peek(
    settings: &ConnectionSettings,
    host: &str,
    address: SocketAddr,
    protocol: Option<&[u8]>,
    deadline: Instant,
) -> TlsPeek {
    let prepared = prepare(settings, host, protocol);
    let (Prepared { verifier, no_certificate, mut connection }, mut socket) =
        match prepared.and_then(|prepared| Ok((prepared, DeadlineStream::connect(address, deadline)?))) {
            Ok(all) => all,
            Err(error) => return TlsPeek::none(error),
        };
    let mut shaken = Ok(());
    while shaken.is_ok() && connection.is_handshaking() {
        shaken = connection.complete_io(&mut socket).map(drop);
    }
    let seen = verifier.seen.lock().unwrap_or_else(PoisonError::into_inner).take();
    TlsPeek {
        certificate: seen,
        version: connection.protocol_version().and_then(version_name),
        protocol: connection.alpn_protocol().map(<[u8]>::to_vec),
        misses_client: shaken.as_ref().is_err_and(|error| no_certificate.is_missed(error)),
        stream: shaken.map(|()| Box::new(StreamOwned::new(connection, socket)) as Box<dyn ReadWrite>),
    }
}

impl<S: Read + Write + Send> ReadWrite for StreamOwned<ClientConnection, S> {}

struct Prepared {
    verifier: Arc<RecordingVerifier>,
    no_certificate: Arc<NoCertificate>,
    connection: ClientConnection,
}

fn prepare(settings: &ConnectionSettings, host: &str, protocol: Option<&[u8]>) -> io::Result<Prepared> {
    let certificates = Certificates::read(&settings.tls).map_err(io::Error::other)?;
    let mut config = certificates.config().map_err(io::Error::other)?;
    let verifier = Arc::new(RecordingVerifier::new(&certificates)?);
    config.dangerous().set_certificate_verifier(Arc::clone(&verifier) as Arc<dyn ServerCertVerifier>);
    let no_certificate = NoCertificate::put_into(&mut config);
    config.alpn_protocols = protocol.into_iter().map(<[u8]>::to_vec).collect();
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let connection = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    Ok(Prepared { verifier, no_certificate, connection })
}

fn version_name(version: ProtocolVersion) -> Option<&'static str> {
    match version {
        ProtocolVersion::TLSv1_2 => Some("TLS 1.2"),
        ProtocolVersion::TLSv1_3 => Some("TLS 1.3"),
        _ => None,
    }
}

/// Keeps the certificate, and then verifies it as strictly as the exporter does.
#[derive(Debug)]
struct RecordingVerifier {
    seen: Mutex<Option<Vec<u8>>>,
    inner: Arc<WebPkiServerVerifier>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl RecordingVerifier {
    fn new(certificates: &Certificates) -> io::Result<Self> {
        let provider = Arc::new(ring::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let roots = certificates.trusted().map_err(io::Error::other)?;
        let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Self { seen: Mutex::new(None), inner: inner.map_err(io::Error::other)?, algorithms })
    }
}

impl ServerCertVerifier for RecordingVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(end_entity.to_vec());
        self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
