//! Intended differences between log records of standpipe's layer and those of opentelemetry-appender-tracing.

use super::Meant;

pub(crate) const LOGS: &[Meant] = &[
    Meant {
        what: "the flags mark the trace id as random",
        why: "W3C Trace Context level 2 has a flag for random trace ids",
        cases: &[("*: log record *: flags", "0x1", "0x3")],
    },
    Meant {
        what: "a log record has the time of the event",
        why: "theirs has only the time of observation; ours has both times, and backends sort by the time of the event",
        cases: &[("*: log record *: time", "only that of observation", "its own")],
    },
    Meant {
        what: "an event name is sent only if the program gave one",
        why: "theirs sends `event src/main.rs:7`, a new name whenever a line moves",
        cases: &[
            ("*: log record *: event name", "event tests/*", "–"),
            ("logged_*: log record *: event name", "log event", "–"),
        ],
    },
    Meant {
        what: "every log record has a body",
        why: "most viewers show only the body: without a message, the body is the error, or else the event's name",
        cases: &[
            ("*: log record *: body", "nothing", "\"event tests/*\""),
            ("*: log record *: body", "nothing", "\"no *milk*\""),
            ("*: log record *: body", "nothing", "\"Failure { message: *"),
            ("with_two_errors: log record 4: body", "nothing", "\"another\""),
            ("with_a_message_that_is_no_text: log record *: body", "nothing", "\"*\""),
            ("with_a_message_that_is_no_text: log record *: attribute message", "* *", "–"),
            ("with_a_name_of_its_own: log record 1: body", "nothing", "\"purchase\""),
            ("with_a_message: log record 3: body", "\"\"", "\"event tests/*\""),
        ],
    },
    Meant {
        what: "a log record belongs to the span that the program names",
        why: "theirs assigns it to the thread's current span, if any",
        cases: &[
            ("without_a_parent: log record 1: span", "span", "none"),
            ("with_an_explicit_parent_that_is_closed: log record 1: span", "outer", "none"),
            ("filtered_parents: log record 1: span", "outer", "none"),
            ("*: log record 1: trace", "of *", "–"),
            ("*: log record 1: flags", "0x1", "0x0"),
            ("with_an_explicit_parent: log record *: span", "outer", "other"),
            ("with_an_explicit_parent: log record *: trace", "of outer", "of other"),
            ("*: log record *: span", "none", "*"),
            ("*: log record *: trace", "–", "of *"),
            ("*: log record *: flags", "0x0", "0x3"),
        ],
    },
    Meant {
        what: "errors are written as on span events",
        why: "theirs drops the field's name and the causes, and treats `error` and `%error` differently",
        cases: &[
            ("*: log record *: attribute error", "\"*", "–"),
            ("*: log record *: attribute error", "–", "\"no milk\""),
            ("*: log record *: attribute error.chain", "–", "[*]"),
            ("*: log record *: attribute exception.message", "–", "\"*"),
            ("*: log record *: attribute exception.stacktrace", "–", "\"*"),
            ("with_an_error_of_another_name: log record 1: attribute cause", "–", "\"no milk\""),
            ("with_an_error_of_another_name: log record 1: attribute cause.chain", "–", "[]"),
            ("with_two_errors: log record 1: attribute one", "–", "\"no milk\""),
            ("with_two_errors: log record 1: attribute one.chain", "–", "[]"),
            ("with_two_errors: log record 1: attribute two", "–", "\"no milk\""),
            ("with_two_errors: log record 1: attribute two.chain", "–", "[*]"),
            ("with_two_errors: log record 1: attribute exception.message", "* and *", "\"no milk\""),
        ],
    },
    Meant {
        what: "records of the `log` crate keep their target and source location",
        why: "theirs has the scope `log` for all of them, and the location under its own attribute names",
        cases: &[
            ("logged_*: log record *: scope", "log", "*"),
            ("logged_*: log record *: attribute log.*", "*", "–"),
        ],
    },
];
