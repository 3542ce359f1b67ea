//! Calls over one connection, which is kept between calls, and the stream under it: TCP or TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::deadline_stream::DeadlineStream;
use super::super::happy_eyeballs::Dialer;
use super::super::lookup::Lookup;
use super::super::tcp::{Interrupter, is_hang_up};
use super::super::tls::Session;
use super::failure::CallFailure;
use super::target::{Target, is_agreed};
use crate::http2::conn::{Conn, End, Message, Progress, Response};
use crate::process::Driver;

/// Load balancers drop idle connections after a minute or more, and not all of them say so. No ping keeps ours alive:
/// servers end connections over unsolicited pings.
const IDLE_AGE: Duration = Duration::from_secs(50);
/// How often a request is made again that a server has surely not processed.
const MOST_REFUSALS: u32 = 2;
/// How long a server that goes away because of an error may still take to respond.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// A response has a few hundred bytes. Longer ones are read in pieces.
const READ_BYTES: usize = 16 << 10;

/// What is sent to the server.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    /// The encoded head.
    pub(super) block: &'a [u8],
    /// What its fields take by HTTP/2's count.
    pub(super) list_bytes: usize,
    pub(super) message: Message<'a>,
}

pub(super) struct Client {
    target: Target,
    lookup: Lookup,
    dialer: Dialer,
    connection: Option<Connection>,
    buffer: Vec<u8>,
}

impl Client {
    pub(super) fn new(target: Target, interrupter: Arc<Interrupter>, driver: Driver) -> Self {
        let (host, port) = match &target.tunnel {
            Some(tunnel) => (&tunnel.host, tunnel.port),
            None => (&target.host, target.port),
        };
        let lookup = Lookup::new(host, port, driver);
        let dialer = Dialer::new(interrupter, driver);
        Self { target, lookup, dialer, connection: None, buffer: vec![0; READ_BYTES] }
    }

    /// One call. It is made again over a new connection if the server has surely not processed it, or if it went into an old
    /// connection that was already dead.
    pub(super) fn call(&mut self, request: &Request<'_>, deadline: Instant) -> Result<Response, CallFailure> {
        let mut refusals = 0;
        loop {
            if self.dialer.interrupter.is_broken() {
                return Err(CallFailure::Io(ErrorKind::ConnectionAborted.into()));
            }
            let kept = self.take_kept(deadline);
            let is_kept = kept.is_some();
            let mut connection = match kept {
                Some(connection) => connection,
                None => self.connect(deadline)?,
            };
            match connection.exchange(request, deadline, &mut self.buffer) {
                Ok(answer) => {
                    self.connection = Some(connection).filter(Connection::is_good);
                    return Ok(answer);
                }
                Err(CallFailure::Unprocessed(_)) if refusals < MOST_REFUSALS => refusals += 1,
                Err(failure) if is_kept && failure.is_break() && !connection.conn.has_answer_begun() => {}
                Err(failure) => {
                    self.connection = Some(connection)
                        .filter(|connection| failure.spares_connection() && connection.is_good());
                    return Err(failure);
                }
            }
        }
    }

    /// The connection of the last call, if it can be used again.
    fn take_kept(&mut self, deadline: Instant) -> Option<Connection> {
        let mut connection =
            self.connection.take().filter(|connection| connection.used.elapsed() < IDLE_AGE)?;
        connection.stream.set_deadline(deadline);
        connection.catch_up(&mut self.buffer).ok()?;
        (connection.is_good() && connection.conn.has_room()).then_some(connection)
    }

    fn connect(&mut self, deadline: Instant) -> Result<Connection, CallFailure> {
        let addresses = self.lookup.addresses(Some(deadline)).map_err(CallFailure::of_lookup)?;
        let socket = self.dialer.connect(&addresses, Some(deadline))?;
        let mut wire = DeadlineStream::new(socket, deadline);
        if let Some(tunnel) = &self.target.tunnel {
            tunnel.open(&mut wire, &self.target.authority).map_err(CallFailure::of_proxy)?;
        }
        let session = match &self.target.tls {
            Some(connector) => Some(connector.connect(&mut wire).map_err(CallFailure::of_stream)?),
            None => None,
        };
        if session.as_ref().is_some_and(|session| !is_agreed(session.protocol())) {
            return Err(CallFailure::NoHttp2);
        }
        Ok(Connection {
            conn: Conn::new(),
            stream: Stream::new(wire, session),
            used: Instant::now(),
            hung_up: None,
        })
    }
}

