//! Output of `receive` and `show`: trees, JSON and saved files.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Output, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;

use standpipe::config::Proxy;
use standpipe::receiver::Records;
use standpipe::{Config, Exporter, FlushOutcome, Status, Telemetry};

use super::receive::Process;
use super::{Listening, PATIENCE};
use crate::support::command::{finish, run, standpipe, stderr, stdout};
use crate::support::scratch::Scratch;
use crate::support::{share_of, skip};

/// Sends a trace of two spans with a log record through the library.
fn send_trace(endpoint: &str) {
    let exporter = Exporter::http(endpoint).proxy(Proxy::Off);
    let telemetry = Telemetry::start(Config::new().service_name("shop").exporter(exporter));
    let telemetry = telemetry.expect("the endpoint is right");
    {
        let tracer = telemetry.tracer("tests");
        let _checkout = tracer.span("POST /checkout");
        let mut charge = tracer.span("charge card");
        charge.set("card.network", "debit");
        charge.status(Status::Error("declined"));
        telemetry.logger("tests").error("no funds").emit();
        // Sends the log record before the spans, because the spans complete the trace.
        assert_eq!(telemetry.flush(PATIENCE), FlushOutcome::Complete);
    }
    telemetry.shutdown(PATIENCE);
}

/// Sends OTLP JSON.
fn post_json(endpoint: &str, path: &str, body: &str) {
    let authority = endpoint.strip_prefix("http://").expect("it is plain HTTP");
    let mut socket = TcpStream::connect(authority).expect("it listens");
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {authority}\r\nContent-Type: application/json\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(&[head.as_bytes(), body.as_bytes()].concat()).expect("it is read");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("it is answered");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

/// Returns a span in OTLP JSON: service, id, parent id or 0, name, start and end in milliseconds, and further fields.
fn span(service: &str, id: u64, parent: u64, name: &str, millis: u64, more: &str) -> String {
    let parent = if parent == 0 { String::new() } else { format!("{parent:016x}") };
    let (start, end) = (1_700_000_000_000_000_000 + id, 1_700_000_000_000_000_000 + id + millis * 1_000_000);
    let name = serde_json::Value::from(name);
    format!(
        r#"{{"resourceSpans":[{{"resource":{{"attributes":[{{"key":"service.name","value":{{"stringValue":"{service}"}}}}]}},"scopeSpans":[{{"spans":[{{"traceId":"36c3ef3e000000000000000000000001","spanId":"{id:016x}","parentSpanId":"{parent}","name":{name},"startTimeUnixNano":"{start}","endTimeUnixNano":"{end}"{more}}}]}}]}}]}}"#
    )
}

/// Reads the lines of an output on another thread, so that a test can wait for them with a timeout.
fn lines_of(output: impl Read + Send + 'static) -> Receiver<String> {
    let (read, lines) = mpsc::channel();
    let output = BufReader::new(output);
    thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| read.send(line)));
    lines
}

