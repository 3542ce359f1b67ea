//! Happy Eyeballs (RFC 8305): connects to the first address of a host that accepts.
//!
//! IPv6 and IPv4 addresses alternate, and each address has a head start of 250 ms before the next one is tried beside it. The family
//! that answered is first the next time, so a black-holed family delays one connection by one head start.
//!
//! std has only blocking connects, so each address gets a short-lived thread. A thread that loses the race ends by the deadline of
//! its attempt, and closes its connection. Where no thread may be started, the addresses are tried one after the other: each for
//! one head start, then each again for a share of the rest of the time.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::lookup::Mailbox;
use super::tcp::{Interrupter, connect, time_left};
use crate::process::{Driver, spawn};

/// Time that an address has before the next one is tried.
const HEAD_START: Duration = Duration::from_millis(250);
/// Threads that connect at the same time, including those that lost an earlier race.
const MAX_THREADS: usize = 4;

type Results = Mailbox<io::Result<TcpStream>>;

/// Opens the connections of one transport.
#[derive(Debug)]
pub(super) struct Dialer {
    driver: Driver,
    pub(super) interrupter: Arc<Interrupter>,
    /// Whether the last connection was over IPv4.
    prefers_ipv4: AtomicBool,
    /// Each connecting thread holds a clone.
    threads: Arc<()>,
}

impl Dialer {
    pub(super) fn new(interrupter: Arc<Interrupter>, driver: Driver) -> Self {
        Self { driver, interrupter, prefers_ipv4: AtomicBool::new(false), threads: Arc::default() }
    }

    /// Connects to the first address that accepts. The interrupter can break the connection.
    ///
    /// # Errors
    /// The failure of an address; `TimedOut` at the deadline, and if the attempt was interrupted.
    pub(super) fn connect(
        &self,
        addresses: &[SocketAddr],
        deadline: Option<Instant>,
    ) -> io::Result<Arc<TcpStream>> {
        let addresses = self.order(addresses);
        let stream = match (&addresses[..], self.driver) {
            ([address], _) => connect(address, left(deadline)?),
            (_, Driver::OwnThread) => self.race(&addresses, deadline),
            (_, Driver::Caller) => connect_in_turn(&addresses, deadline),
        }?;
        let is_ipv4 = stream.peer_addr().is_ok_and(|peer| peer.is_ipv4());
        self.prefers_ipv4.store(is_ipv4, Ordering::Relaxed);
        let stream = Arc::new(stream);
        self.interrupter.watch(&stream)?;
        Ok(stream)
    }

    /// Returns the addresses with alternating families.
    fn order(&self, addresses: &[SocketAddr]) -> Vec<SocketAddr> {
        let prefers_ipv4 = self.prefers_ipv4.load(Ordering::Relaxed);
        let (preferred, others): (Vec<_>, Vec<_>) =
            addresses.iter().partition(|address| address.is_ipv4() == prefers_ipv4);
        let pairs = (0..addresses.len()).flat_map(|at| [preferred.get(at), others.get(at)]);
        pairs.flatten().copied().collect()
    }

    fn race(&self, addresses: &[SocketAddr], deadline: Option<Instant>) -> io::Result<TcpStream> {
        // If there are more addresses than threads, some wait until others have failed.
        let share = left(deadline)? / addresses.len().div_ceil(MAX_THREADS) as u32;
        let (results, mut waiting, mut running) = (Arc::new(Results::new()), addresses, 0);
        let mut failure = ErrorKind::TimedOut.into();
        while !self.interrupter.is_broken() {
            let Ok(left) = left(deadline) else { break };
            match waiting {
                [address, rest @ ..] if self.start(&results, *address, share.min(left)) => {
                    (waiting, running) = (rest, running + 1);
                }
                [_, ..] if running == 0 => return connect_in_turn(waiting, deadline),
                [] if running == 0 => break,
                _ => {}
            }
            match results.take(left.min(HEAD_START)) {
                Some(Ok(stream)) => return Ok(stream),
                Some(Err(error)) => (running, failure) = (running - 1, clearer(failure, error)),
                None => {}
            }
        }
        Err(failure)
    }

    /// Starts a thread that connects to `address`; returns false if there is no thread left.
    fn start(&self, results: &Arc<Results>, address: SocketAddr, timeout: Duration) -> bool {
        let thread = Arc::clone(&self.threads);
        // `self` and `thread` hold one each.
        if Arc::strong_count(&self.threads) > MAX_THREADS + 1 {
            return false;
        }
        let results = Arc::downgrade(results);
        let started = spawn("standpipe-connect", move || {
            let connected = connect(&address, timeout);
            // After the race, the connection is closed.
            if let Some(results) = results.upgrade() {
                results.put(connected);
            }
            drop(thread);
        });
        started.is_ok()
    }
}

/// Tries each address for one head start, and then each again for an equal share of the rest of the time.
fn connect_in_turn(addresses: &[SocketAddr], deadline: Option<Instant>) -> io::Result<TcpStream> {
    let mut failure = ErrorKind::TimedOut.into();
    let turns = 2 * addresses.len();
    for (turn, address) in addresses.iter().cycle().take(turns).enumerate() {
        let share = left(deadline)? / (turns - turn) as u32;
        let timeout = if turn < addresses.len() { share.min(HEAD_START) } else { share };
        match connect(address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = clearer(failure, error),
        }
    }
    Err(failure)
}

/// Returns the error that tells more: a refusal rather than a time-out.
fn clearer(before: io::Error, now: io::Error) -> io::Error {
    if now.kind() == ErrorKind::TimedOut { before } else { now }
}

fn left(deadline: Option<Instant>) -> io::Result<Duration> {
    Ok(time_left(deadline)?.unwrap_or(Duration::MAX))
}

// Only Linux lets a connect wait while the backlog of a listener is full.
#[cfg(all(test, target_os = "linux"))]
pub(super) mod tests;
