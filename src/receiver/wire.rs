//! A client's socket, read against a deadline.

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How long a refused client may go on sending before its socket is closed under it.
pub(super) const FAREWELL: Duration = Duration::from_secs(1);

/// Reads after the deadline, each of what is there within a millisecond: enough for all that a socket's buffer holds, so that a
/// client does not pay for a thread that could not run. Windows waits for half a second at least.
const LATE_READS: u32 = if cfg!(windows) { 1 } else { 128 };

/// What the first message of TLS begins with.
pub(super) const TLS_HANDSHAKE: u8 = 0x16;

/// Reads from a socket until a deadline that covers all reads together: a client that sends one byte at a
/// time gains nothing.
pub(super) struct Wire<'a> {
    socket: &'a TcpStream,
    /// `None` waits as long as the connection lasts.
    deadline: Option<Instant>,
    late_reads: u32,
    tail: Tail,
}

/// What happens to the last byte of what was read.
enum Tail {
    Taken,
    /// It stays in the kernel's buffer, because closing a socket with unread data resets the connection.
    /// The flag says whether there is one.
    HeldBack(bool),
}

impl<'a> Wire<'a> {
    pub(super) fn new(socket: &'a TcpStream) -> Self {
        Self { socket, deadline: None, late_reads: 0, tail: Tail::Taken }
    }

    pub(super) fn set_deadline(&mut self, deadline: Option<Instant>) {
        if self.deadline != deadline {
            (self.deadline, self.late_reads) = (deadline, 0);
        }
    }

    /// From now on, dropping the socket after reading resets the connection.
    pub(super) fn hold_back_last_byte(&mut self) {
        self.tail = Tail::HeldBack(false);
    }

    /// Waits until there is something to read, and leaves it there.
    ///
    /// # Errors
    /// When the deadline passes first, or the connection fails or ends.
    pub(super) fn wait_for_byte(&self) -> io::Result<()> {
        let peek = || self.arm().and_then(|()| self.socket.peek(&mut [0]));
        match despite_signals(peek)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Gives the next read the time that is left, or as little as there can be.
    fn arm(&self) -> io::Result<()> {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        self.socket.set_read_timeout(left.map(|left| left.max(Duration::from_millis(1))))
    }

    fn count_late_read(&mut self) -> io::Result<()> {
        if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            self.late_reads += 1;
        }
        if self.late_reads > LATE_READS { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }

    fn read_once(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.count_late_read()?;
        self.arm()?;
        let Tail::HeldBack(held) = &mut self.tail else {
            return self.socket.read(buffer);
        };
        if *held {
            self.socket.read_exact(&mut [0])?;
            *held = false;
        }
        let available = self.socket.peek(buffer)?;
        if available > 0 {
            self.socket.read_exact(&mut buffer[..available - 1])?;
            *held = true;
        }
        Ok(available)
    }
}

impl Read for Wire<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        despite_signals(|| self.read_once(buffer))
    }
}

/// Repeats what a signal has interrupted. Where a socket has a time-out, that the process was stopped and goes on is enough.
fn despite_signals<T>(mut work: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match work() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}
