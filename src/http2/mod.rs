//! As much of HTTP/2 as unary gRPC needs, pure: bytes in, bytes and events out, no socket.
//!
//! ```text
//! bytes in → peer (frame buffer, header block) → frame → conn ── call → response
//!                                                  │      └ hpack
//! bytes out ◄── flow_control, settings, acknowledgements
//! ```
//!
//! `conn` is the client's side of a connection. The receiver has its own server side and shares everything else.

pub(crate) mod conn;
pub(crate) mod flow_control;
pub(crate) mod frame;
pub(crate) mod hpack;
pub(crate) mod peer;
