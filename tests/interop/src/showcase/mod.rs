//! A program that uses every field of OTLP, and the records that a server must receive.

mod logs;
mod metrics;
mod spans;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use standpipe::Telemetry;

use crate::Error;
use crate::seen::Record;
use crate::servers::Sent;

/// Placeholder for a time that the program did not set.
const DURING_THE_RUN: &str = "during the run";

/// The sent records, and the records that must arrive.
pub(crate) struct Showcase {
    pub(crate) sent: Sent,
    pub(crate) expected: Vec<Record>,
    begun: SystemTime,
}

impl Showcase {
    /// Emits all records. After the shutdown of the telemetry, all of them have been sent.
    pub(crate) fn play(telemetry: &Telemetry, delta: bool) -> Result<Self, Error> {
        let begun = SystemTime::now();
        let spans = spans::play(telemetry)?;
        let logs = logs::play(telemetry)?;
        let metrics = metrics::play(telemetry, delta);
        let sent = Sent { spans: spans.len(), logs: logs.len(), points: metrics.len() };
        Ok(Self { sent, expected: [spans, logs, metrics].concat(), begun })
    }

    /// Replaces times within this run by a placeholder, so that the record can be compared.
    pub(crate) fn blur(&self, record: &mut Record) {
        let run = nanos(self.begun)..=nanos(SystemTime::now());
        blur_times(&mut record.body, &|time| run.contains(&time));
        // The version differs between builds.
        if let Some(version) = record.resource.pointer_mut("/attributes/telemetry.sdk.version/stringValue") {
            *version = json!("of this build");
        }
    }
}

fn blur_times(tree: &mut Value, is_of_run: &dyn Fn(u128) -> bool) {
    match tree {
        Value::Array(items) => items.iter_mut().for_each(|item| blur_times(item, is_of_run)),
        Value::Object(fields) => {
            for (name, value) in fields {
                let time = value.as_str().and_then(|text| text.parse().ok());
                match time {
                    Some(time) if name.ends_with("UnixNano") && is_of_run(time) => {
                        *value = json!(DURING_THE_RUN)
                    }
                    _ => blur_times(value, is_of_run),
                }
            }
        }
        _ => {}
    }
}

/// Returns a record as it must arrive, with the resource that all records have.
fn expect(signal: &'static str, scope: Value, body: Value) -> Record {
    let resource = json!({ "attributes": [
        { "key": "service.name", "value": { "stringValue": "interop" } },
        { "key": "deployment.environment.name", "value": { "stringValue": "test" } },
        { "key": "host.cpu.count", "value": { "intValue": 2 } },
        { "key": "service.instance.id", "value": { "stringValue": "first" } },
        { "key": "telemetry.sdk.language", "value": { "stringValue": "rust" } },
        { "key": "telemetry.sdk.name", "value": { "stringValue": "standpipe" } },
        { "key": "telemetry.sdk.version", "value": { "stringValue": "of this build" } },
    ] });
    Record::new(signal, resource, scope, body)
}

/// Returns a time long before the run, with all digits down to nanoseconds.
fn time(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::new(1_700_000_000 + seconds, 123_456_789)
}

fn nanos(time: SystemTime) -> u128 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

fn nano_text(time: SystemTime) -> String {
    nanos(time).to_string()
}

/// Returns attributes of every type, as they are set.
fn every_kind() -> [(&'static str, standpipe::Value<'static>); 12] {
    use standpipe::Value;
    const INNER: &[(&str, Value<'static>)] = &[("b", Value::Str("deep")), ("c", Value::Ints(&[1, 2]))];
    [
        ("text", Value::Str("grüße ✓")),
        ("empty", Value::Str("")),
        ("truth", Value::Bool(true)),
        ("lie", Value::Bool(false)),
        ("zero", Value::Int(0)),
        ("whole", Value::Int(i64::MIN)),
        ("fraction", Value::Float(12.5)),
        ("bytes", Value::Bytes(&[0, 1, 254, 255])),
        ("texts", Value::Strs(&["red", "green"])),
        ("mixed", Value::Array(&[Value::Int(-1), Value::Str("two"), Value::Float(0.1), Value::Bool(false)])),
        ("map", Value::Map(&[("a", Value::Int(7)), ("inner", Value::Map(INNER))])),
        ("largest", Value::Int(i64::MAX)),
    ]
}

/// Returns the attributes of [`every_kind`] in the form in which they must arrive.
fn every_kind_expected() -> Value {
    let key = |key: &str, value: Value| json!({ "key": key, "value": value });
    json!([
        key("text", json!({ "stringValue": "grüße ✓" })),
        key("empty", json!({ "stringValue": "" })),
        key("truth", json!({ "boolValue": true })),
        key("lie", json!({ "boolValue": false })),
        key("zero", json!({ "intValue": "0" })),
        key("whole", json!({ "intValue": i64::MIN.to_string() })),
        key("fraction", json!({ "doubleValue": 12.5 })),
        key("bytes", json!({ "bytesValue": "AAH+/w==" })),
        key(
            "texts",
            json!({ "arrayValue": { "values": [{ "stringValue": "red" }, { "stringValue": "green" }] } })
        ),
        key(
            "mixed",
            json!({ "arrayValue": { "values": [
                { "intValue": "-1" }, { "stringValue": "two" }, { "doubleValue": 0.1 }, { "boolValue": false },
            ] } })
        ),
        key(
            "map",
            json!({ "kvlistValue": { "values": [
                key("a", json!({ "intValue": "7" })),
                key("inner", json!({ "kvlistValue": { "values": [
                    key("b", json!({ "stringValue": "deep" })),
                    key("c", json!({ "arrayValue": { "values": [{ "intValue": "1" }, { "intValue": "2" }] } })),
                ] } })),
            ] } })
        ),
        key("largest", json!({ "intValue": i64::MAX.to_string() })),
    ])
}
