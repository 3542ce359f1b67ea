//! OTLP over gRPC.

mod http2;
