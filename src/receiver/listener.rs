//! Accepts connections, starts a thread for each, and closes all connections at the stop.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
#[cfg(unix)]
use std::os::unix::{
    fs::FileTypeExt,
    net::{UnixListener, UnixStream},
};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;

use super::state::Shared;
use crate::process::spawn;

/// Pause after a failed `accept`, which usually means that the process has no free file descriptor.
const ACCEPT_BACK_OFF: Duration = Duration::from_millis(10);
/// Time that a stop spends on waking an acceptor thread, and on waiting for acceptor threads that it could not wake.
const WAKE_TIMEOUT: Duration = Duration::from_millis(100);
/// Time that a stop waits for acceptor threads that it has woken. Only the scheduler can delay them.
const ACCEPTOR_TIMEOUT: Duration = Duration::from_secs(2);

/// Serves a client until its connection ends. The `u64` is the number of the connection.
pub(super) trait Serve: Fn(&Shared, &TcpStream, u64) + Clone + Send + 'static {}

impl<F: Fn(&Shared, &TcpStream, u64) + Clone + Send + 'static> Serve for F {}

/// An acceptor thread, and the threads of its clients.
#[derive(Debug)]
pub(super) struct Listener {
    address: Address,
    threads: Mutex<Option<Threads>>,
}

/// Where clients connect.
#[derive(Debug)]
enum Address {
    Tcp(SocketAddr),
    /// Path of the socket's file, which is removed when the listener stops.
    #[cfg(unix)]
    Unix(PathBuf),
}

type Threads = (JoinHandle<()>, Arc<Mutex<Vec<JoinHandle<()>>>>);

impl Listener {
    pub(super) fn start(listener: TcpListener, shared: Arc<Shared>, serve: impl Serve) -> io::Result<Self> {
        let address = Address::Tcp(listener.local_addr()?);
        let accept = move || {
            let (socket, _) = listener.accept()?;
            // An answer is one write. Nagle's algorithm would only delay it.
            socket.set_nodelay(true).map(|()| socket)
        };
        Self::start_with(address, accept, shared, serve)
    }

    /// Listens on a Unix socket. A socket that a dead program left at the path is replaced.
    ///
    /// # Errors
    /// Returns an error that names the path if the socket cannot be created, or no thread can be started.
    pub(super) fn start_unix(path: PathBuf, shared: Arc<Shared>, serve: impl Serve) -> io::Result<Self> {
        let shown = path.display().to_string();
        Self::bind_unix(path, shared, serve)
            .map_err(|error| io::Error::new(error.kind(), format!("{shown}: {error}")))
    }

    #[cfg(not(unix))]
    fn bind_unix(_: PathBuf, _: Arc<Shared>, _: impl Serve) -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no Unix sockets"))
    }

    #[cfg(unix)]
    fn bind_unix(path: PathBuf, shared: Arc<Shared>, serve: impl Serve) -> io::Result<Self> {
        let is_socket = std::fs::symlink_metadata(&path).is_ok_and(|file| file.file_type().is_socket());
        let refuses = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        if is_socket && UnixStream::connect(&path).is_err_and(refuses) {
            std::fs::remove_file(&path)?;
        }
        let listener = UnixListener::bind(&path)?;
        // Wraps the socket as a `TcpStream`, so that connections need only one type. The system calls are the same.
        let accept = move || Ok(std::os::fd::OwnedFd::from(listener.accept()?.0).into());
        Self::start_with(Address::Unix(path), accept, shared, serve)
    }

    fn start_with(
        address: Address,
        accept: impl Fn() -> io::Result<TcpStream> + Send + 'static,
        shared: Arc<Shared>,
        serve: impl Serve,
    ) -> io::Result<Self> {
        let clients = Arc::new(Mutex::new(Vec::<JoinHandle<()>>::new()));
        shared.change(|state| state.listening += 1);
        let acceptor = spawn("standpipe-recv", {
            let clients = clients.clone();
            move || {
                while !shared.read(|state| state.stopped) {
                    let Ok(socket) = accept() else {
                        shared.rest(ACCEPT_BACK_OFF);
                        continue;
                    };
                    let client = admit(socket, &shared, serve.clone());
                    let mut clients = clients.lock();
                    // Without this, the handles of finished threads would accumulate as long as the receiver runs.
                    clients.retain(|client| !client.is_finished());
                    clients.extend(client);
                }
                // Closes the listening socket.
                drop(accept);
                shared.change(|state| state.listening -= 1);
            }
        })?;
        Ok(Self { address, threads: Mutex::new(Some((acceptor, clients))) })
    }

    /// Wakes the acceptor, so that it sees the stop. Returns whether the acceptor will wake.
    fn wake_acceptor(&self) -> bool {
        // Only a connection wakes a thread from `accept`. Without a free file descriptor, no connection is possible;
        // the acceptor then ends when the next client connects.
        let woken = match &self.address {
            Address::Tcp(address) => TcpStream::connect_timeout(&reachable(*address), WAKE_TIMEOUT).map(drop),
            #[cfg(unix)]
            Address::Unix(path) => {
                let woken = UnixStream::connect(path).map(drop);
                // Removed after the connection, which needs the path.
                let _ = std::fs::remove_file(path);
                woken
            }
        };
        // With one of these errors, either the listener is already closed, or its queue is full of waiting clients, one
        // of which wakes the acceptor.
        use io::ErrorKind::{ConnectionRefused, TimedOut};
        woken.err().is_none_or(|error| matches!(error.kind(), ConnectionRefused | TimedOut))
    }
}

