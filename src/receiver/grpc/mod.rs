//! OTLP over gRPC: the server's side of HTTP/2 in cleartext, as far as unary calls need it.
//!
//! ```text
//! socket → connection → session → call → desk ── reception          what the client said
//!             │            ▲ incoming, outgoing (pure)
//!             └── line ◄───┴── delivery ◄ reply ◄ answer              what it hears
//! ```
//!
//! One thread reads; each call at a time has a thread to be answered on, so that one that waits keeps no other waiting. All
//! connections share a bound of such threads, beyond the one that each has for itself; a thread without a call ends.

mod call;
mod connection;
mod crew;
mod delivery;
mod desk;
mod incoming;
mod line;
mod outgoing;
mod reply;
mod session;
mod stream;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;

pub(super) use connection::serve;
