//! OTLP over HTTP/1.1, as much of it as a careful server needs: heads and bodies in, answers out, over any `BufRead`;
//! only `connection` knows the socket.

mod body;
mod connection;
mod head;
mod response;

use std::io;

pub(super) use connection::{OnPageRequest, serve, serve_pages};

use self::body::Framing;
use self::head::Head;
use super::content::{Coding, Format};
use super::hosts::Hosts;
use super::refusal::{Refusal, RefusalKind};
use crate::record::Signal;

/// Why a request could not be read.
#[derive(Debug)]
enum ReadError {
    /// The client left, or the receiver is being stopped: there is no client to answer.
    Gone,
    Refused(Refusal),
}

impl From<Refusal> for ReadError {
    fn from(refusal: Refusal) -> Self {
        ReadError::Refused(refusal)
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            // a socket's own time-out says WouldBlock on Unix and TimedOut elsewhere
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                Refusal::new(408, "the request took too long to arrive").into()
            }
            _ => ReadError::Gone,
        }
    }
}

/// The head of an OTLP request whose body is worth reading.
struct Plan {
    signal: Signal,
    framing: Framing,
    expects_continue: bool,
    coding: Coding,
    format: Format,
}

impl Plan {
    fn of(head: &Head, hosts: Hosts, max_body_bytes: usize) -> Result<Self, Refusal> {
        hosts.check(head.hosts())?;
        let signal = signal_of(head).ok_or_else(|| Refusal::new(404, no_such_path()))?;
        if head.method != "POST" {
            return Err(Refusal::new(405, "method not allowed: use POST"));
        }
        let format = format_of(head)?;
        let coding = content_coding(head)?;
        let framing = Framing::of(head)?;
        if matches!(framing, Framing::Length(length) if length > max_body_bytes as u64) {
            return Err(Refusal::too_large(max_body_bytes));
        }
        let expects_continue = match head.single("expect")? {
            None => false,
            Some(expectation) if expectation.eq_ignore_ascii_case("100-continue") => true,
            Some(_) => return Err(Refusal::new(417, "the only expectation known here is 100-continue")),
        };
        Ok(Self { signal, framing, expects_continue, coding, format })
    }
}

/// What goes to the path of this head.
fn signal_of(head: &Head) -> Option<Signal> {
    Signal::ALL.into_iter().find(|signal| signal.path() == head.path())
}

fn no_such_path() -> String {
    let places = Signal::ALL.map(|signal| format!("{} go to {}", signal.name(), signal.path()));
    format!("no such path: {}", places.join(", "))
}

/// How the body is written, and how the answer is to be.
fn format_of(head: &Head) -> Result<Format, Refusal> {
    let media_type = head.single("content-type")?.unwrap_or_default();
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case("application/x-protobuf") {
        Ok(Format::Protobuf)
    } else if essence.eq_ignore_ascii_case("application/json") {
        Ok(Format::Json)
    } else {
        Err(Refusal::new(415, "unsupported content type: send application/x-protobuf or application/json"))
    }
}

fn content_coding(head: &Head) -> Result<Coding, Refusal> {
    let coding = head.single("content-encoding")?.unwrap_or("identity");
    if coding.eq_ignore_ascii_case("identity") {
        Ok(Coding::Identity)
    } else if coding.eq_ignore_ascii_case("gzip") {
        Ok(Coding::Gzip)
    } else {
        let refusal = Refusal::new(415, "unsupported content encoding: send gzip or identity");
        Err(refusal.of_kind(RefusalKind::Compression))
    }
}
