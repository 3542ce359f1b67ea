//! Makes exporters from environment variables, one for each group of signals with equal settings, and fills unset
//! settings of exporters that a file or the program describes.

use std::time::Duration;

use super::reader::{Reader, base_variable, exporter_variable, insecure_variable, own_variable};
use crate::config::endpoint::PathRule;
use crate::config::error::{Checked, Fault, Location};
use crate::config::settings::kind::{Kind, SettingValue as Value, is_no_limit};
use crate::config::settings::{
    ENDPOINT, GIVE_UP_AFTER, INTERVAL, SIGNALS, SettingRow, TIMEOUT, TRANSPORT, rows,
};
use crate::config::text::{listed, quoted, what_to_write, words};
use crate::config::values::units::MIN_PLAUSIBLE;
use crate::config::{Exporter, SettingSource, Signals, Transport, header};
use crate::record::Signal;

/// Returns the exporters that the variables describe: `otlp` for signals with equal settings, an exporter such as
/// `otlp.logs` for a signal whose settings differ, and `console` for signals that are printed.
pub(super) fn described(reader: &mut Reader<'_>) -> Vec<Exporter> {
    let (mut sent, mut printed) = (Vec::new(), Vec::new());
    for signal in Signal::ALL {
        let [is_sent, is_printed] = destinations(signal, reader);
        sent.extend(is_sent.then_some(signal));
        printed.extend(is_printed.then_some(signal));
    }
    let groups = groups(sent, reader);
    let is_alone = groups.len() == 1;
    let mut exporters: Vec<Exporter> = Vec::new();
    for group in groups {
        let name = match &group[..] {
            [member] if !is_alone => format!("otlp.{}", member.signal.name()),
            _ => "otlp".to_owned(),
        };
        let signals: Vec<Signal> = group.iter().map(|member| member.signal).collect();
        let mut exporter = with_defaults(&name, format!("exporter {name:?}"), None, &signals);
        // Several variables together select the signals; the first one that is set is shown as the origin.
        let mut variables = Signal::ALL.map(exporter_variable).into_iter();
        if let Some(variable) = variables.find(|name| reader.given(name).is_some()) {
            exporter.record(&SIGNALS, SettingSource::Environment(variable), None);
        }
        let value = |row| Some((row, group.iter().find_map(|member| member.get(row))?.clone()));
        apply(rows().filter_map(value).collect(), &mut exporter, reader);
        exporters.push(exporter);
    }
    exporters.extend(console(&printed, reader));
    exporters
}

/// Groups signals for which the variables set equal values.
fn groups(signals: Vec<Signal>, reader: &mut Reader<'_>) -> Vec<Vec<Member>> {
    let mut groups: Vec<Vec<Member>> = Vec::new();
    for signal in signals {
        let value = |row| Some((row, reader.value(signal, row)?));
        let member = Member { signal, values: rows().filter_map(value).collect() };
        let agreeing = groups.iter_mut().filter(|group| group.iter().all(|other| other.agrees_with(&member)));
        // If several groups match, the signal joins the group with the fewest values. The other groups have additional
        // values, which were set for other signals and should not apply to this one.
        match agreeing.min_by_key(|group| group[0].values.len()) {
            Some(group) => group.push(member),
            None => groups.push(vec![member]),
        }
    }
    groups
}

/// Returns the console exporter, if any signal is to be printed.
fn console(signals: &[Signal], reader: &mut Reader<'_>) -> Option<Exporter> {
    let &first = signals.first()?;
    let variable = exporter_variable(first);
    let mut exporter = Exporter::of_environment("console".to_owned(), variable.clone(), None);
    exporter.set_transport(Transport::Console);
    exporter.record(&TRANSPORT, SettingSource::Environment(variable.clone()), None);
    exporter.signals = Signals::of(signals);
    exporter.record(&SIGNALS, SettingSource::Environment(variable), None);
    fill(&mut exporter, reader);
    Some(exporter)
}

struct Member {
    signal: Signal,
    values: EnvValues,
}

impl Member {
    fn get(&self, row: &SettingRow) -> Option<&EnvValue> {
        self.values.iter().find(|(known, _)| known.key == row.key).map(|(_, value)| value)
    }

    fn agrees_with(&self, other: &Self) -> bool {
        rows().all(|row| {
            // Two signals without a value can share an exporter even if their defaults differ; then the exporter's
            // default applies.
            let is_unset = self.get(row).is_none() && other.get(row).is_none();
            // A signal that has no variable for this row accepts the other signal's value.
            let has_no_say = |member: &Self| own_variable(member.signal, row).is_none();
            is_unset || has_no_say(self) || has_no_say(other) || self.value(row) == other.value(row)
        })
    }

    /// Returns the given value, or else the default of the row for this signal. Returns `None` if there is no value and
    /// the default cannot be compared, as for endpoints and headers.
    fn value(&self, row: &SettingRow) -> Option<Checked<Value>> {
        let default = || row.kind.get(&with_defaults("", String::new(), None, &[self.signal])).map(Ok);
        self.get(row).map(|value| value.value.clone()).or_else(default)
    }
}

