//! What a variable is set to, and what comes of it.

use std::time::Duration;

use super::*;
use crate::config::Exporter;
use crate::config::read::expand::Surroundings;
use crate::config::sampler::Sampler;
use crate::record::{Signal, SpanLimits};

pub(super) fn ids(config: &Config) -> Vec<&str> {
    config.exporters().iter().map(Exporter::name).collect()
}

pub(super) fn diagnostics(config: &Config) -> Vec<String> {
    config.diagnostics().iter().map(ToString::to_string).collect()
}

/// Everything that can be seen of a configuration, a line for each setting.
pub(super) fn settings(config: &Config) -> Vec<String> {
    let of_exporter = |exporter: &Exporter| {
        let id = exporter.name().to_owned();
        exporter.effective().into_iter().map(move |setting| format!("{id}: {setting}"))
    };
    let general = config.effective().into_iter().map(|setting| setting.to_string());
    config.exporters().iter().flat_map(of_exporter).chain(general).collect()
}

#[track_caller]
pub(super) fn sound(variables: &[(&str, &str)]) -> Config {
    match Config::from_variables(variables.iter().copied()) {
        Ok(config) => config,
        Err(error) => panic!("{variables:?}: {error}"),
    }
}

#[track_caller]
pub(super) fn refused(variables: &[(&str, &str)]) -> ConfigError {
    Config::from_variables(variables.iter().copied()).expect_err("a broken exporter")
}

/// Without a word about it, each of these settings is there.
#[track_caller]
pub(super) fn assert_set(variables: &[(&str, &str)], expected: &[&str]) {
    let config = sound(variables);
    let settings = settings(&config);
    for line in expected {
        assert!(settings.iter().any(|setting| setting == line), "{variables:?}: {line} not in {settings:#?}");
    }
    assert_eq!(diagnostics(&config), [""; 0], "{variables:?}");
}

/// The variable is as good as not set, and that is said.
#[track_caller]
pub(super) fn assert_ignored(name: &str, value: &str, message: &str) {
    let config = sound(&[(name, value)]);
    assert_eq!(diagnostics(&config), [format!("warning: {name}: {message}")], "{value:?}");
    let (with, without) = (settings(&config), settings(&sound(&[])));
    assert_eq!(with, without, "{name}={value}");
}

#[test]
fn without_variables_everything_goes_to_a_collector_on_this_machine() {
    let config = sound(&[]);
    assert_eq!(ids(&config), ["otlp"]);
    let urls: Vec<String> = config.exporters()[0].endpoints().into_iter().map(|(_, url)| url).collect();
    assert_eq!(
        urls,
        [
            "http://localhost:4318/v1/traces",
            "http://localhost:4318/v1/logs",
            "http://localhost:4318/v1/metrics"
        ]
    );
    assert_set(
        &[],
        &[
            "otlp: transport = http (default)",
            "otlp: headers = none (default)",
            "otlp: signals = traces, logs, metrics (default)",
            "otlp: throttle = 0s (default)",
            "otlp: linger = 1s (default)",
            "otlp: lossy = false (default)",
            "otlp: block-timeout = none (default)",
            "otlp: queue-records = 32768 (default)",
            "otlp: batch-records = 8192 (default)",
            "otlp: timeout = 10s (default)",
            "otlp: give-up-after = 5m (default)",
            "otlp: compression = none (default)",
            "otlp: interval = 1m (default)",
            "sampler = parentbased_always_on (default)",
            "disabled = false (default)",
        ],
    );
}

#[test]
fn a_variable_of_all_signals_sets_its_setting() {
    for (name, value, expected) in [
        ("ENDPOINT", "http://collector:4318", "endpoint = http://collector:4318"),
        ("ENDPOINT", " https://collector ", "endpoint = https://collector"),
        ("PROTOCOL", "http/protobuf", "transport = http"),
        ("PROTOCOL", "HTTP/Protobuf", "transport = http"),
        ("HEADERS", "authorization=Bearer%20hunter2", "headers = authorization: ***"),
        ("HEADERS", " a = 1 ,, b=x=y,", "headers = a: ***, b: ***"),
        ("HEADERS", "a=1,A=2", "headers = A: ***"),
        ("TIMEOUT", "2500", "timeout = 2500ms"),
        ("TIMEOUT", " 1 ", "timeout = 1ms"),
        ("TIMEOUT", "31536000000", "timeout = 365d"),
        ("COMPRESSION", "gzip", "compression = gzip"),
        ("COMPRESSION", "GZip", "compression = gzip"),
        ("COMPRESSION", "none", "compression = none"),
    ] {
        let name = format!("OTEL_EXPORTER_OTLP_{name}");
        assert_set(&[(&name, value)], &[&format!("otlp: {expected} ({name})")]);
    }
}

