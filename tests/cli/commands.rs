//! The `standpipe` command as a user meets it: what it prints, where, and its exit code.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value::AsInt;
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics,
};
use prost::Message;
use standpipe::config::Proxy;
use standpipe::{Config, Exporter, Telemetry};

use crate::support::command::{finish, run, standpipe, stderr, stdout};

mod memory;
mod receive;
mod view;

const PATIENCE: Duration = Duration::from_secs(20);
/// Windows flag that starts a process in a new group, so that a console event can be sent to it and not to the test.
#[cfg(windows)]
const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;

#[test]
fn the_demo_delivers_everything_and_says_so() {
    delivers_everything(&["demo"], "one was answered 503 and sent again");
}

#[test]
fn the_demo_delivers_everything_over_grpc_as_well() {
    delivers_everything(&["demo", "--grpc"], "one was answered UNAVAILABLE and sent again");
}

#[track_caller]
fn delivers_everything(arguments: &[&str], retried: &str) {
    let output = run(arguments);
    let text = stdout(&output);
    assert!(text.contains(retried), "{text}");
    assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));

    let total = text.lines().find(|line| line.starts_with("total ")).expect("the ledger has a total");
    let counts: Vec<u64> =
        total.split_whitespace().skip(1).map(|word| word.parse().expect("a count")).collect();
    let [accepted, delivered, superseded, lost, in_flight] = counts[..] else { panic!("{total}") };
    assert!(accepted > 50, "{total}");
    assert_eq!((delivered + superseded, lost, in_flight), (accepted, 0, 0), "{total}");
    assert!(text.contains(&format!("✓ nothing lost: {accepted} accepted = {delivered} delivered")), "{text}");

    let received = text.lines().find_map(|line| line.strip_prefix("✓ received: ")).expect("a count");
    let words = received.replace(',', "");
    let records: u64 = words.split_whitespace().filter_map(|word| word.parse::<u64>().ok()).sum();
    assert_eq!(records, delivered, "{received}");
    for what in ["26 spans, ", "8 log records, ", " data points"] {
        assert!(received.contains(what), "{received}");
    }
}

#[test]
fn the_demo_shows_services_errors_events_and_links() {
    let text = stdout(&run(&["demo"]));
    assert_eq!(text.lines().filter(|line| line.starts_with("trace ")).count(), 3, "{text}");
    for expected in [
        "POST /checkout ",
        "storefront",
        "warehouse",
        "payments",
        "✗ card expired",
        "◆ exception",
        "◆ retry",
        "↗ publish order.paid",
    ] {
        assert!(text.contains(expected), "no {expected:?} in\n{text}");
    }
}

#[test]
fn the_demo_continues_the_trace_it_was_started_in() {
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let parent = |flags: &str| format!("00-{trace}-00f067aa0ba902b7-{flags}");
    let output = finish(standpipe(&["demo"]).env("TRACEPARENT", parent("01")).env("TRACESTATE", "a=1"));
    let text = stdout(&output);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{text}");
    assert!(text.contains(&format!("the shop continues the trace {trace}\n")), "{text}");
    let traces: Vec<&str> = text.lines().filter(|line| line.starts_with("trace ")).collect();
    assert_eq!(traces.len(), 1, "{text}");
    assert!(text.contains("POST /checkout ") && text.contains("process order.paid "), "{text}");

    let output = finish(standpipe(&["demo"]).env("TRACEPARENT", parent("00")));
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert!(stdout(&output).contains("not recorded, so there are no spans\n"), "{}", stdout(&output));
    assert!(stdout(&output).contains("✓ received: 0 spans"), "{}", stdout(&output));
}

#[test]
fn the_demo_begins_its_own_traces_if_it_cannot_understand_its_caller() {
    let output = finish(standpipe(&["demo"]).env("TRACEPARENT", "hello"));
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stderr(&output), "standpipe: TRACEPARENT: too short; the variable is ignored\n");
    assert_eq!(stdout(&output).lines().filter(|line| line.starts_with("trace ")).count(), 3);
}

#[test]
fn the_demo_shows_logs_in_their_spans() {
    let text = stdout(&run(&["demo"]));
    let lines: Vec<&str> = text.lines().collect();
    let line_with = |part: &str| {
        let found = lines.iter().rposition(|line| line.contains(part));
        found.unwrap_or_else(|| panic!("no {part:?} in\n{text}"))
    };
    let declined = line_with("ERROR  card declined  at ");
    let exception = line_with("◆ exception  at ");
    assert_eq!((declined, lines[declined].find("ERROR")), (exception + 1, lines[exception].find('◆')));
    assert!(lines[declined].ends_with("reason=\"card expired\""), "{text}");
    line_with("WARN   running low  at ");
    line_with("INFO   order.paid  thank you  at ");
    assert!(line_with("open for business") > line_with("logs outside of these spans"), "{text}");
}

