//! How values are spelled in JSON.

use std::fmt::Display;
use std::io::Write;

use crate::config::escape::shows_itself;

/// A number or a truth.
pub(super) fn plain(out: &mut Vec<u8>, value: impl Display) {
    // writing to memory cannot fail
    let _ = write!(out, "{value}");
}

/// A number of 64 bits, as a string: many readers keep all numbers as doubles, which cannot hold it.
pub(super) fn quoted(out: &mut Vec<u8>, number: impl Display) {
    let _ = write!(out, "\"{number}\"");
}

/// The shortest text that is read back as the same number; JSON has no words for what is not finite.
pub(super) fn double(out: &mut Vec<u8>, number: f64) {
    let word = match number {
        f64::INFINITY => "\"Infinity\"",
        f64::NEG_INFINITY => "\"-Infinity\"",
        number if number.is_nan() => "\"NaN\"",
        number => {
            // `Debug` turns to exponents where `Display` would write hundreds of zeros
            let _ = write!(out, "{number:?}");
            return;
        }
    };
    out.extend_from_slice(word.as_bytes());
}

/// A string. All that a terminal would obey is escaped, also what JSON allows: this may be read on one.
pub(super) fn text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| matches!(c, '"' | '\\') || !shows_itself(c)) {
        let (plain, from_here) = rest.split_at(at);
        out.extend_from_slice(plain.as_bytes());
        let mut characters = from_here.chars();
        characters.next().into_iter().for_each(|character| escape(out, character));
        rest = characters.as_str();
    }
    out.extend_from_slice(rest.as_bytes());
    out.push(b'"');
}

fn escape(out: &mut Vec<u8>, character: char) {
    let short = match character {
        '"' | '\\' => character,
        '\n' => 'n',
        '\r' => 'r',
        '\t' => 't',
        other => {
            for unit in other.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
            return;
        }
    };
    let _ = write!(out, "\\{short}");
}

pub(super) fn hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for byte in bytes {
        out.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
    out.push(b'"');
}

pub(super) fn base64(out: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    out.push(b'"');
    for group in bytes.chunks(3) {
        let mut three = [0; 3];
        three[..group.len()].copy_from_slice(group);
        let [a, b, c] = three;
        let four = [a >> 2, (a & 3) << 4 | b >> 4, (b & 15) << 2 | c >> 6, c & 63];
        let used = group.len() + 1;
        out.extend(four[..used].iter().map(|&digit| DIGITS[usize::from(digit)]));
        out.extend_from_slice(&b"=="[..4 - used]);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("JSON is UTF-8")
    }

    #[test]
    fn base64_is_padded_to_whole_groups() {
        // the examples of RFC 4648
        for (bytes, encoded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(written(|out| base64(out, bytes.as_bytes())), format!("{encoded:?}"));
        }
        assert_eq!(written(|out| base64(out, &[0xff, 0xef, 0xbf])), "\"/++/\"");
    }

    #[test]
    fn doubles_are_numbers_unless_json_has_none_for_them() {
        for (number, spelled) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (12.5, "12.5"),
            (-1e300, "-1e300"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (0.1 + 0.2, "0.30000000000000004"),
            (f64::NAN, "\"NaN\""),
            (-f64::NAN, "\"NaN\""),
            (f64::INFINITY, "\"Infinity\""),
            (f64::NEG_INFINITY, "\"-Infinity\""),
        ] {
            assert_eq!(written(|out| double(out, number)), spelled);
        }
    }

    #[test]
    fn nothing_in_a_text_can_end_its_line_or_speak_to_a_terminal() {
        for (given, spelled) in [
            ("", r#""""#),
            ("plain wäter 🚰", r#""plain wäter 🚰""#),
            ("say \"hi\" \\o/", r#""say \"hi\" \\o/""#),
            ("a\nb\r\tc", r#""a\nb\r\tc""#),
            ("\u{1b}[31m\u{7}\0", r#""\u001b[31m\u0007\u0000""#),
            ("\u{7f}\u{9b}2J", r#""\u007f\u009b2J""#),
            ("\u{202e}gpj\u{2028}\u{61c}", r#""\u202egpj\u2028\u061c""#),
            ("\u{e0041}", r#""\udb40\udc41""#),
        ] {
            assert_eq!(written(|out| text(out, given)), spelled);
        }
    }

    #[test]
    fn ids_are_lower_case_hexadecimal() {
        assert_eq!(written(|out| hex(out, &[0x00, 0x1f, 0xab])), "\"001fab\"");
    }
}
