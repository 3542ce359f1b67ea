//! The addresses of a host. The system's look-up has no time-out, so it has a thread of its own.

#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Instant;

type Found = io::Result<Vec<SocketAddr>>;

/// Looks up one host, once or again.
#[derive(Debug)]
pub(super) struct Lookup {
    host: String,
    port: u16,
    /// A look-up that took longer than anyone waited. Nobody starts a second one beside it.
    pending: Option<Receiver<Found>>,
}

impl Lookup {
    pub(super) fn new(host: String, port: u16) -> Self {
        Self { host, port, pending: None }
    }

    /// # Errors
    /// `TimedOut` at the deadline, `NotFound` if there is no such host, or what the system says.
    pub(super) fn addresses(&mut self, deadline: Instant) -> Found {
        if let Ok(address) = self.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, self.port)]);
        }
        let pending = match self.pending.take() {
            Some(pending) => pending,
            None => begin(self.host.clone(), self.port)?,
        };
        match pending.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Ok(addresses)) if addresses.is_empty() => Err(ErrorKind::NotFound.into()),
            Ok(found) => found,
            Err(RecvTimeoutError::Timeout) => {
                self.pending = Some(pending);
                Err(ErrorKind::TimedOut.into())
            }
            Err(RecvTimeoutError::Disconnected) => Err(ErrorKind::NotFound.into()),
        }
    }
}

fn begin(host: String, port: u16) -> io::Result<Receiver<Found>> {
    let (found, pending) = sync_channel(1);
    thread::Builder::new().name("standpipe-lookup".to_owned()).spawn(move || {
        let addresses = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
        // nobody may be waiting any more
        let _ = found.send(addresses);
    })?;
    Ok(pending)
}
