//! Known variables with any values: each value is a line whose first byte selects the variable.
#![no_main]

use libfuzzer_sys::fuzz_target;
use standpipe::Config;
use standpipe_fuzz::config::{Frame, Lines, SECRET, check, prepare, text_of};

/// Variables that exist for several signals, without the name of the signal.
const OF_SIGNALS: [&str; 9] = [
    "ENDPOINT",
    "PROTOCOL",
    "HEADERS",
    "TIMEOUT",
    "COMPRESSION",
    "CERTIFICATE",
    "CLIENT_KEY",
    "CLIENT_CERTIFICATE",
    "INSECURE",
];
const SIGNALS: [&str; 4] = ["", "TRACES_", "LOGS_", "METRICS_"];
const OTHERS: [&str; 34] = [
    "OTEL_SERVICE_NAME",
    "OTEL_RESOURCE_ATTRIBUTES",
    "OTEL_SDK_DISABLED",
    "OTEL_TRACES_SAMPLER",
    "OTEL_TRACES_SAMPLER_ARG",
    "OTEL_TRACES_EXPORTER",
    "OTEL_LOGS_EXPORTER",
    "OTEL_METRICS_EXPORTER",
    "OTEL_BSP_SCHEDULE_DELAY",
    "OTEL_BSP_EXPORT_TIMEOUT",
    "OTEL_BSP_MAX_QUEUE_SIZE",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_BSP_ON_QUEUE_FULL",
    "OTEL_BSP_BLOCK_ON_QUEUE_FULL_TIMEOUT",
    "OTEL_BLRP_SCHEDULE_DELAY",
    "OTEL_BLRP_EXPORT_TIMEOUT",
    "OTEL_BLRP_MAX_QUEUE_SIZE",
    "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_BLRP_ON_QUEUE_FULL",
    "OTEL_LOGS_LEVEL",
    "OTEL_METRIC_EXPORT_INTERVAL",
    "OTEL_METRIC_EXPORT_TIMEOUT",
    "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
    "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION",
    "OTEL_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
    "OTEL_SPAN_EVENT_COUNT_LIMIT",
    "OTEL_SPAN_LINK_COUNT_LIMIT",
    "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_PROPAGATORS",
];

fuzz_target!(init: prepare(), |input: &[u8]| {
    let Some(text) = text_of(input) else { return };
    let pairs: Vec<(String, String)> = text.split('\n').filter_map(pair).collect();
    check("", Frame::Nothing, Lines::None, || Config::from_variables(pairs.iter().cloned()));
});

fn pair(line: &str) -> Option<(String, String)> {
    let choice = line.chars().next()?;
    let value = &line[choice.len_utf8()..];
    let choice = choice as usize % (OF_SIGNALS.len() * SIGNALS.len() + OTHERS.len());
    if let Some(name) = OTHERS.get(choice) {
        return Some(((*name).to_owned(), value.to_owned()));
    }
    let (kind, signal) = ((choice - OTHERS.len()) / SIGNALS.len(), (choice - OTHERS.len()) % SIGNALS.len());
    let value = match OF_SIGNALS[kind] {
        "HEADERS" => with_secret(value),
        "ENDPOINT" if value.contains("://") && value.contains('?') => format!("{value}{SECRET}"),
        _ => value.to_owned(),
    };
    Some((format!("OTEL_EXPORTER_OTLP_{}{}", SIGNALS[signal], OF_SIGNALS[kind]), value))
}

/// Inserts the secret after every `=`, where values begin.
fn with_secret(headers: &str) -> String {
    headers.replace('=', &format!("={SECRET}"))
}
