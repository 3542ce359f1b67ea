//! Reads from a client's socket with a deadline.

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Time for a client to read its last answer and to close its side, before its socket is closed.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum reads after the deadline, each with a timeout of one millisecond. These reads suffice to empty a socket's
/// buffer, so bytes that arrived in time are accepted even if the system did not run this thread in time. On Windows,
/// where a read waits at least half a second, only one late read is allowed.
const LATE_READS: u32 = if cfg!(windows) { 1 } else { 128 };

/// First byte of a TLS handshake.
pub(super) const TLS_HANDSHAKE: u8 = 0x16;

/// Reads from a socket until a deadline for all reads together, so that a client gains no time by sending single bytes.
pub(super) struct Wire<'a> {
    socket: &'a TcpStream,
    /// `None` for no deadline.
    deadline: Option<Instant>,
    late_reads: u32,
    /// `Some` if reads leave the last received byte in the kernel's buffer, so that closing the socket resets the
    /// connection. The value is true while a byte is left there.
    pub(super) held_back: Option<bool>,
}

impl<'a> Wire<'a> {
    pub(super) fn new(socket: &'a TcpStream) -> Self {
        Self { socket, deadline: None, late_reads: 0, held_back: None }
    }

    pub(super) fn set_deadline(&mut self, deadline: Option<Instant>) {
        if self.deadline != deadline {
            (self.deadline, self.late_reads) = (deadline, 0);
        }
    }

    /// Waits until data can be read, without reading it.
    ///
    /// # Errors
    /// Returns an error when the deadline passes, or when the connection fails or ends.
    pub(super) fn wait_for_byte(&self) -> io::Result<()> {
        let peek = || self.arm().and_then(|()| self.socket.peek(&mut [0]));
        match despite_signals(peek)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Sets the socket's timeout to the time left, but at least one millisecond.
    fn arm(&self) -> io::Result<()> {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        self.socket.set_read_timeout(left.map(|left| left.max(Duration::from_millis(1))))
    }

    fn read_once(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.late_reads += u32::from(self.deadline.is_some_and(|deadline| deadline <= Instant::now()));
        if self.late_reads > LATE_READS {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.arm()?;
        let Some(held) = &mut self.held_back else { return self.socket.read(buffer) };
        // The previous read has already returned the held-back byte, so it is only taken out of the kernel's buffer.
        if *held {
            self.socket.read_exact(&mut [0])?;
            *held = false;
        }
        // All bytes are returned to the caller, but the last one stays in the kernel's buffer.
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

/// Repeats a call that a signal interrupted. If the socket has a timeout, even stopping and continuing the process
/// (SIGSTOP, SIGCONT) interrupts a call.
fn despite_signals<T>(mut work: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match work() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}
