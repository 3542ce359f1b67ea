//! The receiver over gRPC, with a client that writes its frames by hand.

mod answers;
pub(crate) mod client;
mod flow;
mod hostile;
mod lifecycle;
mod script;
