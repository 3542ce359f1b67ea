//! Calls of standpipe other than spans, by name: counters, gauges, histograms and logs.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::Arc;

use standpipe::{Counter, Exporter, FlushOutcome, Histogram, Logger, Severity, Telemetry, Value};

use super::Error;
use super::program::{Arrives, Burst, Program, repeat};
use super::workload::{self, PATIENCE, text};

/// A call, with its setup.
pub(crate) struct Call {
    pub(crate) name: &'static str,
    /// Target for the number of instructions.
    pub(crate) target: Option<u64>,
    make: fn(&Telemetry) -> Burst,
}

/// All calls, in the order of the tables.
pub(crate) const CALLS: &[Call] = &[
    call("counter add, 0 attributes", None, |t| counter(t, |counter| counter.add(1, ()))),
    call("counter add, 1 attribute", None, |t| counter(t, |counter| counter.add(1, &one()))),
    call("counter add, 2 attributes", Some(250), |t| counter(t, |counter| counter.add(1, &two()))),
    call("counter add, 3 attributes", Some(250), |t| counter(t, |counter| counter.add(1, &three()))),
    call("counter add, 5 attributes", None, |t| counter(t, |counter| counter.add(1, &five()))),
    call("counter add, bound", Some(60), |t| {
        let bound = t.meter(text::SCOPE).counter("orders").with(&one());
        repeat(move |_| bound.add(black_box(1)))
    }),
    call("histogram record, 0 attributes", None, |t| {
        explicit(t, |histogram, value| histogram.record(value, ()))
    }),
    call("histogram record, 1 attribute", None, |t| {
        explicit(t, |histogram, value| histogram.record(value, &one()))
    }),
    call("histogram record, 5 attributes", None, |t| {
        explicit(t, |histogram, value| histogram.record(value, &five()))
    }),
    call("histogram record, bound", None, |t| {
        let bound = t.meter(text::SCOPE).histogram("order.total").with(&one());
        repeat(move |number| bound.record(spread(number)))
    }),
    call("exponential record, 0 attributes", None, |t| {
        exponential(t, |histogram, value| histogram.record(value, ()))
    }),
    call("exponential record, 1 attribute", None, |t| {
        exponential(t, |histogram, value| histogram.record(value, &one()))
    }),
    call("exponential record, 5 attributes", None, |t| {
        exponential(t, |histogram, value| histogram.record(value, &five()))
    }),
    call("exponential record, bound", None, |t| {
        let bound = t.meter(text::SCOPE).build("order.total").exponential().histogram().with(&one());
        repeat(move |number| bound.record(spread(number)))
    }),
    call("gauge record, 1 attribute", None, |t| {
        let (gauge, calls) = (t.meter(text::SCOPE).gauge("load"), Cell::new(0.0));
        // The value is the number of calls, so that the last value shows whether all of them arrived.
        repeat(move |_| gauge.record(calls.replace(calls.get() + 1.0) + 1.0, &one()))
    }),
    call("log, 0 attributes", None, |t| log(t, |logger| logger.info(black_box(text::BODY)).emit())),
    call("log, 1 attribute", None, |t| {
        log(t, |logger| {
            logger.info(black_box(text::BODY)).set(text::ROUTE.0, black_box(text::ROUTE.1)).emit()
        })
    }),
    call("log, 5 attributes", None, |t| {
        log(t, |logger| {
            logger
                .info(black_box(text::BODY))
                .set(text::ROUTE.0, black_box(text::ROUTE.1))
                .set(text::HOST.0, black_box(text::HOST.1))
                .set(text::ZONE.0, black_box(text::ZONE.1))
                .set(text::STATUS.0, black_box(text::STATUS.1))
                .set(text::CACHED.0, black_box(text::CACHED.1))
                .emit();
        })
    }),
    call(FILTERED, Some(40), |t| {
        let logger = t.logger(text::SCOPE);
        Box::new(move |calls| {
            for _ in 0..calls {
                logger
                    .debug(black_box(text::BODY))
                    .set(text::ROUTE.0, black_box(text::ROUTE.1))
                    .set(text::HOST.0, black_box(text::HOST.1))
                    .set(text::ZONE.0, black_box(text::ZONE.1))
                    .set(text::STATUS.0, black_box(text::STATUS.1))
                    .set(text::CACHED.0, black_box(text::CACHED.1))
                    .emit();
            }
            logger.info(text::BODY).emit();
        })
    }),
];

const FILTERED: &str = "filtered log, 5 attributes";

const fn call(name: &'static str, target: Option<u64>, make: fn(&Telemetry) -> Burst) -> Call {
    Call { name, target, make }
}

