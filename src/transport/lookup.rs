//! DNS: the addresses of a host. The system's lookup has no timeout, so it runs on a thread of its own: one at a time, and
//! none for what is an address already. Where no thread may be started, it takes as long as it takes.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::process::{Driver, spawn};

type Found = io::Result<Vec<SocketAddr>>;

/// Looks up one host, once or again.
#[derive(Debug)]
pub(super) struct Lookup {
    host: String,
    port: u16,
    driver: Driver,
    /// A look-up that took longer than the attempt which began it: the next attempt waits for it, too.
    pending: Option<Arc<Mailbox<Found>>>,
}

impl Lookup {
    /// The brackets of an IPv6 address in a URL are taken off.
    pub(super) fn new(host: &str, port: u16, driver: Driver) -> Self {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Self { host, port, driver, pending: None }
    }

    /// Asks anew each time, as a host may have moved, unless an earlier question is still to be answered: its answer is used.
    ///
    /// # Errors
    /// `TimedOut` at the deadline, `NotFound` if there is no such host, or what the system says.
    pub(super) fn addresses(&mut self, deadline: Option<Instant>) -> Found {
        if let Ok(address) = self.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, self.port)]);
        }
        let found = match self.driver {
            Driver::OwnThread => self.search_until(deadline)?,
            Driver::Caller => ask(&self.host, self.port)?,
        };
        if found.is_empty() { Err(ErrorKind::NotFound.into()) } else { Ok(found) }
    }

    fn search_until(&mut self, deadline: Option<Instant>) -> Found {
        let pending = match self.pending.take() {
            Some(pending) => pending,
            None => self.begin()?,
        };
        let longest =
            deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
        pending.take(longest).unwrap_or_else(|| {
            self.pending = Some(pending);
            Err(ErrorKind::TimedOut.into())
        })
    }

    /// Starts the thread that asks the system.
    fn begin(&self) -> io::Result<Arc<Mailbox<Found>>> {
        let (host, port, mailbox) = (self.host.clone(), self.port, Arc::new(Mailbox::new()));
        let own = Arc::clone(&mailbox);
        // The attempt may have ended already; then the next one takes the answer.
        spawn("standpipe-lookup", move || own.put(ask(&host, port)))?;
        Ok(mailbox)
    }
}

/// Asks the system.
fn ask(host: &str, port: u16) -> Found {
    (host, port).to_socket_addrs().map(Iterator::collect)
}

/// A channel from threads to one waiting thread. std's and crossbeam's channels take eleven kilobytes more of a small binary.
#[derive(Debug)]
pub(super) struct Mailbox<T> {
    messages: Mutex<Vec<T>>,
    has_more: Condvar,
}

impl<T> Mailbox<T> {
    pub(super) fn new() -> Self {
        Self { messages: Mutex::default(), has_more: Condvar::new() }
    }

    pub(super) fn put(&self, message: T) {
        self.lock().push(message);
        self.has_more.notify_one();
    }

    /// Waits for a message, for at most `longest`.
    pub(super) fn take(&self, longest: Duration) -> Option<T> {
        let waited = self.has_more.wait_timeout_while(self.lock(), longest, |messages| messages.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0.pop()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    impl Lookup {
        /// A lookup whose next answer is known.
        pub(in crate::transport) fn answering(addresses: &[SocketAddr]) -> Self {
            let search = Mailbox::new();
            search.put(Ok(addresses.to_vec()));
            Self { pending: Some(Arc::new(search)), ..Self::new("collector.test", 0, Driver::OwnThread) }
        }
    }

    fn soon() -> Option<Instant> {
        Some(Instant::now() + Duration::from_secs(20))
    }

    #[test]
    fn an_address_is_not_looked_up() {
        for (host, expected) in
            [("127.0.0.1", "127.0.0.1:4317"), ("::1", "[::1]:4317"), ("[::1]", "[::1]:4317")]
        {
            let mut lookup = Lookup::new(host, 4317, Driver::OwnThread);
            // there is no time for it
            let found = lookup.addresses(Some(Instant::now())).unwrap();
            assert_eq!(found, [expected.parse().unwrap()]);
            assert!(lookup.pending.is_none());
        }
    }

    #[test]
    fn a_name_is_looked_up_by_the_system() {
        for driver in [Driver::OwnThread, Driver::Caller] {
            let found = Lookup::new("localhost", 4317, driver).addresses(soon()).unwrap();
            let is_expected = |address: &SocketAddr| address.ip().is_loopback() && address.port() == 4317;
            assert!(!found.is_empty() && found.iter().all(is_expected), "{driver:?}: {found:?}");
        }
    }

    #[test]
    fn a_look_up_that_takes_too_long_is_kept_and_not_begun_twice() {
        let search = Arc::new(Mailbox::new());
        let mut lookup = Lookup::new("slow.test", 4317, Driver::OwnThread);
        lookup.pending = Some(Arc::clone(&search));
        for _ in 0..2 {
            let error = lookup.addresses(Some(Instant::now())).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
        }
        let address: SocketAddr = "127.0.0.1:4317".parse().unwrap();
        search.put(Ok(vec![address]));
        assert_eq!(lookup.addresses(soon()).unwrap(), [address]);
        assert!(lookup.pending.is_none(), "the next one asks anew");
    }

    #[test]
    fn a_host_without_addresses_is_not_found() {
        let search = Arc::new(Mailbox::new());
        search.put(Ok(Vec::new()));
        let mut lookup = Lookup::new("empty.test", 4317, Driver::OwnThread);
        lookup.pending = Some(search);
        assert_eq!(lookup.addresses(soon()).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
