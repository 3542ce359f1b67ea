//! Pure: HTTP/2 without a socket.

pub(crate) mod hpack;
mod tables;
