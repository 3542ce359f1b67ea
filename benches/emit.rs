//! Measures what a span costs the thread that creates it: time, allocations and instructions.
//!
//! Run it with `cargo bench --bench emit`. With `-- --smoke`, a short run only checks that the benchmark works.

mod support;

use std::hint::black_box;
use std::time::{Duration, Instant};

use standpipe::config::Proxy;
use standpipe::receiver::Receiver;
use standpipe::{Config, Exporter, FlushOutcome, Sampler, Telemetry, WhenFull};
use support::allocations::{self, CountingAllocator};
use support::arguments::{Part, Task};
use support::callgrind::{self, Instructions};
use support::table::{Table, hundredths, whole};
use support::workload::{self, ATTRIBUTES, PATIENCE, TRACE, Workload, text};
use support::{Error, child};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Spans per burst. The queue holds a whole burst, which is sent outside of the measured time.
const BURST: u64 = 256 * TRACE;
/// Attributes per span, for the rows that show how the cost grows.
const GROWTH: [u64; 4] = [0, 1, 5, 20];
/// Names of the programs whose spans are not sampled.
const UNSAMPLED_CHILD: &str = "unsampled-child";
const UNSAMPLED_ROOT: &str = "unsampled-root";

struct Sizes {
    rounds: usize,
    /// Spans in the short and in the long run. The difference of the counts gives the instructions per span.
    instructions: (u64, u64),
    lossy: u64,
}

fn main() -> Result<(), Error> {
    match Task::from_command_line()? {
        Task::Play(part) => play(&part),
        Task::Measure { smoke: true } => {
            measure(&Sizes { rounds: 3, instructions: (64 * TRACE, 128 * TRACE), lossy: 512 * TRACE })
        }
        Task::Measure { smoke: false } => {
            measure(&Sizes { rounds: 200, instructions: (50_000, 150_000), lossy: 400_000 })
        }
    }
}

fn measure(sizes: &Sizes) -> Result<(), Error> {
    let receiver = Receiver::builder().keep_bytes(0).start()?;
    let bursts = bursts(&receiver, sizes.rounds)?;
    let lossy = lossy_calls(&receiver, sizes.lossy)?;
    let mut table = Table::new(["caller, for each span", "standpipe", "target"]);
    for burst in &bursts {
        let measure = |what: &str| format!("{what}, {} attributes", burst.attributes);
        let is_the_workload = burst.attributes == ATTRIBUTES;
        table.row([measure("time"), format!("{} ns", whole(burst.best)), String::new()]);
        let target = if is_the_workload { "0" } else { "" };
        table.row([measure("allocations"), hundredths(burst.allocations), target.to_owned()]);
    }
    match callgrind::unavailable() {
        Some(reason) => table.row(["instructions".to_owned(), "SKIPPED".to_owned(), reason]),
        None => count_instructions(&receiver, sizes.instructions, &mut table)?,
    }
    for (name, time) in [("p50", lossy.at(0.5)), ("p99", lossy.at(0.99)), ("max", lossy.at(1.0))] {
        let target = if name == "p99" { "no more than fastrace's in the same run" } else { "" };
        table.row([format!("lossy, tight loop, {name}"), format!("{} ns", whole(time)), target.to_owned()]);
    }
    table.print("emit: traces of 16 spans, a root below a remote parent and 15 children");
    Ok(())
}

/// Measurements for one number of attributes.
struct Burst {
    attributes: u64,
    /// Nanoseconds per span in the best round.
    best: f64,
    /// Allocations per span, averaged over all rounds.
    allocations: f64,
}

/// Measures one program for each number of attributes; the worker of each program is parked. The programs take turns in
/// each round.
fn bursts(receiver: &Receiver, rounds: usize) -> Result<Vec<Burst>, Error> {
    let before = receiver.span_count();
    let mut programs = Vec::new();
    for attributes in GROWTH {
        let telemetry = workload::start(workload::parked(&receiver.endpoint()))?;
        let workload = Workload::new(&telemetry, attributes)?;
        programs.push((telemetry, workload, Burst { attributes, best: f64::INFINITY, allocations: 0.0 }));
    }
    for round in 0..=rounds {
        for (telemetry, workload, burst) in &mut programs {
            let (time, allocations) = one_burst(telemetry, workload)?;
            // The first round is a warm-up: it allocates the buffers that later rounds reuse.
            if round > 0 {
                burst.best = burst.best.min(time.as_nanos() as f64 / BURST as f64);
                burst.allocations += allocations as f64 / (BURST * rounds as u64) as f64;
            }
        }
    }
    let sent = BURST * (rounds as u64 + 1);
    for (telemetry, ..) in &programs {
        workload::finish(telemetry, sent)?;
    }
    must_have_arrived(receiver, before, sent * GROWTH.len() as u64)?;
    Ok(programs.into_iter().map(|(.., burst)| burst).collect())
}

