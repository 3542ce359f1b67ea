//! Certificates as the user has chosen them, checked.

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, Error, RootCertStore};

use crate::config::TlsSettings;

/// What the user has chosen, checked.
pub(super) struct Certificates {
    /// Instead of the bundled roots.
    pub(super) roots: Option<Vec<CertificateDer<'static>>>,
    pub(super) client: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
}

impl Certificates {
    /// # Errors
    /// What is wrong with the settings.
    pub(super) fn read(settings: &TlsSettings) -> Result<Self, String> {
        let roots = settings.ca.as_ref().map(|pem| certificates(pem, "CA")).transpose()?;
        let client = match settings.client() {
            None => None,
            Some((pem, key)) => {
                let chain = certificates(pem, "client certificate")?;
                let key = PrivateKeyDer::from_pem_slice(key.expose().as_bytes());
                Some((chain, key.map_err(|_| "client key: not a private key in PEM".to_owned())?))
            }
        };
        let certificates = Self { roots, client };
        certificates.config()?;
        Ok(certificates)
    }

    /// What rustls needs to know.
    ///
    /// # Errors
    /// When it cannot make use of a certificate or a key.
    pub(super) fn config(&self) -> Result<ClientConfig, String> {
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("tls: {error}"))?
            .with_root_certificates(self.trusted()?);
        match &self.client {
            None => Ok(config.with_no_client_auth()),
            Some((chain, key)) => config
                .with_client_auth_cert(chain.clone(), key.clone_key())
                .map_err(|error| unusable_client(&error)),
        }
    }

    /// Whom to trust.
    pub(super) fn trusted(&self) -> Result<RootCertStore, String> {
        let Some(roots) = &self.roots else {
            return Ok(RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() });
        };
        let mut store = RootCertStore::empty();
        for (index, root) in roots.iter().enumerate() {
            let unreadable = |_| format!("CA: certificate {} in it cannot be read", index + 1);
            store.add(root.clone()).map_err(unreadable)?;
        }
        Ok(store)
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

fn unusable_client(error: &Error) -> String {
    match error {
        Error::InconsistentKeys(_) => "client key: it does not belong to the client certificate".to_owned(),
        Error::InvalidCertificate(_) => "client certificate: it cannot be read".to_owned(),
        _ => "client key: it cannot be read".to_owned(),
    }
}
