//! Standpipe's exporters for the OpenTelemetry SDK beside those of opentelemetry-otlp.

use super::Meant;

pub(crate) const EXPORTERS: &[Meant] = &[
    Meant {
        what: "a key is there once, with its last value",
        why: "OTLP has no use for a key twice: a receiver may keep either value, or refuse the span",
        cases: &[
            ("spans_with_a_key_twice: span: attributes", "twice: int 1, *, twice: int 2", "*, twice: int 2"),
            (
                "logs_with_a_key_twice*: attributes",
                "*, twice: int 1, *, twice: int 2",
                "other: int 3, twice: int 2",
            ),
        ],
    },
    Meant {
        what: "no attribute without a key",
        why: "the specification asks for a key that is not empty; it is counted as dropped",
        cases: &[
            ("spans_without_a_key: span: attributes", ": \"of the span\"", ""),
            ("spans_without_a_key: span: dropped attributes", "0", "1"),
            ("spans_without_a_key: span: event 1", "* dropping 0", "* dropping 1"),
            ("spans_without_a_key: span: event 1 attributes", ": \"of the event\", kept: *", "kept: *"),
            ("spans_without_a_key: span: link 1", "* dropping 0", "* dropping 1"),
            ("spans_without_a_key: span: link 1 attributes", ": \"of the link\"", ""),
            ("spans_without_a_key: span: resource", "{: \"of the resource\", *", "{service.name: *"),
            ("logs_with_a_key_twice_and_without_a_key: *: dropped attributes", "0", "1"),
            ("metrics_without_a_key: counter: point {: \"no key\"}", "*(1)*", "–"),
            ("metrics_without_a_key: counter: point {}", "–", "*(1)*"),
        ],
    },
    Meant {
        what: "no span ends before it starts, and no time is beyond the last that OTLP can say",
        why: "backends show a negative time as one of centuries; theirs starts again at 1970 after 584 years",
        cases: &[("spans_at_odd_times: span: times", "*", "*")],
    },
    Meant {
        what: "an unsigned number beyond the numbers of OTLP is the largest of them",
        why: "theirs is 0, which looks like a counter that started again",
        cases: &[
            ("metrics_with_odd_values: counter: point {}", "*(0)*", "*(9223372036854775807)*"),
            ("metrics_with_odd_values: unsigned: point {}", "*(0)*", "*(9223372036854775807)*"),
        ],
    },
    Meant {
        what: "a metric with very many points comes in parts",
        why: "so that no request is beyond the limits, however many sets of attributes there are",
        cases: &[("metrics_with_more_sets_than_the_sdk_keeps: counter: parts", "1", "2")],
    },
    Meant {
        what: "an empty resource gives way to that of the telemetry",
        why: "a program that set nothing in the SDK has set it where it configures standpipe",
        cases: &[("spans_of_an_empty_resource: span: resource", "{}", "{service.name: *}")],
    },
];
