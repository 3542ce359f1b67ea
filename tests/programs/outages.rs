//! The guide's programs with a collector that is down, disappears, refuses them, or is another server: the programs do
//! their work, end in time, and report the problem.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use standpipe::receiver::{Answer, Receiver};

use crate::example::{Ended, Program};
use crate::support::scene::{LONG, closed_endpoint};

/// Default time for which a caller waits for room.
const BLOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// Shutdown budget of the service; the other programs have `SMALL_BUDGET`.
const BUDGET: Duration = Duration::from_secs(5);
const SMALL_BUDGET: Duration = Duration::from_secs(2);
const QUEUE: u64 = 16;
/// Number of requests that fills the queue several times over. Each request makes two spans.
const REQUESTS: u64 = 24;

/// The state in which a program finds its collector.
enum Collector {
    /// Nothing listens at its address.
    Down,
    /// It requires other credentials.
    Unauthorized,
    /// Another server, without OTLP over HTTP, listens at its address.
    WrongPort,
}

impl Collector {
    const ALL: [Self; 3] = [Self::Down, Self::Unauthorized, Self::WrongPort];

    /// Calls `run` with the endpoint of a collector in this state.
    fn with<T>(&self, run: impl FnOnce(&str) -> T) -> T {
        if let Self::Down = self {
            return run(&closed_endpoint());
        }
        let receiver = Receiver::start().unwrap();
        receiver.always(Answer::status(401));
        match self {
            Self::WrongPort => run(&format!("http://{}", receiver.grpc_address())),
            _ => run(&receiver.endpoint()),
        }
    }

    /// Returns a part of the text that the program's problem hook prints.
    fn complaint(&self) -> &'static str {
        match self {
            Self::Down => "onnection refused",
            Self::Unauthorized => "401 Unauthorized",
            Self::WrongPort => "this is the gRPC port",
        }
    }
}

/// The web service of the guide.
struct Service {
    program: Program,
    address: String,
}

impl Service {
    /// Starts the service with a queue for few spans, and this behavior when the queue is full.
    fn start(endpoint: &str, on_queue_full: &str) -> Self {
        let queue = QUEUE.to_string();
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
            ("OTEL_BSP_MAX_QUEUE_SIZE", &queue),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", &queue),
            ("OTEL_BSP_ON_QUEUE_FULL", on_queue_full),
        ];
        let mut program = Program::start("service", &["127.0.0.1:0"], &variables);
        let greeting = program.next_line().expect("it says where it listens");
        let address = greeting.strip_prefix("listening on http://").expect(&greeting).to_owned();
        Self { program, address }
    }

    /// Sends a request. Returns the time until the answer.
    fn ask(&self) -> Duration {
        let begun = Instant::now();
        let mut connection = TcpStream::connect(&self.address).unwrap();
        connection.set_read_timeout(Some(LONG)).unwrap();
        connection.write_all(b"GET /tea HTTP/1.1\r\nhost: shop\r\n\r\n").unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\n4\n"), "{answer}");
        begun.elapsed()
    }

    /// Sends many requests. Returns the times until their answers.
    fn ask_often(&self) -> Vec<Duration> {
        (0..REQUESTS).map(|_| self.ask()).collect()
    }
}

/// Asserts that at most one request has waited, and for less than two block timeouts.
fn one_waited_at_most(answered: &[Duration]) {
    let waited: Vec<_> = answered.iter().filter(|took| **took >= BLOCK_TIMEOUT / 2).collect();
    assert!(waited.len() <= 1 && waited.iter().all(|took| **took < 2 * BLOCK_TIMEOUT), "{answered:?}");
}

/// Asserts that the program ended successfully, and in less than `limit`.
fn ends_within(ended: &Ended, limit: Duration) {
    println!("{:?}: {:?}\n{}", ended.took, ended.lines, ended.errors);
    assert!(ended.status.success(), "{ended:?}");
    assert!(ended.took < limit, "{ended:?}");
}

#[test]
fn a_service_that_blocks_answers_every_request_though_its_collector_is_down() {
    let (answered, ended) = Collector::Down.with(|endpoint| {
        let service = Service::start(endpoint, "BLOCK");
        (service.ask_often(), service.program.end())
    });
    one_waited_at_most(&answered);
    ends_within(&ended, BUDGET);
    assert!(ended.errors.contains("callers are waiting for room in the queue"), "{ended:?}");
    assert!(ended.errors.contains("onnection refused"), "{ended:?}");
    let lost = 2 * REQUESTS - QUEUE;
    let ledger = format!("16 accepted, 0 delivered, 16 dropped: shutdown, {lost} not enqueued: queue full");
    assert!(ended.lines[0].ends_with(&ledger), "{ended:?}");
}

#[test]
fn a_service_of_the_environment_never_waits_whatever_its_collector_does() {
    for collector in Collector::ALL {
        let (answered, ended) = collector.with(|endpoint| {
            let service = Service::start(endpoint, "DROP");
            (service.ask_often(), service.program.end())
        });
        assert!(answered.iter().all(|took| *took < BLOCK_TIMEOUT / 2), "{answered:?}");
        ends_within(&ended, BUDGET);
        assert!(ended.errors.contains(collector.complaint()), "{ended:?}");
    }
}

#[test]
fn a_service_whose_collector_goes_away_waits_once_and_ends_within_its_budget() {
    let receiver = Receiver::start().unwrap();
    let service = Service::start(&receiver.endpoint(), "BLOCK");
    for _ in 0..4 {
        service.ask();
    }
    assert!(receiver.wait_for_spans(8, LONG));
    drop(receiver);
    let answered = service.ask_often();
    let ended = service.program.end();
    one_waited_at_most(&answered);
    // The collector was reached before, so the shutdown may use its whole budget.
    ends_within(&ended, 3 * BUDGET);
    assert!(ended.lines[0].contains(" 8 delivered, "), "{ended:?}");
}

#[test]
fn a_tool_does_its_work_and_ends_at_once_whatever_its_collector_does() {
    for collector in Collector::ALL {
        let ended = collector.with(|endpoint| {
            let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)];
            Program::start("tool", &["Cargo.toml"], &variables).end()
        });
        ends_within(&ended, SMALL_BUDGET);
        assert!(ended.lines[0].ends_with(" Cargo.toml"), "{ended:?}");
    }
}

#[test]
fn a_migrated_program_ends_at_once_whatever_its_collector_does() {
    for collector in Collector::ALL {
        let ended = collector.with(|endpoint| {
            Program::start("migrated", &[], &[("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)]).end()
        });
        ends_within(&ended, SMALL_BUDGET);
        assert!(ended.errors.contains(collector.complaint()), "{ended:?}");
        assert!(ended.lines[0].starts_with("otlp traces: 3 accepted, 0 delivered, 3 dropped"), "{ended:?}");
    }
}

#[test]
fn a_tool_without_variables_does_its_work_and_exports_nothing() {
    let ended = Program::start("tool", &["Cargo.toml", "no such file"], &[]).end();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    // An exporter would report that nothing listens.
    assert!(ended.errors.starts_with("no such file: ") && ended.errors.lines().count() == 1, "{ended:?}");
}

#[test]
fn a_tool_is_a_part_of_the_trace_of_its_caller() {
    let receiver = Receiver::start().unwrap();
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*receiver.endpoint()), ("TRACEPARENT", traceparent)];
    let ended = Program::start("tool", &["Cargo.toml", "no such file"], &variables).end();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let trace = receiver.trace("4bf92f3577b34da6a3ce929d0e0e4736".parse().unwrap());
    trace.assert_tree("lines\n  read\n  read");
}
