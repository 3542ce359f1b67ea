//! State that all threads of a receiver share: one mutex, one condition variable.

use std::collections::HashMap;
use std::fmt;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::budget::Budget;
use super::listener::reachable;
use super::refusal::{Hosts, RefusedRequest};
use super::request_sink::Script;
use super::store::{Batch, Store};

/// Time that a stop waits for threads to finish their answers and to send GOAWAY. Only a client that does not read, or
/// an overloaded machine, takes all of it.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// Time that a stop waits for threads in a callback of the user.
const CALLBACK_TIMEOUT: Duration = Duration::from_millis(80);

/// Maximum threads that answer gRPC calls of all connections, in addition to one per connection.
const MAX_ANSWERING_THREADS: usize = 256;
/// Time after an answer during which a connection does not count as idle, because the client may still be reading.
const READ_GRACE: Duration = Duration::from_millis(20);
/// Maximum time that the writing of a chosen answer keeps a connection from counting as idle. Once the answer is
/// written, [`READ_GRACE`] applies.
const ANSWER_GRACE: Duration = Duration::from_secs(1);
/// Maximum time that a new connection waits for an idle one to replace.
const ADMISSION_TIMEOUT: Duration = Duration::from_secs(2);

/// The builder's settings.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) max_body_bytes: usize,
    pub(super) max_memory_bytes: usize,
    pub(super) max_header_bytes: usize,
    pub(super) max_connections: usize,
    pub(super) read_timeout: Duration,
    pub(super) local_hosts_only: bool,
    /// Origins whose web pages may send, in addition to those on this machine; `None` accepts no web page.
    pub(super) allowed_origins: Option<Vec<String>>,
    pub(super) on_batch: Option<Callback<Batch>>,
    pub(super) on_refusal: Option<Callback<RefusedRequest>>,
}

/// A callback of the user.
pub(super) struct Callback<T>(pub(super) Box<dyn Fn(&T) + Send + Sync>);

impl<T> fmt::Debug for Callback<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callback")
    }
}

/// Addresses at which clients on this machine reach the listeners, and the hosts that requests may name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Addresses {
    pub(super) http: SocketAddr,
    pub(super) grpc: SocketAddr,
    /// Addresses of the listeners for HTTP and for gRPC.
    pub(super) bound: [SocketAddr; 2],
    pub(super) http_hosts: Hosts,
    pub(super) grpc_hosts: Hosts,
}

impl Addresses {
    pub(super) fn of_listeners(http: SocketAddr, grpc: SocketAddr, local_only: bool) -> Self {
        Self {
            http: reachable(http),
            grpc: reachable(grpc),
            bound: [http, grpc],
            http_hosts: Hosts::of(http.ip(), local_only),
            grpc_hosts: Hosts::of(grpc.ip(), local_only),
        }
    }
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) addresses: Addresses,
    pub(super) budget: Arc<Budget>,
    /// Permits for answering threads, in addition to one per connection.
    pub(super) threads: Arc<Budget>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) store: Store,
    pub(super) script: Script,
    /// Number of open listeners, which close a moment after the stop.
    pub(super) listening: usize,
    pub(super) stopped: bool,
    pub(super) paused: bool,
    /// Number of requests that wait for the end of a pause, or that are never read because of their answer.
    pub(super) held: u64,
    /// Number of admitted connections since the start.
    pub(super) connection_count: u64,
    /// Open connections, so that a stop can close them.
    pub(super) open: HashMap<u64, Open>,
}

/// An open connection.
#[derive(Debug)]
pub(super) struct Open {
    socket: Arc<TcpStream>,
    /// Number of requests at each stage.
    stages: [usize; Stage::COUNT],
    /// When an answer was last chosen or a request last decoded; `None` if the connection never sent a valid request.
    last_valid_request: Option<Instant>,
    /// When a request last changed its stage, or the connection was opened.
    since: Instant,
}

/// Stage of a request between its last byte and the end of its answer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stage {
    /// The request was decoded and waits for its answer. A stop ends the wait.
    Held,
    /// A callback of the user is running, which cannot be interrupted.
    InCallback,
    /// The answer is being written.
    Answering,
}

impl Stage {
    const COUNT: usize = 3;
}

impl Open {
    fn has(&self, stage: Stage) -> bool {
        self.stages[stage as usize] > 0
    }

    /// Returns when another connection may replace this one. The caller checks that this one is idle.
    fn replaceable_from(&self) -> Instant {
        self.since + if self.has(Stage::Answering) { ANSWER_GRACE } else { READ_GRACE }
    }

    fn move_request(&mut self, from: Option<Stage>, to: Option<Stage>) {
        from.into_iter().for_each(|stage| self.stages[stage as usize] -= 1);
        to.into_iter().for_each(|stage| self.stages[stage as usize] += 1);
        self.since = Instant::now();
        // A refusal is also an answer, but must not protect a client that never sent a valid request from replacement.
        let sent_valid_request = self.last_valid_request.is_some() && matches!(to, Some(Stage::Answering));
        if sent_valid_request || matches!(to, Some(Stage::Held)) {
            self.last_valid_request = Some(self.since);
        }
    }
}

impl State {
    fn shut(&self, how: Shutdown) {
        for open in self.open.values() {
            // An error means that the client has already closed the connection.
            let _ = open.socket.shutdown(how);
        }
    }

    /// Returns whether all answers are written and the remaining threads are in callbacks. On Windows, a thread that
    /// waits for a client is not woken when its socket is shut down, so such threads may remain, too.
    fn is_settled(&self) -> bool {
        let is_settled = |open: &Open| cfg!(windows) || open.has(Stage::InCallback);
        self.open.values().all(|open| is_settled(open) && !open.has(Stage::Answering))
    }

