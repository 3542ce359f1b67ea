//! The way to a collector, up to where it is spoken to: the same for every transport.

use std::net::SocketAddr;
use std::time::Instant;

use super::StageKind;
use super::certificate::Certificate;
use super::place::Place;
use super::speech;
use super::stages::Stages;
use super::words::{self, Target, Words};
use crate::config::ConnectionSettings;
use crate::transport::{End, Failure, HttpSpec, Look, TlsFaultKind, Trial, look};

/// More addresses than these are only counted.
const MOST_ADDRESSES: usize = 4;

/// What is known of it before it is gone.
pub(super) struct Way<'a> {
    pub(super) settings: &'a ConnectionSettings,
    pub(super) plan: &'a HttpSpec,
    pub(super) place: &'a Place,
    pub(super) deadline: Instant,
}

impl Way<'_> {
    /// Tells of the stages up to TLS; whether all of them passed.
    pub(super) fn enter(&self, trial: &Trial, stages: &mut Stages) -> bool {
        let (steps, proxy) = (&trial.steps, self.plan.proxy());
        // what has not failed has gone all the way, so that none of this is then told
        let none = Failure::Closed;
        let failure = if let End::Failed(failure) = &trial.end { failure } else { &none };
        let Some(at) = steps.resolved else {
            let who = match &proxy {
                Some(proxy) => format!("the proxy {proxy}"),
                None => format!("\"{}\"", self.place.shown_host),
            };
            stages.fail(StageKind::Resolve, trial.ended, words::unresolved(&who, failure));
            return false;
        };
        stages.pass(StageKind::Resolve, at, self.addresses(trial));
        let Some(at) = steps.connected else {
            let transport = self.settings.transport;
            let target = Target { addresses: self.addresses(trial), proxy: proxy.as_deref(), transport };
            stages.fail(StageKind::Connect, trial.ended, words::unconnected(&target, failure));
            return false;
        };
        stages.pass(StageKind::Connect, at, self.connection(trial));
        if !self.place.is_tls {
            return true;
        }
        // a server may refuse a client's certificate when it has long been greeted
        let Some(at) = steps.secured.filter(|_| !matches!(failure, Failure::Tls(_))) else {
            stages.fail(StageKind::Tls, trial.ended, self.unsecured(trial, failure));
            return false;
        };
        stages.pass(StageKind::Tls, at, self.tls(trial));
        true
    }

    fn addresses(&self, trial: &Trial) -> String {
        let all = &trial.steps.addresses;
        let has_proxy = self.plan.proxy().is_some();
        let show = |address| match has_proxy {
            true => format!("proxy {address}"),
            false => self.place.shown_address(address),
        };
        let shown: Vec<String> = all.iter().take(MOST_ADDRESSES).map(|address| show(*address)).collect();
        match all.len() {
            0..=MOST_ADDRESSES => shown.join(", "),
            count => format!("{} and {} more", shown.join(", "), count - MOST_ADDRESSES),
        }
    }

    fn connection(&self, trial: &Trial) -> String {
        match (self.plan.proxy(), trial.steps.peer) {
            (Some(proxy), _) => format!("by way of the proxy {proxy}"),
            (None, Some(peer)) => self.place.shown_address(peer),
            (None, None) => "connected".to_owned(),
        }
    }

    /// What is known of an encrypted connection.
    fn tls(&self, trial: &Trial) -> String {
        let look = self.look(trial, None);
        let certificate = look.as_ref().and_then(|look| Certificate::parse(look.certificate.as_ref()?));
        let version = look.and_then(|look| look.version).unwrap_or("TLS");
        match certificate {
            Some(certificate) => format!("{version}, {certificate}"),
            None if self.settings.tls.ca.is_some() => "certificate verified by ca-file".to_owned(),
            None => "certificate verified by the bundled roots".to_owned(),
        }
    }

    fn unsecured(&self, trial: &Trial, failure: &Failure) -> Words {
        let kind = match failure {
            Failure::Tls(fault) => Some(fault.kind),
            Failure::Closed => None,
            _ => return words::unsecured(failure, self.place, self.settings.tls.ca.is_some(), None),
        };
        // what begins as TLS and goes on as something else is broken, not another protocol
        if kind == Some(TlsFaultKind::NotTls) && speech::is_record(&trial.steps.first_bytes) {
            return words::broken_tls();
        }
        // a second look at who is not known, and at what was asked for before the server ended it
        let is_worth_it = matches!(
            kind,
            None | Some(
                TlsFaultKind::UnknownIssuer
                    | TlsFaultKind::ClientCertificateRefused
                    | TlsFaultKind::Other
                    | TlsFaultKind::Passing
            )
        );
        let look = if is_worth_it { self.look(trial, None) } else { None };
        if look.as_ref().is_some_and(|look| look.misses_client) {
            return words::no_client_certificate();
        }
        let is_unknown = kind == Some(TlsFaultKind::UnknownIssuer);
        let certificate = look.filter(|_| is_unknown).and_then(|look| Certificate::parse(&look.certificate?));
        words::unsecured(failure, self.place, self.settings.tls.ca.is_some(), certificate.as_ref())
    }

    /// A second connection to the same address; none through a proxy.
    pub(super) fn look(&self, trial: &Trial, protocol: Option<&[u8]>) -> Option<Look> {
        Some(look(self.settings, &self.place.host, self.server(trial)?, protocol, self.deadline))
    }

    /// Where the server can be asked once more; not through a proxy.
    pub(super) fn server(&self, trial: &Trial) -> Option<SocketAddr> {
        trial.steps.peer.filter(|_| self.plan.proxy().is_none())
    }
}
