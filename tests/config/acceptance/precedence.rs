//! Code takes precedence over the file, the file over the environment, the environment over the default.

use std::path::Path;
use std::time::Duration;
use std::{env, fs};

use standpipe::{Config, Sampler};

use crate::acceptance::outcome::Outcome;
use crate::acceptance::table::{NO_EXPORTER, Row, Table, hold, row};
use crate::acceptance::tree::Lines;
use crate::support::process;
use crate::support::scratch::Scratch;

pub(crate) const TABLES: &[Table] = &[
    Table { name: "a file", read: |given| in_child(given, "toml", "file"), rows: FILE },
    Table { name: "a file and code", read: |given| in_child(given, "toml", "code"), rows: CODE },
    Table { name: "a file of YAML", read: |given| in_child(given, "yml", "file"), rows: YML },
    Table { name: "a text", read: |given| in_child(given, "toml", "text"), rows: TEXT },
    Table {
        name: "variables over TOML",
        read: |given| over_tree(given, Lines::to_toml, "toml"),
        rows: OVERRIDES,
    },
    Table {
        name: "variables over YAML",
        read: |given| over_tree(given, Lines::to_yaml, "yaml"),
        rows: OVERRIDES,
    },
];

#[test]
fn every_row_holds() {
    hold(TABLES);
}

/// Separates the variables and the file in a row.
const FILE_BEGINS: &str = "---\n";
/// The variable with the path of the file that a child reads.
const PATH: &str = "STANDPIPE_ACCEPTANCE_FILE";

/// Reads a file in a child process that has the given variables and no other variables that a configuration reads.
fn in_child(given: &str, format: &str, task: &str) -> Outcome {
    let (variables, text) = given.split_once(FILE_BEGINS).unwrap();
    let scratch = Scratch::new();
    let file = scratch.write(&format!("telemetry.{format}"), text);
    let mut variables: Vec<(&str, &str)> =
        variables.lines().map(|line| line.split_once('=').unwrap()).collect();
    variables.push((PATH, file.to_str().unwrap()));
    let told = process::run_with("a_child_tells_what_it_read", task, &variables);
    let place = format!("{}:", file.display());
    Outcome::from_lines(told.into_iter().map(|line| line.replace(&place, "")).collect())
}

#[test]
fn a_child_tells_what_it_read() {
    let (Some(task), Some(path)) = (process::task(), env::var_os(PATH)) else {
        return;
    };
    let path = Path::new(&path);
    let read = match task.as_str() {
        "text" => Config::from_toml_str(&fs::read_to_string(path).unwrap()),
        "code" => Config::from_file(path).map(|config| {
            let config = config.service_name("from code").sampler(Sampler::always_off());
            config.map_exporters(|exporter| exporter.timeout(Duration::from_secs(7)).header("x-code", "1"))
        }),
        _ => Config::from_file(path),
    };
    Outcome::of(read).lines().into_iter().for_each(process::report);
}

