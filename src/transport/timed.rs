//! Connections of a probe's own: each ends at its deadline, whatever the peer does.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use super::dial::{connect, time_left};

/// Something that can be talked to, encrypted or not.
pub(crate) trait Conversation: Read + Write + Send {}

/// What a server showed of itself in a TLS handshake.
pub(crate) struct Look {
    /// In DER, as it was shown; nothing in it has been verified unless there is a stream.
    pub(crate) certificate: Option<Vec<u8>>,
    pub(crate) version: Option<&'static str>,
    /// The protocol that the server chose, if it did.
    pub(crate) protocol: Option<Vec<u8>>,
    /// An encrypted connection to a verified server, or why there is none.
    pub(crate) stream: io::Result<Box<dyn Conversation>>,
}

impl Look {
    pub(crate) fn none(error: io::Error) -> Self {
        Self { certificate: None, version: None, protocol: None, stream: Err(error) }
    }
}

/// A TCP connection whose every read and write is over by the deadline.
#[derive(Debug)]
pub(crate) struct Timed {
    stream: TcpStream,
    deadline: Instant,
}

impl Timed {
    pub(crate) fn connect(address: SocketAddr, deadline: Instant) -> io::Result<Self> {
        Ok(Self { stream: connect(&[address], Some(deadline))?, deadline })
    }
}

impl Conversation for Timed {}

impl Read for Timed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(time_left(Some(self.deadline))?)?;
        self.stream.read(into).map_err(as_timeout)
    }
}

impl Write for Timed {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(time_left(Some(self.deadline))?)?;
        self.stream.write(from).map_err(as_timeout)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// A socket's own time-out says `WouldBlock` on Unix and `TimedOut` elsewhere.
fn as_timeout(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::WouldBlock { ErrorKind::TimedOut.into() } else { error }
}
