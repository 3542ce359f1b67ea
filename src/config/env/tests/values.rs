//! Sound values, and what becomes of them.

use super::*;

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
            assert_eq!(findings(&config), [""; 0], "{name}={value:?}");
        }
    }
    // unknown, but nobody said anything with it
    assert_eq!(findings(&sound(&[("OTEL_EXPORTER_OTLP_ENDPONT", "")])), [""; 0]);
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
        assert_eq!(findings(&config), [""; 0], "{variable}={value}");
    }
    let config = sound(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c/v1/traces")]);
    assert_eq!(config.exporters()[0].endpoints()[0].1, "http://c/v1/traces/v1/traces");
    assert_eq!(
        findings(&config),
        ["warning: OTEL_EXPORTER_OTLP_ENDPOINT: the path names a signal twice; \
          leave the path out: that of each signal is added"]
    );
    let config = sound(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:4318")]);
    assert_eq!(config.exporters()[0].endpoints()[0].1, "http://c:4318/");
    assert_eq!(
        findings(&config),
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
        findings(&config),
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
    let tls = &config.exporters[0].http.tls;
    assert_eq!(tls.ca.as_deref(), Some(&b"-----BEGIN CERTIFICATE-----\nhunter2\n"[..]));
    assert_eq!(tls.client().unwrap().1.expose(), "-----BEGIN PRIVATE KEY-----\nhunter2\n");
    let settings = settings(&config);
    for (index, key) in ["ca-file", "client-certificate-file", "client-key-file"].into_iter().enumerate() {
        let line = format!("otlp: {key} = {} ({})", paths[index], names[index]);
        assert!(settings.contains(&line), "{line} not in {settings:#?}");
    }
    assert!(!format!("{config:?}").contains("hunter2"));
}