const FILE: &[Row] = &[
    row(
        "a default",
        "---\n[tracer.a]\ntype = 'otel'\ntransport = 'http'",
        &["timeout = 10s", "timeout from default"],
    ),
    row(
        "a variable wins over it",
        "OTEL_EXPORTER_OTLP_TIMEOUT=2000\n---\n[tracer.a]\ntype = 'otel'\ntransport = 'http'",
        &["timeout = 2s", "timeout from OTEL_EXPORTER_OTLP_TIMEOUT"],
    ),
    row(
        "the file wins over both",
        "OTEL_EXPORTER_OTLP_TIMEOUT=2000\n---\n[tracer.a]\ntype = 'otel'\ntransport = 'http'\ntimeout = '3s'",
        &["timeout = 3s", "timeout from 4:11"],
    ),
    row(
        "an endpoint",
        "OTEL_EXPORTER_OTLP_ENDPOINT=http://a.test:99\n---\n[tracer.a]\ntype = 'otel'\ntransport = 'http'",
        &["traces → http://a.test:99/v1/traces", "endpoint from OTEL_EXPORTER_OTLP_ENDPOINT"],
    ),
    row(
        "the endpoint of the file",
        "OTEL_EXPORTER_OTLP_ENDPOINT=http://a.test:99\n---\n[tracer.a]\ntype = 'otel'\ntransport = 'http'\nendpoint = 'b.test'",
        &["traces → http://b.test:4318/v1/traces", "endpoint from 4:12"],
    ),
    row(
        "headers",
        "OTEL_EXPORTER_OTLP_HEADERS=a=hunter2\n---\n[tracer.a]\ntype = 'otel'\ntransport = 'http'",
        &["headers = a: ***", "headers from OTEL_EXPORTER_OTLP_HEADERS"],
    ),
    row(
        "the headers of the file",
        "OTEL_EXPORTER_OTLP_HEADERS=a=hunter2\n---\n[tracer.a]\ntype = 'otel'\ntransport = 'http'\nheaders = ['b: hunter2']",
        &["headers = b: ***", "headers from 4:11"],
    ),
    row(
        "a level",
        "OTEL_LOGS_LEVEL=debug\n---\n[tracer.a]\ntype = 'otel'\ntransport = 'http'\nenable.log-exporter = true",
        &["level = debug", "level from OTEL_LOGS_LEVEL"],
    ),
    row(
        "the level of the file",
        "OTEL_LOGS_LEVEL=debug\n---\n[tracer.a]\ntype = 'otel'\ntransport = 'http'\nlevel = 'warn'\nenable.log-exporter = true",
        &["level = warn", "level from 4:9"],
    ),
    row(
        "an interval",
        "OTEL_METRIC_EXPORT_INTERVAL=5000\n---\n[metrics.open-telemetry]\ntransport = 'http'",
        &["interval = 5s", "interval from OTEL_METRIC_EXPORT_INTERVAL"],
    ),
    row(
        "a service name",
        "OTEL_SERVICE_NAME=shop\n---\n[tracer.a]\ntype = 'otel'\ntransport = 'http'",
        &["service-name = shop", "service-name from OTEL_SERVICE_NAME", "check service_name = shop"],
    ),
    row(
        "a sampler",
        "OTEL_TRACES_SAMPLER=always_off\n---\n[tracer.a]\ntype = 'otel'\ntransport = 'http'",
        &["sampler = always_off", "check sampling = 0"],
    ),
    row(
        "what the file says of the program",
        "OTEL_SERVICE_NAME=variable\nOTEL_RESOURCE_ATTRIBUTES=team=b,zone=north\nOTEL_TRACES_SAMPLER=always_off\n---\n\
         [tracer.a]\ntype = 'otel'\ntransport = 'http'\n[telemetry]\nservice-name = 'shop'\nsampling = 5\nresource.team = 'a'",
        &[
            "service-name from 5:16",
            "check service_name = shop",
            "check sampling = 5",
            "resource = team=a",
            "resource = zone=north",
        ],
    ),
    row(
        "a name of the file that a variable replaces",
        "TRACETEST_TELEMETRY_SERVICE_NAME=other\n---\n[telemetry]\nservice-name = 'shop'\n[tracer.a]\ntype = 'otel'\ntransport = 'http'",
        &["service-name = other", "service-name from TRACETEST_TELEMETRY_SERVICE_NAME"],
    ),
    row(
        "the whole switch",
        "OTEL_SDK_DISABLED=true\n---\n[tracer.a]\ntype = 'otel'\ntransport = 'http'",
        &["disabled = true", "disabled from OTEL_SDK_DISABLED"],
    ),
    row(
        "variables add no exporter to a file",
        "OTEL_EXPORTER_OTLP_ENDPOINT=http://a.test\n---\n",
        &["exporters = none", NO_EXPORTER],
    ),
    row(
        "a secret",
        "SHOP_TOKEN=hunter2\n---\n[tracer.a]\ntype = 'otel'\ntransport = 'http'\nheaders = ['Authorization: %{env:SHOP_TOKEN}%']",
        &["headers = Authorization: ***"],
    ),
    row(
        "a secret with a line break",
        "SHOP_TOKEN=hunter2\rX: y\n---\n[tracer.a]\ntype = 'otel'\ntransport = 'http'\nheaders = ['A: %{env:SHOP_TOKEN}%']",
        &[
            "error: 4:12: tracer.a.headers: value of header \"A\" holds a line break; write printable ASCII in one line",
        ],
    ),
    row(
        "a bad variable is told by its name and breaks nothing",
        "OTEL_EXPORTER_OTLP_TIMEOUT=soon\n---\n[tracer.a]\ntype = 'otel'\ntransport = 'http'",
        &[
            "timeout = 10s",
            "warning: OTEL_EXPORTER_OTLP_TIMEOUT: ignored: \"soon\" is not a whole number of milliseconds; \
                write 1 to 31536000000",
        ],
    ),
];

