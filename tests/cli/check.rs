//! `standpipe check`: its output and its exit code.

use std::fs;
use std::process::Output;

use serde_json::{Value, json};
use standpipe::Signal;
use standpipe::receiver::{Answer, Receiver};

use crate::support::command::{config, finish, standpipe, stderr, stdout};
use crate::support::scene::closed_address;

mod conversion;
mod input;
mod probing;
mod secrets;

#[test]
fn check_accepts_a_usable_file() {
    let file =
        config("usable.toml", "[tracer.otel]\ntype = \"otel\"\ntransport = \"http\"\nthrottle = \"2s\"\n");
    let output = run(&["check", "--offline", "--all", &file]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
    let row = |key: &str| {
        text.lines().find(|line| line.trim_start().starts_with(key)).unwrap_or_default().to_owned()
    };
    assert!(row("throttle ").ends_with(&format!("{file}:4:12")), "{text}");
    assert!(row("timeout ").ends_with("default"), "{text}");
    assert!(text.contains("1 usable exporter"), "{text}");
}

#[test]
fn check_shows_what_each_exporter_sends() {
    let file = config(
        "signals.toml",
        "[tracer.otel]\ntype = \"otel\"\ntransport = \"http\"\nenable.log-exporter = true\n\
         [metrics.open-telemetry]\ntransport = \"http\"\ninterval = \"30s\"\nself-observation = true\n",
    );
    let output = run(&["check", "--offline", "--all", &file]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    for row in [
        &["self-observation", "true", &format!("{file}:8:20")][..],
        &["exporter", "otel"],
        &["signals", "traces,", "logs", &format!("{file}:4:23")],
        &["level", "info", "default"],
        &["exporter", "metrics.open-telemetry"],
        &["signals", "metrics", &format!("{file}:5:10")],
        &["interval", "30s", &format!("{file}:7:12")],
    ] {
        assert!(rows.iter().any(|shown| shown == row), "{row:?}: {text}");
    }
    assert!(text.contains("2 usable exporters"), "{text}");
}

#[test]
fn check_accepts_a_file_with_warnings() {
    let file = config(
        "warnings.toml",
        "[tracer.otel]\ntype = \"otel\"\ntransport = \"http\"\nendpont = \"http://localhost:4318\"\n",
    );
    let output = run(&["check", "--offline", &file]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("did you mean \"endpoint\"?"), "{text}");
}

#[test]
fn check_points_at_every_mistake_and_shows_no_secret() {
    let file = config(
        "mistakes.toml",
        "[tracer.otel]\ntype = \"otel\"\ntransport = \"http\"\ntimeout = \"0s\"\nlossy = \"perhaps\"\n\
         headers = [\"Authorization: Bearer hunter2\", \"hunter2\"]\n",
    );
    let output = run(&["check", "--offline", &file]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(" 4 | timeout = \"0s\"\n   |           ^\n"), "{text}");
    assert!(text.contains(" 5 | lossy = \"perhaps\"\n   |         ^\n"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn ten_mistakes_are_all_reported_with_their_lines() {
    let text = r#"
        [tracer.otel]
        type = "otel"
        transport = "http"
        endpont = "http://localhost"
        timeout = "1m30s"
        lossy = "yes"
        level = "loud"
        headers = ["Authorization Bearer hunter2"]
        queue-records = 0
        compression = "zip"
        endpoint = "http://me:hunter2@localhost"
        [metrics.open-telemetry]
        transport = "http"
        interval = "-1s"
        enable = true
    "#;
    let file = config("ten.toml", text);
    let (code, found) = checked(&["--offline", &file]);
    assert_eq!(code, Some(1));
    let keys_at = |list: &str| -> Vec<(usize, String)> {
        let reported =
            found[list].as_array().expect("a list").iter().map(|reported| reported.as_str().expect("a text"));
        let parts = reported.map(|reported| reported.strip_prefix(&*file).expect(reported).splitn(5, ':'));
        let place = |mut parts: std::str::SplitN<'_, char>| {
            let line = parts.nth(1)?.parse().ok()?;
            Some((line, parts.nth(1)?.rsplit('.').next()?.to_owned()))
        };
        parts.map(|parts| place(parts).expect("line and key")).collect()
    };
    let expected = |keys: &[(usize, &str)]| -> Vec<(usize, String)> {
        keys.iter().map(|&(line, key)| (line, key.to_owned())).collect()
    };
    assert_eq!(keys_at("warnings"), expected(&[(5, "endpont"), (16, "enable")]));
    let errors = [
        (6, "timeout"),
        (7, "lossy"),
        (8, "level"),
        (9, "headers"),
        (10, "queue-records"),
        (11, "compression"),
        (12, "endpoint"),
        (15, "interval"),
    ];
    assert_eq!(keys_at("errors"), expected(&errors));
    let drawn = stdout(&run(&["check", "--offline", &file]));
    assert!(drawn.contains("8 errors, 2 warnings") && !drawn.contains("hunter2"), "{drawn}");
    assert_eq!(drawn.lines().filter(|line| line.ends_with('^')).count(), 10, "{drawn}");
}

#[test]
fn check_finds_what_only_shows_at_the_start() {
    let file = config(
        "broken_ca.toml",
        "[tracer.otel]\ntype = \"otel\"\ntransport = \"http\"\nendpoint = \"https://localhost\"\n\
         ca-file = \"broken.pem\"\n",
    );
    file.directory.write("broken.pem", "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n");
    let output = run(&["check", "--offline", &file]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("error: ") && text.contains("no usable exporter"), "{text}");
}

#[test]
fn check_says_why_it_cannot_read_a_file() {
    let binary = config("binary.toml", "");
    fs::write(&binary, [0xff, 0xfe]).expect("the place is writable");
    let advice = "name a readable file of TOML or YAML, at most 1 MiB";
    let cases = [
        ("no/such/file.toml", format!("cannot read: no such file; {advice}")),
        (env!("CARGO_TARGET_TMPDIR"), format!("cannot read: is a directory; {advice}")),
        (&binary, "not UTF-8 in line 1; save the file as UTF-8".to_owned()),
    ];
    for (file, reason) in cases {
        let output = run(&["check", "--offline", file]);
        assert_eq!(output.status.code(), Some(2), "{file}");
        assert_eq!(stdout(&output), "", "{file}");
        assert_eq!(stderr(&output), format!("standpipe: {file}: {reason}\n"));
    }
}

#[test]
fn check_shows_where_each_signal_goes() {
    let file = config(
        "destinations.toml",
        "[tracer.otel]\ntype = \"otel\"\ntransport = \"http\"\nendpoint = \"https://me.example\"\n\
         enable.log-exporter = true\n",
    );
    let text = stdout(&run(&["check", "--offline", &file]));
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    for row in [["traces", "https://me.example/v1/traces"], ["logs", "https://me.example/v1/logs"]] {
        assert!(rows.iter().any(|shown| *shown == row), "{row:?}: {text}");
    }
}

#[test]
fn check_never_takes_its_own_name_for_that_of_the_service() {
    let file = config("unnamed.toml", "[tracer.otel]\ntype = \"otel\"\ntransport = \"http\"\n");
    // Wide enough for the whole value, however long the path of the file is.
    let text = stdout(&finish(standpipe(&["check", "--offline", &file]).env("COLUMNS", "200")));
    assert!(text.contains("unknown_service:<your program>"), "{text}");
    let (_, found) = checked(&["--offline", &file]);
    assert_eq!(found["exporters"][0]["service_name"], "unknown_service");
}

#[test]
fn check_is_content_with_a_collector_that_answers() {
    let receiver = Receiver::start().expect("a free port");
    let file = config(
        "answered.toml",
        &format!(
            "[tracer.otel]\ntype = \"otel\"\ntransport = \"http\"\nendpoint = {:?}\n\
             enable.log-exporter = true\n[metrics.open-telemetry]\ntransport = \"http\"\nendpoint = {0:?}\n",
            receiver.endpoint()
        ),
    );
    let output = run(&["check", &file]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}{}", stderr(&output));
    assert!(text.contains("2 usable exporters"), "{text}");
    // A probe sends no telemetry.
    assert_eq!((receiver.span_count(), receiver.log_count(), receiver.point_count()), (0, 0, 0));
}

#[test]
fn a_collector_that_does_not_answer_is_an_error() {
    let address = closed_address();
    let file = config(
        "unanswered.toml",
        &format!("[tracer.otel]\ntype = \"otel\"\ntransport = \"http\"\nendpoint = \"http://{address}\"\n"),
    );
    let output = run(&["check", &file]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("  ✗ connect ") && text.contains("standpipe receive"), "{text}");
    assert!(text.ends_with("no usable exporter, 1 error; nothing would arrive\n"), "{text}");
    let (code, found) = checked(&[&file]);
    assert_eq!(code, Some(1));
    let error = found["errors"][0].as_str().expect("a text");
    assert!(
        error.starts_with(&format!("exporter \"otel\": http://{address}/v1/traces: connect: ")),
        "{error}"
    );
    assert_eq!(found["exporters"].as_array().expect("a list").len(), 1);
}

#[test]
fn check_probes_no_endpoint_when_it_is_offline() {
    let receiver = Receiver::start().expect("a free port");
    let file = config(
        "offline.toml",
        &format!(
            "[tracer.otel]\ntype = \"otel\"\ntransport = \"http\"\nendpoint = {:?}\n",
            receiver.endpoint()
        ),
    );
    for arguments in [&["check", "--offline", &file][..], &["check", "--offline", "--json", &file]] {
        assert_eq!(run(arguments).status.code(), Some(0));
    }
    assert_eq!(receiver.request_count(), 0);
}

#[test]
fn a_grpc_exporter_is_described_as_any_other() {
    let file = config(
        "grpc.toml",
        "[tracer.otel]\ntype = \"otel\"\ntransport = \"grpc\"\nendpoint = \"collector.example:4317\"\n",
    );
    let output = run(&["check", "--offline", &file]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(
        text.contains("https://collector.example:4317\n") && text.ends_with(": 1 usable exporter\n"),
        "{text}"
    );
    let (code, found) = checked(&["--offline", &file]);
    assert_eq!(code, Some(0));
    assert_eq!(found["exporters"][0]["transport"], "grpc");
    assert_eq!(found["exporters"][0]["endpoints"], json!({"traces": "https://collector.example:4317"}));
}

/// Checks a file with a gRPC exporter for spans and logs. Returns the exit code, and the output as text and as JSON.
fn checked_over_grpc(name: &str, endpoint: &str, lines: &str) -> (Option<i32>, String, Value) {
    let tracer = "[tracer.otel]\ntype = \"otel\"\ntransport = \"grpc\"\nenable.log-exporter = true\n";
    let file = config(name, &format!("{tracer}endpoint = {endpoint:?}\n{lines}"));
    let output = run(&["check", &file]);
    let (code, found) = checked(&[&file]);
    assert_eq!(output.status.code(), code, "{}", stdout(&output));
    (code, stdout(&output), found)
}

#[test]
fn a_collector_that_answers_over_grpc_is_good() {
    let receiver = Receiver::start().expect("a free port");
    let (code, text, found) = checked_over_grpc("called.toml", &receiver.grpc_endpoint(), "");
    assert_eq!(code, Some(0), "{text}");
    for part in ["  ✓ resolve ", "  ✓ connect ", "  ✓ http/2 ", "  ✓ export "] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    assert!(text.ends_with(": 1 usable exporter\n"), "{text}");
    assert_eq!((&found["warnings"], &found["errors"]), (&json!([]), &json!([])));
    assert_eq!(found["exporters"][0]["transport"], "grpc");
    // Each of the two runs makes one request for each signal. A probe sends no telemetry.
    assert_eq!((receiver.request_count(), receiver.span_count(), receiver.log_count()), (4, 0, 0));
}

#[test]
fn a_collector_that_refuses_over_grpc_is_an_error() {
    let receiver = Receiver::start().expect("a free port");
    let endpoint = receiver.grpc_endpoint();
    receiver.always_for(Signal::Logs, Answer::grpc(12));
    let (code, text, found) = checked_over_grpc("untaken.toml", &endpoint, "");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("UNIMPLEMENTED: the server does not accept logs"), "{text}");
    assert!(text.contains("  OK for traces\n"), "{text}");
    assert!(text.ends_with("no usable exporter, 1 error; not everything would arrive\n"), "{text}");
    let error = found["errors"][0].as_str().expect("a text");
    assert!(error.starts_with(&format!("exporter \"otel\": {endpoint}: export: UNIMPLEMENTED: ")), "{error}");

    receiver.always(Answer::grpc(16).message("who is hunter2-the-second?"));
    let headers = "headers = [\"authorization: hunter2-the-second\"]\n";
    let (code, text, found) = checked_over_grpc("unknown.toml", &endpoint, headers);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("UNAUTHENTICATED: who is ***?") && text.contains("is its value right"), "{text}");
    assert!(!text.contains("hunter2") && !found.to_string().contains("hunter2"), "{text} {found}");
}

#[test]
fn a_header_that_grpc_cannot_carry_is_pointed_at() {
    let headers = "headers = [\"x-tenant: seven\", \"TE: trailers\"]\n";
    let (code, text, found) = checked_over_grpc("reserved.toml", "http://localhost:4317", headers);
    assert_eq!(code, Some(1), "{text}");
    let error = found["errors"][0].as_str().expect("a text");
    let expected = "tracer.otel.headers: header \"TE\" cannot be set over gRPC; remove it: ";
    assert!(error.contains(":6:") && error.contains(expected), "{error}");
}

#[test]
fn json_describes_every_exporter_and_shows_no_secret() {
    let file = config(
        "described.toml",
        "[tracer.shop]\ntype = \"otel\"\ntransport = \"http\"\n\
         endpoint = \"https://tracing.example/v1/otel?key=hunter2\"\n\
         headers = [\"Authorization: Bearer hunter2\"]\nlevel = \"debug\"\nlossy = true\n\
         [metrics.open-telemetry]\ntransport = \"http\"\ninterval = \"30s\"\n",
    );
    let output = run(&["check", "--offline", "--json", &file]);
    assert!(!stdout(&output).contains("hunter2"), "{}", stdout(&output));
    let (code, found) = checked(&["--offline", &file]);
    assert_eq!(code, Some(0));
    let expected = json!({
        "exporters": [
            {
                "id": "shop", "signals": ["traces"], "transport": "http",
                "endpoints": {"traces": "https://tracing.example/v1/otel?***"},
                "tls": true, "headers": ["authorization"], "level": "debug", "throttle_ms": 1000,
                "lossy": true, "timeout_ms": 10000, "interval_ms": null,
                "service_name": "unknown_service", "sampling": 100.0, "route": null,
            },
            {
                "id": "metrics.open-telemetry", "signals": ["metrics"], "transport": "http",
                "endpoints": {"metrics": "http://localhost:4318/v1/metrics"},
                "tls": false, "headers": [], "level": null, "throttle_ms": null,
                "lossy": false, "timeout_ms": 10000, "interval_ms": 30000,
                "service_name": "unknown_service", "sampling": 100.0, "route": null,
            },
        ],
        "warnings": [], "errors": [],
    });
    assert_eq!(found, expected);
    assert!(stdout(&output).contains("\"sampling\": 100.0"), "{}", stdout(&output));
}

#[test]
fn json_tells_warnings_and_errors_by_their_place_and_no_notes() {
    let file = config(
        "reported.toml",
        "[tracer.a]\ntype = \"otel\"\ntransport = \"http\"\nendpont = \"x\"\n\
         [tracer.b]\ntype = \"otel\"\ntransport = \"http\"\ntimeout = \"0s\"\n\
         [tracer.c]\ntype = \"otel\"\nenable = false\n",
    );
    let (code, found) = checked(&["--offline", &file]);
    assert_eq!(code, Some(1));
    let warning = format!("{file}:4:1: tracer.a.endpont: unknown key; did you mean \"endpoint\"?");
    let error = format!("{file}:8:11: tracer.b.timeout: 0s is too short; write 1ms to 365d");
    assert_eq!((&found["warnings"], &found["errors"]), (&json!([warning]), &json!([error])));
    assert_eq!(found["exporters"].as_array().expect("a list").len(), 1);
}

#[test]
fn json_is_printed_even_if_the_file_cannot_be_read() {
    let (code, found) = checked(&["no/such/file.toml"]);
    assert_eq!(code, Some(2));
    assert_eq!((&found["exporters"], &found["warnings"]), (&json!([]), &json!([])));
    let error = found["errors"][0].as_str().expect("a text");
    assert!(error.starts_with("no/such/file.toml:1:1: cannot read: no such file"), "{error}");
}

#[test]
fn a_file_that_switches_everything_off_is_fine() {
    let off =
        "[tracer.a]\ntype = \"otel\"\nenable = false\n[metrics.open-telemetry]\ntransport = \"disable\"\n";
    let file = config("off.toml", off);
    let (code, found) = checked(&[&file]);
    assert_eq!(code, Some(0));
    assert_eq!(found, json!({"exporters": [], "warnings": [], "errors": []}));
}

#[test]
fn an_empty_file_gets_a_hint_of_what_could_be_in_it() {
    let file = config("empty.toml", "");
    let output = run(&["check", &file]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for part in ["tracer.<id>", "metrics.open-telemetry", "telemetry.exporters", "standpipe init"] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

#[test]
fn the_environment_can_be_checked() {
    let endpoint = "http://collector.example:4318";
    let output =
        finish(standpipe(&["check", "--env", "--offline"]).env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint));
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains(" environment: "), "{}", stdout(&output));
    assert!(stdout(&output).contains(" OTEL_EXPORTER_OTLP_ENDPOINT\n"), "{}", stdout(&output));
}

#[test]
fn an_environment_that_switches_everything_off_is_fine() {
    let mut command = standpipe(&["check", "--env", "--json"]);
    let output = finish(command.env("OTEL_SDK_DISABLED", "true"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let found: Value = serde_json::from_str(&stdout(&output)).expect("it is JSON");
    assert_eq!(found, json!({"exporters": [], "warnings": [], "errors": []}));
}

#[cfg(unix)]
#[test]
fn an_override_that_is_no_text_is_reported_and_ignored() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let text = "telemetry: {exporters: {c: {sampling: 7, exporter: {type: collector}}}}\nserver: {telemetry: {exporter: c}}\n";
    let file = config("overridden.yaml", text);
    let variable = "TRACETEST_TELEMETRY_EXPORTERS_C_SAMPLING";
    let mut command = standpipe(&["check", "--json", "--offline", &file]);
    let output = finish(command.env(variable, OsStr::from_bytes(b"h\xfcnter2")));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let found: Value = serde_json::from_str(&stdout(&output)).expect("it is JSON");
    assert_eq!(found["exporters"][0]["sampling"], json!(7.0));
    assert_eq!(found["warnings"][0], json!(format!("{variable}: ignored: is not UTF-8; set it to text")));
}

#[test]
fn every_line_fits_its_terminal() {
    let file =
        config("narrow.toml", "[tracer.otel]\ntype = \"otel\"\ntransport = \"http\"\nthrottle = \"2s\"\n");
    let (directory, name) = file.rsplit_once('/').expect("a directory");
    for columns in [44, 80] {
        let mut command = standpipe(&["check", "--offline", name]);
        let output = finish(command.current_dir(directory).env("COLUMNS", columns.to_string()));
        let text = stdout(&output);
        assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
        assert!(text.contains("narrow.toml:4:12"), "{text}");
    }
}

/// Runs the command with a width that fits every path.
fn run(arguments: &[&str]) -> Output {
    finish(standpipe(arguments).env("COLUMNS", "240"))
}

/// Returns the exit code and the output of `check --json`.
fn checked(arguments: &[&str]) -> (Option<i32>, Value) {
    let output = run(&[&["check", "--json"], arguments].concat());
    let text = stdout(&output);
    (output.status.code(), serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
}
