//! Standpipe's exporters for the OpenTelemetry SDK beside those of opentelemetry-otlp.

use super::Meant;

pub(crate) const EXPORTERS: &[Meant] = &[
    Meant {
        what: "a key is there once, with its last value",
        why: "OTLP forbids a key twice, and what a receiver makes of it is anyone's guess",
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
        why: "the time from start to end would be negative, which unsigned numbers make centuries of; and after 584 years \
              theirs starts again at 1970",
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
        what: "a resource that nobody has set gives way to that of the telemetry",
        why: "who names the service where standpipe is configured need not name it in the SDK as well",
        cases: &[
            ("*_of_an_empty_resource: *: resource", "{}", "{service.name: \"till\", *}"),
            (
                "spans_of_an_untouched_resource: span: resource",
                "{service.name: \"unknown_service*",
                "{service.name: \"till\", *}",
            ),
        ],
    },
];
