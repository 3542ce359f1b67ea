//! `[tracer.<id>]`.

use standpipe::receiver::Receiver;
use standpipe::{Config, Severity, Telemetry};

use crate::acceptance::rules::{text, tracer};
use crate::acceptance::table::{NO_EXPORTER, Row, Table, hold, row};
use crate::support::scene::LONG;

pub(crate) const TABLES: &[Table] = &[
    Table { name: "keys of a tracer", read: tracer, rows: KEYS },
    Table { name: "whole tracers", read: text, rows: WHOLE },
];

#[test]
fn every_row_holds() {
    hold(TABLES);
}

const KEYS: &[Row] = &[
    row("started unless switched off", "", &["exporters = otel", "check route = null"]),
    row(
        "spans by default, and no logs",
        "",
        &["signals = traces", "signals from default", "check signals = traces"],
    ),
    row("switched on", "enable = true", &["exporters = otel", "signals = traces"]),
    row(
        "switched off",
        "enable = false",
        &["exporters = none", "note: 4:10: tracer.otel.enable: not started: enable is false"],
    ),
    row(
        "nothing of it is read",
        "enable = false\ntimeout = 'never'\nnonsense = 1\nendpoint = 'ftp://a'",
        &["exporters = none", "note: 4:10: tracer.otel.enable: not started: enable is false"],
    ),
    row(
        "not even its switches",
        "enable = false\nenable.log-exporter = 'perhaps'\nheaders = 5",
        &["exporters = none", "note: 4:10: tracer.otel.enable: not started: enable is false"],
    ),
    row(
        "a switch is true or false",
        "enable = 'yes'",
        &["error: 4:10: tracer.otel.enable: found a string; write true or false, without quotes"],
    ),
    row("logs switched on", "enable.log-exporter = true", &["signals = traces, logs", "signals from 4:23"]),
    row("logs switched off", "enable.log-exporter = false", &["signals = traces"]),
    row("spans switched on", "enable.span-exporter = true", &["signals = traces"]),
    row("logs alone", "enable.log-exporter = true\nenable.span-exporter = false", &["signals = logs"]),
    row(
        "neither",
        "enable.span-exporter = false",
        &[
            "exporters = none",
            "warning: 4:24: tracer.otel.enable.span-exporter: not started: neither spans nor logs would be sent; \
            write true, or enable = false",
        ],
    ),
    row("dotted, beside enable", "enable = true\nenable.log-exporter = true", &["signals = traces, logs"]),
    row("dotted, before enable", "enable.log-exporter = true\nenable = true", &["signals = traces, logs"]),
    row(
        "quoted, beside enable",
        "enable = true\n\"enable.log-exporter\" = true",
        &["signals = traces, logs"],
    ),
    row(
        "quoted with ', beside enable",
        "enable = true\n'enable.log-exporter' = true",
        &["signals = traces, logs"],
    ),
    row(
        "nested, beside enable",
        "enable = true\n[tracer.otel.enable]\nlog-exporter = true",
        &["signals = traces, logs"],
    ),
    row(
        "inline, beside enable",
        "enable = true\nenable = { log-exporter = true }",
        &["signals = traces, logs"],
    ),
    row(
        "both in one table, beside enable",
        "enable = true\nenable.log-exporter = true\nenable.span-exporter = false",
        &["signals = logs"],
    ),
    row(
        "quoted, without enable",
        "\"enable.span-exporter\" = false\n\"enable.log-exporter\" = true",
        &["signals = logs"],
    ),
    row(
        "the same in two forms",
        "enable.log-exporter = true\n\"enable.log-exporter\" = true",
        &["error: 5:1: tracer.otel.enable.log-exporter: duplicate key; it is already set in line 4; \
            remove one of the two"],
    ),
    row(
        "off, beside all others",
        "enable = false\nenable.log-exporter = true",
        &["exporters = none", "note: 4:10: tracer.otel.enable: not started: enable is false"],
    ),
    row("no headers", "", &["headers = none", "headers from default", "check headers = "]),
    row("info is the least severity", "enable.log-exporter = true", &["level = info", "level from default"]),
    row("it is told of spans, too", "", &["check level = info"]),
    row("trace", "level = 'trace'\nenable.log-exporter = true", &["level = trace", "check level = trace"]),
    row("debug", "level = 'debug'\nenable.log-exporter = true", &["level = debug", "check level = debug"]),
    row("info", "level = 'info'\nenable.log-exporter = true", &["level = info", "level from 4:9"]),
    row("warn", "level = 'warn'\nenable.log-exporter = true", &["level = warn"]),
    row("error", "level = 'error'\nenable.log-exporter = true", &["level = error"]),
    row("any case", "level = 'Debug'\nenable.log-exporter = true", &["level = debug"]),
    row("capitals", "level = 'WARN'\nenable.log-exporter = true", &["level = warn"]),
    row("disable, and no logs are wanted", "level = 'disable'", &["signals = traces"]),
    row(
        "disable, and logs are wanted",
        "level = 'disable'\nenable.log-exporter = true",
        &[
            "signals = traces",
            "warning: 4:9: tracer.otel.level: no logs are sent; write a level, or enable.log-exporter = false",
        ],
    ),
    row("never filters spans", "level = 'error'", &["signals = traces", "exporters = otel"]),
    row(
        "a level that is none",
        "level = 'verbose'",
        &["error: 4:9: tracer.otel.level: \"verbose\" is not known; \
            write \"trace\", \"debug\", \"info\", \"warn\", \"error\" or \"disable\""],
    ),
    row(
        "nearly a level",
        "level = 'erorr'",
        &["error: 4:9: tracer.otel.level: \"erorr\" is not known; did you mean \"error\"?"],
    ),
    row(
        "a throttle of one second",
        "",
        &["throttle = 1s", "throttle from default", "check throttle_ms = 1000"],
    ),
    row(
        "another throttle",
        "throttle = '200ms'",
        &["throttle = 200ms", "throttle from 4:12", "check throttle_ms = 200"],
    ),
    row("no linger", "", &["linger = 0s"]),
    row("callers wait", "", &["lossy = false", "lossy from default", "check lossy = false"]),
    row("lossy", "lossy = true", &["lossy = true", "lossy from 4:9", "check lossy = true"]),
    row(
        "ten seconds for one attempt",
        "",
        &["timeout = 10s", "timeout from default", "check timeout_ms = 10000"],
    ),
    row("another time", "timeout = '3s'", &["timeout = 3s", "timeout from 4:11"]),
    row("all traces are kept", "", &["check sampling = 100"]),
    row("no metrics", "", &["check interval_ms = null"]),
];

