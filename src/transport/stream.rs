//! TCP and TLS connections whose reads and writes end by a deadline, whatever the peer does.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::dial::{connect, is_hang_up, time_left};
use super::tls::Session;

/// If more time than this is left until the deadline, the socket timeout is half of the time left. Later calls keep
/// this timeout while it ends before the deadline. Otherwise the socket timeout is all of the time left.
const MIN_DIVIDED_TIME: Duration = Duration::from_millis(20);

/// If the wall clock and the monotonic clock disagree by more than this about the time since a connection was used, the
/// machine was probably suspended, or the process frozen. The peer or a firewall may have dropped the connection.
const MAX_CLOCK_JUMP: Duration = Duration::from_secs(1);

/// A connection: TCP, or TLS over another connection.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(DeadlineStream),
    Tls(Box<TlsStream>),
}

#[derive(Debug)]
pub(crate) struct TlsStream {
    pub(super) session: Session,
    pub(super) below: Stream,
}

impl Stream {
    /// Wraps a socket. The connection can be reused only until it reaches the age `max_age`.
    pub(super) fn new(socket: Arc<TcpStream>, deadline: Instant, max_age: Duration) -> Self {
        Self::Tcp(DeadlineStream::new(socket, deadline, max_age))
    }

    /// Opens a plain connection to one address.
    pub(crate) fn connect(address: SocketAddr, deadline: Instant) -> Result<Self> {
        Ok(Self::new(Arc::new(connect(&address, time_left(deadline)?)?), deadline, Duration::MAX))
    }

    /// Sets the deadline of the following reads and writes, and notes the time as that of the last use.
    pub(super) fn set_deadline(&mut self, deadline: Instant) {
        let tcp = self.tcp();
        (tcp.deadline, tcp.used) = (deadline, (Instant::now(), SystemTime::now()));
    }

    /// Returns whether the connection is below its maximum age, and the clocks show no suspension since its last use.
    pub(super) fn is_fresh(&mut self) -> bool {
        let tcp = self.tcp();
        let (used, used_by_wall_clock) = tcp.used;
        let idle = used.elapsed();
        let jump = match used_by_wall_clock.elapsed() {
            Ok(by_wall_clock) => by_wall_clock.abs_diff(idle),
            Err(backwards) => backwards.duration() + idle,
        };
        tcp.opened.elapsed() < tcp.max_age && jump <= MAX_CLOCK_JUMP
    }

    pub(super) fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Returns whether nothing more can be written: the peer closed the connection, or a write missed its deadline.
    pub(super) fn is_write_closed(&mut self) -> bool {
        self.tcp().is_write_closed
    }

    /// Returns whether an idle connection can be reused. A readable connection cannot: the peer has closed it, or has
    /// sent bytes that do not belong to a response.
    pub(super) fn is_idle(&mut self) -> bool {
        let tcp = self.tcp();
        !tcp.is_write_closed && tcp.is_silent().unwrap_or(false)
    }

    /// Reads bytes that have already arrived. Returns `None` without such bytes, and 0 if the peer has closed.
    pub(super) fn read_waiting(&mut self, into: &mut [u8]) -> Result<Option<usize>> {
        self.tcp().set_waiting(false)?;
        let read = self.read(into);
        self.tcp().set_waiting(true)?;
        match read {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            read => read.map(Some),
        }
    }

