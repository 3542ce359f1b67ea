//! `check`: its inputs, and configurations without exporters.

use std::io::Write;
use std::process::{Output, Stdio};

use serde_json::Value;
use standpipe::Config;
use standpipe::config::DiagnosticSeverity;

use super::{checked, run};
use crate::support::command::{config, standpipe, stderr, stdout};
use crate::support::scratch::Scratch;

#[test]
fn garbage_is_an_error() {
    for (name, text) in [
        ("garbage.toml", "hello world\n"),
        ("garbage.conf", "Lorem ipsum dolor sit amet,\nconsectetur = adipiscing [elit\n"),
        ("garbage.json", "{\"tracer\": {\"otel\": {\"type\": \"otel\"}}}\n"),
        ("garbage.html", "<!DOCTYPE html>\n<html><body class=\"x\">404</body></html>\n"),
        ("garbage.yaml", "hello world\n"),
        ("garbage.yml", "- a\n- {b\n"),
    ] {
        let file = config(name, text);
        let output = run(&["check", &file]);
        assert_eq!(output.status.code(), Some(1), "{name}: {}", stdout(&output));
        let (code, found) = checked(&[&file]);
        assert_eq!(code, Some(1), "{name}: {found}");
        assert!(found["errors"].as_array().is_some_and(|errors| !errors.is_empty()), "{name}: {found}");
        Config::from_file(&file).expect_err(name);
    }
    let picture = config("garbage.svg", &"<g x=\"1\"/>\n".repeat(500));
    let text = stdout(&run(&["check", &picture]));
    assert!(text.starts_with("error: too many mistakes: the rest is ignored\n"), "{text}");
    assert!(text.contains("= is this a TOML file?\n\n"), "{text}");
    assert!(text.contains("\nand 97 more\n") && text.lines().count() < 30, "{text}");
    // A mistake in a section of another program does not affect the exporters.
    let mixed = "[tracer.a]\ntype = 'otel'\ntransport = 'http'\n[postgres]\nhello world\n";
    let (code, found) = checked(&["--offline", &config("mixed.toml", mixed)]);
    assert_eq!(code, Some(0), "{found}");
}

#[test]
fn a_tracer_of_type_otlp_fails() {
    let (code, found) = checked(&["--offline", &config("otlp-type.toml", "[tracer.a]\ntype = 'otlp'\n")]);
    assert_eq!(code, Some(1), "{found}");
    assert!(
        found["errors"][0].as_str().is_some_and(|error| error.ends_with("\"open-telemetry\"?")),
        "{found}"
    );
}

#[test]
fn a_file_that_describes_no_exporter_says_so() {
    for (name, text) in [
        ("nothing.toml", ""),
        ("nothing.yaml", "# nothing\n"),
        ("others.toml", "[postgres]\nport = 1\n"),
        ("others.yaml", "postgres: {port: 1}\n"),
    ] {
        let file = config(name, text);
        let read = Config::from_file(&file).expect(name);
        let [diagnostic] = read.diagnostics() else { panic!("{name}: {:?}", read.diagnostics()) };
        assert_eq!(diagnostic.severity, DiagnosticSeverity::Warning);
        let reported = diagnostic.to_string();
        let expected = format!("warning: {file}:1:1: describes no exporter: ");
        assert!(reported.starts_with(&expected) && reported.contains("standpipe init"), "{reported}");
        let (code, found) = checked(&["--offline", &file]);
        assert_eq!(code, Some(0), "{found}");
        assert_eq!(found["warnings"].as_array().map(Vec::len), Some(1), "{found}");
    }
    // An exporter that is switched off is reported as such, so the advice for missing exporters is not shown.
    let off = "[tracer.a]\ntype = 'otel'\nenable = false\n";
    let reported: Vec<_> = Config::from_toml_str(off).expect("only a note").diagnostics().to_vec();
    assert!(
        !reported.iter().any(|diagnostic| diagnostic.what.contains("describes no exporter")),
        "{reported:?}"
    );
}

#[test]
fn a_query_in_a_grpc_endpoint_is_a_diagnostic() {
    let tracer = "[tracer.a]\ntype = 'otel'\ntransport = 'grpc'\n";
    let text = format!("{tracer}endpoint = 'https://collector.example:4317?key=hunter2'\n");
    let (code, found) = checked(&["--offline", &config("query.toml", &text)]);
    assert_eq!(code, Some(0), "{found}");
    let warning = found["warnings"][0].as_str().expect("a warning");
    let expected =
        ":4:12: tracer.a.endpoint: the query is ignored: gRPC has none; send its values as headers";
    assert!(warning.ends_with(expected), "{warning}");
    assert!(!found.to_string().contains("hunter2"), "{found}");
}

