//! `standpipe span`, `log` and `metric`: the records arrive, and the exit code shows whether they did.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use opentelemetry_proto::tonic::metrics::v1::AggregationTemporality;
use standpipe::receiver::proto::Data;
use standpipe::receiver::{Answer, Receiver};
use standpipe::{Severity, SpanKind, Status};

use crate::support::command::{finish, standpipe, stderr, stdout};
use crate::support::scene::closed_endpoint;
use crate::support::scratch::Scratch;
#[cfg(unix)]
use crate::support::{size_within, step_of};

const PATIENCE: Duration = Duration::from_secs(30);
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn sending(receiver: &Receiver, arguments: &[&str]) -> Command {
    let mut command = standpipe(arguments);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.endpoint());
    command
}

/// Runs the command. Asserts that it succeeds and prints nothing.
fn send(receiver: &Receiver, arguments: &[&str]) {
    let output = finish(&mut sending(receiver, arguments));
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{arguments:?}");
    assert_eq!(stdout(&output), "", "{arguments:?}");
}

fn send_lines(receiver: &Receiver, arguments: &[&str], lines: impl AsRef<[u8]>) -> Output {
    let mut command = sending(receiver, arguments);
    let mut process =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    process.stdin.take().unwrap().write_all(lines.as_ref()).unwrap();
    process.wait_with_output().unwrap()
}

fn at(seconds: f64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds)
}

#[test]
fn a_span_has_what_its_options_say() {
    let receiver = Receiver::start().unwrap();
    let mut command = sending(
        &receiver,
        &[
            "span",
            "import",
            "--start",
            "1700000000",
            "--end",
            "1700000002.5",
            "--kind",
            "server",
            "-a",
            "rows:=42",
            "--status",
            "error",
            "--message",
            "disk full",
            "--event",
            "half@1700000001",
            "--event",
            "a@b",
        ],
    );
    let output = finish(command.env("TRACEPARENT", PARENT).env("TRACESTATE", "a=1"));
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    let span = &receiver.spans()[0];
    assert_eq!((span.name(), span.kind()), ("import", SpanKind::Server));
    assert_eq!(span.span.start_time_unix_nano, 1_700_000_000_000_000_000);
    assert_eq!(span.span.end_time_unix_nano, 1_700_000_002_500_000_000);
    assert_eq!(span.attribute("rows").as_i64(), Some(42));
    assert_eq!(span.status(), Some(Status::Error("disk full")));
    let names: Vec<&str> = span.events().iter().map(|event| event.name()).collect();
    assert_eq!(names, ["half", "a@b"]);
    assert_eq!(span.span.events[0].time_unix_nano, 1_700_000_001_000_000_000);
    assert_eq!(span.parent_id().map(|id| id.to_string()).as_deref(), Some("00f067aa0ba902b7"));
    assert_eq!(span.span.trace_state, "a=1");
}

#[test]
fn an_event_without_a_time_is_within_its_span() {
    let receiver = Receiver::start().unwrap();
    let scratch = Scratch::new();
    let file = scratch.path().join("span");
    let file = file.to_str().unwrap();
    send(&receiver, &["span", "a", "--event", "e"]);
    send_lines(&receiver, &["span", "-", "--event", "e"], "{\"name\": \"b\"}\n");
    send(&receiver, &["span", "start", "--file", file, "c", "--event", "e"]);
    send(&receiver, &["span", "end", "--file", file, "--event", "f"]);
    let spans = receiver.spans();
    assert_eq!(spans.len(), 3);
    for (received, events) in spans.iter().zip([1, 1, 2]) {
        let span = &received.span;
        assert_eq!(span.events.len(), events);
        let within = span.start_time_unix_nano..=span.end_time_unix_nano;
        assert!(span.events.iter().all(|event| within.contains(&event.time_unix_nano)), "{span:?}");
    }
}

