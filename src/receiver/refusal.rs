//! Why a request is turned down, in words for the client.

use std::time::Duration;

/// How long a client is to wait that finds no room.
pub(super) const COME_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A request that gets an error for an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn new(status: u16, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(super) fn too_large(limit: usize) -> Self {
        Self::new(413, format!("request body too large: the limit is {limit} bytes"))
    }

    /// For a request that unfolds to more than all requests together may take.
    pub(super) fn too_large_in_memory(limit: usize) -> Self {
        Self::new(413, format!("request body too large: it unfolds to more than {limit} bytes in memory"))
    }

    /// For a request that may come again, when others are done.
    pub(super) fn too_much_at_a_time() -> Self {
        Self::new(503, "too much at a time on all connections; try again")
    }
}
