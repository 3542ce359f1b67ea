//! Decodes written records with the protocol's own messages, and compares them with a simple model of a log record.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as ProtoValue;
use opentelemetry_proto::tonic::logs::v1::{LogRecord as ProtoLog, ResourceLogs, ScopeLogs};
use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::record::attribute::MAX_DEPTH;
use crate::record::frames;
use crate::record::tests::{
    Setting, any_setting, any_text, any_time, any_value, assert_same, has_empty_keys, in_array, in_map,
    proto_value, set, unframed,
};

/// A limit that no generated story reaches.
const AMPLE: usize = 1 << 20;

/// A whole record: its start, the calls on it, and its end.
#[derive(Debug, Clone)]
struct Story {
    severity: Severity,
    body: Value<'static>,
    steps: Vec<Step>,
    end: LogEnd,
}

#[derive(Debug, Clone)]
enum Step {
    Set(Setting),
    SeverityText(String),
    EventName(String),
}

impl Story {
    /// Makes all calls, and returns the result of [`LogRecord::finish`].
    fn write<'r>(&self, record: &'r mut LogRecord, limits: &LogLimits, max_bytes: usize) -> Option<&'r [u8]> {
        self.tell_watched(record, limits, max_bytes, |_| {});
        record.finish(self.severity, &self.end)
    }

    /// Returns the maximum number of bytes that the buffer ever holds, including the headroom and replaced values.
    fn most_room(&self, limits: &LogLimits) -> usize {
        let (mut record, mut most) = (LogRecord::default(), 0);
        self.tell_watched(&mut record, limits, usize::MAX, |record| {
            most = most.max(record.attributes.buffer.position());
        });
        record.finish(self.severity, &self.end);
        most.max(record.attributes.buffer.position())
    }

    fn tell_watched(
        &self,
        record: &mut LogRecord,
        limits: &LogLimits,
        max_bytes: usize,
        mut watch: impl FnMut(&LogRecord),
    ) {
        record.begin(limits, max_bytes);
        record.set_body(self.body);
        watch(record);
        for step in &self.steps {
            match step {
                Step::Set((key, value)) => record.set(key, *value),
                Step::SeverityText(text) => record.set_severity_text(text),
                Step::EventName(name) => record.set_event_name(name),
            }
            watch(record);
        }
    }

    /// Returns the same record as a plain message with plain vectors: slow, short, and obviously correct.
    fn model(&self, limits: &LogLimits) -> ProtoLog {
        let mut log = ProtoLog {
            time_unix_nano: self.end.time,
            observed_time_unix_nano: self.end.observed,
            severity_number: self.severity.number().into(),
            severity_text: self.severity.name().to_owned(),
            body: Some(proto_value(self.body, None)),
            ..Default::default()
        };
        if let Some(span) = self.end.span {
            (log.trace_id, log.span_id) = (span.trace_id.0.to_vec(), span.span_id.0.to_vec());
            log.flags = span.trace_flags.into();
        }
        for step in &self.steps {
            match step {
                Step::Set(setting) => {
                    if !set(&mut log.attributes, setting, limits.attributes, limits.value_length) {
                        log.dropped_attributes_count += 1;
                    }
                }
                Step::SeverityText(text) => log.severity_text.clone_from(text),
                Step::EventName(name) => log.event_name.clone_from(name),
            }
        }
        log
    }
}

fn any_story() -> impl Strategy<Value = Story> {
    let steps = prop::collection::vec(any_step(), 0..16);
    (any_severity(), any_value(), steps, any_end()).prop_map(|(severity, body, steps, end)| Story {
        severity,
        body,
        steps,
        end,
    })
}

fn any_severity() -> impl Strategy<Value = Severity> {
    use Severity::{Debug, Error4, Fatal, Fatal4, Info, Trace, Trace2, Warn3};
    prop::sample::select(vec![Trace, Trace2, Debug, Info, Warn3, Error4, Fatal, Fatal4])
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => any_setting().prop_map(Step::Set),
        1 => any_text().prop_map(Step::SeverityText),
        1 => any_text().prop_map(Step::EventName),
    ]
}

fn any_end() -> impl Strategy<Value = LogEnd> {
    let span =
        (any::<[u8; 16]>(), any::<[u8; 8]>(), any::<u8>()).prop_map(|(trace_id, span_id, trace_flags)| {
            SpanRef { trace_id: TraceId(trace_id), span_id: SpanId(span_id), trace_flags }
        });
    (any_time(), any_time(), prop::option::of(span)).prop_map(|(time, observed, span)| LogEnd {
        time,
        observed,
        span,
    })
}

/// Small limits, which the stories reach, and large ones, which they do not.
fn any_limits() -> impl Strategy<Value = LogLimits> {
    let attributes = prop_oneof![0u32..4, Just(128), Just(u32::MAX)];
    (attributes, prop::option::of(0usize..12))
        .prop_map(|(attributes, value_length)| LogLimits { attributes, value_length })
}

