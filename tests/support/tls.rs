//! Generated certificates, and a TLS front on loopback that forwards decrypted bytes to a plain server.

#![allow(unused_imports, reason = "each test binary uses only a part of this")]

mod certificate;
mod front;
mod refusal;

pub(crate) use certificate::{Identity, TestCa};
pub(crate) use front::TlsFront;
pub(crate) use refusal::{BAD_CERTIFICATE, HANDSHAKE_FAILURE, refusing_with};