#[test]
fn the_demo_shows_a_table_of_metrics() {
    let text = stdout(&run(&["demo"]));
    let row = |parts: &[&str]| {
        let found = text.lines().find(|line| parts.iter().all(|part| line.contains(part)));
        found.unwrap_or_else(|| panic!("no row with {parts:?} in\n{text}")).to_owned()
    };
    let bars = |row: &str| row.chars().filter(|c| ('▁'..='█').contains(c)).count();
    // These parts do not depend on the speed of the machine.
    row(&["storefront", "revenue", "49.5"]);
    assert!(bars(&row(&["warehouse", "stock.left", "8"])) > 2, "{text}");
    assert!(bars(&row(&["storefront", "checkout.time", "mean "])) > 6, "{text}");
    for part in ["outcome=declined", "page=/tea", "up-down", "gauge", "exponential", "n=2, "] {
        row(&[part]);
    }
}

#[test]
fn the_drawing_is_as_wide_as_the_terminal() {
    for columns in ["60", "80", "140"] {
        let output = finish(standpipe(&["demo"]).env("COLUMNS", columns));
        let widest = stdout(&output).lines().map(|line| line.chars().count()).max();
        assert_eq!(widest, columns.parse().ok(), "{}", stdout(&output));
    }
}

#[test]
fn colors_are_only_for_those_who_want_them() {
    assert!(!stdout(&run(&["demo"])).contains('\x1b'), "standard output is no terminal");
    assert!(stdout(&run(&["demo", "--color", "always"])).contains("\x1b["));
    let refused = finish(standpipe(&["demo"]).env("NO_COLOR", "1"));
    assert!(!stdout(&refused).contains('\x1b'));
}

#[test]
fn a_locale_without_utf_8_gets_ascii() {
    let output = finish(standpipe(&["demo"]).env("LC_ALL", "C"));
    assert_eq!(output.status.code(), Some(0));
    // On Windows, the locale does not limit the characters.
    assert_eq!(stdout(&output).is_ascii(), cfg!(not(windows)));
    assert!(stdout(&run(&["demo", "--ascii"])).is_ascii());
}

#[test]
fn receive_prints_what_is_sent_to_it() {
    let mut listening = Listening::start();
    send(&listening.endpoint, "POST /checkout");
    let line = listening.line_with("POST /checkout");
    assert!(line.contains("shop") && line.contains("internal") && line.contains("order.id=4711"), "{line}");
}

#[test]
fn receive_lets_no_span_move_the_cursor() {
    let mut listening = Listening::start();
    send(&listening.endpoint, "\x1b[2J\r\nfake");
    let line = listening.line_with("fake");
    assert!(line.contains("\\u{1b}[2J\\r\\nfake"), "{line:?}");
    assert!(!line.chars().any(char::is_control), "{line:?}");
}

#[test]
fn receive_prints_logs_and_metrics_too() {
    let mut listening = Listening::start();
    let log = LogRecord { severity_number: 13, event_name: "card.declined".to_owned(), ..Default::default() };
    let scope_logs = vec![ScopeLogs { log_records: vec![log; 3], ..Default::default() }];
    let resource_logs = vec![ResourceLogs { scope_logs, ..Default::default() }];
    post(&listening.endpoint, "/v1/logs", &ExportLogsServiceRequest { resource_logs }.encode_to_vec());
    listening.line_with("3 log records");
    let line = listening.line_with("card.declined");
    assert!(line.contains("WARN"), "{line}");

    let point = NumberDataPoint { value: Some(AsInt(4711)), ..Default::default() };
    let data = Some(Data::Gauge(Gauge { data_points: vec![point; 2] }));
    let metric =
        Metric { name: "carts\x1b[2J".to_owned(), unit: "By".to_owned(), data, ..Default::default() };
    let scope_metrics = vec![ScopeMetrics { metrics: vec![metric], ..Default::default() }];
    let resource_metrics = vec![ResourceMetrics { scope_metrics, ..Default::default() }];
    post(
        &listening.endpoint,
        "/v1/metrics",
        &ExportMetricsServiceRequest { resource_metrics }.encode_to_vec(),
    );
    listening.line_with("2 data points in 1 metric ");
    let line = listening.line_with("carts");
    assert!(line.contains("gauge") && line.contains("4711 By"), "{line}");
    assert!(!line.chars().any(char::is_control), "{line:?}");
}