/// Returns the length of the shortest encoding that has these fields even if they are 0 or empty: the times, the
/// severity text, the flags if there is a trace id, and the event name if it was set.
fn shortest_len(story: &Story, log: &ProtoLog) -> usize {
    let mut log = log.clone();
    log.time_unix_nano = log.time_unix_nano.max(1);
    log.observed_time_unix_nano = log.observed_time_unix_nano.max(1);
    if !log.trace_id.is_empty() {
        log.flags = log.flags.max(1);
    }
    let is_named = story.steps.iter().any(|step| matches!(step, Step::EventName(_)));
    let empty_texts = [log.severity_text.is_empty(), is_named && log.event_name.is_empty()];
    log.encoded_len() + 2 * empty_texts.into_iter().filter(|is_empty| *is_empty).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::tests::share_of(128)))]

    #[test]
    fn any_log_record_is_read_back_as_it_was_told(
        stories in prop::collection::vec((any_story(), any_limits()), 1..3),
    ) {
        // One record for all stories, as the pool reuses it: nothing of one story may be left in the next.
        let mut record = LogRecord::default();
        let mut wire = Vec::new();
        for (story, limits) in &stories {
            wire.extend_from_slice(story.write(&mut record, limits, AMPLE).expect("not outgrown"));
        }
        let framed: Vec<_> = frames(&wire).collect();
        prop_assert_eq!(framed.len(), stories.len());
        for (framed, (story, limits)) in framed.into_iter().zip(&stories) {
            let message = unframed(framed);
            let written = ProtoLog::decode(message).unwrap();
            assert_same(&written, &story.model(limits))?;
            let body = KeyValue { key: "body".to_owned(), value: written.body.clone(), ..Default::default() };
            if !has_empty_keys(&written.attributes) && !has_empty_keys(&[body]) {
                // No unknown field, no repeated field, no length longer than necessary.
                prop_assert_eq!(message.len(), shortest_len(story, &written));
            }
        }
    }

    #[test]
    fn a_log_record_with_too_little_room_is_whole_or_given_up(
        story in any_story(),
        next in any_story(),
        limits in any_limits(),
        max_bytes in 0usize..2000,
    ) {
        let mut record = LogRecord::default();
        match story.write(&mut record, &limits, max_bytes) {
            Some(framed) => {
                prop_assert!(framed.len() <= max_bytes && story.most_room(&limits) <= max_bytes);
                assert_same(&ProtoLog::decode(unframed(framed)).unwrap(), &story.model(&limits))?;
            }
            None => prop_assert!(story.most_room(&limits) > max_bytes),
        }
        let framed = next.write(&mut record, &limits, AMPLE).expect("the old limit is forgotten");
        assert_same(&ProtoLog::decode(unframed(framed)).unwrap(), &next.model(&limits))?;
    }
}

fn written(body: Value<'_>, limits: &LogLimits) -> ProtoLog {
    let mut record = LogRecord::default();
    record.begin(limits, AMPLE);
    record.set_body(body);
    let end = LogEnd { time: 1, observed: 2, span: None };
    ProtoLog::decode(unframed(record.finish(Severity::Info, &end).expect("not outgrown"))).unwrap()
}

#[test]
fn the_deepest_body_that_is_written_can_be_read_in_a_whole_request() {
    for nest in [in_map as fn(Value<'static>) -> Value<'static>, in_array] {
        let deepest = (0..MAX_DEPTH).fold(Value::Strs(&["leaf"]), |value, _| nest(value));
        let log = written(deepest, &LogLimits::default());
        assert_eq!((log.body.is_some(), log.dropped_attributes_count), (true, 0));
        let scope_logs = vec![ScopeLogs { log_records: vec![log], ..Default::default() }];
        let resource_logs = vec![ResourceLogs { scope_logs, ..Default::default() }];
        let request = ExportLogsServiceRequest { resource_logs }.encode_to_vec();
        ExportLogsServiceRequest::decode(&*request).expect("decoders stop at 100 nested messages");

        let too_deep = written(nest(deepest), &LogLimits::default());
        assert_eq!((too_deep.body, too_deep.dropped_attributes_count), (None, 1));
    }
}

#[test]
fn a_body_is_never_cut() {
    let log = written(Value::Str("longer than four"), &LogLimits { attributes: 0, value_length: Some(4) });
    assert_eq!(log.body.unwrap().value, Some(ProtoValue::StringValue("longer than four".to_owned())));
}

#[test]
fn names_and_numbers_are_opentelemetrys() {
    for (severity, number, name) in [
        (Severity::Trace, 1, "TRACE"),
        (Severity::Debug, 5, "DEBUG"),
        (Severity::Info, 9, "INFO"),
        (Severity::Info4, 12, "INFO4"),
        (Severity::Warn, 13, "WARN"),
        (Severity::Error, 17, "ERROR"),
        (Severity::Fatal, 21, "FATAL"),
        (Severity::Fatal4, 24, "FATAL4"),
    ] {
        assert_eq!((severity.number(), severity.name()), (number, name));
    }
    let numbers = (0..=u8::MAX).filter_map(|number| Some((number, Severity::from_number(number)?.number())));
    assert!(numbers.eq((1..=24).map(|number| (number, number))));
}
