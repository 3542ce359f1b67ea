//! The names of all variables: which one sets what, for which signal, and which are a slip of the hand.

use super::reader::Reader;
use super::variables::Variables;
use crate::config::key::Key;
use crate::config::suggest;
use crate::record::Signal;

pub(super) const DISABLED: &str = "OTEL_SDK_DISABLED";
pub(super) const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
pub(super) const RESOURCE_ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
pub(super) const PROPAGATORS: &str = "OTEL_PROPAGATORS";
pub(super) const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
pub(super) const SAMPLER_ARG: &str = "OTEL_TRACES_SAMPLER_ARG";
pub(super) const ATTRIBUTE_COUNT: &str = "OTEL_ATTRIBUTE_COUNT_LIMIT";
pub(super) const ATTRIBUTE_VALUE_LENGTH: &str = "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT";
pub(super) const SPAN_ATTRIBUTE_COUNT: &str = "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT";
pub(super) const SPAN_ATTRIBUTE_VALUE_LENGTH: &str = "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT";
pub(super) const SPAN_EVENT_COUNT: &str = "OTEL_SPAN_EVENT_COUNT_LIMIT";
pub(super) const SPAN_LINK_COUNT: &str = "OTEL_SPAN_LINK_COUNT_LIMIT";
pub(super) const EVENT_ATTRIBUTE_COUNT: &str = "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT";
pub(super) const LINK_ATTRIBUTE_COUNT: &str = "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT";
pub(super) const LOG_ATTRIBUTE_COUNT: &str = "OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT";
pub(super) const LOG_ATTRIBUTE_VALUE_LENGTH: &str = "OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT";

/// Those that are not of one exporter.
const GENERAL: [&str; 16] = [
    DISABLED,
    SERVICE_NAME,
    RESOURCE_ATTRIBUTES,
    PROPAGATORS,
    SAMPLER,
    SAMPLER_ARG,
    ATTRIBUTE_COUNT,
    ATTRIBUTE_VALUE_LENGTH,
    SPAN_ATTRIBUTE_COUNT,
    SPAN_ATTRIBUTE_VALUE_LENGTH,
    SPAN_EVENT_COUNT,
    SPAN_LINK_COUNT,
    EVENT_ATTRIBUTE_COUNT,
    LINK_ATTRIBUTE_COUNT,
    LOG_ATTRIBUTE_COUNT,
    LOG_ATTRIBUTE_VALUE_LENGTH,
];

const ALL: &str = "OTEL_";
/// Whatever begins so is meant for an exporter like ours.
const OURS: [&str; 3] = ["OTEL_EXPORTER_OTLP_", "OTEL_BSP_", "OTEL_BLRP_"];

/// More are not looked at: a program should start at once, whatever else is in its environment.
const MOST_UNKNOWN: usize = 1_000;

/// The variable that sets it for one signal; `None` if the signal has none for it.
pub(super) fn own(signal: Signal, key: Key) -> Option<String> {
    if let Some(base) = base(key) {
        return Some(base.replacen("OTLP_", &format!("OTLP_{}_", upper(signal)), 1));
    }
    let name = match (signal, key) {
        (Signal::Metrics, Key::Interval) => "OTEL_METRIC_EXPORT_INTERVAL".to_owned(),
        (Signal::Metrics, Key::GiveUpAfter) => "OTEL_METRIC_EXPORT_TIMEOUT".to_owned(),
        (Signal::Metrics, Key::Temporality) => "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE".to_owned(),
        (Signal::Metrics, Key::Histograms) => {
            "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION".to_owned()
        }
        (Signal::Metrics, _) => return None,
        (Signal::Traces, _) => format!("OTEL_BSP_{}", of_processor(key)?),
        (Signal::Logs, _) => format!("OTEL_BLRP_{}", of_processor(key)?),
    };
    Some(name)
}

/// The variable that sets it for all signals, where their own say nothing.
pub(super) fn base(key: Key) -> Option<&'static str> {
    match key {
        Key::Transport => Some("OTEL_EXPORTER_OTLP_PROTOCOL"),
        Key::Endpoint => Some("OTEL_EXPORTER_OTLP_ENDPOINT"),
        Key::Headers => Some("OTEL_EXPORTER_OTLP_HEADERS"),
        Key::Timeout => Some("OTEL_EXPORTER_OTLP_TIMEOUT"),
        Key::Compression => Some("OTEL_EXPORTER_OTLP_COMPRESSION"),
        Key::CaFile => Some("OTEL_EXPORTER_OTLP_CERTIFICATE"),
        Key::ClientCertificateFile => Some("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"),
        Key::ClientKeyFile => Some("OTEL_EXPORTER_OTLP_CLIENT_KEY"),
        _ => None,
    }
}

/// Whether endpoints without a scheme are plaintext: for one signal, or for all.
pub(super) fn insecure(signal: Option<Signal>) -> String {
    match signal {
        Some(signal) => format!("OTEL_EXPORTER_OTLP_{}_INSECURE", upper(signal)),
        None => "OTEL_EXPORTER_OTLP_INSECURE".to_owned(),
    }
}

/// Where a signal goes at all.
pub(super) fn exporter(signal: Signal) -> String {
    format!("OTEL_{}_EXPORTER", upper(signal))
}

/// Warns of what looks like one of these variables and is none. Those of other programs are left alone.
pub(super) fn report_unknown(variables: &Variables, reader: &mut Reader<'_>) {
    let known = known();
    let unknown = variables.names().filter(|name| !known.iter().any(|known| known == name));
    for name in unknown.take(MOST_UNKNOWN) {
        let ours = OURS.into_iter().find(|start| name.starts_with(start));
        // the start that they have in common says nothing of what was meant
        let start = ours.unwrap_or(ALL);
        let Some(end) = name.strip_prefix(start) else { continue };
        let ends: Vec<&str> = known.iter().filter_map(|known| known.strip_prefix(start)).collect();
        let meant = if ours.is_some() { suggest::nearest(end, &ends) } else { suggest::slip(end, &ends) };
        match meant {
            Some(meant) => reader.warn(name, "unknown variable", format!("did you mean {start}{meant}?")),
            None if ours.is_some() => reader.warn(name, "unknown variable", "remove it"),
            None => {}
        }
    }
}

/// All of them.
pub(super) fn known() -> Vec<String> {
    let mut known: Vec<String> = GENERAL.map(str::to_owned).into();
    known.push(insecure(None));
    known.extend(Key::ALL.iter().filter_map(|&key| base(key)).map(str::to_owned));
    for signal in Signal::ALL {
        known.extend([exporter(signal), insecure(Some(signal))]);
        known.extend(Key::ALL.iter().filter_map(|&key| own(signal, key)));
    }
    known
}

/// What the variables of batch processors, one for spans and one for log records, end in.
fn of_processor(key: Key) -> Option<&'static str> {
    match key {
        Key::Linger => Some("SCHEDULE_DELAY"),
        Key::GiveUpAfter => Some("EXPORT_TIMEOUT"),
        Key::QueueRecords => Some("MAX_QUEUE_SIZE"),
        Key::BatchRecords => Some("MAX_EXPORT_BATCH_SIZE"),
        Key::Lossy => Some("ON_QUEUE_FULL"),
        Key::BlockTimeout => Some("BLOCK_ON_QUEUE_FULL_TIMEOUT"),
        _ => None,
    }
}

fn upper(signal: Signal) -> String {
    signal.name().to_ascii_uppercase()
}
