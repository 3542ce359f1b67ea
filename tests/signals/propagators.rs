//! Propagators: their selection, B3 in both forms, and combinations of formats.

use std::collections::BTreeMap;

use proptest::prelude::*;
use standpipe::receiver::Receiver;
use standpipe::{
    Baggage, Config, Context, Propagator, Propagators, Sampler, SpanContext, SpanId, Telemetry, TraceId,
    TraceState,
};

use crate::support::process;
use crate::support::scene::{LONG, exporter, start_with};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SHORT: &str = "a3ce929d0e0e4736";
const PADDED: &str = "0000000000000000a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";
const PARENT: &str = "0020000000000001";

type Headers = BTreeMap<String, String>;

fn headers(pairs: &[(&str, &str)]) -> Headers {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn extracted(propagators: Propagators, headers: &Headers) -> Context {
    propagators.extract(|name| headers.get(name))
}

fn injected(propagators: Propagators, context: &Context) -> Headers {
    let mut headers = Headers::new();
    propagators.inject(context, |name, value| {
        assert!(headers.insert(name.to_owned(), value.to_owned()).is_none(), "{name} is set twice");
    });
    headers
}

fn b3(propagator: Propagator) -> Propagators {
    Propagators::new([propagator])
}

/// Reads a context from these headers, and returns the single header that propagates it.
fn passed_on(headers_in: &[(&str, &str)]) -> Option<String> {
    let context = extracted(b3(Propagator::B3), &headers(headers_in));
    assert_eq!(
        context.span(),
        extracted(b3(Propagator::B3Multi), &headers(headers_in)).span(),
        "both read both"
    );
    assert!(context.span().is_none_or(SpanContext::is_remote));
    injected(b3(Propagator::B3), &context).remove("b3")
}

#[test]
fn reads_every_form_of_the_single_header() {
    for (header, passed) in [
        ("{T}-{S}-1", "{T}-{S}-1"),
        ("{T}-{S}-0", "{T}-{S}-0"),
        ("{T}-{S}-d", "{T}-{S}-d"),
        ("{T}-{S}", "{T}-{S}"),
        // The parent id is never passed on.
        ("{T}-{S}-1-{P}", "{T}-{S}-1"),
        ("{T}-{S}-d-{P}", "{T}-{S}-d"),
        // Ids of 64 bits are padded.
        ("{SHORT}-{S}-1", "{PADDED}-{S}-1"),
        (" {T}-{S}-1\t", "{T}-{S}-1"),
        // The first value counts.
        ("{T}-{S}-0,{T}-{S}-1", "{T}-{S}-0"),
    ] {
        assert_eq!(passed_on(&[("b3", &filled(header))]), Some(filled(passed)), "{header}");
    }
}

#[test]
fn ignores_every_invalid_form_of_the_single_header() {
    for header in [
        "",
        "0",
        "1",
        "d",
        "-",
        "{T}",
        "{T}-",
        "{T}-{S}-",
        "{T}-{S}-{P}",
        "{T}-{S}-x",
        "{T}-{S}-D",
        "{T}-{S}-true",
        "{T}-{S}-1-",
        "{T}-{S}-1-x",
        "{T}-{S}-1-{P}-",
        "{T}0-{S}-1",
        "{T}-{S}0-1",
        "{ZEROS}-{S}-1",
        "{T}-0000000000000000-1",
        "0000000000000000-{S}-1",
        "{UPPER}-{S}-1",
        "{T}-00f067aa0ba902b\u{e9}-1",
    ] {
        assert_eq!(passed_on(&[("b3", &filled(header))]), None, "{header}");
    }
}

fn filled(form: &str) -> String {
    let form = form.replace("{T}", TRACE).replace("{S}", SPAN).replace("{P}", PARENT);
    let form = form.replace("{SHORT}", SHORT).replace("{PADDED}", PADDED);
    form.replace("{UPPER}", &TRACE.to_uppercase()).replace("{ZEROS}", &"0".repeat(32))
}

const ID: (&str, &str) = ("x-b3-traceid", TRACE);
const SPAN_ID: (&str, &str) = ("x-b3-spanid", SPAN);

#[test]
fn reads_every_form_of_the_multiple_headers() {
    for (more, state) in [
        (&[][..], ""),
        (&[("x-b3-sampled", "1")], "-1"),
        (&[("x-b3-sampled", "0")], "-0"),
        (&[("x-b3-sampled", "true")], "-1"),
        (&[("x-b3-sampled", "False")], "-0"),
        (&[("x-b3-sampled", "1,0")], "-1"),
        (&[("x-b3-flags", "1")], "-d"),
        (&[("x-b3-flags", "1"), ("x-b3-sampled", "0")], "-d"),
        (&[("x-b3-flags", "0"), ("x-b3-sampled", "1")], "-1"),
        (&[("x-b3-parentspanid", PARENT), ("x-b3-sampled", "1")], "-1"),
        // An invalid single header does not hide the others.
        (&[("b3", "0"), ("x-b3-sampled", "1")], "-1"),
    ] {
        let all = [&[ID, SPAN_ID], more].concat();
        assert_eq!(passed_on(&all), Some(format!("{TRACE}-{SPAN}{state}")), "{more:?}");
    }
    let short = passed_on(&[("x-b3-traceid", SHORT), SPAN_ID, ("x-b3-sampled", "1")]);
    assert_eq!(short, Some(format!("{PADDED}-{SPAN}-1")));
    let single_first = [ID, SPAN_ID, ("x-b3-sampled", "0"), ("b3", &filled("{PADDED}-{S}-1"))];
    assert_eq!(passed_on(&single_first), Some(format!("{PADDED}-{SPAN}-1")));
}

#[test]
fn ignores_every_invalid_form_of_the_multiple_headers() {
    for invalid in [
        &[ID][..],
        &[SPAN_ID],
        &[("x-b3-sampled", "1")],
        &[ID, SPAN_ID, ("x-b3-sampled", "2")],
        &[ID, SPAN_ID, ("x-b3-sampled", "d")],
        &[ID, SPAN_ID, ("x-b3-sampled", "")],
        &[ID, ("x-b3-spanid", "0000000000000000")],
        &[("x-b3-traceid", ""), SPAN_ID],
        &[("x-b3-traceid", &TRACE[1..]), SPAN_ID],
    ] {
        assert_eq!(passed_on(invalid), None, "{invalid:?}");
    }
}

#[test]
fn writes_the_multiple_headers_without_a_parent() {
    let sent = |single: &str| {
        let context = extracted(b3(Propagator::B3), &headers(&[("b3", single)]));
        injected(b3(Propagator::B3Multi), &context)
    };
    for (state, more) in [
        ("-1-0020000000000001", Some(("x-b3-sampled", "1"))),
        ("-0", Some(("x-b3-sampled", "0"))),
        ("-d", Some(("x-b3-flags", "1"))),
        ("", None),
    ] {
        let expected: Vec<_> = [ID, SPAN_ID].into_iter().chain(more).collect();
        assert_eq!(sent(&format!("{TRACE}-{SPAN}{state}")), headers(&expected), "{state}");
    }
}

/// Returns what follows the ids in the single headers of a span and its child. `parent` is the caller's single header.
fn of_spans(sampler: Sampler, parent: &str) -> [String; 2] {
    let receiver = Receiver::start().unwrap();
    let telemetry = start_with(Config::new().sampler(sampler).exporter(exporter(&receiver)));
    let tracer = telemetry.tracer("shop");
    let b3 = b3(Propagator::B3);
    let _caller = extracted(b3, &headers(&[("b3", parent)])).enter();
    let sent = || {
        let header = injected(b3, &Context::current()).remove("b3").unwrap();
        header.strip_prefix(TRACE).unwrap()[18..].to_owned()
    };
    let _server = tracer.span("server");
    let first = sent();
    let _client = tracer.span("client");
    let both = [first, sent()];
    drop((_client, _server, _caller));
    assert_eq!(telemetry.shutdown(LONG).lost(), 0);
    let recorded = receiver.span_count();
    assert_eq!(recorded, if both[0] == "-0" || both[0] == "0" { 0 } else { 2 }, "{both:?}");
    assert!(receiver.spans().iter().all(|span| span.span.flags & 0xff <= 3));
    both
}

#[test]
fn a_debug_trace_stays_one_below_every_span() {
    assert_eq!(of_spans(Sampler::default(), &format!("{TRACE}-{SPAN}-d")), ["d", "d"]);
}

#[test]
fn a_span_in_the_storage_of_a_debug_trace_is_not_part_of_one() {
    let receiver = Receiver::start().unwrap();
    let telemetry = start_with(Config::new().exporter(exporter(&receiver)));
    let (tracer, b3) = (telemetry.tracer("shop"), b3(Propagator::B3));
    {
        let _caller = extracted(b3, &headers(&[("b3", &format!("{TRACE}-{SPAN}-d"))])).enter();
        let _server = tracer.span("server");
        let _client = tracer.span("client");
    }
    let _root = tracer.span("root");
    let _child = tracer.span("child");
    let grandchild = tracer.span("grandchild");
    for context in [Context::current(), grandchild.context().clone().into()] {
        let header = injected(b3, &context).remove("b3").unwrap();
        assert!(header.ends_with("-1"), "{header}");
    }
}

#[test]
fn a_deferred_decision_is_made_by_the_sampler_of_roots() {
    let deferred = format!("{TRACE}-{SPAN}");
    assert_eq!(of_spans(Sampler::default(), &deferred), ["1", "1"]);
    assert_eq!(of_spans(Sampler::always_off().parent_based(), &deferred), ["0", "0"]);
    assert_eq!(of_spans(Sampler::default(), &format!("{TRACE}-{SPAN}-0")), ["0", "0"]);
}

#[test]
fn without_an_exporter_a_deferred_decision_and_debug_are_passed_on() {
    let telemetry = Telemetry::start(Config::new()).unwrap();
    for state in ["", "-d", "-0", "-1"] {
        let header = format!("{TRACE}-{SPAN}{state}");
        let _caller = extracted(b3(Propagator::B3), &headers(&[("b3", &header)])).enter();
        let _span = telemetry.tracer("shop").span("server");
        assert_eq!(injected(b3(Propagator::B3), &Context::current())["b3"], header);
    }
}

#[test]
fn a_tracestate_does_not_hide_the_debug_flag() {
    let context = extracted(b3(Propagator::B3), &headers(&[("b3", &format!("{TRACE}-{SPAN}-d"))]));
    let span = context.span().unwrap().clone();
    assert!(span.is_sampled() && span.state().is_empty() && span.flags() == 1);
    let with_state = span.with_state(TraceState::new().insert("a", "1"));
    assert_eq!(with_state.tracestate(), "a=1");
    let without = with_state.with_state(TraceState::new());
    assert_eq!(injected(b3(Propagator::B3), &without.into())["b3"], format!("{TRACE}-{SPAN}-d"));
}

#[test]
fn combined_propagators_write_all_formats_and_the_last_span_that_is_found_counts() {
    let all =
        Propagators::new([Propagator::B3, Propagator::TraceContext, Propagator::B3, Propagator::Baggage]);
    assert_eq!(all.iter().count(), 3, "a repeated one is left out");
    let span = SpanContext::from_traceparent(&format!("00-{TRACE}-{SPAN}-01")).unwrap();
    let context = Context::from(span.with_tracestate("a=1")).with_baggage(Baggage::new().with("user", "7"));
    let sent = injected(all, &context);
    assert_eq!(sent.keys().collect::<Vec<_>>(), ["b3", "baggage", "traceparent", "tracestate"]);
    assert_eq!(all.fields().collect::<Vec<_>>(), ["b3", "traceparent", "tracestate", "baggage"]);
    let read = extracted(all, &sent);
    assert_eq!((read.span(), read.baggage()), (context.span(), context.baggage()));
    let mut other = sent.clone();
    other.insert("b3".to_owned(), format!("{PADDED}-{SPAN}-0"));
    assert_eq!(extracted(all, &other).span(), context.span());
    other.insert("traceparent".to_owned(), "what?".to_owned());
    assert_eq!(extracted(all, &other).span().unwrap().trace_id().to_string(), PADDED);
}

#[test]
fn the_default_propagators_do_what_a_context_does() {
    let sent = headers(&[
        ("traceparent", &format!("00-{TRACE}-{SPAN}-01")),
        ("tracestate", "a=1"),
        ("baggage", "user=7;p"),
        ("b3", &format!("{PADDED}-{SPAN}-0")),
    ]);
    let (own, plain) =
        (extracted(Propagators::default(), &sent), Context::from_headers(|name| sent.get(name)));
    assert_eq!((own.span(), own.baggage()), (plain.span(), plain.baggage()));
    let mut injected_by_context = Headers::new();
    plain.inject(|name, value| _ = injected_by_context.insert(name.to_owned(), value.to_owned()));
    assert_eq!(injected(Propagators::default(), &own), injected_by_context);
    assert_eq!(Propagators::default(), Propagators::new([Propagator::TraceContext, Propagator::Baggage]));
}

#[test]
fn without_a_propagator_nothing_is_read_or_written() {
    let none = Propagators::new([]);
    let sent = headers(&[("traceparent", &format!("00-{TRACE}-{SPAN}-01")), ("baggage", "user=7")]);
    let context = extracted(none, &sent);
    assert!(context.span().is_none() && context.baggage().is_empty());
    let full = extracted(Propagators::default(), &sent);
    assert_eq!(injected(none, &full), Headers::new());
}

#[test]
fn code_file_and_variable_select_the_propagators_of_a_telemetry() {
    let selected = |config: Config| Telemetry::start(config).unwrap().propagators();
    let b3_multi = Propagators::new([Propagator::B3Multi, Propagator::Baggage]);
    assert_eq!(selected(Config::new()), Propagators::default());
    assert_eq!(selected(Config::new().propagators([Propagator::B3])), b3(Propagator::B3));
    let file = "[telemetry]\npropagators = ['b3multi', 'baggage', 'b3multi']\n";
    let file = Config::from_toml_str(file).unwrap_or_else(|error| error.into_usable());
    assert_eq!(selected(file.clone()), b3_multi);
    assert_eq!(selected(file.propagators([])), Propagators::new([]));
    let variable = |value: &str| {
        Config::from_variables([("OTEL_PROPAGATORS", value), ("OTEL_SDK_DISABLED", "true")]).unwrap()
    };
    assert_eq!(selected(variable("B3Multi, baggage,b3multi")), b3_multi);
    assert_eq!(selected(variable("none")), Propagators::new([]));
    assert_eq!(selected(variable("xray")), Propagators::default());
    assert_eq!(selected(variable("xray,b3")), b3(Propagator::B3));
}

#[test]
fn the_installed_telemetry_gives_its_propagators_to_the_whole_program() {
    const NAME: &str = "the_installed_telemetry_gives_its_propagators_to_the_whole_program";
    if !process::is_alone(NAME) {
        return;
    }
    assert_eq!(standpipe::propagators(), Propagators::default());
    let telemetry = Telemetry::start(Config::new().propagators([Propagator::B3])).unwrap();
    let _installed = telemetry.install().unwrap();
    assert_eq!(standpipe::propagators(), b3(Propagator::B3));
}

#[test]
fn variables_have_normalized_names() {
    for (header, variable) in [
        ("traceparent", "TRACEPARENT"),
        ("x-b3-traceid", "X_B3_TRACEID"),
        ("b3", "B3"),
        ("a_b.c/d", "A_B_C_D"),
        ("3b", "_3B"),
        ("\u{e9}\u{20ac}", "__"),
        ("", "_"),
    ] {
        assert_eq!(Propagators::variable(header), variable, "{header}");
    }
}

#[test]
fn a_process_reads_the_variables_that_its_parent_wrote() {
    const NAME: &str = "a_process_reads_the_variables_that_its_parent_wrote";
    let all = Propagators::new([Propagator::B3Multi, Propagator::Baggage]);
    if process::task().is_some() {
        let context = all.extract_env();
        let b3 = injected(b3(Propagator::B3), &context).remove("b3").unwrap_or_default();
        return process::report(format!("{b3} {}", context.baggage().header()));
    }
    let span = SpanContext::from_traceparent(&format!("00-{TRACE}-{SPAN}-01")).unwrap();
    let context = Context::from(span).with_baggage(Baggage::new().with("user", "7"));
    let mut variables = Vec::new();
    all.inject_env(&context, |name, value| variables.push((name.to_owned(), value.to_owned())));
    let variables: Vec<_> = variables.iter().map(|(name, value)| (&**name, &**value)).collect();
    let report = process::run_with(NAME, "report the caller", &variables).remove(0);
    assert_eq!(report, format!("{TRACE}-{SPAN}-1 user=7"));
    // Only the normalized names are read.
    let report =
        process::run_with(NAME, "report the caller", &[("x-b3-traceid", TRACE), ("x-b3-spanid", SPAN)]);
    assert_eq!(report, [" "]);
}

proptest! {
    #[test]
    fn b3_carries_every_context_in_both_forms(trace in any::<u128>(), span in any::<u64>(), state in 0..4_usize) {
        prop_assume!(trace != 0 && span != 0);
        let trace_id = TraceId::from_bytes(trace.to_be_bytes()).unwrap();
        let span_id = SpanId::from_bytes(span.to_be_bytes()).unwrap();
        let header = format!("{trace_id}-{span_id}{}", ["", "-0", "-1", "-d"][state]);
        let context = extracted(b3(Propagator::B3), &headers(&[("b3", &header)]));
        let multi = injected(b3(Propagator::B3Multi), &context);
        let again = extracted(b3(Propagator::B3Multi), &multi);
        prop_assert_eq!(again.span(), context.span());
        prop_assert_eq!(&injected(b3(Propagator::B3), &again)["b3"], &header);
        prop_assert_eq!(again.span().unwrap().is_sampled(), state >= 2);
    }

    #[test]
    fn reading_any_b3_header_never_panics(single in ".{0,80}|[0-9a-fd-]{0,80}", id in "[0-9a-f]{0,33}", flag in ".{0,4}") {
        let names = ["b3", "x-b3-traceid", "x-b3-spanid", "x-b3-sampled", "x-b3-flags"];
        let all: Vec<_> = names.into_iter().zip([&*single, &*id, &*id, &*flag, &*flag]).collect();
        let _ = passed_on(&all);
    }
}