const CODE: &[Row] = &[
    row(
        "code wins over a default",
        "---\n[tracer.a]\ntype = 'otel'\ntransport = 'http'",
        &["timeout = 7s", "timeout from code"],
    ),
    row(
        "code wins over the file and the variable",
        "OTEL_EXPORTER_OTLP_TIMEOUT=2000\n---\n[tracer.a]\ntype = 'otel'\ntransport = 'http'\ntimeout = '3s'",
        &["timeout = 7s", "timeout from code"],
    ),
    row(
        "a service name",
        "OTEL_SERVICE_NAME=shop\n---\n[tracer.a]\ntype = 'otel'\ntransport = 'http'",
        &["service-name = from code", "service-name from code"],
    ),
    row(
        "a sampler",
        "OTEL_TRACES_SAMPLER=always_on\n---\n[tracer.a]\ntype = 'otel'\ntransport = 'http'",
        &["sampler = always_off", "sampler from code"],
    ),
    row(
        "name and sampler of the file",
        "---\nserver.telemetry.exporter = 'c'\n[telemetry.exporters.c]\nserviceName = 'shop'\nsampling = 5\nexporter.type = 'collector'",
        &["check service_name = from code", "check sampling = 0"],
    ),
    row(
        "what code leaves alone",
        "---\n[tracer.a]\ntype = 'otel'\ntransport = 'http'\nlossy = true",
        &["lossy = true", "lossy from 4:9"],
    ),
];

const YML: &[Row] = &[row(
    "the shorter ending",
    "OTEL_METRIC_EXPORT_INTERVAL=5000\n---\ntelemetry: {exporters: {c: {exporter: {type: collector}}}}\n\
     server: {telemetry: {exporter: C}}\n",
    &["exporters = c", "interval = 5s", "interval from OTEL_METRIC_EXPORT_INTERVAL"],
)];

const TEXT: &[Row] = &[row(
    "a text asks no variables",
    "OTEL_EXPORTER_OTLP_TIMEOUT=2000\nTRACETEST_TELEMETRY_EXPORTERS_C_SAMPLING=5\n---\nserver.telemetry.exporter = 'c'\n\
     [telemetry.exporters.c]\nsampling = 10\nexporter.type = 'collector'",
    &["timeout = 10s", "check sampling = 10"],
)];

