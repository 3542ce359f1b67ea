//! Base64 for credentials, binary metadata and JSON.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Encodes with padding.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits =
            group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= group.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// Decodes text with or without padding.
pub(crate) fn decode(value: &[u8]) -> Option<Vec<u8>> {
    let end = value.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    let mut bytes = Vec::with_capacity(end / 4 * 3 + 2);
    for group in value[..end].chunks(4) {
        let mut bits: u32 = 0;
        for byte in group {
            let digit = DIGITS.iter().position(|known| known == byte)?;
            bits = bits << 6 | digit as u32;
        }
        // Four digits encode three bytes, three digits two bytes, and two digits one byte.
        let count = group.len().checked_sub(1).filter(|count| *count > 0)?;
        bits <<= 6 * (4 - group.len());
        bytes.extend_from_slice(&bits.to_be_bytes()[1..=count]);
    }
    Some(bytes)
}

/// Returns the password in a header value of Basic authentication.
pub(super) fn basic_password(value: &str) -> Option<String> {
    let (scheme, credentials) = value.trim_start().split_once(' ')?;
    let decoded = decode(credentials.trim().as_bytes()).filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    String::from_utf8(decoded).ok()?.split_once(':').map(|(_, password)| password.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The vectors of RFC 4648, section 10.
    #[test]
    fn base64_is_read_and_written() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text.as_bytes()), Some(bytes.as_bytes().to_vec()));
            assert_eq!(decode(text.trim_end_matches('=').as_bytes()), Some(bytes.as_bytes().to_vec()));
        }
        assert_eq!(encode(&[0xfb, 0xff]), "+/8=");
        for wrong in ["Z", "Zm9vY", "Zm9 v", "Zm-_", "Z=m9", "\u{e4}"] {
            assert_eq!(decode(wrong.as_bytes()), None, "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn base64_is_read_as_it_was_written(bytes: Vec<u8>) {
            prop_assert_eq!(decode(encode(&bytes).as_bytes()), Some(bytes));
        }
    }
}
