//! Who can be on the other side, how each is started, and how what it got is seen.

mod collector;
mod node;
mod oracle;
mod rotel;
mod stage;
mod tonic;

use std::path::Path;

pub(crate) use stage::{Sent, Stage};

use crate::Error;
use crate::identity::Identity;
use crate::process::{Ending, Recipe};

/// How the program talks to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Http,
    Grpc,
}

impl Transport {
    pub(crate) const ALL: [Self; 2] = [Self::Http, Self::Grpc];

    /// As it stands in a configuration.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
        }
    }
}

/// What is wanted of a server.
#[derive(Clone, Copy)]
pub(crate) struct Order<'a> {
    pub(crate) transport: Transport,
    /// It speaks TLS as this one.
    pub(crate) identity: Option<&'a Identity>,
    /// HTTP/2 settings that it asks of its clients, by name.
    pub(crate) settings: &'static str,
}

/// What a server is given to work with.
pub(crate) struct Place<'a> {
    pub(crate) port: u16,
    /// Where it was installed.
    pub(crate) tools: &'a Path,
    /// Where it may write.
    pub(crate) folder: &'a Path,
    /// The file for what it gets, if it writes one.
    pub(crate) book: &'a Path,
    /// The sink that it passes on to, if it does.
    pub(crate) sink: &'a str,
}

/// A kind of server.
pub(crate) trait Server: Sync {
    fn name(&self) -> &'static str;

    /// Why it cannot be talked to like this at all, if it cannot.
    fn lacks_transport(&self, _transport: Transport) -> Option<&'static str> {
        None
    }

    /// Why it cannot speak TLS, if it cannot.
    fn lacks_tls(&self) -> Option<&'static str> {
        None
    }

    /// It passes on what it gets to a sink, instead of writing it down.
    fn passes_on(&self) -> bool {
        false
    }

    /// How it may be ended without losing what it has confirmed.
    fn ending(&self) -> Ending {
        Ending::Kill
    }

    /// HTTP/2 settings that it can ask of its clients, beside the usual ones, with what they come to.
    fn settings(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    fn recipe(&self, order: &Order<'_>, place: &Place<'_>) -> Result<Recipe, Error>;
}

/// All kinds, in the order of the table.
pub(crate) const ALL: [&dyn Server; 5] =
    [&collector::Collector, &oracle::Oracle, &node::Node, &rotel::Rotel, &tonic::Tonic];
