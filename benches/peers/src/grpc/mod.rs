//! Compares gRPC requests of standpipe with those of its peers: the same requests, in turn, in one table.
//!
//! The measurement covers all threads of the sending process, from the first request to the last response. The server
//! runs in a separate process, and is the same for all contenders.

mod opentelemetry;
mod raw;
pub(crate) mod ready;
mod server;
mod spent;
mod standpipe;
mod tonic;

use std::array;
use std::fmt::Display;

use self::server::Server;
use self::spent::Spent;
use crate::support::arguments::Part;
use crate::support::table::{Table, hundredths, tenths, whole};
use crate::support::{Error, callgrind, child, publish};
use crate::with_ratio;

/// Name of the table, and of the part that sends requests.
pub(crate) const NAME: &str = "grpc";
/// Name of the part that runs the server.
pub(crate) const SERVER: &str = "grpc server";

/// A client that sends requests.
struct Contender {
    /// Column header.
    name: &'static str,
    cases: &'static [&'static str],
    /// Remark below the table that explains the figures.
    note: &'static str,
    /// Sends all requests of the order, and returns after the last response.
    send: fn(&Order) -> Result<Spent, Error>,
}

/// All contenders. The first one is the baseline of the ratios.
const CONTENDERS: [&Contender; 5] =
    [&standpipe::GRPC, &tonic::CONTENDER, &opentelemetry::CONTENDER, &raw::CONTENDER, &standpipe::HTTP];

/// Names of the functions whose instructions are counted.
const COUNTED: [&str; 2] = [spent::MEASURED, callgrind::OTHER_THREADS];

/// A series of identical requests.
struct Case {
    name: &'static str,
    spans: u64,
    is_compressed: bool,
    /// Number of requests in a full run and in a smoke run.
    requests: [u64; 2],
    /// Requests in the short and in the long run. The difference of the counts gives the instructions per request.
    instructions: (u64, u64),
}

const SMALL: &str = "1 span";
const LARGE: &str = "512 spans";
const COMPRESSED: &str = "512 spans, gzip";
const ALL: &[&str] = &[SMALL, LARGE, COMPRESSED];

#[rustfmt::skip]
const CASES: [Case; 3] = [
    Case { name: SMALL,      spans: 1,   is_compressed: false, requests: [20_000, 500], instructions: (100, 600) },
    Case { name: LARGE,      spans: 512, is_compressed: false, requests: [400, 10],     instructions: (4, 16) },
    Case { name: COMPRESSED, spans: 512, is_compressed: true,  requests: [200, 5],      instructions: (2, 8) },
];

/// Requests that a child must send, and their destination.
struct Order {
    endpoint: String,
    requests: u64,
    spans: u64,
    is_compressed: bool,
}

/// Runs the measured program.
pub(crate) fn play(part: &Part) -> Result<(), Error> {
    let name = part.text("contender")?;
    let contender = CONTENDERS.iter().find(|contender| contender.name == name);
    let order = Order {
        endpoint: part.text("endpoint")?.to_owned(),
        requests: part.number("requests")?,
        spans: part.number("spans")?,
        is_compressed: part.text("gzip")? == "true",
    };
    (contender.ok_or_else(|| format!("{name}: no such contender"))?.send)(&order)?.report();
    Ok(())
}

/// Runs the server.
pub(crate) fn serve() -> Result<(), Error> {
    server::play()
}

