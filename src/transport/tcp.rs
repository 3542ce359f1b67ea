//! TCP connections that open in time, and that another thread can end.

use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::Verdict;

/// Connects to one address.
///
/// # Errors
/// `TimedOut` when the time is up, or the failure of the connect.
pub(super) fn connect(address: &SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(address, timeout)?;
    // Each write is a whole piece: waiting to fill a packet would only delay its end.
    stream.set_nodelay(true)?;
    Ok(stream)
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

/// Whether the peer reads no more. It may have sent the reason before.
pub(super) fn is_hang_up(error: &io::Error) -> bool {
    // the last is how Windows may say it
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted)
}

/// What an error of a socket means for the request.
pub(super) fn failure_verdict(error: &io::Error, reason: String) -> Verdict {
    match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
            Verdict::Unreachable { reason }
        }
        _ => Verdict::TryLater { after: None, reason },
    }
}

/// Ends what is under way on another thread: for good, or just this attempt.
#[derive(Debug, Default)]
pub(super) struct Interrupter {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_interrupted_for_good: bool,
    is_cut: bool,
    socket: Weak<TcpStream>,
}

impl Interrupter {
    pub(super) fn forget_cut(&self) {
        self.lock().is_cut = false;
    }

    /// From now on this is the socket to break.
    ///
    /// # Errors
    /// When it is too late.
    pub(super) fn watch(&self, socket: &Arc<TcpStream>) -> io::Result<()> {
        let mut state = self.lock();
        state.socket = Arc::downgrade(socket);
        if state.is_broken() { Err(ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }

    /// Whether this attempt has come to its end.
    pub(super) fn is_broken(&self) -> bool {
        self.lock().is_broken()
    }

    /// Ends this attempt and all that would follow.
    pub(super) fn interrupt_for_good(&self) {
        let mut state = self.lock();
        state.is_interrupted_for_good = true;
        state.shut_socket();
    }

    /// Ends this attempt, or the one that is about to begin.
    pub(super) fn cut(&self) {
        let mut state = self.lock();
        state.is_cut = true;
        state.shut_socket();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_broken(&self) -> bool {
        self.is_interrupted_for_good || self.is_cut
    }

    fn shut_socket(&self) {
        if let Some(socket) = self.socket.upgrade() {
            // an error means that it is broken already
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn an_attempt_that_was_cut_gets_no_other_connection_and_the_next_one_does() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let connect = || Arc::new(TcpStream::connect(address).expect("someone listens"));
        let interrupter = Interrupter::default();
        interrupter.forget_cut();
        interrupter.watch(&connect()).expect("nothing is broken yet");
        interrupter.cut();
        assert!(interrupter.is_broken());
        assert_eq!(interrupter.watch(&connect()).unwrap_err().kind(), ErrorKind::ConnectionAborted);
        interrupter.forget_cut();
        assert!(!interrupter.is_broken());
        interrupter.watch(&connect()).expect("another attempt");
    }
}
