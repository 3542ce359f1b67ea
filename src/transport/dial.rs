//! Opens TCP connections: looks up a host, races its addresses, and lets another thread end an attempt.
//!
//! The system's DNS lookup has no timeout, so it runs on its own thread. The lookups of a transport never overlap; an
//! IP address needs none.
//!
//! Addresses are tried by Happy Eyeballs (RFC 8305): IPv6 and IPv4 alternate, and each address has a head start of 250
//! ms before the next one is tried in parallel. The address family that succeeded is tried first the next time, so an
//! unreachable family delays only one connection. Within this family, each connection begins with the address after
//! that of the previous connection, so that the addresses of a headless Kubernetes service take turns, and a server
//! that failed is not asked again at once. std has only blocking connects, so each address gets a short-lived thread. A
//! thread that loses the race ends by the deadline of its attempt and closes its connection.
//!
//! Without threads (`Driver::Caller`), a lookup takes as long as the system takes. Several addresses are tried one
//! after the other: each for at most 250 ms, then each again for an equal share of the remaining time.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::process::{Driver, lock, spawn};

/// Time that each address has before the next address is tried.
const HEAD_START: Duration = Duration::from_millis(250);
/// Maximum threads that connect at the same time, including those that lost an earlier race.
const MAX_THREADS: usize = 4;

type Found = io::Result<Vec<SocketAddr>>;

/// Looks up one host.
#[derive(Debug)]
pub(super) struct Lookup {
    host: String,
    port: u16,
    driver: Driver,
    /// Unfinished lookup of an earlier attempt. The next attempt waits for its result.
    pending: Option<Arc<Mailbox<Found>>>,
}

impl Lookup {
    /// Creates the lookup of a host. An IPv6 address may be in brackets.
    pub(super) fn new(host: &str, port: u16, driver: Driver) -> Self {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Self { host, port, driver, pending: None }
    }

    /// Looks up the host anew at each attempt, because its addresses may change. If an earlier attempt ended before its
    /// lookup, waits for the result of that lookup instead.
    ///
    /// # Errors
    /// Returns `TimedOut` at the deadline, `NotFound` if there is no such host, and otherwise the error of the system.
    pub(super) fn addresses(&mut self, deadline: Instant) -> Found {
        if let Ok(address) = self.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, self.port)]);
        }
        let (host, port) = (self.host.clone(), self.port);
        let ask = move || ask(&host, port);
        let found = match self.driver {
            Driver::OwnThread => Mailbox::call(&mut self.pending, deadline, "standpipe-lookup", ask)?,
            Driver::Caller => Some(ask()),
        };
        let found = found.unwrap_or_else(|| Err(ErrorKind::TimedOut.into()))?;
        if found.is_empty() { Err(ErrorKind::NotFound.into()) } else { Ok(found) }
    }
}

/// Calls the system's resolver.
fn ask(host: &str, port: u16) -> Found {
    #[cfg(test)]
    if let Some(found) = tests::prepared(host) {
        return Ok(found);
    }
    (host, port).to_socket_addrs().map(Iterator::collect)
}

type Results = Mailbox<io::Result<TcpStream>>;

/// Connects to the addresses of one peer.
#[derive(Debug)]
pub(super) struct Dialer {
    driver: Driver,
    pub(super) interrupter: Arc<Interrupter>,
    /// Address of the last connection.
    last: Mutex<Option<SocketAddr>>,
    /// Counts the connecting threads: each holds a clone.
    threads: Arc<()>,
}

impl Dialer {
    pub(super) fn new(interrupter: Arc<Interrupter>, driver: Driver) -> Self {
        Self { driver, interrupter, last: Mutex::default(), threads: Arc::default() }
    }

