//! `telemetry.exporters` and `server.telemetry`: the same tree in TOML and in YAML.

use standpipe::receiver::Receiver;
use standpipe::{Config, SpanContext, Telemetry};

use crate::acceptance::outcome::Outcome;
use crate::acceptance::table::{NO_EXPORTER, Row, Table, hold, row};
use crate::acceptance::tree::Lines;
use crate::support::scene::{LONG, closed_address, exporter, exporter_to};

pub(crate) const TABLES: &[Table] = &[
    Table { name: "keys of an exporter in TOML", read: |keys| in_toml(&exporter_c(keys)), rows: KEYS },
    Table { name: "keys of an exporter in YAML", read: |keys| in_yaml(&exporter_c(keys)), rows: KEYS },
    Table { name: "choices in TOML", read: |lines| in_toml(&two_exporters(lines)), rows: CHOICES },
    Table { name: "choices in YAML", read: |lines| in_yaml(&two_exporters(lines)), rows: CHOICES },
    Table { name: "only in TOML", read: |keys| in_toml(&exporter_c(keys)), rows: TOML },
    Table { name: "only in YAML", read: yaml, rows: YAML },
];

#[test]
fn every_row_holds() {
    hold(TABLES);
}

/// Keys of an exporter of the internal provider.
fn exporter_c(keys: &str) -> Lines<'_> {
    Lines::new()
        .below("", "server.telemetry.exporter = 'c'\ntelemetry.exporters.c.exporter.type = 'collector'")
        .below("telemetry.exporters.c", keys)
}

/// Two exporters whose names differ only in case, and a broken one.
fn two_exporters(lines: &str) -> Lines<'_> {
    let exporters = "jaeger.serviceName = 'small'\njaeger.exporter.type = 'collector'\n\
                     Jaeger.serviceName = 'capital'\nJaeger.exporter.type = 'collector'\n\
                     broken.sampling = 'all'\nbroken.exporter.type = 'console'";
    Lines::new().below("telemetry.exporters", exporters).below("", lines)
}

fn in_toml(lines: &Lines<'_>) -> Outcome {
    Outcome::of(Config::from_toml_str(&lines.to_toml())).without_places()
}

fn in_yaml(lines: &Lines<'_>) -> Outcome {
    yaml(&lines.to_yaml()).without_places()
}

fn yaml(text: &str) -> Outcome {
    Outcome::of(Config::from_yaml_str(text))
}

