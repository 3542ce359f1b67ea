//! Metrics: each kind of instrument once.

use serde_json::{Value, json};
use standpipe::{Meter, Scope, Telemetry};

use super::{DURING_THE_RUN, expect};
use crate::seen::Record;

/// Temporalities by OTLP's numbers.
const DELTA: u8 = 1;
const CUMULATIVE: u8 = 2;

pub(super) fn play(telemetry: &Telemetry, delta: bool) -> Vec<Record> {
    let meter = telemetry.meter(Scope::new("interop.metrics").version("0.9"));
    let temporality = if delta { DELTA } else { CUMULATIVE };
    measure(&meter);
    let sum = |name: &str, rises: bool, point: Value| {
        // Sums that can decrease are always cumulative.
        let temporality = if rises { temporality } else { CUMULATIVE };
        let sum =
            json!({ "aggregationTemporality": temporality, "isMonotonic": rises, "dataPoints": [point] });
        json!({ "name": name, "sum": sum })
    };
    let gauge = |name: &str, point: Value| json!({ "name": name, "gauge": { "dataPoints": [point] } });
    let metrics = [
        json!({ "name": "orders", "unit": "{order}", "description": "paid and not paid", "sum": {
            "aggregationTemporality": temporality,
            "isMonotonic": true,
            "dataPoints": [point(json!({ "asInt": 5, "attributes": [
                { "key": "shop.country", "value": { "stringValue": "SE" } },
                { "key": "express", "value": { "boolValue": true } },
                { "key": "shelf", "value": { "intValue": 7 } },
            ] }))],
        } }),
        sum("weight", true, point(json!({ "asDouble": 0.75 }))),
        sum("open", false, point(json!({ "asInt": -2 }))),
        sum("balance", false, point(json!({ "asDouble": -1.5 }))),
        gauge("temperature", moment(json!({ "asDouble": 21.5 }))),
        gauge("stock", moment(json!({ "asInt": 17 }))),
        json!({ "name": "duration", "unit": "ms", "histogram": {
            "aggregationTemporality": temporality,
            "dataPoints": [point(json!({
                "count": 4, "sum": 75.5, "min": 0.5, "max": 50.0,
                "explicitBounds": [1.0, 10.0, 25.0], "bucketCounts": [1, 1, 1, 1],
            }))],
        } }),
        json!({ "name": "size", "exponentialHistogram": {
            "aggregationTemporality": temporality,
            "dataPoints": [point(json!({
                "count": 3, "sum": 7.0, "min": 1.0, "max": 4.0, "scale": 6,
                "positive": { "offset": -1, "bucketCounts": powers_of_two() },
            }))],
        } }),
    ];
    let scope = json!({ "name": "interop.metrics", "version": "0.9" });
    metrics.map(|metric| expect("metrics", scope.clone(), metric)).to_vec()
}

fn measure(meter: &Meter) {
    use standpipe::Value;
    let orders = meter.build("orders").unit("{order}").description("paid and not paid").counter();
    let place =
        [("shop.country", Value::Str("SE")), ("express", Value::Bool(true)), ("shelf", Value::Int(7))];
    orders.add(2, &place);
    orders.add(3, &place);
    meter.build("weight").counter_f64().add(0.75, ());
    meter.up_down_counter("open").add(-2, ());
    meter.build("balance").up_down_counter_f64().add(-1.5, ());
    meter.gauge("temperature").record(21.5, ());
    meter.build("stock").observe_gauge_i64(|observer| observer.observe(17, ()));
    let duration = meter.build("duration").unit("ms").bounds(&[1.0, 10.0, 25.0]).histogram();
    [0.5, 5.0, 20.0, 50.0].iter().for_each(|&value| duration.record(value, ()));
    let size = meter.build("size").exponential().histogram();
    [1.0, 2.0, 4.0].iter().for_each(|&value| size.record(value, ()));
}

/// Bucket counts of the values 1, 2 and 4. The finest scale that needs at most 160 buckets has 64 per power of two.
fn powers_of_two() -> Vec<u8> {
    (0..=128).map(|bucket| u8::from(bucket % 64 == 0)).collect()
}

/// Returns a point of a sum or histogram, which has a start time.
fn point(mut fields: Value) -> Value {
    fields["startTimeUnixNano"] = json!(DURING_THE_RUN);
    moment(fields)
}

fn moment(mut fields: Value) -> Value {
    fields["timeUnixNano"] = json!(DURING_THE_RUN);
    fields
}
