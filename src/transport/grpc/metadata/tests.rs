use proptest::prelude::*;

use super::*;

#[test]
fn messages_are_decoded_as_far_as_they_are_encoded() {
    for (value, text) in [
        (&b"plain words"[..], "plain words"),
        (b"100%25", "100%"),
        (b"%C3%A4%c3%a4", "ää"),
        (b"%", "%"),
        (b"50%", "50%"),
        (b"%4", "%4"),
        (b"%zz%41", "%zzA"),
        (b"%%41", "%A"),
        (b"line%0Aend%1b[31m", "line end [31m"),
        (b"raw \xff", "raw \u{fffd}"),
        (b"%ff", "\u{fffd}"),
    ] {
        assert_eq!(decode_percent(value), text, "{value:?}");
    }
    assert_eq!(decode_percent("x".repeat(10_000).as_bytes()).len(), 512);
}

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
        assert_eq!(encode_base64(bytes.as_bytes()), text);
        assert_eq!(decode_base64(text.as_bytes()), Some(bytes.as_bytes().to_vec()));
        assert_eq!(decode_base64(text.trim_end_matches('=').as_bytes()), Some(bytes.as_bytes().to_vec()));
    }
    assert_eq!(encode_base64(&[0xfb, 0xff]), "+/8=");
    for wrong in ["Z", "Zm9vY", "Zm9 v", "Zm-_", "Z=m9", "\u{e4}"] {
        assert_eq!(decode_base64(wrong.as_bytes()), None, "{wrong:?}");
    }
}

proptest! {
    #[test]
    fn base64_is_read_as_it_was_written(bytes: Vec<u8>) {
        prop_assert_eq!(decode_base64(encode_base64(&bytes).as_bytes()), Some(bytes));
    }
}