/// Feeds lines to `standpipe show -`.
fn show(options: &[&str], lines: &str) -> Output {
    let mut command = standpipe(&[&["show", "-"], options].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().expect("the binary runs");
    let mut stdin = process.stdin.take().expect("it is piped");
    let lines = lines.to_owned();
    let writer = thread::spawn(move || drop(stdin.write_all(lines.as_bytes())));
    let output = process.wait_with_output().expect("it ends");
    writer.join().expect("it has written");
    output
}

#[test]
fn receive_draws_a_trace_as_a_tree_with_its_logs_once_it_is_complete() {
    let mut listening = Listening::start_with(&["--tree"]);
    send_trace(&listening.endpoint);
    let heading = listening.line_with("trace ");
    assert!(heading.contains(" 2 spans · ") && heading.ends_with(" · 1 error"), "{heading}");
    for part in ["POST /checkout", "╰─ charge card", "card.network=debit", "✗ declined", "ERROR  no funds"]
    {
        listening.line_with(part);
    }
    let origin = listening.line_with("from ");
    assert!(origin.starts_with("from  shop  scope tests"), "{origin}");
}

#[test]
fn receive_draws_what_comes_late_below_its_ancestors() {
    let mut listening = Listening::start_with(&["--tree"]);
    post_json(&listening.endpoint, "/v1/traces", &span("shop", 1, 0, "POST /checkout", 9, ""));
    listening.line_with("POST /checkout");
    post_json(&listening.endpoint, "/v1/traces", &span("mailer", 2, 1, "send mail", 5, ""));
    assert!(listening.line_with("trace 36c3ef3e").starts_with("trace 36c3ef3e +1 late span ──"));
    listening.line_with("POST /checkout");
    listening.line_with("╰─ send mail");
}

#[test]
fn receive_draws_open_traces_at_the_end_and_says_what_is_missing() {
    let mut listening = Listening::start_with(&["--tree"]);
    post_json(&listening.endpoint, "/v1/traces", &span("mailer", 2, 1, "send mail", 5, ""));
    if !listening.interrupt("TERM") {
        return;
    }
    let heading = listening.line_with("trace ");
    assert!(heading.starts_with("trace 36c3ef3e partial · root span missing ──"), "{heading}");
    listening.line_with("its parent 00000000 is not here");
    listening.line_with("received 1 span, ");
}

#[test]
fn trees_on_an_output_that_stands_still_hold_up_no_sender() {
    let mut listening = Listening::start_with(&["--tree"]);
    let message = "x".repeat(2000);
    // Many times the capacity of a pipe.
    for id in 1..=1000 {
        let more = format!(r#","status":{{"code":2,"message":"{message}"}}"#);
        let one = span("shop", 1, 0, "POST /checkout", 9, &more);
        post_json(&listening.endpoint, "/v1/traces", &one.replace("36c3ef3e00000000", &format!("{id:016x}")));
        let log = format!(
            r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{{"body":{{"stringValue":"{message}"}}}}]}}]}}]}}"#
        );
        post_json(&listening.endpoint, "/v1/logs", &log);
    }
    // Once the output is read again, it has the number of batches that were not shown.
    let gap = listening.line_with("not shown: the output was blocked");
    assert!(gap.contains(" batches with "), "{gap}");
}

#[test]
fn json_lines_are_what_the_receiver_reads_and_nothing_else_is_on_standard_output() {
    let (process, output) = Listening::spawn(&["--address", "127.0.0.1:0", "--json"]);
    let mut process = Process(process);
    let (lines, errors) = (lines_of(output), lines_of(process.0.stderr.take().expect("it is piped")));
    let greeting = errors.recv_timeout(PATIENCE).expect("it greets");
    let endpoint = greeting.split_whitespace().find(|word| word.starts_with("http://")).expect("an endpoint");
    send_trace(endpoint);
    let (mut spans, mut logs) = (0, 0);
    while (spans, logs) != (2, 1) {
        let line = lines.recv_timeout(PATIENCE).expect("a line comes in time");
        let records = Records::from_json(line.as_bytes()).expect("it is OTLP");
        spans += records.spans.len();
        logs += records.logs.len();
    }
    if super::signal(&process.0, "TERM") {
        assert_eq!(lines.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected));
    }
}

