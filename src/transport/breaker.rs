//! A way to break a connection from another thread.

use std::io::{self, ErrorKind};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Ends what is under way on another thread: for good, or just this attempt.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_tripped: bool,
    is_cut: bool,
    socket: Weak<TcpStream>,
}

impl Breaker {
    /// An attempt begins: that the one before was cut is of no interest to it.
    pub(super) fn begin(&self) {
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
    #[cfg(feature = "grpc")]
    pub(super) fn trip(&self) {
        let mut state = self.lock();
        state.is_tripped = true;
        state.shut_socket();
    }

    /// Ends this attempt.
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
        self.is_tripped || self.is_cut
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
        let breaker = Breaker::default();
        breaker.begin();
        breaker.watch(&connect()).expect("nothing is broken yet");
        breaker.cut();
        assert!(breaker.is_broken());
        assert_eq!(breaker.watch(&connect()).unwrap_err().kind(), ErrorKind::ConnectionAborted);
        breaker.begin();
        assert!(!breaker.is_broken());
        breaker.watch(&connect()).expect("another attempt");
    }
}