#[cfg(unix)]
#[test]
fn escapes_the_name_of_a_carrier_file_that_cannot_be_written() {
    let receiver = Receiver::start().unwrap();
    let scratch = Scratch::new();
    let (file, carrier) = (scratch.path().join("span"), scratch.path().join("no\nsuch \x1b[31m/file"));
    let arguments = ["span", "start", "--file", file.to_str().unwrap(), "deploy"];
    let output = finish(sending(&receiver, &arguments).env("OTEL_CLI_CARRIER_FILE", &carrier));
    let message = stderr(&output);
    assert!(message.contains("write ") && !message.contains('\x1b'), "{message:?}");
    assert!(message.lines().all(|line| line.starts_with("standpipe: ")), "{message:?}");
}

#[test]
fn span_start_writes_the_carrier_file_that_later_commands_read() {
    let receiver = Receiver::start().unwrap();
    let scratch = Scratch::new();
    let carrier = scratch.write("carrier", format!("TRACEPARENT={PARENT}\n"));
    // The span file may also be the carrier file, because both have the same lines.
    for file in ["span", "carrier"] {
        if file == "carrier" {
            fs::write(&carrier, "").unwrap();
        }
        let file = scratch.path().join(file);
        let with_carrier = |arguments: &[&str]| {
            let output = finish(sending(&receiver, arguments).env("OTEL_CLI_CARRIER_FILE", &carrier));
            assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{arguments:?}");
        };
        with_carrier(&["span", "start", "--file", file.to_str().unwrap(), "deploy"]);
        with_carrier(&["span", "migrate"]);
        with_carrier(&["span", "end", "--file", file.to_str().unwrap()]);
    }
    let spans = receiver.spans();
    let names: Vec<&str> = spans.iter().map(|span| span.name()).collect();
    assert_eq!(names, ["migrate", "deploy", "migrate", "deploy"]);
    for pair in spans.chunks(2) {
        assert_eq!(pair[0].parent_id(), Some(pair[1].span_id()));
        assert_eq!(pair[0].trace_id(), pair[1].trace_id());
    }
    assert_eq!(spans[1].parent_id().map(|id| id.to_string()).as_deref(), Some("00f067aa0ba902b7"));
    assert_eq!(spans[3].parent_id(), None);
}

