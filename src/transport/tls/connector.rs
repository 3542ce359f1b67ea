//! TLS connections to verified servers: the user's certificates, the handshake, and the session after it.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption, WebPkiServerVerifier};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{
    AlertDescription, ClientConfig, ClientConnection, DigitallySignedStruct, Error, InvalidMessage,
    RootCertStore, SignatureScheme,
};

use super::fault::is_for_want_of_certificate;
#[cfg(feature = "system-roots")]
use crate::config::Roots;
use crate::config::TlsSettings;
use crate::process::lock;
use crate::transport::SetupError;
use crate::transport::dial::is_hang_up;
use crate::transport::stream::{Stream, TlsStream};

/// Opens TLS connections to one peer.
#[derive(Debug, Clone)]
pub(crate) struct TlsConnector {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    no_certificate: Arc<NoCertificate>,
    /// Keeps certificates, for a probe.
    recorder: Option<Arc<Recorder>>,
}

impl TlsConnector {
    /// Creates a connector. If `alpn` is given, this protocol is offered to the server.
    ///
    /// # Errors
    /// Returns an error if the certificates or the name of the host cannot be used.
    pub(crate) fn new(settings: &TlsSettings, host: &str, alpn: Option<&[u8]>) -> Result<Self, SetupError> {
        let mut config = client_config(settings)?;
        config.alpn_protocols = alpn.into_iter().map(<[u8]>::to_vec).collect();
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let name = ServerName::try_from(bare.to_owned())
            // The host may contain an expanded secret, so the message does not show it.
            .map_err(|_| "the host is not a valid name for TLS")?;
        let no_certificate = NoCertificate::put_into(&mut config);
        Ok(Self { config: Arc::new(config), name, no_certificate, recorder: None })
    }

    /// Makes the connector keep the server's certificates, including invalid ones.
    ///
    /// # Errors
    /// Returns an error if the trusted authorities cannot be used.
    pub(crate) fn recording(mut self, settings: &TlsSettings) -> Result<Self, SetupError> {
        let (roots, provider) = (trusted_roots(settings)?, Arc::new(ring::default_provider()));
        let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        let inner = inner.map_err(|error| SetupError::caused_by(format!("tls: {error}"), error))?;
        let recorder = Arc::new(Recorder { seen: Mutex::default(), inner });
        // Not dangerous: this verifier also accepts only valid certificates (see `Recorder`).
        Arc::make_mut(&mut self.config).dangerous().set_certificate_verifier(recorder.clone());
        self.recorder = Some(recorder);
        Ok(self)
    }

    /// Takes the server's certificate of the last handshake, in DER. It is verified only if the handshake succeeded.
    pub(crate) fn take_certificate(&self) -> Option<Vec<u8>> {
        lock(&self.recorder.as_ref()?.seen).take()
    }

    /// Returns a copy for another transport, with its own session cache. The cache has a lock: a child forked while a
    /// thread of the parent holds the lock would wait forever.
    pub(crate) fn without_sessions(&self) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        // A new cache, because a clone of the configuration would share the old one.
        config.resumption = Resumption::default();
        let no_certificate = NoCertificate::put_into(&mut config);
        Self { config: Arc::new(config), no_certificate, ..self.clone() }
    }

    /// Returns a connector to the same peer with other certificates.
    ///
    /// # Errors
    /// Returns an error if the certificates cannot be used.
    pub(crate) fn with(&self, settings: &TlsSettings) -> Result<Self, SetupError> {
        let mut config = client_config(settings)?;
        config.alpn_protocols.clone_from(&self.config.alpn_protocols);
        let no_certificate = NoCertificate::put_into(&mut config);
        Ok(Self { config: Arc::new(config), no_certificate, ..self.clone() })
    }

    /// Performs the handshake over `below`, and verifies the server.
    pub(crate) fn connect(&self, mut below: Stream) -> io::Result<Stream> {
        let session =
            self.begin(&mut below).map_err(|error| match (below.tcp().first_byte, tls_error(&error)) {
                // A response that begins like a TLS record is broken TLS, not another protocol.
                (Some(0x14..=0x17), Some(Error::InvalidMessage(InvalidMessage::InvalidContentType))) => {
                    invalid_data(Error::InvalidMessage(InvalidMessage::UnknownProtocolVersion))
                }
                _ => error,
            })?;
        Ok(Stream::Tls(Box::new(TlsStream { session, below })))
    }

    fn begin<W: Read + Write>(&self, wire: &mut W) -> io::Result<Session> {
        // The flag is for this handshake only.
        self.no_certificate.0.store(false, Ordering::Relaxed);
        let connection = ClientConnection::new(Arc::clone(&self.config), self.name.clone());
        let mut connection = connection.map_err(io::Error::other)?;
        while connection.is_handshaking() {
            let is_missed = |error: &io::Error| self.no_certificate.is_missed(error);
            connection.complete_io(wire).map_err(|error| require_certificate_if(is_missed(&error), error))?;
        }
        Ok(Session { connection, lacks_certificate: self.no_certificate.was_asked() })
    }
}

