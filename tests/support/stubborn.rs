//! Peers that are not collectors: one never completes a connection, one reads a few bytes at a time, one sends fixed
//! bytes.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
#[cfg(unix)]
use std::os::fd::AsRawFd;
#[cfg(windows)]
use std::os::windows::io::AsRawSocket;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// More than any test needs.
const MAX_CONNECTIONS: usize = 16;

/// A port that neither accepts nor refuses connections: the queue of its listener is full, so further connects wait.
pub(crate) struct Unanswered {
    address: SocketAddr,
    /// The listener, and the connections in its queue.
    _held: (TcpListener, Vec<TcpStream>),
}

impl Unanswered {
    pub(crate) fn start() -> Self {
        let (listener, address) = listen();
        shorten_queue(&listener);
        let mut queue = Vec::new();
        // A queue of length 0 holds one or two connections, depending on the system.
        for _ in 0..8 {
            match TcpStream::connect_timeout(&address, Duration::from_millis(50)) {
                Ok(stream) => queue.push(stream),
                Err(error) => {
                    // Windows refuses connections to a full queue. Wine does not: it uses the queue of the Unix kernel.
                    assert_eq!(error.kind(), ErrorKind::TimedOut, "this system leaves no connect waiting");
                    return Self { address, _held: (listener, queue) };
                }
            }
        }
        panic!("a listener that accepts nothing has let {} in", queue.len());
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

#[allow(unsafe_code)]
fn shorten_queue(listener: &TcpListener) {
    #[cfg(unix)]
    let socket = listener.as_raw_fd();
    #[cfg(windows)]
    let socket = listener.as_raw_socket() as libc::SOCKET;
    // SAFETY: the socket is a listening one that `listener` keeps open; listening again only sets the length.
    let result = unsafe { libc::listen(socket, 0) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

/// A server that reads a few bytes at a time, with pauses, and never answers.
pub(crate) struct SlowReader {
    address: SocketAddr,
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SlowReader {
    pub(crate) fn start(sip: usize, rest: Duration) -> Self {
        let (listener, address) = listen();
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || sip_at(&listener, sip, rest, &stopped));
        Self { address, stop: Some(stop), thread: Some(thread) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for SlowReader {
    fn drop(&mut self) {
        self.stop = None;
        // Wakes the server if it still waits for a client.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let panicked = thread.join().is_err();
            assert!(!panicked || thread::panicking(), "the slow reader panicked");
        }
    }
}

/// Serves the first client only; others wait in the system's queue.
fn sip_at(listener: &TcpListener, sip: usize, rest: Duration, stopped: &mpsc::Receiver<()>) {
    let Ok((mut client, _)) = listener.accept() else { return };
    let mut sink = vec![0; sip];
    while stopped.recv_timeout(rest) == Err(RecvTimeoutError::Timeout) {
        if !matches!(client.read(&mut sink), Ok(1..)) {
            return;
        }
    }
}

/// Starts a server that treats each client the same way, one after the other, until the process ends.
pub(crate) fn serve(conduct: impl Fn(TcpStream) + Send + 'static) -> SocketAddr {
    let (listener, address) = listen();
    thread::spawn(move || {
        listener.incoming().take(MAX_CONNECTIONS).flatten().for_each(conduct);
    });
    address
}

/// Starts a server that sends fixed bytes to each client, and then waits until the client disconnects.
pub(crate) fn saying(words: &'static [u8]) -> SocketAddr {
    serve(move |mut client| {
        let _ = client.read(&mut [0; 4096]);
        let _ = client.write_all(words);
        let _ = client.shutdown(Shutdown::Write);
        let _ = client.read_to_end(&mut Vec::new());
    })
}

fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound listener has an address");
    (listener, address)
}
