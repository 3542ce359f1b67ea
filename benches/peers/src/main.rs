//! Compares standpipe with its peers: the same work in the same run, in turn, with a table for each kind of work.
//!
//! The script `run` starts the benchmark and describes its arguments. The process that it starts runs the receiver and
//! prints the tables. For each contender and case, that process starts its executable again as a child, which runs
//! nothing else.

mod emit;
mod fastrace;
mod footprint;
mod grpc;
mod opentelemetry;
mod opentelemetry_log;
mod spans;
mod standpipe;
#[path = "../../support/mod.rs"]
mod support;
mod tracing;

use std::array;

use support::allocations::CountingAllocator;
use support::arguments::{Part, Task};
use support::program::{Play, Program, Seen};
use support::table::{Table, hundredths, tenths, whole};
use support::{Error, callgrind, calls, publish};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// A library that supports some of the cases.
struct Contender {
    /// Column header.
    name: &'static str,
    cases: &'static [&'static str],
    /// Remark below the table that explains the figures.
    note: &'static str,
    /// Starts a program that runs one of the cases.
    start: fn(case: &str, endpoint: &str) -> Result<Program, Error>,
}

/// All contenders. The first one is the baseline of the ratios.
const CONTENDERS: [&Contender; 5] = [
    &standpipe::CONTENDER,
    &opentelemetry::CONTENDER,
    &opentelemetry_log::CONTENDER,
    &emit::CONTENDER,
    &fastrace::CONTENDER,
];

/// Names of the cases, as in [`calls::CALLS`].
mod case {
    pub(crate) const LOG: &str = "log, 5 attributes";
    pub(crate) const FILTERED_LOG: &str = "filtered log, 5 attributes";
    pub(crate) const COUNTER: [&str; 3] =
        ["counter add, 0 attributes", "counter add, 1 attribute", "counter add, 5 attributes"];
    pub(crate) const HISTOGRAM: [&str; 3] =
        ["histogram record, 0 attributes", "histogram record, 1 attribute", "histogram record, 5 attributes"];
    pub(crate) const ALL: [&str; 8] =
        [LOG, FILTERED_LOG, COUNTER[0], COUNTER[1], COUNTER[2], HISTOGRAM[0], HISTOGRAM[1], HISTOGRAM[2]];
}

struct Sizes {
    rounds: u64,
    bursts: u64,
    /// Cases whose instructions are counted.
    instructions: &'static [&'static str],
}

/// Name of the table with the cost of calls for the calling thread.
const CALLS: &str = "calls";

fn main() -> Result<(), Error> {
    let (task, chosen) = Task::with_choice(&[
        spans::NAME,
        CALLS,
        grpc::NAME,
        tracing::NAME,
        footprint::NAME,
        footprint::COLD,
        footprint::MAP,
    ])?;
    let smoke = match task {
        Task::Play(part) => return play(&part),
        Task::Measure { smoke } => smoke,
    };
    match chosen {
        Some(footprint::MAP) => return footprint::map(),
        Some(footprint::NAME | footprint::COLD) => {
            return footprint::measure(smoke, chosen == Some(footprint::COLD));
        }
        _ => {}
    }
    let is_wanted = |table: &str| chosen.is_none_or(|chosen| chosen == table);
    for table in [CALLS, grpc::NAME, tracing::NAME].into_iter().filter(|table| is_wanted(table)) {
        publish::prepare(&[table])?;
    }
    if is_wanted(spans::NAME) {
        publish::prepare(&spans::TABLES)?;
        spans::measure(smoke)?;
    }
    if is_wanted(CALLS) {
        measure(&match smoke {
            true => Sizes { rounds: 1, bursts: 2, instructions: &[case::LOG] },
            false => Sizes { rounds: 5, bursts: 20, instructions: &case::ALL },
        })?;
    }
    if is_wanted(grpc::NAME) {
        grpc::measure(smoke)?;
    }
    if is_wanted(tracing::NAME) {
        tracing::measure(smoke)?;
    }
    Ok(())
}

