//! Intended differences between standpipe's layer and tracing-opentelemetry.

use super::Meant;

pub(crate) const LAYER: &[Meant] = &[
    Meant {
        what: "the resource names standpipe",
        why: "`telemetry.sdk.*` identifies the library that made the record",
        cases: &[
            ("*: program: resource attribute telemetry.sdk.name", "\"opentelemetry\"", "\"standpipe\""),
            ("*: program: resource attribute telemetry.sdk.version", "\"*\"", "\"*\""),
        ],
    },
    Meant {
        what: "the resource has a `service.instance.id`",
        why: "replicas and restarted processes are separate streams",
        cases: &[("*: program: resource attribute service.instance.id", "–", "\"*\"")],
    },
    Meant {
        what: "the flags mark the trace id as random, and keep the flags of a remote parent",
        why: "W3C Trace Context level 2 has a flag for random trace ids, and requires its propagation",
        cases: &[
            ("*: *: flags", "0x101", "0x103"),
            ("*: link * flags", "0x101", "0x103"),
            ("a_remote_parent_twice: request: flags", "0x301", "0x303"),
            ("links_to_other_processes: batch: link 2 flags", "0x301", "0x303"),
            ("injected_of_a_root: program: note traceparent", "*-01", "*-03"),
            ("a_remote_parent_after_a_look_at_the_context: program: note injected", "*-01", "*-03"),
        ],
    },
    Meant {
        what: "unsigned and 128-bit integers arrive as numbers, not as text",
        why: "a `usize` as text cannot be summed or compared; only integers outside OTLP's range become text",
        cases: &[
            ("unsigned_numbers: span: attribute *", "\"*\"", "int *"),
            ("huge_numbers: span: attribute last", "\"9223372036854775807\"", "int 9223372036854775807"),
            ("huge_numbers: wide: attribute small", "\"1\"", "int 1"),
            ("huge_numbers: wide: attribute unsigned", "\"2\"", "int 2"),
            ("with_fields_of_every_kind: span: event 2 attribute small", "\"42\"", "int 42"),
            ("with_fields_of_every_kind: span: event 2 attribute wide", "\"1\"", "int 1"),
            ("plain: buy: attribute size", "\"3\"", "int 3"),
            ("with_settings: GET /milk: attribute secret.length", "\"3\"", "int 3"),
        ],
    },
    Meant {
        what: "bytes are bytes",
        why: "OTLP has a value type for them",
        cases: &[
            ("bytes: span: attribute bytes", "\"[61 00 ff]\"", "bytes 6100ff"),
            ("bytes: span: attribute none", "\"[]\"", "bytes "),
            ("with_fields_of_every_kind: span: event 4 attribute bytes", "\"[61 00]\"", "bytes 6100"),
        ],
    },
    Meant {
        what: "an event with more fields than the limit keeps its source location",
        why: "on spans, both stacks record the location before the fields; the location shows where to look for missing fields",
        cases: &[
            ("too_many_fields_of_an_event: span: event 1 attribute code.*", "–", "*"),
            ("too_many_fields_of_an_event: span: event 1 attribute f123", "int 123", "–"),
            ("too_many_fields_of_an_event: span: event 1 attribute f124", "int 124", "–"),
            ("too_many_fields_of_an_event: span: event 1 attribute f125", "int 125", "–"),
        ],
    },
    Meant {
        what: "a key occurs once, with its last value",
        why: "OTLP forbids duplicate keys, and receivers treat them differently",
        cases: &[
            ("recorded_twice: span: attribute twice", "int 1 and int 2", "int 2"),
            ("recorded_again_and_again: span: attribute progress", "int 0 and * and \"done\"", "\"done\""),
            ("recorded_over_a_first_value: span: attribute state", "\"first\" and \"second\"", "\"second\""),
            ("names_that_others_use: span: attribute target", "\"bridges*\" and \"mine\"", "\"mine\""),
            ("names_that_others_use: code: attribute code.file.path", "\"*.rs\" and \"mine\"", "\"mine\""),
            ("names_that_others_use: code: attribute thread.name", "\"player\" and \"mine\"", "\"mine\""),
            ("names_that_others_use: code: attribute *_ns", "int -1 and int *", "some time"),
            ("with_fields_that_mean_something_on_spans: span: event 2 attribute *", "* and *", "*"),
            ("a_field_recorded_too_often: span: attribute progress", "int 0 and *", "int 199"),
            ("a_field_recorded_too_often: span: dropped attributes", "80", "–"),
            ("a_field_recorded_too_often: span: attribute *_ns", "–", "some time"),
            ("two_errors: span: attribute exception.message", "\"no milk\" and \"no milk\"", "\"no milk\""),
            ("two_errors: span: attribute exception.stacktrace", "[] and [*]", "\"*\""),
            ("with_two_errors: span: *attribute exception.message", "* and *", "\"no milk\""),
            ("with_two_errors: span: *attribute exception.stacktrace", "[] and [*]", "\"*\""),
        ],
    },
    Meant {
        what: "no attribute has an empty key",
        why: "the specification requires a non-empty key; the attribute is counted as dropped",
        cases: &[
            ("names_with_dots_and_quotes: span: attribute ", "int 3", "–"),
            ("names_with_dots_and_quotes: span: dropped attributes", "–", "1"),
        ],
    },
    Meant {
        what: "`exception.stacktrace` is a string, and is absent without a cause",
        why: "the conventions define one string; the list of causes is in `<field>.chain`",
        cases: &[
            ("an_error_without_a_cause: span: attribute exception.stacktrace", "[]", "–"),
            ("an_error_with_causes: span: attribute exception.stacktrace", "[\"*\", \"*\"]", "\"*\\n*\""),
            ("recorded_errors: span: attribute exception.stacktrace", "[\"*\", \"*\"]", "\"*\\n*\""),
            ("with_an_error*: attribute exception.stacktrace", "[\"*\", \"*\"]", "\"*\\n*\""),
            ("with_an_error*: event 1 attribute exception.stacktrace", "[\"*\", \"*\"]", "\"*\\n*\""),
            ("with_an_error*: attribute exception.stacktrace", "[]", "–"),
            ("with_an_error*: event 1 attribute exception.stacktrace", "[]", "–"),
        ],
    },
    Meant {
        what: "an event with an `error` and no message is an exception, in the forms `error`, `%error` and `?error`",
        why: "theirs makes an exception of `%error` and `?error`, but not of the error value, although the value has more information",
        cases: &[
            ("with_an_error: span: event 1", "event *", "exception"),
            ("with_an_error: span: status", "error", "error \"no milk\""),
        ],
    },
    Meant {
        what: "an event with an `error` and a message is not an exception, whichever of the two fields comes first",
        why: "theirs depends on which of the two fields comes first",
        cases: &[
            ("*: late message: status", "error \"no milk\"", "error"),
            ("*: late message: event 1 attribute exception.message", "\"no milk\"", "–"),
            ("*: late message: event 1 attribute error", "–", "\"no milk\""),
        ],
    },
    Meant {
        what: "an `error` that is a string is kept unchanged, and a number is not an error",
        why: "theirs quotes strings, and treats unsigned and signed numbers differently",
        cases: &[
            ("with_an_error_that_is_a_text: span: event 1 attribute exception.message", "\"\\\"*", "\"no *"),
            ("with_an_error_that_is_a_text: span: status", "error \"\\\"*", "error \"no *"),
            ("with_an_error_that_is_a_number: span: event 3", "exception", "event *"),
            ("with_an_error_that_is_a_number: span: event 3 attribute exception.message", "\"404\"", "–"),
            ("with_an_error_that_is_a_number: span: event 3 attribute error", "–", "int 404"),
            ("with_an_error_that_is_a_number: span: status", "error \"404\"", "error"),
        ],
    },
    Meant {
        what: "the last of several errors is the span's status",
        why: "as the specification requires; theirs uses the error whose text sorts last",
        cases: &[("with_two_errors: displayed: status", "error \"no milk\"", "error \"another\"")],
    },
    Meant {
        what: "name and kind can be recorded at any time",
        why: "a route is often known only after the request was read; theirs ignores name and kind once the span was entered",
        cases: &[
            ("a_name_recorded_after_entering: static: name", "static", "renamed"),
            ("a_name_recorded_after_a_child: static: name", "static", "renamed"),
            ("a_kind_recorded_after_entering: span: kind", "SPAN_KIND_INTERNAL", "SPAN_KIND_CLIENT"),
        ],
    },
    Meant {
        what: "a status code and its description can be set in any order, and `ok` is final",
        why: "as the specification requires; theirs uses the last field until the span \
              is entered, and ranks the codes after that",
        cases: &[
            ("a_description_with_a_code: ok: status", "error \"no milk\"", "ok"),
            ("a_code_after_a_description: error: status", "error", "error \"no milk\""),
            ("a_code_after_a_description: wrong: status", "unset", "error \"no milk\""),
            ("a_worse_status_before_entering: span: status", "error", "ok"),
            ("unset_after_an_error: early: status", "unset", "error"),
        ],
    },
    Meant {
        what: "`otel.status_message` is accepted as well",
        why: "older versions of tracing-opentelemetry used this name for the description, and programs still do",
        cases: &[
            ("a_status_message: *: attribute otel.status_message", "\"no milk\"", "–"),
            ("a_status_message: alone: status", "unset", "error \"no milk\""),
            ("a_status_message: with a code: status", "error", "error \"no milk\""),
            ("a_status_message: late: status", "error", "error \"no milk\""),
        ],
    },
    Meant {
        what: "a span that a panic ends has the status error and an `exception` event",
        why: "theirs leaves the status unset, so the span looks successful",
        cases: &[
            ("a_panic_through*: *: status", "unset", "error \"panicked\""),
            ("a_panic_through*: *: event 1", "–", "exception"),
            ("a_panic_through*: *: event 1 attribute exception.type", "–", "\"panic\""),
            ("a_panic_through*: *: event 1 attribute exception.message", "–", "\"the thread panicked\""),
            ("a_panic_through*: *: event 1 time", "–", "inside its span"),
        ],
    },
    Meant {
        what: "event fields whose names begin with `log.` are kept, except on events from the `log` crate",
        why: "theirs takes every such field for one of the `log` crate and drops it, even on other events",
        cases: &[
            ("with_fields_that_mean_something_on_spans: span: event 3 attribute log.line", "–", "int 1"),
            ("with_fields_that_mean_something_on_spans: span: event 3 attribute log.target", "–", "\"mine\""),
        ],
    },
    Meant {
        what: "events outside spans are log records",
        why: "theirs drops them",
        cases: &[
            ("traced_in_native: log record 1: there", "–", "\"in the native span only\" in native"),
            ("without_a_parent: log record 1: there", "–", "\"in no span\" in none"),
            ("with_an_explicit_parent_that_is_closed: log record 1: there", "–", "\"too late\" in none"),
            ("outside_of_spans: log record 1: there", "–", "\"before\" in none"),
            ("outside_of_spans: log record 2: there", "–", "*"),
            ("filtered_by_name: log record 1: there", "–", "\"in nothing that is seen\" in none"),
            ("filtered_parents: log record 1: there", "–", "\"said in the private\" in none"),
            ("logged_outside_of_spans: log record *: there", "–", "\"closed\" in none"),
            ("with*: log record *: there", "–", "\"outside*\" in none"),
            ("untouched: log record *: there", "–", "\"outside*\" in none"),
        ],
    },
    Meant {
        what: "by default, the scope is the target, and busy and idle times are left out",
        why: "backends filter by scope, and these times cost two more clock readings each time a \
              span is entered; `scope` and `busy_and_idle` restore both",
        cases: &[
            ("untouched: outer: scope", "shop", "shop::basket"),
            ("untouched: outer: attribute target", "\"shop::basket\"", "–"),
            ("untouched: outer/inner: scope", "shop", "shop::till"),
            ("untouched: outer/inner: attribute target", "\"shop::till\"", "–"),
            ("untouched: *: attribute busy_ns", "some time", "–"),
            ("untouched: *: attribute idle_ns", "some time", "–"),
        ],
    },
];