#[test]
fn receive_takes_grpc_too_and_says_what_came_over_it() {
    let mut listening = Listening::start();
    let log = LogRecord { event_name: "card.declined".to_owned(), ..Default::default() };
    let scope_logs = vec![ScopeLogs { log_records: vec![log], ..Default::default() }];
    let resource_logs = vec![ResourceLogs { scope_logs, ..Default::default() }];
    let message = ExportLogsServiceRequest { resource_logs }.encode_to_vec();
    post(&listening.endpoint, "/v1/logs", &message);
    listening.line_with("1 log record over HTTP");
    let answer = call(&listening.grpc_endpoint, &message);
    assert!(answer.contains("grpc-status"), "{answer:?}");
    listening.line_with("1 log record over gRPC");
    listening.line_with("card.declined");
}

#[test]
fn receive_says_which_port_is_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("its address").to_string();
    for (arguments, protocol, option) in [
        (["--address", &address, "--grpc-address", "127.0.0.1:0"], "HTTP", "--address"),
        (["--address", "127.0.0.1:0", "--grpc-address", &address], "gRPC", "--grpc-address"),
    ] {
        let output = run(&[&["receive"], &arguments[..]].concat());
        assert_eq!(output.status.code(), Some(1));
        let expected = format!(
            "standpipe: cannot listen on {address} ({protocol}): address already in use; is a collector running? \
             try {option} 127.0.0.1:0\n"
        );
        assert_eq!(stderr(&output), expected);
    }
}

#[test]
fn receive_ends_quietly_when_nobody_reads_any_more() {
    let mut listening = Listening::start();
    listening.stop_reading();
    // Sends on another thread: if the command ends before it answers, the sender retries, and the test must not wait
    // for that.
    let endpoint = listening.endpoint.clone();
    thread::spawn(move || send(&endpoint, "unread"));
    let complaints = listening.complaints.recv_timeout(PATIENCE).expect("it ends");
    assert_eq!(complaints, "");
    assert!(listening.process.wait().expect("it has ended").success());
}

