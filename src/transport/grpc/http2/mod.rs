//! As much of HTTP/2 as unary gRPC needs: pure, no socket is ever touched here.
//!
//! ```text
//! bytes in → inbox → frame → conn ── call → answer
//!                      │       └ hpack ◄ tables
//! bytes out ◄──────────┴─ windows, settings, acknowledgements
//! ```
//!
//! `conn` is the client's side of a connection. The receiver's side, which has its own, shares everything else.

pub(crate) mod conn;
pub(crate) mod flow_control;
pub(crate) mod frame;
pub(crate) mod hpack;
pub(crate) mod peer;