#[cfg(unix)]
#[test]
fn only_the_user_can_read_a_new_carrier_file() {
    use std::os::unix::fs::PermissionsExt;
    let (receiver, scratch) = (Receiver::start().unwrap(), Scratch::new());
    let (carrier, file) = (scratch.path().join("carrier"), scratch.path().join("span"));
    let mut start = sending(&receiver, &["span", "start", "--file", file.to_str().unwrap(), "work"]);
    assert!(finish(start.env("OTEL_CLI_CARRIER_FILE", &carrier)).status.success());
    assert_eq!(fs::metadata(&carrier).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn the_answer_of_a_proxy_is_not_taken_for_a_missing_collector() {
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", proxy.local_addr().unwrap());
    thread::spawn(move || {
        for mut socket in proxy.incoming().take(100).map_while(Result::ok) {
            let mut head = [0; 1024];
            let _ = socket.read(&mut head);
            let _ = socket.write_all(
                b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            );
        }
    });
    let mut command =
        standpipe(&["span", "work", "--endpoint", "http://collector.invalid:4318", "--timeout", "500ms"]);
    let output = finish(command.env("HTTP_PROXY", &url).env("http_proxy", &url));
    let errors = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("407") && !errors.contains("is a collector running"), "{errors}");
}

#[test]
fn span_background_is_refused_with_the_commands_to_use_instead() {
    let receiver = Receiver::start().unwrap();
    for arguments in [&["span", "background"][..], &["span", "background", "--file", "x", "deploy"]] {
        let output = finish(&mut sending(&receiver, arguments));
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = stderr(&output);
        assert!(said.contains("span start --file FILE NAME, and span end --file FILE"), "{said}");
    }
    assert_eq!(receiver.span_count(), 0);
}

#[test]
fn a_span_goes_on_in_a_file_without_a_process() {
    let receiver = Receiver::start().unwrap();
    let scratch = Scratch::new();
    let path = scratch.path().join("deploy span");
    let file = path.to_str().unwrap();
    let mut start = sending(&receiver, &["span", "start", "--file", file, "deploy", "--attr", "version=1'2"]);
    assert_eq!(finish(start.env("TRACEPARENT", PARENT).env("TRACESTATE", "a=1")).status.code(), Some(0));
    send(&receiver, &["span", "--parent", file, "migrate"]);
    send(&receiver, &["span", "event", "--file", file, "migrated", "--attr", "tables:=3"]);
    assert_eq!(receiver.span_count(), 1, "it is not sent before its end");
    let again = finish(&mut sending(&receiver, &["span", "start", "--file", file, "other"]));
    assert_eq!(again.status.code(), Some(1));
    assert!(
        stderr(&again).contains("may hold another span: end that span, or remove the file"),
        "{}",
        stderr(&again)
    );
    send(&receiver, &["span", "end", "--file", file, "--status", "ok", "--attr", "nodes:=2"]);
    assert!(!Path::new(file).exists());

    let trace = receiver.only_trace();
    trace.assert_tree("deploy\n  migrate");
    let deploy = trace.span("deploy");
    assert_eq!(deploy.parent_id().map(|id| id.to_string()).as_deref(), Some("00f067aa0ba902b7"));
    assert_eq!(
        (deploy.attribute("version").as_str(), deploy.attribute("nodes").as_i64()),
        (Some("1'2"), Some(2))
    );
    assert_eq!(deploy.status(), Some(Status::Ok));
    assert_eq!(deploy.events()[0].attribute("tables").as_i64(), Some(3));
    let migrate = trace.span("migrate");
    let (outer, inner) = (&deploy.received().span, &migrate.received().span);
    assert_eq!((&*outer.trace_state, &*inner.trace_state), ("a=1", "a=1"));
    assert!(outer.start_time_unix_nano <= inner.start_time_unix_nano);
    assert!(inner.end_time_unix_nano <= outer.end_time_unix_nano);
}

#[test]
fn a_span_that_could_not_be_delivered_stays_in_its_file() {
    let receiver = Receiver::start().unwrap();
    let scratch = Scratch::new();
    // An empty file, like those of mktemp.
    let file = scratch.write("span", "");
    let file = file.to_str().unwrap();
    send(&receiver, &["span", "start", "--file", file, "deploy"]);
    receiver.always(Answer::status(400));
    let refused = finish(&mut sending(&receiver, &["span", "end", "--file", file]));
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("1 record not delivered"), "{}", stderr(&refused));
    receiver.behave();
    send(&receiver, &["span", "end", "--file", file]);
    assert_eq!(receiver.spans().last().unwrap().name(), "deploy");
    assert!(receiver.spans().last().unwrap().parent_id().is_none());
    let gone = finish(&mut sending(&receiver, &["span", "end", "--file", file]));
    assert_eq!(gone.status.code(), Some(1));
    let advice = format!("; to create it: standpipe span start --file {file} NAME\n");
    assert!(stderr(&gone).ends_with(&advice), "{}", stderr(&gone));
}

