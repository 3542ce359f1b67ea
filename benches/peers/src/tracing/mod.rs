//! Compares standpipe's layer for `tracing` with tracing-opentelemetry: the same spans, in turn, in one table.
//!
//! All contenders run the same program, with different layers. Time and instructions are measured twice: for the
//! calling thread alone, and for the whole process including sending.

pub(crate) mod opentelemetry;
mod registry;
mod standpipe;
pub(crate) mod work;

use std::array;

use ::tracing::subscriber::set_global_default;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, Registry};

use crate::support::arguments::Part;
use crate::support::callgrind::{self, Instructions};
use crate::support::program::{Arrives, Play, Program, Seen};
use crate::support::table::{Table, hundredths, whole};
use crate::support::workload::ATTRIBUTES;
use crate::support::{Error, publish};
use crate::with_ratio;

/// Name of the table, and of the part that runs a contender.
pub(crate) const NAME: &str = "tracing";

/// A layer for `tracing`.
struct Contender {
    /// Column header.
    name: &'static str,
    /// Remark below the table that explains the figures.
    note: &'static str,
    /// Whether spans are sent.
    sends: bool,
    /// Starts the program with this layer.
    start: fn(case: &Case, endpoint: &str) -> Result<Program, Error>,
}

/// All contenders. The first one is the baseline of the ratios.
const CONTENDERS: [&Contender; 5] = [
    &standpipe::LEAN,
    &standpipe::DEFAULT,
    &opentelemetry::LEAN,
    &opentelemetry::DEFAULT,
    &registry::CONTENDER,
];

/// A series of spans that differ only in their names.
struct Case {
    name: &'static str,
    /// Events per span.
    events: u64,
    /// Targets that the first contender should reach: one for the calling thread, and one for the whole process.
    targets: [&'static str; 2],
}

const CASES: [Case; 2] = [
    Case { name: "5 fields, 1 event", events: 1, targets: [""; 2] },
    Case {
        name: "5 fields",
        events: 0,
        targets: ["≤ 1/4 of tracing-opentelemetry, lean", "≤ 1/6 of tracing-opentelemetry, lean"],
    },
];

/// Runs the measured program.
pub(crate) fn play(part: &Part) -> Result<(), Error> {
    let (name, case) = (part.text("contender")?, part.text("case")?);
    let contender = CONTENDERS.iter().find(|contender| contender.name == name);
    let case =
        CASES.iter().find(|known| known.name == case).ok_or_else(|| format!("{case}: no such case"))?;
    let start = contender.ok_or_else(|| format!("{name}: no such contender"))?.start;
    start(case, part.text("endpoint")?)?.play(part)
}

/// Measures and prints the table.
pub(crate) fn measure(smoke: bool) -> Result<(), Error> {
    let (rounds, bursts) = if smoke { (1, 2) } else { (5, 20) };
    let mut seen = [[Seen::NOTHING; CONTENDERS.len()]; CASES.len()];
    for _ in 0..rounds {
        for (case, seen) in CASES.iter().zip(&mut seen) {
            for (contender, seen) in CONTENDERS.iter().zip(seen) {
                *seen = seen.min(contender.observe(case, |play| play.time(bursts))?);
            }
        }
    }
    let missing = callgrind::unavailable();
    let mut table = Table::new(array::from_fn::<_, { CONTENDERS.len() + 2 }, _>(|column| match column {
        0 => "for each span",
        column => CONTENDERS.get(column - 1).map_or("target", |contender| contender.name),
    }));
    table.limit(registry::CONTENDER.name);
    for (case, seen) in CASES.iter().zip(seen) {
        let [of_caller, of_process] = case.targets;
        if missing.is_none() {
            let mut counts =
                [Instructions { caller: f64::INFINITY, others: f64::INFINITY }; CONTENDERS.len()];
            for (contender, counts) in CONTENDERS.iter().zip(&mut counts) {
                *counts = contender.observe(case, |play| play.instructions_of_all())?;
            }
            let process = counts.map(|counts| counts.caller + counts.others);
            table.row(row(
                case,
                "caller, instructions",
                counts.map(|counts| counts.caller),
                whole,
                of_caller,
            ));
            table.row(row(case, "process, instructions", process, whole, of_process));
        }
        table.row(row(case, "caller, ns", seen.map(|seen| seen.nanoseconds), whole, ""));
        table.row(row(case, "caller, allocations", seen.map(|seen| seen.allocations), hundredths, ""));
        table.row(row(case, "process, CPU ns", seen.map(|seen| seen.cpu), whole, ""));
    }
    table.note(format!("all: {}", work::NOTE));
    for contender in CONTENDERS {
        table.note(format!("{}: {}", contender.name, contender.note));
    }
    table.print("tracing: traces of 16 spans, best round; in brackets the ratio to the first contender");
    if let Some(reason) = missing {
        println!("  instructions SKIPPED: {reason}");
    }
    publish::table(NAME, &table)
}

impl Contender {
    /// Runs the case in a child. Every span must arrive with all its attributes and events.
    fn observe<T>(&self, case: &Case, how: impl FnOnce(&Play<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let arrives = match self.sends {
            true => Arrives::Spans { attributes: ATTRIBUTES, events: case.events },
            false => Arrives::Nothing,
        };
        let play = Play { part: NAME, settings: &[("contender", &self.name), ("case", &case.name)], arrives };
        how(&play).map_err(|error| format!("{}, {}: {error}", self.name, case.name).into())
    }
}

/// Installs the layer for all spans of this process, with a level filter as in production.
pub(crate) fn install(layer: impl Layer<Registry> + Send + Sync) -> Result<(), Error> {
    Ok(set_global_default(Registry::default().with(layer).with(LevelFilter::INFO))?)
}

/// Returns the row of one measure.
fn row(
    case: &Case,
    measure: &str,
    figures: [f64; CONTENDERS.len()],
    show: fn(f64) -> String,
    target: &str,
) -> [String; CONTENDERS.len() + 2] {
    array::from_fn(|column| match column {
        0 => format!("{}: {measure}", case.name),
        column if column > CONTENDERS.len() => target.to_owned(),
        column => with_ratio(&figures, column - 1, show),
    })
}
