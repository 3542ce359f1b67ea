//! Certificates for ureq, which would leave out a CA that it cannot read, and panic over a key: so they are checked.

use rustls::pki_types::CertificateDer;
use ureq::http::Uri;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};
use ureq::unversioned::transport::{ConnectionDetails, Connector, RustlsConnector, Transport};

use super::HttpPlan;
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

/// TLS with what a request goes to.
pub(super) fn connector(plan: &HttpPlan) -> TlsConnector {
    TlsConnector { peer: plan.tls_peer(), tls: RustlsConnector::default() }
}

#[derive(Debug)]
pub(super) struct TlsConnector {
    /// Instead of what the URL names.
    peer: Option<Uri>,
    tls: RustlsConnector,
}

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = <RustlsConnector as Connector<In>>::Out;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        let Some(uri) = &self.peer else { return self.tls.connect(details, chained) };
        let details = ConnectionDetails {
            uri,
            addrs: details.addrs.clone(),
            config: details.config,
            request_level: details.request_level,
            resolver: details.resolver,
            now: details.now,
            timeout: details.timeout,
            current_time: details.current_time.clone(),
            run_connector: details.run_connector.clone(),
            register_shutdown: details.register_shutdown.clone(),
        };
        self.tls.connect(&details, chained)
    }
}

fn for_ureq(certificates: &[CertificateDer<'_>]) -> Vec<Certificate<'static>> {
    certificates.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect()
}
