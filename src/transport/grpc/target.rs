//! Where calls go to, and by which way.

use super::super::proxy;
use super::super::tls::Connector;
use super::tunnel::Tunnel;
use crate::config::ConnectionSettings;
use crate::record::Signal;

/// What both must agree on in a TLS handshake.
const PROTOCOL: &[u8] = b"h2";

#[derive(Debug, Clone)]
pub(super) struct Target {
    /// Without the brackets of an IPv6 address.
    pub(super) host: String,
    pub(super) port: u16,
    /// Host and port, as requests name them.
    pub(super) authority: String,
    /// For messages.
    pub(super) shown: String,
    pub(super) tls: Option<Connector>,
    pub(super) tunnel: Option<Tunnel>,
}

impl Target {
    /// # Errors
    /// What is wrong with the endpoint, the certificates or the proxy, in words.
    pub(super) fn new(settings: &ConnectionSettings) -> Result<Self, String> {
        // all signals have the same: scheme, host and port
        let origin = settings.url(Signal::Traces);
        let unreadable = || "the endpoint cannot be read".to_owned();
        let (scheme, authority) = origin.split_once("://").ok_or_else(unreadable)?;
        let (host, port) = authority.rsplit_once(':').ok_or_else(unreadable)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = match scheme {
            "https" => Some(Connector::new(&settings.tls, &host, PROTOCOL)?),
            _ => None,
        };
        let proxy = proxy::choose(settings.proxy, &origin, |name| std::env::var(name).ok())?;
        Ok(Self {
            host,
            port: port.parse().map_err(|_| unreadable())?,
            authority: authority.to_owned(),
            shown: settings.shown_url(Signal::Traces),
            tls,
            tunnel: proxy.as_ref().map(Tunnel::new).transpose()?,
        })
    }

    /// The same for another process, with which nothing is shared that has a lock.
    pub(super) fn afresh(&self) -> Self {
        Self { tls: self.tls.as_ref().map(Connector::afresh), ..self.clone() }
    }

    pub(super) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }
}

/// Whether a handshake led to HTTP/2.
pub(super) fn is_agreed(protocol: Option<&[u8]>) -> bool {
    protocol == Some(PROTOCOL)
}
