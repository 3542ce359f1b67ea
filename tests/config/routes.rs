//! `telemetry.exporters` and `server.telemetry`: two providers, each with its exporter, name and sampling.

use standpipe::config::{Diagnostic, DiagnosticSeverity, ExporterSummary, ProviderName, SummaryValue};
use standpipe::{Application, Config, Exporter};

use crate::support::settings::{diagnostics, names, refused};

/// The example from Tracetest's documentation, as a tree in TOML.
const EXAMPLE: &str = r#"
[telemetry.exporters.collector]
serviceName = "tracetest"
sampling = 100
exporter.type = "collector"
exporter.collector.endpoint = "otel-collector:4317"

[server.telemetry]
exporter = "collector"
applicationExporter = "collector"
"#;

fn loaded(text: &str) -> Config {
    Config::from_toml_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// One exporter of the internal provider, with further keys.
fn collector(keys: &str) -> String {
    format!("server.telemetry.exporter = 'c'\n[telemetry.exporters.c]\nexporter.type = 'collector'\n{keys}\n")
}

/// Returns the only error among all diagnostics.
fn the_error(text: &str) -> String {
    let error = refused(text);
    let is_error = |diagnostic: &&Diagnostic| diagnostic.severity == DiagnosticSeverity::Error;
    let errors: Vec<String> = error.diagnostics().iter().filter(is_error).map(ToString::to_string).collect();
    assert_eq!(errors.len(), 1, "{text}: {errors:?}");
    assert!(error.into_usable().exporters().is_empty(), "{text}");
    errors.concat()
}

fn only(config: &Config) -> ExporterSummary {
    let summaries = config.summaries();
    let [summary] = summaries.as_slice() else { panic!("{summaries:?}") };
    summary.clone()
}

#[test]
fn the_documented_example_describes_two_routes() {
    let summaries = loaded(EXAMPLE).summaries();
    let [internal, application] = summaries.as_slice() else { panic!("{summaries:?}") };
    assert_eq!(internal.route, Some("internal"));
    assert_eq!(internal.signals, ["traces", "metrics"]);
    assert_eq!(*internal.setting("interval_ms"), SummaryValue::Number(10_000));
    assert_eq!(application.route, Some("application"));
    assert_eq!(application.signals, ["traces"]);
    assert_eq!(*application.setting("interval_ms"), SummaryValue::Null);
    for route in [internal, application] {
        assert_eq!(route.id, "collector");
        assert_eq!(route.transport, "grpc");
        assert_eq!(route.endpoints["traces"], "http://otel-collector:4317");
        assert!(!route.tls);
        assert_eq!(*route.setting("lossy"), SummaryValue::Bool(false));
        assert_eq!(*route.setting("throttle_ms"), SummaryValue::Number(1_000));
        assert_eq!((route.service_name.as_str(), route.sampling), ("tracetest", 100.0));
    }
}

#[test]
fn sampling_is_a_share_in_percent() {
    for (given, percent, sampler) in [
        ("100", 100.0, "traceidratio{1}"),
        ("1", 1.0, "traceidratio{0.01}"),
        ("0.1", 0.1, "traceidratio{0.001}"),
        ("0.7", 0.7, "traceidratio{0.006999999999999999}"),
        ("1e2", 100.0, "traceidratio{1}"),
        ("250", 100.0, "traceidratio{1}"),
        ("inf", 100.0, "traceidratio{1}"),
        ("0", 0.0, "traceidratio{0}"),
        ("-3", 0.0, "traceidratio{0}"),
        ("'50'", 50.0, "traceidratio{0.5}"),
    ] {
        let config = loaded(&collector(&format!("sampling = {given}")));
        assert_eq!(only(&config).sampling, percent, "{given}");
        let shown = config.effective().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(shown.contains(&format!("sampler = {sampler} (<toml>:4:12)")), "{given}: {shown}");
    }
    for (given, message) in [
        ("'100%'", "\"100%\" is not a number"),
        ("nan", "nan is not a number"),
        ("''", "\"\" is not a number"),
        ("true", "found a boolean"),
    ] {
        assert_eq!(
            the_error(&collector(&format!("sampling = {given}"))),
            format!(
                "<toml>:4:12: telemetry.exporters.c.sampling: {message}; \
                 write a percentage like 100 or 0.1"
            )
        );
    }
}

#[test]
fn the_interval_is_spelt_as_go_spells_it() {
    for (given, millis) in [("'10s'", 10_000), ("'1m30s'", 90_000), ("'1.5s'", 1_500)] {
        let config = loaded(&collector(&format!("metricsReaderInterval = {given}")));
        assert_eq!(*only(&config).setting("interval_ms"), SummaryValue::Number(millis), "{given}");
    }
    for (given, message) in [
        ("10", "10 has no unit; write \"10s\" for seconds"),
        ("'10'", "\"10\" has no unit; write \"10s\" for seconds"),
        ("'0s'", "0s is too short; write 1ms to 365d"),
        ("'-1s'", "\"-1s\" is negative; write numbers with their units (h, m, s or ms), like 10s or 1m30s"),
        ("[]", "found an array; write a duration like 10s"),
    ] {
        assert_eq!(
            the_error(&collector(&format!("metricsReaderInterval = {given}"))),
            format!("<toml>:4:25: telemetry.exporters.c.metricsReaderInterval: {message}")
        );
    }
}

#[test]
fn an_endpoint_without_a_scheme_is_plaintext_and_localhost_is_the_default() {
    for (given, endpoint) in [
        ("", "http://localhost:4317"),
        ("exporter.collector.endpoint = 'otel'", "http://otel:4317"),
        ("exporter.collector.endpoint = 'otel:1'", "http://otel:1"),
        ("exporter.collector.endpoint = 'http://otel'", "http://otel:80"),
        ("exporter.collector.endpoint = 'https://otel'", "https://otel:443"),
        ("exporter.collector = {}", "http://localhost:4317"),
    ] {
        let config = loaded(&collector(given));
        assert_eq!(only(&config).endpoints["traces"], endpoint, "{given}");
        assert_eq!(only(&config).tls, endpoint.starts_with("https"), "{given}");
    }
}

#[test]
fn a_name_is_found_exactly_first_and_then_in_any_case() {
    let text = "server.telemetry = {exporter = 'Jaeger', applicationExporter = 'JAEGER'}\n\
                [telemetry.exporters.jaeger]\nserviceName = 'small'\nexporter.type = 'collector'\n\
                [telemetry.exporters.Jaeger]\nserviceName = 'capital'\nexporter.type = 'collector'\n";
    let ids: Vec<(String, Option<&str>)> =
        loaded(text).summaries().into_iter().map(|summary| (summary.id, summary.route)).collect();
    assert_eq!(ids, [("Jaeger".to_owned(), Some("internal")), ("jaeger".to_owned(), Some("application"))]);
}

#[test]
fn the_names_of_the_applications_exporters_begin_with_its_own_whenever_they_are_given() {
    let of_application = |exporter| Config::new().application(Application::new().exporter(exporter));
    let config = of_application(Exporter::http("localhost").named("a"));
    assert_eq!(names(&config), ["application/a"]);
    let again = of_application(config.exporters()[0].clone());
    assert_eq!(names(&again), ["application/a"]);
    let renamed = again.map_exporters(|exporter| exporter.named("b"));
    assert_eq!(names(&renamed), ["application/b"]);
    let renamed = renamed.map_exporters(|exporter| {
        let name = exporter.name().to_owned();
        exporter.named(name)
    });
    assert_eq!(names(&renamed), ["application/b"]);
    assert_eq!(only(&renamed).id, "b");
}

#[test]
fn a_name_that_nobody_has_is_told_with_all_that_there_are() {
    let text = "[telemetry.exporters]\nzipkin.exporter.type = 'collector'\nalpha.exporter.type = 'collector'\n\
                [server.telemetry]\nexporter = 'beta'\napplicationExporter = 'alpha'\n";
    let error = refused(text);
    let messages: Vec<String> = error.diagnostics().iter().map(ToString::to_string).collect();
    assert!(
        messages.contains(
            &"<toml>:5:12: server.telemetry.exporter: there is no exporter \"beta\"; write one of \"alpha\", \"zipkin\""
                .to_owned()
        ),
        "{messages:?}"
    );
}

#[test]
fn only_what_is_chosen_is_judged_and_what_nobody_chose_is_told() {
    let text = "server.telemetry.exporter = 'c'\n\
                [telemetry.exporters.c]\nexporter.type = 'collector'\n\
                [telemetry.exporters.idle]\nsampling = 'all'\nexporter.type = 'console'\n";
    let config = loaded(text);
    assert_eq!(only(&config).id, "c");
    assert!(
        diagnostics(&config).contains(
            &"note: <toml>:4:22: telemetry.exporters.idle: not started: server.telemetry does not choose it"
                .to_owned()
        ),
        "{:?}",
        diagnostics(&config)
    );
    let unchosen = loaded("[telemetry.exporters.idle]\nexporter.type = 'console'\n");
    assert!(unchosen.exporters().is_empty());
    assert_eq!(
        diagnostics(&unchosen),
        [
            "warning: <toml>:1:22: telemetry.exporters.idle: not started: server.telemetry does not choose it; \
             write idle as server.telemetry.exporter"
        ]
    );
}

#[test]
fn a_chosen_exporter_must_be_of_a_known_type() {
    for (text, message) in [
        (
            "server.telemetry.exporter = 'c'\n[telemetry.exporters.c]\nexporter.type = 'console'",
            "<toml>:3:17: telemetry.exporters.c.exporter.type: \"console\" is not known; write type: collector",
        ),
        (
            "server.telemetry.exporter = 'c'\n[telemetry.exporters.c]\nsampling = 1",
            "<toml>:2:22: telemetry.exporters.c.exporter.type: missing; write type: collector",
        ),
        (
            "server.telemetry.exporter = 'c'\ntelemetry.exporters.c = 5",
            "<toml>:2:25: telemetry.exporters.c: found an integer; write its keys below it",
        ),
        (
            "server.telemetry.exporter = 5\n",
            "<toml>:1:29: server.telemetry.exporter: found an integer; \
             write the name of an exporter below telemetry.exporters",
        ),
        (
            "server.telemetry.exporter = 'c'\n",
            "<toml>:1:29: server.telemetry.exporter: there is no exporter \"c\"; describe it below telemetry.exporters",
        ),
        ("telemetry = 'on'", "<toml>:1:13: telemetry: found a string; write its keys below it"),
    ] {
        assert_eq!(the_error(text), message, "{text}");
    }
}

#[test]
fn unknown_keys_are_told_at_every_depth_and_sections_of_others_are_not() {
    let text = "postgres.host = 'db'\nserver.httpPort = 11633\n\
                server.telemetry = {exporter = 'c', applicationExporters = 'c'}\n\
                [telemetry]\ndataStores = {}\n\
                [telemetry.exporters.c]\nservicename = 'x'\nexporter = {type = 'collector', kind = 1}\n\
                exporter.collector.end-point = 'x'";
    let text = text.replace(
        "exporter = {type = 'collector', kind = 1}\n",
        "exporter.type = 'collector'\nexporter.kind = 1\n",
    );
    let told: Vec<String> = diagnostics(&loaded(&text))
        .into_iter()
        .filter(|diagnostic| diagnostic.contains("unknown key"))
        .map(|diagnostic| {
            diagnostic.split_once("toml>:").map(|(_, rest)| rest.to_owned()).unwrap_or_default()
        })
        .collect();
    assert_eq!(
        told,
        [
            "3:37: server.telemetry.applicationExporters: unknown key; did you mean \"applicationExporter\"?",
            "5:1: telemetry.dataStores: unknown key; remove it",
            "7:1: telemetry.exporters.c.servicename: unknown key; did you mean \"serviceName\"?",
            "9:10: telemetry.exporters.c.exporter.kind: unknown key; remove it",
            "10:20: telemetry.exporters.c.exporter.collector.end-point: unknown key; did you mean \"endpoint\"?",
        ]
    );
}

#[test]
fn routes_that_are_not_chosen_are_not_there() {
    let application =
        "server.telemetry.applicationExporter = 'c'\n[telemetry.exporters.c]\nexporter.type = 'collector'";
    let config = loaded(application);
    assert_eq!(config.exporters()[0].provider(), Some(ProviderName::Application));
    assert_eq!(config.exporters().len(), 1);
    assert!(loaded("[server]\ntelemetry = {}\n").exporters().is_empty());
    assert!(loaded("server = 'local'\n").exporters().is_empty());
}

#[test]
fn a_broken_exporter_of_one_route_does_not_disable_the_other() {
    let text = "server.telemetry = {exporter = 'good', applicationExporter = 'bad'}\n\
                [telemetry.exporters.good]\nexporter.type = 'collector'\n\
                [telemetry.exporters.bad]\nexporter.type = 'collector'\nsampling = 'all'\n";
    let usable = refused(text).into_usable();
    assert_eq!(usable.exporters().len(), 1);
    assert_eq!(usable.exporters()[0].provider(), Some(ProviderName::Internal));
}

#[test]
fn a_wrong_name_of_one_route_leaves_the_other_alone() {
    for choice in ["'nobody'", "5"] {
        let text = format!(
            "server.telemetry = {{exporter = 'c', applicationExporter = {choice}}}\n\
             [telemetry.exporters.c]\nexporter.type = 'collector'\n"
        );
        let usable = refused(&text).into_usable();
        assert_eq!(usable.exporters().len(), 1, "{choice}");
        assert_eq!(usable.exporters()[0].provider(), Some(ProviderName::Internal), "{choice}");
    }
}
