//! Why a request is refused: a message for the client, and a kind for the program that runs the receiver.

use std::time::Duration;

use super::store::{Protocol, ReceivedRequest};

/// How long a client is to wait that finds no room.
pub(super) const COME_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What is wrong with a request that is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RefusalKind {
    /// It goes to a path that takes no telemetry.
    Path,
    /// It is no POST.
    Method,
    /// Its content type is none that can be read.
    ContentType,
    /// It is compressed in a way that cannot be read.
    Compression,
    /// Its body is not what its content type and its path promise.
    Undecodable,
    /// It is larger than [`Builder::max_body_bytes`](super::Builder::max_body_bytes) or
    /// [`Builder::max_memory_bytes`](super::Builder::max_memory_bytes) allows, or its head is too long.
    TooLarge,
    /// Others take the memory that it needs. The client may retry.
    Busy,
    /// It took too long to arrive.
    Late,
    /// It is meant for another host: see [`Builder::local_hosts_only`](super::Builder::local_hosts_only).
    Host,
    /// A gRPC request at the port for HTTP.
    GrpcAtHttpPort,
    /// An HTTP/1 request at the port for gRPC.
    HttpAtGrpcPort,
    /// A TLS handshake, which the receiver does not support.
    Tls,
    /// It breaks the rules of HTTP.
    Malformed,
}

/// A request that was refused by itself, not by an [`Answer`](super::Answer) that was ordered.
///
/// [`Builder::on_refusal`](super::Builder::on_refusal) is shown each of them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RefusedRequest {
    /// What is wrong with it.
    pub kind: RefusalKind,
    /// The protocol of the port that it came to.
    pub protocol: Protocol,
    /// The HTTP status of the answer. Over gRPC, what the client sees is the gRPC code that goes with it.
    pub status: u16,
    /// The message that the client gets.
    pub message: String,
    /// The request, as far as it could be read; `None` without a readable head.
    pub request: Option<ReceivedRequest>,
}

/// A request that gets an error for an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) kind: RefusalKind,
    pub(super) status: u16,
    pub(super) message: String,
}

impl Refusal {
    /// Of the kind that the status stands for.
    pub(super) fn new(status: u16, message: impl Into<String>) -> Self {
        let kind = match status {
            403 => RefusalKind::Host,
            404 => RefusalKind::Path,
            405 => RefusalKind::Method,
            408 => RefusalKind::Late,
            413 | 431 => RefusalKind::TooLarge,
            415 => RefusalKind::ContentType,
            503 => RefusalKind::Busy,
            _ => RefusalKind::Malformed,
        };
        Self { kind, status, message: message.into() }
    }

    /// The same, of another kind.
    pub(super) fn of_kind(self, kind: RefusalKind) -> Self {
        Self { kind, ..self }
    }

    pub(super) fn undecodable(message: impl Into<String>) -> Self {
        Self::new(400, message).of_kind(RefusalKind::Undecodable)
    }

    pub(super) fn too_large(limit: usize) -> Self {
        Self::new(413, format!("request body too large: the limit is {limit} bytes"))
    }

    /// For a request that unfolds to more than all requests together may take.
    pub(super) fn too_large_in_memory(limit: usize) -> Self {
        Self::new(413, format!("request body too large: it unfolds to more than {limit} bytes in memory"))
    }

    /// For a request that may be retried, when others are done.
    pub(super) fn too_much_at_a_time() -> Self {
        Self::new(503, "too much at a time on all connections; try again")
    }

    /// For those who run the receiver.
    pub(super) fn describe(&self, protocol: Protocol, request: Option<ReceivedRequest>) -> RefusedRequest {
        let (kind, status, message) = (self.kind, self.status, self.message.clone());
        RefusedRequest { kind, protocol, status, message, request }
    }
}
