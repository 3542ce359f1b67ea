//! Measures how the cost of a span grows with the number of spans, threads, queued spans and attributes.
//!
//! `cargo bench --bench growth` draws the curves into `benches/growth.svg`. With `-- --readme`, it also writes the
//! picture and a table of the flatness of the curves into `benches/README.md`. With `-- --smoke`, a short run only
//! checks that the benchmark works, and the picture stays as it is.

mod programs;

#[path = "../support/mod.rs"]
mod support;

use std::path::Path;
use std::time::Duration;
use std::{array, fmt, fs, thread};

use programs::{ATTRIBUTES_PART, SPANS_PART, THREADS_PART, WAITING_PART};
use support::allocations::CountingAllocator;
use support::arguments::Task;
use support::callgrind::{self, OTHER_THREADS};
use support::child::{self, Findings};
use support::program::MEASURED;
use support::sink::Sink;
use support::svg::{Chart, Colour, Curve, Picture};
use support::table::{Table, tenths, whole};
use support::workload::{ATTRIBUTES, TRACE};
use support::{Error, publish};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Name of the table in `benches/README.md`.
const NAME: &str = "growth";

struct Sizes {
    /// Rounds of each timed measurement. The best round counts.
    rounds: usize,
    spans: &'static [u64],
    /// Numbers of spans for which instructions are counted. A run under callgrind takes fifty times as long.
    counted_spans: &'static [u64],
    threads: &'static [u64],
    /// Spans of all threads together.
    spans_of_threads: u64,
    waiting: &'static [u64],
    attributes: &'static [u64],
}

const FULL: Sizes = Sizes {
    rounds: 5,
    spans: &[1_000, 10_000, 100_000, 1_000_000, 10_000_000],
    counted_spans: &[1_000, 10_000, 100_000, 1_000_000],
    threads: &[1, 2, 4, 8, 16, 32, 64],
    spans_of_threads: 1 << 20,
    waiting: &[0, 100, 1_000, 10_000, 100_000],
    attributes: &[0, 5, 10, 20, 50, 100],
};

const SMOKE: Sizes = Sizes {
    rounds: 1,
    spans: &[1_000, 10_000],
    counted_spans: &[1_000],
    threads: &[1, 4],
    spans_of_threads: 1 << 14,
    waiting: &[0, 1_000],
    attributes: &[0, 5, 20],
};

fn main() -> Result<(), Error> {
    match Task::with_choice(&[])?.0 {
        Task::Play(part) => programs::play(&part),
        Task::Measure { smoke } => {
            publish::prepare(&[NAME])?;
            let picture = measure(if smoke { &SMOKE } else { &FULL })?;
            let svg = picture.draw();
            let table = table(&picture);
            table.print("growth: flatness of the curves");
            if smoke {
                return Ok(());
            }
            fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/growth.svg"), svg)?;
            println!("wrote benches/growth.svg");
            publish::markdown(NAME, &format!("![{}](growth.svg)\n\n{}", picture.title, table.markdown()))
        }
    }
}

fn table(picture: &Picture) -> Table {
    let mut table = Table::new(["curve", "from", "to", "lowest", "highest", "highest / lowest", ""]);
    for chart in &picture.charts {
        for curve in &chart.curves {
            let (Some(first), Some(last)) = (curve.points.first(), curve.points.last()) else { continue };
            let unit = chart.unit.split(',').next().unwrap_or_default();
            let ratio = match chart.is_flat {
                true => format!("{:.2}", curve.highest() / curve.lowest()),
                false => "–".to_owned(),
            };
            table.row([
                format!("{}: {unit}, {}", chart.title, curve.name),
                whole(first.0),
                format!("{} {}", whole(last.0), chart.over),
                (curve.show)(curve.lowest()),
                (curve.show)(curve.highest()),
                ratio,
                String::new(),
            ]);
        }
    }
    table.note("memory grows until the queue has reached its size, and then stays constant");
    table
}

