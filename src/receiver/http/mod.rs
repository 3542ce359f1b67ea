//! OTLP over HTTP/1.1, as much of it as a careful server needs: heads and bodies in, answers out, over any `BufRead`;
//! only `connection` knows the socket.

mod body;
mod connection;
mod head;
mod request;
mod response;

use std::io;

pub(super) use connection::serve;

use super::refusal::Refusal;

/// Why a request could not be read.
#[derive(Debug)]
enum ReadError {
    /// The client left, or the receiver is being stopped: there is nobody to answer.
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
