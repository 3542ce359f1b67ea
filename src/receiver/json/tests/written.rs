//! Messages written in JSON as their senders do, field by field.

use super::*;

fn hex(bytes: &[u8]) -> Json {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

pub(super) fn list<T>(items: &[T], write: impl Fn(&T) -> Json) -> Json {
    items.iter().map(write).collect()
}

fn double(value: f64) -> Json {
    match value {
        f64::INFINITY => json!("Infinity"),
        f64::NEG_INFINITY => json!("-Infinity"),
        value => json!(value),
    }
}

/// Whole numbers of 64 bits are strings, but numbers are taken, too.
fn whole(value: u64) -> Json {
    if value % 2 == 0 { json!(value) } else { value.to_string().into() }
}

fn any(value: &AnyValue) -> Json {
    use any_value::Value as Any;
    match value.value.as_ref() {
        None | Some(Any::StringValueStrindex(_)) => json!({}),
        Some(Any::StringValue(text)) => json!({ "stringValue": text }),
        Some(Any::BoolValue(value)) => json!({ "boolValue": value }),
        Some(Any::IntValue(value)) if value % 2 == 0 => json!({ "intValue": value }),
        Some(Any::IntValue(value)) => json!({ "intValue": value.to_string() }),
        Some(Any::DoubleValue(value)) => json!({ "doubleValue": double(*value) }),
        Some(Any::ArrayValue(array)) => json!({ "arrayValue": { "values": list(&array.values, any) } }),
        Some(Any::KvlistValue(list)) => json!({ "kvlistValue": { "values": pairs(&list.values) } }),
        Some(Any::BytesValue(bytes)) => {
            json!({ "bytesValue": crate::transport::base64::encode(bytes) })
        }
    }
}

fn pairs(attributes: &[KeyValue]) -> Json {
    let pair = |pair: &KeyValue| json!({ "key": pair.key, "value": pair.value.as_ref().map(any) });
    list(attributes, pair)
}

pub(super) fn scope(scope: &InstrumentationScope) -> Json {
    json!({ "name": scope.name, "version": scope.version, "attributes": pairs(&scope.attributes),
            "droppedAttributesCount": scope.dropped_attributes_count })
}

pub(super) fn resource(resource: &Resource) -> Json {
    let entity = |entity: &EntityRef| {
        json!({ "schemaUrl": entity.schema_url, "type": entity.r#type, "idKeys": entity.id_keys,
                "descriptionKeys": entity.description_keys })
    };
    json!({ "attributes": pairs(&resource.attributes), "entityRefs": list(&resource.entity_refs, entity),
            "droppedAttributesCount": resource.dropped_attributes_count })
}

pub(super) fn span(span: &Span) -> Json {
    let event = |event: &Event| {
        json!({ "timeUnixNano": whole(event.time_unix_nano), "name": event.name,
                "attributes": pairs(&event.attributes), "droppedAttributesCount": event.dropped_attributes_count })
    };
    let link = |link: &Link| {
        json!({ "traceId": hex(&link.trace_id), "spanId": hex(&link.span_id), "traceState": link.trace_state,
                "attributes": pairs(&link.attributes), "droppedAttributesCount": link.dropped_attributes_count,
                "flags": link.flags })
    };
    let status = |status: &Status| json!({ "message": status.message, "code": status.code });
    let kind = span::SpanKind::try_from(span.kind).map_or(json!(span.kind), |kind| json!(kind.as_str_name()));
    json!({ "traceId": hex(&span.trace_id), "spanId": hex(&span.span_id), "traceState": span.trace_state,
            "parentSpanId": hex(&span.parent_span_id), "flags": span.flags, "name": span.name, "kind": kind,
            "startTimeUnixNano": whole(span.start_time_unix_nano), "endTimeUnixNano": whole(span.end_time_unix_nano),
            "attributes": pairs(&span.attributes), "droppedAttributesCount": span.dropped_attributes_count,
            "events": list(&span.events, event), "droppedEventsCount": span.dropped_events_count,
            "links": list(&span.links, link), "droppedLinksCount": span.dropped_links_count,
            "status": span.status.as_ref().map(status) })
}

pub(super) fn log(log: &LogRecord) -> Json {
    json!({ "timeUnixNano": whole(log.time_unix_nano), "observedTimeUnixNano": whole(log.observed_time_unix_nano),
            "severityNumber": log.severity_number, "severityText": log.severity_text,
            "body": log.body.as_ref().map(any), "attributes": pairs(&log.attributes),
            "droppedAttributesCount": log.dropped_attributes_count, "flags": log.flags,
            "traceId": hex(&log.trace_id), "spanId": hex(&log.span_id), "eventName": log.event_name })
}

fn exemplar(exemplar: &Exemplar) -> Json {
    let mut json = json!({ "filteredAttributes": pairs(&exemplar.filtered_attributes),
        "timeUnixNano": whole(exemplar.time_unix_nano), "spanId": hex(&exemplar.span_id),
        "traceId": hex(&exemplar.trace_id) });
    match exemplar.value.unwrap() {
        exemplar::Value::AsDouble(value) => json["asDouble"] = double(value),
        exemplar::Value::AsInt(value) => json["asInt"] = value.to_string().into(),
    }
    json
}

fn number(point: &NumberDataPoint) -> Json {
    let mut json = json!({ "attributes": pairs(&point.attributes), "flags": point.flags,
        "startTimeUnixNano": whole(point.start_time_unix_nano), "timeUnixNano": whole(point.time_unix_nano),
        "exemplars": list(&point.exemplars, exemplar) });
    match point.value.unwrap() {
        number_data_point::Value::AsDouble(value) => json["asDouble"] = double(value),
        number_data_point::Value::AsInt(value) => json["asInt"] = value.into(),
    }
    json
}

fn histogram(point: &HistogramDataPoint) -> Json {
    json!({ "attributes": pairs(&point.attributes), "startTimeUnixNano": whole(point.start_time_unix_nano),
            "timeUnixNano": whole(point.time_unix_nano), "count": whole(point.count), "sum": point.sum.map(double),
            "bucketCounts": list(&point.bucket_counts, |count| whole(*count)),
            "explicitBounds": list(&point.explicit_bounds, |bound| double(*bound)),
            "exemplars": list(&point.exemplars, exemplar), "flags": point.flags, "min": point.min.map(double),
            "max": point.max.map(double) })
}

fn exponential(point: &ExponentialHistogramDataPoint) -> Json {
    let buckets = |buckets: &Buckets| json!({ "offset": buckets.offset, "bucketCounts": list(&buckets.bucket_counts, |count| whole(*count)) });
    json!({ "attributes": pairs(&point.attributes), "startTimeUnixNano": whole(point.start_time_unix_nano),
            "timeUnixNano": whole(point.time_unix_nano), "count": whole(point.count), "sum": point.sum.map(double),
            "scale": point.scale, "zeroCount": whole(point.zero_count), "flags": point.flags,
            "positive": point.positive.as_ref().map(buckets), "negative": point.negative.as_ref().map(buckets),
            "exemplars": list(&point.exemplars, exemplar), "min": point.min.map(double),
            "max": point.max.map(double), "zeroThreshold": double(point.zero_threshold) })
}

fn summary(point: &SummaryDataPoint) -> Json {
    let quantile =
        |at: &ValueAtQuantile| json!({ "quantile": double(at.quantile), "value": double(at.value) });
    json!({ "attributes": pairs(&point.attributes), "startTimeUnixNano": whole(point.start_time_unix_nano),
            "timeUnixNano": whole(point.time_unix_nano), "count": whole(point.count), "sum": double(point.sum),
            "quantileValues": list(&point.quantile_values, quantile), "flags": point.flags })
}

pub(super) fn metric(metric: &Metric) -> Json {
    let (name, data) = match metric.data.as_ref().unwrap() {
        Data::Gauge(gauge) => ("gauge", json!({ "dataPoints": list(&gauge.data_points, number) })),
        Data::Sum(sum) => (
            "sum",
            json!({ "dataPoints": list(&sum.data_points, number), "isMonotonic": sum.is_monotonic,
                    "aggregationTemporality": sum.aggregation_temporality }),
        ),
        Data::Histogram(data) => (
            "histogram",
            json!({ "dataPoints": list(&data.data_points, histogram),
                    "aggregationTemporality": data.aggregation_temporality }),
        ),
        Data::ExponentialHistogram(data) => (
            "exponentialHistogram",
            json!({ "dataPoints": list(&data.data_points, exponential),
                    "aggregationTemporality": "AGGREGATION_TEMPORALITY_DELTA" }),
        ),
        Data::Summary(data) => ("summary", json!({ "dataPoints": list(&data.data_points, summary) })),
    };
    json!({ "name": metric.name, "description": metric.description, "unit": metric.unit, name: data,
            "metadata": pairs(&metric.metadata), "later": [{ "unknown": 1 }] })
}