#[test]
fn what_is_saved_is_shown_again_and_added_to_what_was_there() {
    let scratch = Scratch::new();
    let file = scratch.path().join("saved.jsonl");
    let name = file.to_str().expect("it is UTF-8");
    for round in 1..=2 {
        let mut listening = Listening::start_with(&["--save", name, "--errors"]);
        send_trace(&listening.endpoint);
        if !listening.interrupt("TERM") {
            return;
        }
        assert_eq!(listening.line_with("saved "), format!("saved 3 records to {name}"));
        assert_eq!(listening.process.wait().expect("it ends").code(), Some(0));
        let output = run(&["show", name, "--tree"]);
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
        let text = stdout(&output);
        assert_eq!(text.matches("POST /checkout").count(), round, "{text}");
        assert_eq!(text.matches("ERROR  no funds").count(), round, "{text}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_reported_and_the_display_goes_on() {
    let mut listening = Listening::start_with(&["--save", "/dev/full"]);
    send_trace(&listening.endpoint);
    listening.line_with("charge card");
    super::send(&listening.endpoint, "afterwards");
    listening.line_with("afterwards");
    assert!(listening.interrupt("TERM"));
    let said = listening.complaints.recv_timeout(PATIENCE).expect("it ends");
    let expected =
        "standpipe: --save /dev/full: No space left on device (os error 28); no more records are saved\n";
    assert_eq!(said, expected);
    assert_eq!(listening.process.wait().expect("it ends").code(), Some(1));
}

#[test]
#[cfg(target_os = "linux")]
fn what_is_not_saved_is_a_failure_though_the_reader_has_gone() {
    let mut process = standpipe(&["receive", "--address", "127.0.0.1:0", "--save", "/dev/full"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut greeting = String::new();
    output.read_line(&mut greeting).unwrap();
    let endpoint = greeting.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
    // The second line of the greeting may be written before or after the pipe is closed.
    drop(output);
    super::send(endpoint, "unseen");
    let output = process.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("saved 0 records to /dev/full"), "{}", stderr(&output));
}

#[test]
fn a_file_that_cannot_be_saved_to_is_an_error_at_the_start() {
    let output = run(&["receive", "--address", "127.0.0.1:0", "--save", env!("CARGO_TARGET_TMPDIR")]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).starts_with("standpipe: --save "), "{}", stderr(&output));
}

#[test]
fn show_reads_what_the_file_exporter_of_the_collector_writes() {
    let line = r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},"scopeSpans":[{"scope":{"name":"otel","version":"1"},"spans":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","parentSpanId":"","flags":257,"name":"GET /tea","kind":2,"startTimeUnixNano":"1544712660000000000","endTimeUnixNano":"1544712661000000000","attributes":[{"key":"http.response.status_code","value":{"intValue":"200"}}],"status":{}}]}],"schemaUrl":"https://opentelemetry.io/schemas/1.27.0"}]}"#;
    let output = show(&["--tree"], &format!("{line}\n"));
    let text = stdout(&output);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    for part in
        ["trace 5b8efff7", "14:51:00.000Z · 1.00 s", "GET /tea", "server  http.response.status_code=200"]
    {
        assert!(text.contains(part), "no {part} in {text}");
    }
    assert!(text.contains("from  shop  scope otel 1\n"), "{text}");
    // Without a terminal, each record is one line.
    let flat = stdout(&show(&[], line));
    assert!(flat.lines().any(|line| line.contains("shop") && line.contains("GET /tea")), "{flat}");
}

#[test]
fn show_draws_what_comes_on_standard_input_before_its_end() {
    let mut command = standpipe(&["show", "-", "--tree"]);
    let process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut process = Process(process.expect("the binary runs"));
    let mut stdin = process.0.stdin.take().expect("it is piped");
    let line = span("shop", 1, 0, "POST /checkout", 9, "") + "\n";
    stdin.write_all(line.as_bytes()).expect("it is read");
    let shown = lines_of(process.0.stdout.take().expect("it is piped"));
    let line = shown.recv_timeout(PATIENCE).expect("a line comes in time");
    assert!(line.starts_with("trace 36c3ef3e"), "{line}");
}

#[test]
fn show_joins_the_parts_of_a_trace_from_several_files() {
    let scratch = Scratch::new();
    let root = scratch.write("root.jsonl", span("shop", 1, 0, "POST /checkout", 9, ""));
    let child = scratch.write("child.jsonl", span("payments", 2, 1, "authorize card", 5, ""));
    let [root, child] = [&root, &child].map(|file| file.to_str().expect("it is UTF-8"));
    let output = run(&["show", child, root, "--tree"]);
    let text = stdout(&output);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    assert!(text.contains("2 spans") && text.contains("authorize card"), "{text}");
    assert_eq!(run(&["show", root, "missing.jsonl"]).status.code(), Some(2));
}

#[test]
fn show_names_the_lines_that_it_cannot_read_and_shows_the_rest() {
    let scratch = Scratch::new();
    let good = span("shop", 1, 0, "POST /checkout", 9, "");
    let lines = format!("{good}\n\n{{\"a\\u001b\":1}}\nno json\n{}", &good[..50]);
    let file = scratch.write("damaged.jsonl", lines);
    let name = file.to_str().expect("it is UTF-8");
    let output = run(&["show", name]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("POST /checkout"));
    let said = stderr(&output);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 3, "{said}");
    assert!(lines[0].starts_with(&format!("standpipe: {name}:3: not OTLP JSON: no resourceSpans")), "{said}");
    assert!(lines[1].starts_with(&format!("standpipe: {name}:4: not OTLP JSON: expected ident")), "{said}");
    assert!(lines[2].starts_with(&format!("standpipe: {name}:5: not OTLP JSON: EOF")), "{said}");

    let output = run(&["show", "missing.jsonl"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).starts_with("standpipe: missing.jsonl: "), "{}", stderr(&output));
    let output = run(&["show", "."]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(2), "standpipe: .: is a directory\n"));
}

#[test]
fn filters_choose_among_traces_and_records() {
    let trace = |id: &str, lines: &[String]| {
        lines.iter().map(|line| line.replace("36c3ef3e", id) + "\n").collect::<String>()
    };
    let failed = r#","status":{"code":2,"message":"declined"}"#;
    let lines = [
        trace(
            "aaaaaaaa",
            &[span("shop", 1, 0, "POST /checkout", 200, ""), span("pay", 2, 1, "charge", 5, failed)],
        ),
        trace("bbbbbbbb", &[span("shop", 1, 0, "GET /tea", 20, ""), span("shop", 2, 1, "health", 1, "")]),
        trace("cccccccc", &[span("probe", 1, 0, "health", 3, "")]),
    ]
    .concat();
    let traces = |options: &[&str]| {
        let output = show(&[&["--tree"], options].concat(), &lines);
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let ids =
            text.lines().filter_map(|line| line.strip_prefix("trace ")?.chars().next()).collect::<String>();
        (ids, text)
    };
    for (options, expected) in [
        (&[][..], "abc"),
        (&["--service", "pay"], "a"),
        (&["--service", "pay", "--service", "probe"], "ac"),
        (&["--name", "tea"], "b"),
        (&["--errors"], "a"),
        (&["--min", "20ms"], "ab"),
        (&["--trace", "BB"], "b"),
        (&["--hide", "health"], "ab"),
        (&["--hide", "health", "--errors"], "a"),
    ] {
        let (ids, text) = traces(options);
        assert_eq!(ids, expected, "{options:?}: {text}");
    }
    let (_, text) = traces(&["--hide", "health"]);
    assert!(!text.contains("health") && text.contains(" 1 span (+1 hidden) · "), "{text}");
    let flat = stdout(&show(&["--flat", "--errors"], &lines));
    assert!(flat.contains("charge") && !flat.contains("POST /checkout"), "{flat}");
    let json = stdout(&show(&["--json", "--name", "charge"], &lines));
    let records = Records::from_json(json.as_bytes()).expect("it is OTLP");
    assert_eq!(records.spans.iter().map(|span| span.name()).collect::<Vec<_>>(), ["charge"]);
}

#[test]
fn nothing_that_is_shown_can_move_the_cursor() {
    let hostile = "\x1b[2J\r\n\u{9b}1A\u{202e}";
    let text = serde_json::Value::from(hostile).to_string();
    let value = format!(r#"{{"key":{text},"value":{{"stringValue":{text}}}}}"#);
    let more = format!(
        r#","attributes":[{value}],"traceState":{text},"status":{{"code":2,"message":{text}}},
        "events":[{{"name":{text},"attributes":[{value}]}}],"links":[{{"attributes":[{value}]}}]"#
    );
    let root = span("shop", 1, 0, hostile, 9, &more).replace('\n', "");
    let like: String = (10..20).map(|id| span("shop", id, 1, hostile, 1, "") + "\n").collect();
    let resource = format!(
        r#"{{"resourceSpans":[{{"resource":{{"attributes":[{{"key":"service.name","value":{{"stringValue":{text}}}}},{value}]}},"scopeSpans":[{{"scope":{{"name":{text},"version":{text}}},"spans":[{{"name":{text},"traceId":"aa"}}]}}]}}]}}"#
    );
    let log = format!(
        r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{{"severityText":{text},"eventName":{text},"body":{{"stringValue":{text}}},"attributes":[{value}]}}]}}]}}]}}"#
    );
    let metric = format!(
        r#"{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{{"name":{text},"unit":{text},"gauge":{{"dataPoints":[{{"asInt":"1","attributes":[{value}]}}]}}}}]}}]}}]}}"#
    );
    let bad = format!(r#"{{{text}:1}}"#);
    let lines = format!("{root}\n{like}{resource}\n{log}\n{metric}\n{bad}\n");
    let scratch = Scratch::new();
    let file = scratch.write("hostile.jsonl", lines);
    let is_harmless = |text: &str| text.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}');
    for options in [&["--tree"][..], &["--tree", "--full"], &["--flat"], &["--json"]] {
        for columns in ["50", "70", "120"] {
            let name = file.to_str().expect("it is UTF-8");
            let output = finish(standpipe(&[&["show", name], options].concat()).env("COLUMNS", columns));
            let shown = stdout(&output);
            assert!(is_harmless(&shown) && is_harmless(&stderr(&output)), "{options:?}: {shown:?}");
            assert!(shown.contains("\\u{1b}[2J") || shown.contains("\\u001b[2J"), "{options:?}: {shown}");
        }
    }
}