#[test]
fn an_empty_or_blank_variable_is_as_good_as_none() {
    for value in ["", " ", "\t"] {
        for name in [
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "OTEL_EXPORTER_OTLP_HEADERS",
            "OTEL_EXPORTER_OTLP_TIMEOUT",
            "OTEL_TRACES_EXPORTER",
            "OTEL_SERVICE_NAME",
            "OTEL_SDK_DISABLED",
            "OTEL_TRACES_SAMPLER",
        ] {
            let config = sound(&[(name, value)]);
            assert_eq!(settings(&config), settings(&sound(&[])), "{name}={value:?}");
            assert_eq!(diagnostics(&config), [""; 0], "{name}={value:?}");
        }
    }
    // unknown, but empty
    assert_eq!(diagnostics(&sound(&[("OTEL_EXPORTER_OTLP_ENDPONT", "")])), [""; 0]);
}

#[test]
fn a_base_endpoint_gets_the_path_of_the_signal_and_a_signals_own_is_used_as_it_is() {
    for (variable, value, traces) in [
        ("ENDPOINT", "http://c:4318", "http://c:4318/v1/traces"),
        ("ENDPOINT", "http://c:4318/", "http://c:4318/v1/traces"),
        ("ENDPOINT", "http://c:4318/otlp", "http://c:4318/otlp/v1/traces"),
        ("ENDPOINT", "http://c:4318/otlp/", "http://c:4318/otlp/v1/traces"),
        ("ENDPOINT", "http://c?key=hunter2", "http://c/v1/traces?***"),
        ("ENDPOINT", "c", "http://c:4318/v1/traces"),
        ("ENDPOINT", "c:99", "http://c:99/v1/traces"),
        ("TRACES_ENDPOINT", "http://c:4318/v1/traces", "http://c:4318/v1/traces"),
        ("TRACES_ENDPOINT", "http://c:4318/x", "http://c:4318/x"),
        ("TRACES_ENDPOINT", "http://c:4318/x/", "http://c:4318/x/"),
        ("TRACES_ENDPOINT", "http://c:4318/", "http://c:4318/"),
    ] {
        let config = sound(&[(&format!("OTEL_EXPORTER_OTLP_{variable}"), value)]);
        assert_eq!(config.exporters()[0].endpoints()[0].1, traces, "{variable}={value}");
        assert_eq!(diagnostics(&config), [""; 0], "{variable}={value}");
    }
    let config = sound(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c/v1/traces")]);
    assert_eq!(config.exporters()[0].endpoints()[0].1, "http://c/v1/traces/v1/traces");
    assert_eq!(
        diagnostics(&config),
        ["warning: OTEL_EXPORTER_OTLP_ENDPOINT: the path names a signal twice; \
          leave the path out: that of each signal is added"]
    );
    let config = sound(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:4318")]);
    assert_eq!(config.exporters()[0].endpoints()[0].1, "http://c:4318/");
    assert_eq!(
        diagnostics(&config),
        ["warning: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: has no path, so traces are posted to /; \
          write /v1/traces behind it"]
    );
}

#[test]
fn the_endpoint_follows_the_protocol_and_grpc_without_a_scheme_follows_insecure() {
    const GRPC: (&str, &str) = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    const INSECURE: &str = "OTEL_EXPORTER_OTLP_INSECURE";
    for (variables, origin) in [
        (&[GRPC][..], "http://localhost:4317"),
        (&[GRPC, (INSECURE, "false")], "http://localhost:4317"),
        (&[GRPC, (ENDPOINT, "c")], "http://c:4317"),
        (&[GRPC, (ENDPOINT, "c"), (INSECURE, "true")], "http://c:4317"),
        (&[GRPC, (ENDPOINT, "c"), (INSECURE, "False")], "https://c:4317"),
        (&[GRPC, (ENDPOINT, "c:99"), (INSECURE, "false")], "https://c:99"),
        (&[GRPC, (ENDPOINT, "http://c"), (INSECURE, "false")], "http://c:80"),
        (&[GRPC, (ENDPOINT, "https://c"), (INSECURE, "true")], "https://c:443"),
    ] {
        let config = sound(variables);
        assert_eq!(config.exporters()[0].endpoints()[0].1, origin, "{variables:?}");
    }
    // HTTP has no use for it
    let config = sound(&[(ENDPOINT, "c"), (INSECURE, "false")]);
    assert_eq!(config.exporters()[0].endpoints()[0].1, "http://c:4318/v1/traces");
    let own = [
        GRPC,
        (ENDPOINT, "c"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "d"),
        ("OTEL_EXPORTER_OTLP_TRACES_INSECURE", "false"),
    ];
    let config = sound(&own);
    let origins: Vec<String> =
        config.exporters().iter().map(|exporter| exporter.endpoints()[0].1.clone()).collect();
    assert_eq!(origins, ["https://d:4317", "http://c:4317"]);
}

#[test]
fn json_is_sent_as_protobuf_with_a_word_about_it() {
    let config = sound(&[("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")]);
    assert_eq!(config.summaries()[0].transport, "http");
    assert_eq!(
        diagnostics(&config),
        ["warning: OTEL_EXPORTER_OTLP_PROTOCOL: http/protobuf is used: this version cannot send JSON; \
          write http/protobuf"]
    );
}

#[test]
fn batch_processors_and_metric_readers_have_their_settings() {
    for (name, value, expected) in [
        ("OTEL_BSP_SCHEDULE_DELAY", "200", "otlp.traces: linger = 200ms"),
        ("OTEL_BSP_SCHEDULE_DELAY", "0", "otlp.traces: linger = 0s"),
        ("OTEL_BSP_EXPORT_TIMEOUT", "30000", "otlp.traces: give-up-after = 30s"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "2048", "otlp.traces: queue-records = 2048"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "512", "otlp.traces: batch-records = 512"),
        ("OTEL_BSP_ON_QUEUE_FULL", "DROP", "otlp.traces: lossy = true"),
        ("OTEL_BSP_ON_QUEUE_FULL", "drop", "otlp.traces: lossy = true"),
        ("OTEL_BSP_ON_QUEUE_FULL", "BLOCK", "otlp: lossy = false"),
        ("OTEL_BSP_BLOCK_ON_QUEUE_FULL_TIMEOUT", "100", "otlp.traces: block-timeout = 100ms"),
        ("OTEL_BLRP_SCHEDULE_DELAY", "200", "otlp.logs: linger = 200ms"),
        ("OTEL_BLRP_EXPORT_TIMEOUT", "30000", "otlp.logs: give-up-after = 30s"),
        ("OTEL_BLRP_MAX_QUEUE_SIZE", "2048", "otlp.logs: queue-records = 2048"),
        ("OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", "512", "otlp.logs: batch-records = 512"),
        ("OTEL_BLRP_ON_QUEUE_FULL", "DROP", "otlp.logs: lossy = true"),
        ("OTEL_BLRP_BLOCK_ON_QUEUE_FULL_TIMEOUT", "100", "otlp.logs: block-timeout = 100ms"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "15000", "otlp: interval = 15s"),
        ("OTEL_METRIC_EXPORT_TIMEOUT", "30000", "otlp.metrics: give-up-after = 30s"),
        ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "Delta", "otlp: temporality = delta"),
        ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "lowmemory", "otlp: temporality = lowmemory"),
        (
            "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
            "base2_exponential_bucket_histogram",
            "otlp: histograms = exponential",
        ),
        (
            "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
            "explicit_bucket_histogram",
            "otlp: histograms = explicit",
        ),
    ] {
        assert_set(&[(name, value)], &[&format!("{expected} ({name})")]);
    }
}

