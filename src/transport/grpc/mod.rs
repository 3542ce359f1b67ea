//! OTLP over gRPC: unary calls over our own HTTP/2 client, without an async runtime.
//!
//! ```text
//! payload → Grpc ─ client ─ connect (proxy, TLS) ─ socket    the network
//!             │       └ http2 (client, hpack, frame)         pure: bytes in, bytes out
//!             └ status, failure → Verdict                    the result
//! ```

mod client;
mod failure;
#[cfg(feature = "probe")]
mod probe_request;
mod status;

use std::sync::Arc;
use std::time::{Duration, Instant};

use self::client::{Client, Request};
use self::failure::CallFailure;
use self::status::Status;
use super::connect::Route;
use super::credentials::SendsHeaders;
use super::dial::Interrupter;
use super::gzip::Compressor;
use super::redact::Secrets;
use super::{Payload, ResponseStatus, SetupError, Transport, Verdict};
use crate::config::{Compression, ConnectionSettings, is_reserved_by_grpc};
use crate::http2::client::{Message, Response};
use crate::http2::hpack;
use crate::process::Driver;
use crate::record::Signal;

/// Protocol that the TLS handshake must negotiate (ALPN).
const PROTOCOL: &[u8] = b"h2";
/// Bytes that HTTP/2 counts for a field in addition to its name and value.
const FIELD_OVERHEAD: usize = 32;

/// Header with the time that the server may take.
const TIMEOUT: &str = "grpc-timeout";
/// Maximum number in a `grpc-timeout`: eight digits.
const MAX_TIMEOUT_UNITS: u128 = 99_999_999;

/// Checked settings of a gRPC transport. They have no `Debug`, because they contain credentials.
#[derive(Clone)]
pub(crate) struct GrpcSpec {
    route: Route,
    /// URL of the server, for messages.
    shown: String,
    heads: [Head; Signal::COUNT],
    /// Secrets that servers and proxies could repeat.
    secrets: Arc<Secrets>,
    compression: Compression,
    max_response_bytes: usize,
}

/// The headers of a request, except `grpc-timeout`. The block uses no dynamic table, so all requests can share it.
#[derive(Clone, Default)]
struct Head {
    block: Vec<u8>,
    /// Size of these headers as HTTP/2 counts it.
    list_bytes: usize,
}

impl GrpcSpec {
    /// Checks the settings that the configuration leaves to the transport: certificates, metadata and the proxy.
    ///
    /// # Errors
    /// Returns an error if a setting cannot be used.
    pub(crate) fn new(settings: &ConnectionSettings) -> Result<Self, SetupError> {
        let route = Route::new(settings, Some(PROTOCOL))?;
        if let Some((name, _)) = settings.headers.iter().find(|(name, _)| is_reserved_by_grpc(name)) {
            return Err(format!("header {name}: gRPC sets this header itself; remove it").into());
        }
        if settings.signer.is_some() {
            return Err("sign_with: requests over gRPC cannot be signed; use HTTP".into());
        }
        let heads = Signal::ALL.map(|signal| Head::of(signal, settings, &route));
        Ok(Self {
            secrets: Arc::new(route.secrets(settings, Vec::new())),
            route,
            shown: settings.shown_url(Signal::Traces),
            heads,
            compression: settings.compression,
            max_response_bytes: settings.response_bytes,
        })
    }

    /// Creates a transport. It connects at its first call.
    pub(crate) fn open(&self, driver: Driver) -> Grpc {
        let interrupter = Arc::new(Interrupter::default());
        let connector = self.route.open(&interrupter, driver);
        let client = Client::new(connector, Arc::clone(&interrupter), self.max_response_bytes);
        let (block, compressor) = (Vec::new(), Compressor::default());
        Grpc { spec: self.clone(), client, interrupter, block, compressor, status: None }
    }
}

impl Head {
    fn of(signal: Signal, settings: &ConnectionSettings, route: &Route) -> Self {
        let mut head = Self::default();
        head.add(":method", "POST");
        head.add(":scheme", if route.is_tls() { "https" } else { "http" });
        head.add(":path", signal.grpc_path());
        head.add(":authority", &route.authority());
        head.add("te", "trailers");
        head.add("content-type", "application/grpc");
        match settings.compression {
            // Responses are short, so compression would gain nothing.
            Compression::None => head.add("grpc-accept-encoding", "identity"),
            // grpc-go responds to a gzip request in gzip, even if `grpc-accept-encoding` does not list gzip.
            Compression::Gzip => {
                head.add("grpc-encoding", "gzip");
                head.add("grpc-accept-encoding", "identity,gzip");
            }
        }
        if !settings.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("user-agent")) {
            head.add("user-agent", &settings.full_user_agent());
        }
        for (name, value) in &settings.headers {
            let name = name.to_ascii_lowercase();
            head.count(&name, value.expose());
            // Intermediaries must not keep credentials in their tables.
            hpack::encode_sensitive(&name, value.expose().as_bytes(), &mut head.block);
        }
        head
    }

    fn add(&mut self, name: &str, value: &str) {
        self.count(name, value);
        hpack::encode(name, value.as_bytes(), &mut self.block);
    }

    fn count(&mut self, name: &str, value: &str) {
        self.list_bytes += name.len() + value.len() + FIELD_OVERHEAD;
    }
}

