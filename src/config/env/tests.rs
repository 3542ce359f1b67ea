//! Values of variables, and the resulting configuration.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::config::Exporter;
use crate::config::provider::Sampler;
use crate::config::read::value::Resolver;
use crate::record::{LogLimits, Signal, SpanLimits};

fn names(config: &Config) -> Vec<&str> {
    config.exporters().iter().map(Exporter::name).collect()
}

fn diagnostics(config: &Config) -> Vec<String> {
    config.diagnostics().iter().map(ToString::to_string).collect()
}

/// Returns everything that a configuration shows, one line per setting.
fn settings(config: &Config) -> Vec<String> {
    let of_exporter = |exporter: &Exporter| {
        let id = exporter.name().to_owned();
        exporter.effective().into_iter().map(move |setting| format!("{id}: {setting}"))
    };
    let general = config.effective().into_iter().map(|setting| setting.to_string());
    config.exporters().iter().flat_map(of_exporter).chain(general).collect()
}

#[track_caller]
fn sound(variables: &[(&str, &str)]) -> Config {
    match Config::from_variables(variables.iter().copied()) {
        Ok(config) => config,
        Err(error) => panic!("{variables:?}: {error}"),
    }
}

#[track_caller]
fn refused(variables: &[(&str, &str)]) -> ConfigError {
    Config::from_variables(variables.iter().copied()).expect_err("a broken exporter")
}

/// Asserts that each of these settings is present, without diagnostics.
#[track_caller]
fn assert_set(variables: &[(&str, &str)], expected: &[&str]) {
    let config = sound(variables);
    let settings = settings(&config);
    for line in expected {
        assert!(settings.iter().any(|setting| setting == line), "{variables:?}: {line} not in {settings:#?}");
    }
    assert_eq!(diagnostics(&config), [""; 0], "{variables:?}");
}

/// Asserts that the variable has no effect, and that a diagnostic reports it.
#[track_caller]
fn assert_ignored(name: &str, value: &str, message: &str) {
    let config = sound(&[(name, value)]);
    assert_eq!(diagnostics(&config), [format!("warning: {name}: {message}")], "{value:?}");
    let (with, without) = (settings(&config), settings(&sound(&[])));
    assert_eq!(with, without, "{name}={value}");
}

#[test]
fn without_variables_everything_goes_to_a_collector_on_this_machine() {
    let config = sound(&[]);
    assert_eq!(names(&config), ["otlp"]);
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
            "otlp: lossy = true (default)",
            "otlp: block-timeout = 5s (default)",
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
        ("TIMEOUT", " 100 ", "timeout = 100ms"),
        ("TIMEOUT", "0", "timeout = none"),
        ("TIMEOUT", "31536000000", "timeout = none"),
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
    // An unknown variable is not reported if it is empty.
    assert_eq!(diagnostics(&sound(&[("OTEL_EXPORTER_OTLP_ENDPONT", "")])), [""; 0]);
}

