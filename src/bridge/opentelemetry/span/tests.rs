//! Compares the spans that the bridge writes with the result of the conversion in `opentelemetry-proto`.

use std::time::{Duration, SystemTime};

use opentelemetry::trace::{SpanContext, TraceFlags, TraceState};
use opentelemetry_proto::tonic::trace::v1::ResourceSpans;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_sdk::trace::{SpanEvents, SpanLinks};
use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::bridge::opentelemetry::input::Scopes;
use crate::bridge::opentelemetry::tests::{
    any_attributes, any_resource, any_scope, any_text, assert_same, put_right, sort, with_surroundings,
};

fn any_time() -> impl Strategy<Value = SystemTime> {
    prop_oneof![
        8 => any::<u64>().prop_map(|nanos| SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos)),
        1 => Just(SystemTime::UNIX_EPOCH - Duration::from_secs(1)),
    ]
}

fn any_context() -> impl Strategy<Value = SpanContext> {
    let states = ["", "rojo=00f067aa0ba902b7", "rojo=1,congo=t61rcWkgMzE"];
    let state = prop::sample::select(states.to_vec()).prop_map(|state| state.parse::<TraceState>().unwrap());
    (any::<u128>(), any::<u64>(), any::<u8>(), any::<bool>(), state).prop_map(
        |(trace_id, span_id, flags, is_remote, state)| {
            SpanContext::new(trace_id.into(), span_id.into(), TraceFlags::new(flags), is_remote, state)
        },
    )
}

fn any_kind() -> impl Strategy<Value = trace::SpanKind> {
    use trace::SpanKind::{Client, Consumer, Internal, Producer, Server};
    prop::sample::select(vec![Client, Consumer, Internal, Producer, Server])
}

fn any_status() -> impl Strategy<Value = SdkStatus> {
    prop_oneof![Just(SdkStatus::Unset), Just(SdkStatus::Ok), any_text().prop_map(SdkStatus::error)]
}

/// Mostly 0.
fn any_count() -> impl Strategy<Value = u32> {
    prop_oneof![3 => Just(0), 1 => any::<u32>()]
}

fn any_events() -> impl Strategy<Value = SpanEvents> {
    let event = (any_text(), any_time(), any_attributes(), any_count())
        .prop_map(|(name, time, attributes, dropped)| Event::new(name, time, attributes, dropped));
    (prop::collection::vec(event, 0..4), any_count()).prop_map(|(listed, dropped)| {
        let mut events = SpanEvents::default();
        (events.events, events.dropped_count) = (listed, dropped);
        events
    })
}

fn any_links() -> impl Strategy<Value = SpanLinks> {
    let link = (any_context(), any_attributes(), any_count())
        .prop_map(|(context, attributes, dropped)| Link::new(context, attributes, dropped));
    (prop::collection::vec(link, 0..4), any_count()).prop_map(|(listed, dropped)| {
        let mut links = SpanLinks::default();
        (links.links, links.dropped_count) = (listed, dropped);
        links
    })
}

fn any_span() -> impl Strategy<Value = SpanData> {
    let parent = prop_oneof![1 => Just(SdkSpanId::INVALID), 3 => any::<u64>().prop_map(SdkSpanId::from)];
    let identity = (any_context(), parent, any::<bool>(), any_kind(), any_text(), any_scope());
    let times = (any_time(), any_time());
    let contents = (any_attributes(), any_count(), any_events(), any_links(), any_status());
    (identity, times, contents).prop_map(
        |(
            (span_context, parent_span_id, parent_span_is_remote, span_kind, name, instrumentation_scope),
            (start_time, end_time),
            (attributes, dropped_attributes_count, events, links, status),
        )| SpanData {
            span_context,
            parent_span_id,
            parent_span_is_remote,
            span_kind,
            name: name.into(),
            start_time,
            end_time,
            attributes,
            dropped_attributes_count,
            events,
            links,
            status,
            instrumentation_scope,
        },
    )
}

/// Returns the result of the conversion in `opentelemetry-proto`, with the corrections that the bridge promises.
fn expected(span: &SpanData, resource: &Resource) -> ResourceSpans {
    let resource = ResourceAttributesWithSchema::from(resource);
    let mut expected = ResourceSpans::new(span.clone(), &resource);
    sort(&mut expected.resource.as_mut().unwrap().attributes);
    let span = &mut expected.scope_spans[0].spans[0];
    let put_right = |attributes, dropped: &mut u32| *dropped = dropped.saturating_add(put_right(attributes));
    put_right(&mut span.attributes, &mut span.dropped_attributes_count);
    for event in &mut span.events {
        put_right(&mut event.attributes, &mut event.dropped_attributes_count);
    }
    for link in &mut span.links {
        put_right(&mut link.attributes, &mut link.dropped_attributes_count);
    }
    span.end_time_unix_nano = span.end_time_unix_nano.max(span.start_time_unix_nano);
    // A status without a code means the same as no status.
    span.status.take_if(|status| status.code == 0);
    expected
}

proptest! {
    #[test]
    fn any_span_is_written_as_the_protocols_own_conversion_has_it(
        spans in prop::collection::vec(any_span(), 1..3),
        resource in any_resource(),
    ) {
        let mut scopes = Scopes::new(Signal::Traces);
        scopes.set_resource(&resource);
        // All spans are written to the same record, as a thread does: nothing of one span may be left in the next.
        let mut record = SpanRecord::default();
        for span in &spans {
            write(span, &mut record, 1 << 20);
            let framed = record.finish(unix_nanos(span.end_time)).expect("not outgrown");
            let scope = scopes.find(&span.instrumentation_scope, None);
            let written = ResourceSpans::decode(&*with_surroundings(&scope, framed)).unwrap();
            assert_same(&written, &expected(span, &resource))?;
        }
    }
}
