//! Measures the way from the call to the collector's response: spans per second, processor time and memory.
//!
//! Every span must arrive. The measured program runs in a child process, so the work of the collector is not counted.
//!
//! Run it with `cargo bench --bench end_to_end`. With `-- --smoke`, a short run only checks that the benchmark works.

mod support;

use std::thread;
use std::time::{Duration, Instant};

use standpipe::receiver::Receiver;
use standpipe::{Compression, Exporter, WhenFull};
use support::arguments::{Part, Task};
use support::sink::Sink;
use support::table::{Table, mebibytes, whole};
use support::workload::{self, ATTRIBUTES, PATIENCE, TRACE, Workload};
use support::{Error, child, process};

/// Time that the slow collector waits before each response.
const DELAY: Duration = Duration::from_millis(20);

const MEMORY: &str = "≤ 16 MiB";

/// One row of the table.
struct Scenario {
    name: &'static str,
    part: &'static str,
    collector: Collector,
    producers: u64,
    /// Divisor of the full number of spans. Slow scenarios send fewer spans.
    share: u64,
    target: &'static str,
}

enum Collector {
    /// Counts spans without decoding them.
    Sink,
    /// Counts spans like `Sink`, and waits for [`DELAY`] before each response.
    SlowSink,
    /// Decodes every span, as real collectors do.
    Receiver,
}

/// One collector of each kind, shared by all scenarios.
struct Collectors {
    sink: Sink,
    slow_sink: Sink,
    receiver: Receiver,
}

#[rustfmt::skip]
const SCENARIOS: [Scenario; 7] = [
    scenario("block, 1 producer, counting collector",  "block", Collector::Sink,         1, 1, "≥ 6 × the best peer; CPU ≤ 1/10 of opentelemetry-otlp; ≤ 16 MiB"),
    scenario("block, 4 producers, counting collector", "block", Collector::Sink,         4, 1, "no slower than one producer"),
    scenario("block, 1 producer, receiver",            "block", Collector::Receiver,     1, 2, MEMORY),
    scenario("block, 4 producers, receiver",           "block", Collector::Receiver,     4, 2, MEMORY),
    scenario("block, 1 producer, gzip, receiver",      "gzip",  Collector::Receiver,     1, 4, MEMORY),
    scenario("block, 1 producer, 20 ms for an answer", "block", Collector::SlowSink,     1, 2, "≥ 200,000 spans/s"),
    scenario("lossy, 1 producer, counting collector",  "lossy", Collector::Sink,         1, 1, "the rest is counted as not enqueued"),
];

const fn scenario(
    name: &'static str,
    part: &'static str,
    collector: Collector,
    producers: u64,
    share: u64,
    target: &'static str,
) -> Scenario {
    Scenario { name, part, collector, producers, share, target }
}

fn main() -> Result<(), Error> {
    match Task::from_command_line()? {
        Task::Play(part) => play(&part),
        Task::Measure { smoke: true } => measure(20_000, 1),
        Task::Measure { smoke: false } => measure(1_000_000, 3),
    }
}

fn measure(spans: u64, rounds: usize) -> Result<(), Error> {
    let collectors = Collectors {
        sink: Sink::start(Duration::ZERO)?,
        slow_sink: Sink::start(DELAY)?,
        receiver: Receiver::builder().keep_bytes(0).start()?,
    };
    let mut best: Vec<Option<Run>> = SCENARIOS.iter().map(|_| None).collect();
    for _ in 0..rounds {
        for (scenario, best) in SCENARIOS.iter().zip(&mut best) {
            let run = run(scenario, spans / scenario.share, &collectors)?;
            if best.as_ref().is_none_or(|best| run.wall < best.wall) {
                *best = Some(run);
            }
        }
    }
    let mut table = Table::new([
        "scenario",
        "spans/s",
        "CPU ns/span",
        "callers' CPU",
        "peak above idle",
        "sent",
        "delivered",
        "target",
    ]);
    for (scenario, run) in SCENARIOS.iter().zip(best.into_iter().flatten()) {
        let each = |time: Duration| whole(time.as_nanos() as f64 / run.sent as f64);
        table.row([
            scenario.name.to_owned(),
            whole(run.delivered as f64 / run.wall.as_secs_f64()),
            each(run.cpu),
            each(run.callers_cpu),
            mebibytes(run.memory),
            whole(run.sent as f64),
            whole(run.delivered as f64),
            scenario.target.to_owned(),
        ]);
    }
    table.print("end_to_end: traces of 16 spans over loopback, default settings, best run");
    Ok(())
}