#[test]
fn spans_are_read_from_json_lines_and_bad_lines_are_named() {
    let receiver = Receiver::start().unwrap();
    let lines = "{\"name\": \"a\", \"start\": 1700000000, \"end\": \"2023-11-14T22:13:21Z\", \"kind\": \"client\"}\n\
        \n\
        {\"name\": \"b\", \"nmae\": 1}\n\
        {\"name\": \"c\", \"attributes\": {\"n\": 1, \"common\": \"own\"}, \"events\": [{\"name\": \"e\"}]}\n\
        not json\n\
        {\"name\": \"d\", \"start\": \"soon\"}\n\
        []\n\
        {\"name\": \"f\", \"events\": [[]]}\n";
    let output = send_lines(&receiver, &["span", "-", "--attr", "common=1"], lines);
    assert_eq!(output.status.code(), Some(1));
    let errors = stderr(&output);
    for expected in [
        "line 3: unknown field `nmae`",
        "line 5: not a JSON object; write an object with name and optionally start, ",
        "line 6: \"soon\" is not a time: write ",
        "line 7: not a JSON object; write an object with name and optionally start, ",
        "and traceparent, for example {\"name\": \"job\", ",
        "line 8: invalid length 0, expected an event as a JSON object with name",
    ] {
        assert!(errors.contains(expected), "no {expected:?} in {errors}");
    }
    let spans = receiver.spans();
    let names: Vec<&str> = spans.iter().map(|span| span.name()).collect();
    assert_eq!(names, ["a", "c"]);
    assert_eq!((spans[0].start_time(), spans[0].end_time()), (at(1_700_000_000.0), at(1_700_000_001.0)));
    assert_eq!(spans[0].attribute("common").as_str(), Some("1"));
    assert_eq!(spans[1].attribute("common").as_str(), Some("own"));
    assert_eq!(spans[1].events().len(), 1);
}

#[test]
fn a_log_record_belongs_to_the_span_around_it() {
    let receiver = Receiver::start().unwrap();
    let arguments =
        ["log", "--level", "warn2", "disk", "almost", "full", "--attr", "free:=1.5", "--event", "disk.full"];
    let mut command = sending(&receiver, &arguments);
    assert_eq!(
        finish(command.env("TRACEPARENT", PARENT).env("OTEL_SERVICE_NAME", "backup")).status.code(),
        Some(0)
    );
    let log = &receiver.logs()[0];
    assert_eq!((log.body().as_str(), log.severity()), (Some("disk almost full"), Some(Severity::Warn2)));
    assert_eq!((log.event_name(), log.service_name()), ("disk.full", "backup"));
    assert_eq!(log.attribute("free").as_f64(), Some(1.5));
    assert_eq!(log.span_id().map(|id| id.to_string()).as_deref(), Some("00f067aa0ba902b7"));
}

#[test]
fn lines_of_loggers_are_log_records_as_they_are() {
    let receiver = Receiver::start().unwrap();
    let lines = "plain text\n\
        {\"level\": \"error\", \"msg\": \"no route\", \"host\": \"a\", \"time\": \"2023-11-14T22:13:20Z\"}\n\
        {\"level\": 40, \"message\": \"pino\", \"time\": 1700000000000, \"attributes\": {\"n\": 1}}\n\
        {broken\n\
        {\"level\": \"loud\", \"msg\": \"odd\", \"time\": \"soon\"}\n";
    let output = send_lines(&receiver, &["log", "-"], [lines.as_bytes(), b"\xff\n", b"last"].concat());
    assert_eq!(output.status.code(), Some(1));
    let errors = stderr(&output);
    assert_eq!(errors, "standpipe: line 6: not UTF-8; convert the input first: iconv -f LATIN1 -t UTF-8\n");
    let logs = receiver.logs();
    let bodies: Vec<_> = logs.iter().map(|log| log.body().as_str().unwrap().to_owned()).collect();
    assert_eq!(bodies, ["plain text", "no route", "pino", "{broken", "odd", "last"]);
    assert_eq!(logs[4].log.severity_text, "loud");
    assert_eq!(logs[4].attribute("time").as_str(), Some("soon"));
    assert_eq!((logs[1].severity(), logs[2].severity()), (Some(Severity::Error), Some(Severity::Warn)));
    assert_eq!(logs[1].attribute("host").as_str(), Some("a"));
    assert_eq!(logs[2].attribute("n").as_i64(), Some(1));
    assert_eq!(logs[1].log.time_unix_nano, logs[2].log.time_unix_nano);
    assert!(logs.iter().all(|log| log.trace_id().is_none()));
}

