//! Measures the encoding of a span: directly to protobuf bytes, compared with prost structs.
//!
//! The figures of standpipe cover the whole call of a program: ids, clock, current span, encoding, and the copy into
//! the queue. The figures of structs that are built for each trace include ids and clock readings, but no queue. Those
//! of ready structs include only the encoding.
//!
//! Run it with `cargo bench --bench encode`. With `-- --smoke`, a short run only checks that the benchmark works.

mod support;

use std::hint::black_box;
use std::time::{Duration, Instant, SystemTime};

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::{ScopeSpans, Span};
use prost::Message;
use standpipe::receiver::Receiver;
use standpipe::{FlushOutcome, Telemetry};
use support::allocations::{self, CountingAllocator};
use support::arguments::{Part, Task};
use support::table::{Table, hundredths, whole};
use support::workload::{self, ATTRIBUTES, PATIENCE, TRACE, Workload, text};
use support::{Error, callgrind, child};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const BURST: u64 = 256 * TRACE;

struct Sizes {
    rounds: usize,
    /// Numbers of spans in a short and in a long run, whose instruction counts are subtracted.
    instructions: (u64, u64),
}

fn main() -> Result<(), Error> {
    match Task::from_command_line()? {
        Task::Play(part) => play(&part),
        Task::Measure { smoke: true } => measure(&Sizes { rounds: 3, instructions: (BURST, 2 * BURST) }),
        Task::Measure { smoke: false } => {
            measure(&Sizes { rounds: 200, instructions: (4 * BURST, 16 * BURST) })
        }
    }
}

fn measure(sizes: &Sizes) -> Result<(), Error> {
    let receiver = Receiver::builder().keep_bytes(0).start()?;
    let mut contenders: [(Figures, Box<dyn Contender>); 3] = [
        (
            Figures::new("standpipe", "straight to bytes, whole call"),
            Box::new(Straight::start(&receiver.endpoint())?),
        ),
        (Figures::new("structs", "structs built, encoded, dropped"), Box::<Structs>::default()),
        (Figures::new("ready", "ready structs, encoded only"), Box::new(Ready::new())),
    ];
    for round in 0..=sizes.rounds {
        for (figures, contender) in &mut contenders {
            let (begun, before) = (Instant::now(), allocations::of_this_thread());
            contender.encode();
            let (time, allocations) = (begun.elapsed(), allocations::of_this_thread() - before);
            contender.recover()?;
            // The first round is a warm-up: it allocates the buffers that later rounds reuse.
            if round > 0 {
                figures.note(time, allocations);
            }
        }
    }
    let skipped = callgrind::unavailable();
    let mut table = Table::new(["for each span", "ns", "allocations", "instructions", "target"]);
    for (figures, _) in &contenders {
        let instructions = match &skipped {
            Some(_) => "SKIPPED".to_owned(),
            None => {
                let endpoint = receiver.endpoint();
                let counted =
                    callgrind::per_span(figures.part, &[("endpoint", &endpoint)], sizes.instructions)?;
                whole(counted.caller)
            }
        };
        let target = if figures.part == "standpipe" { "0 allocations, ≤ 900 instructions" } else { "" };
        table.row([
            figures.name.to_owned(),
            whole(figures.best),
            hundredths(figures.allocations / sizes.rounds as f64),
            instructions,
            target.to_owned(),
        ]);
    }
    drop(contenders);
    table.print("encode: spans with three string attributes, an integer and a bool");
    if let Some(reason) = skipped {
        println!("  instructions SKIPPED: {reason}\n");
    }
    Ok(())
}

struct Figures {
    part: &'static str,
    name: &'static str,
    /// Nanoseconds per span in the best round.
    best: f64,
    /// Allocations per span, summed over all rounds.
    allocations: f64,
}

impl Figures {
    fn new(part: &'static str, name: &'static str) -> Self {
        Self { part, name, best: f64::INFINITY, allocations: 0.0 }
    }

    fn note(&mut self, time: Duration, allocations: u64) {
        self.best = self.best.min(time.as_nanos() as f64 / BURST as f64);
        self.allocations += allocations as f64 / BURST as f64;
    }
}

/// A way to encode spans.
trait Contender {
    /// Encodes a burst of spans.
    fn encode(&mut self);

