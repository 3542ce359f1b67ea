//! The cases that are run against each server.

mod fields;
mod large;
mod manners;
mod one_connection;
mod restart;

use std::collections::HashSet;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use standpipe::Ledger;

use crate::Error;
use crate::identity::Identity;
use crate::program::{Setup, Signals, To};
use crate::seen::Record;
use crate::servers::{Largest, Manner, Order, Sent, Server, Stage, Transport, USUAL};
use crate::table::{Outcome, Row, Table};

const MAX_WAIT: Duration = Duration::from_secs(60);

/// The environment that all cases share.
pub(crate) struct Environment<'a> {
    pub(crate) tools: &'a Path,
    pub(crate) scratch: &'a Path,
    pub(crate) identity: &'a Identity,
    /// True to send fewer records.
    pub(crate) quick: bool,
}

/// A case: the configuration of the server, and the check that is run against it.
struct Case<'a> {
    what: String,
    order: Order<'a>,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Fields { gzip: bool },
    File,
    UnixSocket,
    Manner(Manner),
    OneConnection,
    Large,
    Restart,
}

/// Runs all cases against a server.
pub(crate) fn run(
    server: &dyn Server,
    transport: Transport,
    environment: &Environment<'_>,
    table: &mut Table,
) {
    let mut push = |what: String, outcome: Outcome| {
        table.push(Row { server: server.name(), transport: transport.name(), what, outcome });
    };
    if let Some(reason) = server.lacks_transport(transport) {
        return push("everything".to_owned(), Outcome::Skipped(reason.to_owned()));
    }
    for case in cases(server, transport, environment) {
        let lacks = case.order.identity.and_then(|_| server.lacks_tls());
        let outcome = match lacks {
            Some(reason) => Outcome::Skipped(reason.to_owned()),
            None => play(server, &case, environment).into(),
        };
        push(case.what, outcome);
    }
}

fn play(server: &dyn Server, case: &Case<'_>, environment: &Environment<'_>) -> Result<String, Error> {
    let order = case.order;
    let stage = Stage::open(server, &order, environment.tools, environment.scratch)?;
    match case.kind {
        Kind::Fields { gzip } => fields::run(order, gzip, &stage).map(|sent| sent.to_string()),
        Kind::File => fields::write(order, &environment.scratch.join(server.name()), &stage)
            .map(|sent| sent.to_string()),
        Kind::UnixSocket => fields::send_to_socket(order, &environment.scratch.join(server.name()), &stage)
            .map(|sent| sent.to_string()),
        Kind::Manner(manner) => manners::run(order, manner, &stage),
        Kind::OneConnection => one_connection::run(order, environment.quick, &stage),
        Kind::Large => large::run(order, &stage),
        Kind::Restart => restart::run(order, stage),
    }
}

fn cases<'a>(server: &dyn Server, transport: Transport, environment: &'a Environment<'_>) -> Vec<Case<'a>> {
    let usual = Order { transport, identity: None, largest: Largest::Raised, manner: USUAL };
    let tls = Order { identity: Some(environment.identity), ..usual };
    let case = |what: &str, order, kind| Case { what: what.to_owned(), order, kind };
    let mut cases = vec![
        case("every field", usual, Kind::Fields { gzip: false }),
        case("every field, gzip", usual, Kind::Fields { gzip: true }),
        case("every field, TLS", tls, Kind::Fields { gzip: false }),
        case("every field, TLS, gzip", tls, Kind::Fields { gzip: true }),
    ];
    for manner in server.manners().iter().filter(|manner| manner.transports.contains(&transport)) {
        cases.push(case(manner.what, Order { manner: manner.name, ..usual }, Kind::Manner(*manner)));
    }
    if server.reads_files() && transport == Transport::Http {
        cases.push(case("every field, in files", Order { manner: "files", ..usual }, Kind::File));
    }
    if server.listens_on_unix_sockets() {
        cases.push(case("every field, Unix socket", Order { manner: "unix", ..usual }, Kind::UnixSocket));
    }
    let many = format!("{} requests, one connection", one_connection::requests(environment.quick));
    cases.push(case(&many, usual, Kind::OneConnection));
    cases.push(case("a body of 5 MB", usual, Kind::Large));
    if server.can_refuse_large(transport) {
        let order = Order { largest: Largest::Usual, ..usual };
        cases.push(case("a body of 5 MB where 4 MiB is the limit", order, Kind::Large));
    }
    cases.push(case("restarts in the middle", usual, Kind::Restart));
    cases
}

/// Returns the setup of a program that sends only spans, to this port.
fn spans_to<'a>(order: Order<'a>, port: u16, more: &'static str) -> Setup<'a> {
    let Order { transport, identity, .. } = order;
    Setup { transport, to: To::Port(port), identity, gzip: false, signals: Signals::Spans, more }
}

/// Returns the number of duplicate arrivals. Returns an error if a span is missing, or if a span arrived that was not
/// sent.
pub(crate) fn same_spans(sent: &[String], records: &[Record]) -> Result<usize, Error> {
    let sent: HashSet<&str> = sent.iter().map(String::as_str).collect();
    let ids: Vec<&str> = records.iter().filter_map(|record| record.body["spanId"].as_str()).collect();
    let found: HashSet<&str> = ids.iter().copied().collect();
    let (missing, strange) = (sent.difference(&found).count(), found.difference(&sent).count());
    if missing > 0 || strange > 0 {
        return Err(
            format!("of {} spans {missing} are missing, {strange} are not of ours", sent.len()).into()
        );
    }
    Ok(ids.len() - found.len())
}

/// Returns an error if the server reported a malformed request.
fn no_complaints(stage: &Stage) -> Result<(), Error> {
    match stage.complaints().as_slice() {
        [] => Ok(()),
        [first, rest @ ..] => Err(format!("{first} (and {} more complaints)", rest.len()).into()),
    }
}

/// Waits for a condition. Returns an error with this text if it is still false after [`MAX_WAIT`].
fn wait_until(otherwise: &str, condition: impl Fn() -> bool) -> Result<(), Error> {
    let deadline = Instant::now() + MAX_WAIT;
    while !condition() {
        if Instant::now() > deadline {
            return Err(otherwise.into());
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// Returns the number of requests that were attempted.
fn attempts(ledger: &Ledger) -> u64 {
    ledger.exporters.iter().map(|exporter| exporter.attempts).sum()
}

/// Returns the counts to wait for after this many spans were sent.
pub(crate) fn sent_spans(spans: usize) -> Sent {
    Sent { spans, ..Sent::default() }
}
