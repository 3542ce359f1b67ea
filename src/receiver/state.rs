//! What all threads of a receiver share: one lock, one condition variable.

use std::collections::HashMap;
use std::fmt;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::budget::Budget;
use super::budget::Permits;
use super::hosts::Hosts;
use super::refusal::RefusedRequest;
use super::request_sink::Script;
use super::store::{Batch, Store};

/// How long stopping waits for threads to send GOAWAY to their clients.
const FAREWELL: Duration = Duration::from_millis(20);
/// How long it waits for threads that are busy in a callback of the user's.
const PATIENCE: Duration = Duration::from_millis(80);

/// Threads that answer calls over gRPC, on all connections, beyond the one that each connection has for itself.
const ANSWERING_THREADS: usize = 256;
/// How long after an answer a connection does not count as idle: the client may still be about to read it.
const JUST_ANSWERED: Duration = Duration::from_millis(20);
/// How long a newcomer waits for a place, at most.
const WAIT_FOR_PLACE: Duration = Duration::from_millis(100);

/// What the builder settled.
pub(super) struct Settings {
    pub(super) max_body_bytes: usize,
    pub(super) max_memory_bytes: usize,
    pub(super) max_header_bytes: usize,
    pub(super) max_connections: usize,
    pub(super) read_timeout: Duration,
    pub(super) local_hosts_only: bool,
    pub(super) on_batch: Option<OnBatch>,
    pub(super) on_refusal: Option<OnRefusal>,
}

pub(super) type OnBatch = Box<dyn Fn(&Batch) + Send + Sync>;
pub(super) type OnRefusal = Box<dyn Fn(&RefusedRequest) + Send + Sync>;

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("max_body_bytes", &self.max_body_bytes)
            .field("max_memory_bytes", &self.max_memory_bytes)
            .field("max_header_bytes", &self.max_header_bytes)
            .field("max_connections", &self.max_connections)
            .field("read_timeout", &self.read_timeout)
            .field("local_hosts_only", &self.local_hosts_only)
            .finish_non_exhaustive()
    }
}

/// Where clients on this machine find the receiver, and what they may call it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Addresses {
    pub(super) http: SocketAddr,
    pub(super) grpc: SocketAddr,
    pub(super) http_hosts: Hosts,
    pub(super) grpc_hosts: Hosts,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) addresses: Addresses,
    pub(super) budget: Arc<Budget>,
    /// For threads that answer, beyond the one that each connection has.
    pub(super) threads: Arc<Permits>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) store: Store,
    pub(super) script: Script,
    /// Addresses where a listener is open, which is so for a moment after the receiver was stopped.
    pub(super) listening: usize,
    pub(super) stopped: bool,
    pub(super) paused: bool,
    /// Requests that wait for the pause to end.
    pub(super) held: u64,
    /// Connections ever admitted.
    pub(super) connection_count: u64,
    /// Those that are open, so that stopping can close them.
    pub(super) open: HashMap<u64, Open>,
}

/// A connection that is open.
#[derive(Debug)]
pub(super) struct Open {
    socket: Arc<TcpStream>,
    /// Requests that were decoded and are not answered yet.
    in_hand: usize,
    /// Whether it ever brought a request that could be decoded.
    has_brought: bool,
    /// When the last such request was answered, or the connection began.
    since: Instant,
}

impl State {
    fn shut(&self, how: Shutdown) {
        for open in self.open.values() {
            // an error means that the client was faster
            let _ = open.socket.shutdown(how);
        }
    }

    /// The connection that brought nothing for longest, and since when; first those that never brought anything, so that
    /// clients that send cannot be pushed out by clients that only connect.
    fn idlest(&self) -> Option<(u64, Instant)> {
        let idle = self.open.iter().filter(|(_, open)| open.in_hand == 0);
        let (number, open) = idle.min_by_key(|(_, open)| (open.has_brought, open.since))?;
        Some((*number, open.since))
    }
}

impl Shared {
    pub(super) fn new(settings: Settings, addresses: Addresses, store: Store, script: Script) -> Self {
        let state = State {
            store,
            script,
            listening: 0,
            stopped: false,
            paused: false,
            held: 0,
            connection_count: 0,
            open: HashMap::new(),
        };
        let budget = Budget::new(settings.max_memory_bytes);
        let threads = Permits::new(ANSWERING_THREADS);
        Self { settings, addresses, budget, threads, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Reads the state.
    pub(super) fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.lock())
    }

