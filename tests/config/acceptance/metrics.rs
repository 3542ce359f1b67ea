//! `[metrics.open-telemetry]`.

use standpipe::receiver::Receiver;
use standpipe::receiver::proto::Data;
use standpipe::{Config, FlushOutcome, Telemetry};

use crate::acceptance::outcome::Outcome;
use crate::acceptance::rules::text;
use crate::acceptance::table::{NO_EXPORTER, Row, Table, hold, row};
use crate::support::scene::LONG;

pub(crate) const TABLES: &[Table] = &[
    Table { name: "keys of metrics", read: metrics, rows: KEYS },
    Table { name: "whole metrics", read: text, rows: WHOLE },
];

#[test]
fn every_row_holds() {
    hold(TABLES);
}

/// Reads a table of metrics whose further keys begin in line 3.
fn metrics(keys: &str) -> Outcome {
    text(&format!("[metrics.open-telemetry]\ntransport = \"http\"\n{keys}\n"))
}

const KEYS: &[Row] = &[
    row("metrics alone", "", &["signals = metrics", "check signals = metrics", "check route = null"]),
    row("what is about records has no meaning", "", &["check level = null", "check throttle_ms = null"]),
    row("the default endpoint", "", &["metrics → http://localhost:4318/v1/metrics", "check tls = false"]),
    row(
        "a path is used as it is",
        "endpoint = 'https://a.test/v1/metrics'",
        &["metrics → https://a.test/v1/metrics", "check tls = true"],
    ),
    row("a host", "endpoint = 'a.test'", &["metrics → http://a.test:4318/v1/metrics"]),
    row("one minute", "", &["interval = 1m", "interval from default", "check interval_ms = 60000"]),
    row(
        "another interval",
        "interval = '30s'",
        &["interval = 30s", "interval from 3:12", "check interval_ms = 30000"],
    ),
    row("milliseconds", "interval = 1500", &["interval = 1500ms"]),
    row(
        "no interval at all",
        "interval = '0s'",
        &["error: 3:12: metrics.open-telemetry.interval: 0s is too short; write 1ms to 365d"],
    ),
    row(
        "two units",
        "interval = '1m30s'",
        &["error: 3:12: metrics.open-telemetry.interval: \"1m30s\" has more than one unit; write \"90s\""],
    ),
    row("no headers", "", &["headers = none"]),
    row("headers", "headers = ['Authorization: hunter2']", &["headers = Authorization: ***"]),
    row(
        "a header without a colon",
        "headers = ['hunter2']",
        &[
            "error: 3:12: metrics.open-telemetry.headers: header without a colon; write it like \"Name: value\"",
        ],
    ),
    row("ten seconds for one attempt", "", &["timeout = 10s", "check timeout_ms = 10000"]),
    row("another time", "timeout = '3s'", &["timeout = 3s"]),
    row("cumulative unless asked otherwise", "", &["temporality = cumulative", "temporality from default"]),
    row("delta", "temporality = 'delta'", &["temporality = delta"]),
    row(
        "an unknown key",
        "intervall = '1m'",
        &["warning: 3:1: metrics.open-telemetry.intervall: unknown key; did you mean \"interval\"?"],
    ),
];

