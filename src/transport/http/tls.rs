//! Certificates: whom the transport trusts, and who it says it is. Verification is never off.

use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, TlsConfig, parse_pem};

use crate::config::TlsSettings;

pub(super) fn config(settings: &TlsSettings) -> Result<TlsConfig, String> {
    let mut config = TlsConfig::builder();
    if let Some(pem) = &settings.ca {
        let roots = certificates(pem, "CA")?;
        config = config.root_certs(RootCerts::new_with_certs(&roots));
    }
    if let Some((pem, key)) = &settings.client {
        let chain = certificates(pem, "client certificate")?;
        let key = PrivateKey::from_pem(key.expose().as_bytes())
            .map_err(|_| "client key: not a private key in PEM".to_owned())?;
        config = config.client_cert(Some(ClientCert::new_with_certs(&chain, key)));
    }
    Ok(config.build())
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<Certificate<'static>>, String> {
    let mut certificates = Vec::new();
    for item in parse_pem(pem) {
        match item {
            Ok(PemItem::Certificate(certificate)) => certificates.push(certificate),
            Ok(_) => {}
            Err(_) => return Err(format!("{what}: not in PEM")),
        }
    }
    match certificates.is_empty() {
        true => Err(format!("{what}: there is no certificate in it")),
        false => Ok(certificates),
    }
}
