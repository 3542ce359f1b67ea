//! Signals of a configuration, and the settings of logs and metrics: effective settings and exact messages.

use standpipe::{Config, Exporter, Severity, Signal};

use crate::support::settings::{diagnostics, names, refused, tracer, value};

/// A metrics exporter, with further keys below.
fn metrics(keys: &str) -> String {
    format!("[metrics.open-telemetry]\ntransport = \"http\"\n{keys}\n")
}

fn loaded(text: &str) -> Config {
    Config::from_toml_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn self_observation(config: &Config) -> String {
    let settings = config.effective();
    let setting = settings.iter().find(|setting| setting.key == "self-observation");
    setting.expect("it is always shown").to_string()
}

#[test]
fn an_exporter_in_code_sends_every_signal_with_the_recommended_settings() {
    let config = Config::new().exporter(Exporter::http("localhost"));
    for (key, default) in [
        ("signals", "traces, logs, metrics"),
        ("level", "trace"),
        ("interval", "1m"),
        ("temporality", "cumulative"),
        ("histograms", "explicit"),
    ] {
        assert_eq!(value(&config, key), default, "{key}");
    }
}

#[test]
fn only_settings_that_make_a_difference_to_the_signals_are_shown() {
    const OF_LOGS: [&str; 1] = ["level"];
    const OF_METRICS: [&str; 4] = ["interval", "temporality", "histograms", "cardinality-limit"];
    const OF_RECORDS: [&str; 4] = ["throttle", "linger", "lossy", "block-timeout"];
    let all = OF_LOGS.len() + OF_METRICS.len() + OF_RECORDS.len();
    for (signals, shown) in [
        (vec![Signal::Traces], OF_RECORDS.to_vec()),
        (vec![Signal::Logs], [&OF_LOGS[..], &OF_RECORDS].concat()),
        (vec![Signal::Metrics, Signal::Metrics], OF_METRICS.to_vec()),
        (vec![Signal::Metrics, Signal::Traces], [&OF_METRICS[..], &OF_RECORDS].concat()),
    ] {
        let every = Exporter::http("localhost").effective().len();
        let settings = Exporter::http("localhost").signals(signals.clone()).effective();
        assert_eq!(settings.len(), every - all + shown.len(), "{signals:?}");
        for key in shown {
            assert!(settings.iter().any(|setting| setting.key == key), "{signals:?}: {key}");
        }
    }
}

#[test]
fn a_level_may_be_any_severity_or_none() {
    let level = |exporter| value(&Config::new().exporter(exporter), "level");
    assert_eq!(level(Exporter::http("localhost").level(Severity::Trace)), "trace");
    assert_eq!(level(Exporter::http("localhost").level(Some(Severity::Fatal4))), "fatal4");
    assert_eq!(level(Exporter::http("localhost").level(None)), "disable");
}

#[test]
fn the_switches_of_a_tracer_choose_its_signals() {
    for (keys, signals) in [
        ("", "traces (default)"),
        ("enable.log-exporter = false", "traces (<toml>:4:23)"),
        ("enable.log-exporter = true", "traces, logs (<toml>:4:23)"),
        ("enable.span-exporter = true", "traces (<toml>:4:24)"),
        ("enable.span-exporter = false\nenable.log-exporter = true", "logs (<toml>:5:23)"),
        (
            "enable = true\nenable.log-exporter = true\nenable.span-exporter = true",
            "traces, logs (<toml>:5:23)",
        ),
    ] {
        let config = loaded(&tracer(keys));
        assert_eq!(diagnostics(&config), [""; 0], "{keys}");
        let settings = config.exporters()[0].effective();
        let shown: Vec<String> = settings.iter().map(ToString::to_string).collect();
        assert!(shown.contains(&format!("signals = {signals}")), "{keys}: {shown:?}");
        assert!(!shown.iter().any(|setting| setting.starts_with("interval")), "{keys}: {shown:?}");
    }
}

#[test]
fn the_level_of_a_tracer_is_that_of_its_logs() {
    for (keys, level) in
        [("", "info"), ("level = 'WARN'", "warn"), ("level = 'trace'", "trace"), ("level = 'error'", "error")]
    {
        let config = loaded(&tracer(&format!("enable.log-exporter = true\n{keys}")));
        assert_eq!(diagnostics(&config), [""; 0], "{keys}");
        assert_eq!(value(&config, "level"), level, "{keys}");
    }
    let without_logs = loaded(&tracer("level = 'disable'"));
    assert_eq!(diagnostics(&without_logs), [""; 0]);
    assert_eq!(value(&without_logs, "signals"), "traces");
}

#[test]
fn a_level_that_lets_no_log_pass_switches_logs_off_and_says_so() {
    const NO_LOGS: &str = "warning: <toml>:5:9: tracer.otel.level: no logs are sent; \
                           write a level, or enable.log-exporter = false";
    let config = loaded(&tracer("enable.log-exporter = true\nlevel = 'disable'"));
    assert_eq!(diagnostics(&config), [NO_LOGS]);
    assert_eq!(value(&config, "signals"), "traces");

    let config =
        loaded(&tracer("enable.log-exporter = true\nlevel = 'disable'\nenable.span-exporter = false"));
    let not_started = "warning: <toml>:6:24: tracer.otel.enable.span-exporter: \
                       not started: neither spans nor logs would be sent; write true, or enable = false";
    assert_eq!(diagnostics(&config), [NO_LOGS, not_started]);
    assert!(config.exporters().is_empty());
}

#[test]
fn spans_and_logs_at_one_path_are_a_warning() {
    // The documented example, with the log exporter that the text of the documentation describes.
    let keys = "endpoint = \"https://tracing.mydomain.test/v1/otel\"\nheaders = [\"Authorization: <place_auth_here>\"]\n\
                level = \"debug\"\nenable = true\n";
    let both = loaded(&tracer(&format!("{keys}enable.log-exporter = true")));
    assert_eq!(
        diagnostics(&both),
        ["warning: <toml>:4:12: tracer.otel.endpoint: traces and logs are posted to the same path; \
          leave the path out, or write one table for each"]
    );
    assert_eq!(value(&both, "signals"), "traces, logs");
    assert_eq!(value(&both, "level"), "debug");

    let one_each = format!(
        "{}[tracer.logs]\ntype = 'otel'\ntransport = 'http'\nendpoint = 'http://localhost:4318/logs'\n\
         enable.log-exporter = true\nenable.span-exporter = false\n",
        tracer("endpoint = 'http://localhost:4318/spans'")
    );
    let config = loaded(&one_each);
    assert_eq!(diagnostics(&config), [""; 0]);
    assert_eq!(names(&config), ["otel", "logs"]);
}

const METRICS_EXAMPLE: &str = r#"[metrics.open-telemetry]
transport = "grpc"
endpoint = "https://otel-collector.example.com/v1/metrics"
interval = "30s"
"#;

#[test]
fn the_documented_metrics_example_loads_as_it_is() {
    let config = loaded(METRICS_EXAMPLE);
    assert_eq!(value(&config, "transport"), "grpc");
    assert_eq!(value(&config, "interval"), "30s");
    let endpoint = "https://otel-collector.example.com:443".to_owned();
    assert_eq!(config.exporters()[0].endpoints(), [(Signal::Metrics, endpoint)]);
}

#[test]
fn the_documented_metrics_example_over_http_loads_without_a_word() {
    let config = loaded(&METRICS_EXAMPLE.replace("grpc", "http"));
    assert_eq!(diagnostics(&config), [""; 0]);
    assert_eq!(names(&config), ["metrics.open-telemetry"]);
    let shown: Vec<String> = config.exporters()[0].effective().iter().map(ToString::to_string).collect();
    assert_eq!(
        shown[..7],
        [
            "transport = http (<toml>:2:13)",
            "endpoint = https://otel-collector.example.com/v1/metrics (<toml>:3:12)",
            "headers = none (default)",
            "signals = metrics (<toml>:1:10)",
            "interval = 30s (<toml>:4:12)",
            "temporality = cumulative (default)",
            "histograms = explicit (default)",
        ]
    );
}

#[test]
fn every_good_value_of_metrics_becomes_the_effective_one() {
    for (line, key, effective) in [
        ("", "transport", "http"),
        ("", "endpoint", "http://localhost:4318"),
        ("", "headers", "none"),
        ("", "signals", "metrics"),
        ("", "interval", "1m"),
        ("", "timeout", "10s"),
        ("", "queue-records", "32768"),
        ("interval = 1000", "interval", "1s"),
        ("interval = '5 S'", "interval", "5s"),
        ("interval = '365d'", "interval", "365d"),
        ("temporality = 'cumulative'", "temporality", "cumulative"),
        ("temporality = 'delta'", "temporality", "delta"),
        ("temporality = 'LowMemory'", "temporality", "lowmemory"),
        ("histograms = 'explicit'", "histograms", "explicit"),
        ("histograms = 'exponential'", "histograms", "exponential"),
        ("headers = ['A: 1', \"B : 2:3\"]", "headers", "A: ***, B: ***"),
        ("[metrics.open-telemetry.headers]\nAuthorization = 'x'", "headers", "Authorization: ***"),
        ("timeout = '3s'", "timeout", "3s"),
        ("queue-records = 7", "queue-records", "7"),
        ("queue-bytes = '1 MiB'", "queue-bytes", "1 MiB"),
        ("batch-records = 7", "batch-records", "7"),
        ("batch-bytes = '1 MiB'", "batch-bytes", "1 MiB"),
        ("give-up-after = '1h'", "give-up-after", "1h"),
        ("retry-first-delay = '1s'", "retry-first-delay", "1s"),
        ("retry-max-delay = '1m'", "retry-max-delay", "1m"),
        ("compression = 'gzip'", "compression", "gzip"),
        ("proxy = 'off'", "proxy", "off"),
        (
            "user-agent = 'shop/1'",
            "user-agent",
            concat!("shop/1 standpipe/", env!("CARGO_PKG_VERSION"), " (rust)"),
        ),
    ] {
        let config = loaded(&metrics(line));
        assert_eq!(diagnostics(&config), [""; 0], "{line}");
        assert_eq!(value(&config, key), effective, "{line}");
    }
}

#[test]
fn every_bad_value_of_metrics_has_its_own_message() {
    for (line, message) in [
        ("interval = 0", "3:12: metrics.open-telemetry.interval: 0s is too short; write 1ms to 365d"),
        ("interval = '366d'", "3:12: metrics.open-telemetry.interval: 366d is too long; write at most 365d"),
        (
            "interval = '1m30s'",
            "3:12: metrics.open-telemetry.interval: \"1m30s\" has more than one unit; write \"90s\"",
        ),
        (
            "interval = true",
            "3:12: metrics.open-telemetry.interval: found a boolean; write a duration like \"1m\"",
        ),
        ("interval = 1m", "3:12: metrics.open-telemetry.interval: not a value; write a duration like \"1m\""),
        (
            "interval = often",
            "3:12: metrics.open-telemetry.interval: not a value; write a duration like \"1m\"",
        ),
        (
            "temporality = 'low-memory'",
            "3:15: metrics.open-telemetry.temporality: \"low-memory\" is not known; \
             did you mean \"lowmemory\"?",
        ),
        (
            "histograms = 160",
            "3:14: metrics.open-telemetry.histograms: found an integer; write \"explicit\" or \"exponential\"",
        ),
        (
            "self-observation = 'true'",
            "3:20: metrics.open-telemetry.self-observation: found a string; write true or false, without quotes",
        ),
        (
            "headers = ['hunter2']",
            "3:12: metrics.open-telemetry.headers: header without a colon; write it like \"Name: value\"",
        ),
        (
            "endpoint = 'ftp://a'",
            "3:12: metrics.open-telemetry.endpoint: \"ftp://***\" has an unknown scheme; write http:// or https://",
        ),
        (
            "retry-first-delay = '1m'",
            "1:10: metrics.open-telemetry.retry-max-delay: 30s is shorter than retry-first-delay, 1m; write 1m or more",
        ),
        (
            "client-key-file = 'Cargo.toml'",
            "3:19: metrics.open-telemetry.client-certificate-file: missing, but needed by client-key-file; write both or neither",
        ),
        (
            "timeout = 1000\ntimeout = 2",
            "4:1: metrics.open-telemetry.timeout: duplicate key; it is already set in line 3; remove one of the two",
        ),
        ("timeout", "3:1: metrics.open-telemetry.timeout: key without a value; write key = value"),
    ] {
        let error = refused(&metrics(line));
        assert_eq!(error.to_string(), format!("<toml>:{message}"), "{line}");
        assert!(error.into_usable().exporters().is_empty(), "{line}");
    }
    for (text, message) in [
        (
            "[metrics.open-telemetry]\ntransport = 'carrier-pigeon'",
            "<toml>:2:13: metrics.open-telemetry.transport: \"carrier-pigeon\" is not known; \
             write \"http\", \"http/json\", \"grpc\", \"file\", \"console\" or \"disable\"",
        ),
        (
            "[metrics]\nopen-telemetry = 'http'",
            "<toml>:2:18: metrics.open-telemetry: found a string; write a table like [metrics.open-telemetry]",
        ),
        (
            "[[metrics.open-telemetry]]\ntransport = 'http'",
            "<toml>:1:1: metrics.open-telemetry: found an array; write a table like [metrics.open-telemetry]",
        ),
    ] {
        assert_eq!(refused(text).to_string(), message, "{text}");
    }
}

#[test]
fn what_is_odd_about_metrics_but_works_is_told() {
    for (line, message) in [
        ("intervall = '1m'", "intervall: unknown key; did you mean \"interval\"?"),
        ("histogram = 'explicit'", "histogram: unknown key; did you mean \"histograms\"?"),
        ("self_observation = true", "self_observation: unknown key; did you mean \"self-observation\"?"),
        ("colour = 'red'", "colour: unknown key; remove it"),
        ("level = 'info'", "level: has no effect here; remove it"),
        ("lossy = true", "lossy: has no effect here; remove it"),
        ("throttle = '1s'", "throttle: has no effect here; remove it"),
        ("linger = '1s'", "linger: has no effect here; remove it"),
        ("block-timeout = '1s'", "block-timeout: has no effect here; remove it"),
        ("signals = 'metrics'", "signals: has no effect here; remove it"),
        ("type = 'otel'", "type: has no effect here; remove it"),
        ("enable = true", "enable: has no effect here; write transport = \"disable\" to switch metrics off"),
    ] {
        let config = loaded(&metrics(line));
        assert_eq!(
            diagnostics(&config),
            [format!("warning: <toml>:3:1: metrics.open-telemetry.{message}")],
            "{line}"
        );
        assert_eq!(names(&config), ["metrics.open-telemetry"], "{line}");
    }
}

#[test]
fn metrics_are_off_unless_they_have_a_transport() {
    for (text, is_described) in [
        ("", false),
        ("[metrics]", false),
        ("[metrics.open-telemetry]", true),
        ("[metrics.open-telemetry]\ntransport = 'disable'", true),
        (
            "[metrics.open-telemetry]\ntransport = 'disabled'\nself-observation = true\ninterval = 0\nnonsense = 1",
            true,
        ),
        ("[metrics.prometheus]\nenable = true\nopen-telemetry = 5", false),
        ("metrics = 'all'", false),
    ] {
        let config = loaded(text);
        let told = diagnostics(&config);
        assert!(told.iter().all(|told| told.contains("describes no exporter")), "{text}: {told:?}");
        assert_eq!(told.len(), usize::from(!is_described), "{text}");
        assert!(config.exporters().is_empty(), "{text}");
        assert_eq!(self_observation(&config), "self-observation = false (default)", "{text}");
    }
    let config = loaded("[metrics.open-telemetry]\nendpoint = 'localhost'");
    assert_eq!(
        diagnostics(&config),
        ["note: <toml>:1:10: metrics.open-telemetry.transport: not started: it has no transport; \
          write transport = \"http\""]
    );
    assert!(config.exporters().is_empty());
}

#[test]
fn metrics_may_be_written_in_every_form_of_toml() {
    for text in [
        "[metrics.open-telemetry]\ntransport = 'https'\ninterval = '5s'",
        "[metrics]\nopen-telemetry.transport = 'http'\nopen-telemetry.interval = '5s'\nprometheus.enable = true",
        "metrics.open-telemetry = { transport = 'http', interval = '5s' }",
        "metrics = { open-telemetry = { transport = 'http', interval = '5s' }, prometheus = {} }",
        "metrics.\"open-telemetry\".transport = 'http'\nmetrics.'open-telemetry'.interval = 5_000",
    ] {
        let config = loaded(text);
        assert_eq!(diagnostics(&config), [""; 0], "{text}");
        assert_eq!(names(&config), ["metrics.open-telemetry"], "{text}");
        assert_eq!(value(&config, "interval"), "5s", "{text}");
    }
}

#[test]
fn exporters_stand_in_the_order_of_the_file() {
    let config = loaded(&format!("{}{}", metrics(""), tracer("")));
    assert_eq!(names(&config), ["metrics.open-telemetry", "otel"]);
    let config = loaded(&format!("{}{}", tracer(""), metrics("")));
    assert_eq!(names(&config), ["otel", "metrics.open-telemetry"]);
}

#[test]
fn broken_metrics_disable_no_tracer_and_a_broken_tracer_no_metrics() {
    let broken_metrics = [
        metrics("interval = 0"),
        metrics("interval"),
        metrics("!!!"),
        metrics("headers = ['A: 1' 'B: 2']"),
        metrics("[metrics.open-telemetry.headers\nA = '1'"),
        "[metrics]\nopen-telemetry = 5\n".to_owned(),
        "[metrics\nopen-telemetry.transport = 'http'\n".to_owned(),
    ];
    for broken in broken_metrics {
        for text in [format!("{broken}{}", tracer("")), format!("{}{broken}", tracer(""))] {
            assert_eq!(names(&refused(&text).into_usable()), ["otel"], "{text}");
        }
    }
    for broken in [tracer("timeout = 0"), tracer("timeout"), tracer("[tracer.otel.headers\nA = '1'")] {
        for text in [format!("{broken}{}", metrics("")), format!("{}{broken}", metrics(""))] {
            assert_eq!(names(&refused(&text).into_usable()), ["metrics.open-telemetry"], "{text}");
        }
    }
}

#[test]
fn metrics_do_not_start_without_their_headers_if_those_cannot_be_read() {
    for text in [
        metrics("[metrics.open-telemetry.headers\nAuthorization = 'hunter2'"),
        "metrics = {open-telemetry = {transport = 'http', headers = [hunter2]}}".to_owned(),
        "[tracer]\n[\nAuthorization = 'hunter2'\n[metrics.open-telemetry]\ntransport = 'http'".to_owned(),
    ] {
        let error = refused(&text);
        assert!(!error.to_string().contains("hunter2"), "{error}");
        assert!(error.into_usable().exporters().is_empty(), "{text}");
    }
}

#[test]
fn self_observation_is_asked_for_in_a_file_or_in_code() {
    assert_eq!(self_observation(&Config::new()), "self-observation = false (default)");
    let config = loaded(&metrics("self-observation = true"));
    assert_eq!(self_observation(&config), "self-observation = true (<toml>:3:20)");
    assert_eq!(self_observation(&config.self_observation(false)), "self-observation = false (code)");
    assert_eq!(self_observation(&Config::new().self_observation(true)), "self-observation = true (code)");
}