/// Runs `check` with arguments and standard input.
fn checked_stdin(arguments: &[&str], text: &str, directory: &str) -> Output {
    let mut command = standpipe(&[&["check", "--offline"], arguments].concat());
    command.current_dir(directory).env("COLUMNS", "200").env("OTEL_SERVICE_NAME", "shop");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

#[test]
fn judges_broken_yaml_on_standard_input_as_yaml() {
    let scratch = Scratch::new();
    let directory = scratch.path().to_str().expect("its path is UTF-8");
    for text in [
        "# ours\ntelemetry:\n  exporters:\n    c:\n      sampling: \"x\n    d:\n      sampling: 1\n",
        "telemetry: # name=value\n  exporters:\n    c:\n      sampling: \"x\n    d:\n      sampling: 1\n",
    ] {
        let output = checked_stdin(&["--json", "-"], text, directory);
        let found: Value = serde_json::from_str(&stdout(&output)).expect("it is JSON");
        assert_eq!(output.status.code(), Some(1), "{found}");
        let errors = found["errors"].as_array().expect("a list");
        assert!(errors.iter().any(|error| error.to_string().contains("quote")), "{found}");
        assert!(!found.to_string().contains("write key = value"), "{found}");
    }
}

#[test]
fn judges_broken_toml_on_standard_input_as_toml() {
    let scratch = Scratch::new();
    let directory = scratch.path().to_str().expect("its path is UTF-8");
    for text in
        ["\u{feff}[tracer.a]\ntype: 'otel'\n", "tracer.a.type = 'otel' # a: b\ntracer.a.transport: 'http'\n"]
    {
        let output = checked_stdin(&["--json", "-"], text, directory);
        let found: Value = serde_json::from_str(&stdout(&output)).expect("it is JSON");
        assert_eq!(output.status.code(), Some(1), "{found}");
        assert!(found["errors"][0].to_string().contains("write key = value"), "{found}");
    }
}

#[test]
fn a_dash_reads_standard_input() {
    let scratch = Scratch::new();
    scratch.write("token", "hunter2");
    let directory = scratch.path().to_str().expect("its path is UTF-8");
    let toml = "[tracer.a]\ntype = 'otel'\ntransport = 'http'\nheaders = ['X-Token: %{file:token}%']\ntimeout = '0s'\n";
    let yaml = "tracer:\n  a:\n    type: otel\n    transport: http\n    headers: ['X-Token: %{file:token}%']\n    timeout: 0s\n";
    for (text, place, line) in
        [(toml, "<stdin>:5:11", "5 | timeout = '0s'"), (yaml, "<stdin>:6:14", "6 |     timeout: 0s")]
    {
        let output = checked_stdin(&["-"], text, directory);
        let reported = stdout(&output) + &stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{reported}");
        assert!(reported.contains(&format!(" --> {place}\n")) && reported.contains(line), "{reported}");
        let output = checked_stdin(&["--json", "-"], text, directory);
        let found: Value = serde_json::from_str(&stdout(&output)).expect("it is JSON");
        let error = format!("{place}: tracer.a.timeout: 0s is too short; write 1ms to 365d");
        assert_eq!(found["errors"][0], Value::from(error), "{found}");
        // As for a file, environment variables set missing values.
        let good = text.replace("0s", "1s");
        let output = checked_stdin(&["--json", "-"], &good, directory);
        let found: Value = serde_json::from_str(&stdout(&output)).expect("it is JSON");
        assert_eq!(output.status.code(), Some(0), "{found}");
        assert_eq!(found["exporters"][0]["service_name"], "shop", "{found}");
    }
    let output = checked_stdin(&["-"], &"#".repeat((1 << 20) + 1), directory);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert_eq!(
        stderr(&output),
        "standpipe: <stdin>: cannot read: larger than 1 MiB; name a readable file of TOML or YAML, at most 1 MiB\n"
    );
    let help = stdout(&run(&["check", "--help"]));
    assert!(help.contains("standard input"), "{help}");
}
