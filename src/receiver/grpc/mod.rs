//! OTLP over gRPC: the server's side of HTTP/2 in cleartext, as far as unary calls need it.
//!
//! ```text
//! socket → connection → session → call → handler ── request_sink          what the client sent
//!             │            ▲ incoming, outgoing (pure)
//!             └── shared_connection ◄── delivery ◄ reply ◄ answer              what it receives
//! ```
//!
//! One thread reads; each call at a time has a thread to be answered on, so that one that waits keeps no other waiting. All
//! connections share a bound of such threads, beyond the one that each has for itself; a thread without a call ends.

mod call;
mod connection;
mod delivery;
mod handler;
mod incoming;
mod outgoing;
mod reply;
mod session;
mod shared_connection;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod worker_pool;

pub(super) use connection::serve;
