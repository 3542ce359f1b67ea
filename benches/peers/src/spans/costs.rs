//! The main tables: cost of a span, and behavior of each contender.

use std::array;

use super::contender::Contender;
use super::figures::{Figures, Measure};
use super::run::{Conditions, Runs};
use super::task::{NEVER, Task};
use super::{CONDUCT_TABLE, CONTENDERS, HURRY_TABLE, NAME, STEADY_TABLE};
use crate::support::child::Findings;
use crate::support::table::{Table, hundredths, tenths, whole};
use crate::support::{Error, publish};

struct Sizes {
    /// Spans per run.
    spans: u64,
    rounds: u64,
    /// Number of runs for start and shutdown. The best one counts.
    starts: u64,
    /// Number of contenders with two long measurements: instructions, and a shutdown that no collector answers.
    thorough: usize,
}

pub(super) const CALLER_INSTRUCTIONS: Measure = Measure::less("instr., caller", whole);
pub(super) const INSTRUCTIONS: Measure = Measure::less("instr., all", whole);
const CALLER_ALLOCATIONS: Measure = Measure::less("allocs, caller", hundredths);
const ALLOCATIONS: Measure = Measure::less("allocs, all", hundredths);
const CALLER_CPU: Measure = Measure::less("CPU ns, caller", whole);
pub(super) const CPU: Measure = Measure::less("CPU ns, all", whole);
pub(super) const RATE: Measure = Measure::more("spans/s", whole);
const COSTS: [Measure; 7] =
    [CALLER_INSTRUCTIONS, INSTRUCTIONS, CALLER_ALLOCATIONS, ALLOCATIONS, CALLER_CPU, CPU, RATE];

pub(super) const BYTES: Measure = Measure::less("bytes sent", whole);
pub(super) const MEMORY: Measure = Measure::less("peak memory", mebibytes);
const THREADS: Measure = Measure::less("threads", whole).alone();
const FIRST: Measure = Measure::less("first export", milliseconds);
const SHUTDOWN: Measure = Measure::less("shutdown", milliseconds);
const SILENCE: Measure = Measure::less("shutdown unanswered", seconds).alone();
const CONDUCT: [Measure; 6] = [BYTES, MEMORY, THREADS, FIRST, SHUTDOWN, SILENCE];

const SHARE: Measure = Measure::more("arrives", percent).alone();
const MEDIAN: Measure = Measure::less("call, p50", nanoseconds);
const HIGH: Measure = Measure::less("call, p99", nanoseconds);
const MAX_CALL: Measure = Measure::less("call, longest", microseconds);
const HURRIED_MEMORY: Measure = Measure::less("peak memory, hurried", mebibytes);
const HURRY: [Measure; 5] = [SHARE, MEDIAN, HIGH, MAX_CALL, HURRIED_MEMORY];

const STEADY: [Measure; 6] = [
    Measure::less("10,000/s, p50", nanoseconds),
    Measure::less("10,000/s, p99", nanoseconds),
    Measure::less("10,000/s, p99.9", nanoseconds),
    Measure::less("100,000/s, p50", nanoseconds),
    Measure::less("100,000/s, p99", nanoseconds),
    Measure::less("100,000/s, p99.9", nanoseconds),
];