fn measure(sizes: &Sizes) -> Result<Picture, Error> {
    let sink = Sink::start(Duration::ZERO)?;
    let mut charts = over_spans(sizes, &sink)?;
    charts.insert(
        1,
        match callgrind::unavailable() {
            None => Some(instructions(sizes, &sink)?),
            Some(reason) => {
                println!("instructions SKIPPED: {reason}");
                None
            }
        },
    );
    charts.push(Some(over_threads(sizes, &sink)?));
    charts.push(Some(over_waiting(sizes, &sink)?));
    charts.push(Some(over_attributes(sizes, &sink)?));
    Ok(Picture {
        title: "What a span costs, as the work grows".to_owned(),
        subtitle: [
            format!(
                "Spans with {ATTRIBUTES} attributes in traces of {TRACE}, over loopback to a collector that counts them; every span arrives."
            ),
            format!(
                "Best of {} runs, {} cores. Lower is better, and a flat curve is ideal; all vertical axes start at zero.",
                sizes.rounds,
                thread::available_parallelism()?
            ),
        ],
        charts: charts.into_iter().flatten().collect(),
    })
}

/// Measures processor time and memory by the number of spans sent.
fn over_spans(sizes: &Sizes, sink: &Sink) -> Result<Vec<Option<Chart>>, Error> {
    let [process, caller, memory] = best(sizes.rounds, sizes.spans, |spans| {
        let mut least = [f64::INFINITY; 3];
        // A run of a millisecond is easily disturbed, but cheap to repeat.
        for _ in 0..(100_000 / spans).clamp(1, 20) {
            let found = play(sink, SPANS_PART, &[("spans", &spans)])?;
            let memory = found.number("memory")? as f64 / f64::from(1 << 20);
            let seen = [found.ratio("cpu", "sent")?, found.ratio("caller_cpu", "sent")?, memory];
            least = array::from_fn(|figure| seen[figure].min(least[figure]));
        }
        Ok(least)
    })?;
    let time =
        chart("Processor time", "ns per span", "spans sent", [whole_process(process), of_caller(caller)]);
    let memory =
        Curve { name: "whole process".to_owned(), points: memory, colour: Colour::Blue, show: tenths };
    let memory = chart("Peak memory above idle", "MiB", "spans sent", [memory]);
    // Memory grows until the queue is full.
    Ok(vec![Some(time), Some(Chart { is_flat: false, ..memory })])
}

/// Counts the instructions of the same programs. Unlike times, the counts do not depend on the load of the machine.
fn instructions(sizes: &Sizes, sink: &Sink) -> Result<Chart, Error> {
    let count = |spans: u64| {
        let before = sink.span_count();
        let endpoint = sink.endpoint();
        let settings: [(&str, &dyn fmt::Display); 2] = [("endpoint", &endpoint), ("spans", &spans)];
        let counted = callgrind::count(SPANS_PART, &settings, &[MEASURED, OTHER_THREADS])?;
        Ok::<_, Error>((counted, sink.span_count() - before))
    };
    // Start, shutdown and the trace that opens the connection have a constant cost, which is subtracted.
    let (without, first) = count(0)?;
    let (mut process, mut caller) = (Vec::new(), Vec::new());
    for &spans in sizes.counted_spans {
        let (with, arrived) = count(spans)?;
        let each = |with: u64, without: u64| (with as f64 - without as f64) / (arrived - first) as f64;
        process.push((spans as f64, each(with.0 + with.1, without.0 + without.1)));
        caller.push((spans as f64, each(with.0, without.0)));
    }
    Ok(chart("Instructions", "per span", "spans sent", [whole_process(process), of_caller(caller)]))
}

/// Measures threads that share one queue.
fn over_threads(sizes: &Sizes, sink: &Sink) -> Result<Chart, Error> {
    let [cpu, elapsed] = best(sizes.rounds, sizes.threads, |threads| {
        let settings: [(&str, &dyn fmt::Display); 2] =
            [("spans", &sizes.spans_of_threads), ("threads", &threads)];
        let found = play(sink, THREADS_PART, &settings)?;
        Ok([found.ratio("cpu", "sent")?, found.ratio("wall", "sent")?])
    })?;
    let mut table = Table::new(["threads that make spans", "CPU ns per span", "spans/s", ""]);
    for ((threads, cpu), (_, elapsed)) in cpu.iter().zip(&elapsed) {
        table.row([whole(*threads), whole(*cpu), whole(1e9 / elapsed), String::new()]);
    }
    table.print("growth: threads that share one queue");
    Ok(chart(
        "Threads",
        "ns per span",
        "threads that make spans",
        [whole_process(cpu), same_unit("elapsed", elapsed)],
    ))
}