const KEYS: &[Row] = &[
    row(
        "gRPC to this machine",
        "",
        &[
            "exporters = c",
            "transport = grpc",
            "traces → http://localhost:4317",
            "metrics → http://localhost:4317",
            "check tls = false",
        ],
    ),
    row(
        "the program's own spans and metrics",
        "",
        &["check route = internal", "check signals = traces, metrics"],
    ),
    row("a service name", "serviceName = 'shop'", &["service-name = shop", "check service_name = shop"]),
    row("a service name that is a number", "serviceName = 42", &["check service_name = 42"]),
    row("all traces, whatever the parent says", "", &["check sampling = 100", "sampler = traceidratio{1}"]),
    row("100 percent", "sampling = 100", &["check sampling = 100", "sampler = traceidratio{1}"]),
    row("1 percent", "sampling = 1", &["check sampling = 1", "sampler = traceidratio{0.01}"]),
    row("0.1 percent", "sampling = 0.1", &["check sampling = 0.1", "sampler = traceidratio{0.001}"]),
    row("half", "sampling = 50.0", &["check sampling = 50", "sampler = traceidratio{0.5}"]),
    row("with an exponent", "sampling = 1e1", &["check sampling = 10"]),
    row(
        "more than all",
        "sampling = 250",
        &[
            "check sampling = 100",
            "sampler = traceidratio{1}",
            "warning: telemetry.exporters.c.sampling: 250 is not 0 to 100 percent: all traces are kept; \
                write a percentage like 100 or 0.1",
        ],
    ),
    row("none", "sampling = 0", &["check sampling = 0", "sampler = traceidratio{0}"]),
    row(
        "less than none",
        "sampling = -3",
        &[
            "check sampling = 0",
            "sampler = traceidratio{0}",
            "warning: telemetry.exporters.c.sampling: -3 is not 0 to 100 percent: no trace is kept; \
                write a percentage like 100 or 0.1",
        ],
    ),
    row(
        "a percent sign",
        "sampling = '100%'",
        &[
            "error: telemetry.exporters.c.sampling: \"100%\" is not a number; write a percentage like 100 or 0.1",
        ],
    ),
    row(
        "a word",
        "sampling = 'all'",
        &[
            "error: telemetry.exporters.c.sampling: \"all\" is not a number; write a percentage like 100 or 0.1",
        ],
    ),
    row(
        "a truth",
        "sampling = true",
        &["error: telemetry.exporters.c.sampling: found a boolean; write a percentage like 100 or 0.1"],
    ),
    row(
        "ten seconds between pushes",
        "",
        &["interval = 10s", "interval from default", "check interval_ms = 10000"],
    ),
    row("another interval", "metricsReaderInterval = '5s'", &["interval = 5s", "check interval_ms = 5000"]),
    row("two units are allowed here", "metricsReaderInterval = '1m30s'", &["check interval_ms = 90000"]),
    row("a fraction, as Go reads it", "metricsReaderInterval = '1.5s'", &["check interval_ms = 1500"]),
    row("milliseconds", "metricsReaderInterval = '250ms'", &["check interval_ms = 250"]),
    row(
        "no unit",
        "metricsReaderInterval = 10",
        &["error: telemetry.exporters.c.metricsReaderInterval: 10 has no unit; write \"10s\" for seconds"],
    ),
    row(
        "no unit, in quotes",
        "metricsReaderInterval = '10'",
        &[
            "error: telemetry.exporters.c.metricsReaderInterval: \"10\" has no unit; write \"10s\" for seconds",
        ],
    ),
    row(
        "no time at all",
        "metricsReaderInterval = '0s'",
        &["error: telemetry.exporters.c.metricsReaderInterval: 0s is too short; write 1ms to 365d"],
    ),
    row(
        "negative",
        "metricsReaderInterval = '-1s'",
        &["error: telemetry.exporters.c.metricsReaderInterval: \"-1s\" is negative; \
            write numbers with their units (h, m, s or ms), like 10s or 1m30s"],
    ),
    row(
        "a unit that Go has not",
        "metricsReaderInterval = '1d'",
        &["error: telemetry.exporters.c.metricsReaderInterval: \"1d\" has an unknown unit; \
            write numbers with their units (h, m, s or ms), like 10s or 1m30s"],
    ),
    row(
        "another type",
        "exporter.type = 'console'",
        &["error: telemetry.exporters.c.exporter.type: \"console\" is not known; write type: collector"],
    ),
    row(
        "an address",
        "exporter.collector.endpoint = 'otel-collector:4317'",
        &["traces → http://otel-collector:4317", "check tls = false"],
    ),
    row("a host", "exporter.collector.endpoint = 'otel-collector'", &["traces → http://otel-collector:4317"]),
    row(
        "with http://",
        "exporter.collector.endpoint = 'http://a.test:99'",
        &["traces → http://a.test:99", "check tls = false"],
    ),
    row(
        "with https://",
        "exporter.collector.endpoint = 'https://a.test:99'",
        &["traces → https://a.test:99", "check tls = true"],
    ),
    row(
        "https without a port",
        "exporter.collector.endpoint = 'https://a.test'",
        &["traces → https://a.test:443"],
    ),
    row(
        "with a path",
        "exporter.collector.endpoint = 'https://a.test/otel'",
        &[
            "traces → https://a.test:443",
            "warning: telemetry.exporters.c.exporter.collector.endpoint: the path is ignored: gRPC has none; \
            write \"https://a.test:443\"",
        ],
    ),
    row(
        "an unknown scheme",
        "exporter.collector.endpoint = 'ftp://a.test'",
        &["error: telemetry.exporters.c.exporter.collector.endpoint: \"ftp://***\" has an unknown scheme; \
            write http:// or https://"],
    ),
    row("a secret", "exporter.collector.endpoint = '%{env:CARGO_PKG_NAME}%:4317'", &["exporters = c"]),
    row(
        "a secret that is not there",
        "exporter.collector.endpoint = '%{env:STANDPIPE_NO_SUCH}%'",
        &["error: telemetry.exporters.c.exporter.collector.endpoint: \
            environment variable \"STANDPIPE_NO_SUCH\" is not set; set it to the value"],
    ),
    row(
        "an unknown key",
        "servicename = 'shop'",
        &[
            "exporters = c",
            "warning: telemetry.exporters.c.servicename: unknown key; did you mean \"serviceName\"?",
        ],
    ),
    row(
        "an unknown key further down",
        "exporter.collector.endpont = 'shop'",
        &[
            "warning: telemetry.exporters.c.exporter.collector.endpont: unknown key; did you mean \"endpoint\"?",
        ],
    ),
    row(
        "two mistakes",
        "sampling = 'x'\nmetricsReaderInterval = 'y'",
        &[
            "error: telemetry.exporters.c.sampling: \"x\" is not a number; write a percentage like 100 or 0.1",
            "error: telemetry.exporters.c.metricsReaderInterval: \"y\" is not a duration; \
            write numbers with their units (h, m, s or ms), like 10s or 1m30s",
        ],
    ),
];