#[test]
fn certificates_are_read_from_the_files_that_are_named() {
    let folder = std::env::temp_dir().join(format!("standpipe-env-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = |name: &str, kind: &str| {
        let path = folder.join(name);
        std::fs::write(&path, format!("-----BEGIN {kind}-----\nhunter2\n")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let paths = [file("ca", "CERTIFICATE"), file("own", "CERTIFICATE"), file("key", "PRIVATE KEY")];
    let names =
        ["CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"].map(|end| format!("OTEL_EXPORTER_OTLP_{end}"));
    let config = sound(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://c"),
        (&names[0], &paths[0]),
        (&names[1], &paths[1]),
        (&names[2], &paths[2]),
    ]);
    std::fs::remove_dir_all(&folder).unwrap();
    let tls = &config.exporters[0].connection.tls;
    assert_eq!(tls.ca.as_deref(), Some(&b"-----BEGIN CERTIFICATE-----\nhunter2\n"[..]));
    assert_eq!(tls.client().unwrap().1.expose(), "-----BEGIN PRIVATE KEY-----\nhunter2\n");
    let settings = settings(&config);
    for (index, key) in ["ca-file", "client-certificate-file", "client-key-file"].into_iter().enumerate() {
        let line = format!("otlp: {key} = {} ({})", paths[index], names[index]);
        assert!(settings.contains(&line), "{line} not in {settings:#?}");
    }
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn a_value_that_a_file_cannot_set_is_left_to_the_variable() {
    let tracer = "[tracer.a]\ntype = 'otel'\ntransport = 'http'\n";
    let said = |line: &str, variables: &[(&str, &str)]| {
        let text = format!("{tracer}{line}");
        let document = crate::config::toml::parse("f", &text);
        let read =
            crate::config::read::read(document, &Surroundings::new(""), &variables.iter().copied().collect());
        let error = read.expect_err("a value that is refused");
        error.diagnostics().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        said("timeout = true", &[("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")]),
        [
            "warning: OTEL_EXPORTER_OTLP_TIMEOUT: ignored: \"soon\" is not a whole number of milliseconds; \
             write 1 to 31536000000",
            "f:4:11: tracer.a.timeout: found a boolean; write a duration like \"10s\"",
        ]
    );
    // a file that is named but cannot be read is not missing
    let said = said("client-key-file = 1\nclient-certificate-file = 2", &[]);
    assert!(said.len() == 2 && said.iter().all(|said| said.contains("found an integer")), "{said:?}");
}

/// What a program or a file has said, filled up with variables.
#[track_caller]
fn filled(mut config: Config, variables: &[(&str, &str)]) -> Config {
    let found = fill(&mut config, &variables.iter().copied().collect());
    validate::validate(config, found, &[]).expect("sound")
}

#[test]
fn what_code_has_set_is_left_alone_and_the_rest_is_filled() {
    let limits = SpanLimits { attributes: 1, ..SpanLimits::default() };
    let config = Config::new()
        .service_name("code")
        .resource("team", "code")
        .sampler(Sampler::always_off())
        .span_limits(limits)
        .disabled(false)
        .exporter(Exporter::http("http://code").timeout(Duration::from_secs(1)).header("a", "code"));
    let config = filled(
        config,
        &[
            ("OTEL_SERVICE_NAME", "env"),
            ("OTEL_RESOURCE_ATTRIBUTES", "team=env,zone=env"),
            ("OTEL_TRACES_SAMPLER", "always_on"),
            ("OTEL_ATTRIBUTE_COUNT_LIMIT", "2"),
            ("OTEL_SDK_DISABLED", "true"),
            ("OTEL_TRACES_EXPORTER", "none"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://env"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "2000"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=env"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "3000"),
        ],
    );
    let settings = settings(&config);
    for line in [
        "otlp: transport = http (code)",
        "otlp: endpoint = http://code (code)",
        "otlp: headers = a: *** (code)",
        "otlp: signals = traces, logs, metrics (default)",
        "otlp: timeout = 1s (code)",
        "otlp: compression = gzip (OTEL_EXPORTER_OTLP_COMPRESSION)",
        "otlp: interval = 3s (OTEL_METRIC_EXPORT_INTERVAL)",
        "otlp: throttle = 1s (default)",
        "otlp: linger = 0s (default)",
        "service-name = code (code)",
        "resource = team=code (code)",
        "resource = zone=env (OTEL_RESOURCE_ATTRIBUTES)",
        "sampler = always_off (code)",
        "disabled = false (code)",
        "log-limits.attributes = 2 (OTEL_ATTRIBUTE_COUNT_LIMIT)",
    ] {
        assert!(settings.iter().any(|setting| setting == line), "{line} not in {settings:#?}");
    }
    assert_eq!(config.exporters[0].connection.headers[0].1.expose(), "code");
    assert_eq!((config.span_limits, config.log_limits.attributes), (limits, 2));
    assert_eq!(diagnostics(&config), [""; 0]);
    assert!(filled(Config::new(), &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://env")]).exporters().is_empty());
}

#[test]
fn signals_of_one_exporter_must_agree_or_follow_the_variable_of_all() {
    const OWN: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_LOGS_TIMEOUT"];
    const ALL: &str = "OTEL_EXPORTER_OTLP_TIMEOUT";
    let exporter = || Exporter::http("http://c").signals([Signal::Traces, Signal::Logs]);
    let no_effect = |name: &str, other: &str| {
        format!(
            "warning: {name}: has no effect on exporter \"otlp\", which sends traces and logs; \
             give {other} the same value"
        )
    };
    for (variables, timeout, warnings) in [
        (&[(OWN[0], "1"), (OWN[1], "1"), (ALL, "2")][..], "1ms (OTEL_EXPORTER_OTLP_TRACES_TIMEOUT)", vec![]),
        (&[(OWN[0], "2"), (ALL, "2")], "2ms (OTEL_EXPORTER_OTLP_TRACES_TIMEOUT)", vec![]),
        (&[(ALL, "2")], "2ms (OTEL_EXPORTER_OTLP_TIMEOUT)", vec![]),
        (&[(OWN[0], "1")], "10s (default)", vec![no_effect(OWN[0], OWN[1])]),
        (&[(OWN[0], "1"), (ALL, "2")], "2ms (OTEL_EXPORTER_OTLP_TIMEOUT)", vec![no_effect(OWN[0], OWN[1])]),
        (
            &[(OWN[0], "1"), (OWN[1], "3")],
            "10s (default)",
            vec![no_effect(OWN[0], OWN[1]), no_effect(OWN[1], OWN[0])],
        ),
        (&[("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "1")], "10s (default)", vec![]),
        (
            &[("OTEL_BSP_MAX_QUEUE_SIZE", "1")],
            "10s (default)",
            vec![no_effect("OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BLRP_MAX_QUEUE_SIZE")],
        ),
    ] {
        let config = filled(Config::new().exporter(exporter()), variables);
        let line = format!("otlp: timeout = {timeout}");
        assert!(settings(&config).contains(&line), "{variables:?}: {line}");
        assert_eq!(diagnostics(&config), warnings, "{variables:?}");
    }
    // nothing is said of a variable that is not asked
    let set = exporter().timeout(Duration::from_secs(1));
    assert_eq!(diagnostics(&filled(Config::new().exporter(set), &[(OWN[0], "x")])), [""; 0]);
}

#[test]
fn a_header_that_cannot_be_read_breaks_only_the_exporters_that_would_send_it() {
    let mut config = Config::new()
        .exporter(Exporter::http("http://a").id("a").header("authorization", "own"))
        .exporter(Exporter::http("http://b").id("b"));
    let variables = [("OTEL_EXPORTER_OTLP_HEADERS", "hunter2")].into_iter().collect();
    let found = fill(&mut config, &variables);
    let error = validate::validate(config, found, &[]).expect_err("no header");
    assert_eq!(error.to_string(), "OTEL_EXPORTER_OTLP_HEADERS: header 1 has no =; write it like name=value");
    assert_eq!(ids(&error.into_usable()), ["a"]);
}

#[test]
fn to_be_filled_twice_changes_nothing_and_is_told_once() {
    let variables = [("OTEL_EXPORTER_OTLP_TIMEOUT", "x"), ("OTEL_EXPORTER_OTLP_HEADERS", "a=1")];
    let once = filled(Config::new().exporter(Exporter::http("http://c")), &variables);
    let (settings_then, diagnostics_then) = (settings(&once), diagnostics(&once));
    let twice = filled(once, &variables);
    assert_eq!(settings(&twice), settings_then);
    assert_eq!(diagnostics(&twice), diagnostics_then);
}