/// Measures a queue that fills up, with a worker that sends only at a flush.
fn over_waiting(sizes: &Sizes, sink: &Sink) -> Result<Chart, Error> {
    let [caller, sending] = best(sizes.rounds, sizes.waiting, |waiting| {
        let found = play(sink, WAITING_PART, &[("waiting", &waiting)])?;
        Ok([found.ratio("caller_cpu", "spans")?, found.ratio("sending_cpu", "sent")?])
    })?;
    Ok(chart(
        "Filling the queue",
        "ns per span",
        "spans waiting in the queue",
        [of_caller(caller), same_unit("sending it all", sending)],
    ))
}

/// Measures the cost of each attribute.
fn over_attributes(sizes: &Sizes, sink: &Sink) -> Result<Chart, Error> {
    let [costs] = best(sizes.rounds, sizes.attributes, |attributes| {
        let found = play(sink, ATTRIBUTES_PART, &[("attributes", &attributes)])?;
        Ok([found.ratio("caller_cpu", "spans")?])
    })?;
    let (none, some) = costs.split_first().ok_or("no numbers of attributes")?;
    let each = some.iter().map(|(attributes, cost)| (*attributes, (cost - none.1) / attributes)).collect();
    let unit = format!("ns per attribute, after {} ns for a bare span", whole(none.1));
    Ok(chart("Attributes", &unit, "attributes of a span", [of_caller(each)]))
}

fn chart<const CURVES: usize>(title: &str, unit: &str, over: &str, curves: [Curve; CURVES]) -> Chart {
    Chart {
        title: title.to_owned(),
        unit: unit.to_owned(),
        over: over.to_owned(),
        curves: curves.into(),
        is_flat: true,
    }
}

fn whole_process(points: Vec<Point>) -> Curve {
    Curve { name: "whole process".to_owned(), points, colour: Colour::Blue, show: whole }
}

fn of_caller(points: Vec<Point>) -> Curve {
    Curve { name: "caller".to_owned(), points, colour: Colour::Orange, show: whole }
}

/// Returns the second curve of a chart, in the unit of the first one.
fn same_unit(name: &str, points: Vec<Point>) -> Curve {
    Curve { name: name.to_owned(), points, colour: Colour::Teal, show: whole }
}

/// Position on the horizontal axis, and the value measured there.
type Point = (f64, f64);

/// Returns the minimum of each figure at each position, because disturbances only increase a measurement.
///
/// Each round measures all positions, so that a disturbance is unlikely to affect all measurements of one position.
fn best<const FIGURES: usize>(
    rounds: usize,
    places: &[u64],
    measure: impl Fn(u64) -> Result<[f64; FIGURES], Error>,
) -> Result<[Vec<Point>; FIGURES], Error> {
    let mut best = [const { Vec::new() }; FIGURES];
    for points in &mut best {
        points.extend(places.iter().map(|place| (*place as f64, f64::INFINITY)));
    }
    for _ in 0..rounds {
        for (index, place) in places.iter().enumerate() {
            for (points, found) in best.iter_mut().zip(measure(*place)?) {
                points[index].1 = points[index].1.min(found);
            }
        }
    }
    Ok(best)
}

/// Runs a part in a child. All spans that it sends must arrive.
fn play(sink: &Sink, part: &str, settings: &[(&str, &dyn fmt::Display)]) -> Result<Findings, Error> {
    let before = sink.span_count();
    let endpoint = sink.endpoint();
    let found = child::play(&[], part, &[settings, &[("endpoint", &endpoint)]].concat())?;
    match (sink.span_count() - before, found.number("arrives")?) {
        (arrived, expected) if arrived == expected => Ok(found),
        (arrived, expected) => Err(format!("{part}: expected {expected} spans, {arrived} arrived").into()),
    }
}
