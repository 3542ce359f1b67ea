//! Certificates for ureq, which would leave out a CA that it cannot read, and panic over a key: so they are checked.

use rustls::pki_types::CertificateDer;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};
use ureq::unversioned::transport::RustlsConnector;

use super::HttpPlan;
use super::renamed::Knowing;
use crate::config::TlsSettings;
use crate::transport::tls::Certificates;

pub(super) fn config(settings: &TlsSettings) -> Result<TlsConfig, String> {
    let certificates = Certificates::read(settings)?;
    let mut config = TlsConfig::builder();
    if let Some(roots) = &certificates.roots {
        config = config.root_certs(RootCerts::new_with_certs(&for_ureq(roots)));
    }
    if let (Some((chain, _)), Some((_, key))) = (&certificates.client, &settings.client) {
        let key =
            PrivateKey::from_pem(key.expose().as_bytes()).map_err(|error| format!("client key: {error}"))?;
        config = config.client_cert(Some(ClientCert::new_with_certs(&for_ureq(chain), key)));
    }
    Ok(config.build())
}

/// TLS with the server, or with a proxy that makes the requests itself.
pub(super) fn connector(plan: &HttpPlan) -> Knowing<RustlsConnector> {
    Knowing { renamed: plan.tls_peer(), connector: RustlsConnector::default() }
}

fn for_ureq(certificates: &[CertificateDer<'_>]) -> Vec<Certificate<'static>> {
    certificates.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect()
}
