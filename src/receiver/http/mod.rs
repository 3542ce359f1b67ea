//! As much HTTP/1.1 as a careful server needs, over any `BufRead`: heads and bodies in, answers out.

mod body;
mod bomb;
mod head;
mod response;

use std::io;

pub(super) use body::{Framing, gunzip, read_body};
pub(super) use head::{Head, read_head};
pub(super) use response::{send, send_continue};

/// Why a request could not be read.
#[derive(Debug)]
pub(super) enum ReadError {
    /// The client left, or the receiver is being stopped: there is nobody to answer.
    Gone,
    Refused(Refusal),
}

/// A request that gets an error for an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }
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
