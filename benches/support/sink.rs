//! A counting collector: finds the boundaries of spans, but does not decode them.
//!
//! The measured throughput is thus that of the exporter, not of a decoder.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

const ACCEPTED: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
/// Field number of `resource_spans` in a request.
const RESOURCE_SPANS: u64 = 1;
/// Field number of `scope_spans` in a resource, and of `spans` in a scope.
const BELOW: u64 = 2;
const MAX_BODY_BYTES: usize = 64 << 20;

/// Collector on a free port of 127.0.0.1. It runs until the process ends.
pub(crate) struct Sink {
    address: SocketAddr,
    spans: Arc<AtomicUsize>,
}

impl Sink {
    /// Starts a collector that waits for `delay` before each response.
    pub(crate) fn start(delay: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let spans = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&spans);
        thread::Builder::new().spawn(move || {
            for socket in listener.incoming().flatten() {
                let counter = Arc::clone(&counter);
                // Connection errors are ignored: the spans of the connection are missing from the count.
                thread::spawn(move || serve(&socket, delay, &counter));
            }
        })?;
        Ok(Self { address, spans })
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn span_count(&self) -> u64 {
        self.spans.load(Ordering::SeqCst) as u64
    }
}

fn serve(socket: &TcpStream, delay: Duration, counter: &AtomicUsize) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut reader = BufReader::with_capacity(64 << 10, socket);
    let mut body = Vec::new();
    while let Some(length) = read_head(&mut reader)? {
        body.resize(length, 0);
        reader.read_exact(&mut body)?;
        let spans = count_spans(&body).ok_or(io::ErrorKind::InvalidData)?;
        counter.fetch_add(spans as usize, Ordering::SeqCst);
        thread::sleep(delay);
        (&mut &*socket).write_all(ACCEPTED)?;
    }
    Ok(())
}

/// Reads the head of a request and returns the length of the body. Returns `None` at the end of the connection.
fn read_head(reader: &mut impl BufRead) -> io::Result<Option<usize>> {
    let (mut length, mut line) = (0, String::new());
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        match line.trim_end().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value
                    .parse()
                    .ok()
                    .filter(|length| *length <= MAX_BODY_BYTES)
                    .ok_or(io::ErrorKind::InvalidData)?;
            }
            Some(_) => {}
            None if line.trim_end().is_empty() => return Ok(Some(length)),
            // The request line.
            None => {}
        }
    }
}

/// Returns the number of spans in a request, or `None` if the request is truncated.
pub(crate) fn count_spans(request: &[u8]) -> Option<u64> {
    let mut spans = 0;
    for_each(request, RESOURCE_SPANS, |resource| {
        for_each(resource, BELOW, |scope| {
            for_each(scope, BELOW, |_| {
                spans += 1;
                Some(())
            })
        })
    })?;
    Some(spans)
}

/// Calls `visit` with every field of this number. All fields at these levels are length-delimited.
fn for_each<'a>(
    mut message: &'a [u8],
    number: u64,
    mut visit: impl FnMut(&'a [u8]) -> Option<()>,
) -> Option<()> {
    while !message.is_empty() {
        let tag = prost::encoding::decode_varint(&mut message).ok()?;
        let length = prost::encoding::decode_varint(&mut message).ok()?;
        let (field, rest) = message.split_at_checked(usize::try_from(length).ok()?)?;
        if tag >> 3 == number {
            visit(field)?;
        }
        message = rest;
    }
    Some(())
}
