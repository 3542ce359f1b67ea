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
    assert_eq!((certificate.subject.as_str(), certificate.issuer.as_str()), ("collector.test", "unnamed"));
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
