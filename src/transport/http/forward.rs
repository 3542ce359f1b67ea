//! Plain HTTP through a proxy: the proxy is given the whole URL and makes the request itself.
//!
//! A tunnel would do as well, but usual proxies open none to other ports than 443.

use std::fmt;

use ureq::Proxy;

use crate::config::Secret;
use crate::transport::base64::basic_credentials;

/// What a proxy needs to know beside the request itself.
#[derive(Clone)]
pub(super) struct Forward {
    /// Scheme, host and port of the server.
    origin: String,
    /// A line of the head, if the proxy wants to know who asks.
    credentials: Option<Secret>,
}

impl Forward {
    /// By this proxy to the server of the URL.
    pub(super) fn new(proxy: &Proxy, url: &str) -> Self {
        let path = url.find("://").and_then(|at| Some(at + 3 + url[at + 3..].find(['/', '?'])?));
        let credentials = (proxy.username().is_some() || proxy.password().is_some()).then(|| {
            let (user, password) =
                (proxy.username().unwrap_or_default(), proxy.password().unwrap_or_default());
            Secret::new(format!("Proxy-Authorization: Basic {}\r\n", basic_credentials(user, password)))
        });
        Self { origin: url[..path.unwrap_or(url.len())].to_owned(), credentials }
    }

    /// What stands before the path.
    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    /// What stands behind the first line.
    pub(super) fn line(&self) -> &str {
        self.credentials.as_ref().map_or("", Secret::expose)
    }
}

// by hand: the origin may be from a variable
impl fmt::Debug for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forward").finish_non_exhaustive()
    }
}

/// What a proxy's credentials are made of, which it could repeat.
pub(super) fn secrets(proxy: &Proxy) -> Vec<Secret> {
    let user = proxy.username().unwrap_or_default();
    let password = proxy.password().unwrap_or_default();
    if password.is_empty() {
        return Vec::new();
    }
    vec![Secret::new(password), Secret::new(basic_credentials(user, password))]
}