/// Returns whether a signal is sent to a collector, and whether it is printed.
fn destinations(signal: Signal, reader: &mut Reader<'_>) -> [bool; 2] {
    const KNOWN: [&str; 4] = ["otlp", "console", "otlp/stdout", "none"];
    let variable = exporter_variable(signal);
    let text = match reader.given(&variable) {
        None => return [true, false],
        // OpenTelemetry has two names for standard output.
        Some(Ok(text)) => text.to_ascii_lowercase().replace("otlp/stdout", "console"),
        Some(Err(fault)) => {
            reader.warn(&variable, fault);
            return [false, false];
        }
    };
    let words = words(&text);
    for word in &words {
        match *word {
            "otlp" | "console" => {}
            "none" if words.len() == 1 => {}
            "none" => {
                let fault = Fault::new("\"none\" is combined with others", "remove it, or the others");
                reader.ignore(&variable, fault);
            }
            _ => {
                let what = "is not supported and starts no exporter";
                reader.warn(&variable, Fault::new(what, what_to_write(word, &KNOWN)).of(quoted(word)));
            }
        }
    }
    // `none` needs no entry here: it selects no exporter, and other words of the list still count.
    ["otlp", "console"].map(|known| words.contains(&known))
}

/// Returns an exporter with OpenTelemetry's defaults: it has no throttle, and its `linger` is the scheduled delay of
/// OpenTelemetry's batch processors.
pub(crate) fn with_defaults(name: &str, path: String, at: Option<Location>, signals: &[Signal]) -> Exporter {
    let mut exporter = Exporter::of_environment(name.to_owned(), path, at);
    exporter.signals = Signals::of(signals);
    exporter.pace.throttle = Duration::ZERO;
    // The defaults of OTEL_BLRP_SCHEDULE_DELAY (logs) and OTEL_BSP_SCHEDULE_DELAY (spans). An exporter of both signals
    // has only one delay, and uses that of logs.
    exporter.pace.linger = Duration::from_secs(if signals.contains(&Signal::Logs) { 1 } else { 5 });
    exporter
}

/// Values that variables set for one signal, or for all signals of an exporter, each with the row of its setting. They
/// are in the order of the rows.
pub(super) type EnvValues = Vec<(&'static SettingRow, EnvValue)>;

/// The value of one setting, from a variable.
#[derive(Clone)]
pub(super) struct EnvValue {
    pub(super) variable: String,
    /// `Err` if the value is invalid and must not be ignored: the exporter is not started.
    pub(super) value: Checked<Value>,
}

impl Reader<'_> {
    /// Returns the value of the signal's own variable, or else of the variable for all signals.
    fn value(&mut self, signal: Signal, row: &SettingRow) -> Option<EnvValue> {
        let own = own_variable(signal, row)?;
        self.value_of(own, row, Some(signal))
            .or_else(|| self.value_of(base_variable(row)?, row, Some(signal)))
    }

    fn value_of(&mut self, variable: String, row: &SettingRow, signal: Option<Signal>) -> Option<EnvValue> {
        let is_timeout = [TIMEOUT.key, GIVE_UP_AFTER.key].contains(&row.key);
        // The specification defines a timeout of 0 as "no limit".
        let is_unlimited = |text: &str| is_no_limit(text) || is_timeout && text == "0";
        let value = match &row.kind {
            Kind::Limit { .. } if self.text(&variable).is_some_and(is_unlimited) => Value::NoLimit,
            Kind::Duration { range, .. } | Kind::Limit { range, .. } => {
                let duration = self.duration(&variable, range)?;
                // So small a number is probably meant in seconds. It is used nevertheless, because it is valid.
                if (is_timeout || row.key == INTERVAL.key) && duration < MIN_PLAUSIBLE {
                    let number = duration.as_millis();
                    let what = format!("is {number} ms: the unit is milliseconds");
                    self.warn(&variable, Fault::new(what, format!("write {number}000 for {number} s")));
                }
                Value::Duration(duration)
            }
            Kind::Number { range, .. } => Value::Number(self.count(&variable, range)?.try_into().ok()?),
            kind @ Kind::Word { .. } => Value::Word(self.word(&variable, &kind.words())?.to_owned()),
            Kind::Bool { variables, .. } => Value::Bool(self.word(&variable, variables)?),
            Kind::Text { .. } => Value::Text { text: self.text(&variable)?.to_owned(), is_secret: false },
            // Invalid values of these kinds must not be ignored: telemetry could be sent to the wrong place, or without
            // encryption.
            Kind::File { .. } | Kind::Endpoint | Kind::Headers => {
                let value = self.given(&variable)?.and_then(|text| match row.kind {
                    Kind::Headers => header::read_pairs(text).map(Value::Headers),
                    Kind::Endpoint => Ok(self.endpoint(text, &variable, signal)),
                    _ => Ok(Value::File { path: text.to_owned(), pem: None }),
                });
                return Some(EnvValue { variable, value });
            }
            Kind::Signals => return None,
        };
        Some(EnvValue { variable, value: Ok(value) })
    }

    fn endpoint(&mut self, text: &str, variable: &str, signal: Option<Signal>) -> Value {
        let is_base = base_variable(&ENDPOINT).is_some_and(|base| base == variable);
        Value::Endpoint {
            text: text.to_owned(),
            written: None,
            rule: if is_base { PathRule::Base } else { PathRule::Verbatim },
            insecure: self.insecure(text, signal),
        }
    }

    /// Returns the value of the variable that makes endpoints without a scheme plaintext: the signal's own variable, or
    /// else that for all signals. Returns `None` if neither has a valid value, or if the endpoint has a scheme.
    fn insecure(&mut self, endpoint: &str, signal: Option<Signal>) -> Option<bool> {
        if endpoint.contains("://") {
            return None;
        }
        [signal, None].into_iter().find_map(|signal| self.bool(&insecure_variable(signal)))
    }
}

