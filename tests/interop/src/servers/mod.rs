//! Who can be on the other side, how each is started, and how what it got is seen.

mod collector;
mod node;
mod oracle;
mod rotel;
mod stage;
mod tonic;

use std::path::Path;
use std::time::Duration;

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
    /// Whether it takes more than 4 MiB at a time.
    pub(crate) largest: Largest,
    /// The name of the manner in which it treats its clients.
    pub(crate) manner: &'static str,
}

/// The largest body that a server takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Largest {
    /// 4 MiB, the default of most.
    Usual,
    /// More than anything that is sent here.
    Raised,
}

impl Largest {
    pub(crate) fn mebibytes(self) -> usize {
        match self {
            Self::Usual => 4,
            Self::Raised => 64,
        }
    }

    pub(crate) fn bytes(self) -> usize {
        self.mebibytes() << 20
    }
}

/// An unusual way to treat clients.
#[derive(Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) transports: &'static [Transport],
    /// How many requests are made, and how long it is between them.
    pub(crate) requests: usize,
    pub(crate) pause: Duration,
    /// It hangs up in between: the client needs more than one connection.
    pub(crate) hangs_up: bool,
}

/// What most servers do.
pub(crate) const USUAL: &str = "usual";

/// What a server is given to work with.
pub(crate) struct Place<'a> {
    pub(crate) port: u16,
    /// Where it was installed.
    pub(crate) tools: &'a Path,
    /// Where it may write.
    pub(crate) folder: &'a Path,
    /// The file for what it gets, if it writes one.
    pub(crate) book: &'a Path,
    /// The sink that it passes on to, if it does, by the same transport.
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

    /// Whether it can be configured to take no more than 4 MiB.
    fn can_refuse_large(&self, _transport: Transport) -> bool {
        false
    }

    /// Unusual ways to treat clients that it is capable of.
    fn manners(&self) -> &'static [Manner] {
        &[]
    }

    fn recipe(&self, order: &Order<'_>, place: &Place<'_>) -> Result<Recipe, Error>;
}

/// All kinds, in the order of the table.
pub(crate) const ALL: [&dyn Server; 5] =
    [&collector::Collector, &oracle::Oracle, &node::Node, &rotel::Rotel, &tonic::Tonic];