    /// Returns the connection that has been idle for longest, and when it may be replaced. Connections that never sent
    /// a valid request come first, so clients that only connect cannot displace clients that send.
    fn idlest(&self) -> Option<(u64, Instant)> {
        let is_idle = |open: &Open| !open.has(Stage::Held) && !open.has(Stage::InCallback);
        let idle = self.open.iter().filter(|(_, open)| is_idle(open));
        // Ordered by `last_valid_request`, which is set before the client has its answer. `replaceable_from` depends on
        // when the thread records the end of the answer, possibly long after the client has read it.
        let (number, open) = idle.min_by_key(|(_, open)| (open.last_valid_request, open.since))?;
        Some((*number, open.replaceable_from()))
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
        let threads = Budget::new(MAX_ANSWERING_THREADS);
        Self { settings, addresses, budget, threads, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Calls `look` with the state.
    pub(super) fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.lock())
    }

    /// Changes the state and wakes all threads that wait for a change.
    pub(super) fn change<T>(&self, edit: impl FnOnce(&mut State) -> T) -> T {
        let result = edit(&mut self.state.lock());
        self.changed.notify_all();
        result
    }

    /// Waits until `reached` returns true, for at most `timeout`. Returns the last result of `reached`.
    pub(super) fn wait_until(&self, timeout: Duration, reached: impl Fn(&State) -> bool) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while_for(&mut state, |state| !reached(state), timeout);
        reached(&state)
    }

    /// Waits for `time`. Returns false if the receiver was stopped, which ends the wait.
    pub(super) fn rest(&self, time: Duration) -> bool {
        !self.wait_until(time, |state| state.stopped)
    }

    /// Holds a request while `is_held` returns true. Returns false if the receiver was stopped, which ends the wait.
    pub(super) fn hold_while(&self, is_held: impl Fn(&State) -> bool) -> bool {
        let mut state = self.state.lock();
        if is_held(&state) && !state.stopped {
            state.held += 1;
            self.changed.notify_all();
            self.changed.wait_while(&mut state, |state| is_held(state) && !state.stopped);
            state.held -= 1;
        }
        !state.stopped
    }

    /// Admits a connection and returns its number. At the limit, the new connection replaces the one that has been
    /// idle for longest. Returns `None` if the receiver was stopped, if all connections wait for an answer, or if none
    /// can be replaced within [`ADMISSION_TIMEOUT`].
    pub(super) fn admit(&self, socket: &Arc<TcpStream>) -> Option<u64> {
        let started = Instant::now();
        let mut state = self.state.lock();
        while state.open.len() >= self.settings.max_connections && !state.stopped {
            let (idlest, replaceable_from) = state.idlest()?;
            let now = Instant::now();
            if replaceable_from <= now {
                let pushed_out = state.open.remove(&idlest);
                // The thread of the replaced connection sees the end of input and ends.
                pushed_out.map(|open| open.socket.shutdown(Shutdown::Both));
            } else if now.duration_since(started) < ADMISSION_TIMEOUT {
                // Every change of the state ends this wait early; the loop then looks for the idlest connection again.
                self.changed.wait_until(&mut state, replaceable_from);
            } else {
                return None;
            }
        }
        if state.stopped {
            return None;
        }
        state.connection_count += 1;
        let number = state.connection_count;
        let stages = [0; Stage::COUNT];
        let open = Open { socket: socket.clone(), stages, last_valid_request: None, since: Instant::now() };
        state.open.insert(number, open);
        drop(state);
        self.changed.notify_all();
        Some(number)
    }

    /// Registers a request of this connection at a stage, until the returned guard is dropped.
    pub(super) fn begin_request(&self, connection: u64, stage: Stage) -> ActiveRequest<'_> {
        let mut request = ActiveRequest { shared: self, connection, stage: None };
        request.enter(stage);
        request
    }

    pub(super) fn unregister(&self, connection: u64) {
        // Dropped outside the lock: if this is the last handle, dropping closes the socket.
        let open = self.change(|state| state.open.remove(&connection));
        drop(open);
    }

    /// Ends all waits, then all connections, and waits for their threads: only briefly for those in callbacks.
    pub(super) fn stop(&self) {
        // After this change, a thread ends unless it is in a callback or its client does not read its answer.
        self.change(|state| {
            state.stopped = true;
            // Only the reading side is shut down: threads see the end of input, and can still write their answers.
            state.shut(Shutdown::Read);
        });
        self.wait_until(STOP_TIMEOUT, State::is_settled);
        self.wait_until(CALLBACK_TIMEOUT, |state| state.open.is_empty());
        self.change(|state| state.shut(Shutdown::Both));
        // Threads that were blocked in a write fail now, and end.
        self.wait_until(STOP_TIMEOUT, State::is_settled);
    }

    /// Returns the deadline of a request that starts now.
    pub(super) fn read_deadline(&self) -> Option<Instant> {
        Instant::now().checked_add(self.settings.read_timeout)
    }
}

/// A request being handled, until its answer is written.
pub(super) struct ActiveRequest<'a> {
    shared: &'a Shared,
    connection: u64,
    stage: Option<Stage>,
}

impl ActiveRequest<'_> {
    /// Moves the request to a stage. `None` ends the request.
    pub(super) fn enter(&mut self, stage: impl Into<Option<Stage>>) {
        let stage = stage.into();
        let from = std::mem::replace(&mut self.stage, stage);
        self.shared.change(|state| {
            // Another connection may have replaced this one.
            if let Some(open) = state.open.get_mut(&self.connection) {
                open.move_request(from, stage);
            }
        });
    }
}

impl Drop for ActiveRequest<'_> {
    fn drop(&mut self) {
        self.enter(None);
    }
}