/// Sets all valid values. An invalid one is recorded in the exporter, so that validation refuses the exporter.
pub(super) fn apply(values: EnvValues, exporter: &mut Exporter, reader: &mut Reader<'_>) {
    for (row, EnvValue { variable, value }) in values {
        let source = SettingSource::Environment(variable);
        match value.and_then(Value::load) {
            Ok(value) => exporter.apply(row, value, source),
            Err(fault) => exporter.refuse(row, source, fault),
        }
    }
    warn_of_missing_path(exporter, reader);
}

/// Warns if the endpoint of one signal has no path: no path is appended to it, and few collectors listen at `/`.
fn warn_of_missing_path(exporter: &Exporter, reader: &mut Reader<'_>) {
    let SettingSource::Environment(variable) = exporter.source(&ENDPOINT) else { return };
    let http = &exporter.connection;
    let is_verbatim = http.transport.is_http() && http.path_rule == PathRule::Verbatim;
    let has_no_path = http.parsed().is_ok_and(|it| it.path.is_empty() && it.socket.is_none());
    // A trailing slash shows that `/` is intended.
    if is_verbatim && has_no_path && !http.endpoint.ends_with('/') {
        for signal in exporter.signals.iter() {
            let what = format!("has no path, so {} are posted to /", signal.name());
            reader.warn(&variable, Fault::new(what, format!("append {}", signal.path())));
        }
    }
}

/// Fills settings of an exporter that neither the program nor a file has set.
pub(super) fn fill(exporter: &mut Exporter, reader: &mut Reader<'_>) {
    // A certificate from the file and a key from the environment would not match.
    let is_set = |row: &SettingRow| {
        exporter.is_set(row) || row.partner.is_some_and(|partner| exporter.is_set(partner))
    };
    let open = rows().filter(|row| row.matters_to(exporter) && !is_set(row));
    let values = open.filter_map(|row| Some((row, common_value(row, exporter, reader)?))).collect();
    apply(values, exporter, reader);
    if exporter.connection.insecure.is_none() {
        let endpoint = exporter.connection.endpoint.clone();
        let mut said = exporter.signals.iter().map(|signal| reader.insecure(&endpoint, Some(signal)));
        // The signals share one connection, so the default applies if their variables differ.
        let first = said.next().flatten();
        exporter.connection.insecure = first.filter(|_| said.all(|other| other == first));
    }
}

/// Returns the value on which the variables of all signals of the exporter agree. If they differ, warns and returns the
/// value of the variable for all signals.
fn common_value(row: &SettingRow, exporter: &Exporter, reader: &mut Reader<'_>) -> Option<EnvValue> {
    let has_say = |signal: &Signal| row.signals.contains(signal) && own_variable(*signal, row).is_some();
    let signals: Vec<Signal> = exporter.signals.iter().filter(has_say).collect();
    let values: Vec<Option<EnvValue>> = signals.iter().map(|&signal| reader.value(signal, row)).collect();
    let given = |value: &Option<EnvValue>| value.as_ref().map(|value| value.value.clone());
    let first = values.first()?;
    if values.iter().all(|value| given(value) == given(first)) {
        return first.clone();
    }
    let own: Vec<String> = signals.iter().filter_map(|&signal| own_variable(signal, row)).collect();
    for EnvValue { variable, .. } in values.iter().flatten().filter(|value| own.contains(&value.variable)) {
        let sent: Vec<&str> = exporter.signals.iter().map(Signal::name).collect();
        let others: Vec<&String> = own.iter().filter(|name| *name != variable).collect();
        let what = format!("has no effect on {}, which sends {}", exporter.path(), listed(&sent, "and"));
        let fix = format!("give {} the same value", listed(&others, "and"));
        reader.warn(variable, Fault::new(what, fix));
    }
    reader.value_of(base_variable(row)?, row, None)
}
