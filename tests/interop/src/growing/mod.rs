//! More than one machine: the program, an agent on its machine, and gateways behind the agent. The configurations are
//! in `growing/`.

mod collector;
mod tiers;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use standpipe::receiver::Receiver;
use standpipe::{ProblemKind, Status, Tracer};

use crate::Error;
use crate::cases::{Environment, same_spans};
use crate::program::{Program, Setup, Signals, To};
use crate::seen::Record;
use crate::servers::Transport;
use crate::table::{Row, Table};
use tiers::Tiers;

pub(crate) const NAME: &str = "growing";

const SPANS_OF_A_TRACE: usize = 3;
const BETWEEN_TRACES: Duration = Duration::from_millis(1);
/// Number of requests that the agent's queue can hold. `ROOMY` holds all requests of a test. `SMALL` is full soon after
/// a gateway has stopped, and the agent then refuses requests.
const ROOMY: usize = 10_000;
const SMALL: usize = 20;
/// Time for which a Collector is stopped.
const AWAY: Duration = Duration::from_secs(1);
const MAX_WAIT: Duration = Duration::from_secs(60);

/// The Collector that is killed during the test.
#[derive(Clone, Copy)]
enum Victim {
    Gateway,
    Agent,
}

pub(crate) fn run(transport: Transport, environment: &Environment<'_>, table: &mut Table) {
    let mut push = |what: &str, result: Result<String, Error>| {
        let (what, outcome) = (what.to_owned(), result.into());
        table.push(Row { server: NAME, transport: transport.name(), what, outcome });
    };
    push("agent, two gateways, sinks", balanced(transport, environment));
    push("a gateway killed and back", killed(transport, environment, Victim::Gateway));
    push("the agent killed and back", killed(transport, environment, Victim::Agent));
    push("tail sampling in the gateways", tail_sampling(transport, environment));
    push("fan-out to a second backend", fan_out(transport, environment));
}

/// Every record arrives, all spans of a trace at the same gateway, and each gateway receives a share of the traces.
fn balanced(transport: Transport, environment: &Environment<'_>) -> Result<String, Error> {
    let tiers = Tiers::start(environment.tools, environment.scratch, transport, &[], ROOMY)?;
    let program = start(transport, &tiers)?;
    let tracer = program.telemetry.tracer("interop");
    let logger = program.telemetry.logger("interop");
    let traces = if environment.quick { 200 } else { 2_000 };
    let sent: Vec<String> = (0..traces).flat_map(|_| trace(&tracer, false)).collect();
    (0..traces).for_each(|number| logger.info("done").set("number", number).emit());
    program.telemetry.meter("interop").counter("traces").add(traces, ());
    program.finish()?;

    tiers.wait_for_spans(sent.len());
    let count = |of: fn(&Receiver) -> u64| tiers.sinks.iter().map(of).sum::<u64>();
    let deadline = Instant::now() + MAX_WAIT;
    let all_there = || count(|sink| sink.log_count()) >= traces && count(|sink| sink.point_count()) >= 1;
    while !all_there() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(50));
    }
    let records = tiers.records()?;
    let twice = same_spans(&sent, &spans(&records))?;
    let (logs, points) = (count(|sink| sink.log_count()), count(|sink| sink.point_count()));
    if (logs, points) != (traces, 1) {
        return Err(format!("{logs} log records instead of {traces}, {points} points instead of 1").into());
    }
    let shares = whole_traces(&records)?;
    if shares.contains(&0) {
        return Err(format!("the gateways' shares are {shares:?} traces").into());
    }
    Ok(format!(
        "{} spans ({twice} twice), {logs} logs, {points} point; {} and {} whole traces",
        sent.len(),
        shares[0],
        shares[1]
    ))
}

/// One Collector is killed and restarted while the program continues to send: nothing is lost.
fn killed(transport: Transport, environment: &Environment<'_>, victim: Victim) -> Result<String, Error> {
    let mut tiers = Tiers::start(environment.tools, environment.scratch, transport, &[], SMALL)?;
    let program = start(transport, &tiers)?;
    let tracer = program.telemetry.tracer("interop");
    let is_over = AtomicBool::new(false);
    let sent = thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut sent = Vec::new();
            while !is_over.load(Ordering::SeqCst) {
                sent.extend(trace(&tracer, false));
                thread::sleep(BETWEEN_TRACES);
            }
            sent
        });
        let result = kill_and_start_again(&mut tiers, victim);
        is_over.store(true, Ordering::SeqCst);
        let sent = sender.join().map_err(|_| "the sender panicked")?;
        result.map(|()| sent)
    })?;
    // The hook receives problems while the agent is stopped, or while its queue is full because a gateway is stopped.
    program.finish_in_spite_of(&[ProblemKind::Unavailable])?;
    tiers.wait_for_spans(sent.len());
    let twice = same_spans(&sent, &spans(&tiers.records()?))?;
    Ok(format!("{} spans, {twice} of them twice", sent.len()))
}

