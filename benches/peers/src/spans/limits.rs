//! Limits of the machine: prepared bytes are sent over a socket, or only copied in memory.

use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};

use prost::Message;

use super::contender::{Arrives, Contender, Pipe, Setup, Spans};
use super::task::Task;
use crate::grpc::ready;
use crate::support::Error;
use crate::support::workload::{ATTRIBUTES, Workload};

pub(super) const SOCKET: Contender = Contender {
    name: "limit: bytes over a socket",
    short: "socket",
    note: "prepared requests of 8,000 spans over one kept-alive connection, on the calling thread; the bytes are those \
           of standpipe",
    arrives: Arrives::Everything,
    tasks: &[Task::Send],
    attributes: &[ATTRIBUTES],
    can_compress: false,
    start: socket,
};

pub(super) const MEMORY: Contender = Contender {
    name: "limit: memcpy",
    short: "memcpy",
    note: "only copies an encoded span into a buffer; its times at a steady rate are those of the machine",
    arrives: Arrives::Nothing,
    tasks: &[Task::Send, Task::Steady, Task::Swift],
    start: memory,
    ..SOCKET
};

const BATCH: u64 = 8_000;
/// Size of the buffer, about that of a request.
const BUFFER: usize = 4 << 20;

fn socket(setup: &Setup) -> Result<Pipe, Error> {
    let authority = setup.endpoint.strip_prefix("http://").ok_or("an endpoint without http://")?;
    let [full, rest] = [request(authority, BATCH)?, request(authority, setup.spans % BATCH)?];
    let socket = TcpStream::connect(authority)?;
    socket.set_nodelay(true)?;
    let answers = Mutex::new(BufReader::new(socket.try_clone()?));
    let exchange = move |request: &[u8]| -> io::Result<()> {
        (&mut &socket).write_all(request)?;
        let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut line = String::new();
        // A response consists only of a head.
        while line != "\r\n" {
            line.clear();
            if answers.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    };
    Ok(Pipe::raw(move |spans| {
        // Spans that are not sent are missing from the collector's count.
        let _ = (0..spans / BATCH).try_for_each(|_| exchange(&full));
        if spans % BATCH > 0 {
            let _ = exchange(&rest);
        }
    }))
}

/// Returns the head and the body of a request.
fn request(authority: &str, spans: u64) -> Result<Vec<u8>, Error> {
    if spans == 0 {
        return Ok(Vec::new());
    }
    let body = ready::request_of(spans, |workload| workload.emit(spans))?.encode_to_vec();
    let mut request = format!(
        "POST /v1/traces HTTP/1.1\r\nhost: {authority}\r\ncontent-type: application/x-protobuf\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    request.extend_from_slice(&body);
    Ok(request)
}

fn memory(_: &Setup) -> Result<Pipe, Error> {
    let request = ready::request_of(1, Workload::emit_child)?;
    let spans = request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
    let span = spans.flat_map(|scope| &scope.spans).next().ok_or("no span")?.encode_to_vec();
    // Filled with ones, so that its pages are resident before the first copy.
    let copies = Arc::new(Copies { span, target: Mutex::new((vec![1; BUFFER], 0)) });
    let timed = Arc::clone(&copies);
    Ok(Pipe::raw(move |spans| copies.make(spans)).timed(timed))
}

/// Copies of an encoded span.
struct Copies {
    span: Vec<u8>,
    /// The buffer, and the place of the next copy.
    target: Mutex<(Vec<u8>, usize)>,
}

impl Copies {
    fn make(&self, count: u64) {
        let (buffer, at) = &mut *self.target.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..count {
            if *at + self.span.len() > BUFFER {
                *at = 0;
            }
            buffer[*at..*at + self.span.len()].copy_from_slice(black_box(&self.span));
            *at += self.span.len();
        }
        black_box(&*buffer);
    }
}

impl Spans for Arc<Copies> {
    fn root(&self, within: impl FnOnce()) {
        self.make(1);
        within();
    }

    fn child(&self) {
        self.make(1);
    }
}
