//! Reads single variables by OpenTelemetry's rules: an invalid value is reported and ignored. Contains the names of all
//! variables, and detects misspelled ones.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::config::error::{DiagnosticList, DiagnosticSeverity, Fault, Words};
use crate::config::settings::general::WordList;
use crate::config::settings::{SettingRow, VariableNames, general, rows};
use crate::config::text::{quoted, shortened, what_to_write};
use crate::config::{header, text, units};
use crate::record::Signal;

/// Reads variables and collects diagnostics about them.
pub(super) struct Reader<'v> {
    variables: &'v Variables,
    pub(super) diagnostics: DiagnosticList,
}

impl<'v> Reader<'v> {
    pub(super) fn new(variables: &'v Variables) -> Self {
        Self { variables, diagnostics: DiagnosticList::default() }
    }

    /// Returns the value of a variable. A blank value counts as unset. Line breaks are kept, so that the caller can
    /// refuse them. If the value is not UTF-8, returns a fault that the caller must report.
    pub(super) fn given(&self, name: &str) -> Option<Result<&'v str, Fault>> {
        let given = self.variables.get(name)?.map(header::trim);
        (given != Ok("")).then_some(given)
    }

    pub(super) fn text(&mut self, name: &str) -> Option<&'v str> {
        let text = self.given(name)?.map_err(|fault| self.ignore(name, fault)).ok()?;
        Some(text.trim()).filter(|text| !text.is_empty())
    }

    pub(super) fn count(&mut self, name: &str, range: &RangeInclusive<u64>) -> Option<u64> {
        let fix = format!("write {} to {}", range.start(), range.end());
        self.number(name, range, "a whole number", fix)
    }

    /// Returns a duration in whole milliseconds.
    pub(super) fn duration(&mut self, name: &str, range: &RangeInclusive<Duration>) -> Option<Duration> {
        let text = self.text(name)?;
        let (least, most) = (units::millis(*range.start()), units::millis(*range.end()));
        // The advice for `5s` is 5000.
        let fix = match units::parse_duration(text) {
            Ok(meant) if range.contains(&meant) => format!("write {}", units::millis(meant)),
            _ => format!("write {least} to {most}"),
        };
        let number = self.number(name, &(least..=most), "a whole number of milliseconds", fix);
        number.map(Duration::from_millis)
    }

    /// Returns the meaning of a variable's value, which must be one of `words` in any case.
    pub(super) fn word<T: Copy>(&mut self, name: &str, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(name)?;
        let meaning = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(text));
        if meaning.is_none() {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let fault = Fault::new("is not known", what_to_write(text, &known));
            self.ignore(name, fault.of(quoted(text)));
        }
        meaning.map(|(_, meaning)| *meaning)
    }

    pub(super) fn bool(&mut self, name: &str) -> Option<bool> {
        self.word(name, &[("true", true), ("false", false)])
    }

    /// Returns the known words of a list that is separated by commas, and reports the others.
    pub(super) fn words(&mut self, name: &str, list: &WordList) -> Option<Vec<&'v str>> {
        let mut words = list.split(self.text(name)?);
        words.retain(|word| list.fault(word).map(|fault| self.ignore(name, fault)).is_none());
        (!words.is_empty()).then_some(words)
    }

    /// Reports why a value is ignored.
    pub(super) fn ignore(&mut self, name: &str, fault: Fault) {
        self.warn(name, fault.of("ignored:"));
    }

    pub(super) fn warn(&mut self, name: &str, fault: Fault) {
        self.diagnostics.push(fault.warning(None, name));
    }

    fn number(&mut self, name: &str, range: &RangeInclusive<u64>, kind: &str, fix: String) -> Option<u64> {
        let text = self.text(name)?;
        // A number with too many digits does not parse either, but the message calls it "too large".
        let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let problem = match text.parse::<u64>() {
            Ok(number) if range.contains(&number) => return Some(number),
            Ok(number) if number < *range.start() => Words::from("too small"),
            Ok(_) => "too large".into(),
            Err(_) if is_digits => "too large".into(),
            Err(_) => format!("not {kind}").into(),
        };
        let shown = if is_digits { shortened(text).into_owned() } else { quoted(text) };
        self.ignore(name, Fault::new(format!("{shown} is {problem}"), fix));
        None
    }
}

