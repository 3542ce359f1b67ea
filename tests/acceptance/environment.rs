//! OpenTelemetry's environment variables.

use standpipe::receiver::Receiver;
use standpipe::{Config, SpanContext, Telemetry};

use crate::outcome::Outcome;
use crate::scene::LONG;
use crate::table::{Row, Table, hold, row};

pub(crate) const TABLES: &[Table] = &[
    Table { name: "where it goes", read: variables, rows: DESTINATION },
    Table { name: "for each signal", read: variables, rows: SIGNALS },
    Table { name: "who speaks", read: variables, rows: PROGRAM },
    Table { name: "at what pace", read: variables, rows: PACE },
    Table { name: "names", read: variables, rows: NAMES },
];

#[test]
fn every_row_holds() {
    hold(TABLES);
}

/// One `NAME=value` in each line.
fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().map(|line| line.split_once('=').unwrap())
}

fn variables(text: &str) -> Outcome {
    Outcome::of(Config::from_variables(pairs(text)))
}

const DESTINATION: &[Row] = &[
    row(
        "nothing is set: one exporter of all signals",
        "",
        &[
            "exporters = otlp",
            "transport = http",
            "check signals = traces, logs, metrics",
            "check route = null",
            "traces → http://localhost:4318/v1/traces",
            "logs → http://localhost:4318/v1/logs",
            "metrics → http://localhost:4318/v1/metrics",
        ],
    ),
    row(
        "a base gets the path of each signal",
        "OTEL_EXPORTER_OTLP_ENDPOINT=http://a.test:99",
        &[
            "traces → http://a.test:99/v1/traces",
            "logs → http://a.test:99/v1/logs",
            "metrics → http://a.test:99/v1/metrics",
            "endpoint from OTEL_EXPORTER_OTLP_ENDPOINT",
        ],
    ),
    row(
        "a base with a slash",
        "OTEL_EXPORTER_OTLP_ENDPOINT=http://a.test:99/",
        &["traces → http://a.test:99/v1/traces"],
    ),
    row(
        "a base with a path",
        "OTEL_EXPORTER_OTLP_ENDPOINT=http://a.test/otlp",
        &["traces → http://a.test/otlp/v1/traces", "logs → http://a.test/otlp/v1/logs"],
    ),
    row(
        "a base with a path and a slash",
        "OTEL_EXPORTER_OTLP_ENDPOINT=http://a.test/otlp/",
        &["traces → http://a.test/otlp/v1/traces"],
    ),
    row(
        "empty is unset",
        "OTEL_EXPORTER_OTLP_ENDPOINT=\nOTEL_EXPORTER_OTLP_TIMEOUT=",
        &["traces → http://localhost:4318/v1/traces", "timeout = 10s", "timeout from default"],
    ),
    row(
        "https",
        "OTEL_EXPORTER_OTLP_ENDPOINT=https://a.test",
        &["check tls = true", "traces → https://a.test/v1/traces"],
    ),
    row(
        "user and password",
        "OTEL_EXPORTER_OTLP_ENDPOINT=http://user:hunter2@a.test",
        &["error: OTEL_EXPORTER_OTLP_ENDPOINT: \"http://***@a.test\" holds a user name or password; \
            send them as a header: \"Authorization: Basic …\""],
    ),
    row(
        "an unknown scheme",
        "OTEL_EXPORTER_OTLP_ENDPOINT=ftp://a.test",
        &[
            "error: OTEL_EXPORTER_OTLP_ENDPOINT: \"ftp://a.test\" has an unknown scheme; write http:// or https://",
        ],
    ),
    row(
        "protobuf over HTTP",
        "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
        &["transport = http", "transport from OTEL_EXPORTER_OTLP_PROTOCOL"],
    ),
    row("gRPC", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", &["transport = grpc", "traces → http://localhost:4317"]),
    row(
        "JSON is not spoken",
        "OTEL_EXPORTER_OTLP_PROTOCOL=http/json",
        &[
            "transport = http",
            "warning: OTEL_EXPORTER_OTLP_PROTOCOL: http/protobuf is used: this version cannot send JSON; write http/protobuf",
        ],
    ),
    row(
        "an unknown protocol",
        "OTEL_EXPORTER_OTLP_PROTOCOL=udp",
        &[
            "transport = http",
            "warning: OTEL_EXPORTER_OTLP_PROTOCOL: ignored: \"udp\" is not known; write http/protobuf, grpc or http/json",
        ],
    ),
    row(
        "gRPC without a scheme is plaintext",
        "OTEL_EXPORTER_OTLP_PROTOCOL=grpc\nOTEL_EXPORTER_OTLP_ENDPOINT=a.test",
        &["traces → http://a.test:4317", "check tls = false"],
    ),
    row(
        "unless it is said not to be",
        "OTEL_EXPORTER_OTLP_PROTOCOL=grpc\nOTEL_EXPORTER_OTLP_ENDPOINT=a.test:99\nOTEL_EXPORTER_OTLP_INSECURE=false",
        &["traces → https://a.test:99", "check tls = true"],
    ),
    row(
        "insecure",
        "OTEL_EXPORTER_OTLP_PROTOCOL=grpc\nOTEL_EXPORTER_OTLP_ENDPOINT=a.test:99\nOTEL_EXPORTER_OTLP_INSECURE=true",
        &["traces → http://a.test:99"],
    ),
    row(
        "a scheme says more than insecure",
        "OTEL_EXPORTER_OTLP_PROTOCOL=grpc\nOTEL_EXPORTER_OTLP_ENDPOINT=https://a.test:99\nOTEL_EXPORTER_OTLP_INSECURE=true",
        &["traces → https://a.test:99"],
    ),
    row(
        "headers",
        "OTEL_EXPORTER_OTLP_HEADERS=Authorization=hunter2,x-scope=1",
        &[
            "headers = Authorization: ***, x-scope: ***",
            "headers from OTEL_EXPORTER_OTLP_HEADERS",
            "check headers = authorization, x-scope",
        ],
    ),
    row(
        "spaces around a header",
        "OTEL_EXPORTER_OTLP_HEADERS= a = 1 , b = 2 ",
        &["headers = a: ***, b: ***"],
    ),
    row("an equals sign in a value", "OTEL_EXPORTER_OTLP_HEADERS=a=b=c", &["headers = a: ***"]),
    row(
        "a line break that was percent-encoded",
        "OTEL_EXPORTER_OTLP_HEADERS=a=hunter2%0D%0AX: y",
        &["error: OTEL_EXPORTER_OTLP_HEADERS: value of header \"a\" holds a line break; \
            write printable ASCII in one line"],
    ),
    row(
        "a pair without a sign",
        "OTEL_EXPORTER_OTLP_HEADERS=a=1,hunter2",
        &["error: OTEL_EXPORTER_OTLP_HEADERS: header 2 has no =; write it like name=value"],
    ),
    row(
        "an invalid name",
        "OTEL_EXPORTER_OTLP_HEADERS=a b=1",
        &["error: OTEL_EXPORTER_OTLP_HEADERS: header 1 has ' ' in its name; names are letters, digits and -"],
    ),
    row(
        "milliseconds",
        "OTEL_EXPORTER_OTLP_TIMEOUT=2500",
        &["timeout = 2500ms", "check timeout_ms = 2500", "timeout from OTEL_EXPORTER_OTLP_TIMEOUT"],
    ),
    row(
        "a time with a unit",
        "OTEL_EXPORTER_OTLP_TIMEOUT=10s",
        &[
            "timeout = 10s",
            "timeout from default",
            "warning: OTEL_EXPORTER_OTLP_TIMEOUT: ignored: \"10s\" is not a whole number of milliseconds; write 10000",
        ],
    ),
    row(
        "a negative time",
        "OTEL_EXPORTER_OTLP_TIMEOUT=-1",
        &[
            "timeout = 10s",
            "warning: OTEL_EXPORTER_OTLP_TIMEOUT: ignored: \"-1\" is not a whole number of milliseconds; write 1 to 31536000000",
        ],
    ),
    row(
        "a fraction",
        "OTEL_EXPORTER_OTLP_TIMEOUT=1.5",
        &[
            "timeout = 10s",
            "warning: OTEL_EXPORTER_OTLP_TIMEOUT: ignored: \"1.5\" is not a whole number of milliseconds; write 1 to 31536000000",
        ],
    ),
    row(
        "gzip",
        "OTEL_EXPORTER_OTLP_COMPRESSION=gzip",
        &["compression = gzip", "compression from OTEL_EXPORTER_OTLP_COMPRESSION"],
    ),
    row("no compression", "OTEL_EXPORTER_OTLP_COMPRESSION=none", &["compression = none"]),
    row(
        "an unknown compression",
        "OTEL_EXPORTER_OTLP_COMPRESSION=zstd",
        &[
            "compression = none",
            "warning: OTEL_EXPORTER_OTLP_COMPRESSION: ignored: \"zstd\" is not known; write gzip or none",
        ],
    ),
    row(
        "a certificate that is not there",
        "OTEL_EXPORTER_OTLP_CERTIFICATE=no/such.pem",
        &[
            "error: OTEL_EXPORTER_OTLP_CERTIFICATE: cannot read file \"no/such.pem\": no such file; write the path of a readable file",
        ],
    ),
    row(
        "a key without its certificate",
        "OTEL_EXPORTER_OTLP_CLIENT_KEY=Cargo.toml",
        &[
            "error: OTEL_EXPORTER_OTLP_CLIENT_KEY: set without OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE; set both or neither",
        ],
    ),
    row(
        "a certificate without its key",
        "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=Cargo.toml",
        &[
            "error: OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: set without OTEL_EXPORTER_OTLP_CLIENT_KEY; set both or neither",
        ],
    ),
];

const SIGNALS: &[Row] = &[
    row(
        "an endpoint of one signal is used as it is",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://a.test/spans",
        &[
            "exporters = otlp.traces, otlp",
            "otlp.traces/traces → http://a.test/spans",
            "otlp/logs → http://localhost:4318/v1/logs",
            "otlp/metrics → http://localhost:4318/v1/metrics",
        ],
    ),
    row(
        "also without a path",
        "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT=http://a.test:99",
        &[
            "otlp.logs/logs → http://a.test:99/",
            "warning: OTEL_EXPORTER_OTLP_LOGS_ENDPOINT: has no path, so logs are posted to /; write /v1/logs behind it",
        ],
    ),
    row(
        "also for metrics",
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://a.test/m",
        &["otlp.metrics/metrics → http://a.test/m"],
    ),
    row(
        "one signal beside a base",
        "OTEL_EXPORTER_OTLP_ENDPOINT=http://b.test\nOTEL_EXPORTER_OTLP_LOGS_ENDPOINT=http://a.test/logs",
        &[
            "otlp/traces → http://b.test/v1/traces",
            "otlp/metrics → http://b.test/v1/metrics",
            "otlp.logs/logs → http://a.test/logs",
        ],
    ),
    row(
        "the protocol of one signal",
        "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL=grpc",
        &[
            "otlp.metrics/transport = grpc",
            "otlp.metrics/metrics → http://localhost:4317",
            "otlp/transport = http",
        ],
    ),
    row(
        "the headers of one signal",
        "OTEL_EXPORTER_OTLP_HEADERS=a=1\nOTEL_EXPORTER_OTLP_TRACES_HEADERS=b=2",
        &["otlp.traces/headers = b: ***", "otlp/headers = a: ***"],
    ),
    row(
        "the time of one signal",
        "OTEL_EXPORTER_OTLP_LOGS_TIMEOUT=2000",
        &["otlp.logs/timeout = 2s", "otlp/timeout = 10s"],
    ),
    row(
        "the compression of one signal",
        "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION=gzip",
        &["otlp.traces/compression = gzip", "otlp/compression = none"],
    ),
    row(
        "the certificate of one signal",
        "OTEL_EXPORTER_OTLP_LOGS_CERTIFICATE=no/such.pem",
        &[
            "exporters = otlp",
            "error: OTEL_EXPORTER_OTLP_LOGS_CERTIFICATE: cannot read file \"no/such.pem\": no such file; write the path of a readable file",
        ],
    ),
    row(
        "one signal that is not insecure",
        "OTEL_EXPORTER_OTLP_PROTOCOL=grpc\nOTEL_EXPORTER_OTLP_ENDPOINT=a.test:99\nOTEL_EXPORTER_OTLP_LOGS_INSECURE=false",
        &["otlp.logs/logs → https://a.test:99", "otlp/traces → http://a.test:99"],
    ),
    row(
        "what is the same for all is one exporter",
        "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT=1\nOTEL_EXPORTER_OTLP_LOGS_TIMEOUT=1\nOTEL_EXPORTER_OTLP_METRICS_TIMEOUT=1",
        &["exporters = otlp", "timeout = 1ms"],
    ),
    row(
        "one signal is not sent",
        "OTEL_TRACES_EXPORTER=none",
        &["exporters = otlp", "check signals = logs, metrics"],
    ),
    row("another is not", "OTEL_LOGS_EXPORTER=none\nOTEL_METRICS_EXPORTER=none", &["check signals = traces"]),
    row(
        "none is",
        "OTEL_TRACES_EXPORTER=none\nOTEL_LOGS_EXPORTER=none\nOTEL_METRICS_EXPORTER=none",
        &["exporters = none"],
    ),
    row("otlp", "OTEL_TRACES_EXPORTER=otlp", &["exporters = otlp", "check signals = traces, logs, metrics"]),
    row(
        "an exporter that is none",
        "OTEL_TRACES_EXPORTER=zipkin",
        &[
            "exporters = otlp",
            "check signals = logs, metrics",
            "error: OTEL_TRACES_EXPORTER: \"zipkin\" is not known; write otlp, console or none",
        ],
    ),
    row(
        "a broken signal disables no other",
        "OTEL_EXPORTER_OTLP_LOGS_HEADERS=hunter2",
        &[
            "exporters = otlp",
            "error: OTEL_EXPORTER_OTLP_LOGS_HEADERS: header 1 has no =; write it like name=value",
        ],
    ),
];

const PROGRAM: &[Row] = &[
    row(
        "a service name",
        "OTEL_SERVICE_NAME=shop",
        &["service-name = shop", "service-name from OTEL_SERVICE_NAME", "check service_name = shop"],
    ),
    row(
        "attributes",
        "OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test,shop.country=SE",
        &[
            "resource = deployment.environment.name=test, shop.country=SE",
            "resource from OTEL_RESOURCE_ATTRIBUTES",
        ],
    ),
    row(
        "percent-encoded attributes",
        "OTEL_RESOURCE_ATTRIBUTES=shop.name=K%C3%B6p%2C%20s%C3%A4lj",
        &["resource = shop.name=Köp, sälj"],
    ),
    row(
        "a service name among them",
        "OTEL_RESOURCE_ATTRIBUTES=service.name=shop",
        &["service-name = shop", "service-name from OTEL_RESOURCE_ATTRIBUTES"],
    ),
    row(
        "the name of its own wins",
        "OTEL_SERVICE_NAME=shop\nOTEL_RESOURCE_ATTRIBUTES=service.name=other,a=b",
        &["service-name = shop", "resource = a=b"],
    ),
    row(
        "one bad pair discards all",
        "OTEL_RESOURCE_ATTRIBUTES=a=b,c",
        &[
            "resource absent",
            "warning: OTEL_RESOURCE_ATTRIBUTES: ignored: attribute 2 has no =, so none is set; write it like key=value",
        ],
    ),
    row(
        "one bad percent sign discards all",
        "OTEL_RESOURCE_ATTRIBUTES=a=b,c=%zz",
        &[
            "resource absent",
            "warning: OTEL_RESOURCE_ATTRIBUTES: ignored: attribute 2 has a % without two hexadecimal digits behind it, so none is set; write %25 for a percent sign",
        ],
    ),
    row("switched off", "OTEL_SDK_DISABLED=true", &["disabled = true", "disabled from OTEL_SDK_DISABLED"]),
    row("in any case", "OTEL_SDK_DISABLED=TRUE", &["disabled = true"]),
    row("not switched off", "OTEL_SDK_DISABLED=false", &["disabled = false"]),
    row(
        "neither",
        "OTEL_SDK_DISABLED=1",
        &["disabled = false", "warning: OTEL_SDK_DISABLED: ignored: \"1\" is not known; write true or false"],
    ),
    row("the default sampler", "", &["sampler = parentbased_always_on", "check sampling = 100"]),
    row(
        "always_on",
        "OTEL_TRACES_SAMPLER=always_on",
        &["sampler = always_on", "sampler from OTEL_TRACES_SAMPLER", "check sampling = 100"],
    ),
    row("always_off", "OTEL_TRACES_SAMPLER=always_off", &["sampler = always_off", "check sampling = 0"]),
    row(
        "traceidratio",
        "OTEL_TRACES_SAMPLER=traceidratio\nOTEL_TRACES_SAMPLER_ARG=0.25",
        &["sampler = traceidratio{0.25}", "check sampling = 25"],
    ),
    row("traceidratio without its ratio", "OTEL_TRACES_SAMPLER=traceidratio", &["sampler = traceidratio{1}"]),
    row("parentbased_always_on", "OTEL_TRACES_SAMPLER=parentbased_always_on", &["check sampling = 100"]),
    row("parentbased_always_off", "OTEL_TRACES_SAMPLER=parentbased_always_off", &["check sampling = 0"]),
    row(
        "parentbased_traceidratio",
        "OTEL_TRACES_SAMPLER=parentbased_traceidratio\nOTEL_TRACES_SAMPLER_ARG=0.5",
        &["check sampling = 50"],
    ),
    row(
        "a bad ratio",
        "OTEL_TRACES_SAMPLER=traceidratio\nOTEL_TRACES_SAMPLER_ARG=half",
        &[
            "sampler = traceidratio{1}",
            "warning: OTEL_TRACES_SAMPLER_ARG: ignored: \"half\" is not a share of all traces; write 0 to 1, like 0.25",
        ],
    ),
    row(
        "an unknown sampler",
        "OTEL_TRACES_SAMPLER=allways_on",
        &[
            "check sampling = 100",
            "warning: OTEL_TRACES_SAMPLER: ignored: \"allways_on\" is not known; did you mean \"always_on\"?",
        ],
    ),
    row("known propagators", "OTEL_PROPAGATORS=tracecontext,baggage", &["exporters = otlp"]),
    row(
        "a propagator that is not spoken",
        "OTEL_PROPAGATORS=tracecontext,b3",
        &[
            "exporters = otlp",
            "warning: OTEL_PROPAGATORS: ignored: \"b3\" is not supported; write tracecontext, baggage or none",
        ],
    ),
    row(
        "a bad limit",
        "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=many",
        &[
            "exporters = otlp",
            "warning: OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT: ignored: \"many\" is not a whole number; write 0 to 4294967295",
        ],
    ),
];

const PACE: &[Row] = &[
    row("no throttle", "", &["throttle = 0s", "check throttle_ms = 0"]),
    row(
        "spans linger for five seconds",
        "OTEL_LOGS_EXPORTER=none\nOTEL_METRICS_EXPORTER=none",
        &["linger = 5s"],
    ),
    row("logs linger for one", "OTEL_TRACES_EXPORTER=none\nOTEL_METRICS_EXPORTER=none", &["linger = 1s"]),
    row(
        "a delay of spans",
        "OTEL_BSP_SCHEDULE_DELAY=200\nOTEL_LOGS_EXPORTER=none",
        &["linger = 200ms", "linger from OTEL_BSP_SCHEDULE_DELAY"],
    ),
    row(
        "a delay of logs",
        "OTEL_BLRP_SCHEDULE_DELAY=200\nOTEL_TRACES_EXPORTER=none",
        &["linger = 200ms", "linger from OTEL_BLRP_SCHEDULE_DELAY"],
    ),
    row(
        "a time to deliver spans",
        "OTEL_BSP_EXPORT_TIMEOUT=30000\nOTEL_LOGS_EXPORTER=none\nOTEL_METRICS_EXPORTER=none",
        &["give-up-after = 30s"],
    ),
    row(
        "a time to deliver logs",
        "OTEL_BLRP_EXPORT_TIMEOUT=30000\nOTEL_TRACES_EXPORTER=none\nOTEL_METRICS_EXPORTER=none",
        &["give-up-after = 30s"],
    ),
    row(
        "a queue of spans",
        "OTEL_BSP_MAX_QUEUE_SIZE=7\nOTEL_LOGS_EXPORTER=none\nOTEL_METRICS_EXPORTER=none",
        &["queue-records = 7"],
    ),
    row(
        "a queue of logs",
        "OTEL_BLRP_MAX_QUEUE_SIZE=7\nOTEL_TRACES_EXPORTER=none\nOTEL_METRICS_EXPORTER=none",
        &["queue-records = 7"],
    ),
    row(
        "a batch of spans",
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=7\nOTEL_LOGS_EXPORTER=none\nOTEL_METRICS_EXPORTER=none",
        &["batch-records = 7"],
    ),
    row(
        "a batch of logs",
        "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE=7\nOTEL_TRACES_EXPORTER=none\nOTEL_METRICS_EXPORTER=none",
        &["batch-records = 7"],
    ),
    row(
        "a full queue drops",
        "OTEL_BSP_ON_QUEUE_FULL=DROP\nOTEL_LOGS_EXPORTER=none\nOTEL_METRICS_EXPORTER=none",
        &["lossy = true", "lossy from OTEL_BSP_ON_QUEUE_FULL"],
    ),
    row(
        "a full queue lets wait",
        "OTEL_BSP_ON_QUEUE_FULL=BLOCK\nOTEL_LOGS_EXPORTER=none\nOTEL_METRICS_EXPORTER=none",
        &["lossy = false"],
    ),
    row(
        "a full queue of logs drops",
        "OTEL_BLRP_ON_QUEUE_FULL=drop\nOTEL_TRACES_EXPORTER=none\nOTEL_METRICS_EXPORTER=none",
        &["lossy = true"],
    ),
    row(
        "a bad number",
        "OTEL_BSP_MAX_QUEUE_SIZE=lots",
        &[
            "queue-records = 32768",
            "warning: OTEL_BSP_MAX_QUEUE_SIZE: ignored: \"lots\" is not a whole number; write 1 to 16777215",
        ],
    ),
    row(
        "different values for spans and logs",
        "OTEL_BSP_MAX_QUEUE_SIZE=7\nOTEL_BLRP_MAX_QUEUE_SIZE=8\nOTEL_METRICS_EXPORTER=none",
        &[
            "exporters = otlp.traces, otlp.logs",
            "otlp.traces/queue-records = 7",
            "otlp.logs/queue-records = 8",
        ],
    ),
    row(
        "an interval",
        "OTEL_METRIC_EXPORT_INTERVAL=5000",
        &["interval = 5s", "interval from OTEL_METRIC_EXPORT_INTERVAL"],
    ),
    row("one minute between pushes", "", &["interval = 1m", "check interval_ms = 60000"]),
    row(
        "a time to deliver metrics",
        "OTEL_METRIC_EXPORT_TIMEOUT=3000\nOTEL_TRACES_EXPORTER=none\nOTEL_LOGS_EXPORTER=none",
        &["give-up-after = 3s"],
    ),
    row("delta", "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=delta", &["temporality = delta"]),
    row(
        "cumulative",
        "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=cumulative",
        &["temporality = cumulative"],
    ),
    row(
        "low memory, in any case",
        "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=LowMemory",
        &["temporality = lowmemory"],
    ),
    row(
        "an unknown temporality",
        "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=often",
        &[
            "temporality = cumulative",
            "warning: OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE: ignored: \"often\" is not known; write cumulative, delta or lowmemory",
        ],
    ),
    row(
        "exponential",
        "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION=base2_exponential_bucket_histogram",
        &["histograms = exponential"],
    ),
    row(
        "explicit",
        "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION=explicit_bucket_histogram",
        &["histograms = explicit"],
    ),
    row(
        "an unknown aggregation",
        "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION=linear",
        &[
            "histograms = explicit",
            "warning: OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION: ignored: \"linear\" is not known; write explicit_bucket_histogram or base2_exponential_bucket_histogram",
        ],
    ),
];

const NAMES: &[Row] = &[
    row(
        "a slip",
        "OTEL_EXPORTER_OTLP_ENDPONT=http://a.test",
        &[
            "exporters = otlp",
            "warning: OTEL_EXPORTER_OTLP_ENDPONT: unknown variable; did you mean OTEL_EXPORTER_OTLP_ENDPOINT?",
        ],
    ),
    row(
        "a slip in a name that is not of an exporter",
        "OTEL_SERVICENAME=shop",
        &["exporters = otlp", "warning: OTEL_SERVICENAME: unknown variable; did you mean OTEL_SERVICE_NAME?"],
    ),
    row("of another program", "OTEL_PYTHON_LOG_LEVEL=debug\nJAVA_HOME=x", &["exporters = otlp"]),
];

fn sending_to(receiver: &Receiver, text: &str) -> Telemetry {
    let endpoint = receiver.endpoint();
    let all = [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())].into_iter().chain(pairs(text));
    Telemetry::start(Config::from_variables(all).unwrap()).unwrap()
}

