//! Endpoints: the given text, and the destination for each transport.
//!
//! A build without TLS reports `https` as an error at start. The unit tests of the rules cover this case, because these
//! tests are built with TLS.

use crate::acceptance::outcome::Outcome;
use crate::acceptance::rules::text;
use crate::acceptance::table::{Row, Table, hold, row};

pub(crate) const TABLES: &[Table] = &[
    Table { name: "over http", read: over_http, rows: HTTP },
    Table { name: "over grpc", read: over_grpc, rows: GRPC },
];

#[test]
fn every_row_holds() {
    hold(TABLES);
}

fn over_http(keys: &str) -> Outcome {
    text(&format!("[tracer.otel]\ntype = \"otel\"\ntransport = \"http\"\n{keys}\n"))
}

fn over_grpc(keys: &str) -> Outcome {
    text(&format!("[tracer.otel]\ntype = \"otel\"\ntransport = \"grpc\"\n{keys}\n"))
}

const HTTP: &[Row] = &[
    row(
        "nothing",
        "",
        &[
            "endpoint = http://localhost:4318",
            "endpoint from default",
            "traces → http://localhost:4318/v1/traces",
        ],
    ),
    row(
        "each signal has its path",
        "enable.log-exporter = true",
        &["traces → http://localhost:4318/v1/traces", "logs → http://localhost:4318/v1/logs"],
    ),
    row(
        "host and port",
        "endpoint = 'a.test:99'",
        &["traces → http://a.test:99/v1/traces", "check tls = false"],
    ),
    row("a host", "endpoint = 'a.test'", &["traces → http://a.test:4318/v1/traces", "check tls = false"]),
    row(
        "a host without dots",
        "endpoint = 'otel-collector'",
        &["traces → http://otel-collector:4318/v1/traces"],
    ),
    row("an IPv4 address", "endpoint = '127.0.0.1'", &["traces → http://127.0.0.1:4318/v1/traces"]),
    row("an IPv6 address in brackets", "endpoint = '[::1]'", &["traces → http://[::1]:4318/v1/traces"]),
    row("with a port", "endpoint = '[::1]:99'", &["traces → http://[::1]:99/v1/traces"]),
    row("a URL without a path", "endpoint = 'http://a.test:99'", &["traces → http://a.test:99/v1/traces"]),
    row("a URL with a slash", "endpoint = 'http://a.test:99/'", &["traces → http://a.test:99/v1/traces"]),
    row("a path of one's own", "endpoint = 'http://a.test/v1/otel'", &["traces → http://a.test/v1/otel"]),
    row(
        "the signal's path is not doubled",
        "endpoint = 'http://a.test/v1/traces'",
        &["traces → http://a.test/v1/traces"],
    ),
    row(
        "a path that ends with a slash",
        "endpoint = 'http://a.test/otlp/'",
        &["traces → http://a.test/otlp/"],
    ),
    row(
        "no port: 80, which needs no saying",
        "endpoint = 'http://a.test'",
        &["traces → http://a.test/v1/traces"],
    ),
    row(
        "https",
        "endpoint = 'https://a.test:99'",
        &["traces → https://a.test:99/v1/traces", "check tls = true"],
    ),
    row(
        "no port: 443",
        "endpoint = 'https://a.test'",
        &["traces → https://a.test/v1/traces", "check tls = true"],
    ),
    row(
        "port 443 without a scheme",
        "endpoint = 'a.test:443'\nheaders = 'Authorization: hunter2'",
        &["traces → https://a.test:443/v1/traces", "check tls = true"],
    ),
    row("the scheme in capitals", "endpoint = 'HTTPS://a.test'", &["traces → https://a.test/v1/traces"]),
    row(
        "certificates are always verified: nothing switches it off",
        "endpoint = 'https://a.test'\ninsecure = true",
        &[
            "check tls = true",
            "warning: 5:1: tracer.otel.insecure: unknown key; \
                the scheme of endpoint decides: write http:// or https://",
        ],
    ),
    row(
        "credentials in clear text",
        "endpoint = 'a.test'\nheaders = 'Authorization: hunter2'",
        &[
            "warning: 5:11: tracer.otel.headers: credentials are sent in clear text: the endpoint is not https; \
            begin the endpoint with https://",
        ],
    ),
    row(
        "a secret in clear text, whatever its header is called",
        "endpoint = 'http://a.test'\nheaders = ['x-id: %{env:PATH}%']",
        &[
            "warning: 5:11: tracer.otel.headers: credentials are sent in clear text: the endpoint is not https; \
            begin the endpoint with https://",
        ],
    ),
    row(
        "what is no credential",
        "endpoint = 'http://a.test'\nheaders = ['x-scope-orgid: seven']",
        &["headers = x-scope-orgid: ***"],
    ),
    row(
        "a path that two signals share",
        "endpoint = 'http://a.test/otlp'\nenable.log-exporter = true",
        &[
            "traces → http://a.test/otlp",
            "logs → http://a.test/otlp",
            "warning: 4:12: tracer.otel.endpoint: traces and logs are posted to the same path; \
                leave the path out, or write one table for each",
        ],
    ),
    row(
        "user and password",
        "endpoint = 'http://user:hunter2@a.test'",
        &["error: 4:12: tracer.otel.endpoint: \"http://***\" holds a user name or password; \
            send them as a header: \"Authorization: Basic …\""],
    ),
    row(
        "a user without a scheme",
        "endpoint = 'hunter2@a.test'",
        &["error: 4:12: tracer.otel.endpoint: \"***\" holds a user name or password; \
            send them as a header: \"Authorization: Basic …\""],
    ),
    row(
        "an unknown scheme",
        "endpoint = 'ftp://a.test'",
        &[
            "error: 4:12: tracer.otel.endpoint: \"ftp://***\" has an unknown scheme; write http:// or https://",
        ],
    ),
    row(
        "the transport as a scheme",
        "endpoint = 'grpc://a.test'",
        &["error: 4:12: tracer.otel.endpoint: \"grpc://***\" has an unknown scheme; \
            write http:// or https://; the transport setting selects gRPC"],
    ),
    row(
        "IPv6 without brackets",
        "endpoint = '::1'",
        &["error: 4:12: tracer.otel.endpoint: \"***\" has an IPv6 address without brackets, or two ports; \
            write it like \"http://[::1]:4318\""],
    ),
    row(
        "IPv6 without brackets in a URL",
        "endpoint = 'http://2001:db8::1/x'",
        &["error: 4:12: tracer.otel.endpoint: \"http://***\" has an IPv6 address without brackets, \
            or two ports; write it like \"http://[::1]:4318\""],
    ),
    row(
        "empty",
        "endpoint = ''",
        &["error: 4:12: tracer.otel.endpoint: \"\" is empty; leave it out for \"http://localhost:4318\""],
    ),
    row(
        "a port that is none",
        "endpoint = 'localhost:http'",
        &["error: 4:12: tracer.otel.endpoint: \"***\" has an invalid port; write 1 to 65535, usually 4318"],
    ),
    row(
        "a path but no scheme",
        "endpoint = 'a.test/otel'",
        &["error: 4:12: tracer.otel.endpoint: \"***\" has a path but no scheme; \
            write it in full, like \"http://localhost:4318/v1/traces\""],
    ),
    row(
        "a port alone",
        "endpoint = 4318",
        &["error: 4:12: tracer.otel.endpoint: found an integer; write a URL like \"http://localhost:4318\""],
    ),
];

