//! The embedded receiver over real sockets: it answers as OTLP asks, misbehaves as told, and survives what
//! clients do to it.

mod answers;
mod client;
