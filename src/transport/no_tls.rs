//! Stands in for `tls` in a build without it, where nothing can be wrong with TLS and there is nothing to see.

use std::io;
#[cfg(feature = "probe")]
use std::net::SocketAddr;
#[cfg(feature = "probe")]
use std::time::Instant;

#[cfg(feature = "probe")]
use crate::config::HttpSettings;
#[cfg(feature = "probe")]
use crate::transport::Look;
use crate::transport::TlsFault;

pub(crate) fn fault(_: &io::Error) -> Option<TlsFault> {
    None
}

#[cfg(feature = "probe")]
pub(crate) fn look(_: &HttpSettings, _: &str, _: SocketAddr, _: Option<&[u8]>, _: Instant) -> Look {
    Look::none(io::ErrorKind::Unsupported.into())
}
