//! Certificates: whom the transport trusts, and who it says it is. Verification is never off.

mod fault;
#[cfg(feature = "probe")]
mod look;

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, Error, RootCertStore};
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

pub(crate) use self::fault::fault;
#[cfg(feature = "probe")]
pub(crate) use self::look::look;
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
