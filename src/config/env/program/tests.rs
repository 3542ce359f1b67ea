//! Who speaks, which traces are kept, how much a record may carry.

use crate::config::env::tests::*;
use crate::config::sampler::Sampler;
use crate::record::{LogLimits, SpanLimits};

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
        (&[("OTEL_PROPAGATORS", "tracecontext, Baggage")], &[]),
        (&[("OTEL_PROPAGATORS", "none")], &[]),
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
                "warning: OTEL_TRACES_SAMPLER_ARG: ignored: {ratio:?} is not a share of all traces; \
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
    // nor is it started without its headers by a program that switches it on again
    assert_eq!(names(&config), ["otlp"]);
    assert_eq!(config.summaries()[0].signals, ["traces", "metrics"]);
    refused(&[("OTEL_SDK_DISABLED", "false"), broken]);
}
