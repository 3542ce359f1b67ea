//! Log records: every severity, bodies, names, ids.

use serde_json::{Value, json};
use standpipe::{Severity, SpanContext, Telemetry};

use super::{DURING_THE_RUN, every_kind, every_kind_expected, expect, nano_text, time};
use crate::Error;
use crate::seen::Record;

const SEVERITIES: [Severity; 6] =
    [Severity::Trace, Severity::Debug2, Severity::Info, Severity::Warn3, Severity::Error, Severity::Fatal4];

pub(super) fn play(telemetry: &Telemetry) -> Result<Vec<Record>, Error> {
    let logger = telemetry.logger("interop.logs");
    let mut expected = Vec::new();
    for severity in SEVERITIES {
        logger.record(severity, severity.name()).time(time(30)).emit();
        expected.push(expect_log(json!({
            "severityNumber": severity.number(),
            "severityText": severity.name(),
            "timeUnixNano": nano_text(time(30)),
            "body": { "stringValue": severity.name() },
        })));
    }

    let context = SpanContext::from_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")?;
    let mut log = logger.info(standpipe::Value::Map(&[("order", standpipe::Value::Int(4711))]));
    for (key, value) in every_kind() {
        log = log.set(key, value);
    }
    log.context(&context).event_name("order.paid").severity_text("notice").time(time(31)).emit();
    expected.push(expect_log(json!({
        "severityNumber": 9,
        "severityText": "notice",
        "eventName": "order.paid",
        "timeUnixNano": nano_text(time(31)),
        "traceId": context.trace_id().to_string(),
        "spanId": context.span_id().to_string(),
        "flags": 1,
        "attributes": every_kind_expected(),
        "body": { "kvlistValue": { "values": [{ "key": "order", "value": { "intValue": 4711 } }] } },
    })));
    Ok(expected)
}

fn expect_log(mut body: Value) -> Record {
    body["observedTimeUnixNano"] = json!(DURING_THE_RUN);
    expect("logs", json!({ "name": "interop.logs" }), body)
}
