//! OpenTelemetry's variables in real child processes: what they set, and what takes precedence over them.

use std::time::Duration;

use standpipe::config::Setting;
use standpipe::receiver::Receiver;
use standpipe::{Config, Exporter, Sampler, SpanContext, Telemetry};

use crate::support::process;
use crate::support::scratch::Scratch;

/// Longer than any operation on loopback takes.
const PATIENCE: Duration = Duration::from_secs(20);
const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const SET: [(&str, &str); 3] = [
    ("OTEL_EXPORTER_OTLP_TIMEOUT", "4000"),
    ("OTEL_SERVICE_NAME", "environment"),
    ("OTEL_TRACES_SAMPLER", "always_off"),
];

/// Reports the settings with these keys, of the first exporter and of the whole program.
fn report_settings(config: &Config, keys: &[&str]) {
    let all = config.exporters()[0].effective().into_iter().chain(config.effective());
    all.filter(|setting: &Setting| keys.contains(&setting.key)).for_each(process::report);
}

/// Reads a file with one tracer that has these keys, and adds the settings of the environment.
fn read_file(keys: &str) -> Config {
    let scratch = Scratch::new();
    let text = format!("[tracer.otel]\ntype = 'otel'\ntransport = 'http'\n{keys}\n");
    Config::from_file(scratch.write("telemetry.toml", text)).unwrap().with_environment().unwrap()
}

#[test]
fn code_wins_over_the_file_which_wins_over_the_environment_which_wins_over_the_default() {
    const TEST: &str = "code_wins_over_the_file_which_wins_over_the_environment_which_wins_over_the_default";
    let in_code = |config: Config| {
        let exporter = |exporter: Exporter| exporter.timeout(Duration::from_secs(2));
        config.map_exporters(exporter).service_name("code").sampler(Sampler::always_on())
    };
    if let Some(task) = process::task() {
        let file = read_file;
        let config = match task.as_str() {
            "variables" => Config::from_env().unwrap(),
            "file without a word" => file(""),
            "file" => file("timeout = '3s'"),
            "code" => in_code(file("timeout = '3s'")),
            "code, then the environment" => in_code(file("")).with_environment().unwrap(),
            task => panic!("no such task: {task}"),
        };
        return report_settings(&config, &["timeout", "service-name", "sampler"]);
    }
    let set = [
        "timeout = 4s (OTEL_EXPORTER_OTLP_TIMEOUT)",
        "service-name = environment (OTEL_SERVICE_NAME)",
        "sampler = always_off (OTEL_TRACES_SAMPLER)",
    ];
    let in_code = ["timeout = 2s (code)", "service-name = code (code)", "sampler = always_on (code)"];
    for (task, expected) in [
        ("variables", set),
        ("file without a word", set),
        ("code", in_code),
        ("code, then the environment", in_code),
    ] {
        assert_eq!(process::run_with(TEST, task, &SET), expected, "{task}");
    }
    let reports = process::run_with(TEST, "file", &SET);
    assert!(reports[0].starts_with("timeout = 3s (") && reports[0].ends_with(".toml:4:11)"), "{reports:?}");
    assert_eq!(reports[1..], set[1..]);
    for task in ["variables", "file without a word"] {
        let reports = process::run_with(TEST, task, &[]);
        assert_eq!(reports[0], "timeout = 10s (default)", "{task}");
        assert!(reports[1].starts_with("service-name = unknown_service:"), "{task}: {reports:?}");
        assert_eq!(reports[2], "sampler = parentbased_always_on (default)", "{task}");
    }
}