/// Closes all listeners and connections. A second call does nothing.
pub(super) fn stop(listeners: &[Listener], shared: &Shared) {
    // The threads are taken, so that a second call finds none.
    let threads: Vec<Threads> = listeners.iter().filter_map(|it| it.threads.lock().take()).collect();
    if threads.is_empty() {
        return;
    }
    shared.stop();
    // Acceptors are woken after `shared.stop`, so that they see the stop.
    let unreached = listeners.iter().filter(|listener| !listener.wake_acceptor()).count();
    let patience = if unreached == 0 { ACCEPTOR_TIMEOUT } else { WAKE_TIMEOUT };
    let all_closed = shared.wait_until(patience, |state| state.listening == 0);
    let all_left = shared.read(|state| state.open.is_empty());
    for (acceptor, clients) in threads {
        if all_closed {
            let _ = acceptor.join();
        }
        let clients = std::mem::take(&mut *clients.lock());
        // Threads in a callback are not joined: the callback may never return.
        for client in clients.into_iter().filter(|client| all_left || client.is_finished()) {
            // A panic in a callback was reported when it happened.
            let _ = client.join();
        }
    }
}

/// Returns the address at which a listener can be reached from this machine: loopback for a listener on all addresses.
pub(super) fn reachable(listening: SocketAddr) -> SocketAddr {
    let ip = match listening.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listening.port())
}

/// Starts a thread for a client. Closes the connection if it is not admitted, or if no thread can be started.
fn admit(socket: TcpStream, shared: &Arc<Shared>, serve: impl Serve) -> Option<JoinHandle<()>> {
    socket.set_write_timeout(Some(shared.settings.read_timeout)).ok()?;
    let socket = Arc::new(socket);
    let number = shared.admit(&socket)?;
    let registered = RegisteredConnection(shared.clone(), number);
    spawn(format!("standpipe-in-{number}"), move || {
        serve(&registered.0, &socket, registered.1);
        // Dropped first, so that unregistering drops the last handle of the socket, which closes it.
        drop(socket);
        drop(registered);
    })
    .ok()
}

/// Keeps a connection registered as open until its thread ends, even by a panic.
struct RegisteredConnection(Arc<Shared>, u64);

impl Drop for RegisteredConnection {
    fn drop(&mut self) {
        self.0.unregister(self.1);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_all_addresses_is_reached_by_loopback() {
        for (listening, expected) in [
            ("127.0.0.1:4318", "127.0.0.1:4318"),
            ("127.0.0.2:4318", "127.0.0.2:4318"),
            ("0.0.0.0:4318", "127.0.0.1:4318"),
            ("[::]:4318", "[::1]:4318"),
        ] {
            assert_eq!(reachable(listening.parse().unwrap()), expected.parse().unwrap());
        }
    }
}
