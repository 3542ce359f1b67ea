//! Serves HTTP/1.1 requests with a content length or chunked encoding, one after the other.

use std::io::{self, BufRead, Read, Write};

const ACCEPTED: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
const MAX_BODY_BYTES: usize = 256 << 20;

/// Properties of the body, from the head of a request.
#[derive(Default)]
struct Head {
    length: usize,
    is_chunked: bool,
    is_packed: bool,
}

pub(super) fn serve(
    reader: &mut impl BufRead,
    writer: &mut impl Write,
    take: impl Fn(&[u8], bool) -> io::Result<()>,
) -> io::Result<()> {
    let mut body = Vec::new();
    while let Some(head) = read_head(reader)? {
        body.clear();
        match head.is_chunked {
            true => while read_chunk(reader, &mut body)? {},
            false => read_exactly(reader, head.length, &mut body)?,
        }
        take(&body, head.is_packed)?;
        writer.write_all(ACCEPTED)?;
    }
    Ok(())
}

/// Reads the head of a request. Returns `None` at the end of the connection.
fn read_head(reader: &mut impl BufRead) -> io::Result<Option<Head>> {
    let (mut head, mut line) = (Head::default(), String::new());
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            if line.trim_end().is_empty() {
                return Ok(Some(head));
            }
            // The request line.
            continue;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => head.length = value.parse().map_err(|_| io::ErrorKind::InvalidData)?,
            "transfer-encoding" => head.is_chunked = value == "chunked",
            "content-encoding" => head.is_packed = value == "gzip",
            _ => {}
        }
    }
}

/// Appends a chunk to the body. Returns false after the last chunk.
fn read_chunk(reader: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<bool> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let length = usize::from_str_radix(line.trim_end(), 16).map_err(|_| io::ErrorKind::InvalidData)?;
    read_exactly(reader, length, body)?;
    line.clear();
    reader.read_line(&mut line)?;
    Ok(length > 0)
}

fn read_exactly(reader: &mut impl BufRead, length: usize, body: &mut Vec<u8>) -> io::Result<()> {
    let before = body.len();
    if before + length > MAX_BODY_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    reader.take(length as u64).read_to_end(body)?;
    match body.len() - before == length {
        true => Ok(()),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
