//! What code and files leave open is filled; what they say is left alone.

use super::*;

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
    assert_eq!(config.exporters[0].http.headers[0].1.expose(), "code");
    assert_eq!((config.span_limits, config.log_limits.attributes), (limits, 2));
    assert_eq!(findings(&config), [""; 0]);
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
        assert_eq!(findings(&config), warnings, "{variables:?}");
    }
    // nothing is said of a variable that is not asked
    let set = exporter().timeout(Duration::from_secs(1));
    assert_eq!(findings(&filled(Config::new().exporter(set), &[(OWN[0], "x")])), [""; 0]);
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
    let (settings_then, findings_then) = (settings(&once), findings(&once));
    let twice = filled(once, &variables);
    assert_eq!(settings(&twice), settings_then);
    assert_eq!(findings(&twice), findings_then);
}
