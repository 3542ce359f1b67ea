//! When each step of a probe's request was done: name resolved, connected, TLS agreed on; and the peer's first bytes.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, Either, NextTimeout, Transport};

use super::socket::{AddressLookup, Socket};

/// Enough to recognise the peer's protocol.
const FIRST_BYTES: usize = 32;

/// What is known of a request so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timeline {
    pub(crate) resolved: Option<Instant>,
    /// Of the server, or of the proxy.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) connected: Option<Instant>,
    /// Which of the addresses answered.
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) secured: Option<Instant>,
    /// What came first from the server, decrypted if TLS was agreed on.
    pub(crate) first_bytes: Vec<u8>,
}

/// Shared by all layers of a connection, which write it; read at the end.
#[derive(Debug, Clone)]
pub(super) struct TimelineRecorder {
    timeline: Arc<Mutex<Timeline>>,
    has_proxy: bool,
}

impl TimelineRecorder {
    pub(super) fn new(has_proxy: bool) -> Self {
        Self { timeline: Arc::default(), has_proxy }
    }

    pub(super) fn read(&self) -> Timeline {
        self.timeline().clone()
    }

    fn timeline(&self) -> MutexGuard<'_, Timeline> {
        self.timeline.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lookup that is recorded.
#[derive(Debug)]
pub(super) struct RecordedLookup<P> {
    pub(super) recorder: TimelineRecorder,
    pub(super) lookup: P,
}

impl<P: AddressLookup> AddressLookup for RecordedLookup<P> {
    fn addresses(&self, deadline: Option<Instant>) -> io::Result<Vec<SocketAddr>> {
        let addresses = self.lookup.addresses(deadline)?;
        let mut timeline = self.recorder.timeline();
        timeline.resolved = Some(Instant::now());
        timeline.addresses.clone_from(&addresses);
        Ok(addresses)
    }
}

/// A layer above the sockets, below TLS.
#[derive(Debug)]
pub(super) struct RecordConnection(pub(super) TimelineRecorder);

impl<Tunnel: Transport> Connector<Either<Tunnel, Socket>> for RecordConnection {
    type Out = RecordedStream<Either<Tunnel, Socket>>;

    fn connect(
        &self,
        _: &ConnectionDetails<'_>,
        chained: Option<Either<Tunnel, Socket>>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        let Some(inner) = chained else { return Ok(None) };
        let mut timeline = self.0.timeline();
        if let Either::B(socket) = &inner {
            timeline.peer = socket.peer();
        }
        // with a proxy the socket leads to it, and only the tunnel to the server
        let leads_to_server = !self.0.has_proxy || matches!(inner, Either::A(_));
        if leads_to_server {
            timeline.connected = Some(Instant::now());
        }
        let recorder = leads_to_server.then(|| self.0.clone());
        Ok(Some(RecordedStream { inner, recorder, is_decrypted: false }))
    }
}

/// A connection whose first bytes are recorded.
#[derive(Debug)]
pub(super) struct RecordedStream<In> {
    inner: In,
    recorder: Option<TimelineRecorder>,
    /// Whether it is a layer above TLS.
    is_decrypted: bool,
}

impl<In: Transport> Transport for RecordedStream<In> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.inner.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let progress = self.inner.await_input(timeout)?;
        if let Some(recorder) = &self.recorder {
            let input = self.inner.buffers().input();
            let mut timeline = recorder.timeline();
            let is_last_layer = self.is_decrypted == timeline.secured.is_some();
            // Until there are enough, more of the first bytes may follow.
            let is_first =
                timeline.first_bytes.len() < FIRST_BYTES && input.starts_with(&timeline.first_bytes);
            if is_last_layer && is_first {
                timeline.first_bytes = input[..input.len().min(FIRST_BYTES)].to_vec();
            }
        }
        Ok(progress)
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}

/// A layer above TLS: records that it is agreed on, and ends the request there if only a connection is wanted.
#[derive(Debug)]
pub(super) struct RecordTls {
    pub(super) recorder: TimelineRecorder,
    pub(super) goes_on: bool,
}

impl<In: Transport> Connector<In> for RecordTls {
    type Out = RecordedStream<In>;

    fn connect(
        &self,
        _: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        let Some(inner) = chained else { return Ok(None) };
        let mut timeline = self.recorder.timeline();
        // the TLS of a proxy is not the server's
        let leads_to_server = timeline.connected.is_some();
        if leads_to_server && inner.is_tls() {
            timeline.secured = Some(Instant::now());
            timeline.first_bytes.clear();
        }
        if leads_to_server && !self.goes_on {
            return Err(ureq::Error::ConnectionFailed);
        }
        let recorder = leads_to_server.then(|| self.recorder.clone());
        Ok(Some(RecordedStream { inner, recorder, is_decrypted: true }))
    }
}