/// Measures and prints all tables, and returns the figures.
pub(super) fn measure(
    runs: &Runs<'_>,
    smoke: bool,
    counts_instructions: bool,
) -> Result<Vec<Figures>, Error> {
    let sizes = match smoke {
        true => Sizes { spans: 4_000, rounds: 1, starts: 1, thorough: 1 },
        false => Sizes { spans: 1_000_000, rounds: 3, starts: 5, thorough: CONTENDERS.len() },
    };
    let mut all = CONTENDERS.map(|_| Figures::default());
    for round in 1..=sizes.rounds {
        for (contender, figures) in CONTENDERS.iter().zip(&mut all) {
            eprintln!("spans, round {round} of {}: {}", sizes.rounds, contender.name);
            send(runs, contender, sizes.spans, &Conditions::USUAL, figures)?;
            hurry(runs, contender, sizes.spans, figures)?;
            steady(runs, contender, sizes.spans, figures)?;
        }
    }
    for (contender, figures) in CONTENDERS.iter().zip(&mut all) {
        eprintln!("spans, start and end: {}", contender.name);
        (0..sizes.starts).try_for_each(|_| first(runs, contender, figures))?;
    }
    for (contender, figures) in CONTENDERS.iter().zip(&mut all).take(sizes.thorough) {
        eprintln!("spans, without an answer, and instructions: {}", contender.name);
        silence(runs, contender, figures)?;
        if counts_instructions {
            count(runs, contender, &Conditions::USUAL, figures)?;
        }
    }
    show::<{ COSTS.len() + 2 }>(
        NAME,
        &COSTS,
        &all,
        "spans: what each costs from the call to the collector's answer, in traces of 16, one producer, nothing lost; best \
         of the rounds; in brackets how many times standpipe's",
    )?;
    show::<{ CONDUCT.len() + 2 }>(
        CONDUCT_TABLE,
        &CONDUCT,
        &all,
        "spans: bytes of each; peak memory since before the start, and threads; from the start to a flushed trace; shutdown \
         when idle, and when nobody answers",
    )?;
    show::<{ HURRY.len() + 2 }>(
        HURRY_TABLE,
        &HURRY,
        &all,
        "spans in a tight loop: queues as they are by default, no caller waits, each call timed",
    )?;
    show::<{ STEADY.len() + 2 }>(
        STEADY_TABLE,
        &STEADY,
        &all,
        "spans at a steady rate: queues as they are by default, no caller waits, each call timed",
    )?;
    Ok(all.into())
}

/// Sends spans and adds their cost to the figures.
pub(super) fn send(
    runs: &Runs<'_>,
    contender: &Contender,
    spans: u64,
    conditions: &Conditions,
    figures: &mut Figures,
) -> Result<(), Error> {
    let (found, arrived) = runs.send(contender, spans, conditions)?;
    let each = |key| found.number(key).map(|all| all as f64 / spans as f64);
    figures.add(&CALLER_ALLOCATIONS, each("callers-allocations")?);
    figures.add(&ALLOCATIONS, each("allocations")?);
    figures.add(&CALLER_CPU, each("callers-cpu")?);
    figures.add(&CPU, each("cpu")?);
    figures.add(&RATE, 1e9 / each("wall")?);
    // Contenders that are only lower bounds of the cost are not libraries, so their memory and threads are not shown.
    if contender.can(Task::First) {
        figures.add(&MEMORY, found.number("memory")? as f64);
        figures.add(&THREADS, found.number("threads")? as f64);
    }
    if arrived.spans > 0 {
        figures.add(&BYTES, arrived.bytes as f64 / spans as f64);
    }
    Ok(())
}

/// Counts the instructions per span.
pub(super) fn count(
    runs: &Runs<'_>,
    contender: &Contender,
    conditions: &Conditions,
    figures: &mut Figures,
) -> Result<(), Error> {
    let counted = runs.instructions(contender, conditions)?;
    figures.add(&CALLER_INSTRUCTIONS, counted.caller);
    // If a contender is a lower bound, its other threads only prepare the bytes, so they are not counted.
    let others = if contender.can(Task::First) { counted.others } else { 0.0 };
    figures.add(&INSTRUCTIONS, counted.caller + others);
    Ok(())
}

fn hurry(runs: &Runs<'_>, contender: &Contender, spans: u64, figures: &mut Figures) -> Result<(), Error> {
    if !contender.can(Task::Hurry) {
        return Ok(());
    }
    let (found, arrived) = runs.ask(contender, Task::Hurry, spans)?;
    figures.add(&SHARE, arrived as f64 / spans as f64);
    figures.add(&HURRIED_MEMORY, found.number("memory")? as f64);
    add_all(figures, &found, &[(&MEDIAN, "median"), (&HIGH, "99th"), (&MAX_CALL, "longest")])
}

