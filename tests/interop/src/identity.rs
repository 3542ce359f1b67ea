//! The servers' identity: a certificate authority and a certificate for this machine, created in files by each run.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

use crate::Error;

/// PEM files.
pub(crate) struct Identity {
    /// The authority that a client must trust.
    pub(crate) authority: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Identity {
    /// Creates an identity in this folder, for 127.0.0.1 and localhost.
    pub(crate) fn make(folder: &Path) -> Result<Self, Error> {
        let mut authority = named("standpipe interop authority", &[])?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

        let mut server = named("standpipe interop server", &["127.0.0.1", "localhost"])?;
        server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate()?;
        let certificate = server.signed_by(&key, &authority)?;

        let write = |name: &str, text: String| {
            let path = folder.join(name);
            fs::write(&path, text).map(|()| path)
        };
        Ok(Self {
            authority: write("authority.pem", authority.pem())?,
            certificate: write("certificate.pem", certificate.pem())?,
            key: write("key.pem", key.serialize_pem())?,
        })
    }
}

fn named(name: &str, hosts: &[&str]) -> Result<CertificateParams, Error> {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}
