//! The measured programs. Each runs in a child process.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use standpipe::{Exporter, FlushOutcome, SpanContext, SpanKind, Telemetry};

use crate::support::arguments::Part;
use crate::support::program::measured_burst;
use crate::support::workload::{self, ATTRIBUTES, PATIENCE, TRACE, Workload, text};
use crate::support::{Error, child, process};

pub(crate) const SPANS_PART: &str = "spans";
pub(crate) const THREADS_PART: &str = "threads";
pub(crate) const WAITING_PART: &str = "waiting";
pub(crate) const ATTRIBUTES_PART: &str = "attributes";

/// Spans per timed burst.
const BURST: u64 = 256 * TRACE;
/// Bursts per process, of which the fastest counts. The first one allocates the buffers that the others reuse.
const BURSTS: usize = 6;

/// Runs the program that `part` names.
pub(crate) fn play(part: &Part) -> Result<(), Error> {
    let endpoint = part.text("endpoint")?;
    match part.name.as_str() {
        SPANS_PART => spans(endpoint, part.number("spans")?),
        THREADS_PART => threads(endpoint, part.number("spans")?, part.number("threads")?),
        WAITING_PART => waiting(endpoint, part.number("waiting")?),
        ATTRIBUTES_PART => attributes(endpoint, part.number("attributes")?),
        unknown => Err(format!("{unknown}: no such part").into()),
    }
}

/// Emits spans with default settings. The connection is open before the measurement begins.
fn spans(endpoint: &str, spans: u64) -> Result<(), Error> {
    let telemetry = workload::start(Exporter::http(endpoint))?;
    let workload = Workload::new(&telemetry, ATTRIBUTES)?;
    workload.emit(TRACE);
    flush(&telemetry)?;
    let sent = whole_traces(spans);
    let (idle, before) = (process::resident()?, Clocks::read()?);
    measured_burst(&|spans| workload.emit(spans), sent);
    let caller = before.caller()?;
    flush(&telemetry)?;
    let cpu = before.process()?;
    child::report("sent", sent);
    child::report("cpu", cpu.as_nanos());
    child::report("caller_cpu", caller.as_nanos());
    child::report("memory", process::resident_peak()?.saturating_sub(idle));
    finish(&telemetry, TRACE + sent)
}

/// Emits spans from several threads, which share the total number.
fn threads(endpoint: &str, spans: u64, threads: u64) -> Result<(), Error> {
    let telemetry = workload::start(Exporter::http(endpoint))?;
    Workload::new(&telemetry, ATTRIBUTES)?.emit(TRACE);
    flush(&telemetry)?;
    let each = whole_traces(spans / threads);
    let sent = each * threads;
    let (begun, before) = (Instant::now(), Clocks::read()?);
    thread::scope(|scope| -> Result<(), Error> {
        for _ in 0..threads {
            let workload = Workload::new(&telemetry, ATTRIBUTES)?;
            scope.spawn(move || workload.emit(each));
        }
        Ok(())
    })?;
    flush(&telemetry)?;
    child::report("wall", begun.elapsed().as_nanos());
    child::report("cpu", before.process()?.as_nanos());
    child::report("sent", sent);
    finish(&telemetry, TRACE + sent)
}

/// Emits a burst while `waiting` spans are queued, and then sends all of them.
fn waiting(endpoint: &str, waiting: u64) -> Result<(), Error> {
    let telemetry = workload::start(workload::parked(endpoint))?;
    let workload = Workload::new(&telemetry, ATTRIBUTES)?;
    let waiting = waiting.div_ceil(TRACE) * TRACE;
    let (mut caller, mut sending) = (Duration::MAX, Duration::MAX);
    for _ in 0..BURSTS {
        workload.emit(waiting);
        let before = Clocks::read()?;
        workload.emit(BURST);
        caller = caller.min(before.caller()?);
        let before = Clocks::read()?;
        flush(&telemetry)?;
        sending = sending.min(before.process()?);
    }
    child::report("spans", BURST);
    child::report("caller_cpu", caller.as_nanos());
    child::report("sent", waiting + BURST);
    child::report("sending_cpu", sending.as_nanos());
    finish(&telemetry, (waiting + BURST) * BURSTS as u64)
}

/// Emits spans whose attributes are short strings.
fn attributes(endpoint: &str, attributes: u64) -> Result<(), Error> {
    let telemetry = workload::start(workload::parked(endpoint))?;
    let tracer = telemetry.tracer(text::SCOPE);
    let remote = SpanContext::from_traceparent(text::REMOTE)?;
    let keys: Vec<String> = (0..attributes).map(|number| format!("shop.order.item.{number:03}")).collect();
    let mut caller = Duration::MAX;
    for _ in 0..BURSTS {
        let before = Clocks::read()?;
        for _ in 0..BURST {
            let mut span =
                tracer.span_builder(black_box(text::CHILD)).parent(&remote).kind(SpanKind::Client).start();
            for key in &keys {
                span.set(key, black_box(text::ZONE.1));
            }
        }
        caller = caller.min(before.caller()?);
        flush(&telemetry)?;
    }
    child::report("spans", BURST);
    child::report("caller_cpu", caller.as_nanos());
    finish(&telemetry, BURST * BURSTS as u64)
}

/// Processor time at the start of a measurement.
struct Clocks {
    caller: Duration,
    process: Duration,
}

impl Clocks {
    fn read() -> Result<Self, Error> {
        Ok(Self { caller: process::thread_cpu_time()?, process: process::cpu_time()? })
    }

    /// Returns the processor time that this thread has used since the start.
    fn caller(&self) -> Result<Duration, Error> {
        Ok(process::thread_cpu_time()? - self.caller)
    }

    /// Returns the processor time that the whole process has used since the start.
    fn process(&self) -> Result<Duration, Error> {
        Ok(process::cpu_time()? - self.process)
    }
}

fn whole_traces(spans: u64) -> u64 {
    spans / TRACE * TRACE
}

fn flush(telemetry: &Telemetry) -> Result<(), Error> {
    match telemetry.flush(PATIENCE) {
        FlushOutcome::Complete => Ok(()),
        other => Err(format!("flush: {other:?}").into()),
    }
}

fn finish(telemetry: &Telemetry, sent: u64) -> Result<(), Error> {
    workload::finish(telemetry, sent)?;
    child::report("arrives", sent);
    Ok(())
}
