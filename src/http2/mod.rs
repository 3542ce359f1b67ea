//! As much of HTTP/2 as unary gRPC needs, pure: bytes in, bytes and events out, no socket.
//!
//! ```text
//! bytes in → connection (frames, header blocks, settings, floods) ── events of streams → conn (client), or the receiver
//!                │    └ hpack, flow_control
//! bytes out ◄────┘
//! ```
//!
//! `connection` is shared by both sides, `conn` is the client's side. The server's side belongs to the receiver.

pub(crate) mod conn;
pub(crate) mod connection;
pub(crate) mod flow_control;
pub(crate) mod frame;
pub(crate) mod hpack;