/// Results that a child reported.
struct Run {
    wall: Duration,
    cpu: Duration,
    callers_cpu: Duration,
    /// Peak memory above that of the idle program, in bytes.
    memory: u64,
    sent: u64,
    delivered: u64,
}

fn run(scenario: &Scenario, spans: u64, collectors: &Collectors) -> Result<Run, Error> {
    let Collectors { sink, slow_sink, receiver } = collectors;
    let (endpoint, arrived): (String, &dyn Fn() -> u64) = match scenario.collector {
        Collector::Sink => (sink.endpoint(), &|| sink.span_count()),
        Collector::SlowSink => (slow_sink.endpoint(), &|| slow_sink.span_count()),
        Collector::Receiver => (receiver.endpoint(), &|| receiver.span_count()),
    };
    let before = arrived();
    let settings: [(&str, &dyn std::fmt::Display); 3] =
        [("endpoint", &endpoint), ("spans", &spans), ("producers", &scenario.producers)];
    let found = child::play(&[], scenario.part, &settings)?;
    let time = |key| found.number(key).map(Duration::from_nanos);
    let run = Run {
        wall: time("wall")?,
        cpu: time("cpu")?,
        callers_cpu: time("callers_cpu")?,
        memory: found.number("memory")?,
        sent: found.number("sent")?,
        delivered: found.number("delivered")?,
    };
    match arrived() - before {
        arrived if arrived == run.delivered => Ok(run),
        arrived => Err(format!("{}: {} delivered, {arrived} arrived", scenario.name, run.delivered).into()),
    }
}

/// Runs the measured program.
fn play(part: &Part) -> Result<(), Error> {
    let exporter = Exporter::http(part.text("endpoint")?).block_timeout(None);
    let exporter = match part.name.as_str() {
        "block" => exporter,
        "gzip" => exporter.compression(Compression::Gzip),
        "lossy" => exporter.when_full(WhenFull::DropNewest),
        unknown => return Err(format!("{unknown}: no such part").into()),
    };
    let producers = part.number("producers")?;
    let spans_each = part.number("spans")? / producers / TRACE * TRACE;
    let sent = spans_each * producers;
    let telemetry = workload::start(exporter)?;
    let (idle, cpu_before, begun) = (process::resident()?, process::cpu_time()?, Instant::now());
    let callers_cpu = thread::scope(|scope| -> Result<Duration, Error> {
        let mut callers = Vec::new();
        for _ in 0..producers {
            let workload = Workload::new(&telemetry, ATTRIBUTES)?;
            callers.push(scope.spawn(move || {
                workload.emit(spans_each);
                process::thread_cpu_time()
            }));
        }
        let mut total = Duration::ZERO;
        for caller in callers {
            total += caller.join().map_err(|_| "a producer panicked")??;
        }
        Ok(total)
    })?;
    let ledger = telemetry.shutdown(PATIENCE);
    let wall = begun.elapsed();
    let cpu = process::cpu_time()? - cpu_before;
    let total = ledger.total();
    let not_enqueued = if part.name == "lossy" { total.not_enqueued.queue_full } else { 0 };
    if total.delivered + not_enqueued != sent {
        return Err(format!("{sent} spans were emitted, but {ledger}").into());
    }
    child::report("wall", wall.as_nanos());
    child::report("cpu", cpu.as_nanos());
    child::report("callers_cpu", callers_cpu.as_nanos());
    child::report("memory", process::resident_peak()?.saturating_sub(idle));
    child::report("sent", sent);
    child::report("delivered", total.delivered);
    Ok(())
}