/// Checks the certificates that are configured for an endpoint without TLS, so that mistakes in them are reported.
///
/// # Errors
/// Returns an error if a certificate or a key cannot be used.
pub(crate) fn check(settings: &TlsSettings) -> Result<(), SetupError> {
    client_config(settings).map(drop)
}

fn client_config(settings: &TlsSettings) -> Result<ClientConfig, SetupError> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| SetupError::caused_by(format!("tls: {error}"), error))?
        .with_root_certificates(trusted_roots(settings)?);
    let Some((pem, key)) = settings.client() else { return Ok(config.with_no_client_auth()) };
    let chain = certificates(pem, "client certificate")?;
    // The error of the PEM reader may quote the key, so it is not kept as the source.
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| "client key: not a private key in PEM")?;
    config.with_client_auth_cert(chain, key).map_err(|error| {
        let message = match error {
            Error::InconsistentKeys(_) => "client key: it does not belong to the client certificate",
            Error::InvalidCertificate(_) => "client certificate: it cannot be read",
            _ => "client key: it cannot be read",
        };
        SetupError::caused_by(message, error)
    })
}

/// Returns the authorities to trust: those of `ca`, otherwise those of the system or the bundled ones. Those of
/// `extra_ca` are always added.
fn trusted_roots(settings: &TlsSettings) -> Result<RootCertStore, SetupError> {
    let mut store = match (&settings.ca, settings.roots) {
        (Some(_), _) => RootCertStore::empty(),
        #[cfg(feature = "system-roots")]
        (None, Roots::System) => system_roots()?,
        _ => RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() },
    };
    for (pem, what) in [(&settings.ca, "CA"), (&settings.extra_ca, "extra CA")] {
        let Some(pem) = pem else { continue };
        for (index, root) in certificates(pem, what)?.into_iter().enumerate() {
            let unreadable = format!("{what}: certificate {} in it cannot be read", index + 1);
            store.add(root).map_err(|error| SetupError::caused_by(unreadable, error))?;
        }
    }
    Ok(store)
}

/// Returns the authorities that the operating system trusts. Certificates that cannot be read are skipped.
#[cfg(feature = "system-roots")]
fn system_roots() -> Result<RootCertStore, SetupError> {
    let found = rustls_native_certs::load_native_certs();
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(found.certs);
    if store.is_empty() {
        let cause = found.errors.first().map_or_else(String::new, |error| format!(": {error}"));
        let fix = "install its package of CA certificates, or set ca-file";
        return Err(format!("the system has no trusted roots{cause}; {fix}").into());
    }
    Ok(store)
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, SetupError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(format!("{what}: there is no certificate in it").into()),
        Err(_) => Err(format!("{what}: not in PEM").into()),
    }
}

/// The state of an encrypted connection to a verified server.
#[derive(Debug)]
pub(crate) struct Session {
    pub(super) connection: ClientConnection,
    /// True if the server requested a client certificate and none is configured.
    lacks_certificate: bool,
}

impl Session {
    /// Returns the protocol that both sides agreed on.
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        self.connection.alpn_protocol()
    }

    /// Returns the version of TLS, such as `TLS 1.3`.
    pub(crate) fn version(&self) -> &'static str {
        match self.connection.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_2) => "TLS 1.2",
            Some(rustls::ProtocolVersion::TLSv1_3) => "TLS 1.3",
            _ => "TLS",
        }
    }

    /// Reads decrypted bytes. Returns 0 after the server's `close_notify`, and `UnexpectedEof` if the connection ended
    /// without it.
    pub(crate) fn read<W: Read + Write>(&mut self, wire: &mut W, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection.reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return done,
            }
            self.connection.read_tls(wire)?;
            let processed = self.connection.process_new_packets();
            let processed = processed.map_err(|error| self.explain(invalid_data(error)));
            // The output may be an alert, or the reply to a key update.
            let flushed = self.flush(wire);
            processed.and(flushed)?;
        }
    }

    pub(crate) fn write<W: Write>(&mut self, wire: &mut W, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.connection.writer().write(bytes)?;
        self.flush(wire)?;
        Ok(taken)
    }

    fn flush<W: Write>(&mut self, wire: &mut W) -> io::Result<()> {
        while self.connection.wants_write() {
            self.connection.write_tls(wire)?;
        }
        Ok(())
    }

    /// Explains an error after the handshake: a TLS 1.3 server checks the client certificate only then.
    fn explain(&self, error: io::Error) -> io::Error {
        let is_missed = matches!(tls_error(&error), Some(Error::AlertReceived(alert)) if is_for_want_of_certificate(*alert));
        require_certificate_if(self.lacks_certificate && is_missed, error)
    }
}

