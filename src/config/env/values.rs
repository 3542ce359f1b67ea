//! What do the variables say of the settings of an exporter, and how is that put into one?

use super::names;
use super::reader::Reader;
use crate::config::endpoint::PathRule;
use crate::config::error::Fault;
use crate::config::settings::SettingRow;
use crate::config::settings::kind::{Kind, SettingValue, is_no_limit};
use crate::config::settings::{ENDPOINT, GIVE_UP_AFTER, INTERVAL, TIMEOUT, rows};
use crate::config::summary::Few;
use crate::config::text::listed;
use crate::config::values::pairs;
use crate::config::values::units::MIN_PLAUSIBLE;
use crate::config::{Exporter, SettingSource, Transport};
use crate::record::Signal;

/// What is said for one signal, or for all signals of an exporter, in the order of the rows.
pub(super) type EnvValues = Few<&'static SettingRow, EnvValue>;

/// What a variable says of one setting.
#[derive(Clone)]
pub(super) struct EnvValue {
    pub(super) variable: String,
    /// `Err` for what must not be ignored: the exporter cannot be used then.
    pub(super) value: Result<SettingValue, Fault>,
}

impl Reader<'_> {
    /// All that is said for a signal.
    pub(super) fn values(&mut self, signal: Signal) -> EnvValues {
        let mut values = EnvValues::new();
        for row in rows() {
            if let Some(value) = self.value(signal, row) {
                values.insert(row, value);
            }
        }
        values
    }

    /// What the signal's own variable says, or else that of all signals.
    fn value(&mut self, signal: Signal, row: &SettingRow) -> Option<EnvValue> {
        let own = names::own(signal, row)?;
        self.value_of(own, row, Some(signal)).or_else(|| self.value_of(names::base(row)?, row, Some(signal)))
    }

    fn value_of(&mut self, variable: String, row: &SettingRow, signal: Option<Signal>) -> Option<EnvValue> {
        let is_timeout = row == &TIMEOUT || row == &GIVE_UP_AFTER;
        let value = match &row.kind {
            Kind::Limit { .. } if self.text(&variable).is_some_and(is_no_limit) => SettingValue::NoLimit,
            // the specification defines 0 as "no limit"
            Kind::Limit { .. } if is_timeout && self.text(&variable) == Some("0") => SettingValue::NoLimit,
            Kind::Duration { range, .. } | Kind::Limit { range, .. } => {
                let duration = self.duration(&variable, range)?;
                if (is_timeout || row == &INTERVAL) && duration < MIN_PLAUSIBLE {
                    let number = duration.as_millis();
                    let what = format!("is {number} ms: the unit is milliseconds");
                    self.warn(&variable, what, format!("write {number}000 for {number} s"));
                }
                SettingValue::Duration(duration)
            }
            Kind::Number { range, .. } => {
                SettingValue::Number(usize::try_from(self.count(&variable, range)?).ok()?)
            }
            Kind::Word { names, variables, .. } => {
                let same: Vec<_> = names().into_iter().map(|name| (name, name)).collect();
                let words = if variables.is_empty() { &same } else { *variables };
                let (word, meaning) = self.word(&variable, words)?;
                if let Some(fault) = (row.remark)(word) {
                    self.warn(&variable, fault.what.clone(), fault.fix.clone());
                }
                SettingValue::Word(meaning.to_owned())
            }
            Kind::Bool { variables, .. } => SettingValue::Bool(self.word(&variable, variables)?.1),
            Kind::Text { .. } => {
                SettingValue::Text { text: self.text(&variable)?.to_owned(), is_secret: false }
            }
            // these must not be ignored
            Kind::File { .. } | Kind::Endpoint | Kind::Headers => {
                let value = self.given(&variable)?.and_then(|text| match row.kind {
                    Kind::Headers => pairs::headers(text).map(SettingValue::Headers),
                    Kind::Endpoint => Ok(self.endpoint(text, &variable, signal)),
                    _ => Ok(SettingValue::File { path: text.to_owned(), pem: None }),
                });
                return Some(EnvValue { variable, value });
            }
            Kind::Signals => return None,
        };
        Some(EnvValue { variable, value: Ok(value) })
    }

    fn endpoint(&mut self, text: &str, variable: &str, signal: Option<Signal>) -> SettingValue {
        let is_base = names::base(&ENDPOINT).is_some_and(|base| base == variable);
        SettingValue::Endpoint {
            text: text.to_owned(),
            written: None,
            rule: if is_base { PathRule::Base } else { PathRule::Verbatim },
            insecure: self.insecure(text, signal),
        }
    }

    /// Returns whether an endpoint without a scheme is plaintext, if the signal's own variable or that of all signals says so.
    fn insecure(&mut self, endpoint: &str, signal: Option<Signal>) -> Option<bool> {
        if endpoint.contains("://") {
            return None;
        }
        [signal, None].into_iter().find_map(|signal| self.bool(&names::insecure(signal)))
    }
}