const IDLE: &str = "note: telemetry.exporters.broken: not started: server.telemetry does not choose it";

const IDLE_JAEGER: &str =
    "note: telemetry.exporters.jaeger: not started: server.telemetry does not choose it";
const IDLE_CAPITAL: &str =
    "note: telemetry.exporters.Jaeger: not started: server.telemetry does not choose it";

const CHOICES: &[Row] = &[
    row(
        "the internal route",
        "server.telemetry.exporter = 'jaeger'",
        &[
            "exporters = jaeger",
            "check route = internal",
            "check signals = traces, metrics",
            "check service_name = small",
            IDLE,
        ],
    ),
    row(
        "the application's route",
        "server.telemetry.applicationExporter = 'jaeger'",
        &[
            "exporters = jaeger",
            "check route = application",
            "check signals = traces",
            "check interval_ms = null",
            IDLE,
        ],
    ),
    row(
        "both routes use one exporter",
        "server.telemetry.exporter = 'jaeger'\nserver.telemetry.applicationExporter = 'jaeger'\n\
         telemetry.exporters.jaeger.sampling = 10",
        &[
            "exporters = jaeger, jaeger",
            "internal/check service_name = small",
            "internal/check sampling = 10",
            "application/check service_name = small",
            "application/check sampling = 10",
            IDLE,
        ],
    ),
    row(
        "each route has its exporter",
        "server.telemetry.exporter = 'jaeger'\nserver.telemetry.applicationExporter = 'Jaeger'\n\
         telemetry.exporters.Jaeger.sampling = 10",
        &[
            "internal/check service_name = small",
            "internal/check sampling = 100",
            "application/check service_name = capital",
            "application/check sampling = 10",
            IDLE,
        ],
    ),
    row(
        "exactly this name",
        "server.telemetry.exporter = 'Jaeger'",
        &["exporters = Jaeger", "check service_name = capital", IDLE],
    ),
    row(
        "this name in another case",
        "server.telemetry.exporter = 'JAEGER'",
        &["exporters = jaeger", "check service_name = small", IDLE],
    ),
    row(
        "a name that nobody has",
        "server.telemetry.exporter = 'zipkin'",
        &[
            IDLE_JAEGER,
            IDLE_CAPITAL,
            IDLE,
            "error: server.telemetry.exporter: there is no exporter \"zipkin\"; \
            write one of \"Jaeger\", \"broken\", \"jaeger\"",
        ],
    ),
    row(
        "a name that nobody has, of the application",
        "server.telemetry.applicationExporter = 'zipkin'",
        &[
            IDLE_JAEGER,
            IDLE_CAPITAL,
            IDLE,
            "error: server.telemetry.applicationExporter: there is no exporter \"zipkin\"; \
            write one of \"Jaeger\", \"broken\", \"jaeger\"",
        ],
    ),
    row(
        "one that is broken",
        "server.telemetry.exporter = 'broken'",
        &[
            IDLE_JAEGER,
            IDLE_CAPITAL,
            "error: telemetry.exporters.broken.sampling: \"all\" is not a number; \
            write a percentage like 100 or 0.1",
            "error: telemetry.exporters.broken.exporter.type: \"console\" is not known; write type: collector",
        ],
    ),
    row(
        "a broken one beside a good one",
        "server.telemetry.exporter = 'jaeger'\nserver.telemetry.applicationExporter = 'broken'",
        &[
            "exporters = jaeger",
            "check route = internal",
            "error: telemetry.exporters.broken.sampling: \"all\" is not a number; \
                write a percentage like 100 or 0.1",
            "error: telemetry.exporters.broken.exporter.type: \"console\" is not known; write type: collector",
        ],
    ),
    row(
        "sections of others",
        "server.telemetry.exporter = 'jaeger'\nserver.httpPort = 11633\npostgres.host = 'db'",
        &["exporters = jaeger", IDLE],
    ),
    row(
        "an unknown choice",
        "server.telemetry.exporter = 'jaeger'\nserver.telemetry.applicationExporters = 'jaeger'",
        &[
            "exporters = jaeger",
            IDLE,
            "warning: server.telemetry.applicationExporters: unknown key; did you mean \"applicationExporter\"?",
        ],
    ),
];

