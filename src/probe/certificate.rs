//! Minimal reader of X.509 certificates (DER): subject, issuer and last day. Verifies nothing. All functions are pure.

use std::fmt;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_ID: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const OCTET_STRING: u8 = 0x04;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const DNS_NAME: u8 = 0x82;
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];
const UNNAMED: &str = "unnamed";
/// Maximum characters of a name; longer ones are cut.
const MAX_NAME: usize = 64;

/// The parts of a certificate that a report shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Certificate {
    pub(super) subject: String,
    pub(super) issuer: String,
    /// Last day of validity, such as `2027-01-01`.
    pub(super) until: String,
}

impl Certificate {
    /// Reads a certificate in DER. Returns `None` if it is malformed.
    pub(super) fn parse(der: &[u8]) -> Option<Self> {
        let mut certificate = Der(Der(der).expect(SEQUENCE)?);
        let mut fields = Der(certificate.expect(SEQUENCE)?);
        // The version is optional: certificates of version 1 have none.
        if fields.0.first() == Some(&VERSION) {
            fields.next()?;
        }
        // Serial number and algorithm.
        fields.next()?;
        fields.next()?;
        let issuer = fields.expect(SEQUENCE)?;
        let mut validity = Der(fields.expect(SEQUENCE)?);
        validity.next()?;
        let (time_kind, time) = validity.next()?;
        let subject = fields.expect(SEQUENCE)?;
        // The public key.
        fields.next()?;
        Some(Self {
            subject: name(subject).or_else(|| first_host(fields)).unwrap_or_else(|| UNNAMED.to_owned()),
            issuer: name(issuer).unwrap_or_else(|| UNNAMED.to_owned()),
            until: day(time_kind, time)?,
        })
    }

    pub(super) fn is_self_signed(&self) -> bool {
        self.subject == self.issuer
    }
}

impl fmt::Display for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "certificate of \"{}\" by \"{}\", until {}", self.subject, self.issuer, self.until)
    }
}

/// Iterator over a sequence of DER values.
struct Der<'a>(&'a [u8]);

/// Yields the tag and the content of each value.
impl<'a> Iterator for Der<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // Three bytes of length suffice for every certificate.
            0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
                (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }
}

impl<'a> Der<'a> {
    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }
}

/// Returns the common name of a subject or issuer, or the organization if there is no common name.
fn name(distinguished: &[u8]) -> Option<String> {
    let part = |wanted: &[u8]| {
        let mut sets = Der(distinguished).filter(|(tag, _)| *tag == SET);
        sets.find_map(|(_, set)| {
            let mut part = Der(Der(set).expect(SEQUENCE)?);
            part.expect(OBJECT_ID).filter(|kind| *kind == wanted)?;
            part.next().map(|(_, text)| printable(text))
        })
    };
    part(COMMON_NAME).or_else(|| part(ORGANIZATION)).filter(|name| !name.is_empty())
}

/// Returns the first DNS name of the alternative names, for a certificate without a named subject.
fn first_host(mut rest: Der<'_>) -> Option<String> {
    let (_, extensions) = rest.find(|(tag, _)| *tag == EXTENSIONS)?;
    let names = Der(Der(extensions).expect(SEQUENCE)?).find_map(|(_, extension)| {
        let mut extension = Der(extension);
        extension.expect(OBJECT_ID).filter(|kind| *kind == ALTERNATIVE_NAMES)?;
        extension.find(|(tag, _)| *tag == OCTET_STRING)
    });
    let mut names = Der(Der(names?.1).expect(SEQUENCE)?);
    names.find(|(tag, _)| *tag == DNS_NAME).map(|(_, name)| printable(name))
}

/// Reads a date: `YYMMDD…` up to 2049, `YYYYMMDD…` later.
fn day(kind: u8, time: &[u8]) -> Option<String> {
    let time =
        std::str::from_utf8(time).ok().filter(|time| time.bytes().take(6).all(|b| b.is_ascii_digit()))?;
    let (century, rest) = match kind {
        // RFC 5280, section 4.1.2.5.1: years from 50 on are of the 20th century.
        UTC_TIME if time < "50" => ("20", time),
        UTC_TIME => ("19", time),
        GENERALIZED_TIME => time.split_at_checked(2)?,
        _ => return None,
    };
    Some(format!("{century}{}-{}-{}", rest.get(..2)?, rest.get(2..4)?, rest.get(4..6)?))
}

/// Makes untrusted text safe in quotes: replaces control characters and quotes with spaces, and limits the length.
fn printable(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let safe = text.chars().map(|c| if c.is_control() || c == '"' { ' ' } else { c });
    safe.take(MAX_NAME).collect()
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

    use super::*;

    fn made(change: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["collector.test".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.not_after = date_time_ymd(2027, 1, 31);
        change(&mut params);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn a_certificate_tells_its_names_and_its_last_day() {
        let der = made(|params| params.distinguished_name.push(DnType::CommonName, "Test CA"));
        let certificate = Certificate::parse(&der).unwrap();
        assert_eq!(certificate.to_string(), "certificate of \"Test CA\" by \"Test CA\", until 2027-01-31");
        assert!(certificate.is_self_signed());
    }

    #[test]
    fn a_certificate_without_a_common_name_has_another_name() {
        let der = made(|params| params.distinguished_name.push(DnType::OrganizationName, "Acme"));
        assert_eq!(Certificate::parse(&der).unwrap().subject, "Acme");
        let certificate = Certificate::parse(&made(|_| {})).unwrap();
        assert_eq!(
            (certificate.subject.as_str(), certificate.issuer.as_str()),
            ("collector.test", "unnamed")
        );
    }

    #[test]
    fn days_of_all_centuries_are_read() {
        for (year, day) in
            [(1987, "1987-02-28"), (2049, "2049-02-28"), (2050, "2050-02-28"), (9999, "9999-02-28")]
        {
            let der = made(|params| params.not_after = date_time_ymd(year, 2, 28));
            assert_eq!(Certificate::parse(&der).unwrap().until, day);
        }
    }

    #[test]
    fn a_name_cannot_move_a_cursor_or_end_itself() {
        let name = format!("a\u{1b}[2J\"b{}", "x".repeat(100));
        let der = made(|params| params.distinguished_name.push(DnType::CommonName, name));
        let subject = Certificate::parse(&der).unwrap().subject;
        assert!(subject.starts_with("a [2J bxxx") && subject.chars().count() == 64, "{subject}");
    }

    #[test]
    fn what_is_cut_or_changed_anywhere_is_no_certificate_or_another_one_but_no_panic() {
        let der = made(|params| params.distinguished_name.push(DnType::CommonName, "Test CA"));
        for end in 0..der.len() {
            let _ = Certificate::parse(&der[..end]);
            for byte in [0, 0x30, 0x7f, 0x80, 0x84, 0xff] {
                let mut changed = der.clone();
                changed[end] = byte;
                let _ = Certificate::parse(&changed);
            }
        }
        assert_eq!(Certificate::parse(b""), None);
        assert_eq!(Certificate::parse(b"\x30\x03abc"), None);
    }
}
