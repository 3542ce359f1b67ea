//! The body of a request: its framing and its bytes.

use std::io::{BufRead, Read};

use super::{Head, Lines, ReadError};
use crate::receiver::budget::Share;
use crate::receiver::refusal::Refusal;

/// Maximum length of a chunk's size line, which may carry extensions.
const CHUNK_LINE_LIMIT: usize = 1024;

/// Bytes of one step of reading. Memory is reserved before each step.
const STEP: u64 = 64 * 1024;

/// How the end of a body is determined (RFC 9112, section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
}

impl Framing {
    pub(super) fn of(head: &Head) -> Result<Self, Refusal> {
        let length = head.single("content-length")?;
        let Some(encoding) = head.single("transfer-encoding")? else {
            return length.map_or(Ok(Framing::Length(0)), parse_length);
        };
        // With both headers, a proxy may find the end of this request elsewhere (request smuggling).
        Refusal::unless(length.is_none(), 400, "both content-length and transfer-encoding")?;
        Refusal::unless(head.is_http11, 400, "transfer-encoding in http/1.0")?;
        let is_chunked = encoding.eq_ignore_ascii_case("chunked");
        Refusal::unless(is_chunked, 501, "unsupported transfer-encoding: send chunked")?;
        Ok(Framing::Chunked)
    }
}

fn parse_length(text: &str) -> Result<Framing, Refusal> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    Refusal::unless(is_number, 400, "malformed content-length")?;
    // A length above u64 is valid, but too large for every limit.
    text.parse().map(Framing::Length).or(Ok(Framing::Length(u64::MAX)))
}

/// Reads a body of at most `limit` bytes. The buffer and `share` grow with the received bytes, not with the announced
/// length.
pub(super) fn read_body(
    reader: &mut impl BufRead,
    framing: Framing,
    limit: usize,
    share: &mut Share,
) -> Result<Vec<u8>, ReadError> {
    let mut body = Vec::new();
    match framing {
        Framing::Length(length) => {
            let most = usize::try_from(length).unwrap_or(limit).min(limit);
            append(reader, &mut body, length, most, share)?;
        }
        Framing::Chunked => {
            let mut size = read_chunk_size(reader)?;
            while size > 0 {
                append(reader, &mut body, size, limit, share)?;
                let mut end = [0; 2];
                reader.read_exact(&mut end)?;
                Refusal::unless(end == *b"\r\n", 400, "chunk longer than its size")?;
                size = read_chunk_size(reader)?;
            }
            let mut trailers = Lines { reader, left: CHUNK_LINE_LIMIT };
            while !trailers.next()?.is_empty() {}
        }
    }
    Ok(body)
}

fn append(
    reader: &mut impl BufRead,
    body: &mut Vec<u8>,
    length: u64,
    limit: usize,
    share: &mut Share,
) -> Result<(), ReadError> {
    if length > (limit - body.len()) as u64 {
        return Err(Refusal::too_large(limit).into());
    }
    let mut left = length;
    while left > 0 {
        let step = left.min(STEP);
        // Reserved before the read, so that the memory of a step that has only partly arrived counts, too.
        share.make_room(body, step as usize, limit)?;
        let read = reader.by_ref().take(step).read_to_end(body)?;
        if (read as u64) < step {
            return Err(ReadError::Gone);
        }
        left -= step;
    }
    Ok(())
}

