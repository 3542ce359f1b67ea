//! Warnings about values that work but are probably mistakes, with advice. Sections of other programs are not reported.

use std::fs;
use std::path::PathBuf;

use standpipe::{Config, ProblemKind};

use crate::support::settings::{diagnostics, problems_of_start, tracer};

fn told(text: &str) -> Vec<String> {
    diagnostics(&Config::from_toml_str(text).unwrap_or_else(|error| panic!("{text}: {error}")))
}

#[test]
fn the_hook_receives_every_warning_at_the_start_and_no_note() {
    let of_variable =
        Config::from_variables([("OTEL_EXPORTER_OTLP_ENDPONT", "http://127.0.0.1:1")]).expect("it is usable");
    let of_file =
        Config::from_toml_str(&tracer("endpont = 'http://127.0.0.1:1'\n[tracer.other]\ntype = 'journal'"))
            .expect("it is usable");
    for (config, message) in [
        (
            of_variable,
            "OTEL_EXPORTER_OTLP_ENDPONT: unknown variable; did you mean OTEL_EXPORTER_OTLP_ENDPOINT?",
        ),
        (of_file, "<toml>:4:1: tracer.otel.endpont: unknown key; did you mean \"endpoint\"?"),
    ] {
        let problems = problems_of_start(config.service_name("shop"));
        let [problem] = &problems[..] else { panic!("{problems:?}") };
        assert_eq!(problem.kind, ProblemKind::Configuration);
        assert_eq!(problem.to_string(), format!("warning: {message}"));
    }
}

#[test]
fn a_section_under_a_name_that_nobody_reads_is_told() {
    for (text, message) in [
        ("[tracers.otel]\ntype = 'otel'", "1:10: tracers.otel: {}; did you mean [tracer.otel]?"),
        ("[trace.otel]\ntransport = 'http'", "1:8: trace.otel: {}; did you mean [tracer.otel]?"),
        (
            "[metric.open-telemetry]\ntransport = 'http'",
            "1:9: metric.open-telemetry: {}; did you mean [metrics.open-telemetry]?",
        ),
        (
            "[metrics.otel]\ntransport = 'grpc'",
            "1:10: metrics.otel: {}; did you mean [metrics.open-telemetry]?",
        ),
        ("[telemetery.exporters.c]\nsampling = 1", "1:2: telemetery: {}; did you mean telemetry?"),
        ("[server.telemetrie]\nexporter = 'c'", "1:9: server.telemetrie: {}; did you mean server.telemetry?"),
    ] {
        let message = message.replace("{}", "not read: no section has this name");
        assert_eq!(told(text), [format!("warning: <toml>:{message}")], "{text}");
    }
    for text in [
        "[postgres]\nhost = 'db'",
        "[metrics.prometheus]\nenable = true",
        "[storage.blob]\ntype = 's3'\nendpoint = 'x'",
        "[trace]\nlevel = 'info'",
        "[server.http]\ntransport = 5",
        "[queue.remote]\ntype = 'smtp'\ntransport = 'http'",
    ] {
        let told = told(text);
        assert!(told.len() == 1 && told[0].contains("describes no exporter"), "{text}: {told:?}");
    }
}

#[test]
fn a_key_that_people_expect_is_told_by_its_right_name_or_place() {
    for (key, fix) in [
        ("enable.logs = true", "did you mean \"enable.log-exporter\"?"),
        ("enable.traces = true", "did you mean \"enable.span-exporter\"?"),
        ("service_name = 'shop'", "write it in [telemetry], like service-name = \"shop\""),
        ("sampler = 'always_on'", "write it in [telemetry], like sampling = 100"),
        ("url = 'localhost'", "did you mean \"endpoint\"?"),
        ("insecure = true", "the scheme of endpoint decides: write http:// or https://"),
        ("queue_records = 5", "did you mean \"queue-records\"?"),
        ("colour = 'red'", "remove it"),
    ] {
        let told = told(&tracer(key));
        assert_eq!(told.len(), 1, "{key}: {told:?}");
        assert!(told[0].ends_with(&format!(": unknown key; {fix}")), "{key}: {told:?}");
    }
}

