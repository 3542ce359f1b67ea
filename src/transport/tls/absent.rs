//! Stands in for TLS in a build without the feature "tls", where nothing can be wrong with TLS and there is nothing to see.

use std::io;
#[cfg(feature = "probe")]
use std::net::SocketAddr;
#[cfg(feature = "probe")]
use std::time::Instant;

use super::TlsFault;
#[cfg(feature = "probe")]
use super::TlsPeek;
#[cfg(feature = "probe")]
use crate::config::ConnectionSettings;
#[cfg(feature = "grpc")]
use crate::config::TlsSettings;

pub(crate) fn fault(_: &io::Error) -> Option<TlsFault> {
    None
}

#[cfg(feature = "probe")]
pub(crate) fn peek(_: &ConnectionSettings, _: &str, _: SocketAddr, _: Option<&[u8]>, _: Instant) -> TlsPeek {
    TlsPeek::none(io::ErrorKind::Unsupported.into())
}

/// There is none.
#[cfg(feature = "grpc")]
#[derive(Debug, Clone)]
pub(crate) enum Connector {}

#[cfg(feature = "grpc")]
impl Connector {
    pub(crate) fn new(_: &TlsSettings, _: &str, _: &[u8]) -> Result<Self, String> {
        Err("https needs the feature \"tls\"".to_owned())
    }

    pub(crate) fn without_sessions(&self) -> Self {
        match *self {}
    }

    pub(crate) fn connect<W>(&self, _: &mut W) -> io::Result<Session> {
        match *self {}
    }
}

/// There is none.
#[cfg(feature = "grpc")]
#[derive(Debug)]
pub(crate) enum Session {}

#[cfg(feature = "grpc")]
impl Session {
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        match *self {}
    }

    pub(crate) fn read<W>(&mut self, _: &mut W, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn write_all<W>(&mut self, _: &mut W, _: &[u8]) -> io::Result<()> {
        match *self {}
    }
}
