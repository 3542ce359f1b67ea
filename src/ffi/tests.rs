use std::ffi::{c_char, c_void};
use std::io::Write as _;
use std::mem::offset_of;
use std::panic::panic_any;
use std::process::{Command, Stdio};

use super::context::Scope;
use super::input::{AnyValue, Arena, Attribute, Content, List, Text};
use super::ledger::Ledger;
use super::lifecycle::{Callback, Gate, Options};
use super::logs::LogOptions;
use super::metrics::InstrumentOptions;
use super::spans::SpanOptions;
use super::*;
use crate::problem::{Problem, ProblemKind};
use crate::record::Value;

#[test]
fn a_panic_ends_at_the_border_unseen() {
    assert!(!is_caught());
    let code = guarded(|| -> Code {
        assert!(is_caught());
        // A callback may call a function of the header, which nests the calls.
        guarded(|| ());
        assert!(is_caught());
        panic_any(7)
    });
    assert_eq!(code, Code::PANICKED);
    assert_eq!(guarded(|| -> Option<Box<u8>> { panic_any(7) }), None);
    assert!(!is_caught());
}

#[test]
fn a_gate_that_is_closed_calls_no_more() {
    unsafe extern "C" fn count(calls: *mut c_void, kind: i32, _: *const c_char, times: u64) {
        assert_eq!((kind, times), (7, 3));
        // SAFETY: `user` points to the counter below, which outlives the gate.
        unsafe { *calls.cast::<u32>() += 1 };
    }
    let mut calls = 0_u32;
    let gate = Gate::new(Some(count), (&raw mut calls).cast());
    let problem = Problem {
        exporter: "otlp".to_owned(),
        signal: None,
        kind: ProblemKind::QueueFull,
        message: "full".to_owned(),
        occurrences: 3,
        is_unaccounted: false,
    };
    gate.call(&problem);
    gate.close();
    gate.call(&problem);
    assert_eq!(calls, 1);
}

#[test]
fn kinds_of_problems_have_the_numbers_of_the_header() {
    let header = include_str!("standpipe.h");
    for (name, kind) in [
        ("UNAVAILABLE", ProblemKind::Unavailable),
        ("GAVE_UP", ProblemKind::GaveUp),
        ("TOO_LARGE", ProblemKind::TooLarge),
        ("INSTRUMENT", ProblemKind::Instrument),
        ("NO_SERVICE_NAME", ProblemKind::NoServiceName),
        ("SPOOL", ProblemKind::Spool),
    ] {
        assert!(header.contains(&format!("STANDPIPE_PROBLEM_{name} {} ", kind as i32 + 1)), "{name}");
    }
}

/// Each list contains the previous one twice, and a zeroed value: a full traversal would visit 2^17 lists.
#[test]
fn lists_that_share_lists_are_not_followed_whatever_zeroed_values_are_among_them() {
    const ARRAY: u32 = 10;
    let value = |kind, list: &[AnyValue<'static>]| {
        let list = List { first: list.as_ptr().cast(), len: list.len() };
        AnyValue { kind, reserved: 0, content: Content { list } }
    };
    let mut lists = vec![[value(0, &[]); 3]; 18];
    for level in 1..lists.len() {
        let inner = value(ARRAY, &lists[level - 1]);
        lists[level][..2].fill(inner);
    }
    let arena = Arena::default();
    let mut read = arena.value(&value(ARRAY, &lists[17]));
    let mut depth = 0;
    while let Some(Value::Array(elements)) = read {
        (read, depth) = (elements.first().copied(), depth + 1);
    }
    assert!(depth > lists.len(), "it stands for a value that is too deep: {depth}");
}

/// Assertions for a C compiler about the size of each struct and the offset of each field.
macro_rules! layouts {
    ($($c:literal $type:ty { $($c_field:literal $($field:tt).+),+ $(,)? })+) => {{
        let mut text = String::new();
        $(
            text += &format!("_Static_assert(sizeof({}) == {}, \"\");\n", $c, size_of::<$type>());
            $(text += &format!(
                "_Static_assert(offsetof({}, {}) == {}, \"\");\n",
                $c, $c_field, offset_of!($type, $($field).+)
            );)+
        )+
        text
    }};
}