#[test]
fn an_endpoint_that_no_collector_has_is_told() {
    let metrics = |endpoint: &str| {
        told(&format!("[metrics.open-telemetry]\ntransport = 'http'\nendpoint = '{endpoint}'\n"))
    };
    let place = "<toml>:3:12: metrics.open-telemetry.endpoint";
    for (endpoint, message) in [
        (
            "http://localhost:4318/v1/traces",
            format!(
                "warning: {place}: metrics are posted to the path of traces; leave the path out, or write /v1/metrics"
            ),
        ),
        (
            "http://localhost:4318/v1/metrics/v1/metrics",
            format!(
                "warning: {place}: the path names a signal twice; leave the path out: standpipe appends it"
            ),
        ),
        (
            "localhost:4317",
            format!(
                "note: {place}: 4317 is usually the port of grpc; write 4318 for HTTP, or choose grpc as the transport"
            ),
        ),
    ] {
        assert_eq!(metrics(endpoint), [message], "{endpoint}");
    }
    for endpoint in ["http://localhost:4318/v1/metrics", "http://localhost/otlp", "localhost:1"] {
        assert_eq!(metrics(endpoint), [""; 0], "{endpoint}");
    }
}

#[test]
fn a_file_that_is_named_after_another_format_is_told_so_once() {
    let toml = "# ours\n[tracer.otel]\ntype = 'otel'\ntransport = 'http'\n";
    let dotted = "tracer.otel.type = 'otel'\ntracer.otel.transport = 'http'\n";
    let yaml = "postgres:\ntelemetry:\n  exporters:\n    c:\n      sampling: 1\nserver:\n  telemetry:\n";
    let json = "{\"server\": {\"telemetry\": {\"exporter\": \"c\"}}}";
    for (name, text, message) in [
        ("misnamed.yaml", toml, "the file contains TOML, but its name means YAML; rename it to end in .toml"),
        ("dotted.yml", dotted, "the file contains TOML, but its name means YAML; rename it to end in .toml"),
        ("misnamed.toml", yaml, "the file contains YAML, but its name means TOML; rename it to end in .yaml"),
        (
            "collector.toml",
            "service: {pipelines: {}}\n",
            "the file contains YAML, but its name means TOML; rename it to end in .yaml",
        ),
        ("misnamed.json", json, "the file contains YAML, but its name means TOML; rename it to end in .yaml"),
    ] {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::write(&path, text).unwrap();
        let error = Config::from_file(&path).expect_err(name);
        assert_eq!(error.to_string(), format!("{}:1:1: {message}", path.display()), "{name}");
    }
}

#[test]
fn a_mistake_in_a_file_of_the_right_name_is_told_as_before() {
    for (name, text, message) in [
        (
            "right.toml",
            "[tracer.a]\ntype: 'otel'\n",
            "2:1: tracer.a.type: key without a value; write key = value",
        ),
        ("right.yaml", "tracer:\n  a: [\n", "2:6: [ is never closed; write ]"),
    ] {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::write(&path, text).unwrap();
        let error = Config::from_file(&path).expect_err(name);
        assert_eq!(error.to_string(), format!("{}:{message}", path.display()), "{name}");
    }
}

#[test]
fn a_yaml_document_that_is_no_table_is_told() {
    for (text, kind) in
        [("just words\n", "a string"), ("- tracer\n- metrics\n", "an array"), ("7", "an integer")]
    {
        let error = Config::from_yaml_str(text).expect_err(text);
        assert_eq!(error.to_string(), format!("<yaml>:1:1: found {kind}; write keys and their values"));
    }
    for text in ["", "# nothing\n", "---\n", "~\n"] {
        assert!(Config::from_yaml_str(text).is_ok(), "{text:?}");
    }
}

#[test]
fn https_as_a_transport_does_not_encrypt_a_plain_endpoint_and_says_so() {
    let https = |endpoint: &str| {
        told(&format!("[tracer.otel]\ntype = 'otel'\ntransport = 'https'\nendpoint = '{endpoint}'\n"))
    };
    let warning = "warning: <toml>:4:12: tracer.otel.endpoint: is not encrypted, whatever the transport says; \
                   begin it with https://";
    assert_eq!(https("collector.example"), [warning]);
    assert_eq!(https("http://collector.example"), [warning]);
    assert_eq!(https("https://collector.example"), [""; 0]);
}

#[test]
fn warns_of_batch_that_is_larger_than_queue() {
    let warning = "warning: <toml>:4:17: tracer.otel.batch-records: 1000 is more than the queue holds: \
                   a request has at most 100 records; write 100 or less, or make the queue larger";
    assert_eq!(told(&tracer("batch-records = 1000\nqueue-records = 100")), [warning]);
    assert_eq!(told(&tracer("batch-records = 100\nqueue-records = 100")), [""; 0]);
    // There is no warning about a default, because the author of the file did not choose it.
    assert_eq!(told(&tracer("queue-records = 100")), [""; 0]);
}