#[test]
fn other_commands_end_quietly_too_when_nobody_reads() {
    for arguments in [&["demo"][..], &["--help"]] {
        let mut command = standpipe(arguments);
        let mut process =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
        drop(process.stdout.take());
        let output = process.wait_with_output().expect("it ends");
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn usage_mistakes_go_to_standard_error_with_code_2() {
    let long = "x".repeat(100_000);
    let cases: [(&[&str], &str); 37] = [
        (&[], "requires a subcommand"),
        (&["recieve"], "a similar subcommand exists: 'receive'"),
        (&["help", "chekc"], "unrecognized subcommand 'chekc'"),
        (&[&long], "unrecognized subcommand"),
        (&["demo", "--colour=never"], "a similar argument exists: '--color'"),
        (&["demo", "-x"], "unexpected argument '-x'"),
        (&["demo", "now"], "unexpected argument 'now'"),
        (&["demo", "--env"], "unexpected argument '--env'"),
        (&["demo", "--color", "pink"], "[possible values: auto, always, never]"),
        (&["check"], "<FILE>"),
        (&["check", ""], "a value is required for '[FILE]'"),
        (&["check", "a.toml", "--env"], "'[FILE]' cannot be used with '--env'"),
        (&["check", "a", "--ofline"], "a similar argument exists: '--offline'"),
        (&["check", "a", "b"], "unexpected argument 'b'"),
        (
            &["init", "stalwert"],
            "write one of stalwart, tracetest, qualitytrace, otel, env\ntry: standpipe init --help",
        ),
        (&["init", "env", "a", "b"], "unexpected argument 'b'"),
        (&["exec", "--naem", "a", "b"], "a similar argument exists: '--name'"),
        (&["exec", "--tp-disable-inject", "b"], "use OTEL_PROPAGATORS=none"),
        (&["span", "--otlp-blocking"], "use no option: each command waits until its records are delivered"),
        (&["exec", "--tp-carrier", "f", "b"], "tip: instead of --tp-carrier of otel-cli, use --parent FILE"),
        (
            &["span", "a", "--attrs", "k=v"],
            "instead of --attrs of otel-cli, use --attr KEY=VALUE, once for each",
        ),
        (&["span", "a", "--client-key-file", "f"], "--client-certificate-file <FILE>"),
        (&["exec", "--command-timeout", "5d", "b"], "write a time such as 100ms, 1.5s or 5m"),
        (&["exec", "--attr", "secret", "b"], "invalid value '***' for '--attr <KEY=VALUE>': write KEY=VALUE"),
        (
            &["exec", "--endpoint", "foo:bar", "b"],
            "\"***\" has an invalid port; write 1 to 65535, usually 4318",
        ),
        (&["log", "--time", "later", "a"], "write 2026-11-17T14:00:00Z, seconds since 1970, -5s, or now"),
        (&["metric", "sum", "a", "1"], "[possible values: counter, gauge, histogram, -]"),
        (&["spool"], "<DIR>"),
        (&["drain", "a"], "--endpoint <URL>"),
        (&["drain", "a", "--to-stdout", "--endpoint", "http://b"], "cannot be used with"),
        (&["drain", "a", "--to-stdout", "--grpc"], "'--to-stdout' cannot be used with '--grpc'"),
        (
            &["drain", "a", "--header", "secret"],
            "invalid value '***' for '--header <NAME=VALUE>': write NAME=VALUE",
        ),
        (&["drain", "a", "--timeout", "5d"], "write a time such as 100ms, 1.5s or 5m"),
        (&["show", "a", "--flat", "--json"], "cannot be used with '--json'"),
        (&["receive", "--service="], "a value is required for '--service <NAME>'"),
        (&["receive", "--trace", "xyz"], "write up to 32 hexadecimal digits, for example 36c3ef3e"),
        (&["receive", "--address", "4318"], "write an IP address and a port, for example 127.0.0.1:4318"),
    ];
    for (arguments, expected) in cases {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(stdout(&output), "", "{arguments:?}");
        let message = stderr(&output);
        assert!(message.starts_with("standpipe: ") && message.contains(expected), "{arguments:?}: {message}");
        assert!(!message.contains("secret"), "{message}");
    }
}

#[test]
fn every_help_has_examples_and_exit_codes_and_fits_a_terminal() {
    for command in [
        "demo",
        "receive",
        "show",
        "check",
        "init",
        "exec",
        "span",
        "log",
        "metric",
        "spool",
        "drain",
        "completions",
        "man",
    ] {
        let help = stdout(&run(&[command, "--help"]));
        assert!(help.contains(&format!("\nUsage: standpipe {command}")), "{help}");
        assert!(help.contains("\nExamples:\n  ") && help.contains("\nExit code: "), "{help}");
        assert!(help.is_ascii() && help.lines().all(|line| line.len() <= 100), "{help}");
        assert_eq!(stdout(&run(&["help", command])), help);
    }
}

#[test]
fn of_an_option_that_is_repeated_the_last_value_counts() {
    let output = run(&["init", "--stdout", "--color", "always", "--color", "never", "--stdout"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn help_and_version_go_to_standard_output() {
    for arguments in [&["--help"][..], &["help", "receive"], &["check", "--help"], &["init", "-h"]] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(stdout(&output).contains("Usage: standpipe"), "{}", stdout(&output));
    }
    assert_eq!(stdout(&run(&["--version"])), concat!("standpipe ", env!("CARGO_PKG_VERSION"), "\n"));
}

/// Sends one span through the library.
fn send(endpoint: &str, name: &str) {
    let exporter = Exporter::http(endpoint).proxy(Proxy::Off);
    let config = Config::new().service_name("shop").exporter(exporter);
    let telemetry = Telemetry::start(config).expect("the endpoint is right");
    telemetry.tracer("tests").span(name).set("order.id", 4711);
    telemetry.shutdown(PATIENCE);
}

/// Sends a raw body.
fn post(endpoint: &str, path: &str, body: &[u8]) {
    let authority = endpoint.strip_prefix("http://").expect("it is plain HTTP");
    let mut socket = TcpStream::connect(authority).expect("someone listens");
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {authority}\r\nContent-Type: application/x-protobuf\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(&[head.as_bytes(), body].concat()).expect("it is read");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("it is answered");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

/// Sends log records over gRPC with hand-written frames. Returns the answer.
fn call(endpoint: &str, message: &[u8]) -> String {
    let frame = |kind: u8, flags: u8, stream: u8, payload: &[u8]| {
        let [_, length @ ..] = u32::try_from(payload.len()).expect("it is small").to_be_bytes();
        [&length[..], &[kind, flags, 0, 0, 0, stream], payload].concat()
    };
    let mut block = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/opentelemetry.proto.collector.logs.v1.LogsService/Export"),
        ("content-type", "application/grpc"),
    ] {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).expect("it is short"));
            block.extend_from_slice(text.as_bytes());
        }
    }
    let length = u32::try_from(message.len()).expect("it is small").to_be_bytes();
    let message = [&[0], &length[..], message].concat();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let frames = [frame(4, 0, 0, &[]), frame(1, 4, 1, &block), frame(0, 1, 1, &message)].concat();

    let address = endpoint.strip_prefix("http://").expect("a URL");
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket.write_all(&[preface, &frames[..]].concat()).expect("it is read");
    socket.shutdown(std::net::Shutdown::Write).expect("it is connected");
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).expect("it is answered");
    String::from_utf8_lossy(&answer).into_owned()
}