fn kill_and_start_again(tiers: &mut Tiers, victim: Victim) -> Result<(), Error> {
    wait_for_more(tiers, 300)?;
    let collector = match victim {
        Victim::Gateway => &mut tiers.gateways[1],
        Victim::Agent => &mut tiers.agent,
    };
    collector.kill()?;
    thread::sleep(AWAY);
    collector.start_again()?;
    wait_for_more(tiers, 300)
}

/// A gateway keeps complete traces that contain an error. No other trace arrives.
fn tail_sampling(transport: Transport, environment: &Environment<'_>) -> Result<String, Error> {
    const TRACES: usize = 100;
    let tiers =
        Tiers::start(environment.tools, environment.scratch, transport, &["tail-sampling.yaml"], ROOMY)?;
    let program = start(transport, &tiers)?;
    let tracer = program.telemetry.tracer("interop");
    let mut with_errors = Vec::new();
    for number in 0..TRACES {
        let is_error = number % 10 == 0;
        let ids = trace(&tracer, is_error);
        if is_error {
            with_errors.extend(ids);
        }
    }
    program.finish()?;
    tiers.wait_for_spans(with_errors.len());
    // The gateways decide about the other traces at the same time. A further wait shows that none of them arrives.
    thread::sleep(Duration::from_secs(2));
    same_spans(&with_errors, &spans(&tiers.records()?))?;
    Ok(format!("of {TRACES} traces the {} with an error, whole", TRACES / 10))
}

/// Both backends receive everything.
fn fan_out(transport: Transport, environment: &Environment<'_>) -> Result<String, Error> {
    const TRACES: usize = 100;
    let tiers = Tiers::start(environment.tools, environment.scratch, transport, &["fan-out.yaml"], ROOMY)?;
    let program = start(transport, &tiers)?;
    let tracer = program.telemetry.tracer("interop");
    let sent: Vec<String> = (0..TRACES).flat_map(|_| trace(&tracer, false)).collect();
    program.finish()?;
    let arrived = |sink: &Receiver| sink.wait_for_spans(sent.len() as u64, MAX_WAIT);
    // The result is ignored: missing records are found below.
    let _ = tiers.sinks.iter().all(arrived);
    for records in tiers.records()? {
        same_spans(&sent, &records)?;
    }
    Ok(format!("{} spans in each", sent.len()))
}

fn start(transport: Transport, tiers: &Tiers) -> Result<Program, Error> {
    Program::start(&Setup {
        transport,
        to: To::Port(tiers.agent.port()),
        identity: None,
        gzip: true,
        signals: Signals::All { delta: false },
        more: "batch-records = 50\n",
    })
}

/// Sends a trace, whose last span fails if `is_error` is true. Returns the ids of its spans.
fn trace(tracer: &Tracer, is_error: bool) -> Vec<String> {
    let root = tracer.span_builder("trace").root().start();
    let mut ids = vec![root.context().span_id().to_string()];
    for number in 1..SPANS_OF_A_TRACE {
        let mut span = tracer.span("part");
        ids.push(span.context().span_id().to_string());
        if is_error && number == SPANS_OF_A_TRACE - 1 {
            span.status(Status::Error("failed"));
        }
    }
    ids
}

fn spans(records: &[Vec<Record>; 2]) -> Vec<Record> {
    records.iter().flatten().filter(|record| record.signal == "traces").cloned().collect()
}

/// Returns the number of traces in each sink, or an error if a trace is in both.
fn whole_traces(records: &[Vec<Record>; 2]) -> Result<[usize; 2], Error> {
    let mut places = HashMap::<&str, HashSet<usize>>::new();
    for (place, records) in records.iter().enumerate() {
        for id in records.iter().filter(|record| record.signal == "traces").filter_map(trace_id) {
            places.entry(id).or_default().insert(place);
        }
    }
    let torn = places.values().filter(|places| places.len() > 1).count();
    if torn > 0 {
        return Err(format!("{torn} traces are torn apart").into());
    }
    Ok([0, 1].map(|place| places.values().filter(|places| places.contains(&place)).count()))
}

fn trace_id(record: &Record) -> Option<&str> {
    record.body["traceId"].as_str()
}

/// Waits until this many more spans have arrived.
fn wait_for_more(tiers: &Tiers, spans: u64) -> Result<(), Error> {
    let (goal, deadline) = (tiers.span_count() + spans, Instant::now() + MAX_WAIT);
    while tiers.span_count() < goal {
        if Instant::now() > deadline {
            return Err("no spans come through".into());
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
