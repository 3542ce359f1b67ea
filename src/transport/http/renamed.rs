//! A server by another name: the one that ureq knows, and shows, is not always that of the peer.

use ureq::http::Uri;
use ureq::unversioned::transport::{ConnectionDetails, Connector, Transport};

/// Where ureq says the first, the second is meant.
#[derive(Debug, Clone)]
pub(super) struct Renamed {
    /// Host and port.
    pub(super) seen: String,
    pub(super) meant: Uri,
}

/// A connector that knows whom it connects to.
#[derive(Debug)]
pub(super) struct Knowing<C> {
    pub(super) renamed: Option<Renamed>,
    pub(super) connector: C,
}

impl<In: Transport, C: Connector<In>> Connector<In> for Knowing<C> {
    type Out = C::Out;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        let is_meant = |renamed: &&Renamed| details.uri.authority().is_some_and(|name| *name == renamed.seen);
        let Some(Renamed { meant, .. }) = self.renamed.as_ref().filter(is_meant) else {
            return self.connector.connect(details, chained);
        };
        let details = ConnectionDetails {
            uri: meant,
            addrs: details.addrs.clone(),
            config: details.config,
            request_level: details.request_level,
            resolver: details.resolver,
            now: details.now,
            timeout: details.timeout,
            current_time: details.current_time.clone(),
            run_connector: details.run_connector.clone(),
            register_shutdown: details.register_shutdown.clone(),
        };
        self.connector.connect(&details, chained)
    }
}