#[test]
fn warns_of_empty_name_and_of_sampling_beyond_its_range() {
    const PERCENT: &str = "write a percentage like 100 or 0.1";
    let program = |keys: &str| told(&format!("[telemetry]\n{keys}\n{}", tracer("")));
    for (keys, warning) in [
        ("service-name = ''", "2:16: telemetry.service-name: is empty, so the default name is used; {NAME}"),
        ("service-name = ' '", "2:16: telemetry.service-name: is empty, so the default name is used; {NAME}"),
        (
            "sampling = 150",
            "2:12: telemetry.sampling: 150 is not 0 to 100 percent: all traces are kept; {PERCENT}",
        ),
        (
            "sampling = -1",
            "2:12: telemetry.sampling: -1 is not 0 to 100 percent: no trace is kept; {PERCENT}",
        ),
    ] {
        let warning = warning.replace("{NAME}", "write a name like shop").replace("{PERCENT}", PERCENT);
        assert_eq!(program(keys), [format!("warning: <toml>:{warning}")]);
    }
    assert_eq!(program("service-name = 'shop'\nsampling = 100.0"), [""; 0]);
    let named = "telemetry.exporters.c = { exporter.type = 'collector', serviceName = '', sampling = 150 }\n\
                 server.telemetry.exporter = 'c'";
    let warnings = told(named);
    let [name, sampling] = &warnings[..] else { panic!("{warnings:?}") };
    assert!(name.contains("telemetry.exporters.c.serviceName: is empty"), "{name}");
    assert!(sampling.contains("telemetry.exporters.c.sampling: 150 is not"), "{sampling}");
}

#[test]
fn names_configuration_of_collector() {
    let text = "receivers: {otlp: {protocols: {grpc: }}}\nexporters: {otlp: {endpoint: 'b:4317'}}\n\
                service: {pipelines: {traces: {receivers: [otlp], exporters: [otlp]}}}\n";
    let message = "this is a configuration of the OpenTelemetry Collector, which receives what programs send; \
                   configure the program: standpipe init writes a file, whose endpoint is the Collector's otlp receiver";
    let error = Config::from_yaml_str(text).expect_err("a Collector's own");
    assert_eq!(error.to_string(), format!("<yaml>:1:1: {message}"));
    // Without a file name, the content determines the format.
    let error = Config::from_reader("<stdin>", text.as_bytes()).expect_err("a Collector's own");
    assert_eq!(error.to_string(), format!("<stdin>:1:1: {message}"));
}

#[test]
fn refuses_tracer_whose_type_is_probably_meant_as_ours() {
    for kind in ["otlp", "OTLP", "otlp-http", "opentelemetry", "open-telemetri"] {
        let error = Config::from_toml_str(&format!("[tracer.a]\ntype = '{kind}'")).expect_err(kind);
        assert_eq!(
            error.to_string(),
            format!(
                "<toml>:2:8: tracer.a.type: not started: \"{kind}\" is not a type of OpenTelemetry; \
                 did you mean \"open-telemetry\"?"
            )
        );
    }
    for kind in ["console", "journal", "log", "stdout", "webhook"] {
        let [note] = &told(&format!("[tracer.a]\ntype = '{kind}'"))[..] else { panic!("{kind}") };
        assert!(note.starts_with("note: <toml>:2:8: tracer.a.type: not started: "), "{note}");
    }
}

#[test]
fn a_bare_number_that_makes_metrics_race_is_told() {
    let metrics = |interval: &str| {
        told(&format!("[metrics.open-telemetry]\ntransport = 'http'\ninterval = {interval}\n"))
    };
    assert_eq!(
        metrics("30"),
        [
            "warning: <toml>:3:12: metrics.open-telemetry.interval: is 30 ms: a number without a unit is milliseconds; \
             write \"30s\" for seconds, or \"30ms\""
        ]
    );
    assert_eq!(metrics("'30s'"), [""; 0]);
}

#[test]
fn a_file_of_variables_is_told_where_they_belong() {
    for text in ["# comment\n\nOTEL_SERVICE_NAME=shop\n", "# comment\n\nexport OTEL_SERVICE_NAME=shop\n"] {
        let error = Config::from_toml_str(text).expect_err(text);
        assert_eq!(
            error.to_string(),
            "<toml>:3:1: these are environment variables; \
             set them, and read them with Config::from_env or standpipe check --env"
        );
    }
}

#[test]
fn a_word_that_goes_on_too_long_is_recognised() {
    let error = Config::from_toml_str(&tracer("level = 'warning'")).expect_err("no such level");
    assert_eq!(
        error.to_string(),
        "<toml>:4:9: tracer.otel.level: \"warning\" is not known; did you mean \"warn\"?"
    );
}