#[test]
fn a_base_endpoint_gets_the_path_of_the_signal_and_a_signals_own_is_used_as_it_is() {
    for (variable, value, traces) in [
        ("ENDPOINT", "http://c:4318", "http://c:4318/v1/traces"),
        ("ENDPOINT", "http://c:4318/", "http://c:4318/v1/traces"),
        ("ENDPOINT", "http://c:4318/otlp", "http://c:4318/otlp/v1/traces"),
        ("ENDPOINT", "http://c:4318/otlp/", "http://c:4318/otlp/v1/traces"),
        ("ENDPOINT", "https://c?key=hunter2", "https://c/v1/traces?***"),
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
          leave the path out: standpipe appends it"]
    );
    let config = sound(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:4318")]);
    assert_eq!(config.exporters()[0].endpoints()[0].1, "http://c:4318/");
    assert_eq!(
        diagnostics(&config),
        ["warning: OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: has no path, so traces are posted to /; \
          append /v1/traces"]
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
        (&[GRPC, (ENDPOINT, "c")], "https://c:4317"),
        (&[GRPC, (ENDPOINT, "localhost:99")], "http://localhost:99"),
        (&[GRPC, (ENDPOINT, "localhost:99"), (INSECURE, "false")], "https://localhost:99"),
        (&[GRPC, (ENDPOINT, "c"), (INSECURE, "true")], "http://c:4317"),
        (&[GRPC, (ENDPOINT, "c"), (INSECURE, "False")], "https://c:4317"),
        (&[GRPC, (ENDPOINT, "c:99"), (INSECURE, "false")], "https://c:99"),
        (&[GRPC, (ENDPOINT, "http://c"), (INSECURE, "false")], "http://c:80"),
        (&[GRPC, (ENDPOINT, "https://c"), (INSECURE, "true")], "https://c:443"),
    ] {
        let config = sound(variables);
        assert_eq!(config.exporters()[0].endpoints()[0].1, origin, "{variables:?}");
    }
    // HTTP does not use this variable.
    let config = sound(&[(ENDPOINT, "c"), (INSECURE, "false")]);
    assert_eq!(config.exporters()[0].endpoints()[0].1, "http://c:4318/v1/traces");
    let own = [
        GRPC,
        (ENDPOINT, "c"),
        (INSECURE, "true"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "d"),
        ("OTEL_EXPORTER_OTLP_TRACES_INSECURE", "false"),
    ];
    let config = sound(&own);
    let origins: Vec<String> =
        config.exporters().iter().map(|exporter| exporter.endpoints()[0].1.clone()).collect();
    assert_eq!(origins, ["https://d:4317", "http://c:4317"]);
}

#[test]
fn insecure_decides_for_endpoint_of_code_without_scheme_if_all_its_signals_agree() {
    for (variables, origin) in [
        (&[][..], "https://c:4317"),
        (&[("OTEL_EXPORTER_OTLP_INSECURE", "true")], "http://c:4317"),
        (&[("OTEL_EXPORTER_OTLP_LOGS_INSECURE", "true")], "https://c:4317"),
    ] {
        let config = filled(Config::new().exporter(Exporter::grpc("c")), variables);
        assert_eq!(config.exporters()[0].endpoints()[0].1, origin, "{variables:?}");
        assert_eq!(diagnostics(&config), [""; 0], "{variables:?}");
    }
}

#[cfg(feature = "json")]
#[test]
fn selects_json_for_all_signals_or_for_one() {
    let config = sound(&[("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")]);
    assert_eq!(config.summaries()[0].transport, "http/json");
    assert_eq!(config.exporters()[0].endpoints()[0].1, "http://localhost:4318/v1/traces");
    let config = sound(&[("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "HTTP/JSON")]);
    let transports: Vec<_> = config.summaries().iter().map(|summary| summary.transport).collect();
    assert_eq!((names(&config), transports), (vec!["otlp", "otlp.logs"], vec!["http", "http/json"]));
}

#[test]
fn batch_processors_and_metric_readers_have_their_settings() {
    for (name, value, expected) in [
        ("OTEL_BSP_SCHEDULE_DELAY", "200", "otlp.traces: linger = 200ms"),
        ("OTEL_BSP_SCHEDULE_DELAY", "0", "otlp.traces: linger = 0s"),
        ("OTEL_BSP_EXPORT_TIMEOUT", "30000", "otlp.traces: give-up-after = 30s"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "2048", "otlp.traces: queue-records = 2048"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "512", "otlp.traces: batch-records = 512"),
        ("OTEL_BSP_ON_QUEUE_FULL", "DROP", "otlp: lossy = true"),
        ("OTEL_BSP_ON_QUEUE_FULL", "BLOCK", "otlp.traces: lossy = false"),
        ("OTEL_BSP_ON_QUEUE_FULL", "block", "otlp.traces: lossy = false"),
        ("OTEL_BLRP_SCHEDULE_DELAY", "200", "otlp.logs: linger = 200ms"),
        ("OTEL_BLRP_EXPORT_TIMEOUT", "30000", "otlp.logs: give-up-after = 30s"),
        ("OTEL_BLRP_MAX_QUEUE_SIZE", "2048", "otlp.logs: queue-records = 2048"),
        ("OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", "512", "otlp.logs: batch-records = 512"),
        ("OTEL_BLRP_ON_QUEUE_FULL", "BLOCK", "otlp.logs: lossy = false"),
        ("OTEL_LOGS_LEVEL", "Debug", "otlp: level = debug"),
        ("OTEL_LOGS_LEVEL", "disable", "otlp: level = disable"),
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
fn callers_wait_if_a_variable_says_so_and_then_for_five_seconds_or_what_another_says() {
    for (of, signal) in [("BSP", "traces"), ("BLRP", "logs")] {
        let [when_full, timeout] =
            ["ON_QUEUE_FULL", "BLOCK_ON_QUEUE_FULL_TIMEOUT"].map(|end| format!("OTEL_{of}_{end}"));
        let set = |more: &[(&str, &str)], expected: &str| {
            let variables = [&[(when_full.as_str(), "BLOCK")], more].concat();
            assert_set(&variables, &[&format!("otlp.{signal}: block-timeout = {expected}")]);
        };
        set(&[], "5s (default)");
        set(&[(&timeout, "100")], &format!("100ms ({timeout})"));
        set(&[(&timeout, "None")], &format!("none ({timeout})"));
        let config = sound(&[(&timeout, "100")]);
        let fix = format!("set {when_full}=BLOCK");
        let expected = [format!("warning: {timeout}: has no effect: no caller waits; {fix}")];
        assert_eq!(diagnostics(&config), expected);
    }
}

#[test]
fn a_level_that_is_none_is_ignored_and_the_level_of_an_sdks_own_log_is_not_taken_for_it() {
    assert_ignored(
        "OTEL_LOGS_LEVEL",
        "verbose",
        "ignored: \"verbose\" is not known; write trace, debug, info, warn, error or disable",
    );
    let config = sound(&[("OTEL_LOG_LEVEL", "debug")]);
    let expected = "note: OTEL_LOG_LEVEL: has no effect: it is for an SDK's own log, and standpipe writes none; \
                    for the lowest severity of log records, set OTEL_LOGS_LEVEL";
    assert_eq!(diagnostics(&config), [expected]);
    assert_eq!(settings(&config), settings(&sound(&[])));
}

#[cfg(feature = "json")]
#[test]
fn what_is_printed_follows_the_variables_of_queue_and_batches() {
    let printed = [
        ("OTEL_LOGS_EXPORTER", "console"),
        ("OTEL_TRACES_EXPORTER", "none"),
        ("OTEL_METRICS_EXPORTER", "none"),
    ];
    assert_set(&printed, &["console: lossy = true (default)"]);
    let variables =
        [&printed[..], &[("OTEL_BLRP_ON_QUEUE_FULL", "BLOCK"), ("OTEL_LOGS_LEVEL", "warn")]].concat();
    let expected =
        ["console: lossy = false (OTEL_BLRP_ON_QUEUE_FULL)", "console: level = warn (OTEL_LOGS_LEVEL)"];
    assert_set(&variables, &expected);
    // Settings of connections are not read for the console.
    let variables = [&printed[..], &[("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere")]].concat();
    assert_set(&variables, &["console: signals = logs (OTEL_LOGS_EXPORTER)"]);
}

#[test]
fn unless_one_of_the_variables_is_set_nothing_is_to_be_started() {
    let if_set = |variables: &[(&str, &str)]| {
        Config::from_variables_if_set(variables.iter().copied()).expect("nothing is broken")
    };
    for variables in [
        &[][..],
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", "")],
        &[("PATH", "/bin"), ("OTEL_PYTHON_ID_GENERATOR", "random"), ("TRACETEST_TELEMETRY", "x")],
    ] {
        let config = if_set(variables);
        assert_eq!((names(&config), diagnostics(&config)), (vec![], vec![]), "{variables:?}");
        assert!(settings(&config).contains(&"disabled = true (code)".to_owned()), "{variables:?}");
    }
    for name in reader::known() {
        let variables = [(name.as_str(), "1")];
        let of_both = [Config::from_variables_if_set(variables), Config::from_variables(variables)]
            .map(|read| read.unwrap_or_else(ConfigError::into_usable));
        assert_eq!(settings(&of_both[0]), settings(&of_both[1]), "{name}");
    }
    let misspelt = if_set(&[("OTEL_EXPORTER_OTLP_ENDPONT", "http://localhost:4318")]);
    let expected =
        "warning: OTEL_EXPORTER_OTLP_ENDPONT: unknown variable; did you mean OTEL_EXPORTER_OTLP_ENDPOINT?";
    assert_eq!((names(&misspelt), diagnostics(&misspelt)), (vec![], vec![expected.to_owned()]));
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
    assert_eq!(tls.client().unwrap().1, b"-----BEGIN PRIVATE KEY-----\nhunter2\n");
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
            crate::config::read::read(document, &Resolver::new(""), &variables.iter().copied().collect());
        let error = read.expect_err("a value that is refused");
        error.diagnostics().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(
        said("timeout = true", &[("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")]),
        [
            "warning: OTEL_EXPORTER_OTLP_TIMEOUT: ignored: \"soon\" is not a whole number of milliseconds; \
             write 1 to 31536000000",
            "f:4:11: tracer.a.timeout: found a boolean; write a duration like \"10s\", or \"none\"",
        ]
    );
    // Both settings count as set in spite of their invalid values, so neither is reported as missing.
    let said = said("client-key-file = 1\nclient-certificate-file = 2", &[]);
    assert!(said.len() == 2 && said.iter().all(|said| said.contains("found an integer")), "{said:?}");
}

/// Fills the unset settings of a configuration from variables.
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
        (
            &[(OWN[0], "1000"), (OWN[1], "1000"), (ALL, "2000")][..],
            "1s (OTEL_EXPORTER_OTLP_TRACES_TIMEOUT)",
            vec![],
        ),
        (&[(OWN[0], "2000"), (ALL, "2000")], "2s (OTEL_EXPORTER_OTLP_TRACES_TIMEOUT)", vec![]),
        (&[(ALL, "2000")], "2s (OTEL_EXPORTER_OTLP_TIMEOUT)", vec![]),
        (&[(OWN[0], "1000")], "10s (default)", vec![no_effect(OWN[0], OWN[1])]),
        (
            &[(OWN[0], "1000"), (ALL, "2000")],
            "2s (OTEL_EXPORTER_OTLP_TIMEOUT)",
            vec![no_effect(OWN[0], OWN[1])],
        ),
        (
            &[(OWN[0], "1000"), (OWN[1], "3000")],
            "10s (default)",
            vec![no_effect(OWN[0], OWN[1]), no_effect(OWN[1], OWN[0])],
        ),
        (&[("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "1000")], "10s (default)", vec![]),
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
    // A variable that is not read is not reported.
    let set = exporter().timeout(Duration::from_secs(1));
    assert_eq!(diagnostics(&filled(Config::new().exporter(set), &[(OWN[0], "x")])), [""; 0]);
}

#[test]
fn a_header_that_cannot_be_read_breaks_only_the_exporters_that_would_send_it() {
    let mut config = Config::new()
        .exporter(Exporter::http("https://a").named("a").header("authorization", "own"))
        .exporter(Exporter::http("https://b").named("b"));
    let variables = [("OTEL_EXPORTER_OTLP_HEADERS", "hunter2")].into_iter().collect();
    let found = fill(&mut config, &variables);
    let error = validate::validate(config, found, &[]).expect_err("no header");
    assert_eq!(error.to_string(), "OTEL_EXPORTER_OTLP_HEADERS: header 1 has no =; write it like name=value");
    assert_eq!(names(&error.into_usable()), ["a"]);
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

#[test]
fn signals_that_are_set_alike_share_an_exporter_and_others_have_their_own() {
    const TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT";
    const LOGS: &str = "OTEL_EXPORTER_OTLP_LOGS_TIMEOUT";
    const METRICS: &str = "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT";
    const ALL: &str = "OTEL_EXPORTER_OTLP_TIMEOUT";
    for (variables, expected) in [
        (&[(ALL, "1")][..], &["otlp"][..]),
        (&[(TRACES, "1")], &["otlp.traces", "otlp"]),
        (&[(LOGS, "1")], &["otlp", "otlp.logs"]),
        (&[(METRICS, "1")], &["otlp", "otlp.metrics"]),
        (&[(TRACES, "1"), (LOGS, "1")], &["otlp", "otlp.metrics"]),
        (&[(TRACES, "1"), (LOGS, "1"), (METRICS, "1")], &["otlp"]),
        (&[(TRACES, "1"), (LOGS, "2"), (METRICS, "3")], &["otlp.traces", "otlp.logs", "otlp.metrics"]),
        (&[(ALL, "1"), (LOGS, "1")], &["otlp"]),
        // A variable that is set to the default value has the same effect as an unset variable.
        (&[(TRACES, "10000")], &["otlp"]),
        (&[("OTEL_BSP_SCHEDULE_DELAY", "1000")], &["otlp"]),
        (&[("OTEL_BSP_SCHEDULE_DELAY", "200"), ("OTEL_BLRP_SCHEDULE_DELAY", "200")], &["otlp"]),
        (&[("OTEL_BSP_MAX_QUEUE_SIZE", "10"), ("OTEL_BLRP_MAX_QUEUE_SIZE", "10")], &["otlp"]),
        (&[("OTEL_BSP_MAX_QUEUE_SIZE", "10")], &["otlp.traces", "otlp"]),
        (&[("OTEL_BLRP_MAX_QUEUE_SIZE", "10")], &["otlp", "otlp.logs"]),
        (&[("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "a=1")], &["otlp", "otlp.logs"]),
        (&[("OTEL_LOGS_EXPORTER", "none")], &["otlp"]),
        (&[("OTEL_LOGS_EXPORTER", "none"), (TRACES, "1")], &["otlp.traces", "otlp.metrics"]),
        (&[("OTEL_TRACES_EXPORTER", "none"), ("OTEL_LOGS_EXPORTER", "NONE"), (METRICS, "1")], &["otlp"]),
    ] {
        assert_eq!(names(&sound(variables)), expected, "{variables:?}");
    }
    let config = sound(&[(TRACES, "1"), ("OTEL_LOGS_EXPORTER", "none")]);
    let lingers: Vec<Duration> = config.exporters().iter().map(|exporter| exporter.pace.linger).collect();
    assert_eq!(lingers, [Duration::from_secs(5); 2], "only logs are in a hurry");
}

#[test]
fn the_headers_of_a_signal_replace_those_of_all() {
    let config = sound(&[
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=all,x-scope=1"),
        ("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "authorization=Basic%20a%2Cb%3D,x=%25"),
    ]);
    let headers = |index: usize| -> Vec<(&str, &str)> {
        let headers = &config.exporters()[index].connection.headers;
        headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect()
    };
    assert_eq!(headers(0), [("authorization", "all"), ("x-scope", "1")]);
    assert_eq!(headers(1), [("authorization", "Basic a,b="), ("x", "%")]);
}

#[cfg(feature = "json")]
#[test]
fn a_signal_goes_where_its_exporter_says() {
    for (value, signals, message) in [
        (
            "otpl",
            "logs, metrics",
            Some("\"otpl\" is not supported and starts no exporter; did you mean \"otlp\"?"),
        ),
        (
            "otlp,zipkin",
            "traces, logs, metrics",
            Some(
                "\"zipkin\" is not supported and starts no exporter; write otlp, console, otlp/stdout or none",
            ),
        ),
        ("otlp", "traces, logs, metrics", None),
        ("OTLP", "traces, logs, metrics", None),
        ("none", "logs, metrics", None),
        ("console", "logs, metrics", None),
        ("OTLP/stdout", "logs, metrics", None),
        ("otlp, console", "traces, logs, metrics", None),
        (
            "none,otlp",
            "traces, logs, metrics",
            Some("ignored: \"none\" is combined with others; remove it, or the others"),
        ),
    ] {
        let config = sound(&[("OTEL_TRACES_EXPORTER", value)]);
        let expected: Vec<String> =
            message.iter().map(|message| format!("warning: OTEL_TRACES_EXPORTER: {message}")).collect();
        assert_eq!(diagnostics(&config), expected, "{value}");
        let line = format!("otlp: signals = {signals} (OTEL_TRACES_EXPORTER)");
        assert!(settings(&config).contains(&line), "{value}: {line}");
    }
    let printed = sound(&[("OTEL_LOGS_EXPORTER", "otlp/stdout"), ("OTEL_METRICS_EXPORTER", "otlp,console")]);
    assert_eq!(names(&printed), ["otlp", "console"]);
    for line in [
        "otlp: signals = traces, metrics (OTEL_LOGS_EXPORTER)",
        "console: transport = console (OTEL_LOGS_EXPORTER)",
        "console: signals = logs, metrics (OTEL_LOGS_EXPORTER)",
    ] {
        assert!(settings(&printed).contains(&line.to_owned()), "{line}: {:?}", settings(&printed));
    }
    let none = Signal::ALL.map(|signal| (reader::exporter_variable(signal), "none"));
    assert_eq!(names(&Config::from_variables(none).unwrap()), [""; 0]);
}

#[test]
fn the_program_is_named_and_described() {
    const NAME: &str = "OTEL_SERVICE_NAME";
    const ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
    for (variables, expected) in [
        (&[(NAME, "shop")][..], &["service-name = shop (OTEL_SERVICE_NAME)"][..]),
        (&[(ATTRIBUTES, "service.name=shop")], &["service-name = shop (OTEL_RESOURCE_ATTRIBUTES)"]),
        (
            &[(NAME, "shop"), (ATTRIBUTES, "service.name=other,team=a%2Cb")],
            &["service-name = shop (OTEL_SERVICE_NAME)", "resource = team=a,b (OTEL_RESOURCE_ATTRIBUTES)"],
        ),
        (&[(ATTRIBUTES, " a = 1 , b=,")], &["resource = a=1, b= (OTEL_RESOURCE_ATTRIBUTES)"]),
        (&[(ATTRIBUTES, "a%20b=x=y")], &["resource = a b=x=y (OTEL_RESOURCE_ATTRIBUTES)"]),
        (&[("OTEL_SDK_DISABLED", "true")], &["disabled = true (OTEL_SDK_DISABLED)"]),
        (&[("OTEL_SDK_DISABLED", "TRUE")], &["disabled = true (OTEL_SDK_DISABLED)"]),
        (&[("OTEL_SDK_DISABLED", "False")], &["disabled = false (OTEL_SDK_DISABLED)"]),
        (
            &[("OTEL_PROPAGATORS", "B3, tracecontext,b3")],
            &["propagators = b3,tracecontext (OTEL_PROPAGATORS)"],
        ),
        (&[("OTEL_PROPAGATORS", "b3multi,baggage")], &["propagators = b3multi,baggage (OTEL_PROPAGATORS)"]),
        (&[("OTEL_PROPAGATORS", "none")], &["propagators = none (OTEL_PROPAGATORS)"]),
        (
            &[("OTEL_METRICS_EXEMPLAR_FILTER", "Always_Off")],
            &["exemplars = always_off (OTEL_METRICS_EXEMPLAR_FILTER)"],
        ),
        (&[("OTEL_RESOURCE_DETECTORS", "host,os")], &["detect = host,os (OTEL_RESOURCE_DETECTORS)"]),
    ] {
        assert_set(variables, expected);
    }
}

#[test]
fn samplers_have_their_opentelemetry_names() {
    for (name, ratio, expected) in [
        ("always_on", "", Sampler::always_on()),
        ("ALWAYS_OFF", "", Sampler::always_off()),
        ("traceidratio", "0.25", Sampler::trace_id_ratio(0.25)),
        ("traceidratio", "", Sampler::trace_id_ratio(1.0)),
        ("traceidratio", "0", Sampler::trace_id_ratio(0.0)),
        ("traceidratio", "1", Sampler::trace_id_ratio(1.0)),
        ("parentbased_always_on", "", Sampler::default()),
        ("parentbased_always_off", "0.5", Sampler::always_off().parent_based()),
        ("ParentBased_TraceIdRatio", "1e-3", Sampler::trace_id_ratio(0.001).parent_based()),
    ] {
        let config = sound(&[("OTEL_TRACES_SAMPLER", name), ("OTEL_TRACES_SAMPLER_ARG", ratio)]);
        assert_eq!(config.main.sampler, expected, "{name} {ratio}");
        assert_eq!(diagnostics(&config), [""; 0], "{name} {ratio}");
    }
    for ratio in ["-0.1", "1.1", "NaN", "inf", "25%", "one"] {
        let config = sound(&[("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", ratio)]);
        assert_eq!(config.main.sampler, Sampler::trace_id_ratio(1.0));
        assert_eq!(
            diagnostics(&config),
            [format!(
                "warning: OTEL_TRACES_SAMPLER_ARG: ignored: {ratio:?} is not a ratio of traces; \
                 write 0 to 1, like 0.25"
            )]
        );
    }
}

#[test]
fn limits_of_spans_and_logs_are_set_and_the_particular_one_wins() {
    let span = SpanLimits::default();
    for (name, value, key, expected) in [
        ("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "5", "attributes", SpanLimits { attributes: 5, ..span }),
        (
            "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
            "0",
            "value-length",
            SpanLimits { value_length: Some(0), ..span },
        ),
        ("OTEL_SPAN_EVENT_COUNT_LIMIT", "0", "events", SpanLimits { events: 0, ..span }),
        ("OTEL_SPAN_LINK_COUNT_LIMIT", "5", "links", SpanLimits { links: 5, ..span }),
        (
            "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT",
            "5",
            "event-attributes",
            SpanLimits { event_attributes: 5, ..span },
        ),
        (
            "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT",
            "5",
            "link-attributes",
            SpanLimits { link_attributes: 5, ..span },
        ),
    ] {
        let config = sound(&[(name, value)]);
        assert_eq!(config.span_limits, expected, "{name}");
        assert_eq!(config.log_limits, LogLimits::default(), "{name}");
        let shown = format!("span-limits.{key} = {value} ({name})");
        assert!(settings(&config).contains(&shown), "{shown}: {:?}", settings(&config));
    }
    let config = sound(&[
        ("OTEL_ATTRIBUTE_COUNT_LIMIT", "7"),
        ("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "8"),
        ("OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT", "9"),
    ]);
    assert_eq!(config.span_limits, SpanLimits { attributes: 7, value_length: Some(8), ..span });
    assert_eq!(config.log_limits, LogLimits { attributes: 9, value_length: Some(8) });
    let config = sound(&[("OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT", "4")]);
    assert_eq!(config.log_limits, LogLimits { value_length: Some(4), ..LogLimits::default() });
}

#[test]
fn what_is_switched_off_cannot_keep_a_program_from_starting() {
    let broken = ("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "hunter2");
    let config = sound(&[("OTEL_SDK_DISABLED", "true"), broken]);
    let message = "header 1 has no =; write it like name=value";
    assert_eq!(diagnostics(&config), [format!("warning: OTEL_EXPORTER_OTLP_LOGS_HEADERS: {message}")]);
    // The broken exporter is removed, so a program that enables the telemetry again does not start it without headers.
    assert_eq!(names(&config), ["otlp"]);
    assert_eq!(config.summaries()[0].signals, ["traces", "metrics"]);
    refused(&[("OTEL_SDK_DISABLED", "false"), broken]);
}

#[test]
fn a_bad_number_or_word_is_told_and_ignored() {
    for (name, value, message) in [
        (
            "OTEL_EXPORTER_OTLP_TIMEOUT",
            "5s",
            "ignored: \"5s\" is not a whole number of milliseconds; write 5000",
        ),
        (
            "OTEL_EXPORTER_OTLP_TIMEOUT",
            "soon",
            "ignored: \"soon\" is not a whole number of milliseconds; write 1 to 31536000000",
        ),
        (
            "OTEL_EXPORTER_OTLP_TIMEOUT",
            "-1",
            "ignored: \"-1\" is not a whole number of milliseconds; write 1 to 31536000000",
        ),
        (
            "OTEL_EXPORTER_OTLP_TIMEOUT",
            "31536000001",
            "ignored: 31536000001 is too large; write 1 to 31536000000",
        ),
        (
            "OTEL_EXPORTER_OTLP_TIMEOUT",
            "99999999999999999999",
            "ignored: 99999999999999999999 is too large; write 1 to 31536000000",
        ),
        (
            "OTEL_BSP_SCHEDULE_DELAY",
            "1.5",
            "ignored: \"1.5\" is not a whole number of milliseconds; write 0 to 31536000000",
        ),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "many", "ignored: \"many\" is not a whole number; write 1 to 16777215"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0", "ignored: 0 is too small; write 1 to 16777215"),
        ("OTEL_BLRP_MAX_QUEUE_SIZE", "16777216", "ignored: 16777216 is too large; write 1 to 16777215"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzp", "ignored: \"gzp\" is not known; did you mean \"gzip\"?"),
        (
            "OTEL_EXPORTER_OTLP_COMPRESSION",
            "deflate",
            "ignored: \"deflate\" is not known; write gzip or none",
        ),
        (
            "OTEL_EXPORTER_OTLP_PROTOCOL",
            "http",
            "ignored: \"http\" is not known; did you mean \"http/protobuf\"?",
        ),
        (
            "OTEL_EXPORTER_OTLP_PROTOCOL",
            "http/protobuff",
            "ignored: \"http/protobuff\" is not known; did you mean \"http/protobuf\"?",
        ),
        ("OTEL_BSP_ON_QUEUE_FULL", "wait", "ignored: \"wait\" is not known; write DROP or BLOCK"),
        (
            "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
            "deltas",
            "ignored: \"deltas\" is not known; did you mean \"delta\"?",
        ),
        ("OTEL_SDK_DISABLED", "1", "ignored: \"1\" is not known; write true or false"),
        ("OTEL_SDK_DISABLED", "yes", "ignored: \"yes\" is not known; write true or false"),
        ("OTEL_TRACES_SAMPLER", "xray", "ignored: \"xray\" is not supported; write parentbased_traceidratio"),
        (
            "OTEL_TRACES_SAMPLER",
            "jaeger_remote",
            "ignored: \"jaeger_remote\" is not supported; write parentbased_traceidratio",
        ),
        (
            "OTEL_TRACES_SAMPLER",
            "parentbased_jaeger_remote",
            "ignored: \"parentbased_jaeger_remote\" is not supported; write parentbased_traceidratio",
        ),
        ("OTEL_TRACES_SAMPLER", "always", "ignored: \"always\" is not known; did you mean \"always_on\"?"),
        (
            "OTEL_TRACES_SAMPLER_ARG",
            "0.1",
            "has no effect without OTEL_TRACES_SAMPLER; set OTEL_TRACES_SAMPLER to parentbased_traceidratio",
        ),
        (
            "OTEL_METRICS_EXEMPLAR_FILTER",
            "always_one",
            "ignored: \"always_one\" is not known; did you mean \"always_on\"?",
        ),
        (
            "OTEL_METRICS_EXEMPLAR_FILTER",
            "sampled",
            "ignored: \"sampled\" is not known; write trace_based, always_on or always_off",
        ),
        ("OTEL_PROPAGATORS", "b3mult", "ignored: \"b3mult\" is not known; did you mean \"b3multi\"?"),
        (
            "OTEL_PROPAGATORS",
            "zipkin",
            "ignored: \"zipkin\" is not known; write tracecontext, baggage, b3, b3multi or none",
        ),
        (
            "OTEL_PROPAGATORS",
            "jaeger",
            "ignored: \"jaeger\" is deprecated and not supported; write tracecontext, which Jaeger reads",
        ),
        (
            "OTEL_PROPAGATORS",
            "OTtrace",
            "ignored: \"OTtrace\" is deprecated and not supported; write tracecontext or b3",
        ),
        (
            "OTEL_PROPAGATORS",
            "xray",
            "ignored: \"xray\" is not supported: only AWS reads it; write tracecontext",
        ),
        ("OTEL_RESOURCE_DETECTORS", "hosts", "ignored: \"hosts\" is not known; did you mean \"host\"?"),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "a=1,b",
            "ignored: attribute 2 has no =, so none is set; write it like key=value",
        ),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "=1",
            "ignored: attribute 1 has no key, so none is set; write it like key=value",
        ),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "a=1,b=100%",
            "ignored: attribute 2 has a % without two hexadecimal digits after it, so none is set; \
             write %25 for a percent sign",
        ),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "a=%ff",
            "ignored: attribute 1 is not UTF-8 when it is decoded, so none is set; percent-encode UTF-8 bytes",
        ),
        ("OTEL_SPAN_EVENT_COUNT_LIMIT", "-1", "ignored: \"-1\" is not a whole number; write 0 to 4294967295"),
    ] {
        assert_ignored(name, value, message);
    }
}

#[test]
fn a_variable_that_looks_like_one_of_ours_is_told() {
    const UNSUPPORTED: &str = "has no effect: standpipe does not support it; \
                               remove it; standpipe init env lists what is supported";
    for (name, message) in [
        ("OTEL_EXPORTER_OTLP_ENDPONT", "unknown variable; did you mean OTEL_EXPORTER_OTLP_ENDPOINT?"),
        (
            "OTEL_EXPORTER_OTLP_TRACE_ENDPOINT",
            "unknown variable; did you mean OTEL_EXPORTER_OTLP_TRACES_ENDPOINT?",
        ),
        ("OTEL_EXPORTER_OTLP_COLOUR", "unknown variable; remove it"),
        ("OTEL_BSP_SCHEDULED_DELAY", "unknown variable; did you mean OTEL_BSP_SCHEDULE_DELAY?"),
        ("OTEL_BLRP_QUEUE_SIZE", "unknown variable; did you mean OTEL_BLRP_MAX_QUEUE_SIZE?"),
        ("OTEL_EXPORTER_OLTP_ENDPOINT", "unknown variable; did you mean OTEL_EXPORTER_OTLP_ENDPOINT?"),
        ("OTEL_SERVICENAME", "unknown variable; did you mean OTEL_SERVICE_NAME?"),
        ("OTEL_METRICS_EXPORT_INTERVAL", "unknown variable; did you mean OTEL_METRIC_EXPORT_INTERVAL?"),
        ("OTEL_TRACE_EXPORTER", "unknown variable; did you mean OTEL_TRACES_EXPORTER?"),
        ("OTEL_EXPERIMENTAL_CONFIG_FILE", "has no effect: it has a new name; set OTEL_CONFIG_FILE"),
        ("OTEL_ENTITIES", UNSUPPORTED),
        ("OTEL_EXPORTER_ZIPKIN_ENDPOINT", UNSUPPORTED),
    ] {
        assert_ignored(name, "1", message);
    }
    for name in [
        "OTEL_PYTHON_LOG_CORRELATION",
        "OTEL_JAVAAGENT_ENABLED",
        "OTEL_SEMCONV_STABILITY_OPT_IN",
        "HOME",
        "TRACETEST_SERVER_PORT",
    ] {
        assert_eq!(diagnostics(&sound(&[(name, "1")])), [""; 0], "{name}");
    }
}

#[test]
fn an_exporter_never_starts_without_what_was_asked_for_and_no_value_is_shown() {
    let too_many: String = (0..129).map(|number| format!("h{number}=hunter2,")).collect();
    for (name, value, message) in [
        ("HEADERS", "authorization=a,hunter2", "header 2 has no =; write it like name=value"),
        ("HEADERS", "=hunter2", "header 1 has no name; write it like name=value"),
        ("HEADERS", "bad name=hunter2", "header 1 has ' ' in its name; names are letters, digits and -"),
        ("HEADERS", "bad name=hunter2%", "header 1 has ' ' in its name; names are letters, digits and -"),
        (
            "HEADERS",
            "authorization=hunter2%0d%0Ax: y",
            "value of header \"authorization\" holds a line break; write printable ASCII in one line",
        ),
        (
            "HEADERS",
            "authorization=hunter2\r\n",
            "value of header \"authorization\" holds a line break; write printable ASCII in one line",
        ),
        (
            "HEADERS",
            "authorization=hunter2%0",
            "value of header \"authorization\" has a % without two hexadecimal digits after it; \
             write %25 for a percent sign",
        ),
        (
            "HEADERS",
            "authorization=hunter2%c3",
            "value of header \"authorization\" is not UTF-8 when it is decoded; percent-encode UTF-8 bytes",
        ),
        (
            "HEADERS",
            "authorization=",
            "header \"authorization\" has no value; write the value or remove the header",
        ),
        (
            "HEADERS",
            "content-length=5",
            "header \"content-length\" cannot be set; remove it: standpipe writes it",
        ),
        ("HEADERS", &too_many, "129 headers; write at most 128"),
        (
            "ENDPOINT",
            "http://user:hunter2@c",
            "\"http://***\" holds a user name or password; send them as a header: \"Authorization: Basic …\"",
        ),
        ("ENDPOINT", "ftp://c", "\"ftp://***\" has an unknown scheme; write http:// or https://"),
        (
            "CERTIFICATE",
            "no/such.pem",
            "cannot read file \"no/such.pem\": no such file; write the path of a readable file",
        ),
        ("CERTIFICATE", "src", "cannot read file \"src\": is a directory; write the path of a readable file"),
        ("CERTIFICATE", "Cargo.toml", "holds no PEM block \"CERTIFICATE\"; name a file in PEM form"),
        (
            "CLIENT_KEY",
            "Cargo.toml",
            "set without OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE; set both or neither",
        ),
        (
            "CLIENT_CERTIFICATE",
            "Cargo.toml",
            "set without OTEL_EXPORTER_OTLP_CLIENT_KEY; set both or neither",
        ),
    ] {
        let name = format!("OTEL_EXPORTER_OTLP_{name}");
        // The timeouts differ, so there are two exporters. Both read the variable, but it is reported once.
        let error = refused(&[
            (&name, value),
            ("OTEL_EXPORTER_OTLP_LOGS_TIMEOUT", "1"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "2"),
        ]);
        let errors: Vec<String> = error
            .diagnostics()
            .iter()
            .filter(|diagnostic| diagnostic.severity == crate::config::DiagnosticSeverity::Error)
            .map(ToString::to_string)
            .collect();
        assert_eq!(errors, [format!("{name}: {message}")], "{value:?}");
        assert!(!format!("{error:?}").contains("hunter2"), "{error}");
        let usable = error.into_usable();
        assert_eq!(names(&usable), [""; 0], "{name}={value}");
        assert!(!format!("{usable:?}").contains("hunter2"));
    }
}

#[test]
fn a_broken_signal_leaves_the_others_alone() {
    let error = refused(&[("OTEL_EXPORTER_OTLP_LOGS_HEADERS", "hunter2")]);
    assert_eq!(
        error.to_string(),
        "OTEL_EXPORTER_OTLP_LOGS_HEADERS: header 1 has no =; write it like name=value"
    );
    assert_eq!(names(&error.into_usable()), ["otlp"]);
    let config = sound(&[("OTEL_METRICS_EXPORTER", "prometheus")]);
    let message =
        "\"prometheus\" is not supported and starts no exporter; write otlp, console, otlp/stdout or none";
    assert_eq!(diagnostics(&config), [format!("warning: OTEL_METRICS_EXPORTER: {message}")]);
    assert_eq!(config.summaries()[0].signals, ["traces", "logs"]);
}

#[test]
fn bounds_attempt_by_time_of_its_batch_if_timeout_is_zero() {
    let config = sound(&[("OTEL_EXPORTER_OTLP_TIMEOUT", "0"), ("OTEL_METRIC_EXPORT_TIMEOUT", "30000")]);
    let limits: Vec<Duration> = config.exporters().iter().map(Exporter::attempt_timeout).collect();
    assert_eq!(limits, [300, 30].map(Duration::from_secs));
    let config = sound(&[("OTEL_EXPORTER_OTLP_TIMEOUT", "2000")]);
    assert_eq!(config.exporters()[0].attempt_timeout(), Duration::from_secs(2));
}

#[test]
fn warns_of_timeouts_and_intervals_that_are_probably_meant_in_seconds() {
    for name in ["OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_BSP_EXPORT_TIMEOUT", "OTEL_METRIC_EXPORT_INTERVAL"] {
        let expected = format!("warning: {name}: is 5 ms: the unit is milliseconds; write 5000 for 5 s");
        assert_eq!(diagnostics(&sound(&[(name, "5")])), [expected]);
        assert_eq!(diagnostics(&sound(&[(name, "100")])), [""; 0]);
    }
    assert_eq!(diagnostics(&sound(&[("OTEL_BSP_SCHEDULE_DELAY", "5")])), [""; 0]);
}

#[cfg(unix)]
#[test]
fn bytes_that_are_no_text_are_refused_where_they_matter_and_else_ignored() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let latin = || OsStr::from_bytes(b"h\xfcnter2").to_owned();
    let config = Config::from_variables([("OTEL_TRACES_EXPORTER", latin())]).expect("only a warning");
    assert_eq!(config.summaries()[0].signals, ["logs", "metrics"]);
    assert_eq!(diagnostics(&config), ["warning: OTEL_TRACES_EXPORTER: is not UTF-8; set it to text"]);
    for name in ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_ENDPOINT"] {
        let error = Config::from_variables([(name, latin())]).expect_err(name);
        assert_eq!(error.to_string(), format!("{name}: is not UTF-8; set it to text"));
    }
    for name in ["OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"] {
        let config = Config::from_variables([(name, latin())]).expect(name);
        assert_eq!(diagnostics(&config), [format!("warning: {name}: ignored: is not UTF-8; set it to text")]);
    }
}

proptest! {
    #[test]
    fn no_value_of_any_variable_is_a_reason_to_panic(
        chosen in prop::collection::vec((any::<prop::sample::Index>(), "[ -~\r\n€]{0,20}|[0-9,=%a-c:/@.]{0,20}"), 0..6)
    ) {
        let known = reader::known();
        let variables = chosen.iter().map(|(index, value)| (index.get(&known).as_str(), value.as_str()));
        let config = Config::from_variables(variables.clone()).unwrap_or_else(ConfigError::into_usable);
        // The usable configuration must be valid.
        prop_assert!(config.validate().is_ok());
        let mut config = Config::new().exporter(Exporter::http("http://c"));
        let found = fill(&mut config, &variables.collect());
        let usable = validate::validate(config, found, &[]).unwrap_or_else(ConfigError::into_usable);
        prop_assert!(usable.validate().is_ok());
    }
}

#[cfg(unix)]
#[test]
fn ignores_variable_of_tracetest_that_is_not_utf8_and_keeps_the_value_of_the_file() {
    use std::os::unix::ffi::OsStringExt;

    let text = "telemetry.exporters.c.exporter.type = 'collector'\n\
                telemetry.exporters.c.serviceName = 'shop'\n\
                server.telemetry.exporter = 'c'\n";
    let name = "TRACETEST_TELEMETRY_EXPORTERS_C_SERVICENAME";
    let variables: Variables = [(name, OsString::from_vec(vec![0xff]))].into_iter().collect();
    let document = crate::config::toml::parse("f", text);
    let config = crate::config::read::read(document, &Resolver::new(""), &variables).expect("usable");
    assert_eq!(config.summaries()[0].service_name, "shop");
    let expected = format!("warning: {name}: ignored: is not UTF-8; set it to text");
    assert!(config.diagnostics().iter().any(|found| found.to_string() == expected), "{config:?}");
}
