//! Certificates: whom the transport trusts, and who it says it is. Verification is never off.

use std::io;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{AlertDescription, CertificateError, ClientConfig, Error, RootCertStore};
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

use crate::config::TlsSettings;

/// What ureq needs to know, checked: it would leave out a CA that it cannot read, and panic over a key.
pub(super) fn config(settings: &TlsSettings) -> Result<TlsConfig, String> {
    let mut config = TlsConfig::builder();
    if let Some(pem) = &settings.ca {
        let roots = certificates(pem, "CA")?;
        check_roots(&roots)?;
        config = config.root_certs(RootCerts::new_with_certs(&for_ureq(&roots)));
    }
    if let Some((pem, key)) = &settings.client {
        let chain = certificates(pem, "client certificate")?;
        check_client(&chain, key.expose())?;
        let key = PrivateKey::from_pem(key.expose().as_bytes()).map_err(|_| no_key())?;
        config = config.client_cert(Some(ClientCert::new_with_certs(&for_ureq(&chain), key)));
    }
    Ok(config.build())
}

/// What a failed connection says of TLS, if that is why it failed.
pub(super) fn fault(error: &io::Error) -> Option<String> {
    let error: &Error = error.get_ref()?.downcast_ref()?;
    Some(match error {
        Error::InvalidCertificate(fault) => certificate_fault(fault),
        Error::AlertReceived(alert) => alert_text(*alert),
        Error::InvalidMessage(_) => "the server does not speak TLS".to_owned(),
        Error::NoCertificatesPresented => "the server shows no certificate".to_owned(),
        other => other.to_string(),
    })
}

fn certificate_fault(fault: &CertificateError) -> String {
    let fault = match fault {
        CertificateError::UnknownIssuer => "has an unknown issuer",
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "is not valid yet",
        CertificateError::NotValidForName => "is not valid for this host",
        CertificateError::NotValidForNameContext { expected, .. } => {
            return format!("the server's certificate is not valid for host {}", expected.to_str());
        }
        CertificateError::Revoked => "has been revoked",
        CertificateError::BadSignature => "has a wrong signature",
        CertificateError::BadEncoding => "cannot be read",
        CertificateError::Other(other) if other.to_string() == "CaUsedAsEndEntity" => {
            "is one of an authority, not of a server"
        }
        other => return format!("the server's certificate is not valid: {other}"),
    };
    format!("the server's certificate {fault}")
}

fn alert_text(alert: AlertDescription) -> String {
    use AlertDescription as Alert;
    match alert {
        Alert::CertificateRequired => "client certificate required".to_owned(),
        Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateRevoked
        | Alert::CertificateExpired
        | Alert::CertificateUnknown
        | Alert::UnknownCA
        | Alert::DecryptError
        | Alert::AccessDenied => format!("the server refuses the client certificate: {alert:?}"),
        other => format!("the server ended the handshake: {other:?}"),
    }
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certificates {
        Ok(certificates) if certificates.is_empty() => Err(format!("{what}: there is no certificate in it")),
        Ok(certificates) => Ok(certificates),
        Err(_) => Err(format!("{what}: not in PEM")),
    }
}

fn for_ureq(certificates: &[CertificateDer<'_>]) -> Vec<Certificate<'static>> {
    certificates.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect()
}

fn check_roots(roots: &[CertificateDer<'static>]) -> Result<(), String> {
    let mut store = RootCertStore::empty();
    for (index, root) in roots.iter().enumerate() {
        let unreadable = |_| format!("CA: certificate {} in it cannot be read", index + 1);
        store.add(root.clone()).map_err(unreadable)?;
    }
    Ok(())
}

fn check_client(chain: &[CertificateDer<'static>], key: &str) -> Result<(), String> {
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| no_key())?;
    let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("tls: {error}"))?
        .with_root_certificates(RootCertStore::empty())
        .with_client_auth_cert(chain.to_vec(), key);
    match client {
        Ok(_) => Ok(()),
        Err(Error::InconsistentKeys(_)) => {
            Err("client key: it does not belong to the client certificate".to_owned())
        }
        Err(Error::InvalidCertificate(_)) => Err("client certificate: it cannot be read".to_owned()),
        Err(_) => Err("client key: it cannot be read".to_owned()),
    }
}

fn no_key() -> String {
    "client key: not a private key in PEM".to_owned()
}
