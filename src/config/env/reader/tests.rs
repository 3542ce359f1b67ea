//! What cannot be understood: reported and ignored, or refused if nothing may be sent without it.

use proptest::prelude::*;

use crate::config::env::tests::*;
use crate::config::env::{fill, names};
use crate::config::{Config, ConfigError, Exporter, validate};

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
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "0", "ignored: 0 is too small; write 1 to 31536000000"),
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
            "ignored: \"http\" is not known; write http/protobuf, grpc or http/json",
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
        ("OTEL_PROPAGATORS", "b3", "ignored: \"b3\" is not supported; write tracecontext, baggage or none"),
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
            "ignored: attribute 2 has a % without two hexadecimal digits behind it, so none is set; \
             write %25 for a percent sign",
        ),
        (
            "OTEL_RESOURCE_ATTRIBUTES",
            "a=%ff",
            "ignored: attribute 1 is not UTF-8 when it is decoded, so none is set; encode the bytes of UTF-8",
        ),
        ("OTEL_SPAN_EVENT_COUNT_LIMIT", "-1", "ignored: \"-1\" is not a whole number; write 0 to 4294967295"),
    ] {
        assert_ignored(name, value, message);
    }
}

#[test]
fn a_variable_that_looks_like_one_of_ours_is_told() {
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
    ] {
        assert_ignored(name, "1", message);
    }
    for name in [
        "OTEL_PYTHON_LOG_CORRELATION",
        "OTEL_LOG_LEVEL",
        "OTEL_CONFIG_FILE",
        "OTEL_EXPORTER_ZIPKIN_ENDPOINT",
        "OTEL_JAVAAGENT_ENABLED",
        "OTEL_METRICS_EXEMPLAR_FILTER",
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
            "value of header \"authorization\" has a % without two hexadecimal digits behind it; \
             write %25 for a percent sign",
        ),
        (
            "HEADERS",
            "authorization=hunter2%c3",
            "value of header \"authorization\" is not UTF-8 when it is decoded; encode the bytes of UTF-8",
        ),
        (
            "HEADERS",
            "authorization=",
            "header \"authorization\" has no value; write the value or remove the header",
        ),
        (
            "HEADERS",
            "content-length=5",
            "header \"content-length\" is not yours to set; remove it: standpipe writes it",
        ),
        ("HEADERS", &too_many, "129 headers; write at most 128"),
        (
            "ENDPOINT",
            "http://user:hunter2@c",
            "\"http://***@c\" holds a user name or password; send them as a header: \"Authorization: Basic …\"",
        ),
        ("ENDPOINT", "ftp://c", "\"ftp://c\" has an unknown scheme; write http:// or https://"),
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
        // the endpoint of its own makes two exporters that ask the same variable: it is wrong once
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
    let error = refused(&[("OTEL_METRICS_EXPORTER", "prometeus")]);
    assert_eq!(
        error.to_string(),
        "OTEL_METRICS_EXPORTER: \"prometeus\" is not known; write otlp, console or none"
    );
    assert_eq!(error.into_usable().summaries()[0].signals, ["traces", "logs"]);
}

#[cfg(unix)]
#[test]
fn bytes_that_are_no_text_are_refused_where_they_matter_and_else_ignored() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let latin = || OsStr::from_bytes(b"h\xfcnter2").to_owned();
    for name in ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_EXPORTER"] {
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
        let known = names::known();
        let variables = chosen.iter().map(|(index, value)| (index.get(&known).as_str(), value.as_str()));
        let config = Config::from_variables(variables.clone()).unwrap_or_else(ConfigError::into_usable);
        // what is said to be usable is usable
        prop_assert!(config.validate().is_ok());
        let mut config = Config::new().exporter(Exporter::http("http://c"));
        let found = fill(&mut config, &variables.collect());
        let usable = validate::validate(config, found, &[]).unwrap_or_else(ConfigError::into_usable);
        prop_assert!(usable.validate().is_ok());
    }
}