/// Measures and prints the table.
pub(crate) fn measure(smoke: bool) -> Result<(), Error> {
    let (rounds, size) = if smoke { (1, 1) } else { (4, 0) };
    let mut server = Server::start()?;
    let mut seen = [[Seen::NOTHING; CONTENDERS.len()]; CASES.len()];
    for _ in 0..rounds {
        for (case, seen) in CASES.iter().zip(&mut seen) {
            for (contender, seen) in CONTENDERS.iter().zip(seen).filter(|(contender, _)| contender.can(case))
            {
                *seen = seen.best(contender.time(case, case.requests[size], &mut server)?);
            }
        }
    }
    let missing = callgrind::unavailable();
    let mut table = Table::new(array::from_fn::<_, { CONTENDERS.len() + 2 }, _>(|column| match column {
        0 => "sender, for each request",
        column => CONTENDERS.get(column - 1).map_or("", |contender| contender.name),
    }));
    table.limit(raw::CONTENDER.name);
    for (case, seen) in CASES.iter().zip(seen) {
        table.row(row(case, "CPU µs", seen.map(|seen| seen.cpu), tenths));
        table.row_of_more(row(case, "requests/s", seen.map(|seen| seen.rate), whole));
        table.row(row(case, "allocations", seen.map(|seen| seen.allocations), hundredths));
        if missing.is_none() && (!smoke || case.name == SMALL) {
            let mut counts = [f64::INFINITY; CONTENDERS.len()];
            for (contender, count) in
                CONTENDERS.iter().zip(&mut counts).filter(|(contender, _)| contender.can(case))
            {
                *count = contender.instructions(case, &mut server)?;
            }
            table.row(row(case, "instructions", counts, whole));
        }
    }
    for contender in CONTENDERS {
        table.note(format!("{}: {}", contender.name, contender.note));
    }
    table.note(format!("server: {}", server::NOTE));
    table.print("grpc: sequential requests over loopback, best round; in brackets the ratio to standpipe");
    if let Some(reason) = missing {
        println!("  instructions SKIPPED: {reason}");
    }
    publish::table(NAME, &table)
}

/// Measurements per request. Values that were not measured are infinite.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// Processor time in microseconds.
    cpu: f64,
    /// Requests per second.
    rate: f64,
    allocations: f64,
}

impl Seen {
    const NOTHING: Self = Self { cpu: f64::INFINITY, rate: f64::INFINITY, allocations: f64::INFINITY };

    /// Returns the better value of each figure.
    fn best(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.min(other.cpu),
            rate: if self.rate.is_finite() { self.rate.max(other.rate) } else { other.rate },
            allocations: self.allocations.min(other.allocations),
        }
    }
}

impl Contender {
    fn can(&self, case: &Case) -> bool {
        self.cases.contains(&case.name)
    }

    fn time(&self, case: &Case, requests: u64, server: &mut Server) -> Result<Seen, Error> {
        let findings = self.run(case, requests, server, |settings| child::play(&[], NAME, settings))?;
        let spent = Spent::from_report(&findings)?;
        let each = |total: f64| total / requests as f64;
        Ok(Seen {
            cpu: each(spent.cpu.as_secs_f64() * 1e6),
            rate: requests as f64 / spent.wall.as_secs_f64(),
            allocations: each(spent.allocations as f64),
        })
    }

    /// Counts the instructions of all threads per request.
    ///
    /// Instructions of the main thread count only inside of [`COUNTED`] functions: one peer calibrates its clock in a
    /// busy loop before `main`.
    fn instructions(&self, case: &Case, server: &mut Server) -> Result<f64, Error> {
        let mut count = |requests| {
            let count = |settings: &[(&str, &dyn Display)]| callgrind::count(NAME, settings, &COUNTED);
            self.run(case, requests, server, count).map(|(main, others)| main + others)
        };
        let (short, long) = case.instructions;
        Ok((count(long)? as f64 - count(short)? as f64) / (long - short) as f64)
    }

    /// Runs a child that sends. All spans must arrive, in the expected number of requests.
    fn run<T>(
        &self,
        case: &Case,
        requests: u64,
        server: &mut Server,
        run: impl FnOnce(&[(&str, &dyn Display)]) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let fail = |what: String| format!("{}, {}: {what}", self.name, case.name);
        let endpoint = server.endpoint(self.name == standpipe::HTTP.name).to_owned();
        let before = server.arrived()?;
        let outcome = run(&[
            ("contender", &self.name),
            ("endpoint", &endpoint),
            ("requests", &requests),
            ("spans", &case.spans),
            ("gzip", &case.is_compressed),
        ])
        .map_err(|error| fail(error.to_string()))?;
        let arrived = server.arrived()?.since(before);
        if (arrived.requests, arrived.spans) != (requests, requests * case.spans) {
            return Err(fail(format!("expected {requests} requests, got {arrived:?}")).into());
        }
        Ok(outcome)
    }
}

/// Returns the row of one measure.
fn row(
    case: &Case,
    measure: &str,
    figures: [f64; CONTENDERS.len()],
    show: fn(f64) -> String,
) -> [String; CONTENDERS.len() + 2] {
    array::from_fn(|column| match column {
        0 => format!("{}: {measure}", case.name),
        column => with_ratio(&figures, column - 1, show),
    })
}
