//! Connections under ureq's HTTP/1.1: our own connector, with deadlines, interruption and proxies.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ureq::Error;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ArrayVec, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector as UreqConnector, LazyBuffers, NextTimeout, Transport,
};

use crate::process::{first_use, lock};
use crate::transport::connect::{Connector, NetworkError, Timeline};
use crate::transport::stream::Stream;

/// Start of every request line.
const METHOD: &[u8] = b"POST ";
/// Number of first bytes that a probe keeps, enough to recognize the peer's protocol.
const FIRST_BYTES: usize = 32;
/// Replacement for an absent timeout. It is not used, because every request has a timeout.
const NO_TIMEOUT: Duration = Duration::from_secs(3600);

const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// A resolver that returns a placeholder. ureq resolves before it knows whether it needs a connection, so our connector
/// does the lookup.
#[derive(Debug)]
pub(super) struct Unresolved;

impl Resolver for Unresolved {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, Error> {
        // ureq has now initialized the static that forks wait for (see `Http::post`), so they may proceed.
        first_use::end();
        // ureq requires at least one address.
        let mut addresses = ArrayVec::from_fn(|_| NOWHERE);
        addresses.push(NOWHERE);
        Ok(addresses)
    }
}

/// Opens connections for one agent.
pub(super) struct HttpConnector {
    /// Never contended, because a transport makes one request at a time.
    pub(super) connector: Mutex<Connector>,
    /// Scheme and authority of the server behind a proxy that forwards requests.
    pub(super) origin: Option<Arc<str>>,
    /// Steps of the connection, for a probe.
    pub(super) timeline: Option<Arc<Mutex<Timeline>>>,
}

impl UreqConnector for HttpConnector {
    type Out = HttpStream;

    fn connect(&self, details: &ConnectionDetails<'_>, _: Option<()>) -> Result<Option<HttpStream>, Error> {
        let mut timeline = Timeline::default();
        let mut connector = lock(&self.connector);
        let connected = connector.connect(deadline(details.timeout), &mut timeline);
        if let Some(shared) = &self.timeline {
            // Stored before the error is returned, because a probe also shows the steps of a failed connection.
            *lock(shared) = timeline;
        }
        let stream = connected.map_err(|error| Error::Other(Box::new(error)))?;
        let (input, output) = (details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(HttpStream {
            stream,
            buffers: LazyBuffers::new(input, output),
            origin: self.origin.clone(),
            is_at_head: true,
            timeline: self.timeline.clone(),
        }))
    }
}

/// A connection under ureq.
///
/// A proxy that forwards plain HTTP needs the request line in absolute form (`POST http://collector:4318/v1/traces`),
/// which ureq cannot write. ureq therefore gets the proxy's URL, and this type inserts the server's origin after the
/// method.
pub(super) struct HttpStream {
    stream: Stream,
    buffers: LazyBuffers,
    origin: Option<Arc<str>>,
    /// True if the next output begins a request. The output does not show it: a body may look like a request line.
    is_at_head: bool,
    timeline: Option<Arc<Mutex<Timeline>>>,
}

// ureq requires `Debug`, but formats connectors and connections only in its trace log. Derived implementations would
// add the `Debug` code of all fields to the program.
impl fmt::Debug for HttpConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpConnector")
    }
}

impl fmt::Debug for HttpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpStream")
    }
}

