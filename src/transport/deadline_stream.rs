//! A TCP connection whose every read and write ends by a deadline, whatever the peer does.

use std::io::{Read, Result, Write};
#[cfg(feature = "probe")]
use std::net::SocketAddr;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[cfg(feature = "probe")]
use super::tcp::connect;
use super::tcp::{time_left, tolerate};

/// A connection, encrypted or not.
#[cfg(feature = "probe")]
pub(crate) trait ReadWrite: Read + Write + Send {}

/// Less time than this is not worth dividing.
const BRIEF: Duration = Duration::from_millis(20);

/// A TCP connection with a deadline. When it has passed, reads and writes fail with `TimedOut`.
#[derive(Debug)]
pub(crate) struct DeadlineStream {
    stream: Arc<TcpStream>,
    deadline: Instant,
    /// How long the socket lets a read wait.
    read_limit: Option<Duration>,
    /// How long the socket lets a write wait.
    write_limit: Option<Duration>,
}

impl DeadlineStream {
    pub(super) fn new(stream: Arc<TcpStream>, deadline: Instant) -> Self {
        Self { stream, deadline, read_limit: None, write_limit: None }
    }

    #[cfg(feature = "probe")]
    pub(crate) fn connect(address: SocketAddr, deadline: Instant) -> Result<Self> {
        let stream = connect(&address, time_left(Some(deadline))?.unwrap_or_default())?;
        Ok(Self::new(Arc::new(stream), deadline))
    }

    #[cfg(feature = "grpc")]
    pub(super) fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    /// Does `work` with a socket that never waits: where it would, `work` sees `WouldBlock`. The deadline still
    /// applies: a peer may send without end.
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
impl ReadWrite for DeadlineStream {}

impl Read for DeadlineStream {
    fn read(&mut self, into: &mut [u8]) -> Result<usize> {
        loop {
            if let Some(limit) = new_limit(self.read_limit, self.deadline)? {
                self.stream.set_read_timeout(Some(limit))?;
                self.read_limit = Some(limit);
            }
            match (&*self.stream).read(into) {
                Err(error) => {
                    tolerate(error)?;
                    self.read_limit = None;
                }
                done => return done,
            }
        }
    }
}

impl Write for DeadlineStream {
    fn write(&mut self, from: &[u8]) -> Result<usize> {
        loop {
            if let Some(limit) = new_limit(self.write_limit, self.deadline)? {
                self.stream.set_write_timeout(Some(limit))?;
                self.write_limit = Some(limit);
            }
            match (&*self.stream).write(from) {
                Err(error) => {
                    tolerate(error)?;
                    self.write_limit = None;
                }
                done => return done,
            }
        }
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// The new timeout of the socket, if it needs one. A wait that ends too early is repeated; only one that would end too late
/// is wrong. So a timeout stays for as many calls as possible, which saves system calls.
fn new_limit(current: Option<Duration>, deadline: Instant) -> Result<Option<Duration>> {
    let Some(left) = time_left(Some(deadline))? else { return Ok(None) };
    Ok(match current {
        // a socket of Windows is of no use after a wait that ended
        _ if cfg!(windows) => Some(left),
        Some(current) if current <= left => None,
        _ if left > BRIEF => Some(left / 2),
        _ => Some(left),
    })
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::TcpListener;

    use super::*;

    const SOON: Duration = Duration::from_millis(100);
    /// Later than this is late.
    const LATE: Duration = Duration::from_secs(5);

    /// A connection, and its other end.
    fn pair(deadline: Instant) -> (DeadlineStream, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let stream = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        (DeadlineStream::new(Arc::new(stream), deadline), listener.accept().expect("the other end").0)
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
            // until both sides hold as much as they can
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
