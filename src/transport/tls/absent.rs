//! Replacement for TLS in a build without the feature "tls": its types have no values.

use std::io;

use super::TlsFault;
use crate::config::TlsSettings;
use crate::transport::SetupError;
use crate::transport::stream::Stream;

pub(crate) fn fault(_: &io::Error) -> Option<TlsFault> {
    None
}

pub(crate) fn check(_: &TlsSettings) -> Result<(), SetupError> {
    Ok(())
}

/// Has no values.
#[derive(Debug, Clone)]
pub(crate) enum TlsConnector {}

impl TlsConnector {
    pub(crate) fn new(_: &TlsSettings, _: &str, _: Option<&[u8]>) -> Result<Self, SetupError> {
        Err("https needs the feature \"tls\"".into())
    }

    #[cfg(feature = "probe")]
    pub(crate) fn recording(self, _: &TlsSettings) -> Result<Self, SetupError> {
        match self {}
    }

    #[cfg(feature = "probe")]
    pub(crate) fn take_certificate(&self) -> Option<Vec<u8>> {
        match *self {}
    }

    pub(crate) fn without_sessions(&self) -> Self {
        match *self {}
    }

    pub(crate) fn connect(&self, _: Stream) -> io::Result<Stream> {
        match *self {}
    }
}

/// Has no values.
#[derive(Debug)]
pub(crate) enum Session {}

impl Session {
    #[cfg(feature = "grpc")]
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        match *self {}
    }

    #[cfg(feature = "probe")]
    pub(crate) fn version(&self) -> &'static str {
        match *self {}
    }

    pub(crate) fn read(&mut self, _: &mut Stream, _: &mut [u8]) -> io::Result<usize> {
        match *self {}
    }

    pub(crate) fn write(&mut self, _: &mut Stream, _: &[u8]) -> io::Result<usize> {
        match *self {}
    }
}