    /// Prepares the next burst. Not measured.
    fn recover(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// Standpipe with a parked worker.
struct Straight {
    telemetry: Telemetry,
    workload: Workload,
}

impl Straight {
    fn start(endpoint: &str) -> Result<Self, Error> {
        let telemetry = workload::start(workload::parked(endpoint))?;
        let workload = Workload::new(&telemetry, ATTRIBUTES)?;
        Ok(Self { telemetry, workload })
    }
}

impl Contender for Straight {
    fn encode(&mut self) {
        self.workload.emit(BURST);
    }

    fn recover(&mut self) -> Result<(), Error> {
        match self.telemetry.flush(PATIENCE) {
            FlushOutcome::Complete if self.telemetry.ledger().lost() == 0 => Ok(()),
            other => Err(format!("flush: {other:?}, {}", self.telemetry.ledger()).into()),
        }
    }
}

/// prost messages that are built for each trace, and then encoded.
#[derive(Default)]
struct Structs {
    bytes: Vec<u8>,
    ids: Ids,
}

impl Contender for Structs {
    fn encode(&mut self) {
        for _ in 0..BURST / TRACE {
            let spans = trace(&mut self.ids);
            self.bytes.clear();
            encode(&spans, &mut self.bytes);
        }
    }
}

/// prost messages that are built once, and encoded for each trace.
struct Ready {
    spans: ScopeSpans,
    bytes: Vec<u8>,
}

impl Ready {
    fn new() -> Self {
        Self { spans: trace(&mut Ids::default()), bytes: Vec::new() }
    }
}

impl Contender for Ready {
    fn encode(&mut self) {
        for _ in 0..BURST / TRACE {
            self.bytes.clear();
            encode(black_box(&self.spans), &mut self.bytes);
        }
    }
}

fn encode(spans: &ScopeSpans, bytes: &mut Vec<u8>) {
    // Encoding into a `Vec` cannot fail.
    let _ = spans.encode(bytes);
    black_box(bytes.as_slice());
}

/// Generator of cheap ids, because the generation of ids is not compared.
#[derive(Default)]
struct Ids(u64);

impl Ids {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0
    }
}

/// Builds the spans that [`Workload`] emits.
fn trace(ids: &mut Ids) -> ScopeSpans {
    let trace_id = u128::from(ids.next()).to_be_bytes();
    let remote = ids.next();
    let root_id = ids.next();
    let mut spans = Vec::with_capacity(TRACE as usize);
    spans.push(span(&trace_id, root_id, remote, text::ROOT, 2));
    spans.extend((1..TRACE).map(|_| span(&trace_id, ids.next(), root_id, text::CHILD, 3)));
    ScopeSpans { spans, ..ScopeSpans::default() }
}

fn span(trace_id: &[u8], span_id: u64, parent: u64, name: &str, kind: i32) -> Span {
    let start_time_unix_nano = now();
    let attributes = vec![
        attribute(text::ROUTE.0, Value::StringValue(black_box(text::ROUTE.1).to_owned())),
        attribute(text::HOST.0, Value::StringValue(black_box(text::HOST.1).to_owned())),
        attribute(text::ZONE.0, Value::StringValue(black_box(text::ZONE.1).to_owned())),
        attribute(text::STATUS.0, Value::IntValue(black_box(text::STATUS.1))),
        attribute(text::CACHED.0, Value::BoolValue(black_box(text::CACHED.1))),
    ];
    Span {
        trace_id: trace_id.to_vec(),
        span_id: span_id.to_be_bytes().to_vec(),
        parent_span_id: parent.to_be_bytes().to_vec(),
        flags: 0x101,
        name: black_box(name).to_owned(),
        kind,
        start_time_unix_nano,
        end_time_unix_nano: now(),
        attributes,
        ..Span::default()
    }
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_nanos() as u64
}

/// Runs the child whose instructions are counted.
fn play(part: &Part) -> Result<(), Error> {
    let mut contender: Box<dyn Contender> = match part.name.as_str() {
        "standpipe" => Box::new(Straight::start(part.text("endpoint")?)?),
        "structs" => Box::<Structs>::default(),
        "ready" => Box::new(Ready::new()),
        unknown => return Err(format!("{unknown}: no such part").into()),
    };
    let bursts = part.number("spans")? / BURST;
    for _ in 0..bursts {
        contender.encode();
        contender.recover()?;
    }
    child::report("spans", bursts * BURST);
    Ok(())
}
