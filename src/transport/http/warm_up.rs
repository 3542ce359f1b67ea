//! What ureq does once per process, done at start.

use ureq::Agent;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// The first request of a process initialises a static of ureq. A child forked in that very moment would
/// find it half done and wait for it for ever. So there is a first request, which leads nowhere, before
/// there is a worker; whoever starts one holds off forks meanwhile.
pub(super) fn warm_up() {
    let agent = Agent::with_parts(Config::default(), (), Nowhere);
    // that it fails is the point of it
    let _ = agent.get("http://standpipe-warm-up.invalid/").call();
}

#[derive(Debug)]
struct Nowhere;

impl Resolver for Nowhere {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        Err(ureq::Error::HostNotFound)
    }
}
