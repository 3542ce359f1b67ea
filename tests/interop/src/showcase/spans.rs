//! Spans: ids, parents, kinds, times, attributes, events, links and status.

use serde_json::{Value, json};
use standpipe::{Scope, SpanContext, SpanKind, Status, Telemetry, Tracer};

use super::{every_kind, every_kind_expected, expect, nano_text, time};
use crate::Error;
use crate::seen::Record;

const TRACESTATE: &str = "vendor=abc,other=1";

/// Bits of a span's flags: the span is sampled; the trace id is random; it is known whether the parent is remote; the
/// parent is remote.
const SAMPLED: u32 = 1;
const RANDOM: u32 = 2;
const KNOWN: u32 = 0x100;
const REMOTE: u32 = 0x200;

pub(super) fn play(telemetry: &Telemetry) -> Result<Vec<Record>, Error> {
    let tracer = telemetry.tracer(Scope::new("interop.spans").version("1.2.3"));
    let remote = SpanContext::from_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")?
        .with_tracestate(TRACESTATE);
    let mut expected = vec![everything(&tracer, &remote)];
    expected.extend(family(&tracer));
    expected.extend(kinds(&tracer));
    Ok(expected)
}

/// Emits one span with every field.
fn everything(tracer: &Tracer, remote: &SpanContext) -> Record {
    let mut span =
        tracer.span_builder("everything").parent(remote).kind(SpanKind::Server).start_time(time(0)).start();
    for (key, value) in every_kind() {
        span.set(key, value);
    }
    span.event_with_time("plain", time(1));
    span.event_with_time("with attributes", time(2)).set("attempt", 2).set("why", "timeout");
    let linked = SpanContext::from_traceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    if let Ok(linked) = &linked {
        span.link(linked).set("reason", "retry");
    }
    span.status(Status::Error("card declined"));
    let mut body = identity(span.context(), Some(remote), SAMPLED | KNOWN | REMOTE);
    span.end_at(time(9));

    let fields = json!({
        "name": "everything",
        "kind": 2,
        "startTimeUnixNano": nano_text(time(0)),
        "endTimeUnixNano": nano_text(time(9)),
        "attributes": every_kind_expected(),
        "events": [
            { "name": "plain", "timeUnixNano": nano_text(time(1)) },
            { "name": "with attributes", "timeUnixNano": nano_text(time(2)), "attributes": [
                { "key": "attempt", "value": { "intValue": 2 } },
                { "key": "why", "value": { "stringValue": "timeout" } },
            ] },
        ],
        "links": [{
            "traceId": "0af7651916cd43dd8448eb211c80319c",
            "spanId": "b7ad6b7169203331",
            "flags": SAMPLED | KNOWN | REMOTE,
            "attributes": [{ "key": "reason", "value": { "stringValue": "retry" } }],
        }],
        "status": { "code": 2, "message": "card declined" },
    });
    merge(&mut body, fields);
    expect("traces", scope(), body)
}

/// Emits a parent with status OK and its child, in a new trace.
fn family(tracer: &Tracer) -> [Record; 2] {
    let mut parent = tracer.span_builder("parent").root().start_time(time(10)).start();
    parent.status(Status::Ok);
    let parent_context = parent.context().clone();
    let child = tracer.span_builder("child").start_time(time(11)).start();
    let mut child_body = identity(child.context(), Some(&parent_context), SAMPLED | RANDOM | KNOWN);
    child.end_at(time(12));
    parent.end_at(time(13));

    let mut parent_body = identity(&parent_context, None, SAMPLED | RANDOM | KNOWN);
    merge(
        &mut parent_body,
        json!({ "name": "parent", "kind": 1, "status": { "code": 1 },
            "startTimeUnixNano": nano_text(time(10)), "endTimeUnixNano": nano_text(time(13)) }),
    );
    merge(
        &mut child_body,
        json!({ "name": "child", "kind": 1,
            "startTimeUnixNano": nano_text(time(11)), "endTimeUnixNano": nano_text(time(12)) }),
    );
    [expect("traces", scope(), parent_body), expect("traces", scope(), child_body)]
}

fn kinds(tracer: &Tracer) -> [Record; 3] {
    let kinds =
        [("client", SpanKind::Client), ("producer", SpanKind::Producer), ("consumer", SpanKind::Consumer)];
    kinds.map(|(name, kind)| {
        let span = tracer.span_builder(name).root().kind(kind).start_time(time(20)).start();
        let mut body = identity(span.context(), None, SAMPLED | RANDOM | KNOWN);
        span.end_at(time(21));
        let fields = json!({ "name": name, "kind": kind as u8,
            "startTimeUnixNano": nano_text(time(20)), "endTimeUnixNano": nano_text(time(21)) });
        merge(&mut body, fields);
        expect("traces", scope(), body)
    })
}

fn scope() -> Value {
    json!({ "name": "interop.spans", "version": "1.2.3" })
}

fn identity(context: &SpanContext, parent: Option<&SpanContext>, flags: u32) -> Value {
    json!({
        "traceId": context.trace_id().to_string(),
        "spanId": context.span_id().to_string(),
        "parentSpanId": parent.map(|parent| parent.span_id().to_string()),
        "traceState": context.tracestate(),
        "flags": flags,
    })
}

fn merge(body: &mut Value, fields: Value) {
    if let (Value::Object(body), Value::Object(fields)) = (body, fields) {
        body.extend(fields);
    }
}
