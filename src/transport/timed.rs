//! Connections whose every read and write is over by a deadline, whatever the peer does.

#[cfg(feature = "probe")]
use std::io;
use std::io::{ErrorKind, Read, Result, Write};
#[cfg(feature = "probe")]
use std::net::SocketAddr;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

#[cfg(feature = "probe")]
use super::dial::connect;
use super::dial::time_left;

/// Something that can be talked to, encrypted or not.
#[cfg(feature = "probe")]
pub(crate) trait Conversation: Read + Write + Send {}

/// What a server showed of itself in a TLS handshake.
#[cfg(feature = "probe")]
pub(crate) struct Look {
    /// In DER, as it was shown; nothing in it has been verified unless there is a stream.
    pub(crate) certificate: Option<Vec<u8>>,
    pub(crate) version: Option<&'static str>,
    /// The protocol that the server chose, if it did.
    pub(crate) protocol: Option<Vec<u8>>,
    /// An encrypted connection to a verified server, or why there is none.
    pub(crate) stream: Result<Box<dyn Conversation>>,
}

#[cfg(feature = "probe")]
impl Look {
    pub(crate) fn none(error: io::Error) -> Self {
        Self { certificate: None, version: None, protocol: None, stream: Err(error) }
    }
}

/// A TCP connection with a deadline. When it has passed, reads and writes fail with `TimedOut`.
#[derive(Debug)]
pub(crate) struct Timed {
    stream: Arc<TcpStream>,
    deadline: Instant,
}

impl Timed {
    pub(super) fn new(stream: Arc<TcpStream>, deadline: Instant) -> Self {
        Self { stream, deadline }
    }

    #[cfg(feature = "probe")]
    pub(crate) fn connect(address: SocketAddr, deadline: Instant) -> Result<Self> {
        Ok(Self::new(Arc::new(connect(&[address], Some(deadline))?), deadline))
    }

    #[cfg(feature = "grpc")]
    pub(super) fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    /// Does `work` with a socket that never waits: where it would, `work` sees `WouldBlock`. The deadline counts all the
    /// same: a peer may have something to say without end.
    #[cfg(feature = "grpc")]
    pub(super) fn without_waiting<T>(&mut self, work: impl FnOnce(&TcpStream) -> Result<T>) -> Result<T> {
        time_left(Some(self.deadline))?;
        self.stream.set_nonblocking(true)?;
        let done = work(&self.stream);
        self.stream.set_nonblocking(false)?;
        done
    }
}

#[cfg(feature = "probe")]
impl Conversation for Timed {}

impl Read for Timed {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        loop {
            self.stream.set_read_timeout(time_left(Some(self.deadline))?)?;
            match (&*self.stream).read(into) {
                Err(error) if is_passing(error.kind()) => {}
                done => return done,
            }
        }
    }
}

impl Write for Timed {
    fn write(&mut self, from: &[u8]) -> Result<usize> {
        loop {
            self.stream.set_write_timeout(time_left(Some(self.deadline))?)?;
            match (&*self.stream).write(from) {
                Err(error) if is_passing(error.kind()) => {}
                done => return done,
            }
        }
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A time-out of the socket's or a signal is no end by itself: only the deadline is.
fn is_passing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
