//! The socket under a connection: TCP or TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::time::Instant;

use super::super::deadline_stream::Timed;
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

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    use super::super::super::breaker::Breaker;
    use super::*;

    fn pair() -> (Arc<TcpStream>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let client = TcpStream::connect(address).expect("someone listens");
        (Arc::new(client), listener.accept().expect("someone has come").0)
    }

    fn stream(socket: &Arc<TcpStream>) -> Stream {
        Stream::new(Timed::new(Arc::clone(socket), Instant::now() + Duration::from_secs(20)), None)
    }

    #[test]
    fn a_tripped_breaker_ends_a_read_on_another_thread() {
        let (client, _server) = pair();
        let breaker = Breaker::default();
        breaker.watch(&client).unwrap();
        assert!(!breaker.is_broken());
        let mut stream = stream(&client);
        thread::scope(|scope| {
            let reading = scope.spawn(move || stream.read(&mut [0; 8]));
            breaker.trip();
            assert_eq!(reading.join().unwrap().ok(), Some(0), "the connection has ended");
        });
        assert!(breaker.is_broken());
    }

    #[test]
    fn a_tripped_breaker_lets_no_later_connection_pass() {
        let breaker = Breaker::default();
        breaker.trip();
        let (client, _server) = pair();
        assert_eq!(breaker.watch(&client).unwrap_err().kind(), ErrorKind::ConnectionAborted);
    }

    #[test]
    fn a_breaker_holds_no_connection_open() {
        let (client, mut server) = pair();
        let breaker = Breaker::default();
        breaker.watch(&client).unwrap();
        drop(client);
        assert_eq!(server.read(&mut [0; 8]).unwrap(), 0);
        breaker.trip();
    }

    #[test]
    fn what_waits_is_read_and_nothing_else_is_waited_for() {
        let (client, mut server) = pair();
        let mut stream = stream(&client);
        let mut into = [0; 8];
        assert_eq!(stream.read_waiting(&mut into).unwrap(), None);
        server.write_all(b"word").unwrap();
        // it may take a moment on its way
        assert_eq!(stream.read(&mut into[..1]).unwrap(), 1);
        assert_eq!(stream.read_waiting(&mut into).unwrap(), Some(3));
        assert_eq!(stream.read_waiting(&mut into).unwrap(), None);
        // and a read that may wait does so again
        server.write_all(b"x").unwrap();
        assert_eq!(stream.read(&mut into).unwrap(), 1);
        drop(server);
        assert_eq!(stream.read(&mut into).unwrap(), 0);
        assert_eq!(stream.read_waiting(&mut into).unwrap(), Some(0));
    }

    #[test]
    fn no_read_and_no_write_begins_after_the_deadline() {
        let (client, mut server) = pair();
        server.write_all(b"words").unwrap();
        let mut stream = stream(&client);
        stream.set_deadline(Instant::now());
        let late = Some(ErrorKind::TimedOut);
        assert_eq!(stream.read(&mut [0; 8]).err().map(|error| error.kind()), late);
        assert_eq!(stream.read_waiting(&mut [0; 8]).err().map(|error| error.kind()), late);
        assert_eq!(stream.write_all(b"words").err().map(|error| error.kind()), late);
    }
}
