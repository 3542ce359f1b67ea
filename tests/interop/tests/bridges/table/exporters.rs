//! Intended differences between standpipe's exporters for the OpenTelemetry SDK and those of opentelemetry-otlp.

use super::Meant;

pub(crate) const EXPORTERS: &[Meant] = &[
    Meant {
        what: "a key occurs once, with its last value",
        why: "OTLP forbids duplicate keys, and receivers treat them differently",
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
        what: "no attribute has an empty key",
        why: "the specification requires a non-empty key; the attribute is counted as dropped",
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
        what: "no span ends before it starts, and no time overflows",
        why: "as an unsigned number, a negative duration is centuries long; theirs wraps around to 1970 after 584 years",
        cases: &[("spans_at_odd_times: span: times", "*", "*")],
    },
    Meant {
        what: "an unsigned number above OTLP's range becomes the largest number in that range",
        why: "theirs sends 0, which looks like a restarted counter",
        cases: &[
            ("metrics_with_odd_values: counter: point {}", "*(0)*", "*(9223372036854775807)*"),
            ("metrics_with_odd_values: unsigned: point {}", "*(0)*", "*(9223372036854775807)*"),
        ],
    },
    Meant {
        what: "a metric with very many points is split",
        why: "no request exceeds the limits, for any number of attribute sets",
        cases: &[("metrics_with_more_sets_than_the_sdk_keeps: counter: parts", "1", "2")],
    },
    Meant {
        what: "an unset resource is replaced by the resource of the `Telemetry`",
        why: "a service named in standpipe's configuration need not be named in the SDK as well",
        cases: &[
            (
                "*_of_an_empty_resource: *: resource",
                "{}",
                "{service.instance.id: *, service.name: \"till\", *}",
            ),
            (
                "spans_of_an_untouched_resource: span: resource",
                "{service.name: \"unknown_service*",
                "{service.instance.id: *, service.name: \"till\", *}",
            ),
        ],
    },
];