const TOML: &[Row] = &[
    row(
        "endless",
        "sampling = inf",
        &[
            "check sampling = 100",
            "warning: telemetry.exporters.c.sampling: inf is not 0 to 100 percent: all traces are kept; \
                write a percentage like 100 or 0.1",
        ],
    ),
    row(
        "not a number",
        "sampling = nan",
        &["error: telemetry.exporters.c.sampling: nan is not a number; write a percentage like 100 or 0.1"],
    ),
];

const YAML: &[Row] = &[
    row("nothing", "", &["exporters = none", NO_EXPORTER]),
    row("null sections", "postgres:\ntelemetry:\nserver:\n", &["exporters = none", NO_EXPORTER]),
    row(
        "null sections further down",
        "telemetry:\n  exporters:\nserver:\n  telemetry:\n",
        &["exporters = none"],
    ),
    row(
        "null choices",
        "server:\n  telemetry:\n    exporter:\n    applicationExporter: ~\n",
        &["exporters = none"],
    ),
    row(
        "null values are as good as none",
        "server: {telemetry: {exporter: c}}\ntelemetry:\n  exporters:\n    c:\n      serviceName:\n      sampling: null\n      \
         metricsReaderInterval: ~\n      exporter:\n        type: collector\n        collector:\n",
        &["check sampling = 100", "check interval_ms = 10000", "traces → http://localhost:4317"],
    ),
    row(
        "words without quotes, and their places",
        "server: {telemetry: {exporter: c}}\ntelemetry:\n  exporters:\n    c:\n      serviceName: shop\n      \
         metricsReaderInterval: 1m30s\n      exporter: {type: collector, collector: {endpoint: otel-collector:4317}}\n",
        &[
            "check service_name = shop",
            "service-name from 5:20",
            "check interval_ms = 90000",
            "interval from 6:30",
            "traces → http://otel-collector:4317",
            "endpoint from 7:57",
        ],
    ),
    row(
        "endless",
        "server: {telemetry: {exporter: c}}\ntelemetry: {exporters: {c: {sampling: .inf, exporter: {type: collector}}}}\n",
        &[
            "check sampling = 100",
            "warning: 2:39: telemetry.exporters.c.sampling: inf is not 0 to 100 percent: all traces are kept; \
                write a percentage like 100 or 0.1",
        ],
    ),
    row(
        "not a number",
        "server: {telemetry: {exporter: c}}\ntelemetry: {exporters: {c: {sampling: .nan, exporter: {type: collector}}}}\n",
        &["error: 2:39: telemetry.exporters.c.sampling: .nan is not a number; \
            write a percentage like 100 or 0.1"],
    ),
    row(
        "a percent sign without quotes",
        "server: {telemetry: {exporter: c}}\ntelemetry:\n  exporters:\n    c:\n      sampling: 100%\n      \
         exporter: {type: collector}\n",
        &["error: 5:17: telemetry.exporters.c.sampling: \"100%\" is not a number; \
            write a percentage like 100 or 0.1"],
    ),
    row(
        "a mistake has its line and column",
        "telemetry:\n  exporters:\n    c:\n      exporter: {type: console}\nserver:\n  telemetry:\n    exporter: c\n",
        &[
            "error: 4:24: telemetry.exporters.c.exporter.type: \"console\" is not known; write type: collector",
        ],
    ),
    row(
        "a duplicate key",
        "server: {telemetry: {exporter: c}}\ntelemetry:\n  exporters:\n    c:\n      sampling: 1\n      sampling: 2\n      \
         exporter: {type: collector}\n",
        &[
            "error: 6:7: telemetry.exporters.c.sampling: duplicate key; it is already set in line 5; remove one of the two",
        ],
    ),
    row("a tab", "server:\n\ttelemetry: {}\n", &["error: 2:1: a tab is used for indentation; write spaces"]),
    row(
        "a bracket that is not closed",
        "server: {telemetry: {exporter: c}\n",
        &["error: 1:9: { is never closed; write }"],
    ),
    row(
        "one exporter written once and used by name",
        "telemetry:\n  exporters:\n    a: &a\n      sampling: 5\n      exporter: {type: collector}\n    b: *a\n\
         server: {telemetry: {exporter: b}}\n",
        &[
            "exporters = b",
            "check sampling = 5",
            "note: 3:5: telemetry.exporters.a: not started: server.telemetry does not choose it",
        ],
    ),
];

