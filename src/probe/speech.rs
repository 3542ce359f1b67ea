//! Pure: what a peer speaks, by its first bytes.

/// A protocol, as far as it can be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speech {
    Nothing,
    Http1,
    Http2,
    Tls,
    Unknown,
}

const SETTINGS: u8 = 4;
const GO_AWAY: u8 = 7;
const ALERT: u8 = 0x15;
const HANDSHAKE: u8 = 0x16;

/// Whether the first byte is one of those that a TLS record begins with.
pub(super) fn is_record(first_bytes: &[u8]) -> bool {
    matches!(first_bytes, [0x14..=0x17, ..])
}

pub(super) fn of(first_bytes: &[u8]) -> Speech {
    match first_bytes {
        [] => Speech::Nothing,
        // the version of every TLS record begins with a 3
        [ALERT | HANDSHAKE, 3, ..] => Speech::Tls,
        // an alert may come a byte at a time
        [ALERT | HANDSHAKE] => Speech::Tls,
        // length, type, flags, stream 0: what an HTTP/2 server says first
        [_, _, _, SETTINGS | GO_AWAY, 0 | 1, 0, 0, 0, 0, ..] => Speech::Http2,
        bytes if bytes.starts_with(b"HTTP/1.") => Speech::Http1,
        _ => Speech::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_known_by_its_first_bytes() {
        for (bytes, speech) in [
            (&b""[..], Speech::Nothing),
            (b"HTTP/1.1 400 Bad Request\r\n", Speech::Http1),
            (b"HTTP/1.0 200", Speech::Http1),
            (b"\x15\x03\x01\x00\x02\x02\x46", Speech::Tls),
            (b"\x15", Speech::Tls),
            (b"\x00\x00\x00\x04\x00\x00\x00\x00\x00", Speech::Http2),
            (b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64", Speech::Http2),
            (b"\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01", Speech::Http2),
            (b"\x00\x00\x00\x04", Speech::Unknown),
            (b"SSH-2.0-OpenSSH_9.6", Speech::Unknown),
            (b"220 mail.example ESMTP", Speech::Unknown),
        ] {
            assert_eq!(of(bytes), speech, "{bytes:?}");
        }
    }
}
