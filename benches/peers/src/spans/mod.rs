//! Compares spans from the call to the collector: standpipe and its peers emit the same spans, in turn.
//!
//! Each contender runs in a child process. A collector in the parent process counts the spans. All of them must arrive,
//! unless the contender declares otherwise.

mod collector;
mod contender;
mod costs;
mod emit;
mod fastrace;
mod figures;
mod limits;
mod naive;
mod opentelemetry;
mod run;
mod standpipe;
mod task;
mod tracing;
mod variations;

use self::collector::Collector;
use self::contender::Contender;
use self::run::Runs;
use self::task::Task;
use crate::support::Error;
use crate::support::arguments::Part;
use crate::support::callgrind;

/// Name of the first table, of the argument that selects all these tables, and of the part that runs a contender.
pub(crate) const NAME: &str = "spans";

const CONDUCT_TABLE: &str = "conduct";
const HURRY_TABLE: &str = "tight loop";
const STEADY_TABLE: &str = "steady rate";
const VARIATIONS_TABLE: &str = "variations";
/// Names of the tables in `benches/README.md`.
pub(crate) const TABLES: [&str; 5] = [NAME, CONDUCT_TABLE, HURRY_TABLE, STEADY_TABLE, VARIATIONS_TABLE];

/// All contenders. The first one is the baseline of the ratios.
const CONTENDERS: [&Contender; 12] = [
    &standpipe::HTTP,
    &standpipe::GRPC,
    &opentelemetry::HTTP,
    &opentelemetry::GRPC,
    &fastrace::LOCAL,
    &fastrace::SPAN,
    &emit::CONTENDER,
    &tracing::STANDPIPE,
    &tracing::OPENTELEMETRY,
    &naive::CONTENDER,
    &limits::SOCKET,
    &limits::MEMORY,
];

const ALL_TASKS: &[Task] = &[Task::Send, Task::Hurry, Task::Steady, Task::Swift, Task::First, Task::Silence];
const ANY_ATTRIBUTES: &[u64] = &[0, 1, 5, 20];

const NOTE: &str = "a root with a remote parent and 15 children, each with a name, a kind, two times, three strings of 11 to 23 \
    bytes, an integer and a bool; each crate runs in a separate process, and only this process is measured; the collector only \
    counts, and in a short first run checks every span; a shutdown gets 5 s if the crate accepts a limit, and 15 s count as \
    never; a call is one child from its start to its end, including about 25 ns for reading the clock";

/// Runs the measured program.
pub(crate) fn play(part: &Part) -> Result<(), Error> {
    let name = part.text("contender")?;
    let contender = CONTENDERS.iter().find(|contender| contender.name == name);
    task::play(contender.ok_or_else(|| format!("{name}: no such contender"))?, part)
}

/// Measures and prints the tables.
pub(crate) fn measure(smoke: bool) -> Result<(), Error> {
    let collector = Collector::start()?;
    let runs = Runs::new(&collector);
    for contender in CONTENDERS {
        runs.validate(contender)?;
    }
    let missing = callgrind::unavailable();
    let usual = costs::measure(&runs, smoke, missing.is_none())?;
    if let Some(reason) = &missing {
        println!("  instructions SKIPPED: {reason}");
    }
    println!("  all: {NOTE}");
    for contender in CONTENDERS {
        println!("  {}: {}", contender.name, contender.note);
    }
    variations::measure(&runs, &usual, smoke, missing.is_none() && !smoke)
}
