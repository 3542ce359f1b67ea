//! What do the settings of a connection come to? Where requests go, what their heads hold, and what of it is not shown.

use std::fmt;

use super::connection::ConnectionSettings;
use crate::config::endpoint::{self, Endpoint};
use crate::config::error::Fault;
use crate::config::header;
use crate::config::values::words::Transport;
use crate::record::Signal;

/// No server takes more. Over HTTP the head of a request must fit into one write of 64 KiB, or secrets could not be put
/// into it; what is not counted, such as the host's name and a proxy's credentials, has the other half of it.
const MOST_HEAD_BYTES: usize = 32 << 10;
/// A colon, a space and the end of the line.
const FIELD_FRAMING: usize = 4;

impl ConnectionSettings {
    /// The full URL that a signal is posted to; for gRPC scheme, host and port; what is printed goes to `stdout`.
    ///
    /// An endpoint that cannot be understood is returned as it is: validation has reported it before anything is sent.
    pub(crate) fn url(&self, signal: Signal) -> String {
        self.meaning(&self.endpoint, signal)
    }

    /// The same for messages: without what may be a secret.
    pub(crate) fn shown_url(&self, signal: Signal) -> String {
        self.meaning(&self.shown_endpoint, signal)
    }

    /// Counts what endpoint, user-agent and headers add to the head of every request, without a look at their text: there
    /// may be hundreds of exporters that each have a whole file in it.
    ///
    /// # Errors
    /// When there is more than a request can carry.
    pub(crate) fn check_head(&self) -> Result<(), String> {
        let headers =
            self.headers.iter().map(|(name, value)| name.len() + value.expose().len() + FIELD_FRAMING);
        let product = self.user_agent.as_ref().map_or(0, String::len);
        let bytes = headers.sum::<usize>() + product + self.endpoint.len();
        match bytes > MOST_HEAD_BYTES {
            true => Err(format!(
                "headers, endpoint and user-agent are {bytes} bytes long together, and a request can carry {} KiB of them",
                MOST_HEAD_BYTES >> 10
            )),
            false => Ok(()),
        }
    }

    /// Who sends: the user's token, then ours.
    pub(crate) fn full_user_agent(&self) -> String {
        let own = concat!("standpipe/", env!("CARGO_PKG_VERSION"));
        match &self.user_agent {
            Some(token) => format!("{token} {own}"),
            None => own.to_owned(),
        }
    }

    /// Host and port, if they are not to be shown.
    pub(crate) fn hidden_authority(&self) -> Option<&str> {
        let used = authority(&self.endpoint);
        (used != authority(&self.shown_endpoint)).then_some(used)
    }

    /// What beside headers is not to be shown, even if a server repeats it.
    pub(crate) fn hidden_texts(&self) -> impl Iterator<Item = &str> {
        let host = self.hidden_authority().map(|authority| match authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => authority,
        });
        host.into_iter().chain(self.user_agent.as_deref().filter(|_| self.hides_user_agent))
    }

    /// Scheme, host and port without what may be a secret, if they can be understood so.
    pub(in crate::config) fn shown_origin(&self) -> Option<String> {
        Some(Endpoint::parse(&self.shown_endpoint, self.transport, self.insecure).ok()?.origin())
    }

    /// The endpoint, if it can be understood.
    pub(in crate::config) fn parsed(&self) -> Result<Endpoint, Fault> {
        Endpoint::parse(&self.endpoint, self.transport, self.insecure)
    }

    fn meaning(&self, endpoint: &str, signal: Signal) -> String {
        let understood = Endpoint::parse(endpoint, self.transport, self.insecure);
        match (self.transport, understood) {
            (Transport::Console, _) => self.transport.default_endpoint().to_owned(),
            (Transport::Http, Ok(understood)) => understood.url(signal.path(), self.path_rule),
            (Transport::Grpc, Ok(understood)) => understood.origin(),
            (_, Err(_)) => endpoint.to_owned(),
        }
    }
}

/// Host and port of an endpoint, whether it is understood or not.
fn authority(endpoint: &str) -> &str {
    let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

// by hand: the endpoint may hold a secret
impl fmt::Debug for ConnectionSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionSettings")
            .field("endpoint", &endpoint::without_path(&self.shown_endpoint))
            .field(
                "headers",
                &self.headers.iter().map(|(name, _)| header::shown_name(name)).collect::<Vec<_>>(),
            )
            .field("timeout", &self.timeout)
            .field("compression", &self.compression)
            .field("proxy", &self.proxy)
            .field("tls", &self.tls)
            .finish_non_exhaustive()
    }
}
