//! Statuses of remote calls: their codes beside those of HTTP, and how they are written.

use std::time::Duration;

use crate::record::wire::{encode_field, encode_varint};

/// The gRPC code that goes with an HTTP status.
pub(super) fn code_of(status: u16) -> u32 {
    match status {
        200..300 => 0,
        400 | 411 | 412 | 414 | 417 => 3,
        408 | 504 => 4,
        403 => 7,
        413 | 429 | 431 => 8,
        404 | 405 | 415 | 501 | 505 => 12,
        500 => 13,
        502 | 503 => 14,
        401 => 16,
        _ => 2,
    }
}

/// The HTTP status that goes with a gRPC code.
pub(super) fn status_of(code: u32) -> u16 {
    match code {
        0 => 200,
        1 => 499,
        3 | 9 | 11 => 400,
        4 => 504,
        5 => 404,
        6 | 10 => 409,
        7 => 403,
        8 => 429,
        12 => 501,
        14 => 503,
        16 => 401,
        _ => 500,
    }
}

/// Returns a `google.rpc.Status`, with a `google.rpc.RetryInfo` if the client is to wait.
pub(super) fn encode_status(code: u32, message: &str, retry: Option<Duration>) -> Vec<u8> {
    let mut status = Vec::new();
    encode_number(1 << 3, code.into(), &mut status);
    encode_field(2 << 3 | 2, message.as_bytes(), &mut status);
    if let Some(delay) = retry {
        let mut any = Vec::new();
        encode_field(1 << 3 | 2, b"type.googleapis.com/google.rpc.RetryInfo", &mut any);
        encode_field(2 << 3 | 2, &encode_retry_info(delay), &mut any);
        encode_field(3 << 3 | 2, &any, &mut status);
    }
    status
}

fn encode_retry_info(delay: Duration) -> Vec<u8> {
    let (mut duration, mut info) = (Vec::new(), Vec::new());
    encode_number(1 << 3, delay.as_secs(), &mut duration);
    encode_number(2 << 3, delay.subsec_nanos().into(), &mut duration);
    encode_field(1 << 3 | 2, &duration, &mut info);
    info
}

fn encode_number(tag: u8, number: u64, out: &mut Vec<u8>) {
    out.push(tag);
    encode_varint(number, out);
}

/// A message as a header can carry it: printable ASCII without the percent sign, everything else by its bytes.
pub(super) fn percent_encoded(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    for byte in message.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_keeps_its_meaning_on_the_way_there_and_back() {
        for code in [0, 2, 3, 4, 7, 8, 14, 16] {
            let back = code_of(status_of(code));
            // there is no HTTP status for an unknown error
            assert_eq!(back, if code == 2 { 13 } else { code }, "{code}");
        }
        assert_eq!((code_of(404), code_of(501), status_of(12)), (12, 12, 501));
        assert_eq!((code_of(302), code_of(299), status_of(99)), (2, 0, 500));
    }

    #[test]
    fn messages_go_percent_encoded() {
        assert_eq!(percent_encoded("100 % süß\n"), "100 %25 s%C3%BC%C3%9F%0A");
    }

    #[test]
    fn a_status_says_how_long_to_wait() {
        let status = encode_status(8, "no", Some(Duration::from_millis(1500)));
        let (front, any) = status.split_at(6);
        assert_eq!(front, [0x08, 8, 0x12, 2, b'n', b'o']);
        assert_eq!(any[0], 0x1a);
        assert!(any.ends_with(&[0x12, 10, 0x0a, 8, 0x08, 1, 0x10, 0x80, 0xca, 0xb5, 0xee, 0x01]), "{any:?}");
    }
}