fn steady(runs: &Runs<'_>, contender: &Contender, spans: u64, figures: &mut Figures) -> Result<(), Error> {
    let (slow, fast) = STEADY.split_at(STEADY.len() / 2);
    for (task, measures, share) in [(Task::Steady, slow, 25), (Task::Swift, fast, 5)] {
        if contender.can(task) {
            let (found, _) = runs.ask(contender, task, spans / share)?;
            let keys = ["median", "99th", "999th"];
            measures.iter().zip(keys).try_for_each(|measure| add_all(figures, &found, &[measure]))?;
        }
    }
    Ok(())
}

fn first(runs: &Runs<'_>, contender: &Contender, figures: &mut Figures) -> Result<(), Error> {
    if !contender.can(Task::First) {
        return Ok(());
    }
    let (found, _) = runs.ask(contender, Task::First, 0)?;
    add_all(figures, &found, &[(&FIRST, "first"), (&SHUTDOWN, "shutdown")])
}

fn silence(runs: &Runs<'_>, contender: &Contender, figures: &mut Figures) -> Result<(), Error> {
    if !contender.can(Task::Silence) {
        return Ok(());
    }
    let (found, _) = runs.ask(contender, Task::Silence, 0)?;
    add_all(figures, &found, &[(&SILENCE, "shutdown")])
}

fn add_all(figures: &mut Figures, found: &Findings, measures: &[(&Measure, &str)]) -> Result<(), Error> {
    for (measure, key) in measures {
        figures.add(measure, found.number(key)? as f64);
    }
    Ok(())
}

/// Prints a table with a row per contender, a column per measure, and a column for what does not arrive. `name` is the
/// name of the table's place in `benches/README.md`.
fn show<const COLUMNS: usize>(
    name: &str,
    measures: &[Measure],
    all: &[Figures],
    title: &str,
) -> Result<(), Error> {
    let texts: Vec<Vec<String>> = measures.iter().map(|measure| measure.texts(all)).collect();
    let of_more: Vec<&str> = measures.iter().filter(|one| one.is_of_more()).map(|one| one.name).collect();
    let head = array::from_fn::<_, COLUMNS, _>(|column| match column {
        0 => "contender",
        column => measures.get(column - 1).map_or("", |measure| measure.name),
    });
    let mut table = Table::of_contenders(head, &of_more);
    for (number, contender) in CONTENDERS.iter().enumerate() {
        if !contender.can(Task::First) {
            table.limit(contender.name);
        }
        table.row(array::from_fn::<_, COLUMNS, _>(|column| match column {
            0 => contender.name.to_owned(),
            column => match texts.get(column - 1) {
                Some(texts) => texts[number].clone(),
                None => contender.arrives.shortfall().to_owned(),
            },
        }));
    }
    table.print(title);
    publish::table(name, &table)
}

fn mebibytes(bytes: f64) -> String {
    format!("{:.1} MiB", bytes / f64::from(1 << 20))
}

fn percent(share: f64) -> String {
    // Rounded down, so that only a complete arrival is shown as 100 %.
    format!("{:.1} %", (share * 1000.0).floor() / 10.0)
}

fn nanoseconds(time: f64) -> String {
    format!("{} ns", whole(time))
}

fn microseconds(nanoseconds: f64) -> String {
    format!("{} µs", whole(nanoseconds / 1e3))
}

fn milliseconds(nanoseconds: f64) -> String {
    format!("{} ms", tenths(nanoseconds / 1e6))
}

fn seconds(nanoseconds: f64) -> String {
    match nanoseconds >= NEVER.as_nanos() as f64 {
        true => format!("> {} s", NEVER.as_secs()),
        false => format!("{} s", tenths(nanoseconds / 1e9)),
    }
}