/// Environment variables: those of the process, or others for a test.
#[derive(Clone, Default)]
pub(crate) struct Variables {
    named: BTreeMap<String, OsString>,
    /// True if `named` has all variables, so that [`lookup`](Self::lookup) does not ask the process. Set for maps
    /// that callers and tests pass in.
    #[cfg_attr(not(feature = "yaml"), allow(dead_code, reason = "only `lookup` reads it"))]
    is_complete: bool,
}

impl Variables {
    /// Returns the current variables of this process that begin with `OTEL_` or `TRACETEST_`.
    pub(crate) fn of_process() -> Self {
        let is_ours = |name: &str| name.starts_with("OTEL_") || name.starts_with("TRACETEST_");
        let named = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value));
        let ours = std::env::vars_os().filter_map(named).filter(|(name, _)| is_ours(name)).collect();
        Self { is_complete: false, ..ours }
    }

    /// Returns the value of any variable, for references such as `${NAME}`.
    #[cfg(feature = "yaml")]
    pub(crate) fn lookup(&self, name: &str) -> Result<Option<String>, Fault> {
        let of_process = || if self.is_complete { None } else { std::env::var_os(name) };
        let value = self.named.get(name).cloned().or_else(of_process);
        let not_utf8 = |_| Fault::new(format!("variable {} is not UTF-8", quoted(name)), "set it to text");
        value.map(|value| value.into_string().map_err(not_utf8)).transpose()
    }

    /// Returns the value of a variable; an empty one counts as unset. `Err` if it is not UTF-8.
    pub(crate) fn get(&self, name: &str) -> Option<Result<&str, Fault>> {
        let value = self.named.get(name).filter(|value| !value.is_empty())?;
        Some(value.to_str().ok_or_else(|| Fault::new("is not UTF-8", "set it to text")))
    }

    /// Returns the names of all variables that are not empty, in alphabetical order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.named.iter().filter(|(_, value)| !value.is_empty()).map(|(name, _)| name.as_str())
    }
}

impl<N: Into<String>, V: Into<OsString>> FromIterator<(N, V)> for Variables {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut variables = BTreeMap::new();
        // Inserted one by one, because `BTreeMap::from_iter` would also link a sort, which has as much code as the map.
        for (name, value) in pairs {
            variables.insert(name.into(), value.into());
        }
        Self { named: variables, is_complete: true }
    }
}

pub(super) const OTEL_SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
pub(super) const OTEL_RESOURCE_ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
pub(super) const OTEL_TRACES_SAMPLER: &str = "OTEL_TRACES_SAMPLER";
pub(super) const OTEL_TRACES_SAMPLER_ARG: &str = "OTEL_TRACES_SAMPLER_ARG";

/// Names a configuration file, which is read instead of all other variables.
pub(in crate::config) const OTEL_CONFIG_FILE: &str = "OTEL_CONFIG_FILE";

/// Variables without a row in the tables of settings.
const PROVIDER_VARIABLES: [&str; 5] = [
    OTEL_SERVICE_NAME,
    OTEL_RESOURCE_ATTRIBUTES,
    OTEL_TRACES_SAMPLER,
    OTEL_TRACES_SAMPLER_ARG,
    OTEL_CONFIG_FILE,
];

/// Prefix of all variables.
const PREFIX: &str = "OTEL_";
/// Level of an SDK's internal log, which this crate does not write. It is easily confused with the level of log
/// records.
const SDK_LOG_LEVEL: &str = "OTEL_LOG_LEVEL";
/// Variables of the specification that this crate does not support. Each entry matches all names that begin with it; an
/// entry that ends in `_` stands for a group of variables.
const UNSUPPORTED: [&str; 4] =
    ["OTEL_ENTITIES", "OTEL_EXPORTER_JAEGER_", "OTEL_EXPORTER_PROMETHEUS_", "OTEL_EXPORTER_ZIPKIN_"];
/// Prefixes of variables that only OTLP exporters read, so an unknown name with such a prefix is a mistake.
const OTLP_PREFIXES: [&str; 3] = ["OTEL_EXPORTER_OTLP_", "OTEL_BSP_", "OTEL_BLRP_"];

/// Maximum number of unknown variables that are compared with known ones, which bounds the time to start.
const MAX_UNKNOWN: usize = 1_000;

