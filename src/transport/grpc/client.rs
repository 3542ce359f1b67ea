//! gRPC calls over one connection, which is kept between calls.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::connect::{Connector, Timeline};
use super::super::dial::Interrupter;
use super::super::stream::Stream;
use super::PROTOCOL;
use super::failure::CallFailure;
use crate::http2::client::{ClientConnection, End, Message, Progress, Response};

/// Time after which an idle connection is no longer reused. Load balancers drop idle connections after a minute or
/// more, and not all announce it. We send no keep-alive pings, because servers disconnect clients that ping unasked.
const IDLE_AGE: Duration = Duration::from_secs(50);
/// Maximum repetitions of a request that the server has certainly not processed.
const MAX_REFUSALS: u32 = 2;
/// Time that a server may take to respond after a GOAWAY with an error.
const GOAWAY_GRACE: Duration = Duration::from_secs(1);
/// Size of a read. A usual response has a few hundred bytes; longer ones are read in pieces.
const READ_BYTES: usize = 16 << 10;

/// The result of a call, or of a step of it.
type Called<T> = Result<T, CallFailure>;

/// A request to the server.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    /// Encoded header block.
    pub(super) block: &'a [u8],
    /// Size of the header list as HTTP/2 counts it.
    pub(super) list_bytes: usize,
    pub(super) message: Message<'a>,
}

pub(super) struct Client {
    connector: Connector,
    interrupter: Arc<Interrupter>,
    connection: Option<Connection>,
    buffer: Vec<u8>,
    /// Maximum body of a response.
    max_body: usize,
}

impl Client {
    pub(super) fn new(connector: Connector, interrupter: Arc<Interrupter>, max_body: usize) -> Self {
        Self { connector, interrupter, max_body, connection: None, buffer: vec![0; READ_BYTES] }
    }

    /// Makes one call. Repeats the call over a new connection if the server has certainly not processed it, or if the
    /// kept connection was dead.
    pub(super) fn call(&mut self, request: &Request<'_>, deadline: Instant) -> Called<Response> {
        let mut refusals = 0;
        loop {
            if self.interrupter.is_broken() {
                return Err(io::Error::from(ErrorKind::ConnectionAborted).into());
            }
            let kept = self.take_kept(deadline);
            let is_kept = kept.is_some();
            let mut connection = match kept {
                Some(connection) => connection,
                None => self.connect(deadline, &mut Timeline::default())?,
            };
            connection.conn.max_body = self.max_body;
            match connection.exchange(request, deadline, &mut self.buffer) {
                Ok(answer) => {
                    self.connection = connection.is_good().then_some(connection);
                    return Ok(answer);
                }
                // The server certainly did nothing, so the repetition cannot duplicate records.
                Err(CallFailure::Unprocessed(_)) if refusals < MAX_REFUSALS => refusals += 1,
                // The server closed an idle connection while the request was on its way.
                Err(failure) if is_kept && failure.is_break() && !connection.conn.has_answer_begun() => {}
                Err(failure) => {
                    let is_kept = failure.keeps_connection() && connection.is_good();
                    self.connection = is_kept.then_some(connection);
                    return Err(failure);
                }
            }
        }
    }

    /// Takes the kept connection if it can be reused.
    fn take_kept(&mut self, deadline: Instant) -> Option<Connection> {
        let mut connection = self.connection.take()?;
        if connection.used.elapsed() >= IDLE_AGE || !connection.stream.is_fresh() {
            return None;
        }
        connection.stream.set_deadline(deadline);
        // A GOAWAY or a close may have arrived while the connection was idle.
        connection.catch_up(&mut self.buffer).ok()?;
        (connection.is_good() && connection.conn.has_room()).then_some(connection)
    }