/// Returns what must arrive for the call with this name.
pub(crate) fn arrives(name: &str) -> Arrives {
    if name == FILTERED { Arrives::OneOfBurst } else { Arrives::Each }
}

/// Starts a program that makes this call, with default settings.
pub(crate) fn start(name: &str, endpoint: &str) -> Result<Program, Error> {
    start_with(name, Exporter::http(endpoint))
}

/// End of the name of a call that is made inside a sampled span. Its measurements may become exemplars.
const IN_SPAN: &str = ", in a span";

/// Starts a program that makes this call, with the given exporter.
pub(crate) fn start_with(name: &str, exporter: Exporter) -> Result<Program, Error> {
    let (name, is_in_span) = name.strip_suffix(IN_SPAN).map_or((name, false), |name| (name, true));
    let call = CALLS.iter().find(|call| call.name == name).ok_or_else(|| format!("{name}: no such call"))?;
    let exporter = if name == FILTERED { exporter.level(Severity::Info) } else { exporter };
    let telemetry = Arc::new(workload::start(exporter)?);
    let mut burst = (call.make)(&telemetry);
    if is_in_span {
        let span = telemetry.tracer(text::SCOPE).span(text::ROOT);
        burst = Box::new(move |calls| {
            let _inside = &span;
            burst(calls);
        });
    }
    if name.contains("log") {
        return Ok(sending(telemetry, burst));
    }
    // Measurements are aggregated in place, so there is nothing to flush.
    Ok(Program::new(burst, || Ok(()), move || end(&telemetry)))
}

/// Returns a program whose calls enqueue records. A flush sends them.
pub(crate) fn sending(telemetry: Arc<Telemetry>, burst: Burst) -> Program {
    let flushed = Arc::clone(&telemetry);
    let flush = move || match flushed.flush(PATIENCE) {
        FlushOutcome::Complete => Ok(()),
        other => Err(format!("flush: {other:?}").into()),
    };
    Program::new(burst, flush, move || end(&telemetry))
}

fn end(telemetry: &Telemetry) -> Result<(), Error> {
    match telemetry.shutdown(PATIENCE) {
        ledger if ledger.lost() == 0 => Ok(()),
        ledger => Err(format!("records were lost: {ledger}").into()),
    }
}

fn counter(telemetry: &Telemetry, add: impl Fn(&Counter) + 'static) -> Burst {
    let counter = telemetry.meter(text::SCOPE).counter("orders");
    repeat(move |_| add(&counter))
}

fn explicit(telemetry: &Telemetry, record: impl Fn(&Histogram, f64) + 'static) -> Burst {
    let histogram = telemetry.meter(text::SCOPE).histogram("order.total");
    repeat(move |number| record(&histogram, spread(number)))
}

fn exponential(telemetry: &Telemetry, record: impl Fn(&Histogram, f64) + 'static) -> Burst {
    let histogram = telemetry.meter(text::SCOPE).build("order.total").exponential().histogram();
    repeat(move |number| record(&histogram, spread(number)))
}

/// Emits log records inside of a span, as most programs do.
pub(crate) fn log(telemetry: &Telemetry, emit: impl Fn(&Logger) + 'static) -> Burst {
    let (logger, span) = (telemetry.logger(text::SCOPE), telemetry.tracer(text::SCOPE).span(text::ROOT));
    repeat(move |_| {
        let _inside = &span;
        emit(&logger);
    })
}

/// Returns values from 0 to 10,230, which cover all buckets of the default bounds.
pub(crate) fn spread(number: u64) -> f64 {
    ((number * 37) & 1023) as f64 * 10.0
}

pub(crate) fn one() -> [(&'static str, &'static str); 1] {
    [(text::ROUTE.0, black_box(text::ROUTE.1))]
}

fn two() -> [(&'static str, &'static str); 2] {
    [(text::ROUTE.0, black_box(text::ROUTE.1)), (text::ZONE.0, black_box(text::ZONE.1))]
}

fn three() -> [(&'static str, &'static str); 3] {
    let [route, zone] = two();
    [route, zone, (text::HOST.0, black_box("eu.shop.internal"))]
}

fn five() -> [(&'static str, Value<'static>); 5] {
    [
        (text::ROUTE.0, Value::from(black_box(text::ROUTE.1))),
        (text::HOST.0, Value::from(black_box(text::HOST.1))),
        (text::ZONE.0, Value::from(black_box(text::ZONE.1))),
        (text::STATUS.0, Value::from(black_box(text::STATUS.1))),
        (text::CACHED.0, Value::from(black_box(text::CACHED.1))),
    ]
}
