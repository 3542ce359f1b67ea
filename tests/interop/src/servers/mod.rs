//! The servers: how each is started, and how its received records are read.

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

/// The transport between the program and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Http,
    Grpc,
}

impl Transport {
    pub(crate) const ALL: [Self; 2] = [Self::Http, Self::Grpc];

    /// Returns the name that configuration files use.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
        }
    }
}

/// The requested configuration of a server.
#[derive(Clone, Copy)]
pub(crate) struct Order<'a> {
    pub(crate) transport: Transport,
    /// Identity for TLS; `None` for plaintext.
    pub(crate) identity: Option<&'a Identity>,
    /// Maximum size of a request.
    pub(crate) largest: Largest,
    /// Name of the server's [`Manner`].
    pub(crate) manner: &'static str,
}

/// The largest body that a server accepts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Largest {
    /// 4 MiB, the default of most servers.
    Usual,
    /// Larger than any request of these tests.
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

/// An unusual behavior toward clients.
#[derive(Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) transports: &'static [Transport],
    pub(crate) requests: usize,
    pub(crate) pace: Pace,
}

/// When the next request is sent, which decides how many connections the client needs.
#[derive(Clone, Copy)]
pub(crate) enum Pace {
    /// At once. All requests use one connection.
    AtOnce,
    /// After this time. All requests together take longer than the server keeps one connection open.
    Every(Duration),
    /// Once the server has closed the idle connection. Each request needs a new one.
    AfterHangUp,
}

/// The behavior of most servers.
pub(crate) const USUAL: &str = "usual";

/// Port, paths and sink that a server may use.
pub(crate) struct Place<'a> {
    pub(crate) port: u16,
    /// Directory in which the server is installed.
    pub(crate) tools: &'a Path,
    /// Directory in which the server may write.
    pub(crate) folder: &'a Path,
    /// File for received records, if the server writes one.
    pub(crate) book: &'a Path,
    /// Endpoint of the sink, if the server forwards records. It has the same transport.
    pub(crate) sink: &'a str,
}

/// A kind of server.
pub(crate) trait Server: Sync {
    fn name(&self) -> &'static str;

    /// Returns the reason if the server does not support the transport.
    fn lacks_transport(&self, _transport: Transport) -> Option<&'static str> {
        None
    }

    /// Returns the reason if the server does not support TLS.
    fn lacks_tls(&self) -> Option<&'static str> {
        None
    }

    /// Returns whether the server forwards records to a sink instead of writing a file.
    fn passes_on(&self) -> bool {
        false
    }

    /// Returns how the server can be ended without losing confirmed records.
    fn ending(&self) -> Ending {
        Ending::Kill
    }

    /// Returns whether the server can read the files of a file exporter.
    fn reads_files(&self) -> bool {
        false
    }

    /// Returns whether the server can listen on Unix sockets.
    fn listens_on_unix_sockets(&self) -> bool {
        false
    }

    /// Returns whether the server can be limited to requests of 4 MiB.
    fn can_refuse_large(&self, _transport: Transport) -> bool {
        false
    }

    /// Returns the unusual behaviors that the server supports.
    fn manners(&self) -> &'static [Manner] {
        &[]
    }

    fn recipe(&self, order: &Order<'_>, place: &Place<'_>) -> Result<Recipe, Error>;
}

/// All kinds, in the order of the table.
pub(crate) const ALL: [&dyn Server; 5] =
    [&collector::Collector, &oracle::Oracle, &node::Node, &rotel::Rotel, &tonic::Tonic];
