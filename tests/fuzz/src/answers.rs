//! Invariants of an exporter for any answer of a server. Both are real, on loopback.

use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use standpipe::config::Proxy;
use standpipe::receiver::{Answer, Receiver};
use standpipe::{Compression, Config, Exporter, FlushOutcome, Signal, Telemetry};

/// Far more than an attempt on loopback takes.
const PATIENCE: Duration = Duration::from_secs(2);
const STATUSES: [u16; 16] = [200, 202, 204, 301, 400, 404, 405, 413, 415, 429, 500, 501, 502, 503, 504, 599];
const TYPES: [&str; 5] =
    ["application/x-protobuf", "Application/JSON; charset=utf-8", "text/html", "application/grpc", ""];

static RECEIVER: LazyLock<Receiver> = LazyLock::new(|| Receiver::start().expect("loopback has ports"));
static PROBLEMS: Mutex<Vec<String>> = Mutex::new(Vec::new());
static TELEMETRY: LazyLock<Telemetry> = LazyLock::new(|| {
    let of = |exporter: Exporter, signal| {
        exporter
            .signals([signal])
            .compression(Compression::None)
            .proxy(Proxy::Off)
            .linger(Duration::ZERO)
            .throttle(Duration::ZERO)
            .timeout(PATIENCE / 4)
            .retry_delays(Duration::from_millis(1), Duration::from_millis(1))
            .give_up_after(Duration::from_millis(5))
    };
    let config = Config::new()
        .service_name("shop")
        .exporter(of(Exporter::http(RECEIVER.endpoint()).named("http"), Signal::Traces))
        .exporter(of(Exporter::grpc(RECEIVER.grpc_endpoint()).named("grpc"), Signal::Logs))
        .on_problem(|problem| lock().push(problem.to_string()));
    Telemetry::start(config).expect("it is in order")
});

fn lock() -> std::sync::MutexGuard<'static, Vec<String>> {
    PROBLEMS.lock().expect("it is only pushed and taken")
}

/// An input is a byte that selects the form of the answer, followed by the answer's body or all of its bytes.
pub fn check(input: &[u8]) {
    let Some((choice, rest)) = input.split_first() else { return };
    let signal = if choice & 1 == 0 { Signal::Traces } else { Signal::Logs };
    let answer = match choice >> 1 & 7 {
        0 => Answer::garbage(rest),
        form => {
            let status = STATUSES[usize::from(choice >> 4)];
            Answer::status(status).header("content-type", TYPES[usize::from(form) % TYPES.len()]).body(rest)
        }
    };
    RECEIVER.script_for(signal, [answer]);
    let before = TELEMETRY.ledger().total();
    match signal {
        Signal::Traces => TELEMETRY.tracer("fuzz").span("checkout").end(),
        _ => TELEMETRY.logger("fuzz").info("paid").emit(),
    }
    let flushed = TELEMETRY.flush(PATIENCE);
    assert_eq!(flushed, FlushOutcome::Complete, "it hangs");
    // An answer that was never read, because the connection broke before, would otherwise be used for the next input.
    RECEIVER.behave();
    RECEIVER.take();

    let after = TELEMETRY.ledger().total();
    assert_eq!(after.accepted, before.accepted + 1);
    let settled = after.delivered + after.rejected + after.dropped.total();
    assert_eq!((settled, after.in_flight), (after.accepted, 0), "{after}");
    for problem in lock().drain(..) {
        assert!(!problem.contains(char::is_control), "control characters reach a problem: {problem:?}");
        assert!(problem.len() < 2_000, "{} bytes in a problem", problem.len());
    }
}
