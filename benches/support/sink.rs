//! A collector that only counts: it finds where spans begin and end and decodes nothing, so that a
//! throughput is the exporter's and not the decoder's.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

const ACCEPTED: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
/// `resource_spans` of a request.
const RESOURCE_SPANS: u64 = 1;
/// `scope_spans` of a resource, and `spans` of a scope.
const BELOW: u64 = 2;
const MAX_BODY_BYTES: usize = 64 << 20;

/// Listens on a free port of 127.0.0.1 until the process ends.
pub(crate) struct Sink {
    address: SocketAddr,
    spans: Arc<AtomicUsize>,
}

impl Sink {
    /// Starts one that takes this long for each answer.
    ///
    /// # Errors
    /// When there is no free port or no thread.
    pub(crate) fn start(delay: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let spans = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&spans);
        thread::Builder::new().spawn(move || {
            for socket in listener.incoming().flatten() {
                let counter = Arc::clone(&counter);
                // a client that leaves or talks nonsense is only its own trouble: its spans are missed in the count
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

/// The length of the body; `None` at the end of the connection.
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
            // the request line
            None => {}
        }
    }
}

/// How many spans a request has; `None` if it is cut short.
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

/// Calls `visit` with every length-delimited field of this number; there are no others at these levels.
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