fn read_chunk_size(reader: &mut impl BufRead) -> Result<u64, ReadError> {
    let line = Lines { reader, left: CHUNK_LINE_LIMIT }.next()?;
    let digits = line.split_once(';').map_or(line.as_str(), |(size, _extension)| size).trim_end();
    // `from_str_radix` would accept a sign.
    if digits.is_empty() || digits.len() > 16 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Refusal::new(400, "malformed chunk size").into());
    }
    u64::from_str_radix(digits, 16).map_err(|_| Refusal::new(400, "malformed chunk size").into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::read_head;
    use super::*;
    use crate::receiver::budget::Budget;

    fn framing(fields: &str) -> Result<Framing, u16> {
        let text = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        let head = read_head(&mut text.as_bytes(), 4096).unwrap();
        Framing::of(&head).map_err(|refusal| refusal.status)
    }

    fn read(mut bytes: &[u8], framing: Framing, limit: usize) -> Result<Vec<u8>, ReadError> {
        read_body(&mut bytes, framing, limit, &mut Budget::new(1000).share())
    }

    fn chunked(text: &str, limit: usize) -> Result<Vec<u8>, ReadError> {
        read(text.as_bytes(), Framing::Chunked, limit)
    }

    fn status(result: Result<Vec<u8>, ReadError>) -> u16 {
        match result {
            Err(ReadError::Refused(refusal)) => refusal.status,
            other => panic!("not refused: {other:?}"),
        }
    }

    #[test]
    fn the_length_of_a_body_is_reported_once_and_one_way() {
        assert_eq!(framing(""), Ok(Framing::Length(0)));
        assert_eq!(framing("Content-Length: 12\r\n"), Ok(Framing::Length(12)));
        assert_eq!(framing("Transfer-Encoding: Chunked\r\n"), Ok(Framing::Chunked));
        assert_eq!(framing("Content-Length: 1\r\nTransfer-Encoding: chunked\r\n"), Err(400));
        assert_eq!(framing("Content-Length: 1\r\nContent-Length: 1\r\n"), Err(400));
        assert_eq!(framing("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), Err(400));
        assert_eq!(framing("Transfer-Encoding: gzip, chunked\r\n"), Err(501));
        for length in ["", "+1", "-1", "1, 1", "0x1", "1.0", "١"] {
            assert_eq!(framing(&format!("Content-Length: {length}\r\n")), Err(400), "{length:?}");
        }
        assert_eq!(
            framing(&format!("Content-Length: {}\r\n", "9".repeat(40))),
            Ok(Framing::Length(u64::MAX))
        );
    }

    #[test]
    fn chunks_are_joined_and_trailers_skipped() {
        let text = "4\r\nwiki\r\nA;name=value\r\npedia is a\r\n0\r\nTrailer: x\r\n\r\n";
        assert_eq!(chunked(text, 100).unwrap(), b"wikipedia is a");
    }

    #[test]
    fn bad_chunks_are_refused() {
        for text in
            ["\r\n", "x\r\n", "+1\r\na\r\n", "-1\r\n", "0x1\r\na\r\n", "1 1\r\n", "11111111111111111\r\n"]
        {
            assert_eq!(status(chunked(text, 100)), 400, "{text:?}");
        }
        assert_eq!(status(chunked("1\r\nab\r\n", 100)), 400);
        assert_eq!(status(chunked(&format!("1;{}\r\n", "x".repeat(2000)), 100)), 431);
    }

    #[test]
    fn a_body_above_the_limit_is_refused_before_it_is_read() {
        assert_eq!(status(read(&[], Framing::Length(101), 100)), 413);
        assert_eq!(status(read(&[], Framing::Length(u64::MAX), 100)), 413);
        assert_eq!(status(chunked("ffffffffffffffff\r\n", 100)), 413);
        assert_eq!(status(chunked("2\r\nab\r\n2\r\n", 3)), 413);
    }

    #[test]
    fn a_body_that_others_leave_no_room_for_is_refused() {
        let budget = Budget::new(1000);
        let mut other = budget.share();
        other.grow(900).unwrap();
        let read = |length| read_body(&mut &[0; 200][..], Framing::Length(length), 200, &mut budget.share());
        assert_eq!(read(100).unwrap().len(), 100);
        assert_eq!(status(read(101)), 503);
    }

    #[test]
    fn the_capacity_of_a_body_is_reserved_and_not_its_length() {
        let content = vec![b'x'; 200_000];
        let mut chunks = Vec::new();
        for chunk in content.chunks(7000) {
            chunks.extend(format!("{:x}\r\n", chunk.len()).bytes().chain(chunk.iter().copied()));
            chunks.extend(b"\r\n");
        }
        chunks.extend(b"0\r\n\r\n");
        for (bytes, framing) in [(&content, Framing::Length(200_000)), (&chunks, Framing::Chunked)] {
            let mut share = Budget::new(1_000_000).share();
            let body = read_body(&mut bytes.as_slice(), framing, 500_000, &mut share).unwrap();
            assert_eq!(body, content);
            assert_eq!(share.bytes(), body.capacity(), "{framing:?}");
        }
    }

    #[test]
    fn a_client_that_leaves_within_the_body_gets_no_answer() {
        assert!(matches!(read(b"abc", Framing::Length(4), 100), Err(ReadError::Gone)));
        assert!(matches!(chunked("4\r\nab", 100), Err(ReadError::Gone)));
        assert!(matches!(chunked("2\r\nab\r\n", 100), Err(ReadError::Gone)));
    }
}
