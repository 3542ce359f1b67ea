//! What all threads of a receiver share: one lock, one condition variable.

use std::collections::HashMap;
use std::fmt;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::budget::Budget;
use super::script::Script;
use super::store::{Batch, Store};

/// How long stopping waits for threads to say farewell to their clients.
const FAREWELL: Duration = Duration::from_millis(20);
/// How long it waits for threads that are busy in a callback of the user's.
const PATIENCE: Duration = Duration::from_millis(80);

/// What the builder settled.
pub(super) struct Settings {
    pub(super) max_body_bytes: usize,
    pub(super) max_memory_bytes: usize,
    pub(super) max_header_bytes: usize,
    pub(super) max_connections: usize,
    pub(super) read_timeout: Duration,
    pub(super) on_batch: Option<OnBatch>,
}

pub(super) type OnBatch = Box<dyn Fn(&Batch) + Send + Sync>;

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("max_body_bytes", &self.max_body_bytes)
            .field("max_memory_bytes", &self.max_memory_bytes)
            .field("max_header_bytes", &self.max_header_bytes)
            .field("max_connections", &self.max_connections)
            .field("read_timeout", &self.read_timeout)
            .finish_non_exhaustive()
    }
}

/// Where clients on this machine find the receiver.
#[derive(Debug, Clone, Copy)]
pub(super) struct Doors {
    pub(super) http: SocketAddr,
    pub(super) grpc: SocketAddr,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) doors: Doors,
    pub(super) budget: Arc<Budget>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) store: Store,
    pub(super) script: Script,
    /// Doors where someone listens, which is so for a moment after the receiver was stopped.
    pub(super) listening: usize,
    pub(super) stopped: bool,
    pub(super) paused: bool,
    /// Requests that wait for the pause to end.
    pub(super) held: u64,
    /// Connections ever admitted.
    pub(super) connection_count: u64,
    /// Those that are open, so that stopping can close them.
    pub(super) open: HashMap<u64, Arc<TcpStream>>,
}

impl State {
    fn shut(&self, how: Shutdown) {
        for socket in self.open.values() {
            // an error means that the client was faster
            let _ = socket.shutdown(how);
        }
    }
}

impl Shared {
    pub(super) fn new(settings: Settings, doors: Doors, store: Store, script: Script) -> Self {
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
        Self { settings, doors, budget, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Reads the state.
    pub(super) fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.lock())
    }

    /// Changes the state and wakes whoever waits for a change.
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

    /// Lets a new connection in and gives it a number, unless there are too many or the receiver was stopped.
    pub(super) fn admit(&self, socket: &Arc<TcpStream>) -> Option<u64> {
        self.change(|state| {
            if state.stopped || state.open.len() >= self.settings.max_connections {
                return None;
            }
            state.connection_count += 1;
            state.open.insert(state.connection_count, socket.clone());
            Some(state.connection_count)
        })
    }

    pub(super) fn dismiss(&self, connection: u64) {
        // closed outside the lock, should this be its last handle
        let socket = self.change(|state| state.open.remove(&connection));
        drop(socket);
    }

    /// Ends all waits, then all connections, and waits a moment for their threads.
    pub(super) fn stop(&self) {
        // those who only read can take their leave, if they are quick
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