#[test]
fn more_lines_than_a_queue_holds_arrive_all_the_same() {
    let receiver = Receiver::start().unwrap();
    let lines: String = (0..20_000).map(|number| format!("line {number}\n")).collect();
    let output = send_lines(&receiver, &["log", "-", "--timeout", "30s"], lines);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    assert_eq!(receiver.log_count(), 20_000);
}

#[test]
#[cfg(unix)]
fn what_was_read_is_delivered_at_an_interrupt() {
    // Longer lines are fewer lines.
    let name = "a".repeat(step_of(16));
    for (signal, command) in [("INT", "log"), ("TERM", "span"), ("TERM", "metric")] {
        let receiver = Receiver::start().unwrap();
        let mut sending = sending(&receiver, &[command, "-"]);
        crate::exec::heed_signals(&mut sending);
        let mut process = sending.stdin(Stdio::piped()).spawn().unwrap();
        let mut input = process.stdin.take().unwrap();
        let line = match command {
            "log" => format!("{name}\n"),
            "span" => format!("{{\"name\": \"{name}\"}}\n"),
            _ => format!("{{\"type\": \"gauge\", \"name\": \"{name}\", \"value\": 1}}\n"),
        };
        // The pipe cannot hold all lines, so the command has read the first lines once all lines are written.
        let lines = size_within(140_000..=200_000) as usize / line.len();
        input.write_all(line.repeat(lines).as_bytes()).unwrap();
        let kill = Command::new("kill").args([format!("-{signal}"), process.id().to_string()]).status();
        assert!(kill.unwrap().success());
        assert_eq!(process.wait().unwrap().code(), Some(0), "{command}");
        assert!(receiver.log_count() + receiver.span_count() + receiver.point_count() > 0, "{command}");
        drop(input);
    }
}