/// A resolver without a client certificate, which notes that the server requested one. The note explains a failed
/// handshake: TLS 1.2 has no alert for a missing client certificate.
#[derive(Debug, Default)]
struct NoCertificate(AtomicBool);

impl NoCertificate {
    /// Installs the resolver if no certificate is configured.
    fn put_into(config: &mut ClientConfig) -> Arc<Self> {
        let no_certificate = Arc::new(Self::default());
        if !config.client_auth_cert_resolver.has_certs() {
            config.client_auth_cert_resolver = Arc::clone(&no_certificate) as Arc<dyn ResolvesClientCert>;
        }
        no_certificate
    }

    fn was_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns whether the server ended a handshake because it got no certificate. Some servers close the connection
    /// without an alert.
    fn is_missed(&self, error: &io::Error) -> bool {
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
        self.0.store(true, Ordering::Relaxed);
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

/// A verifier for a probe: keeps the certificate, then verifies it like the default verifier.
#[derive(Debug)]
struct Recorder {
    seen: Mutex<Option<Vec<u8>>>,
    inner: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for Recorder {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        *lock(&self.seen) = Some(end_entity.to_vec());
        self.inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

fn tls_error(error: &io::Error) -> Option<&Error> {
    error.get_ref()?.downcast_ref()
}

fn invalid_data(error: Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

/// Returns `error` or, if `is_missed`, the error for the alert by which a TLS 1.3 server requires a client certificate.
fn require_certificate_if(is_missed: bool, error: io::Error) -> io::Error {
    if is_missed { invalid_data(Error::AlertReceived(AlertDescription::CertificateRequired)) } else { error }
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
        let connector = TlsConnector::new(&settings, "localhost", Some(PROTOCOL)).unwrap();
        let handshake = |connector: &TlsConnector| {
            let mut wire = Wire(ServerConnection::new(Arc::clone(&server)).unwrap());
            let mut session = connector.begin(&mut wire).unwrap();
            session.write(&mut wire, b"hello").unwrap();
            wire.0.writer().write_all(b"!").unwrap();
            // The session tickets arrive before this byte.
            assert_eq!(session.read(&mut wire, &mut [0; 1]).unwrap(), 1);
            session.connection.handshake_kind()
        };
        assert_eq!(handshake(&connector), Some(HandshakeKind::Full));
        assert_eq!(handshake(&connector), Some(HandshakeKind::Resumed));
        assert_eq!(handshake(&connector.without_sessions()), Some(HandshakeKind::Full));
    }

    #[test]
    fn a_handshake_is_not_judged_by_what_the_server_asked_for_in_an_earlier_one() {
        let (server, settings) = server(&version::TLS12, true);
        let connector = TlsConnector::new(&settings, "localhost", Some(PROTOCOL)).unwrap();
        connector.begin(&mut Wire(ServerConnection::new(server).unwrap())).unwrap();
        // This server closes before it requests a certificate.
        let error = connector.begin(&mut io::Cursor::new(Vec::new())).unwrap_err();
        assert_eq!(fault(&error), None, "{error:?}");
    }

    #[test]
    fn an_alert_after_the_handshake_names_the_certificate_only_if_the_server_asked_for_one() {
        for (asks, of_certificate) in [
            (true, "client certificate required"),
            (false, "the server refuses the client certificate: BadCertificate"),
        ] {
            let (server, settings) = server(&version::TLS13, asks);
            let connector = TlsConnector::new(&settings, "localhost", Some(PROTOCOL)).unwrap();
            let session = connector.begin(&mut Wire(ServerConnection::new(server).unwrap())).unwrap();
            for (alert, expected) in [
                (AlertDescription::BadCertificate, of_certificate),
                (AlertDescription::InternalError, "the server ended the handshake: InternalError"),
            ] {
                let error = session.explain(io::Error::other(Error::AlertReceived(alert)));
                assert_eq!(fault(&error).map(|fault| fault.what).as_deref(), Some(expected));
            }
        }
    }

    /// A server and the authority that a client must trust. If `asks` is true, the server requests a client
    /// certificate, but accepts clients without one.
    fn server(version: &'static SupportedProtocolVersion, asks: bool) -> (Arc<ServerConfig>, TlsSettings) {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        let settings = TlsSettings { ca: Some(certificate.pem().into()), ..TlsSettings::default() };
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

    /// A server in memory, which handles each write of the client immediately.
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
