//! Handshakes, and whether one failed for want of a client certificate: the alert of TLS 1.2 does not show it.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::client::{ResolvesClientCert, Resumption};
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use rustls::{AlertDescription, ClientConfig, ClientConnection, Error, SignatureScheme};

use super::certificates::Certificates;
use super::fault::is_for_want_of_certificate;
use crate::config::TlsSettings;
use crate::transport::tcp::is_hang_up;

/// Makes encrypted connections with one set of certificates, one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Handshakes {
    config: Arc<ClientConfig>,
    no_certificate: Arc<NoCertificate>,
}

impl Handshakes {
    /// # Errors
    /// What is wrong with the certificates.
    pub(crate) fn new(settings: &TlsSettings, protocol: Option<&[u8]>) -> Result<Self, String> {
        let mut config = Certificates::read(settings)?.config()?;
        config.alpn_protocols = protocol.into_iter().map(<[u8]>::to_vec).collect();
        Ok(Self::with(config))
    }

    /// The same for another transport, with a session cache of its own. The cache has a lock: a child that was forked while its
    /// parent held it would wait for it for ever.
    pub(crate) fn without_sessions(&self) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::default();
        Self::with(config)
    }

    fn with(mut config: ClientConfig) -> Self {
        let no_certificate = NoCertificate::put_into(&mut config);
        Self { config: Arc::new(config), no_certificate }
    }

    /// Does the handshake, and verifies the server.
    pub(crate) fn connect<W: Read + Write>(
        &self,
        name: ServerName<'static>,
        wire: &mut W,
    ) -> io::Result<Secured> {
        self.no_certificate.was_asked.store(false, Ordering::Relaxed);
        let connection = ClientConnection::new(Arc::clone(&self.config), name);
        let mut connection = connection.map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(wire).map_err(|error| match self.no_certificate.is_missed(&error) {
                true => certificate_required(),
                false => error,
            })?;
        }
        Ok(Secured { connection, lacks_certificate: self.no_certificate.was_asked() })
    }
}

/// An encrypted connection to a verified server.
#[derive(Debug)]
pub(crate) struct Secured {
    pub(crate) connection: ClientConnection,
    /// The server requested a client certificate, and there is none.
    lacks_certificate: bool,
}

impl Secured {
    /// What an error means that came after the handshake: a server of TLS 1.3 looks for the certificate only then.
    pub(crate) fn explain(&self, error: io::Error) -> io::Error {
        let is_missed = self.lacks_certificate
            && matches!(tls_error(&error), Some(Error::AlertReceived(alert)) if is_for_want_of_certificate(*alert));
        if is_missed { certificate_required() } else { error }
    }
}

/// A client without a certificate, which notes that the server requested one.
#[derive(Debug, Default)]
pub(super) struct NoCertificate {
    was_asked: AtomicBool,
}

impl NoCertificate {
    /// Takes its place where there is no certificate; where there is one it notes nothing.
    pub(super) fn put_into(config: &mut ClientConfig) -> Arc<Self> {
        let no_certificate = Arc::new(Self::default());
        if !config.client_auth_cert_resolver.has_certs() {
            config.client_auth_cert_resolver = Arc::clone(&no_certificate) as Arc<dyn ResolvesClientCert>;
        }
        no_certificate
    }

    fn was_asked(&self) -> bool {
        self.was_asked.load(Ordering::Relaxed)
    }

    /// Whether the server ended a handshake because it got no certificate. Some servers only hang up.
    pub(super) fn is_missed(&self, error: &io::Error) -> bool {
        self.was_asked()
            && match tls_error(error) {
                Some(Error::AlertReceived(alert)) => is_for_want_of_certificate(*alert),
                Some(_) => false,
                None => is_hang_up(error) || error.kind() == ErrorKind::UnexpectedEof,
            }
    }
}

impl ResolvesClientCert for NoCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.was_asked.store(true, Ordering::Relaxed);
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

fn tls_error(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

/// The alert of a TLS 1.3 server.
fn certificate_required() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, Error::AlertReceived(AlertDescription::CertificateRequired))
}
