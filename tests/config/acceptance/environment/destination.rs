//! Destinations: for all signals, and for each signal.

use crate::acceptance::table::{Row, row};

pub(super) const DESTINATION: &[Row] = &[
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
        &["error: OTEL_EXPORTER_OTLP_ENDPOINT: \"http://***\" holds a user name or password; \
            send them as a header: \"Authorization: Basic …\""],
    ),
    row(
        "an unknown scheme",
        "OTEL_EXPORTER_OTLP_ENDPOINT=ftp://a.test",
        &[
            "error: OTEL_EXPORTER_OTLP_ENDPOINT: \"ftp://***\" has an unknown scheme; write http:// or https://",
        ],
    ),
    row(
        "protobuf over HTTP",
        "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
        &["transport = http", "transport from OTEL_EXPORTER_OTLP_PROTOCOL"],
    ),
    row("gRPC", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", &["transport = grpc", "traces → http://localhost:4317"]),
    row(
        "JSON over HTTP",
        "OTEL_EXPORTER_OTLP_PROTOCOL=http/json",
        &["transport = http/json", "transport from OTEL_EXPORTER_OTLP_PROTOCOL"],
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
        "gRPC without a scheme is TLS",
        "OTEL_EXPORTER_OTLP_PROTOCOL=grpc\nOTEL_EXPORTER_OTLP_ENDPOINT=collector.example:443\n\
            OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20hunter2",
        &["traces → https://collector.example:443", "check tls = true"],
    ),
    row(
        "HTTP to the port of https is TLS, too",
        "OTEL_EXPORTER_OTLP_ENDPOINT=collector.example:443\nOTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20hunter2",
        &["traces → https://collector.example:443/v1/traces", "check tls = true"],
    ),
    row(
        "but not on loopback",
        "OTEL_EXPORTER_OTLP_PROTOCOL=grpc\nOTEL_EXPORTER_OTLP_ENDPOINT=localhost",
        &["traces → http://localhost:4317", "check tls = false"],
    ),
    row(
        "credentials in clear text",
        "OTEL_EXPORTER_OTLP_ENDPOINT=collector.example:4318\nOTEL_EXPORTER_OTLP_HEADERS=authorization=hunter2",
        &[
            "warning: OTEL_EXPORTER_OTLP_HEADERS: credentials are sent in clear text: the endpoint is not https; \
            begin the endpoint with https://",
        ],
    ),
    row(
        "not insecure",
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
        "OTEL_EXPORTER_OTLP_COMPRESSION=lz4",
        &[
            "compression = none",
            "warning: OTEL_EXPORTER_OTLP_COMPRESSION: ignored: \"lz4\" is not known; write gzip or none",
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

pub(super) const SIGNALS: &[Row] = &[
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
            "warning: OTEL_EXPORTER_OTLP_LOGS_ENDPOINT: has no path, so logs are posted to /; append /v1/logs",
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
        "one signal that is insecure",
        "OTEL_EXPORTER_OTLP_PROTOCOL=grpc\nOTEL_EXPORTER_OTLP_ENDPOINT=a.test:99\nOTEL_EXPORTER_OTLP_LOGS_INSECURE=true",
        &["otlp.logs/logs → http://a.test:99", "otlp/traces → https://a.test:99"],
    ),
    row(
        "what is the same for all is one exporter",
        "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT=200\nOTEL_EXPORTER_OTLP_LOGS_TIMEOUT=200\nOTEL_EXPORTER_OTLP_METRICS_TIMEOUT=200",
        &["exporters = otlp", "timeout = 200ms"],
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
            "warning: OTEL_TRACES_EXPORTER: \"zipkin\" is not supported and starts no exporter; write otlp, console, otlp/stdout or none",
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
    row(
        "on the console",
        "OTEL_TRACES_EXPORTER=console\nOTEL_LOGS_EXPORTER=none\nOTEL_METRICS_EXPORTER=none",
        &["check transport = console", "check signals = traces"],
    ),
    row(
        "both",
        "OTEL_TRACES_EXPORTER=otlp,console\nOTEL_LOGS_EXPORTER=none\nOTEL_METRICS_EXPORTER=none",
        &["exporters = otlp, console", "otlp/check transport = http", "console/check transport = console"],
    ),
];