/// Runs the measured program. The part is the name of a contender, or a part of another table.
fn play(part: &Part) -> Result<(), Error> {
    match part.name.as_str() {
        grpc::NAME => return grpc::play(part),
        grpc::SERVER => return grpc::serve(),
        spans::NAME => return spans::play(part),
        tracing::NAME => return tracing::play(part),
        _ => {}
    }
    let contender = CONTENDERS.iter().find(|contender| contender.name == part.name);
    let start = contender.ok_or_else(|| format!("{}: no such contender", part.name))?.start;
    start(part.text("case")?, part.text("endpoint")?)?.play(part)
}

fn measure(sizes: &Sizes) -> Result<(), Error> {
    let mut seen = [[Seen::NOTHING; CONTENDERS.len()]; case::ALL.len()];
    for _ in 0..sizes.rounds {
        for (case, seen) in case::ALL.iter().zip(&mut seen) {
            for (contender, seen) in CONTENDERS.iter().zip(seen).filter(|(contender, _)| contender.can(case))
            {
                *seen = seen.min(contender.observe(case, |play| play.time(sizes.bursts))?);
            }
        }
    }
    let missing = callgrind::unavailable();
    let mut table = Table::new(array::from_fn::<_, { CONTENDERS.len() + 2 }, _>(|column| match column {
        0 => "caller, for each call",
        column => CONTENDERS.get(column - 1).map_or("", |contender| contender.name),
    }));
    for (case, seen) in case::ALL.iter().zip(seen) {
        if missing.is_none() && sizes.instructions.contains(case) {
            let mut counts = [f64::INFINITY; CONTENDERS.len()];
            for (contender, count) in
                CONTENDERS.iter().zip(&mut counts).filter(|(contender, _)| contender.can(case))
            {
                *count = contender.observe(case, |play| play.instructions())?;
            }
            table.row(row(case, "instructions", counts, whole));
        }
        table.row(row(case, "allocations", seen.map(|seen| seen.allocations), hundredths));
        table.row(row(case, "ns", seen.map(|seen| seen.nanoseconds), tenths));
    }
    for contender in CONTENDERS {
        table.note(format!("{}: {}", contender.name, contender.note));
    }
    table.print("calls: in brackets the ratio to standpipe; –: nothing comparable");
    if let Some(reason) = missing {
        println!("  instructions SKIPPED: {reason}");
    }
    publish::table(CALLS, &table)
}

impl Contender {
    fn can(&self, case: &str) -> bool {
        self.cases.contains(&case)
    }

    /// Runs the case in a child. Everything that the child sends must arrive.
    fn observe<T>(&self, case: &str, how: impl FnOnce(&Play<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let play = Play { part: self.name, settings: &[("case", &case)], arrives: calls::arrives(case) };
        how(&play).map_err(|error| format!("{case}: {error}").into())
    }
}

/// Returns the row of one measure. Values that were not measured are infinite.
fn row(
    case: &str,
    measure: &str,
    figures: [f64; CONTENDERS.len()],
    show: fn(f64) -> String,
) -> [String; CONTENDERS.len() + 2] {
    array::from_fn(|column| match column {
        0 => format!("{case}: {measure}"),
        column => with_ratio(&figures, column - 1, show),
    })
}

/// Formats the figure of a contender, with its ratio to the figure of the first one.
fn with_ratio(figures: &[f64], contender: usize, show: fn(f64) -> String) -> String {
    match figures.get(contender) {
        None => String::new(),
        Some(figure) if figure.is_infinite() => "–".to_owned(),
        // A ratio to zero means nothing.
        Some(&figure) if figures[0] < 0.05 => show(figure),
        Some(&figure) => match figure / figures[0] {
            // Two decimals, because one decimal would hide large differences between small ratios.
            ratio if ratio < 0.95 => format!("{} ({ratio:.2})", show(figure)),
            ratio => format!("{} ({ratio:.1})", show(figure)),
        },
    }
}
