//! Compares the log records that the bridge writes with the result of the conversion in `opentelemetry-proto`.

use std::collections::HashMap;

use opentelemetry::logs::{AnyValue, LogRecord as _, Logger, LoggerProvider};
use opentelemetry::{Key, TraceFlags};
use opentelemetry_proto::tonic::logs::v1::ResourceLogs;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::bridge::opentelemetry::input::Scopes;
use crate::bridge::opentelemetry::tests::{
    any_key, any_resource, any_scope, any_text, assert_same, put_right, sort, sort_within, with_surroundings,
};
use crate::record::MAX_DEPTH;

/// Uses a logger, because the SDK has no other public way to create a record.
fn empty_log() -> SdkLogRecord {
    SdkLoggerProvider::builder().build().logger("any").create_log_record()
}

fn any_any_value() -> impl Strategy<Value = AnyValue> {
    let leaf = prop_oneof![
        3 => any_text().prop_map(AnyValue::from),
        1 => any::<bool>().prop_map(AnyValue::from),
        2 => any::<i64>().prop_map(AnyValue::from),
        1 => prop::num::f64::ANY.prop_map(AnyValue::from),
        1 => prop::collection::vec(any::<u8>(), 0..6).prop_map(|bytes| AnyValue::from(&*bytes)),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        let entries = prop::collection::hash_map(any_key().prop_map(Key::from), inner.clone(), 0..4);
        prop_oneof![
            prop::collection::vec(inner, 0..5).prop_map(|list| AnyValue::ListAny(Box::new(list))),
            entries.prop_map(|entries| AnyValue::Map(Box::new(entries))),
        ]
    })
}

fn any_time() -> impl Strategy<Value = SystemTime> {
    any::<u64>().prop_map(|nanos| SystemTime::UNIX_EPOCH + Duration::from_nanos(nanos))
}

fn any_severity() -> impl Strategy<Value = SdkSeverity> {
    use SdkSeverity::{Debug, Debug2, Debug3, Debug4, Trace, Trace2, Trace3, Trace4};
    use SdkSeverity::{Error, Error2, Error3, Error4, Fatal, Fatal2, Fatal3, Fatal4};
    use SdkSeverity::{Info, Info2, Info3, Info4, Warn, Warn2, Warn3, Warn4};
    let quiet = [Trace, Trace2, Trace3, Trace4, Debug, Debug2, Debug3, Debug4];
    let usual = [Info, Info2, Info3, Info4, Warn, Warn2, Warn3, Warn4];
    let loud = [Error, Error2, Error3, Error4, Fatal, Fatal2, Fatal3, Fatal4];
    prop::sample::select([quiet, usual, loud].concat())
}

/// Leaks values that the SDK requires to be `'static`: they are few, and the test is short.
fn any_log() -> impl Strategy<Value = SdkLogRecord> {
    let text = || any_text().prop_map(|text| &*text.leak());
    let span = (any::<u128>(), any::<u64>(), prop::option::of(any::<u8>()));
    let names = (prop::option::of(text()), prop::option::of(text()), prop::option::of(text()));
    let rest = (prop::option::of(any_time()), any_time(), prop::option::of(span));
    let contents = (
        prop::option::of(any_severity()),
        prop::option::of(any_any_value()),
        prop::collection::vec((any_key(), any_any_value()), 0..8),
    );
    (names, rest, contents).prop_map(|((event, target, text), (time, observed, span), contents)| {
        let (severity, body, attributes) = contents;
        let mut log = empty_log();
        event.into_iter().for_each(|event| log.set_event_name(event));
        target.into_iter().for_each(|target| log.set_target(target));
        text.into_iter().for_each(|text| log.set_severity_text(text));
        time.into_iter().for_each(|time| log.set_timestamp(time));
        log.set_observed_timestamp(observed);
        if let Some((trace_id, span_id, flags)) = span {
            log.set_trace_context(trace_id.into(), span_id.into(), flags.map(TraceFlags::new));
        }
        severity.into_iter().for_each(|severity| log.set_severity_number(severity));
        body.into_iter().for_each(|body| log.set_body(body));
        log.add_attributes(attributes);
        log
    })
}

fn written(log: &SdkLogRecord, record: &mut LogRecord) -> Vec<u8> {
    write(log, record, 1 << 20);
    let severity = log.severity_number().map(severity);
    record.finish_foreign(severity, &end(log)).expect("not outgrown").to_vec()
}

/// Returns the result of the conversion in `opentelemetry-proto`, with the corrections that the bridge promises.
fn expected(log: &SdkLogRecord, scope: &InstrumentationScope, resource: &Resource) -> ResourceLogs {
    let resource = ResourceAttributesWithSchema::from(resource);
    let mut expected = ResourceLogs::from(((log, scope), &resource));
    let log = &mut expected.scope_logs[0].log_records[0];
    log.dropped_attributes_count = put_right(&mut log.attributes);
    in_order(expected)
}

fn in_order(mut logs: ResourceLogs) -> ResourceLogs {
    sort(&mut logs.resource.as_mut().unwrap().attributes);
    let log = &mut logs.scope_logs[0].log_records[0];
    log.body.iter_mut().for_each(sort_within);
    log.attributes.iter_mut().filter_map(|attribute| attribute.value.as_mut()).for_each(sort_within);
    logs
}

proptest! {
    #[test]
    fn a_severity_keeps_its_number_and_its_name(theirs in any_severity()) {
        let ours = severity(theirs);
        prop_assert_eq!((ours.number(), ours.name()), (theirs as u8, theirs.name()));
    }

    #[test]
    fn any_log_is_written_as_the_protocols_own_conversion_has_it(
        logs in prop::collection::vec((any_log(), any_scope()), 1..3),
        resource in any_resource(),
    ) {
        let mut scopes = Scopes::new(Signal::Logs);
        scopes.set_resource(&resource);
        // As on a thread, all logs reuse one record: nothing of one log may be left in the next.
        let mut record = LogRecord::default();
        for (log, scope) in &logs {
            let framed = written(log, &mut record);
            let found = scopes.find(scope, log.target().map(Cow::as_ref));
            let written = ResourceLogs::decode(&*with_surroundings(&found, &framed)).unwrap();
            assert_same(&in_order(written), &expected(log, scope, &resource))?;
        }
    }
}

#[test]
fn what_is_nested_too_deeply_is_dropped_and_counted_however_deep_it_is() {
    let deep = |depth| {
        (0..depth).fold(AnyValue::Int(1), |value, number| match number % 2 {
            0 => AnyValue::ListAny(Box::new(vec![value])),
            _ => AnyValue::Map(Box::new(HashMap::from([(Key::new("key"), value)]))),
        })
    };
    let mut log = empty_log();
    log.set_body(deep(MAX_DEPTH + 1));
    log.add_attribute("deepest", deep(MAX_DEPTH));
    log.add_attribute("too deep", deep(MAX_DEPTH + 1));
    log.add_attribute("much too deep", deep(1000));
    let framed = written(&log, &mut LogRecord::default());
    let scope = Scopes::new(Signal::Logs).find(&InstrumentationScope::default(), None);
    let mut resource_logs = Vec::new();
    prost::encoding::bytes::encode(2, &[scope.field(), &framed].concat(), &mut resource_logs);
    let read = ResourceLogs::decode(&*resource_logs).unwrap();
    let log = &read.scope_logs[0].log_records[0];
    let keys: Vec<_> = log.attributes.iter().map(|attribute| attribute.key.as_str()).collect();
    assert_eq!((keys, &log.body, log.dropped_attributes_count), (vec!["deepest"], &None, 3));
}
