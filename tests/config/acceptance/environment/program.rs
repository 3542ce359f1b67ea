//! Resource and sampler, and misspelled names.

use crate::acceptance::table::{Row, row};

pub(super) const PROGRAM: &[Row] = &[
    row(
        "a service name",
        "OTEL_SERVICE_NAME=shop",
        &["service-name = shop", "service-name from OTEL_SERVICE_NAME", "check service_name = shop"],
    ),
    row(
        "attributes",
        "OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test,shop.country=SE",
        &[
            "resource = deployment.environment.name=test, shop.country=SE",
            "resource from OTEL_RESOURCE_ATTRIBUTES",
        ],
    ),
    row(
        "percent-encoded attributes",
        "OTEL_RESOURCE_ATTRIBUTES=shop.name=K%C3%B6p%2C%20s%C3%A4lj",
        &["resource = shop.name=Köp, sälj"],
    ),
    row(
        "a service name among them",
        "OTEL_RESOURCE_ATTRIBUTES=service.name=shop",
        &["service-name = shop", "service-name from OTEL_RESOURCE_ATTRIBUTES"],
    ),
    row(
        "the name of its own wins",
        "OTEL_SERVICE_NAME=shop\nOTEL_RESOURCE_ATTRIBUTES=service.name=other,a=b",
        &["service-name = shop", "resource = a=b"],
    ),
    row(
        "one bad pair discards all",
        "OTEL_RESOURCE_ATTRIBUTES=a=b,c",
        &[
            "resource absent",
            "warning: OTEL_RESOURCE_ATTRIBUTES: ignored: attribute 2 has no =, so none is set; write it like key=value",
        ],
    ),
    row(
        "one bad percent sign discards all",
        "OTEL_RESOURCE_ATTRIBUTES=a=b,c=%zz",
        &[
            "resource absent",
            "warning: OTEL_RESOURCE_ATTRIBUTES: ignored: attribute 2 has a % without two hexadecimal digits after it, so none is set; write %25 for a percent sign",
        ],
    ),
    row("switched off", "OTEL_SDK_DISABLED=true", &["disabled = true", "disabled from OTEL_SDK_DISABLED"]),
    row("in any case", "OTEL_SDK_DISABLED=TRUE", &["disabled = true"]),
    row("not switched off", "OTEL_SDK_DISABLED=false", &["disabled = false"]),
    row(
        "neither",
        "OTEL_SDK_DISABLED=1",
        &["disabled = false", "warning: OTEL_SDK_DISABLED: ignored: \"1\" is not known; write true or false"],
    ),
    row("the default sampler", "", &["sampler = parentbased_always_on", "check sampling = 100"]),
    row(
        "always_on",
        "OTEL_TRACES_SAMPLER=always_on",
        &["sampler = always_on", "sampler from OTEL_TRACES_SAMPLER", "check sampling = 100"],
    ),
    row("always_off", "OTEL_TRACES_SAMPLER=always_off", &["sampler = always_off", "check sampling = 0"]),
    row(
        "traceidratio",
        "OTEL_TRACES_SAMPLER=traceidratio\nOTEL_TRACES_SAMPLER_ARG=0.25",
        &["sampler = traceidratio{0.25}", "check sampling = 25"],
    ),
    row("traceidratio without its ratio", "OTEL_TRACES_SAMPLER=traceidratio", &["sampler = traceidratio{1}"]),
    row("parentbased_always_on", "OTEL_TRACES_SAMPLER=parentbased_always_on", &["check sampling = 100"]),
    row("parentbased_always_off", "OTEL_TRACES_SAMPLER=parentbased_always_off", &["check sampling = 0"]),
    row(
        "parentbased_traceidratio",
        "OTEL_TRACES_SAMPLER=parentbased_traceidratio\nOTEL_TRACES_SAMPLER_ARG=0.5",
        &["check sampling = 50"],
    ),
    row(
        "a bad ratio",
        "OTEL_TRACES_SAMPLER=traceidratio\nOTEL_TRACES_SAMPLER_ARG=half",
        &[
            "sampler = traceidratio{1}",
            "warning: OTEL_TRACES_SAMPLER_ARG: ignored: \"half\" is not a ratio of traces; write 0 to 1, like 0.25",
        ],
    ),
    row(
        "an unknown sampler",
        "OTEL_TRACES_SAMPLER=allways_on",
        &[
            "check sampling = 100",
            "warning: OTEL_TRACES_SAMPLER: ignored: \"allways_on\" is not known; did you mean \"always_on\"?",
        ],
    ),
    row("known propagators", "OTEL_PROPAGATORS=tracecontext,baggage", &["exporters = otlp"]),
    row(
        "a propagator that is not spoken",
        "OTEL_PROPAGATORS=tracecontext,jaeger",
        &[
            "exporters = otlp",
            "propagators = tracecontext",
            "warning: OTEL_PROPAGATORS: ignored: \"jaeger\" is deprecated and not supported; \
             write tracecontext, which Jaeger reads",
        ],
    ),
    row(
        "a bad limit",
        "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT=many",
        &[
            "exporters = otlp",
            "warning: OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT: ignored: \"many\" is not a whole number; write 0 to 4294967295",
        ],
    ),
];

pub(super) const NAMES: &[Row] = &[
    row(
        "a slip",
        "OTEL_EXPORTER_OTLP_ENDPONT=http://a.test",
        &[
            "exporters = otlp",
            "warning: OTEL_EXPORTER_OTLP_ENDPONT: unknown variable; did you mean OTEL_EXPORTER_OTLP_ENDPOINT?",
        ],
    ),
    row(
        "a slip in a name that is not of an exporter",
        "OTEL_SERVICENAME=shop",
        &["exporters = otlp", "warning: OTEL_SERVICENAME: unknown variable; did you mean OTEL_SERVICE_NAME?"],
    ),
    row("of another program", "OTEL_PYTHON_LOG_LEVEL=debug\nJAVA_HOME=x", &["exporters = otlp"]),
];
