//! Connections to one of several addresses, in time.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The first address that answers. Those not tried yet share the time that is left.
///
/// # Errors
/// Why the last one did not; `TimedOut` when the time is up.
pub(super) fn connect(addresses: &[SocketAddr], deadline: Option<Instant>) -> io::Result<TcpStream> {
    let mut failure = ErrorKind::NotFound.into();
    for (index, address) in addresses.iter().enumerate() {
        let connected = match time_left(deadline)? {
            Some(left) => TcpStream::connect_timeout(address, left / (addresses.len() - index) as u32),
            None => TcpStream::connect(address),
        };
        match connected {
            // one write is one piece: waiting to fill a packet would only delay its end
            Ok(stream) => return stream.set_nodelay(true).map(|()| stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Never zero, which sockets would take for no limit at all; `None` if there is no deadline.
pub(super) fn time_left(deadline: Option<Instant>) -> io::Result<Option<Duration>> {
    let Some(deadline) = deadline else { return Ok(None) };
    match deadline.checked_duration_since(Instant::now()) {
        Some(left) if !left.is_zero() => Ok(Some(left)),
        _ => Err(ErrorKind::TimedOut.into()),
    }
}

/// A time-out or a signal is no end by itself: only the deadline is.
pub(super) fn tolerate(error: io::Error) -> io::Result<()> {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(()),
        _ => Err(error),
    }
}

/// The peer reads no more. It may have said why before it hung up.
pub(super) fn is_hang_up(error: &io::Error) -> bool {
    // the last is how Windows may say it
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted)
}