/// A connection: the protocol and the socket.
struct Connection {
    conn: Conn,
    stream: Stream,
    /// When the last call ended.
    used: Instant,
    /// The peer reads no more. It may have sent the reason, which is still read.
    hung_up: Option<io::Error>,
}

impl Connection {
    fn is_good(&self) -> bool {
        self.hung_up.is_none() && self.conn.is_open()
    }

    fn exchange(
        &mut self,
        request: &Request<'_>,
        deadline: Instant,
        buffer: &mut [u8],
    ) -> Result<Response, CallFailure> {
        self.stream.set_deadline(deadline);
        while !self.conn.may_start() {
            if !self.conn.is_open() {
                return Err(CallFailure::unprocessed(self.conn.go_away()));
            }
            self.flush()?;
            self.read(buffer)?;
        }
        self.conn.start(request.block, request.list_bytes)?;
        let end = self.converse(&request.message, deadline, buffer)?;
        // acknowledgements and resets that are left matter to the server alone; the next call notices a broken connection
        let _ = self.flush();
        self.used = Instant::now();
        if matches!(end, End::Unprocessed | End::Reset(_)) {
            // how long a head may be is known only now if this was the first: another try would end alike
            self.conn.check_head(request.list_bytes)?;
        }
        match end {
            End::Responded(answer) => Ok(answer),
            End::Unprocessed => Err(CallFailure::unprocessed(self.conn.go_away())),
            End::Reset(code) => Err(CallFailure::Reset(code)),
            End::TooLong(what) => Err(CallFailure::TooLong(what)),
            End::Malformed(what) => Err(CallFailure::Malformed(what)),
        }
    }

    /// Sends and receives until the call has ended.
    fn converse(
        &mut self,
        message: &Message<'_>,
        deadline: Instant,
        buffer: &mut [u8],
    ) -> Result<End, CallFailure> {
        let mut goes_away_in_error = false;
        loop {
            let progress = self.conn.send(message);
            self.flush()?;
            let received = match progress {
                // the server may have answered already
                Progress::GoesOn if self.hung_up.is_none() => self.catch_up(buffer),
                _ => self.read(buffer),
            };
            // A response counts, also if an error follows it.
            if let Some(end) = self.conn.take_end() {
                return Ok(end);
            }
            received?;
            if self.conn.goes_away_in_error() && !goes_away_in_error {
                goes_away_in_error = true;
                self.stream.set_deadline(deadline.min(Instant::now() + LAST_WORDS));
            }
        }
    }

