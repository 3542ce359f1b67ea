//! The console exporter: prints complete lines, and a full pipe does not delay a shutdown.

use std::io::{BufRead, BufReader, Read};
use std::process::{self, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use standpipe::config::{Proxy, SettingSource};
use standpipe::{Config, Exporter, Signal, Telemetry, Transport};

use crate::support::process::{command, task};
use crate::support::scene::{Problems, emit};
use crate::support::size_within;

const BUDGET: Duration = Duration::from_millis(300);
/// Extra time on a busy machine.
const SLACK: Duration = Duration::from_secs(10);
/// Maximum time for an expected event.
const PATIENCE: Duration = Duration::from_secs(60);

fn start(exporter: Exporter) -> Telemetry {
    Telemetry::start(Config::new().service_name("shop").exporter(exporter)).unwrap()
}

/// Waits for the end of a child.
fn ended(mut child: process::Child) -> ExitStatus {
    let (done, status) = mpsc::channel();
    thread::spawn(move || done.send(child.wait()));
    status.recv_timeout(PATIENCE).expect("the child is not done").unwrap()
}

/// Exits the child process without returning to the test harness, which would print.
fn leave(went_well: bool) -> ! {
    process::exit(i32::from(!went_well))
}

#[test]
fn each_request_is_a_line_of_json_on_standard_output() {
    if task().is_some() {
        // Ends the line that the harness has begun.
        println!();
        let telemetry = start(Exporter::console());
        telemetry.tracer("shop").span("checkout\n").set("order.id", 4711);
        telemetry.logger("shop").info("paid").emit();
        telemetry.meter("shop").counter("orders").add(1, &[("shop.country", "SE")]);
        let ledger = telemetry.shutdown(PATIENCE);
        assert_eq!((ledger.total().delivered, ledger.lost()), (3, 0), "{ledger}");
        return;
    }
    let child = command("each_request_is_a_line_of_json_on_standard_output", "print").output().unwrap();
    assert!(child.status.success(), "{child:?}");
    let out = String::from_utf8(child.stdout).unwrap();
    let printed: Vec<Json> = out
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(printed.len(), 3, "{out}");
    let record = |resources: &str, scopes: &str, records: &str| {
        let line = printed.iter().find_map(|line| line.get(resources)).expect(resources);
        let resource = line[0]["resource"]["attributes"].as_array().unwrap();
        let service = resource.iter().find(|attribute| attribute["key"] == "service.name").unwrap();
        assert_eq!(service["value"]["stringValue"], "shop");
        assert_eq!(line[0][scopes][0]["scope"]["name"], "shop");
        line[0][scopes][0][records][0].clone()
    };
    let span = record("resourceSpans", "scopeSpans", "spans");
    assert_eq!((&span["name"], &span["kind"]), (&"checkout\n".into(), &1.into()));
    assert_eq!(span["attributes"][0]["value"]["intValue"], "4711");
    assert_eq!(span["traceId"].as_str().map(str::len), Some(32));
    assert_eq!(record("resourceLogs", "scopeLogs", "logRecords")["body"]["stringValue"], "paid");
    let counter = record("resourceMetrics", "scopeMetrics", "metrics");
    assert_eq!(counter["sum"]["dataPoints"][0]["asInt"], "1");
}

#[test]
fn lines_of_several_exporters_and_of_the_program_are_not_mixed() {
    const SPANS: u64 = 500;
    if task().is_some() {
        println!();
        let exporter = || Exporter::console().throttle(Duration::ZERO).batch_records(7);
        let config = Config::new().exporter(exporter().named("a")).exporter(exporter().named("b"));
        let telemetry = Telemetry::start(config).unwrap();
        let tracer = telemetry.tracer("shop");
        for number in 0..SPANS {
            tracer.span("work").set("number", number as i64);
            println!("the program says {number}");
        }
        assert_eq!(telemetry.shutdown(PATIENCE).total().delivered, 2 * SPANS);
        return;
    }
    let child =
        command("lines_of_several_exporters_and_of_the_program_are_not_mixed", "print").output().unwrap();
    assert!(child.status.success(), "{child:?}");
    let (mut spans, mut said) = (0, 0);
    for line in String::from_utf8(child.stdout).unwrap().lines() {
        if line.starts_with("the program says ") {
            said += 1;
        } else if line.starts_with('{') {
            let line: Json = serde_json::from_str(line).unwrap();
            spans += line["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap().len();
        }
    }
    assert_eq!((spans as u64, said), (2 * SPANS, SPANS));
}

#[test]
fn a_pipe_without_a_reader_costs_no_more_than_the_budget() {
    let spans = u64::from(size_within(5000..=20_000));
    if task().is_some() {
        let telemetry = start(Exporter::console());
        // Much more than the capacity of a pipe.
        emit(&telemetry.tracer("shop"), spans);
        // The test does not read from the pipe, so the pipe fills up and the worker blocks. Only the budget ends the
        // wait.
        let begun = Instant::now();
        let ledger = telemetry.shutdown(BUDGET);
        let took = begun.elapsed();
        eprintln!("{took:?} for a budget of {BUDGET:?}: {ledger}");
        let counts = ledger.total();
        let is_in_time = took >= BUDGET && took <= BUDGET + SLACK;
        let is_counted = counts.accepted == spans && counts.delivered + counts.dropped.shutdown == spans;
        drop(telemetry);
        leave(is_in_time && is_counted && counts.dropped.shutdown > 0);
    }
    let mut child = command("a_pipe_without_a_reader_costs_no_more_than_the_budget", "print");
    let mut child = child.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let unread = child.stdout.take().unwrap();
    assert!(ended(child).success());
    drop(unread);
}

#[test]
fn what_nobody_can_read_any_more_is_counted_as_refused() {
    const SPANS: u64 = 10;
    if task().is_some() {
        // Waits until the reader has closed the pipe.
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        let problems = Problems::default();
        let telemetry = problems.start(Exporter::console());
        emit(&telemetry.tracer("shop"), SPANS);
        let counts = telemetry.shutdown(PATIENCE).total();
        let reported: Vec<_> = problems.reported().iter().map(ToString::to_string).collect();
        eprintln!("{counts}; {reported:?}");
        // Windows has another message for a closed pipe.
        let cause = if cfg!(windows) { "" } else { "broken pipe" };
        let cause = format!("console: write to stdout: {cause}");
        let is_told = reported.iter().any(|problem| problem.contains(&cause));
        leave(counts.accepted == SPANS && counts.dropped.refused == SPANS && is_told);
    }
    let mut child = command("what_nobody_can_read_any_more_is_counted_as_refused", "print");
    let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // The pipe is closed only after the harness has printed its first line.
    let mut begun = BufReader::new(child.stdout.take().unwrap());
    begun.read_until(b'.', &mut Vec::new()).unwrap();
    drop(begun);
    drop(child.stdin.take());
    assert!(ended(child).success());
}

#[test]
fn only_what_matters_to_a_line_is_shown() {
    let exporter =
        Exporter::console().header("authorization", "hunter2").signals([Signal::Traces, Signal::Metrics]);
    let endpoints = vec![(Signal::Traces, "stdout".to_owned()), (Signal::Metrics, "stdout".to_owned())];
    assert_eq!(exporter.endpoints(), endpoints);
    let settings = exporter.effective();
    assert_eq!((settings[0].key, settings[0].value.as_str()), ("transport", Transport::Console.name()));
    assert_eq!(settings[0].source, SettingSource::Code);
    let keys: Vec<&str> = settings.iter().map(|setting| setting.key).collect();
    let expected = "transport signals interval temporality histograms cardinality-limit throttle linger lossy block-timeout \
                    queue-records queue-bytes batch-records batch-bytes";
    assert_eq!(keys.join(" "), expected);
    let [summary] = &Config::new().exporter(exporter.proxy(Proxy::Off)).summaries()[..] else { panic!() };
    assert_eq!((summary.id.as_str(), summary.transport, summary.tls), ("console", "console", false));
    assert_eq!(
        (&summary.endpoints["traces"], &summary.endpoints["metrics"]),
        (&"stdout".into(), &"stdout".into())
    );
    assert!(summary.headers.is_empty());
}

#[test]
fn a_file_can_ask_for_it() {
    let config = Config::from_toml_str("[tracer.otel]\ntype = \"otel\"\ntransport = \"console\"\n").unwrap();
    assert_eq!(config.exporters()[0].endpoints(), [(Signal::Traces, "stdout".to_owned())]);
}
