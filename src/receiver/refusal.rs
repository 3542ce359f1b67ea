//! Why a request is turned down, in words for the client.

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
}