#[test]
fn a_trace_of_ten_thousand_spans_fits_a_few_screens() {
    let spans = u64::from(share_of(10_000));
    let mut lines = span("shop", 1, 0, "root", 900, "") + "\n";
    for id in 2..spans + 2 {
        // Each level has ten times as many spans.
        lines += &(span("shop", id, (id + 8) / 10, &format!("span {id}"), 1, "") + "\n");
    }
    let text = stdout(&show(&["--tree"], &lines));
    assert!(text.contains(&format!("{} spans", spans + 1)) && text.contains(" spans below"), "{text}");
    assert!(text.lines().count() < 150, "{} lines", text.lines().count());
    let full = stdout(&show(&["--tree", "--full"], &lines));
    assert_eq!(full.lines().filter(|line| line.contains("  shop  ")).count() as u64, spans + 1);
}

#[test]
#[cfg(unix)]
fn a_bar_on_the_terminal_shows_how_much_of_a_large_file_was_read() {
    // The bar appears after a second, and reading twenty million lines takes longer on any machine.
    let scratch = Scratch::new();
    let file = scratch.write("large.jsonl", "{}\n".repeat(20_000_000));
    let (mut screen, terminal) = crate::exec::pseudo_terminal();
    let mut show = standpipe(&["show", file.to_str().unwrap()]).stderr(terminal).spawn().unwrap();
    let (mut seen, mut bytes) = (String::new(), [0; 1000]);
    while !seen.contains(" of 57.2 MiB") {
        let read = screen.read(&mut bytes).unwrap();
        seen.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
    }
    show.kill().unwrap();
    show.wait().unwrap();
    assert!(seen.starts_with("\r[") && seen.contains("] "), "{seen:?}");
}