#[test]
fn header_values_are_percent_decoded_on_their_way() {
    let receiver = Receiver::start().unwrap();
    let telemetry = sending_to(&receiver, "OTEL_EXPORTER_OTLP_HEADERS=authorization=Basic%20a%3Db,x-one= 1 ");
    telemetry.tracer("shop").span("checkout");
    telemetry.shutdown(LONG);
    let requests = receiver.requests();
    assert_eq!(requests[0].header("authorization"), Some("Basic a=b"));
    assert_eq!(requests[0].header("x-one"), Some("1"));
}

#[test]
fn limits_hold_for_all_attributes_or_for_those_of_one_kind() {
    for (text, attributes, event_attributes, length) in [
        ("OTEL_ATTRIBUTE_COUNT_LIMIT=1", 1, 2, 9),
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=1", 1, 2, 9),
        ("OTEL_ATTRIBUTE_COUNT_LIMIT=1\nOTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=2", 2, 2, 9),
        ("OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT=1", 2, 1, 9),
        ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT=4", 2, 2, 4),
        ("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT=4", 2, 2, 4),
    ] {
        let receiver = Receiver::start().unwrap();
        let telemetry = sending_to(&receiver, text);
        let mut span = telemetry.tracer("shop").span("checkout");
        span.set("a", "long text").set("b", 1);
        span.event("paid").set("a", 1).set("b", 2);
        drop(span);
        telemetry.shutdown(LONG);
        let span = &receiver.spans()[0].span;
        let first = format!("{:?}", span.attributes[0].value);
        assert_eq!(
            (span.attributes.len(), span.events[0].attributes.len()),
            (attributes, event_attributes),
            "{text}"
        );
        assert!(first.contains(&format!("{:?}", &"long text"[..length])), "{text}: {first}");
    }
}

#[test]
fn what_is_switched_off_sends_nothing_and_hands_contexts_on() {
    let receiver = Receiver::start().unwrap();
    let telemetry = sending_to(&receiver, "OTEL_SDK_DISABLED=true");
    let remote = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let parent = SpanContext::from_traceparent(remote).unwrap();
    let span = telemetry.tracer("shop").build("work").parent(&parent).start();
    assert_eq!(span.context().traceparent(), remote);
    drop(span);
    telemetry.shutdown(LONG);
    assert_eq!(receiver.connection_count(), 0);
}