const WHOLE: &[Row] = &[
    row("one type", "[tracer.a]\ntype = 'open-telemetry'\ntransport = 'http'", &["exporters = a"]),
    row("its other name", "[tracer.a]\ntype = 'otel'\ntransport = 'http'", &["exporters = a"]),
    row(
        "another type",
        "[tracer.a]\ntype = 'journal'\ntransport = 'nonsense'",
        &[
            "exporters = none",
            "note: 2:8: tracer.a.type: not started: \"journal\" is not a type of OpenTelemetry",
        ],
    ),
    row(
        "a slip",
        "[tracer.a]\ntype = 'open-telemetri'\ntransport = 'http'",
        &[
            "exporters = none",
            "error: 2:8: tracer.a.type: not started: \"open-telemetri\" is not a type of OpenTelemetry; \
            did you mean \"open-telemetry\"?",
        ],
    ),
    row(
        "no type",
        "[tracer.a]\ntransport = 'http'",
        &[
            "exporters = none",
            "warning: 1:9: tracer.a.type: not started: it has no type; write type = \"open-telemetry\"",
        ],
    ),
    row(
        "http",
        "[tracer.a]\ntype = 'otel'\ntransport = 'http'",
        &["transport = http", "transport from 3:13"],
    ),
    row(
        "https is http",
        "[tracer.a]\ntype = 'otel'\ntransport = 'https'",
        &["transport = http", "traces → http://localhost:4318/v1/traces"],
    ),
    row(
        "grpc",
        "[tracer.a]\ntype = 'otel'\ntransport = 'grpc'",
        &["transport = grpc", "check transport = grpc"],
    ),
    row(
        "disable",
        "[tracer.a]\ntype = 'otel'\ntransport = 'disable'\ntimeout = 'never'",
        &["exporters = none", "note: 3:13: tracer.a.transport: not started: its transport is disabled"],
    ),
    row(
        "disabled",
        "[tracer.a]\ntype = 'otel'\ntransport = 'disabled'",
        &["exporters = none", "note: 3:13: tracer.a.transport: not started: its transport is disabled"],
    ),
    row(
        "a transport is required",
        "[tracer.a]\ntype = 'otel'",
        &["error: 1:9: tracer.a.transport: missing; write transport = \"http\""],
    ),
    row(
        "a transport that is none",
        "[tracer.a]\ntype = 'otel'\ntransport = 'carrier-pigeon'",
        &["error: 3:13: tracer.a.transport: \"carrier-pigeon\" is not known; \
            write \"http\", \"http/json\", \"grpc\", \"file\", \"console\" or \"disable\""],
    ),
    row(
        "any number of them",
        "[tracer.a]\ntype = 'otel'\ntransport = 'http'\n[tracer.b]\ntype = 'otel'\ntransport = 'grpc'\n\
         [tracer.\"c.d\"]\ntype = 'otel'\ntransport = 'http'\nlossy = true",
        &[
            "exporters = a, b, c.d",
            "a/traces → http://localhost:4318/v1/traces",
            "b/traces → http://localhost:4317",
            "a/lossy = false",
            "c.d/lossy = true",
        ],
    ),
    row("none", "", &["exporters = none", NO_EXPORTER]),
    row(
        "sections of others",
        "[server.listener.smtp]\nbind = ['[::]:25']\n[[rule]]\nenable = 5",
        &["exporters = none", NO_EXPORTER],
    ),
];