#[test]
fn a_program_without_a_configuration_sends_where_the_environment_says() {
    const TEST: &str = "a_program_without_a_configuration_sends_where_the_environment_says";
    if process::task().is_some() {
        let telemetry = Telemetry::start(Config::from_env().unwrap()).unwrap();
        telemetry.tracer("shop").span("checkout").end();
        telemetry.logger("shop").info("paid").emit();
        telemetry.meter("shop").counter("orders").add(1, &[("country", "SE")]);
        return process::report(telemetry.shutdown(PATIENCE).total().delivered);
    }
    let receiver = Receiver::start().unwrap();
    let endpoint = receiver.endpoint();
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20hunter2"),
        ("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "authorization=of-logs"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ("OTEL_SERVICE_NAME", "shop"),
        ("OTEL_RESOURCE_ATTRIBUTES", "team=a%20team,service.name=other"),
        ("NO_PROXY", "127.0.0.1"),
    ];
    assert_eq!(process::run_with(TEST, "send", &variables), ["3"]);
    let mut requests: Vec<(String, Option<String>)> = receiver
        .requests()
        .iter()
        .map(|request| (request.path.clone(), request.header("authorization").map(str::to_owned)))
        .collect();
    requests.sort();
    let expected =
        [("/v1/logs", "of-logs"), ("/v1/metrics", "Bearer hunter2"), ("/v1/traces", "Bearer hunter2")];
    assert_eq!(requests, expected.map(|(path, value)| (path.to_owned(), Some(value.to_owned()))));
    assert!(receiver.requests().iter().all(|request| request.header("content-encoding") == Some("gzip")));
    let spans = receiver.spans();
    for (key, value) in [("service.name", "shop"), ("team", "a team")] {
        assert_eq!(spans[0].resource_attribute(key), value);
    }
}

#[test]
fn a_disabled_program_starts_nothing_and_hands_on_the_context_it_was_given() {
    const TEST: &str = "a_disabled_program_starts_nothing_and_hands_on_the_context_it_was_given";
    if process::task().is_some() {
        let before = process::threads_and_sockets();
        let telemetry = Telemetry::start(Config::from_env().unwrap()).unwrap();
        let remote = SpanContext::from_traceparent(TRACEPARENT).unwrap().with_tracestate("vendor=1");
        let tracer = telemetry.tracer("shop");
        let server = tracer.span_builder("GET /").parent(&remote).start();
        let inside = tracer.span("inside");
        telemetry.logger("shop").error("lost").emit();
        telemetry.meter("shop").counter("orders").add(1, &[("country", "SE")]);
        assert_eq!(process::threads_and_sockets(), before, "something was started");
        for span in [&server, &inside] {
            process::report(span.context().traceparent());
            process::report(span.context().tracestate());
            assert!(!span.is_recording());
        }
        drop((inside, server));
        assert!(tracer.span("of its own").context().is_sampled(), "others need not follow suit");
        return process::report(telemetry.shutdown(PATIENCE).exporters.len());
    }
    let receiver = Receiver::start().unwrap();
    let endpoint = receiver.endpoint();
    let variables = [("OTEL_SDK_DISABLED", "True"), ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())];
    let reports = process::run_with(TEST, "disabled", &variables);
    assert_eq!(reports, [TRACEPARENT, "vendor=1", TRACEPARENT, "vendor=1", "0"]);
    assert_eq!(receiver.connection_count(), 0);
}

#[test]
fn a_line_break_in_a_header_is_refused_by_the_headers_name_and_its_value_is_not_shown() {
    const TEST: &str = "a_line_break_in_a_header_is_refused_by_the_headers_name_and_its_value_is_not_shown";
    if process::task().is_some() {
        let error = Config::from_env().expect_err("a line break");
        process::report(format!("{error}").escape_debug());
        process::report(format!("{error:?}").contains("hunter2"));
        let usable = error.into_usable();
        process::report(format!("{usable:?}").contains("hunter2"));
        // The same holds for a program that sets its collector in code.
        let config = Config::new().exporter(Exporter::http("http://127.0.0.1:1"));
        let error = config.with_environment().expect_err("a line break");
        process::report(format!("{error}").escape_debug());
        return process::report(usable.exporters().len() + error.into_usable().exporters().len());
    }
    let message = "OTEL_EXPORTER_OTLP_HEADERS: value of header \\\"authorization\\\" holds a line break; \
                   write printable ASCII in one line";
    for value in [
        "authorization=hunter2%0d%0ax-injected: hunter2",
        "authorization=hunter2\r\nx-injected: hunter2",
        "x-scope=1,authorization=hunter2%0A",
        "authorization=hunter2\n",
    ] {
        let reports = process::run_with(TEST, "refuse", &[("OTEL_EXPORTER_OTLP_HEADERS", value)]);
        assert_eq!(reports, [message, "false", "false", message, "0"], "{value:?}");
    }
}