const WHOLE: &[Row] = &[
    row("off by default", "[metrics.open-telemetry]", &["exporters = none"]),
    row(
        "off, and nothing else is read",
        "[metrics.open-telemetry]\ntransport = 'disable'\ninterval = 0\nnonsense = 1",
        &["exporters = none"],
    ),
    row("disabled", "[metrics.open-telemetry]\ntransport = 'disabled'", &["exporters = none"]),
    row(
        "a forgotten transport is told",
        "[metrics.open-telemetry]\nendpoint = 'localhost'\ninterval = 0",
        &[
            "exporters = none",
            "note: 1:10: metrics.open-telemetry.transport: not started: it has no transport; write transport = \"http\"",
        ],
    ),
    row(
        "http",
        "[metrics.open-telemetry]\ntransport = 'http'",
        &["exporters = metrics.open-telemetry", "transport = http"],
    ),
    row("https is http", "[metrics.open-telemetry]\ntransport = 'https'", &["transport = http"]),
    row(
        "grpc",
        "[metrics.open-telemetry]\ntransport = 'grpc'",
        &["transport = grpc", "metrics → http://localhost:4317"],
    ),
    row(
        "a transport that is none",
        "[metrics.open-telemetry]\ntransport = 'udp'",
        &[
            "error: 2:13: metrics.open-telemetry.transport: \"udp\" is not known; write \"http\", \"http/json\", \"grpc\", \"file\", \"console\" or \"disable\"",
        ],
    ),
    row("metrics of others", "[metrics.prometheus]\nenable = true", &["exporters = none", NO_EXPORTER]),
    row(
        "beside a tracer",
        "[metrics.open-telemetry]\ntransport = 'http'\n[tracer.a]\ntype = 'otel'\ntransport = 'http'",
        &[
            "exporters = metrics.open-telemetry, a",
            "metrics.open-telemetry/check interval_ms = 60000",
            "a/check interval_ms = null",
        ],
    ),
];

#[test]
fn what_is_off_opens_no_socket() {
    let receiver = Receiver::start().unwrap();
    let text =
        format!("[metrics.open-telemetry]\ntransport = 'disable'\nendpoint = '{}'", receiver.endpoint());
    let telemetry = Telemetry::start(Config::from_toml_str(&text).unwrap()).unwrap();
    telemetry.meter("shop").counter("orders").add(1, ());
    let ledger = telemetry.shutdown(LONG);
    assert!(ledger.exporters.is_empty(), "{ledger}");
    assert_eq!(receiver.connection_count(), 0);
}

#[test]
fn nothing_is_pushed_before_an_interval_has_passed_and_once_more_at_shutdown() {
    let receiver = Receiver::start().unwrap();
    let text = format!(
        "[metrics.open-telemetry]\ntransport = 'http'\nproxy = 'off'\ninterval = '365d'\nendpoint = '{}'",
        receiver.endpoint()
    );
    let telemetry = Telemetry::start(Config::from_toml_str(&text).unwrap()).unwrap();
    telemetry.meter("shop").counter("orders").add(1, ());
    assert_eq!(receiver.request_count(), 0);
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
    assert_eq!((receiver.request_count(), receiver.point_count()), (1, 1));
}

#[test]
fn sums_and_histograms_are_cumulative_with_a_constant_start() {
    let receiver = Receiver::start().unwrap();
    let text = format!(
        "[metrics.open-telemetry]\ntransport = 'http'\nproxy = 'off'\nendpoint = '{}'",
        receiver.endpoint()
    );
    let telemetry = Telemetry::start(Config::from_toml_str(&text).unwrap()).unwrap();
    let meter = telemetry.meter("shop");
    let (orders, size) = (meter.counter("orders"), meter.histogram("size"));
    orders.add(1, ());
    size.record(5.0, ());
    assert_eq!(telemetry.flush(LONG), FlushOutcome::Complete);
    orders.add(2, ());
    size.record(7.0, ());
    telemetry.shutdown(LONG);

    let (mut sums, mut counts, mut starts) = (Vec::new(), Vec::new(), Vec::new());
    for metric in receiver.metrics() {
        match metric.metric.data.as_ref().unwrap() {
            Data::Sum(sum) => {
                assert_eq!(sum.aggregation_temporality, 2, "cumulative");
                sums.push(format!("{:?}", sum.data_points[0].value.as_ref().unwrap()));
                starts.push(("sum", sum.data_points[0].start_time_unix_nano));
            }
            Data::Histogram(histogram) => {
                assert_eq!(histogram.aggregation_temporality, 2, "cumulative");
                counts.push(histogram.data_points[0].count);
                starts.push(("histogram", histogram.data_points[0].start_time_unix_nano));
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((sums, counts), (vec!["AsInt(1)".to_owned(), "AsInt(3)".to_owned()], vec![1, 2]));
    starts.sort_unstable();
    starts.dedup();
    assert_eq!(starts.len(), 2, "{starts:?}");
}
