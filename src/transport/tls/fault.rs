//! Explains TLS errors, with the names and dates that help to fix them.

use std::error::Error as StdError;
use std::io;
use std::iter::successors;

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};

use super::{TlsFault, TlsFaultKind};
use crate::transport::calendar::date_of;

/// Maximum names of a certificate in a message.
const MAX_NAMES: usize = 5;
/// Maximum depth of nested errors. Connections are never nested this deep.
const MAX_CAUSE_DEPTH: usize = 8;
const SECONDS_OF_A_DAY: u64 = 86_400;

/// Returns the TLS fault of a failed connection, if TLS is the cause.
pub(crate) fn fault<'a>(error: &'a io::Error) -> Option<TlsFault> {
    // The error may be wrapped, for example by a connection that uses another connection.
    let cause = |&error: &&'a (dyn StdError + 'static)| match error.downcast_ref::<io::Error>() {
        Some(error) => error.get_ref().map(|error| error as _),
        None => error.source(),
    };
    let mut causes = successors(Some(error as _), cause).take(MAX_CAUSE_DEPTH);
    causes.find_map(|error| error.downcast_ref::<Error>()).map(fault_of)
}

/// Explains an error of rustls.
fn fault_of(error: &Error) -> TlsFault {
    use TlsFaultKind as Kind;
    match error {
        Error::InvalidCertificate(fault) => certificate_fault(fault),
        Error::AlertReceived(alert) => alert_fault(*alert),
        // The first byte of a record is its content type, and no other protocol begins with one of the known types.
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            tls_fault(Kind::NotTls, "the server does not speak TLS")
        }
        Error::InvalidMessage(_) => tls_fault(Kind::Passing, "the server sends invalid TLS"),
        Error::NoCertificatesPresented => tls_fault(Kind::Other, "the server sends no certificate"),
        Error::PeerIncompatible(_)
        | Error::UnsupportedNameType
        | Error::InvalidCertRevocationList(_)
        | Error::InconsistentKeys(_)
        | Error::NoApplicationProtocol
        | Error::BadMaxFragmentSize => tls_fault(Kind::Other, error.to_string()),
        other => tls_fault(Kind::Passing, other.to_string()),
    }
}

fn tls_fault(kind: TlsFaultKind, what: impl Into<String>) -> TlsFault {
    TlsFault { kind, what: what.into() }
}

fn certificate_fault(fault: &CertificateError) -> TlsFault {
    use TlsFaultKind as Kind;
    let (kind, what) = match fault {
        CertificateError::UnknownIssuer => (Kind::UnknownIssuer, "has an unknown issuer".to_owned()),
        CertificateError::Expired => (Kind::Expired, "has expired".to_owned()),
        CertificateError::ExpiredContext { not_after, .. } => {
            (Kind::Expired, format!("has expired on {}", date(*not_after)))
        }
        CertificateError::NotValidYet => (Kind::NotValidYet, "is not valid yet".to_owned()),
        CertificateError::NotValidYetContext { not_before, .. } => {
            (Kind::NotValidYet, format!("is not valid yet: valid from {}", date(*not_before)))
        }
        CertificateError::NotValidForName => (Kind::WrongHost, "is not valid for this host".to_owned()),
        CertificateError::NotValidForNameContext { expected, presented } => {
            (Kind::WrongHost, format!("is not valid for host {}{}", expected.to_str(), only_for(presented)))
        }
        CertificateError::Revoked => (Kind::Other, "has been revoked".to_owned()),
        CertificateError::BadSignature => (Kind::Other, "has a wrong signature".to_owned()),
        CertificateError::BadEncoding => (Kind::Other, "cannot be read".to_owned()),
        CertificateError::Other(other) if other.to_string() == "CaUsedAsEndEntity" => {
            (Kind::Authority, "is a CA certificate, not a server certificate".to_owned())
        }
        other => (Kind::Other, format!("is not valid: {other}")),
    };
    tls_fault(kind, format!("the server's certificate {what}"))
}

/// Returns the end of a message: the names of a certificate, which rustls writes as `DnsName("a.example")` or
/// `IpAddress(127.0.0.1)`.
fn only_for(presented: &[String]) -> String {
    let bare = |name: &String| {
        let name = name.split_once('(').map_or(name.as_str(), |(_, rest)| rest);
        name.trim_end_matches(')').trim_matches('"').to_owned()
    };
    let names: Vec<String> = presented.iter().take(MAX_NAMES).map(bare).collect();
    match presented.len() {
        0 => ", and has no subjectAltName".to_owned(),
        1..=MAX_NAMES => format!(", only for {}", names.join(", ")),
        all => format!(", only for {} and {} more", names.join(", "), all - MAX_NAMES),
    }
}

