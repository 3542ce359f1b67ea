//! Requests to a proxy that forwards plain HTTP.
//!
//! Such a proxy needs the request line in absolute form (`POST http://collector:4318/v1/traces`), which ureq cannot write. So
//! ureq is given the proxy's URL, and the layer here inserts the server's origin behind the method.

use std::io;
use std::sync::Arc;

use ureq::http::{HeaderName, HeaderValue};
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};

use super::sensitive_header;
use crate::transport::base64::basic_credentials;

/// The start of every request line.
const METHOD: &[u8] = b"POST ";

/// Adds the server's host and the proxy's credentials, if it has some, to the headers of every request. Configured headers of
/// these names stay: two of them would make the request invalid.
pub(super) fn add_headers(
    proxy: &ureq::Proxy,
    origin: &str,
    headers: &mut Vec<(HeaderName, HeaderValue)>,
) -> Result<(), String> {
    let host = origin.split_once("://").map_or(origin, |(_, host)| host);
    let mut added = vec![sensitive_header("host", host)?];
    if proxy.username().is_some() || proxy.password().is_some() {
        let (user, password) = (proxy.username().unwrap_or_default(), proxy.password().unwrap_or_default());
        let value = format!("Basic {}", basic_credentials(user, password));
        added.push(sensitive_header("proxy-authorization", &value)?);
    }
    added.retain(|(name, _)| headers.iter().all(|(given, _)| given != name));
    headers.extend(added);
    Ok(())
}

/// Connector of the layer. It changes nothing unless it has an origin.
#[derive(Debug, Clone)]
pub(super) struct Forward {
    /// Scheme and authority of the server.
    origin: Option<Arc<str>>,
}

impl Forward {
    pub(super) fn new(origin: Option<&str>) -> Self {
        Self { origin: origin.map(Arc::from) }
    }
}

impl<In: Transport> Connector<In> for Forward {
    type Out = ForwardedStream<In>;

    fn connect(
        &self,
        _: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        Ok(chained.map(|inner| ForwardedStream { inner, origin: self.origin.clone(), is_at_head: true }))
    }
}

#[derive(Debug)]
pub(super) struct ForwardedStream<In> {
    inner: In,
    origin: Option<Arc<str>>,
    /// True while the next output begins a request, false while it continues one: a body may look like a request line.
    is_at_head: bool,
}

impl<In: Transport> Transport for ForwardedStream<In> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        let is_at_head = std::mem::replace(&mut self.is_at_head, false);
        let Some(origin) = self.origin.as_deref().filter(|_| is_at_head) else {
            return self.inner.transmit_output(amount, timeout);
        };
        let length = insert_origin(self.inner.buffers().output(), amount, origin)?;
        self.inner.transmit_output(length, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        // Output that follows an answer is the next request.
        self.is_at_head = true;
        self.inner.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}

/// Inserts the origin behind the method of the request line in the first `length` bytes, and returns the new length.
///
/// # Errors
/// When these bytes do not begin a request, or the buffer has no room for the origin.
fn insert_origin(output: &mut [u8], length: usize, origin: &str) -> io::Result<usize> {
    let (start, end) = (METHOD.len(), METHOD.len() + origin.len());
    if !output[..length].starts_with(METHOD) {
        return Err(io::Error::other("the request for the proxy does not begin with its method"));
    }
    if length + origin.len() > output.len() {
        return Err(io::Error::other("the head of the request is too long"));
    }
    output.copy_within(start..length, end);
    output[start..end].copy_from_slice(origin.as_bytes());
    Ok(length + origin.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inserts_the_origin_into_the_request_line() {
        let mut output = [0; 64];
        let head = b"POST /v1/traces HTTP/1.1\r\n";
        output[..head.len()].copy_from_slice(head);
        let length = insert_origin(&mut output, head.len(), "http://collector:4318").unwrap();
        assert_eq!(&output[..length], b"POST http://collector:4318/v1/traces HTTP/1.1\r\n");
    }

    #[test]
    fn refuses_output_that_is_not_a_request_or_has_no_room() {
        let mut output = *b"POST / HTTP/1.1\r\n";
        let length = output.len();
        assert!(insert_origin(&mut output, length, "http://collector").is_err());
        assert!(insert_origin(&mut [b'x'; 64], 10, "http://collector").is_err());
    }

    #[test]
    fn adds_the_servers_host_and_the_credentials_unless_they_are_configured() {
        let proxy = ureq::Proxy::new("http://shop:hunter2@proxy:3128").unwrap();
        let add = |mut headers| {
            add_headers(&proxy, "http://collector:4318", &mut headers).unwrap();
            assert!(!format!("{headers:?}").contains("c2hvcDpodW50ZXIy"), "{headers:?}");
            let shown = headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
            shown.collect::<Vec<_>>()
        };
        assert_eq!(add(vec![]), ["host: collector:4318", "proxy-authorization: Basic c2hvcDpodW50ZXIy"]);
        let given = ["host", "proxy-authorization"].map(|name| sensitive_header(name, "x").unwrap());
        assert_eq!(add(given.into()), ["host: x", "proxy-authorization: x"]);
    }
}