/// Reads two exporters with these variables; both providers select the first exporter.
fn over_tree(variables: &str, write: fn(&Lines<'static>) -> String, format: &str) -> Outcome {
    let exporter = "serviceName = 'shop'\nsampling = 100\nmetricsReaderInterval = '10s'\n\
                    exporter.type = 'collector'\nexporter.collector.endpoint = 'otel-collector:4317'";
    let tree = Lines::new()
        .below("server.telemetry", "exporter = 'c'\napplicationExporter = 'c'")
        .below("telemetry.exporters.c", exporter)
        .below("telemetry.exporters.my-own", "exporter.type = 'collector'");
    in_child(&format!("{variables}{FILE_BEGINS}{}", write(&tree)), format, "file").without_places()
}

const IDLE: &str = "note: telemetry.exporters.my-own: not started: server.telemetry does not choose it";

const OVERRIDES: &[Row] = &[
    row(
        "nothing is set",
        "",
        &[
            "exporters = c, c",
            "internal/check service_name = shop",
            "internal/traces → http://otel-collector:4317",
            IDLE,
        ],
    ),
    row(
        "a service name",
        "TRACETEST_TELEMETRY_EXPORTERS_C_SERVICENAME=other\n",
        &[
            "service-name = other",
            "service-name from TRACETEST_TELEMETRY_EXPORTERS_C_SERVICENAME",
            "internal/check service_name = other",
            "application/check service_name = other",
            IDLE,
        ],
    ),
    row(
        "a share of traces",
        "TRACETEST_TELEMETRY_EXPORTERS_C_SAMPLING=5\n",
        &["internal/check sampling = 5", "application/check sampling = 5", IDLE],
    ),
    row(
        "an interval",
        "TRACETEST_TELEMETRY_EXPORTERS_C_METRICSREADERINTERVAL=1m30s\n",
        &["internal/check interval_ms = 90000", IDLE],
    ),
    row(
        "an endpoint",
        "TRACETEST_TELEMETRY_EXPORTERS_C_EXPORTER_COLLECTOR_ENDPOINT=https://a.test:99\n",
        &[
            "internal/traces → https://a.test:99",
            "internal/endpoint from TRACETEST_TELEMETRY_EXPORTERS_C_EXPORTER_COLLECTOR_ENDPOINT",
            IDLE,
        ],
    ),
    row(
        "a choice, and a name that no shell could spell",
        "TRACETEST_SERVER_TELEMETRY_APPLICATIONEXPORTER=my-own\n",
        &["exporters = c, my-own", "application/check id = my-own", "internal/check id = c"],
    ),
    row(
        "a value that is wrong is told by the variable",
        "TRACETEST_TELEMETRY_EXPORTERS_C_SAMPLING=100%\n",
        &[
            "error: TRACETEST_TELEMETRY_EXPORTERS_C_SAMPLING: \"100%\" is not a number; \
            write a percentage like 100 or 0.1",
            IDLE,
        ],
    ),
    row(
        "only keys that the file has",
        "TRACETEST_TELEMETRY_EXPORTERS_MY_OWN_SAMPLING=5\n\
        TRACETEST_SERVER_TELEMETRY_EXPORTER=my-own\n",
        &[
            "internal/check id = my-own",
            "internal/check sampling = 100",
            "warning: TRACETEST_TELEMETRY_EXPORTERS_MY_OWN_SAMPLING: ignored: the file has no such key; \
            write the key in the file, or unset it",
        ],
    ),
    row(
        "an empty variable is none",
        "TRACETEST_TELEMETRY_EXPORTERS_C_SERVICENAME=\n",
        &["internal/check service_name = shop", IDLE],
    ),
    row(
        "the file's name wins over OpenTelemetry's variable",
        "OTEL_SERVICE_NAME=other\n",
        &["internal/check service_name = shop", "application/check service_name = shop", IDLE],
    ),
    row(
        "a file without a name takes it from there",
        "OTEL_SERVICE_NAME=other\nTRACETEST_SERVER_TELEMETRY_EXPORTER=my-own\n",
        &["internal/check service_name = other", "application/check service_name = shop"],
    ),
    row(
        "the file's share wins over OpenTelemetry's variable",
        "OTEL_TRACES_SAMPLER=always_off\n",
        &["internal/check sampling = 100", "application/check sampling = 100", IDLE],
    ),
    row(
        "a file without a share takes it from there",
        "OTEL_TRACES_SAMPLER=always_off\nTRACETEST_SERVER_TELEMETRY_EXPORTER=my-own\n",
        &["internal/check sampling = 0", "application/check sampling = 100"],
    ),
    row(
        "an application without a name takes it from there, too",
        "OTEL_SERVICE_NAME=other\nTRACETEST_SERVER_TELEMETRY_APPLICATIONEXPORTER=my-own\n",
        &["internal/check service_name = shop", "application/check service_name = other"],
    ),
    row(
        "attributes are those of both routes",
        "OTEL_RESOURCE_ATTRIBUTES=shop.country=SE\n",
        &["resource = shop.country=SE", "application.resource = shop.country=SE", IDLE],
    ),
    row(
        "a collector is spoken to in gRPC whatever the variables say",
        "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf\n",
        &["internal/transport = grpc", "internal/traces → http://otel-collector:4317", IDLE],
    ),
];