    pub(super) fn tcp(&mut self) -> &mut DeadlineStream {
        match self {
            Self::Tcp(tcp) => tcp,
            Self::Tls(tls) => tls.below.tcp(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        match self {
            Self::Tcp(tcp) => tcp.read(into),
            Self::Tls(tls) => tls.session.read(&mut tls.below, into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, from: &[u8]) -> Result<usize> {
        match self {
            Self::Tcp(tcp) => tcp.write(from),
            Self::Tls(tls) => tls.session.write(&mut tls.below, from),
        }
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A TCP connection with a deadline, after which reads and writes fail with `TimedOut`.
#[derive(Debug)]
pub(crate) struct DeadlineStream {
    stream: Arc<TcpStream>,
    deadline: Instant,
    opened: Instant,
    max_age: Duration,
    /// Time at which the deadline was last set, by both clocks.
    used: (Instant, SystemTime),
    /// False during `read_waiting`, in which a read that would wait fails with `WouldBlock`.
    waits: bool,
    /// Current read timeout of the socket.
    read_limit: Option<Duration>,
    /// Current write timeout of the socket.
    write_limit: Option<Duration>,
    /// True if the peer has closed the connection, or a write was not finished by its deadline. Later writes do
    /// nothing. Reads still return the bytes that the peer sent before, which may contain the reason.
    is_write_closed: bool,
    /// First byte from the peer, which shows its protocol.
    pub(super) first_byte: Option<u8>,
}

impl DeadlineStream {
    fn new(stream: Arc<TcpStream>, deadline: Instant, max_age: Duration) -> Self {
        let now = Instant::now();
        Self {
            stream,
            deadline,
            opened: now,
            max_age,
            used: (now, SystemTime::now()),
            waits: true,
            read_limit: None,
            write_limit: None,
            is_write_closed: false,
            first_byte: None,
        }
    }

    fn set_waiting(&mut self, waits: bool) -> Result<()> {
        self.waits = waits;
        self.stream.set_nonblocking(!waits)
    }

    fn is_silent(&self) -> Result<bool> {
        self.stream.set_nonblocking(true)?;
        // Peeks instead of reading, so that the protocol still receives an unexpected byte.
        let peeked = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false)?;
        Ok(peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock))
    }
}

impl Read for DeadlineStream {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        loop {
            if let Some(limit) = new_limit(self.read_limit, self.deadline)? {
                self.stream.set_read_timeout(Some(limit))?;
                self.read_limit = Some(limit);
            }
            match (&*self.stream).read(into) {
                Ok(count) => {
                    self.first_byte = self.first_byte.or(into[..count].first().copied());
                    return Ok(count);
                }
                // Forgets the timeout, so that the next one is computed from the time left.
                Err(error) if self.waits && is_pause(&error) => self.read_limit = None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                failed => return failed,
            }
        }
    }
}

impl Write for DeadlineStream {
    fn write(&mut self, from: &[u8]) -> Result<usize> {
        while !self.is_write_closed {
            let limit = new_limit(self.write_limit, self.deadline);
            if let Some(limit) = limit.inspect_err(|_| self.is_write_closed = true)? {
                self.stream.set_write_timeout(Some(limit))?;
                self.write_limit = Some(limit);
            }
            match (&*self.stream).write(from) {
                Err(error) if self.waits && is_pause(&error) => self.write_limit = None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Not an error: the peer may have responded before it closed, and only a read finds that response.
                Err(error) if is_hang_up(&error) => self.is_write_closed = true,
                done => return done,
            }
        }
        Ok(from.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Returns whether the timeout of the socket ended a wait, possibly before the deadline.
fn is_pause(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Returns a new timeout for the socket if its current timeout is absent or would end after the deadline (on Windows,
/// always). A shorter timeout is kept to save system calls, and a wait that ends too early is repeated.
fn new_limit(current: Option<Duration>, deadline: Instant) -> Result<Option<Duration>> {
    let left = time_left(deadline)?;
    Ok(match current {
        // On Windows, a socket is unusable after a timeout, so the timeout must be exact.
        _ if cfg!(windows) => Some(left),
        Some(current) if current <= left => None,
        _ if left > MIN_DIVIDED_TIME => Some(left / 2),
        _ => Some(left),
    })
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::TcpListener;

    use super::*;

    const SOON: Duration = Duration::from_millis(100);
    /// Maximum time of an operation in these tests.
    const LATE: Duration = Duration::from_secs(5);

    /// Returns both ends of a connection.
    fn pair(deadline: Instant) -> (DeadlineStream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let stream = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let stream = DeadlineStream::new(Arc::new(stream), deadline, Duration::MAX);
        (stream, listener.accept().expect("the other end").0)
    }

    #[test]
    fn a_read_waits_until_its_deadline_and_no_longer() {
        let begun = Instant::now();
        let (mut timed, _peer) = pair(begun + SOON);

        let failure = timed.read(&mut [0; 8]).unwrap_err();

        assert_eq!(failure.kind(), ErrorKind::TimedOut);
        assert!((SOON..LATE).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    }

    #[test]
    fn is_reused_within_its_age_unless_a_clock_has_jumped() {
        let hour = Duration::from_secs(3600);
        let mut stream = Stream::Tcp(pair(Instant::now() + hour).0);
        assert!(stream.is_fresh());
        // In the first case, the wall clock went ahead of the monotonic clock, for example while the machine was
        // suspended. In the second case, the wall clock was set back.
        for wall in [SystemTime::now() - hour, SystemTime::now() + hour] {
            stream.tcp().used.1 = wall;
            assert!(!stream.is_fresh(), "{wall:?}");
        }
        stream.set_deadline(Instant::now() + hour);
        assert!(stream.is_fresh());
        stream.tcp().max_age = Duration::from_secs(60);
        assert!(stream.is_fresh());
        stream.tcp().max_age = Duration::ZERO;
        assert!(!stream.is_fresh());
    }

    #[test]
    fn a_nearer_deadline_holds_after_a_far_one() {
        let (mut timed, mut peer) = pair(Instant::now() + Duration::from_secs(3600));
        peer.write_all(b"first").unwrap();
        assert_eq!(timed.read(&mut [0; 8]).unwrap(), 5);
        timed.write_all(b"second").unwrap();
        let begun = Instant::now();
        timed.deadline = begun + SOON;

        let failure = timed.read(&mut [0; 8]).unwrap_err();
        assert_eq!(failure.kind(), ErrorKind::TimedOut);
        assert!((SOON..LATE).contains(&begun.elapsed()), "{:?}", begun.elapsed());

        timed.deadline = Instant::now() + SOON;
        let written = loop {
            // Writes until the buffers of both sides are full.
            if let Err(failure) = timed.write(&[0; 65_536]) {
                break failure;
            }
        };
        assert_eq!(written.kind(), ErrorKind::TimedOut);
        assert!(begun.elapsed() < LATE, "{:?}", begun.elapsed());
    }

    #[cfg(not(windows))]
    #[test]
    fn the_timeout_of_the_socket_stays_while_it_is_short_enough() {
        let deadline = Instant::now() + Duration::from_secs(60);
        let limit = new_limit(None, deadline).unwrap().unwrap();

        assert_eq!(new_limit(Some(limit), deadline).unwrap(), None);
        assert_eq!(new_limit(Some(limit), deadline + Duration::from_secs(1)).unwrap(), None);
        assert!(new_limit(Some(limit), Instant::now() + limit / 2).unwrap().is_some());
        assert_eq!(new_limit(Some(limit), Instant::now()).unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