/// Takes over everything that can be; what cannot makes the exporter one that validation refuses.
pub(super) fn apply(values: &EnvValues, exporter: &mut Exporter, reader: &mut Reader<'_>) {
    for (row, EnvValue { variable, value }) in values.iter() {
        let source = SettingSource::Environment(variable.clone());
        match value.clone().and_then(SettingValue::load) {
            Ok(value) => exporter.apply(row, value, source),
            Err(fault) => exporter.refuse(row, source, fault),
        }
    }
    warn_of_missing_path(exporter, reader);
}

/// The endpoint of one signal is used as it is: nothing is put behind it, and hardly any server listens at its root.
fn warn_of_missing_path(exporter: &Exporter, reader: &mut Reader<'_>) {
    let (http, SettingSource::Environment(variable)) = (&exporter.connection, exporter.source(&ENDPOINT))
    else {
        return;
    };
    let is_verbatim = http.transport == Transport::Http && http.path_rule == PathRule::Verbatim;
    let has_no_path = http.parsed().is_ok_and(|endpoint| !endpoint.has_path());
    // who writes the last slash means the root
    if is_verbatim && has_no_path && !http.endpoint.ends_with('/') {
        for signal in exporter.signals.iter() {
            let what = format!("has no path, so {} are posted to /", signal.name());
            reader.warn(&variable, what, format!("write {} behind it", signal.path()));
        }
    }
}

/// Sets what neither the program nor a file has set in an exporter.
pub(super) fn fill(exporter: &mut Exporter, reader: &mut Reader<'_>) {
    let mut values = EnvValues::new();
    for row in rows().filter(|row| row.matters_to(exporter)) {
        // a certificate and the key of another would not fit
        let is_open = !exporter.is_set(row) && row.partner.is_none_or(|partner| !exporter.is_set(partner));
        if let Some(value) = is_open.then(|| common_value(row, exporter, reader)).flatten() {
            values.insert(row, value);
        }
    }
    apply(&values, exporter, reader);
    if exporter.connection.insecure.is_none() {
        let endpoint = exporter.connection.endpoint.clone();
        let mut said = exporter.signals.iter().map(|signal| reader.insecure(&endpoint, Some(signal)));
        let first = said.next().flatten();
        exporter.connection.insecure = first.filter(|_| said.all(|other| other == first));
    }
}

/// What is said alike for all signals of the exporter; if they differ, what is said for all signals.
fn common_value(row: &SettingRow, exporter: &Exporter, reader: &mut Reader<'_>) -> Option<EnvValue> {
    let has_say = |signal: &Signal| row.signals.contains(signal) && names::own(*signal, row).is_some();
    let signals: Vec<Signal> = exporter.signals.iter().filter(has_say).collect();
    let values: Vec<Option<EnvValue>> = signals.iter().map(|&signal| reader.value(signal, row)).collect();
    let given = |value: &Option<EnvValue>| value.as_ref().map(|value| value.value.clone());
    let first = values.first()?;
    if values.iter().all(|value| given(value) == given(first)) {
        return first.clone();
    }
    let own: Vec<String> = signals.iter().filter_map(|&signal| names::own(signal, row)).collect();
    for EnvValue { variable, .. } in values.iter().flatten().filter(|value| own.contains(&value.variable)) {
        let sent: Vec<&str> = exporter.signals.iter().map(Signal::name).collect();
        let others: Vec<&String> = own.iter().filter(|name| *name != variable).collect();
        let what = format!("has no effect on {}, which sends {}", exporter.path(), listed(&sent, "and"));
        reader.warn(variable, what, format!("give {} the same value", listed(&others, "and")));
    }
    reader.value_of(names::base(row)?, row, None)
}