/// Calls the collector over one kept connection.
pub(crate) struct Grpc {
    spec: GrpcSpec,
    client: Client,
    interrupter: Arc<Interrupter>,
    block: Vec<u8>,
    compressor: Compressor,
    /// Status of the last call, if the call ended with a status.
    status: Option<Status>,
}

impl Grpc {
    /// Makes one attempt, which ends by its deadline.
    fn call(&mut self, payload: &Payload<'_>, deadline: Instant) -> Result<Response, CallFailure> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(CallFailure::TIMED_OUT);
        }
        let head = &self.spec.heads[payload.signal as usize];
        let timeout = timeout_text(left);
        self.block.clear();
        self.block.extend_from_slice(&head.block);
        hpack::encode(TIMEOUT, timeout.as_bytes(), &mut self.block);
        let list_bytes = head.list_bytes + TIMEOUT.len() + timeout.len() + FIELD_OVERHEAD;
        let compressed;
        let message = match self.spec.compression {
            Compression::None => Message::new(payload.body, false),
            Compression::Gzip => {
                compressed = [self.compressor.compress(payload.body)];
                Message::new(&compressed, true)
            }
        };
        let request = Request { block: &self.block, list_bytes, message };
        let called = self.client.call(&request, deadline);
        called.map_err(|failure| if self.interrupter.is_broken() { failure.broken_off() } else { failure })
    }
}

impl SendsHeaders for Grpc {
    fn set_headers(&mut self, settings: &ConnectionSettings) -> Result<(), SetupError> {
        self.spec.heads = Signal::ALL.map(|signal| Head::of(signal, settings, &self.spec.route));
        self.spec.secrets = Arc::new(self.spec.route.secrets(settings, Vec::new()));
        Ok(())
    }

    fn parts(&self) -> (&Interrupter, &Secrets) {
        (&self.interrupter, &self.spec.secrets)
    }
}

impl Transport for Grpc {
    fn send(&mut self, payload: &Payload<'_>, deadline: Instant) -> Verdict {
        self.status = None;
        let verdict = match self.call(payload, deadline) {
            Ok(answer) => {
                let received = status::read(&answer);
                self.status = received.as_ref().map(|received| received.status);
                let verdict = status::judge(received, &answer, &self.spec.shown);
                verdict.discard_connection(&self.interrupter);
                verdict
            }
            Err(failure) => failure.verdict(&self.spec.shown),
        };
        // Servers may repeat secrets.
        verdict.map_text(|text| self.spec.secrets.redact(text))
    }

    fn last_status(&self) -> Option<ResponseStatus> {
        self.status.map(|status| ResponseStatus::Grpc(status.defined().name()))
    }

    fn attempts(&self) -> Option<&Arc<Interrupter>> {
        Some(&self.interrupter)
    }
}

/// Returns a timeout as at most eight digits and the finest unit that fits. Never zero.
fn timeout_text(left: Duration) -> String {
    let units = [(left.as_micros(), 'u'), (left.as_millis(), 'm'), (u128::from(left.as_secs()), 'S')];
    match units.into_iter().find(|(count, _)| *count <= MAX_TIMEOUT_UNITS) {
        Some((count, unit)) => format!("{}{unit}", count.max(1)),
        None => format!("{}H", u128::from(left.as_secs() / 3600).min(MAX_TIMEOUT_UNITS)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::TcpListener;

    use super::*;
    use crate::config::Exporter;

    #[test]
    fn after_an_interruption_or_a_cut_no_connection_is_opened() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let exporter =
            Exporter::grpc(listener.local_addr().unwrap().to_string()).proxy(crate::config::Proxy::Off);
        for breaks_off in [Grpc::interrupter, Grpc::cutter] {
            let mut transport = GrpcSpec::new(&exporter.connection).unwrap().open(Driver::OwnThread);
            transport.forget_cut();
            breaks_off(&transport)();
            let payload = Payload { signal: Signal::Traces, body: &[] };
            let verdict = transport.send(&payload, Instant::now() + Duration::from_secs(20));
            assert!(matches!(verdict, Verdict::TryLater { .. }), "{verdict:?}");
            assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn a_time_out_has_at_most_eight_digits_and_is_never_nothing() {
        for (left, expected) in [
            (Duration::ZERO, "1u"),
            (Duration::from_nanos(999), "1u"),
            (Duration::from_micros(1_500), "1500u"),
            (Duration::from_secs(10), "10000000u"),
            (Duration::from_micros(99_999_999), "99999999u"),
            (Duration::from_secs(100), "100000m"),
            (Duration::from_secs(100_000), "100000S"),
            (Duration::from_secs(99_999_999), "99999999S"),
            (Duration::from_secs(360_000_000), "100000H"),
            (Duration::MAX, "99999999H"),
        ] {
            assert_eq!(timeout_text(left), expected, "{left:?}");
        }
    }
}
