//! A certificate authority that signs whatever the test needs.

use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// How many authorities this process has made.
static MADE: AtomicUsize = AtomicUsize::new(0);

/// A certificate authority; each one is unknown to all others.
pub(crate) struct TestCa {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl TestCa {
    pub(crate) fn new() -> Self {
        // A unique name: an unknown authority with a known name would be reported as a bad signature.
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let mut params = named(&format!("standpipe test authority {number}"), &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let issuer = CertifiedIssuer::self_signed(params, new_key()).expect("a sound authority");
        Self { issuer }
    }

    /// The certificate that a client must trust.
    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    pub(crate) fn der(&self) -> CertificateDer<'static> {
        self.issuer.der().clone()
    }

    /// A good server certificate for `host` and 127.0.0.1.
    pub(crate) fn leaf(&self, host: &str) -> Identity {
        self.sign(server(&[host, "127.0.0.1"]))
    }

    /// A certificate for localhost that expired long ago.
    pub(crate) fn expired(&self) -> Identity {
        let mut params = server(&LOCAL);
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
        self.sign(params)
    }

    /// A certificate for localhost that is not valid yet.
    pub(crate) fn not_yet_valid(&self) -> Identity {
        let mut params = server(&LOCAL);
        params.not_before = date_time_ymd(3001, 1, 1);
        params.not_after = date_time_ymd(3002, 1, 1);
        self.sign(params)
    }

    /// A certificate for a host other than the one that the client requests.
    pub(crate) fn wrong_host(&self) -> Identity {
        self.sign(server(&["elsewhere.invalid"]))
    }

    /// A certificate for localhost that may sign others, and so must not be used by a server.
    pub(crate) fn ca_as_leaf(&self) -> Identity {
        let mut params = server(&LOCAL);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages.push(KeyUsagePurpose::KeyCertSign);
        self.sign(params)
    }

    /// A client certificate.
    pub(crate) fn client(&self, name: &str) -> Identity {
        self.sign(client(name))
    }

    /// A client certificate that expired long ago.
    pub(crate) fn expired_client(&self, name: &str) -> Identity {
        let mut params = client(name);
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
        self.sign(params)
    }

    fn sign(&self, params: CertificateParams) -> Identity {
        let key = new_key();
        let certificate = params.signed_by(&key, &self.issuer).expect("sound parameters");
        Identity { certificate_pem: certificate.pem(), key_pem: key.serialize_pem(), certificate, key }
    }
}

/// A certificate and its private key, as the PEM texts that a user would have in files.
pub(crate) struct Identity {
    pub(crate) certificate_pem: String,
    pub(crate) key_pem: String,
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Identity {
    pub(crate) fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![self.certificate.der().clone()]
    }

    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(self.key.serialize_der().into())
    }
}

const LOCAL: [&str; 2] = ["localhost", "127.0.0.1"];

fn server(hosts: &[&str]) -> CertificateParams {
    let mut params = named("standpipe test server", hosts);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params
}

fn client(name: &str) -> CertificateParams {
    let mut params = named(name, &[name]);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

fn named(name: &str, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts).expect("the hosts are names or addresses");
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn new_key() -> KeyPair {
    KeyPair::generate().expect("the machine has randomness")
}