impl Transport for HttpStream {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let is_at_head = std::mem::replace(&mut self.is_at_head, false);
        let amount = match self.origin.as_deref().filter(|_| is_at_head) {
            Some(origin) => insert_origin(self.buffers.output(), amount, origin)?,
            None => amount,
        };
        self.stream.set_deadline(deadline(timeout.for_write()));
        self.stream.write_all(&self.buffers.output()[..amount]).map_err(|error| of_io(error, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        // Once a response is awaited, the next output begins a new request.
        self.is_at_head = true;
        self.stream.set_deadline(deadline(timeout.for_read()));
        let read = self.stream.read(self.buffers.input_append_buf());
        let count = read.map_err(|error| of_io(error, timeout))?;
        self.buffers.input_appended(count);
        if let Some(timeline) = &self.timeline {
            let input = self.buffers.input();
            let first_bytes = &mut lock(timeline).first_bytes;
            // Reads may be short, so the first bytes may arrive in pieces.
            if first_bytes.len() < FIRST_BYTES && input.starts_with(first_bytes) {
                *first_bytes = input[..input.len().min(FIRST_BYTES)].to_vec();
            }
        }
        Ok(count > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.is_fresh() && self.stream.is_idle()
    }

    fn is_tls(&self) -> bool {
        self.stream.is_tls()
    }
}

fn deadline(timeout: NextTimeout) -> Instant {
    let now = Instant::now();
    now.checked_add(*timeout.after).unwrap_or(now + NO_TIMEOUT)
}

fn of_io(error: io::Error, timeout: NextTimeout) -> Error {
    match error.kind() {
        ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        _ => error.into(),
    }
}

/// Returns the network error of a failed request, or the error itself if it is of another kind.
pub(super) fn network_error(error: Error) -> Result<NetworkError, Error> {
    match error {
        Error::Timeout(_) => Ok(NetworkError::TimedOut),
        Error::Io(error) => Ok(error.into()),
        Error::Other(error) => match error.downcast() {
            Ok(error) => Ok(*error),
            // An error of ureq itself.
            Err(error) => Err(Error::Other(error)),
        },
        other => Err(other),
    }
}

/// Inserts the origin after the method in the first `length` bytes of output. Returns the new length.
///
/// # Errors
/// Returns an error if these bytes do not begin a request, or the buffer has no room for the origin.
fn insert_origin(output: &mut [u8], length: usize, origin: &str) -> io::Result<usize> {
    let (start, end) = (METHOD.len(), METHOD.len() + origin.len());
    if !output[..length].starts_with(METHOD) {
        return Err(io::Error::other("the request for the proxy does not begin with its method"));
    }
    if length + origin.len() > output.len() {
        return Err(io::Error::other("the head of the request is too long"));
    }
    output.copy_within(start..length, end);
    output[start..end].copy_from_slice(origin.as_bytes());
    Ok(length + origin.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn connects_beside_a_black_holed_address() {
        use std::net::TcpListener;

        use crate::config::{Exporter, Proxy};
        use crate::process::Driver;
        use crate::transport::connect::Route;
        use crate::transport::dial::Lookup;
        use crate::transport::dial::tests::race::ipv6_black_hole;

        let Some(hole) = ipv6_black_hole() else { return };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let exporter = Exporter::http("http://collector.test").proxy(Proxy::Off);
        let route = Route::new(&exporter.connection, None).unwrap();
        let mut connector = route.open(&Arc::default(), Driver::OwnThread);
        connector.lookup = Lookup::answering(&[hole.address, listener.local_addr().unwrap()]);
        let connector = HttpConnector { connector: Mutex::new(connector), origin: None, timeline: None };
        let agent = ureq::Agent::with_parts(ureq::config::Config::default(), connector, Unresolved);
        let server = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            client.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
            // Waits until the client closes the connection.
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

    #[test]
    fn inserts_the_origin_into_the_request_line() {
        let mut output = [0; 64];
        let head = b"POST /v1/traces HTTP/1.1\r\n";
        output[..head.len()].copy_from_slice(head);
        let length = insert_origin(&mut output, head.len(), "http://collector:4318").unwrap();
        assert_eq!(&output[..length], b"POST http://collector:4318/v1/traces HTTP/1.1\r\n");
    }

    #[test]
    fn refuses_output_that_is_not_a_request_or_has_no_room() {
        let mut output = *b"POST / HTTP/1.1\r\n";
        let length = output.len();
        assert!(insert_origin(&mut output, length, "http://collector").is_err());
        assert!(insert_origin(&mut [b'x'; 64], 10, "http://collector").is_err());
    }
}