#[cfg(target_os = "linux")]
const STANDPIPE: &str = env!("CARGO_BIN_EXE_standpipe");

/// A command on a pseudo-terminal of `script` (util-linux).
#[cfg(target_os = "linux")]
struct Screen {
    process: Process,
    shown: Receiver<Vec<u8>>,
    seen: Vec<u8>,
}

#[cfg(target_os = "linux")]
impl Screen {
    /// Starts the command with a terminal of this size. Prints the reason if that is impossible.
    fn start(command: &str, [columns, rows]: [u16; 2]) -> Option<Self> {
        let script = std::process::Command::new("script").arg("--version").output();
        if !script.is_ok_and(|output| stdout(&output).contains("util-linux")) {
            skip("there is no script of util-linux, which makes a terminal");
            return None;
        }
        // Ctrl-C also reaches the shell. Without the trap, dash would end before it runs the last command.
        let command = format!("trap : INT; stty cols {columns} rows {rows}; {command}; stty -a");
        let mut script = std::process::Command::new("script");
        // Tests in the background may ignore SIGINT. The command would inherit that, and Ctrl-C would have no effect.
        crate::exec::heed_signals(&mut script);
        let process = script
            .args(["--quiet", "--flush", "--command", &command, "/dev/null"])
            .env("LC_ALL", "C.UTF-8")
            .env("TERM", "xterm-256color")
            .env("NO_COLOR", "1")
            // The shell that `script` runs.
            .env("SHELL", "/bin/sh")
            .env_remove("COLUMNS")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut process = Process(process.expect("it runs"));
        let mut screen = process.0.stdout.take().expect("it is piped");
        let (show, shown) = mpsc::channel();
        thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = screen.read(&mut piece) {
                let _ = show.send(piece[..length].to_vec());
            }
        });
        Some(Self { process, shown, seen: Vec::new() })
    }

    /// Waits until the text appears after the match of the previous call. Returns the output since that previous match.
    fn wait_for(&mut self, part: &str) -> String {
        loop {
            let text = String::from_utf8_lossy(&self.seen).into_owned();
            if let Some(place) = text.find(part) {
                // Positions in the lossy text are also positions in the bytes, unless the last character is cut. Then
                // its replacement may be longer than the bytes, so the range is limited.
                self.seen.drain(..(place + part.len()).min(self.seen.len()));
                return text;
            }
            match self.shown.recv_timeout(PATIENCE) {
                Ok(piece) => self.seen.extend(piece),
                Err(error) => panic!("{error}: no {part:?} in {text:?}"),
            }
        }
    }

    fn endpoint(&mut self) -> String {
        let greeting = self.wait_for("Ctrl-C stops");
        let endpoint = greeting.split_whitespace().find(|word| word.starts_with("http://"));
        endpoint.expect("an endpoint").to_owned()
    }

    fn press(&mut self, keys: &str) {
        let keyboard = self.process.0.stdin.as_mut().expect("it is piped");
        keyboard.write_all(keys.as_bytes()).expect("it is read");
    }

    /// Waits for the end of the command, after which the terminal must have its usual mode.
    fn end(&mut self) {
        let settings = self.wait_for("echoke");
        for setting in ["-icanon", "-echo ", "-isig", "-opost"] {
            assert!(!settings.contains(setting), "{setting}: {settings}");
        }
        assert!(self.process.0.wait().expect("it ends").success());
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_terminal_has_trees_and_a_foot_that_is_erased() {
    let Some(mut screen) =
        Screen::start(&format!("{STANDPIPE} receive --tree --address 127.0.0.1:0"), [100, 30])
    else {
        return;
    };
    let endpoint = screen.endpoint();
    // A trace without its root stays open for 6 s.
    post_json(&endpoint, "/v1/traces", &span("shop", 2, 1, "charge card", 5, ""));
    screen.wait_for("\r\x1b[K1 trace open · ");
    post_json(&endpoint, "/v1/traces", &span("shop", 1, 0, "POST /checkout", 9, ""));
    let text = screen.wait_for("╰─ charge card");
    // Depending on the time, the foot (the status line) is drawn again for the second span.
    let erased = ["1 span", "2 spans"].map(|foot| format!("{foot}\r\x1b[K\r\ntrace "));
    assert!(erased.iter().any(|erased| text.contains(erased)), "{text:?}");
    // The byte of Ctrl-C.
    screen.press("\x03");
    screen.wait_for("received 2 spans, 0 log records and 0 data points");
    screen.end();
}

#[test]
#[cfg(target_os = "linux")]
fn a_terminal_is_interactive_and_restored_at_the_end() {
    for columns in [80, 120, 200] {
        let command = format!("{STANDPIPE} receive --address 127.0.0.1:0");
        let Some(mut screen) = Screen::start(&command, [columns, 24]) else { return };
        let endpoint = screen.endpoint();
        screen.wait_for("\x1b[?1049h");
        screen.wait_for(&format!("listening on {endpoint} (HTTP)"));
        send_trace(&endpoint);
        screen.wait_for("▸ ");
        screen.wait_for("POST /checkout");
        screen.wait_for("✗1");
        screen.press("\r");
        screen.wait_for("╰─ charge card");
        screen.press("e");
        screen.wait_for("▸       ✗ declined");
        screen.press("y");
        screen.wait_for("\x1b]52;c;dHJhY2Ug");
        screen.press("/card.network\r\x1b[A");
        screen.press("l");
        screen.wait_for("ERROR   no funds");
        // `l` has set the search to `trace:` and the id, and `/` continues this search.
        screen.press("t/ dur>5\r");
        screen.wait_for("write a time with its unit");
        screen.press("?");
        screen.wait_for("select a line");
        // In this mode of the terminal, Ctrl-C is not a signal but a key, and ends the command like q.
        screen.press(if columns == 80 { "\x03" } else { "q" });
        screen.wait_for("\x1b[?1049l");
        screen.wait_for("received 2 spans, 1 log record and 0 data points");
        screen.end();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn an_empty_terminal_shows_the_addresses_and_is_restored_after_sigterm() {
    let receive = format!("{STANDPIPE} receive --address 127.0.0.1:0 --page-address 127.0.0.1:0");
    let command = format!("sh -c 'echo pid $$ .; exec {receive}'");
    let Some(mut screen) = Screen::start(&command, [80, 24]) else { return };
    let greeting = screen.wait_for(" .");
    let pid = greeting.split("pid ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a number");
    screen.wait_for("nothing yet");
    screen.wait_for("listening on http://127.0.0.1:");
    screen.wait_for("page at http://127.0.0.1:");
    assert!(std::process::Command::new("kill").args(["-TERM", pid]).status().expect("it runs").success());
    screen.wait_for("\x1b[?1049l");
    screen.wait_for("received 0 spans");
    screen.end();
}

#[test]
#[cfg(target_os = "linux")]
fn show_is_interactive_on_a_terminal_and_reports_bad_lines_at_the_end() {
    let scratch = Scratch::new();
    let lines = [&span("shop", 1, 0, "POST /checkout", 9, ""), "no JSON"].join("\n");
    let file = scratch.write("saved.jsonl", lines);
    let command = format!("{STANDPIPE} show {}; echo code $?", file.display());
    let Some(mut screen) = Screen::start(&command, [80, 24]) else { return };
    screen.wait_for("POST /checkout");
    screen.press("q");
    screen.wait_for("\x1b[?1049l");
    screen.wait_for("saved.jsonl:2: not OTLP JSON");
    screen.wait_for("code 1");
    screen.end();
}

#[test]
fn shows_the_lines_of_a_file_exporter() {
    let scratch = Scratch::new();
    let path = scratch.path().join("otlp.jsonl");
    let config = Config::new().service_name("shop").exporter(Exporter::file(&path));
    let telemetry = Telemetry::start(config).expect("the directory exists");
    telemetry.tracer("tests").span("POST /checkout").end();
    telemetry.logger("tests").error("no funds").emit();
    telemetry.meter("tests").counter("orders").add(1, &[]);
    assert_eq!(telemetry.shutdown(PATIENCE).lost(), 0);
    let output = run(&["show", path.to_str().expect("it is UTF-8")]);
    assert!(output.status.success(), "{}", stderr(&output));
    for shown in ["POST /checkout", "no funds", "orders"] {
        assert!(stdout(&output).contains(shown), "{}", stdout(&output));
    }
}