/// Sends a signal. Returns false if the system cannot send signals, so that the test ends early.
#[cfg(unix)]
fn signal(process: &Child, name: &str) -> bool {
    let kill =
        std::process::Command::new("kill").args([format!("-{name}"), process.id().to_string()]).status();
    assert!(kill.expect("there is a kill").success());
    true
}

/// Sends Ctrl-Break to the process group that the process leads. It is the only console event of Windows that can be
/// sent to one group. Wine does not support groups.
#[cfg(windows)]
#[allow(unsafe_code, reason = "std does not send the events of a console")]
fn signal(process: &Child, _: &str) -> bool {
    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn GenerateConsoleCtrlEvent(event: u32, group: u32) -> i32;
    }
    const CTRL_BREAK_EVENT: u32 = 1;
    // SAFETY: takes two numbers.
    let sent = unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, process.id()) };
    if sent == 0 {
        let error = std::io::Error::last_os_error();
        crate::support::skip(format_args!("there is no console whose events could be sent: {error}"));
    }
    sent != 0
}

/// `standpipe receive` on free ports, stopped at the end of the test.
struct Listening {
    process: Child,
    endpoint: String,
    grpc_endpoint: String,
    lines: Option<Receiver<String>>,
    /// Standard error, complete once the process has ended.
    complaints: Receiver<String>,
    unread: Option<BufReader<ChildStdout>>,
}

impl Listening {
    /// Starts the process. Returns it and its output.
    fn spawn(options: &[&str]) -> (Child, BufReader<ChildStdout>) {
        let mut command = standpipe(&[&["receive"], options].concat());
        #[cfg(windows)]
        std::os::windows::process::CommandExt::creation_flags(&mut command, CREATE_NEW_PROCESS_GROUP);
        #[cfg(unix)]
        crate::exec::heed_signals(&mut command);
        let mut process =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
        let output = BufReader::new(process.stdout.take().expect("it is piped"));
        (process, output)
    }

    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(options: &[&str]) -> Self {
        let (mut process, mut unread) = Self::spawn(&[&["--address", "127.0.0.1:0"], options].concat());
        let [endpoint, grpc_endpoint] = ["HTTP", "gRPC"].map(|protocol| {
            let mut greeting = String::new();
            unread.read_line(&mut greeting).expect("it greets");
            assert!(greeting.contains(&format!("OTLP over {protocol}")), "{greeting}");
            let endpoint = greeting.split_whitespace().find(|word| word.starts_with("http://"));
            endpoint.expect("the greeting names the endpoint").to_owned()
        });

        let mut errors = process.stderr.take().expect("it is piped");
        let (said, complaints) = mpsc::channel();
        thread::spawn(move || {
            let mut text = String::new();
            let _ = errors.read_to_string(&mut text);
            let _ = said.send(text);
        });
        Self { process, endpoint, grpc_endpoint, lines: None, complaints, unread: Some(unread) }
    }

    /// Waits for the next line that contains `part`.
    fn line_with(&mut self, part: &str) -> String {
        if let Some(unread) = self.unread.take() {
            let (read, lines) = mpsc::channel();
            thread::spawn(move || unread.lines().map_while(Result::ok).try_for_each(|line| read.send(line)));
            self.lines = Some(lines);
        }
        let lines = self.lines.as_ref().expect("it is being read");
        loop {
            let line = lines.recv_timeout(PATIENCE).expect("a line comes in time");
            if line.contains(part) {
                return line;
            }
        }
    }

    #[must_use]
    fn interrupt(&self, name: &str) -> bool {
        signal(&self.process, name)
    }

    fn stop_reading(&mut self) {
        self.unread = None;
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
