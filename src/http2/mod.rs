//! A pure HTTP/2 core (RFC 9113) with HPACK (RFC 7541), as far as unary gRPC needs it: bytes in, bytes and events out,
//! no socket, no clock.
//!
//! ```text
//! bytes in ─► connection: frames, header blocks, settings, floods ─ stream events ► client, or receiver::grpc::session
//!                │    └ frame, hpack, flow_control
//! bytes out ◄────┘
//! ```
//!
//! `connection` is shared by both sides and `client` is the client's side; the server's side is in the receiver. Not
//! implemented: push (disabled by SETTINGS), priorities (read and ignored), and CONNECT.
//!
//! | Part of RFC 9113 | Where |
//! |---|---|
//! | 3.4 connection preface | `client`, `receiver::grpc::session` |
//! | 4.3, 6.10 header blocks, CONTINUATION | `connection::HeaderBlock` |
//! | 5.1.1 stream ids | `ClientConnection::check_known`, `receiver::grpc::incoming` |
//! | 5.2, 6.9 flow control | `flow_control` |
//! | 6 frame formats | `frame` |
//! | 6.5 SETTINGS | `frame::Settings`, `connection::PeerSettings` |
//! | 6.8 GOAWAY | `client` |
//! | 8.1.1, 8.2, 8.3 malformed messages | `client::call`, `receiver::grpc::call` |
//! | 10.5 denial of service | limits in `connection`, `client`, `hpack::decoder` |
//!
//! # Bounds
//! Of the bytes that a hostile peer sends, `connection` holds at most the last read, one frame (16 KiB), one header
//! block (32 KiB), one decoded header list, and the dynamic table (4 KiB). `client` also holds the headers, the
//! trailers and at most 64 KiB of the body of one response. Too many frames without effect end the connection.

pub(crate) mod client;
pub(crate) mod connection;
pub(crate) mod flow_control;
pub(crate) mod frame;
pub(crate) mod hpack;