#[test]
fn of_several_ends_of_a_span_one_sends_it_and_an_event_that_is_late_is_refused() {
    let receiver = Receiver::start().unwrap();
    let scratch = Scratch::new();
    let file = scratch.path().join("span");
    let file = file.to_str().unwrap();
    send(&receiver, &["span", "start", "--file", file, "--service", "shop", "deploy"]);
    receiver.pause();
    let end = || sending(&receiver, &["span", "end", "--file", file, "--timeout", "60s"]).spawn().unwrap();
    let mut ends = vec![end(), end(), end()];
    let deadline = Instant::now() + PATIENCE;
    // Waits for the end of the two processes that found the span taken.
    while ends.len() > 1 {
        assert!(Instant::now() < deadline, "they have not ended");
        thread::park_timeout(Duration::from_millis(1));
        ends.retain_mut(|end| match end.try_wait().unwrap() {
            Some(status) => {
                assert_eq!(status.code(), Some(1));
                false
            }
            None => true,
        });
    }
    let late = finish(&mut sending(&receiver, &["span", "event", "--file", file, "late"]));
    assert_eq!(late.status.code(), Some(1), "{}", stderr(&late));
    let advice =
        format!("another process is ending the span; if that process was interrupted: mv {file}.ending-");
    assert!(stderr(&late).contains(&advice), "{}", stderr(&late));
    receiver.always(Answer::status(400));
    receiver.resume();
    assert_eq!(ends[0].wait().unwrap().code(), Some(1));
    assert_eq!(receiver.request_count(), 1);
    receiver.behave();
    // The process that could not deliver the span has put it back.
    send(&receiver, &["span", "end", "--file", file]);
    assert_eq!(receiver.spans().last().unwrap().service_name(), "shop");
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn log_records_of_all_levels_are_sent() {
    let receiver = Receiver::start().unwrap();
    send(&receiver, &["log", "--level", "trace", "on the command line"]);
    let output = send_lines(&receiver, &["log", "-"], r#"{"level":"debug","msg":"in a line"}"#);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let severities = receiver.logs().iter().map(|log| log.severity()).collect::<Vec<_>>();
    assert_eq!(severities, [Some(Severity::Trace), Some(Severity::Debug)]);
}

#[test]
fn a_line_that_is_too_long_or_not_fit_for_a_terminal_is_reported_and_the_rest_is_sent() {
    let receiver = Receiver::start().unwrap();
    let lines = ["x".repeat(5 << 20), "{\"\\u001b[2J\":1}".to_owned(), r#"{"name":"good"}"#.to_owned()];
    let output = send_lines(&receiver, &["span", "-"], lines.join("\n"));
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.starts_with("standpipe: line 1: longer than 4194304 bytes\n"), "{said:?}");
    assert!(said.contains("line 2: ") && !said.contains('\u{1b}'), "{said:?}");
    assert_eq!(receiver.span_count(), 1);
}

#[test]
fn measurements_are_sent_as_deltas_with_their_attributes() {
    let receiver = Receiver::start().unwrap();
    send(&receiver, &["metric", "counter", "backups", "3", "--unit", "{backup}", "--attr", "ok:=true"]);
    send(&receiver, &["metric", "gauge", "temperature", "-1.5"]);
    for (preference, expected) in
        [("bogus", AggregationTemporality::Delta), ("cumulative", AggregationTemporality::Cumulative)]
    {
        let mut command = sending(&receiver, &["metric", "counter", preference, "1"]);
        command.env("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", preference);
        assert_eq!(finish(&mut command).status.code(), Some(0));
        let metric = receiver.metric(preference).unwrap();
        let Some(Data::Sum(sum)) = &metric.metric.data else { panic!("{metric:?}") };
        assert_eq!(sum.aggregation_temporality, expected as i32, "{preference}");
    }
    send(&receiver, &["metric", "histogram", "job.time", "2", "--unit", "s"]);
    let counter = receiver.metric("backups").unwrap();
    let Some(Data::Sum(sum)) = &counter.metric.data else { panic!("{counter:?}") };
    assert_eq!((sum.aggregation_temporality, sum.is_monotonic), (AggregationTemporality::Delta as i32, true));
    assert_eq!((counter.metric.unit.as_str(), counter.point_count()), ("{backup}", 1));
    assert_eq!(counter.value(&[("ok", true)]).as_i64(), Some(3));
    assert_eq!(receiver.metric("temperature").unwrap().value(()).as_f64(), Some(-1.5));
    assert_eq!(receiver.metric("job.time").unwrap().point(()).unwrap().sum(), Some(2.0));
}

#[test]
fn measurements_of_lines_are_added_up() {
    let receiver = Receiver::start().unwrap();
    let lines = "{\"type\": \"counter\", \"name\": \"jobs\", \"value\": 1}\n\
        {\"type\": \"counter\", \"name\": \"jobs\", \"value\": 2}\n\
        {\"type\": \"counter\", \"name\": \"jobs\", \"value\": -2}\n\
        {\"type\": \"speed\", \"name\": \"jobs\", \"value\": 2}\n";
    let output = send_lines(&receiver, &["metric", "-"], lines);
    assert_eq!(output.status.code(), Some(1));
    let errors = stderr(&output);
    assert!(errors.contains("line 3: counter jobs: a counter never decreases"), "{errors}");
    assert!(errors.contains("line 4: unknown variant `speed`, expected one of `counter`"), "{errors}");
    assert_eq!(receiver.metric("jobs").unwrap().value(()).as_i64(), Some(3));
}

#[test]
fn what_is_not_delivered_is_said_with_code_1_and_a_bad_command_line_with_code_2() {
    let endpoint = closed_endpoint();
    for arguments in [&["span", "a"][..], &["log", "a"], &["metric", "gauge", "a", "1"]] {
        let output =
            finish(&mut standpipe(&[arguments, &["--endpoint", &endpoint, "--timeout", "60s"]].concat()));
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let errors = stderr(&output);
        assert!(
            errors.contains("1 record not delivered: ") && errors.contains("try: standpipe receive"),
            "{errors}"
        );
    }
    let receiver = Receiver::start().unwrap();
    let twice = format!("{}/v1/logs", receiver.endpoint());
    for (endpoint, advice) in [
        (
            "http://nosuch.invalid:4318",
            "; check the host name; in a container, check that both are on the same network\n",
        ),
        (&twice, "; the endpoint contains the path twice: write it without /v1/..., which is appended\n"),
        (&receiver.endpoint().replace("http:", "https:"), "; write http:// instead of https://\n"),
    ] {
        let arguments = ["log", "a", "--endpoint", endpoint, "--timeout", "60s"];
        let errors = stderr(&finish(&mut standpipe(&arguments)));
        assert!(
            errors.starts_with("standpipe: 1 record not delivered: ") && errors.ends_with(advice),
            "{errors}"
        );
    }
    let zero = finish(&mut standpipe(&["metric", "counter", "a", "0"]));
    assert_eq!(zero.status.code(), Some(1));
    assert!(stderr(&zero).contains("counter a: 0 adds nothing"), "{}", stderr(&zero));
    let cases: [(&[&str], &str); 17] = [
        (&["span"], "<NAME>"),
        (&["span", "a", "b"], "'b' cannot be used with '<NAME>'"),
        (&["span", "start", "a"], "--file <FILE>"),
        (&["span", "--file", "f", "a"], "unexpected argument '--file'"),
        (&["span", "a", "--status", "bad"], "[possible values: ok, error]"),
        (&["span", "a", "--start", "soon"], "\"soon\" is not a time: write"),
        (&["span", "a", "--start", "0001-01-01T00:00:00Z"], "OTLP times range from 1970-01-01 to 2554-07-21"),
        (&["log", "a", "--time", "9999-12-31T00:00:00Z"], "OTLP times range from 1970-01-01 to 2554-07-21"),
        (&["span", "a", "--start", "2000000000", "--end", "now"], "the end is before the start"),
        (&["span", "a", "--message", "why"], "--message needs --status error"),
        (&["span", "a", "--start", "2026-02-31T00:00:00Z"], "\"2026-02-31T00:00:00Z\" is not a time: write"),
        (
            &["metric", "counter", "a", "18446744073709551615"],
            "counter a: the value exceeds the maximum of 9223372036854775807",
        ),
        (&["log"], "<BODY>..."),
        (&["log", "--level", "loud", "a"], "write trace, debug"),
        (&["metric", "counter", "a"], "metric needs counter, gauge or histogram, a NAME and a VALUE"),
        (
            &["metric", "counter", "a", "many"],
            "invalid value 'many' for '[VALUE]': write a number, for example 12.5",
        ),
        (&["metric", "counter", "a", "-1"], "counter a: a counter never decreases; use a gauge"),
    ];
    for (arguments, expected) in cases {
        let output = finish(&mut standpipe(arguments));
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{arguments:?}");
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}

#[test]
fn nothing_is_sent_where_the_caller_does_not_record_and_that_is_no_failure() {
    let receiver = Receiver::start().unwrap();
    let mut command = sending(&receiver, &["span", "a"]);
    let output = finish(command.env("TRACEPARENT", PARENT.replace("-01", "-00")));
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    assert_eq!(receiver.request_count(), 0);
    let scratch = Scratch::new();
    let file = scratch.path().join("span");
    let mut start = sending(&receiver, &["span", "start", "--file", file.to_str().unwrap(), "a"]);
    assert_eq!(finish(start.env("TRACEPARENT", PARENT.replace("-01", "-00"))).status.code(), Some(0));
    assert!(fs::read_to_string(&file).unwrap().contains("-00\n"));
    send(&receiver, &["span", "end", "--file", file.to_str().unwrap()]);
    assert_eq!(receiver.request_count(), 0);
}