fn one_burst(telemetry: &Telemetry, workload: &Workload) -> Result<(Duration, u64), Error> {
    let (begun, before) = (Instant::now(), allocations::of_this_thread());
    workload.emit(BURST);
    let (time, allocations) = (begun.elapsed(), allocations::of_this_thread() - before);
    match telemetry.flush(PATIENCE) {
        FlushOutcome::Complete => Ok((time, allocations)),
        other => Err(format!("flush: {other:?}").into()),
    }
}

/// Durations of single calls in nanoseconds, sorted.
struct Calls(Vec<u32>);

impl Calls {
    fn at(&self, share: f64) -> f64 {
        let index = ((self.0.len() - 1) as f64 * share) as usize;
        f64::from(self.0[index])
    }
}

/// Emits spans in a tight loop into a default queue that drops, and times each span from its start to its end.
fn lossy_calls(receiver: &Receiver, spans: u64) -> Result<Calls, Error> {
    let before = receiver.span_count();
    let telemetry = workload::start(Exporter::http(receiver.endpoint()).when_full(WhenFull::DropNewest))?;
    let workload = Workload::new(&telemetry, ATTRIBUTES)?;
    workload.emit(BURST);
    let mut times = Vec::with_capacity(spans as usize);
    for _ in 0..spans {
        let begun = Instant::now();
        workload.emit_child();
        times.push(begun.elapsed().as_nanos().try_into().unwrap_or(u32::MAX));
    }
    let ledger = telemetry.shutdown(PATIENCE);
    let total = ledger.total();
    let accounted_for = total.delivered + total.not_enqueued.queue_full;
    if accounted_for != BURST + spans || receiver.span_count() - before != total.delivered {
        return Err(format!("{} spans were emitted, but {ledger}", BURST + spans).into());
    }
    times.sort_unstable();
    Ok(Calls(times))
}

fn count_instructions(receiver: &Receiver, sizes: (u64, u64), table: &mut Table) -> Result<(), Error> {
    for attributes in GROWTH {
        let before = receiver.span_count();
        let endpoint = receiver.endpoint();
        let Instructions { caller, others } =
            callgrind::per_span("emit", &[("endpoint", &endpoint), ("attributes", &attributes)], sizes)?;
        must_have_arrived(receiver, before, sizes.0 / TRACE * TRACE + sizes.1 / TRACE * TRACE)?;
        let is_the_workload = attributes == ATTRIBUTES;
        // Most instructions of the worker are two copies of the span: callgrind counts one instruction per copied byte.
        for (name, count, target) in
            [("caller", caller, "≤ 900"), ("worker", others, ""), ("process", caller + others, "≤ 1,700")]
        {
            let target = if is_the_workload { target } else { "" };
            let measure = format!("instructions, {name}, {attributes} attributes");
            table.row([measure, whole(count), target.to_owned()]);
        }
    }
    // Unsampled spans take so few instructions that a short run would mostly show noise.
    let sizes = (16 * sizes.0, 16 * sizes.1);
    for (part, measure, target) in [
        (UNSAMPLED_CHILD, "instructions, caller, unsampled child, 5 attributes", "≤ 40"),
        (UNSAMPLED_ROOT, "instructions, caller, unsampled root, 5 attributes", ""),
    ] {
        let before = receiver.span_count();
        let counted = callgrind::per_span(part, &[("endpoint", &receiver.endpoint())], sizes)?;
        must_have_arrived(receiver, before, 0)?;
        table.row([measure.to_owned(), whole(counted.caller), target.to_owned()]);
    }
    Ok(())
}

fn play(part: &Part) -> Result<(), Error> {
    match part.name.as_str() {
        UNSAMPLED_CHILD | UNSAMPLED_ROOT => play_unsampled(part),
        _ => play_sampled(part),
    }
}

/// Runs the child whose instructions are counted, with default settings.
fn play_sampled(part: &Part) -> Result<(), Error> {
    let spans = part.number("spans")? / TRACE * TRACE;
    let telemetry = workload::start(Exporter::http(part.text("endpoint")?))?;
    Workload::new(&telemetry, part.number("attributes")?)?.emit(spans);
    workload::finish(&telemetry, spans)?;
    child::report("sent", spans);
    Ok(())
}

/// Emits spans in the process whose instructions are counted, with a sampler that drops every span.
fn play_unsampled(part: &Part) -> Result<(), Error> {
    let exporter = Exporter::http(part.text("endpoint")?).proxy(Proxy::Off);
    let sampler = Sampler::always_off().parent_based();
    let telemetry = Telemetry::start(Config::new().sampler(sampler).exporter(exporter))?;
    let tracer = telemetry.tracer(text::SCOPE);
    let root = (part.name == UNSAMPLED_CHILD).then(|| tracer.span(text::ROOT));
    for _ in 0..part.number("spans")? {
        workload::emit_values(&tracer, black_box(&workload::VALUES));
    }
    drop(root);
    workload::finish(&telemetry, 0)
}

fn must_have_arrived(receiver: &Receiver, before: u64, sent: u64) -> Result<(), Error> {
    match receiver.span_count() - before {
        arrived if arrived == sent => Ok(()),
        arrived => Err(format!("expected {sent} spans, {arrived} arrived").into()),
    }
}