    /// Writes all that is to be written.
    fn flush(&mut self) -> Result<(), CallFailure> {
        if self.conn.output().is_empty() || self.hung_up.is_some() {
            return Ok(());
        }
        match self.stream.write_all(self.conn.output()) {
            Ok(()) => self.conn.clear_output(),
            Err(error) if is_hang_up(&error) => self.hung_up = Some(error),
            // A part of a frame may have been sent: nothing can follow it.
            Err(error) => {
                self.hung_up = Some(error.kind().into());
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Waits for the peer and takes in what it sends.
    fn read(&mut self, buffer: &mut [u8]) -> Result<(), CallFailure> {
        let count = match self.stream.read(buffer) {
            Ok(count) => count,
            Err(error) => {
                let is_timeout = error.kind() == ErrorKind::TimedOut;
                return Err(match self.conn.go_away() {
                    Some(go_away) if is_timeout && self.conn.goes_away_in_error() => {
                        CallFailure::left(Some(go_away))
                    }
                    _ => CallFailure::of_stream(error),
                });
            }
        };
        if count == 0 {
            return Err(match self.hung_up.take() {
                Some(error) => error.into(),
                None => CallFailure::left(self.conn.go_away()),
            });
        }
        self.take_in(&buffer[..count])
    }

    /// Takes in what the peer has already sent.
    fn catch_up(&mut self, buffer: &mut [u8]) -> Result<(), CallFailure> {
        while let Some(count) = self.stream.read_waiting(buffer).map_err(CallFailure::of_stream)? {
            if count == 0 {
                return Err(CallFailure::left(self.conn.go_away()));
            }
            self.take_in(&buffer[..count])?;
        }
        Ok(())
    }

    fn take_in(&mut self, bytes: &[u8]) -> Result<(), CallFailure> {
        self.conn.receive(bytes).map_err(|fault| {
            // the peer may as well know what it did
            let _ = self.flush();
            CallFailure::Fault(fault)
        })
    }
}

/// A connection on which every read and write is over by its deadline.
#[derive(Debug)]
struct Stream {
    wire: DeadlineStream,
    session: Option<Box<Session>>,
}

impl Stream {
    fn new(wire: DeadlineStream, session: Option<Session>) -> Self {
        Self { wire, session: session.map(Box::new) }
    }

    fn set_deadline(&mut self, deadline: Instant) {
        self.wire.set_deadline(deadline);
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.session {
            Some(session) => session.write_all(&mut self.wire, bytes),
            None => self.wire.write_all(bytes),
        }
    }

    /// Waits for something to read; gives 0 when the peer has left.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.session {
            Some(session) => session.read(&mut self.wire, into),
            None => self.wire.read(into),
        }
    }

    /// Reads what is there already; `None` if nothing is.
    fn read_waiting(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
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
    use std::thread;

    use super::*;

    fn pair() -> (Arc<TcpStream>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let client = TcpStream::connect(address).expect("someone listens");
        (Arc::new(client), listener.accept().expect("someone has come").0)
    }

    fn stream(socket: &Arc<TcpStream>) -> Stream {
        Stream::new(DeadlineStream::new(Arc::clone(socket), Instant::now() + Duration::from_secs(20)), None)
    }

    #[test]
    fn an_interrupter_ends_a_read_on_another_thread() {
        let (client, _server) = pair();
        let interrupter = Interrupter::default();
        interrupter.watch(&client).unwrap();
        assert!(!interrupter.is_broken());
        let mut stream = stream(&client);
        thread::scope(|scope| {
            let reading = scope.spawn(move || stream.read(&mut [0; 8]));
            interrupter.interrupt_for_good();
            assert_eq!(reading.join().unwrap().ok(), Some(0), "the connection has ended");
        });
        assert!(interrupter.is_broken());
    }

    #[test]
    fn an_interrupter_for_good_lets_no_later_connection_pass() {
        let interrupter = Interrupter::default();
        interrupter.interrupt_for_good();
        let (client, _server) = pair();
        assert_eq!(interrupter.watch(&client).unwrap_err().kind(), ErrorKind::ConnectionAborted);
    }

    #[test]
    fn an_interrupter_holds_no_connection_open() {
        let (client, mut server) = pair();
        let interrupter = Interrupter::default();
        interrupter.watch(&client).unwrap();
        drop(client);
        assert_eq!(server.read(&mut [0; 8]).unwrap(), 0);
        interrupter.interrupt_for_good();
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

    #[test]
    fn a_connection_on_which_a_frame_was_written_in_part_is_not_good() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_peer, _) = listener.accept().unwrap();
        let stream = Stream::new(DeadlineStream::new(Arc::new(socket), Instant::now()), None);
        let mut connection = Connection { conn: Conn::new(), stream, used: Instant::now(), hung_up: None };
        // The peer does not read, so that sooner or later all buffers are full.
        let failure = loop {
            assert!(connection.is_good());
            connection.conn = Conn::new();
            connection.conn.start(&[], 0).unwrap();
            connection.conn.send(&Message::new(&[&[0; 60_000]], false));
            connection.stream.set_deadline(Instant::now() + Duration::from_millis(50));
            if let Err(failure) = connection.flush() {
                break failure;
            }
        };
        assert!(matches!(failure, CallFailure::TimedOut), "{failure:?}");
        assert!(!connection.is_good());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn connects_beside_a_black_holed_address() {
        use super::super::super::happy_eyeballs::tests::ipv6_black_hole;
        use crate::config::{Exporter, Proxy};
        let Some(hole) = ipv6_black_hole() else { return };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let exporter = Exporter::grpc("http://collector.test:4317").proxy(Proxy::Off);
        let mut client =
            Client::new(Target::new(&exporter.connection).unwrap(), Arc::default(), Driver::OwnThread);
        client.lookup = Lookup::answering(&[hole.address, listener.local_addr().unwrap()]);
        let begun = Instant::now();
        let connection = client.connect(begun + Duration::from_secs(40));
        assert!(connection.is_ok() && begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        listener.accept().unwrap();
    }
}
