//! `standpipe check --to otel` prints a file that the command and the library read.

use std::fs;

use super::{run, stderr, stdout};
use crate::support::command::{config, finish, standpipe};

const FILE: &str = "[tracer.otel]\ntype = 'otel'\ntransport = 'http'\nthrotle = '2s'\nlossy = true\n\
                    headers = ['Authorization: Bearer %{env:TOKEN}%', 'X-Tenant: hunter2']\n";

#[test]
fn check_converts_a_file_whose_result_has_the_same_effect() {
    let file = config("converted.toml", FILE);
    let output = finish(standpipe(&["check", "--to", "otel", &file]).env("TOKEN", "hunter2"));
    let (text, said) = (stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(!text.contains("hunter2") && !said.contains("hunter2"), "{text}{said}");
    assert!(text.starts_with("file_format: \"1.0\"\n") && text.contains("\"Bearer ${TOKEN}\""), "{text}");
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].contains("tracer.otel.throtle: unknown key"), "{said}");
    let secret = "tracer.otel.headers: may be a secret, so ${SECRET_OTEL_X_TENANT} is written in its place; set this variable \
                  to the value";
    assert!(lines[1].ends_with(secret), "{said}");
    let converted = file.directory.path().join("otel.yaml");
    fs::write(&converted, &text).unwrap();
    let converted = converted.to_str().unwrap();
    let variables = [("TOKEN", "hunter2"), ("SECRET_OTEL_X_TENANT", "hunter2")];
    let output = finish(standpipe(&["check", "--offline", converted]).envs(variables));
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    let output = finish(standpipe(&["check", "--to", "otel", converted]).envs(variables));
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), String::new()));
    assert!(stderr(&output).contains("the file has this format already; leave out --to"));
}

#[test]
fn check_converts_the_environment() {
    let mut command = standpipe(&["check", "--to", "otel", "--env"]);
    let output = finish(command.env("OTEL_TRACES_EXPORTER", "none").env("OTEL_SERVICE_NAME", "shop"));
    let text = stdout(&output);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    assert!(text.contains("value: \"shop\"") && !text.contains("tracer_provider"), "{text}");
}

#[test]
fn check_converts_nothing_if_the_file_has_an_error() {
    let file = config("wrong.toml", "[tracer.otel]\ntype = 'otel'\ntransport = 'http'\ntimeout = '0s'\n");
    let output = run(&["check", "--to", "otel", &file]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), String::new()));
    assert!(stderr(&output).contains("tracer.otel.timeout: 0s is too short"), "{}", stderr(&output));
    let output = run(&["check", "--to", "otel", "/none.toml"]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(2), String::new()));
    for arguments in [["--to", "otel", "--json"], ["--to", "xml", "x"]] {
        let output = run(&[&["check", "x"][..1], &arguments, &["x"]].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    }
}
