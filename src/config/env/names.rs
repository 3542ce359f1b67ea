//! Which variables are there: for which setting, for which signal, and which name is a slip of the hand?

use super::reader::Reader;
use super::reader::Variables;
use crate::config::settings::SettingRow;
use crate::config::settings::general;
use crate::config::settings::rows;
use crate::config::text;
use crate::record::Signal;

pub(super) const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
pub(super) const RESOURCE_ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
pub(super) const PROPAGATORS: &str = "OTEL_PROPAGATORS";
pub(super) const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
pub(super) const SAMPLER_ARG: &str = "OTEL_TRACES_SAMPLER_ARG";

/// Those that no row has.
const OF_PROVIDER: [&str; 5] = [SERVICE_NAME, RESOURCE_ATTRIBUTES, PROPAGATORS, SAMPLER, SAMPLER_ARG];

const ALL: &str = "OTEL_";
/// The level of an SDK's log of its own troubles, which this crate has not: it is easily taken for that of log records.
const SDK_LOG_LEVEL: &str = "OTEL_LOG_LEVEL";
/// Variables of the specification that this crate does not support; a trailing `_` stands for all that begin so.
const UNSUPPORTED: [&str; 6] = [
    "OTEL_CONFIG_FILE",
    "OTEL_EXPERIMENTAL_CONFIG_FILE",
    "OTEL_METRICS_EXEMPLAR_FILTER",
    "OTEL_EXPORTER_JAEGER_",
    "OTEL_EXPORTER_PROMETHEUS_",
    "OTEL_EXPORTER_ZIPKIN_",
];
/// Whatever begins so is meant for an exporter like ours.
const OURS: [&str; 3] = ["OTEL_EXPORTER_OTLP_", "OTEL_BSP_", "OTEL_BLRP_"];

/// More are not looked at: a program should start at once, whatever else is in its environment.
const MOST_UNKNOWN: usize = 1_000;

/// The variable that sets it for one signal; `None` if the signal has none for it.
pub(super) fn own(signal: Signal, row: &SettingRow) -> Option<String> {
    let names = &row.variables;
    if let Some(end) = names.exporter {
        return Some(of_exporter(Some(signal), end));
    }
    match signal {
        Signal::Traces => names.processor.map(|end| format!("OTEL_BSP_{end}")),
        Signal::Logs => {
            names.logs.map(str::to_owned).or_else(|| names.processor.map(|end| format!("OTEL_BLRP_{end}")))
        }
        Signal::Metrics => names.metrics.map(str::to_owned),
    }
}

/// The variable that sets it for all signals, where their own say nothing.
pub(super) fn base(row: &SettingRow) -> Option<String> {
    row.variables.exporter.map(|end| of_exporter(None, end))
}

/// Whether endpoints without a scheme are plaintext: for one signal, or for all.
pub(super) fn insecure(signal: Option<Signal>) -> String {
    of_exporter(signal, "INSECURE")
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
        if name == SDK_LOG_LEVEL {
            let fix = "for the least severity of log records set OTEL_LOGS_LEVEL";
            reader.note(name, "has no effect: it is for an SDK's own log, and standpipe writes none", fix);
            continue;
        }
        if UNSUPPORTED.iter().any(|start| name.starts_with(start)) {
            let fix = "remove it; standpipe init env lists what is supported";
            reader.warn(name, "has no effect: standpipe does not support it", fix);
            continue;
        }
        let ours = OURS.into_iter().find(|start| name.starts_with(start));
        // the start that they have in common says nothing of what was meant
        let start = ours.unwrap_or(ALL);
        let Some(end) = name.strip_prefix(start) else { continue };
        let ends: Vec<&str> = known.iter().filter_map(|known| known.strip_prefix(start)).collect();
        let meant = if ours.is_some() { text::nearest(end, &ends) } else { text::slip(end, &ends) };
        match meant {
            Some(meant) => reader.warn(name, "unknown variable", format!("did you mean {start}{meant}?")),
            None if ours.is_some() => reader.warn(name, "unknown variable", "remove it"),
            None => {}
        }
    }
}

/// Whether one of them is set.
pub(super) fn is_any_set(variables: &Variables) -> bool {
    let known = known();
    variables.names().any(|name| known.iter().any(|known| known == name))
}

/// All of them.
pub(super) fn known() -> Vec<String> {
    let general = general::rows().flat_map(|row| row.variables).chain(&OF_PROVIDER);
    let mut known: Vec<String> = general.map(|&name| name.to_owned()).collect();
    known.push(insecure(None));
    known.extend(rows().filter_map(base));
    for signal in Signal::ALL {
        known.extend([exporter(signal), insecure(Some(signal))]);
        known.extend(rows().filter_map(|row| own(signal, row)));
    }
    known
}

fn of_exporter(signal: Option<Signal>, end: &str) -> String {
    match signal {
        Some(signal) => format!("OTEL_EXPORTER_OTLP_{}_{end}", upper(signal)),
        None => format!("OTEL_EXPORTER_OTLP_{end}"),
    }
}

fn upper(signal: Signal) -> String {
    signal.name().to_ascii_uppercase()
}
