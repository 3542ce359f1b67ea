//! The TCP connection under ureq.
//!
//! ureq's own gives each write of a piece the whole time that was left before the piece: a collector that
//! reads a little now and then, or just stops, stretches an attempt to twice its time and more. This one
//! keeps the deadline, whatever it takes to write a piece.

use std::fmt::Debug;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ArrayVec, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::time::{Duration as UreqDuration, Instant as UreqInstant};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, ShutdownHandle, Transport,
};
use ureq::{ProxyProtocol, Timeout};

use crate::process::first_use;
use crate::transport::happy_eyeballs::Dialer;
use crate::transport::lookup::Lookup;
use crate::transport::tcp::{is_hang_up, time_left, tolerate};

/// A connection through a proxy.
#[cfg(any(feature = "tls", feature = "probe"))]
type Tunnel = Either<(), Box<dyn Transport>>;

/// Plain HTTP is forwarded by a proxy, not tunnelled.
#[cfg(not(any(feature = "tls", feature = "probe")))]
type Tunnel = ();

/// Connections by way of a proxy or directly, before any TLS.
pub(super) fn plain_connector(
    lookup: impl AddressLookup,
    dialer: Dialer,
) -> impl Connector<(), Out = Either<Tunnel, Socket>> {
    tunnel().chain(SocketConnector { lookup, dialer })
}

#[cfg(any(feature = "tls", feature = "probe"))]
fn tunnel() -> impl Connector<(), Out = Tunnel> {
    ().chain(ureq::unversioned::transport::ConnectProxyConnector::default())
}

#[cfg(not(any(feature = "tls", feature = "probe")))]
fn tunnel() -> impl Connector<(), Out = Tunnel> {}

/// Finds the addresses that all connections go to: the server's, or those of the proxy in front of it.
pub(super) trait AddressLookup: Debug + Send + Sync + 'static {
    /// # Errors
    /// As [`Lookup::addresses`].
    fn addresses(&self, deadline: Option<Instant>) -> io::Result<Vec<SocketAddr>>;
}

impl AddressLookup for Mutex<Lookup> {
    fn addresses(&self, deadline: Option<Instant>) -> io::Result<Vec<SocketAddr>> {
        // one request at a time is made here: this lock is free
        self.lock().unwrap_or_else(PoisonError::into_inner).addresses(deadline)
    }
}

const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// ureq's part of a look-up. It asks for addresses before it knows whether it needs a connection: so it is given none,
/// and the connector looks them up.
#[derive(Debug)]
pub(super) struct Unresolved;

impl Resolver for Unresolved {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut addresses = self.empty();
        // there must be one
        addresses.push(NOWHERE);
        Ok(addresses)
    }

    /// All that ureq asks for where a proxy does the look-up.
    fn empty(&self) -> ResolvedSocketAddrs {
        first_use::end();
        ArrayVec::from_fn(|_| NOWHERE)
    }
}

#[derive(Debug)]
struct SocketConnector<P> {
    lookup: P,
    dialer: Dialer,
}

impl<In: Transport, P: AddressLookup> Connector<In> for SocketConnector<P> {
    type Out = Either<In, Socket>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        if let Some(through_proxy) = chained {
            return Ok(Some(Either::A(through_proxy)));
        }
        let is_http =
            |proxy: &ureq::Proxy| matches!(proxy.protocol(), ProxyProtocol::Http | ProxyProtocol::Https);
        // never past a proxy that cannot be spoken to
        if details.config.proxy().is_some_and(|proxy| !is_http(proxy) && !proxy.is_no_proxy(details.uri)) {
            return Err(ureq::Error::ConnectProxyFailed("SOCKS is not supported".to_owned()));
        }
        let begun = match details.now {
            UreqInstant::Exact(begun) => begun,
            UreqInstant::AlreadyHappened | UreqInstant::NotHappening => Instant::now(),
        };
        let deadline = deadline(begun, details.timeout);
        if self.dialer.interrupter.is_broken() {
            return Err(io::Error::from(ErrorKind::ConnectionAborted).into());
        }
        let addresses = self.lookup.addresses(deadline).map_err(of_lookup)?;
        let stream = self.dialer.connect(&addresses, deadline).map_err(|error| match error.kind() {
            ErrorKind::TimedOut => ureq::Error::Timeout(Timeout::Connect),
            _ => error.into(),
        })?;
        let handle: Weak<dyn ShutdownHandle> =
            Arc::downgrade(&(Arc::clone(&stream) as Arc<dyn ShutdownHandle>));
        (details.register_shutdown)(handle)?;
        let (input, output) = (details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(Either::B(Socket { stream, buffers: LazyBuffers::new(input, output), is_hung_up: false })))
    }
}