    /// Changes the state and wakes all that wait for a change.
    pub(super) fn change<T>(&self, edit: impl FnOnce(&mut State) -> T) -> T {
        let result = edit(&mut self.state.lock());
        self.changed.notify_all();
        result
    }

    /// Waits until `reached` or the end of `timeout`, and says whether it was reached.
    pub(super) fn wait_until(&self, timeout: Duration, reached: impl Fn(&State) -> bool) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while_for(&mut state, |state| !reached(state), timeout);
        reached(&state)
    }

    /// Waits for `time`, and says whether to go on: `false` if the receiver was stopped.
    pub(super) fn rest(&self, time: Duration) -> bool {
        !self.wait_until(time, |state| state.stopped)
    }

    /// Waits until the receiver is stopped.
    pub(super) fn rest_for_good(&self) {
        self.changed.wait_while(&mut self.state.lock(), |state| !state.stopped);
    }

    /// Waits while the receiver is paused, and says whether to go on.
    pub(super) fn pass_gate(&self) -> bool {
        let mut state = self.state.lock();
        if state.paused && !state.stopped {
            state.held += 1;
            self.changed.notify_all();
            self.changed.wait_while(&mut state, |state| state.paused && !state.stopped);
            state.held -= 1;
        }
        !state.stopped
    }

    /// Lets a new connection in and gives it a number, unless the receiver was stopped or there are too many, all of which
    /// wait for an answer. Else it takes the place of the one that brought nothing for longest.
    pub(super) fn admit(&self, socket: &Arc<TcpStream>) -> Option<u64> {
        let started = Instant::now();
        let mut state = self.state.lock();
        while state.open.len() >= self.settings.max_connections && !state.stopped {
            let (idlest, since) = state.idlest()?;
            let now = Instant::now();
            let ripe = since + JUST_ANSWERED;
            if ripe <= now {
                let pushed_out = state.open.remove(&idlest);
                // its thread sees the end of the connection, and ends
                pushed_out.map(|open| open.socket.shutdown(Shutdown::Both));
            } else if now.duration_since(started) < WAIT_FOR_PLACE {
                self.changed.wait_until(&mut state, ripe);
            } else {
                return None;
            }
        }
        if state.stopped {
            return None;
        }
        state.connection_count += 1;
        let number = state.connection_count;
        let open = Open { socket: socket.clone(), in_hand: 0, has_brought: false, since: Instant::now() };
        state.open.insert(number, open);
        drop(state);
        self.changed.notify_all();
        Some(number)
    }

    /// A request of this connection was decoded, and is in hand until what is returned is dropped.
    pub(super) fn begin_request(&self, connection: u64) -> ActiveRequest<'_> {
        self.change(|state| {
            if let Some(open) = state.open.get_mut(&connection) {
                open.in_hand += 1;
                open.has_brought = true;
            }
        });
        ActiveRequest { shared: self, connection }
    }

    pub(super) fn unregister(&self, connection: u64) {
        // closed outside the lock, should this be its last handle
        let open = self.change(|state| state.open.remove(&connection));
        drop(open);
    }

    /// Ends all waits, then all connections, and waits a moment for their threads.
    pub(super) fn stop(&self) {
        // threads that only read can end in good order, if they are quick
        self.change(|state| {
            state.stopped = true;
            state.shut(Shutdown::Read);
        });
        if !self.wait_until(FAREWELL, |state| state.open.is_empty()) {
            self.change(|state| state.shut(Shutdown::Both));
            self.wait_until(PATIENCE, |state| state.open.is_empty());
        }
    }

    /// The instant by which a request that starts now must be there.
    pub(super) fn read_deadline(&self) -> Option<Instant> {
        Instant::now().checked_add(self.settings.read_timeout)
    }
}

/// A request being handled: its connection is not idle.
pub(super) struct ActiveRequest<'a> {
    shared: &'a Shared,
    connection: u64,
}

impl Drop for ActiveRequest<'_> {
    fn drop(&mut self) {
        self.shared.change(|state| {
            if let Some(open) = state.open.get_mut(&self.connection) {
                open.in_hand -= 1;
                open.since = Instant::now();
            }
        });
    }
}