    /// Connects to the first address that accepts. The interrupter can break the connection.
    ///
    /// # Errors
    /// Returns `TimedOut` at the deadline, `ConnectionAborted` or `TimedOut` if the attempt was interrupted, and
    /// otherwise the error of an address.
    pub(super) fn connect(&self, addresses: &[SocketAddr], deadline: Instant) -> io::Result<Arc<TcpStream>> {
        if self.interrupter.is_broken() {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        let addresses = self.order(addresses);
        lock(&self.interrupter.state).has_choice = addresses.len() > 1;
        let stream = match (&addresses[..], self.driver) {
            // Usually connects without another thread. A blocked connect cannot be interrupted, so it lasts at most
            // one head start.
            ([address], Driver::OwnThread) => match connect(address, time_left(deadline)?.min(HEAD_START)) {
                // Connects again on another thread, so that the attempt can be interrupted.
                Err(error) if error.kind() == ErrorKind::TimedOut => self.race(&addresses, deadline),
                connected => connected,
            },
            ([address], Driver::Caller) => connect(address, time_left(deadline)?),
            (_, Driver::OwnThread) => self.race(&addresses, deadline),
            (_, Driver::Caller) => connect_in_turn(&addresses, deadline),
        }?;
        *lock(&self.last) = stream.peer_addr().ok();
        self.watch(stream)
    }

    fn watch(&self, stream: TcpStream) -> io::Result<Arc<TcpStream>> {
        let stream = Arc::new(stream);
        // An interruption during the connect finds no socket to shut down, but makes `watch` fail.
        self.interrupter.watch(&stream)?;
        Ok(stream)
    }

    /// Connects to a Unix socket on another thread, because the connect waits while the server's queue of clients is
    /// full. Without threads, the wait has no limit.
    ///
    /// # Errors
    /// Returns the errors of [`connect`](Self::connect), with advice about missing files and permissions.
    pub(super) fn connect_to_socket(&self, socket: &str, deadline: Instant) -> io::Result<Arc<TcpStream>> {
        let left = time_left(deadline)?;
        if self.interrupter.is_broken() {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        let (results, own) = (Arc::new(Results::new()), socket.to_owned());
        lock(&self.interrupter.state).race = Arc::downgrade(&results);
        match self.driver {
            Driver::OwnThread if self.start(&results, move || connect_unix(&own)) => {
                self.watch(results.take(left).unwrap_or_else(|| Err(ErrorKind::TimedOut.into()))?)
            }
            // No thread was started, usually because `MAX_THREADS` threads wait for a server that accepts no clients.
            Driver::OwnThread => Err(ErrorKind::TimedOut.into()),
            Driver::Caller => self.watch(connect_unix(socket)?),
        }
    }

    /// Returns the addresses with alternating families. The address of the last connection is tried last in its family.
    fn order(&self, addresses: &[SocketAddr]) -> Vec<SocketAddr> {
        let last = *lock(&self.last);
        let prefers_ipv4 = last.is_some_and(|last| last.is_ipv4());
        let (mut preferred, others): (Vec<SocketAddr>, Vec<_>) =
            addresses.iter().copied().partition(|address: &SocketAddr| address.is_ipv4() == prefers_ipv4);
        if let Some(at) = preferred.iter().position(|address| Some(*address) == last) {
            preferred.rotate_left(at + 1);
        }
        let pairs = (0..addresses.len()).flat_map(|at| [preferred.get(at), others.get(at)]);
        pairs.flatten().copied().collect()
    }

    fn race(&self, addresses: &[SocketAddr], deadline: Instant) -> io::Result<TcpStream> {
        // With more addresses than threads, some addresses wait until others have failed, and need a share of the time.
        let share = time_left(deadline)? / addresses.len().div_ceil(MAX_THREADS) as u32;
        let (results, mut waiting, mut running) = (Arc::new(Results::new()), addresses, 0_usize);
        lock(&self.interrupter.state).race = Arc::downgrade(&results);
        let mut failure = ErrorKind::TimedOut.into();
        while !self.interrupter.is_broken() {
            let Ok(left) = time_left(deadline) else { break };
            match waiting {
                &[address, ref rest @ ..]
                    if self.start(&results, move || connect(&address, share.min(left))) =>
                {
                    (waiting, running) = (rest, running + 1);
                }
                // No thread can be started, so this thread connects.
                [_, ..] if running == 0 => return connect_in_turn(waiting, deadline),
                [] if running == 0 => break,
                _ => {}
            }
            match results.take(left.min(HEAD_START)) {
                Some(Ok(stream)) => return Ok(stream),
                // An error of the interrupter comes from no thread. It makes the count wrong, but also ends the loop.
                Some(Err(error)) => (running, failure) = (running.saturating_sub(1), clearer(failure, error)),
                None => {}
            }
        }
        Err(failure)
    }

    /// Starts a thread that connects. Returns false if there are too many threads or none can be started.
    fn start(
        &self,
        results: &Arc<Results>,
        connect: impl FnOnce() -> io::Result<TcpStream> + Send + 'static,
    ) -> bool {
        let thread = Arc::clone(&self.threads);
        // The count includes the references of `self` and `thread`; each of the others belongs to a connecting thread.
        if Arc::strong_count(&self.threads) > MAX_THREADS + 1 {
            return false;
        }
        // Weak, so that a thread that loses the race does not keep the results of the race alive.
        let results = Arc::downgrade(results);
        spawn("standpipe-connect", move || {
            let connected = connect();
            // After the race, dropping the result closes the connection.
            if let Some(results) = results.upgrade() {
                results.put(connected);
            }
            drop(thread);
        })
        .is_ok()
    }
}

/// Tries each address for at most [`HEAD_START`], then each again for an equal share of the remaining time.
fn connect_in_turn(addresses: &[SocketAddr], deadline: Instant) -> io::Result<TcpStream> {
    let mut failure = ErrorKind::TimedOut.into();
    let turns = 2 * addresses.len();
    for (turn, address) in addresses.iter().cycle().take(turns).enumerate() {
        let share = time_left(deadline)? / (turns - turn) as u32;
        let timeout = if turn < addresses.len() { share.min(HEAD_START) } else { share };
        match connect(address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = clearer(failure, error),
        }
    }
    Err(failure)
}

/// Returns the more informative error: a refusal rather than a timeout.
fn clearer(before: io::Error, now: io::Error) -> io::Error {
    if now.kind() == ErrorKind::TimedOut { before } else { now }
}

/// A channel with one receiver, newest message first. Those of std and crossbeam would add 11 KB to a small binary.
#[derive(Debug)]
pub(super) struct Mailbox<T> {
    messages: Mutex<Vec<T>>,
    has_more: Condvar,
}

impl<T: Send + 'static> Mailbox<T> {
    pub(super) fn new() -> Self {
        Self { messages: Mutex::default(), has_more: Condvar::new() }
    }

    /// Calls a function on a thread of this name, and waits for the result until `end`. If the function takes longer,
    /// `pending` keeps its mailbox, and the next call with this `pending` waits for the same result.
    pub(super) fn call(
        pending: &mut Option<Arc<Self>>,
        end: Instant,
        thread: &'static str,
        function: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Option<T>> {
        let unfinished = pending.take();
        let mailbox = unfinished.clone().unwrap_or_else(|| Arc::new(Self::new()));
        if unfinished.is_none() {
            let own = Arc::clone(&mailbox);
            spawn(thread, move || own.put(function()))?;
        }
        let result = mailbox.take(end.saturating_duration_since(Instant::now()));
        *pending = result.is_none().then_some(mailbox);
        Ok(result)
    }

    pub(super) fn put(&self, message: T) {
        lock(&self.messages).push(message);
        self.has_more.notify_one();
    }

    /// Waits up to `longest` for a message.
    pub(super) fn take(&self, longest: Duration) -> Option<T> {
        let waited = self.has_more.wait_timeout_while(lock(&self.messages), longest, |it| it.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0.pop()
    }
}

/// Connects to one address.
///
/// # Errors
/// Returns `TimedOut` after `timeout`, and otherwise the error of the system.
pub(super) fn connect(address: &SocketAddr, timeout: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(address, timeout)?;
    // Each write is already a complete piece; Nagle's algorithm would only delay its last packet.
    stream.set_nodelay(true).map(|()| stream)
}

/// Connects to a Unix socket: a path, or a null character and an abstract name.
///
/// Returns the socket as a `TcpStream`, so that the callers need only one type. Reads, writes, timeouts and shutdown
/// are the same system calls for both kinds of sockets; only TCP options, such as `set_nodelay`, would fail.
#[cfg(unix)]
fn connect_unix(socket: &str) -> io::Result<TcpStream> {
    #[cfg(target_os = "android")]
    use std::os::android::net::SocketAddrExt;
    use std::os::fd::OwnedFd;
    #[cfg(target_os = "linux")]
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixStream};
    let address = match socket.strip_prefix('\0') {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        Some(name) => SocketAddr::from_abstract_name(name),
        // On other systems, the configuration refuses abstract names.
        _ => SocketAddr::from_pathname(socket),
    };
    let stream = UnixStream::connect_addr(&address?).map_err(|error| {
        let advice = match error.kind() {
            ErrorKind::NotFound => "no such socket; is the collector running, and does it listen at this path?",
            ErrorKind::ConnectionRefused => "connection refused: no program listens at this socket",
            ErrorKind::PermissionDenied => {
                "permission denied; this user needs write permission for the socket and access to its directory"
            }
            _ => return error,
        };
        io::Error::new(error.kind(), advice)
    })?;
    Ok(OwnedFd::from(stream).into())
}

#[cfg(not(unix))]
fn connect_unix(_: &str) -> io::Result<TcpStream> {
    Err(ErrorKind::Unsupported.into())
}

/// Returns the time until the deadline, or `TimedOut`. The time is never zero, which std refuses as a socket timeout.
pub(super) fn time_left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
    left.ok_or_else(|| ErrorKind::TimedOut.into())
}

/// Returns whether an error shows that the peer has stopped reading. The peer may have sent the reason before.
pub(super) fn is_hang_up(error: &io::Error) -> bool {
    // Windows may report `ConnectionAborted`.
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted)
}