#[derive(Debug)]
pub(super) struct Socket {
    stream: Arc<TcpStream>,
    buffers: LazyBuffers,
    /// The peer reads no more. It may have sent the reason before it closed the connection: what is left of a request is not
    /// written, and then its answer is read.
    is_hung_up: bool,
}

#[cfg(feature = "probe")]
impl Socket {
    /// Which of a name's addresses answered.
    pub(super) fn peer(&self) -> Option<SocketAddr> {
        self.stream.peer_addr().ok()
    }
}

impl Transport for Socket {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        let timeout = timeout.for_write();
        let deadline = deadline(Instant::now(), timeout);
        let mut output = &self.buffers.output()[..amount];
        while !output.is_empty() && !self.is_hung_up {
            self.stream.set_write_timeout(left(deadline, timeout)?)?;
            match (&*self.stream).write(output) {
                Ok(0) => return Err(io::Error::from(ErrorKind::WriteZero).into()),
                Ok(written) => output = &output[written..],
                Err(error) if is_hang_up(&error) => self.is_hung_up = true,
                Err(error) => tolerate(error)?,
            }
        }
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let timeout = timeout.for_read();
        let deadline = deadline(Instant::now(), timeout);
        loop {
            self.stream.set_read_timeout(left(deadline, timeout)?)?;
            match (&*self.stream).read(self.buffers.input_append_buf()) {
                Ok(count) => {
                    self.buffers.input_appended(count);
                    return Ok(count > 0);
                }
                Err(error) => tolerate(error)?,
            }
        }
    }

    fn is_open(&mut self) -> bool {
        // an idle connection has nothing to say: a byte is out of turn, an end is one
        let quiet = |stream: &TcpStream| -> io::Result<bool> {
            stream.set_nonblocking(true)?;
            let peeked = stream.peek(&mut [0]);
            stream.set_nonblocking(false)?;
            Ok(peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock))
        };
        !self.is_hung_up && quiet(&self.stream).unwrap_or(false)
    }
}

fn of_lookup(error: io::Error) -> ureq::Error {
    match error.kind() {
        ErrorKind::TimedOut => ureq::Error::Timeout(Timeout::Resolve),
        ErrorKind::NotFound => ureq::Error::HostNotFound,
        // the lookup could not even begin: no thread or no file was left for it
        _ if error.raw_os_error().is_some() => error.into(),
        // there is no such host: each system words it differently
        _ => io::Error::new(ErrorKind::HostUnreachable, error).into(),
    }
}

fn deadline(begun: Instant, timeout: NextTimeout) -> Option<Instant> {
    match timeout.after {
        UreqDuration::Exact(after) => begun.checked_add(after),
        UreqDuration::NotHappening => None,
    }
}

/// What is left of it for the next call of the system.
fn left(deadline: Option<Instant>, timeout: NextTimeout) -> Result<Option<Duration>, ureq::Error> {
    time_left(deadline).map_err(|_| ureq::Error::Timeout(timeout.reason))
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::process::Driver;
    use crate::transport::happy_eyeballs::tests::ipv6_black_hole;

    #[test]
    fn connects_beside_a_black_holed_address() {
        let Some(hole) = ipv6_black_hole() else { return };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let lookup = Mutex::new(Lookup::answering(&[hole.address, listener.local_addr().unwrap()]));
        let connector = plain_connector(lookup, Dialer::new(Arc::default(), Driver::OwnThread));
        let agent = ureq::Agent::with_parts(ureq::config::Config::default(), connector, Unresolved);
        let server = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            client.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
            // The client closes the connection, as nothing keeps it.
            while client.read(&mut [0; 1024]).is_ok_and(|count| count > 0) {}
        });
        let begun = Instant::now();
        let timeout = Some(Duration::from_secs(40));
        let request =
            agent.get("http://collector.test/").config().timeout_global(timeout).proxy(None).build();
        assert_eq!(request.call().unwrap().status(), 204);
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        drop(agent);
        server.join().unwrap();
    }
}