    /// Opens a connection and waits for the server's settings. The next call uses the connection.
    #[cfg(feature = "probe")]
    pub(super) fn greet(&mut self, deadline: Instant, timeline: &mut Timeline) -> Called<()> {
        let mut connection = self.connect(deadline, timeline)?;
        let greeted = connection.read_until(ClientConnection::has_greeted, &mut self.buffer);
        timeline.first_bytes = connection.conn.unread().to_vec();
        self.connection = Some(connection);
        greeted
    }

    fn connect(&mut self, deadline: Instant, timeline: &mut Timeline) -> Called<Connection> {
        let stream = self.connector.connect(deadline, timeline).map_err(CallFailure::Network)?;
        match &stream {
            // If only the connection to the proxy uses TLS, no protocol is negotiated.
            Stream::Tls(tls) if self.connector.route.is_tls() && tls.session.protocol() != Some(PROTOCOL) => {
                Err(CallFailure::no_http2())
            }
            _ => Ok(Connection { conn: ClientConnection::new(), stream, used: Instant::now() }),
        }
    }
}

/// A connection: protocol state and socket.
struct Connection {
    conn: ClientConnection,
    stream: Stream,
    /// When the connection was opened, or its last call ended.
    used: Instant,
}

impl Connection {
    fn is_good(&mut self) -> bool {
        !self.stream.is_write_closed() && self.conn.is_open()
    }

    /// Writes the output and handles bytes of the peer until a condition is met.
    fn read_until(&mut self, is_met: fn(&ClientConnection) -> bool, buffer: &mut [u8]) -> Called<()> {
        while !is_met(&self.conn) {
            self.flush()?;
            self.read(buffer)?;
        }
        Ok(())
    }

    fn exchange(&mut self, request: &Request<'_>, deadline: Instant, buffer: &mut [u8]) -> Called<Response> {
        self.stream.set_deadline(deadline);
        self.read_until(|conn| conn.may_start() || !conn.is_open(), buffer)?;
        if !self.conn.is_open() {
            return Err(CallFailure::unprocessed(self.conn.go_away()));
        }
        self.conn.start(request.block, request.list_bytes).map_err(CallFailure::HeadTooLong)?;
        let end = self.converse(&request.message, deadline, buffer)?;
        // A failure to write acknowledgements or a reset does not matter: the next call notices a broken connection.
        let _ = self.flush();
        self.used = Instant::now();
        if matches!(end, End::Unprocessed | End::Reset(_)) {
            // On the first call, the server's limit may have arrived only after the request was sent. A request that
            // exceeds the limit is not repeated, because the repetition would fail, too.
            self.conn.check_head(request.list_bytes).map_err(CallFailure::HeadTooLong)?;
        }
        match end {
            End::Responded(answer) => Ok(answer),
            End::Unprocessed => Err(CallFailure::unprocessed(self.conn.go_away())),
            End::Reset(code) => Err(CallFailure::Reset(code)),
            End::Malformed(what) => Err(CallFailure::Malformed(what)),
        }
    }

    /// Sends and receives until the call has ended.
    fn converse(&mut self, message: &Message<'_>, deadline: Instant, buffer: &mut [u8]) -> Called<End> {
        let mut goes_away_in_error = false;
        loop {
            let progress = self.conn.send(message);
            self.flush()?;
            let received = match progress {
                // The server may already have responded.
                Progress::GoesOn if !self.stream.is_write_closed() => self.catch_up(buffer),
                _ => self.read(buffer),
            };
            // A complete response counts, even if an error follows it.
            if let Some(end) = self.conn.take_end() {
                return Ok(end);
            }
            received?;
            if self.conn.goes_away_in_error() && !goes_away_in_error {
                goes_away_in_error = true;
                // Set once: further frames must not extend the time.
                self.stream.set_deadline(deadline.min(Instant::now() + GOAWAY_GRACE));
            }
        }
    }

    /// Writes all output. A peer that has stopped reading is not an error, because it may have sent the reason.
    fn flush(&mut self) -> Called<()> {
        self.stream.write_all(self.conn.output())?;
        self.conn.clear_output();
        Ok(())
    }

