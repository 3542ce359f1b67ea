//! A look at the certificate that a server shows, for people who ask what is wrong with it.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, ProtocolVersion,
    RootCertStore, SignatureScheme, StreamOwned,
};

use super::certificates;
use crate::config::{HttpSettings, TlsSettings};
use crate::transport::{Conversation, Look, Timed};

/// Opens a connection of its own up to the certificate. With a CA of the user's it is verified, and the handshake
/// goes on; the bundled roots are ureq's, so without one the look ends there. It never goes on unverified.
pub(crate) fn look(
    settings: &HttpSettings,
    host: &str,
    address: SocketAddr,
    protocol: Option<&[u8]>,
    deadline: Instant,
) -> Look {
    let witness = match Witness::new(&settings.tls) {
        Ok(witness) => Arc::new(witness),
        Err(error) => return Look::none(error),
    };
    let connection = client(&settings.tls, host, protocol, Arc::clone(&witness));
    let (mut connection, mut socket) =
        match connection.and_then(|client| Ok((client, Timed::connect(address, deadline)?))) {
            Ok(both) => both,
            Err(error) => return Look::none(error),
        };
    let mut shaken = Ok(());
    while shaken.is_ok() && connection.is_handshaking() {
        shaken = connection.complete_io(&mut socket).map(drop);
    }
    let seen = witness.seen.lock().unwrap_or_else(PoisonError::into_inner).take();
    Look {
        certificate: seen,
        version: connection.protocol_version().and_then(version_name),
        protocol: connection.alpn_protocol().map(<[u8]>::to_vec),
        stream: shaken.map(|()| Box::new(StreamOwned::new(connection, socket)) as Box<dyn Conversation>),
    }
}

impl<S: Read + Write + Send> Conversation for StreamOwned<ClientConnection, S> {}

fn client(
    settings: &TlsSettings,
    host: &str,
    protocol: Option<&[u8]>,
    witness: Arc<Witness>,
) -> io::Result<ClientConnection> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(witness);
    let mut config = match &settings.client {
        None => config.with_no_client_auth(),
        Some((pem, key)) => {
            let chain = certificates(pem, "client certificate").map_err(io::Error::other)?;
            let key = PrivateKeyDer::from_pem_slice(key.expose().as_bytes()).map_err(io::Error::other)?;
            config.with_client_auth_cert(chain, key).map_err(io::Error::other)?
        }
    };
    config.alpn_protocols = protocol.into_iter().map(<[u8]>::to_vec).collect();
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)
}

fn version_name(version: ProtocolVersion) -> Option<&'static str> {
    match version {
        ProtocolVersion::TLSv1_2 => Some("TLS 1.2"),
        ProtocolVersion::TLSv1_3 => Some("TLS 1.3"),
        _ => None,
    }
}

/// Keeps what it is shown, and then judges as strictly as anyone, or not at all in favour.
#[derive(Debug)]
struct Witness {
    seen: Mutex<Option<Vec<u8>>>,
    /// Who verifies; without one every certificate is refused.
    judge: Option<Arc<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Witness {
    fn new(settings: &TlsSettings) -> io::Result<Self> {
        let provider = Arc::new(ring::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let judge = match &settings.ca {
            None => None,
            Some(pem) => {
                let mut roots = RootCertStore::empty();
                for root in certificates(pem, "CA").map_err(io::Error::other)? {
                    roots.add(root).map_err(io::Error::other)?;
                }
                let judge = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
                Some(judge.map_err(io::Error::other)?)
            }
        };
        Ok(Self { seen: Mutex::new(None), judge, algorithms })
    }
}

impl ServerCertVerifier for Witness {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(end_entity.to_vec());
        match &self.judge {
            Some(judge) => {
                judge.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            }
            None => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
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
