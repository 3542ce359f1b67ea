//! Through an HTTP proxy: one `CONNECT`, and then the connection is the server's.

#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind, Read, Write};

use ureq::{Proxy, ProxyProtocol};

use super::super::base64::basic_credentials;
use crate::config::Secret;

/// No proxy has more to say before it lets us through.
const MOST_HEAD_BYTES: usize = 16 << 10;

/// The way through a proxy.
#[derive(Debug, Clone)]
pub(super) struct Tunnel {
    pub(super) host: String,
    pub(super) port: u16,
    /// As the proxy wants them, and the password in them.
    credentials: Option<[Secret; 2]>,
}

impl Tunnel {
    /// # Errors
    /// When the proxy itself wants to be spoken to over TLS.
    pub(super) fn new(proxy: &Proxy) -> Result<Self, String> {
        if proxy.protocol() != ProxyProtocol::Http {
            return Err(
                "gRPC cannot go through an https proxy; name an http one, or set proxy = \"off\"".to_owned()
            );
        }
        let credentials = proxy.username().map(|user| {
            let password = proxy.password().unwrap_or_default();
            [basic_credentials(user, password), password.to_owned()].map(Secret::new)
        });
        // an IPv6 address comes in brackets, which only URLs need
        let host = proxy.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { host, port: proxy.port(), credentials })
    }

    /// What must not be shown, even if the proxy repeats it.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &Secret> {
        self.credentials.iter().flatten()
    }

    /// Asks the proxy for a connection to the server.
    ///
    /// # Errors
    /// When it cannot be asked, or says no.
    pub(super) fn open(&self, wire: &mut (impl Read + Write), authority: &str) -> io::Result<()> {
        let credentials = match &self.credentials {
            Some([encoded, _]) => format!("proxy-authorization: Basic {}\r\n", encoded.expose()),
            None => String::new(),
        };
        let request = format!("CONNECT {authority} HTTP/1.1\r\nhost: {authority}\r\n{credentials}\r\n");
        wire.write_all(request.as_bytes())?;
        let head = read_head(wire)?;
        match head.split(' ').nth(1) {
            Some(status) if status.starts_with('2') => Ok(()),
            _ => {
                let said: String = head.lines().next().unwrap_or_default().chars().take(100).collect();
                Err(io::Error::other(format!("the proxy says {said:?}")))
            }
        }
    }
}

/// Byte by byte: what follows the head is not the proxy's.
fn read_head(wire: &mut impl Read) -> io::Result<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if wire.read(&mut byte)? == 0 || head.len() == MOST_HEAD_BYTES {
            return Err(io::Error::new(ErrorKind::InvalidData, "the proxy does not speak HTTP"));
        }
        head.push(byte[0]);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}