/// Returns the variable that sets a row for one signal; `None` if the row has no variable for this signal.
pub(super) fn own_variable(signal: Signal, row: &SettingRow) -> Option<String> {
    let name = match &row.variables {
        VariableNames::OfExporter(end) => of_exporter(Some(signal), end),
        VariableNames::OfSignals(names) => names[signal as usize].to_owned(),
    };
    Some(name).filter(|name| !name.is_empty())
}

/// Returns the variable that sets a row for every signal whose own variable is not set.
pub(super) fn base_variable(row: &SettingRow) -> Option<String> {
    let VariableNames::OfExporter(end) = &row.variables else { return None };
    Some(of_exporter(None, end))
}

/// Returns the name of the variable that decides, for one signal or for all, whether an endpoint without a scheme is
/// plaintext.
pub(super) fn insecure_variable(signal: Option<Signal>) -> String {
    of_exporter(signal, "INSECURE")
}

/// Returns the variable that selects the exporters of a signal.
pub(super) fn exporter_variable(signal: Signal) -> String {
    format!("OTEL_{}_EXPORTER", upper(signal))
}

/// Reports unknown variables that begin like those of OTLP exporters or resemble a known one, and variables of the
/// specification that have no effect. Variables of other programs are not reported.
pub(super) fn report_unknown(reader: &mut Reader<'_>) {
    let (known, variables) = (known(), reader.variables);
    let fix = "set it for a program that calls Config::from_env";
    for (name, what, fix) in [
        (OTEL_CONFIG_FILE, "has no effect on this configuration", fix),
        ("OTEL_EXPERIMENTAL_CONFIG_FILE", "has no effect: it has a new name", "set OTEL_CONFIG_FILE"),
    ] {
        if variables.get(name).is_some() {
            reader.warn(name, Fault::new(what, fix));
        }
    }
    let unknown = variables.names().filter(|name| !known.iter().any(|known| known == name));
    for name in unknown.take(MAX_UNKNOWN) {
        if name == SDK_LOG_LEVEL {
            let what = "has no effect: it is for an SDK's own log, and standpipe writes none";
            let fault = Fault::new(what, "for the lowest severity of log records, set OTEL_LOGS_LEVEL");
            reader.diagnostics.push(fault.found(DiagnosticSeverity::Note, None, name));
            continue;
        }
        if UNSUPPORTED.iter().any(|start| name.starts_with(start)) {
            let fix = "remove it; standpipe init env lists what is supported";
            reader.warn(name, Fault::new("has no effect: standpipe does not support it", fix));
            continue;
        }
        let ours = OTLP_PREFIXES.into_iter().find(|start| name.starts_with(start));
        // Only the rest of each name is compared: with their common prefix, all names would be similar.
        let start = ours.unwrap_or(PREFIX);
        let Some(end) = name.strip_prefix(start) else { continue };
        let ends: Vec<&str> = known.iter().filter_map(|known| known.strip_prefix(start)).collect();
        let meant = if ours.is_some() { text::nearest(end, &ends) } else { text::slip(end, &ends) };
        let fix = match meant {
            Some(meant) => format!("did you mean {start}{meant}?"),
            None if ours.is_some() => "remove it".to_owned(),
            None => continue,
        };
        reader.warn(name, Fault::new("unknown variable", fix));
    }
}

/// Returns whether at least one known variable is set.
pub(super) fn is_any_set(variables: &Variables) -> bool {
    let known = known();
    variables.names().any(|name| known.iter().any(|known| known == name))
}

/// Returns the names of all known variables.
pub(super) fn known() -> Vec<String> {
    let general = general::rows().flat_map(|row| row.variables).chain(&PROVIDER_VARIABLES);
    let mut known: Vec<String> = general.map(|&name| name.to_owned()).collect();
    known.push(insecure_variable(None));
    known.extend(rows().filter_map(base_variable));
    for signal in Signal::ALL {
        known.extend([exporter_variable(signal), insecure_variable(Some(signal))]);
        known.extend(rows().filter_map(|row| own_variable(signal, row)));
    }
    known
}

fn of_exporter(signal: Option<Signal>, end: &str) -> String {
    let signal = signal.map(|signal| upper(signal) + "_").unwrap_or_default();
    format!("OTEL_EXPORTER_OTLP_{signal}{end}")
}

fn upper(signal: Signal) -> String {
    signal.name().to_ascii_uppercase()
}
