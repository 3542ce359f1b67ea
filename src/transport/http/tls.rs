//! TLS under ureq. Its own connector would leave out a CA that it cannot read, panic over a key, and not say that the
//! server asked for a client certificate.

use std::fmt;
use std::io::{Read, Write};
use std::time::Instant;

use rustls::Stream;
use rustls::pki_types::ServerName;
use ureq::http::Uri;
use ureq::unversioned::transport::time::{Duration as UreqDuration, Instant as UreqInstant};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport, TransportAdapter,
};

use super::HttpSpec;
use crate::transport::tls::{Handshakes, Secured};

/// TLS with the server, or with a proxy that makes the requests itself.
pub(super) fn connector(spec: &HttpSpec) -> TlsConnector {
    TlsConnector(spec.tls.without_sessions())
}

#[derive(Debug)]
pub(super) struct TlsConnector(Handshakes);

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = Either<In, Encrypted>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        let Some(inner) = chained else { return Ok(None) };
        if !details.needs_tls() || inner.is_tls() {
            return Ok(Some(Either::A(inner)));
        }
        let name = server_name(details.uri)?;
        let mut wire = TransportAdapter::new(inner.boxed(), details.current_time.clone());
        wire.set_timeout(left(details));
        let secured = self.0.connect(name, &mut wire)?;
        let (input, output) = (details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(Either::B(Encrypted { secured, wire, buffers: LazyBuffers::new(input, output) })))
    }
}

fn server_name(uri: &Uri) -> Result<ServerName<'static>, ureq::Error> {
    let host = uri.host().unwrap_or_default();
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    ServerName::try_from(bare.to_owned())
        // the host may have been put in from elsewhere: it is not shown
        .map_err(|_| ureq::Error::Tls("no certificate can be for this host"))
}

/// The time for a connection began before there was a socket.
fn left(details: &ConnectionDetails<'_>) -> NextTimeout {
    let mut timeout = details.timeout;
    if let (UreqDuration::Exact(after), UreqInstant::Exact(begun)) = (timeout.after, details.now) {
        let gone = Instant::now().saturating_duration_since(begun);
        timeout.after = UreqDuration::Exact(after.saturating_sub(gone));
    }
    timeout
}

pub(super) struct Encrypted {
    secured: Secured,
    wire: TransportAdapter,
    buffers: LazyBuffers,
}

impl Transport for Encrypted {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        let Self { secured, wire, buffers } = self;
        wire.set_timeout(timeout);
        let written = Stream::new(&mut secured.connection, wire).write_all(&buffers.output()[..amount]);
        Ok(written.map_err(|error| secured.explain(error))?)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        let Self { secured, wire, buffers } = self;
        wire.set_timeout(timeout);
        let read = Stream::new(&mut secured.connection, wire).read(buffers.input_append_buf());
        let count = read.map_err(|error| secured.explain(error))?;
        buffers.input_appended(count);
        Ok(count > 0)
    }

    fn is_open(&mut self) -> bool {
        self.wire.get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

// by hand: a wire has none
impl fmt::Debug for Encrypted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Encrypted").field("secured", &self.secured).finish_non_exhaustive()
    }
}
