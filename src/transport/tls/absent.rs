//! Stands in for TLS in a build without the feature "tls", where nothing can be wrong with TLS and there is nothing to see.

use std::io;
#[cfg(feature = "probe")]
use std::net::SocketAddr;
#[cfg(feature = "probe")]
use std::time::Instant;

#[cfg(feature = "probe")]
use crate::config::HttpSettings;
#[cfg(feature = "grpc")]
use crate::config::TlsSettings;
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

/// There is none.
#[cfg(feature = "grpc")]
#[derive(Debug, Clone)]
pub(super) enum Connector {}

#[cfg(feature = "grpc")]
impl Connector {
    pub(super) fn new(_: &TlsSettings, _: &str, _: &[u8]) -> Result<Self, String> {
        Err("https needs the feature \"tls\"".to_owned())
    }

    pub(super) fn afresh(&self) -> Self {
        match *self {}
    }

    pub(super) fn connect<W>(&self, _: &mut W) -> io::Result<Session> {
        match *self {}
    }
}

/// There is none.
#[cfg(feature = "grpc")]
#[derive(Debug)]
pub(super) enum Session {}

#[cfg(feature = "grpc")]
impl Session {
    pub(super) fn protocol(&self) -> Option<&[u8]> {
        match *self {}
    }

    pub(super) fn read<W>(&mut self, _: &mut W, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }

    pub(super) fn write_all<W>(&mut self, _: &mut W, _: &[u8]) -> io::Result<()> {
        match *self {}
    }
}