const GRPC: &[Row] = &[
    row(
        "nothing",
        "",
        &[
            "endpoint = http://localhost:4317",
            "endpoint from default",
            "traces → http://localhost:4317",
            "check tls = false",
        ],
    ),
    row(
        "all signals go to one place",
        "enable.log-exporter = true",
        &["traces → http://localhost:4317", "logs → http://localhost:4317"],
    ),
    row("host and port", "endpoint = 'a.test:99'", &["traces → https://a.test:99", "check tls = true"]),
    row("a host", "endpoint = 'a.test'", &["traces → https://a.test:4317", "check tls = true"]),
    row("loopback", "endpoint = '127.0.0.2:99'", &["traces → http://127.0.0.2:99", "check tls = false"]),
    row("an IPv6 address in brackets", "endpoint = '[::1]'", &["traces → http://[::1]:4317"]),
    row("a URL without a path", "endpoint = 'http://a.test:99'", &["traces → http://a.test:99"]),
    row("a URL with a slash", "endpoint = 'http://a.test:99/'", &["traces → http://a.test:99"]),
    row(
        "a path",
        "endpoint = 'http://a.test:99/otel'",
        &[
            "traces → http://a.test:99",
            "warning: 4:12: tracer.otel.endpoint: the path is ignored: gRPC has none; write \"http://a.test:99\"",
        ],
    ),
    row("no port: 80", "endpoint = 'http://a.test'", &["traces → http://a.test:80", "check tls = false"]),
    row("no port: 443", "endpoint = 'https://a.test'", &["traces → https://a.test:443", "check tls = true"]),
    row(
        "https with a port",
        "endpoint = 'https://a.test:4317'",
        &["traces → https://a.test:4317", "check tls = true"],
    ),
    row(
        "user and password",
        "endpoint = 'http://user:hunter2@a.test'",
        &["error: 4:12: tracer.otel.endpoint: \"http://***\" holds a user name or password; \
            send them as a header: \"Authorization: Basic …\""],
    ),
    row(
        "an unknown scheme",
        "endpoint = 'ftp://a.test'",
        &[
            "error: 4:12: tracer.otel.endpoint: \"ftp://***\" has an unknown scheme; write http:// or https://",
        ],
    ),
    row(
        "IPv6 without brackets",
        "endpoint = '::1'",
        &["error: 4:12: tracer.otel.endpoint: \"***\" has an IPv6 address without brackets, or two ports; \
            write it like \"http://[::1]:4317\""],
    ),
    row(
        "a path but no scheme",
        "endpoint = 'a.test:99/otel'",
        &["error: 4:12: tracer.otel.endpoint: \"***\" has a path but no scheme; \
            gRPC has none: write \"http://localhost:4317\""],
    ),
    row(
        "empty",
        "endpoint = ''",
        &["error: 4:12: tracer.otel.endpoint: \"\" is empty; leave it out for \"http://localhost:4317\""],
    ),
];
