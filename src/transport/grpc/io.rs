//! The socket under a connection: TCP or TLS.

#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind, Read, Write};
use std::time::Instant;

use super::super::timed::Timed;
use super::super::tls::Session;

/// A connection on which every read and write is over by its deadline.
#[derive(Debug)]
pub(super) struct Stream {
    wire: Timed,
    session: Option<Box<Session>>,
}

impl Stream {
    pub(super) fn new(wire: Timed, session: Option<Session>) -> Self {
        Self { wire, session: session.map(Box::new) }
    }

    pub(super) fn set_deadline(&mut self, deadline: Instant) {
        self.wire.set_deadline(deadline);
    }

    pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.session {
            Some(session) => session.write_all(&mut self.wire, bytes),
            None => self.wire.write_all(bytes),
        }
    }

    /// Waits for something to read; gives 0 when the peer has left.
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.session {
            Some(session) => session.read(&mut self.wire, into),
            None => self.wire.read(into),
        }
    }

    /// Reads what is there already; `None` if nothing is.
    pub(super) fn read_waiting(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        let Self { wire, session } = self;
        let read = wire.without_waiting(|mut socket| match session {
            Some(session) => session.read(&mut socket, into),
            None => socket.read(into),
        });
        match read {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            read => read.map(Some),
        }
    }
}
