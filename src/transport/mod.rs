//! How a batch leaves the program: a transport sends once and says what came of it.

use std::time::{Duration, Instant};

use crate::config::HttpSettings;
use crate::record::Signal;

pub(crate) mod base64;
#[cfg(feature = "console")]
mod console;
#[cfg(any(feature = "grpc", feature = "probe"))]
mod deadline_stream;
#[cfg(test)]
pub(crate) mod gate;
#[cfg(feature = "grpc")]
pub(crate) mod grpc;
mod gzip;
mod http;
mod http_status;
mod lookup;
mod proxy;
mod redact;
mod response;
mod retry_after;
mod tcp;
mod tls;

#[cfg(feature = "probe")]
pub(crate) use deadline_stream::{DeadlineStream, ReadWrite};
#[cfg(any(feature = "grpc", feature = "probe"))]
pub(crate) use grpc::GrpcSpec;
pub(crate) use http::HttpSpec;
#[cfg(feature = "probe")]
pub(crate) use http::{ProbeBody, ProbeEnd, ProbeFailure, ProbeRequest, ProbeResponse};
pub(crate) use tls::TlsFault;
#[cfg(any(feature = "grpc", feature = "probe"))]
pub(crate) use tls::TlsFaultKind;
#[cfg(feature = "probe")]
pub(crate) use tls::{TlsPeek, fault as tls_fault, peek};

/// One request's worth of records.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Payload<'a> {
    pub(crate) signal: Signal,
    /// A whole `Export…ServiceRequest`, uncompressed, piece by piece.
    pub(crate) body: &'a [&'a [u8]],
}

impl Payload<'_> {
    /// Bytes of the body.
    fn len(&self) -> usize {
        self.body.iter().map(|piece| piece.len()).sum()
    }
}

/// What came of one attempt. Only `retry` decides what follows from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accepted,
    /// Final: the collector took the rest. `rejected` may be 0, then the message is a warning.
    AcceptedPartly {
        rejected: u64,
        message: String,
    },
    /// `after` is what the server asked for.
    TryLater {
        after: Option<Duration>,
        reason: String,
    },
    /// The same records in a smaller request may be welcome.
    TooLarge {
        reason: String,
    },
    /// The collector has no place for this signal; others may be welcome.
    NotTaken {
        reason: String,
    },
    Refused {
        reason: String,
    },
}

impl Verdict {
    /// The same, with what it says put through `edit`.
    fn map_text(self, edit: impl FnOnce(String) -> String) -> Self {
        match self {
            Self::Accepted => Self::Accepted,
            Self::AcceptedPartly { rejected, message } => {
                Self::AcceptedPartly { rejected, message: edit(message) }
            }
            Self::TryLater { after, reason } => Self::TryLater { after, reason: edit(reason) },
            Self::TooLarge { reason } => Self::TooLarge { reason: edit(reason) },
            Self::NotTaken { reason } => Self::NotTaken { reason: edit(reason) },
            Self::Refused { reason } => Self::Refused { reason: edit(reason) },
        }
    }
}

/// What a server says of a call that exports nothing, without what it may have repeated of our secrets.
#[cfg(feature = "probe")]
#[cfg_attr(not(feature = "grpc"), allow(dead_code, reason = "only gRPC has calls"))]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallResponse {
    /// As gRPC counts them: 0 is success.
    pub(crate) code: u32,
    /// The code's name, like `UNAVAILABLE`.
    pub(crate) name: String,
    /// May be empty.
    pub(crate) message: String,
    /// What is not as it should be about a success.
    pub(crate) odd: Option<&'static str>,
}

/// Opens a transport, in this process or in a forked child.
pub(crate) type Opener = Box<dyn Fn() -> Box<dyn Transport> + Send + Sync>;

/// Opens what calls a collector over gRPC.
///
/// # Errors
/// What is wrong with the settings, or that this build cannot.
#[cfg(feature = "grpc")]
pub(crate) fn grpc(settings: &HttpSettings) -> Result<Opener, String> {
    let spec = GrpcSpec::new(settings)?;
    Ok(Box::new(move || Box::new(spec.open())))
}

#[cfg(not(feature = "grpc"))]
const NO_GRPC: &str = "this build cannot send over gRPC; build standpipe with its feature \"grpc\"";

#[cfg(not(feature = "grpc"))]
pub(crate) fn grpc(_: &HttpSettings) -> Result<Opener, String> {
    Err(NO_GRPC.to_owned())
}

/// Stands in for gRPC in a build without the feature "grpc", where a probe can only say so.
#[cfg(all(feature = "probe", not(feature = "grpc")))]
mod grpc {
    use std::convert::Infallible;
    use std::time::Instant;

    use super::{CallResponse, NO_GRPC, ProbeFailure};
    use crate::config::HttpSettings;
    use crate::record::Signal;

    /// There is none.
    pub(crate) struct GrpcSpec(Infallible);

    /// There is none.
    pub(crate) struct Grpc(Infallible);

    impl GrpcSpec {
        /// # Errors
        /// Always.
        pub(crate) fn new(_: &HttpSettings) -> Result<Self, String> {
            Err(NO_GRPC.to_owned())
        }

        pub(crate) fn open(&self) -> Grpc {
            match self.0 {}
        }
    }

    impl Grpc {
        pub(crate) fn try_export(&mut self, _: Signal, _: Instant) -> Result<CallResponse, ProbeFailure> {
            match self.0 {}
        }
    }
}

/// Opens what prints requests instead of sending them.
///
/// # Errors
/// When this build cannot.
#[cfg(feature = "console")]
pub(crate) fn console() -> Result<Opener, String> {
    Ok(Box::new(|| Box::<console::Console>::default()))
}

#[cfg(not(feature = "console"))]
pub(crate) fn console() -> Result<Opener, String> {
    Err("this build cannot print; build standpipe with its feature \"console\"".to_owned())
}

/// Sends one request at a time; never retries by itself.
pub(crate) trait Transport: Send {
    /// Returns by `deadline` whatever the network does.
    fn send(&mut self, payload: &Payload<'_>, deadline: Instant) -> Verdict;

    /// Ends a `send` under way on another thread, and all later ones, at once.
    fn interrupter(&self) -> Box<dyn Fn() + Send + Sync>;

    /// Ends a `send` under way on another thread, if it can be ended; later ones go on, over a new connection.
    fn cutter(&self) -> Box<dyn Fn() + Send + Sync>;
}

/// Messages begin in lower case; the system's do not.
fn lower_first(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_lowercase().chain(characters).collect()).unwrap_or_default()
}
