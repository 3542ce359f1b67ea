//! OTLP over gRPC: unary calls over HTTP/2, by hand, without an async runtime.

pub(crate) mod http2;