#[test]
fn structs_have_the_layout_of_the_header() {
    let layouts = layouts! {
        "standpipe_text" Text<'_> { "ptr" first, "len" len }
        "standpipe_value" AnyValue<'_> {
            "kind" kind, "reserved" reserved, "as" content, "as.text" content.text, "as.i" content.int,
            "as.d" content.double, "as.list.ptr" content.list.first, "as.list.len" content.list.len,
        }
        "standpipe_attr" Attribute<'_> { "key" key, "value" value }
        "standpipe_options" Options<'_> {
            "size" size, "endpoint" endpoint, "service" service, "flags" flags, "reserved" reserved,
            "problem" problem, "user" user,
        }
        "standpipe_ledger" Ledger {
            "size" size, "accepted" accepted, "delivered" delivered, "rejected" rejected, "dropped" dropped,
            "superseded" superseded, "in_flight" in_flight, "not_enqueued" not_enqueued, "filtered" filtered,
            "attempts" attempts, "open_spans" open_spans, "recovered" recovered, "spooled" spooled,
        }
        "standpipe_span_options" SpanOptions<'_> {
            "size" size, "name" name, "kind" kind, "is_root" is_root, "parent" parent,
            "traceparent" traceparent, "tracestate" tracestate, "start_unix_ns" start_unix_ns,
            "attrs" attributes, "n" attribute_count,
        }
        "standpipe_log_options" LogOptions<'_> {
            "size" size, "severity" severity, "reserved" reserved, "body" body, "event_name" event_name,
            "severity_text" severity_text, "unix_ns" unix_ns, "span" span, "attrs" attributes,
            "n" attribute_count,
        }
        "standpipe_instrument_options" InstrumentOptions<'_> {
            "size" size, "kind" kind, "reserved" reserved, "name" name, "unit" unit,
            "description" description, "bounds" bounds, "n" bound_count,
        }
        "standpipe_scope" Scope { "opaque" thread }
    };
    // C types that have no struct in Rust: `bool` is read as `u8`, and a function pointer may be null.
    let sizes = [("bool", size_of::<u8>()), ("standpipe_problem_fn", size_of::<Option<Callback>>())];
    let sizes = sizes.map(|(c, size)| format!("_Static_assert(sizeof({c}) == {size}, \"\");\n")).concat();
    let options = ["-x", "c", "-std=c11", "-fsyntax-only", "-I", env!("CARGO_MANIFEST_DIR"), "-"];
    // Spawned under the fork lock: otherwise the child would share the file locks that other tests take, until it calls
    // `exec`. `Command` does not run the fork handlers, which would wait for the fork lock.
    let start = || Command::new("cc").args(options).stdin(Stdio::piped()).spawn();
    let Ok(mut compiler) = crate::process::with_fork_lock(start) else {
        return crate::tests::skip("there is no cc");
    };
    let mut program = compiler.stdin.take().unwrap();
    // The compiler may target another machine; layouts are equal if pointers have the same size.
    let (pointer, include) = (size_of::<usize>(), "#include \"src/ffi/standpipe.h\"");
    write!(program, "{include}\n#if __SIZEOF_POINTER__ == {pointer}\n{layouts}{sizes}#endif\n").unwrap();
    drop(program);
    assert!(compiler.wait().unwrap().success(), "{layouts}{sizes}");
}

#[cfg(feature = "receiver")]
#[test]
fn the_ledger_in_json_is_that_of_a_serializer() {
    let test = crate::receiver::TestTelemetry::start();
    let _open = test.tracer("shop").span_builder("a \"b\\\n").detached();
    test.tracer("shop").span("checkout").end();
    test.received();
    let ledger = test.ledger();
    assert_eq!(ledger.total().delivered, 1);
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&ledger::json(&ledger)).unwrap(),
        serde_json::to_value(&ledger).unwrap()
    );
}