fn alert_fault(alert: AlertDescription) -> TlsFault {
    use AlertDescription as Alert;
    use TlsFaultKind as Kind;

    let refused = format!("the server refuses the client certificate: {alert:?}");
    let ended = format!("the server ended the handshake: {alert:?}");
    match alert {
        Alert::CertificateRequired => tls_fault(Kind::ClientCertificateWanted, "client certificate required"),
        Alert::CertificateExpired => tls_fault(Kind::Expired, refused),
        Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateRevoked
        | Alert::CertificateUnknown
        | Alert::UnknownCA
        | Alert::DecryptError
        | Alert::AccessDenied => tls_fault(Kind::ClientCertificateRefused, refused),
        Alert::NoApplicationProtocol => {
            tls_fault(Kind::NoHttp2, "the server offers no HTTP/2, which gRPC needs")
        }
        Alert::NoCertificate
        | Alert::CertificateUnobtainable
        | Alert::BadCertificateStatusResponse
        | Alert::BadCertificateHashValue
        | Alert::ProtocolVersion
        | Alert::InsufficientSecurity
        | Alert::ExportRestriction
        | Alert::EncryptedClientHelloRequired => tls_fault(Kind::Other, ended),
        // Sent, for example, by a load balancer without a healthy server, or by a server that lacks resources.
        _ => tls_fault(Kind::Passing, ended),
    }
}

/// Returns whether a server sends this alert to a client without the required certificate.
pub(super) fn is_for_want_of_certificate(alert: AlertDescription) -> bool {
    use TlsFaultKind::{ClientCertificateRefused, ClientCertificateWanted};
    matches!(alert, AlertDescription::HandshakeFailure | AlertDescription::NoCertificate)
        || matches!(alert_fault(alert).kind, ClientCertificateWanted | ClientCertificateRefused)
}

/// Returns the day in UTC, such as `2027-01-31`.
fn date(time: UnixTime) -> String {
    // Certificates expire before the year 10000.
    let (year, month, day) = date_of((time.as_secs() / SECONDS_OF_A_DAY) as i64);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_faults_of_certificates_and_of_configuration_are_for_good() {
        let is_passing = |error: &Error| fault_of(error).is_passing();
        let passing: Vec<u8> =
            (0..=u8::MAX).filter(|alert| is_passing(&Error::AlertReceived((*alert).into()))).collect();
        let for_good = [
            41, 42, 43, 44, 46, 48, 49, 51, // certificates, and denied access
            60, 70, 71, // protocol versions and ciphers
            111, 113, 114, 116, 120, 121,
        ];
        let expected: Vec<u8> = (0..=u8::MAX).filter(|alert| !for_good.contains(alert)).collect();
        assert_eq!(passing, expected);
        assert!(is_passing(&Error::DecryptError));
        assert!(is_passing(&Error::General("out of luck".to_owned())));
        assert!(is_passing(&Error::InvalidCertificate(CertificateError::Expired)));
        assert!(is_passing(&Error::InvalidCertificate(CertificateError::NotValidYet)));
        assert!(!is_passing(&Error::InvalidCertificate(CertificateError::UnknownIssuer)));
        assert!(!is_passing(&Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)));
    }

    #[test]
    fn an_error_of_tls_is_found_however_it_is_wrapped() {
        let bare = io::Error::new(io::ErrorKind::InvalidData, Error::NoCertificatesPresented);
        let expected = Some(tls_fault(TlsFaultKind::Other, "the server sends no certificate"));
        assert_eq!(fault(&bare), expected);
        assert_eq!(fault(&io::Error::other(io::Error::other(bare))), expected);
        assert_eq!(fault(&io::Error::other("something else")), None);
        assert_eq!(fault(&io::ErrorKind::BrokenPipe.into()), None);
    }

    #[test]
    fn the_names_of_a_certificate_are_shown_as_people_write_them() {
        let named = |names: &[&str]| only_for(&names.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(named(&[]), ", and has no subjectAltName");
        assert_eq!(named(&["DnsName(\"a.example\")"]), ", only for a.example");
        assert_eq!(named(&["DnsName(\"*.a.example\")", "IpAddress(::1)"]), ", only for *.a.example, ::1");
        assert_eq!(named(&["a", "b", "c", "d", "e", "f", "g"]), ", only for a, b, c, d, e and 2 more");
    }
}