    /// Waits for bytes of the peer and handles them.
    fn read(&mut self, buffer: &mut [u8]) -> Called<()> {
        match self.stream.read(buffer) {
            Ok(count) => self.take_in(&buffer[..count]),
            Err(error) => Err(match self.conn.go_away() {
                Some(go_away) if error.kind() == ErrorKind::TimedOut && self.conn.goes_away_in_error() => {
                    CallFailure::left(Some(go_away))
                }
                go_away if error.kind() == ErrorKind::UnexpectedEof => CallFailure::left(go_away),
                _ => error.into(),
            }),
        }
    }

    /// Handles bytes that have already arrived.
    fn catch_up(&mut self, buffer: &mut [u8]) -> Called<()> {
        while let Some(count) = self.stream.read_waiting(buffer)? {
            self.take_in(&buffer[..count])?;
        }
        Ok(())
    }

    /// Handles bytes of the peer. An empty slice means that the peer has closed the connection.
    fn take_in(&mut self, bytes: &[u8]) -> Called<()> {
        if bytes.is_empty() {
            return Err(CallFailure::left(self.conn.go_away()));
        }
        self.conn.receive(bytes).map_err(|fault| {
            // Sends the GOAWAY with the error code; a failure does not matter.
            let _ = self.flush();
            CallFailure::Fault(fault)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use super::super::super::connect::NetworkError;
    use super::*;

    fn pair() -> (Arc<TcpStream>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let client = TcpStream::connect(address).expect("someone listens");
        (Arc::new(client), listener.accept().expect("someone has come").0)
    }

    fn stream(socket: &Arc<TcpStream>) -> Stream {
        Stream::new(Arc::clone(socket), Instant::now() + Duration::from_secs(20), Duration::MAX)
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
        // The bytes may need a moment to arrive.
        assert_eq!(stream.read(&mut into[..1]).unwrap(), 1);
        assert_eq!(stream.read_waiting(&mut into).unwrap(), Some(3));
        assert_eq!(stream.read_waiting(&mut into).unwrap(), None);
        // `read_waiting` has made the socket blocking again, so `read` waits for bytes.
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
        let stream = Stream::new(Arc::new(socket), Instant::now(), Duration::MAX);
        let mut connection = Connection { conn: ClientConnection::new(), stream, used: Instant::now() };
        // The peer does not read, so all buffers become full.
        let failure = loop {
            assert!(connection.is_good());
            connection.conn = ClientConnection::new();
            connection.conn.start(&[], 0).unwrap();
            connection.conn.send(&Message::new(&[&[0; 60_000]], false));
            connection.stream.set_deadline(Instant::now() + Duration::from_millis(50));
            if let Err(failure) = connection.flush() {
                break failure;
            }
        };
        assert!(matches!(failure, CallFailure::Network(NetworkError::TimedOut)), "{failure:?}");
        assert!(!connection.is_good());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn connects_beside_a_black_holed_address() {
        use super::super::super::connect::Route;
        use super::super::super::dial::Lookup;
        use super::super::super::dial::tests::race::ipv6_black_hole;
        use crate::config::{Exporter, Proxy};
        use crate::process::Driver;
        let Some(hole) = ipv6_black_hole() else { return };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let exporter = Exporter::grpc("http://collector.test:4317").proxy(Proxy::Off);
        let route = Route::new(&exporter.connection, Some(PROTOCOL)).unwrap();
        let mut connector = route.open(&Arc::default(), Driver::OwnThread);
        connector.lookup = Lookup::answering(&[hole.address, listener.local_addr().unwrap()]);
        let begun = Instant::now();
        let connection = connector.connect(begun + Duration::from_secs(40), &mut Timeline::default());
        assert!(connection.is_ok() && begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        listener.accept().unwrap();
    }
}
