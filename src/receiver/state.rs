//! What all threads of a receiver share: one lock, one condition variable.

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

/// How long stopping waits for threads to finish their answers and to send GOAWAY. Only a client that does not read needs it
/// all, or a machine that gives a thread no time to run.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long it waits for threads that are busy in a callback of the user's.
const PATIENCE: Duration = Duration::from_millis(80);

/// Threads that answer calls over gRPC, on all connections, beyond the one that each connection has for itself.
const ANSWERING_THREADS: usize = 256;
/// How long after an answer a connection does not count as idle: the client may still be about to read it.
const JUST_ANSWERED: Duration = Duration::from_millis(20);
/// How long after an answer was decided a connection does not count as idle, unless the answer is written sooner.
const ANSWERING: Duration = Duration::from_secs(1);
/// How long a newcomer waits for a place, at most.
const WAIT_FOR_PLACE: Duration = Duration::from_secs(2);

/// What the builder settled.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) max_body_bytes: usize,
    pub(super) max_memory_bytes: usize,
    pub(super) max_header_bytes: usize,
    pub(super) max_connections: usize,
    pub(super) read_timeout: Duration,
    pub(super) local_hosts_only: bool,
    pub(super) on_batch: Option<Callback<Batch>>,
    pub(super) on_refusal: Option<Callback<RefusedRequest>>,
}

/// A function of the user's.
pub(super) struct Callback<T>(pub(super) Box<dyn Fn(&T) + Send + Sync>);

impl<T> fmt::Debug for Callback<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Callback")
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

impl Addresses {
    pub(super) fn of_listeners(http: SocketAddr, grpc: SocketAddr, local_only: bool) -> Self {
        Self {
            http: reachable(http),
            grpc: reachable(grpc),
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
    /// For threads that answer, beyond the one that each connection has.
    pub(super) threads: Arc<Budget>,
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
    /// Requests that wait for the pause to end, or are never read.
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
    /// How many requests are at each stage.
    stages: [usize; Stage::COUNT],
    /// When an answer was last decided, or a request last decoded, if it ever brought one that could be.
    brought: Option<Instant>,
    /// When a request last changed its stage, or the connection began.
    since: Instant,
}

/// What becomes of a request that was read, until its answer is written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stage {
    /// It was decoded and waits for its answer, which stopping ends.
    Held,
    /// A callback of the user's looks at it, which nothing ends.
    InCallback,
    /// Its answer is being written.
    Answering,
}

impl Stage {
    const COUNT: usize = 3;
}

impl Open {
    fn has(&self, stage: Stage) -> bool {
        self.stages[stage as usize] > 0
    }

    fn is_idle(&self) -> bool {
        !self.has(Stage::Held) && !self.has(Stage::InCallback)
    }

    /// When it may be pushed out, if it is idle.
    fn ripe(&self) -> Instant {
        self.since + if self.has(Stage::Answering) { ANSWERING } else { JUST_ANSWERED }
    }

    fn move_request(&mut self, from: Option<Stage>, to: Option<Stage>) {
        from.into_iter().for_each(|stage| self.stages[stage as usize] -= 1);
        to.into_iter().for_each(|stage| self.stages[stage as usize] += 1);
        self.since = Instant::now();
        let is_brought = self.brought.is_some() && matches!(to, Some(Stage::Answering));
        if is_brought || matches!(to, Some(Stage::Held)) {
            self.brought = Some(self.since);
        }
    }
}

impl State {
    fn shut(&self, how: Shutdown) {
        for open in self.open.values() {
            // an error means that the client was faster
            let _ = open.socket.shutdown(how);
        }
    }

    /// Whether no thread is left that a stop ends in good order: all answers are written, and the rest is busy in callbacks. A
    /// thread of Windows that waits for a client is not woken when its socket is shut.
    fn is_settled(&self) -> bool {
        let is_settled = |open: &Open| cfg!(windows) || open.has(Stage::InCallback);
        self.open.values().all(|open| is_settled(open) && !open.has(Stage::Answering))
    }

    /// The connection that brought nothing for longest, and when it may be pushed out; first those that never brought
    /// anything, so that clients that send cannot be pushed out by clients that only connect.
    fn idlest(&self) -> Option<(u64, Instant)> {
        let idle = self.open.iter().filter(|(_, open)| open.is_idle());
        // not by when it is ripe, as a thread may note the end of its answer long after the client has read that
        let (number, open) = idle.min_by_key(|(_, open)| (open.brought, open.since))?;
        Some((*number, open.ripe()))
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
        let threads = Budget::new(ANSWERING_THREADS);
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

    /// Holds a request until the receiver is stopped.
    pub(super) fn rest_for_good(&self) {
        self.change(|state| state.held += 1);
        self.changed.wait_while(&mut self.state.lock(), |state| !state.stopped);
        self.change(|state| state.held -= 1);
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
            let (idlest, ripe) = state.idlest()?;
            let now = Instant::now();
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
        let stages = [0; Stage::COUNT];
        let open = Open { socket: socket.clone(), stages, brought: None, since: Instant::now() };
        state.open.insert(number, open);
        drop(state);
        self.changed.notify_all();
        Some(number)
    }

    /// A request of this connection was read, and is at a stage until what is returned is dropped.
    pub(super) fn begin_request(&self, connection: u64, stage: Stage) -> ActiveRequest<'_> {
        let mut request = ActiveRequest { shared: self, connection, stage: None };
        request.enter(stage);
        request
    }

    pub(super) fn unregister(&self, connection: u64) {
        // closed outside the lock, should this be its last handle
        let open = self.change(|state| state.open.remove(&connection));
        drop(open);
    }

    /// Ends all waits, then all connections, and waits for their threads, except those that stay in a callback.
    pub(super) fn stop(&self) {
        // this ends all threads in good order that are not in a callback, and whose clients read
        self.change(|state| {
            state.stopped = true;
            state.shut(Shutdown::Read);
        });
        self.wait_until(FAREWELL, State::is_settled);
        self.wait_until(PATIENCE, |state| state.open.is_empty());
        self.change(|state| state.shut(Shutdown::Both));
        self.wait_until(FAREWELL, State::is_settled);
    }

    /// The instant by which a request that starts now must be there.
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
    pub(super) fn enter(&mut self, stage: Stage) {
        self.move_to(Some(stage));
    }

    fn move_to(&mut self, stage: Option<Stage>) {
        let from = std::mem::replace(&mut self.stage, stage);
        self.shared.change(|state| {
            // it may have been pushed out
            if let Some(open) = state.open.get_mut(&self.connection) {
                open.move_request(from, stage);
            }
        });
    }
}

impl Drop for ActiveRequest<'_> {
    fn drop(&mut self) {
        self.move_to(None);
    }
}