/// Starts a program with the configuration of [`exporter_c`], except that it sends over HTTP.
fn started(sampling: &str, receiver: &Receiver) -> Telemetry {
    let keys = format!("sampling = {sampling}");
    let config = Config::from_toml_str(&exporter_c(&keys).to_toml()).unwrap();
    Telemetry::start(config.map_exporters(|_| exporter(receiver))).unwrap()
}

#[test]
fn a_trace_is_kept_by_its_id_alone_whatever_its_parent_says() {
    // The sampler shifts the low 8 bytes right by one bit, and compares the result with a bound: 2^62 for 50 %.
    for (sampling, low_half, is_kept) in [
        ("50", "7fffffffffffffff", true),
        ("50", "8000000000000000", false),
        ("50", "8000000000000001", false),
        ("50", "0000000000000000", true),
        ("25", "3fffffffffffffff", true),
        ("25", "4000000000000000", false),
        ("100", "ffffffffffffffff", true),
        ("250", "ffffffffffffffff", true),
        ("0", "0000000000000001", false),
        ("-1", "0000000000000001", false),
    ] {
        for flags in ["00", "01"] {
            let receiver = Receiver::start().unwrap();
            let telemetry = started(sampling, &receiver);
            let parent = format!("00-ffffffffffffffff{low_half}-00f067aa0ba902b7-{flags}");
            let parent = SpanContext::from_traceparent(&parent).unwrap();
            telemetry.tracer("shop").span_builder("work").parent(&parent).start().end();
            telemetry.shutdown(LONG);
            assert_eq!(receiver.span_count() == 1, is_kept, "{sampling} % of {low_half}, parent {flags}");
        }
    }
}

#[test]
fn without_a_service_name_the_program_is_named() {
    let config = Config::from_toml_str(&exporter_c("").to_toml()).unwrap();
    let program = std::env::current_exe().unwrap();
    let name = program.file_name().unwrap().to_str().unwrap();
    assert_eq!(config.summaries()[0].service_name, format!("unknown_service:{name}"));
}

#[test]
fn a_collector_that_is_down_at_start_is_not_fatal() {
    let config = Config::from_toml_str(&exporter_c("").to_toml()).unwrap();
    let endpoint = format!("http://{}", closed_address());
    assert!(Telemetry::start(config.map_exporters(|_| exporter_to(&endpoint))).is_ok());
}