/// Returns the records that a tracer with this level sends.
///
/// The program emits a span with an event, and a log record of each severity.
fn sent_at(level: &str) -> (Vec<(String, usize)>, Vec<i32>) {
    let receiver = Receiver::start().unwrap();
    let text = format!(
        "[tracer.otel]\ntype = 'otel'\ntransport = 'http'\nproxy = 'off'\nendpoint = '{}'\n\
         enable.log-exporter = true\nlevel = '{level}'\n",
        receiver.endpoint()
    );
    let telemetry = Telemetry::start(Config::from_toml_str(&text).unwrap()).unwrap();
    telemetry.tracer("shop").span("checkout").event("paid");
    let logger = telemetry.logger("shop");
    for severity in [Severity::Trace, Severity::Debug, Severity::Info, Severity::Warn, Severity::Error] {
        logger.record(severity, "said").emit();
    }
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
    let spans =
        receiver.spans().iter().map(|span| (span.span.name.clone(), span.span.events.len())).collect();
    (spans, receiver.logs().iter().map(|log| log.log.severity_number).collect())
}

#[test]
fn the_level_holds_back_logs_and_never_a_span() {
    let span = || vec![("checkout".to_owned(), 1)];
    for (level, severities) in [
        ("trace", &[1, 5, 9, 13, 17][..]),
        ("debug", &[5, 9, 13, 17]),
        ("info", &[9, 13, 17]),
        ("warn", &[13, 17]),
        ("error", &[17]),
        ("disable", &[]),
    ] {
        assert_eq!(sent_at(level), (span(), severities.to_vec()), "{level}");
    }
}