/// Lets another thread end the current attempt, or all attempts.
#[derive(Debug, Default)]
pub(crate) struct Interrupter {
    state: Mutex<State>,
    /// Message about the certificates, from the connector to the transport.
    pub(super) notice: Mutex<Option<String>>,
}

#[derive(Debug, Default)]
struct State {
    is_interrupted_for_good: bool,
    is_cut: bool,
    /// True if the host of the last connection has several addresses.
    has_choice: bool,
    socket: Weak<TcpStream>,
    /// Results that the attempt waits for. An interruption ends the wait by adding an error.
    race: Weak<Results>,
}

impl Interrupter {
    pub(super) fn forget_cut(&self) {
        lock(&self.state).is_cut = false;
    }

    /// Registers the socket that an interruption shuts down.
    ///
    /// # Errors
    /// Returns `ConnectionAborted` if the attempt was already ended.
    pub(super) fn watch(&self, socket: &Arc<TcpStream>) -> io::Result<()> {
        let mut state = lock(&self.state);
        state.socket = Arc::downgrade(socket);
        if state.is_broken() { Err(ErrorKind::ConnectionAborted.into()) } else { Ok(()) }
    }

    /// Returns whether this attempt was ended.
    pub(super) fn is_broken(&self) -> bool {
        lock(&self.state).is_broken()
    }

    /// Ends this attempt and all later ones.
    pub(super) fn interrupt_for_good(&self) {
        self.end(|state| state.is_interrupted_for_good = true);
    }

    /// Ends this attempt and later ones, until [`forget_cut`](Self::forget_cut).
    pub(super) fn cut(&self) {
        self.end(|state| state.is_cut = true);
    }

    /// Marks the state, then ends the attempt: wakes a wait for results, and shuts the connection down.
    fn end(&self, mark: fn(&mut State)) {
        let mut state = lock(&self.state);
        mark(&mut state);
        if let Some(race) = state.race.upgrade() {
            race.put(Err(ErrorKind::TimedOut.into()));
        }
        state.shut_down();
    }

    /// Shuts the idle connection down if the host has several addresses. The next attempt can then use another address.
    pub(super) fn discard(&self) {
        let state = lock(&self.state);
        if state.has_choice {
            state.shut_down();
        }
    }
}

impl State {
    fn is_broken(&self) -> bool {
        self.is_interrupted_for_good || self.is_cut
    }

    fn shut_down(&self) {
        if let Some(socket) = self.socket.upgrade() {
            // An error means that the socket is already disconnected.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
