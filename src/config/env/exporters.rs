//! Which exporters do variables describe? One for all signals of which they say the same.

use std::time::Duration;

use super::reader::{Reader, what_to_write};
use super::values::{EnvValue, EnvValues, apply};
use super::{names, values};
use crate::config::error::Fault;
use crate::config::settings::SettingRow;
use crate::config::settings::kind::SettingValue;
use crate::config::settings::{SIGNALS, TRANSPORT, rows};
use crate::config::text::quoted;
use crate::config::{Exporter, SettingSource, Signals, Transport};
use crate::record::Signal;

/// One exporter if all signals wish the same: `otlp`. Else a signal that is alone has one of its own, such as
/// `otlp.logs`, and `otlp` is for those that share one.
pub(super) fn described(reader: &mut Reader<'_>) -> Vec<Exporter> {
    let (mut sent, mut printed) = (Vec::new(), Vec::new());
    for signal in Signal::ALL {
        let destinations = destinations(signal, reader);
        sent.extend(destinations.collector.then_some(signal));
        printed.extend(destinations.console.then_some(signal));
    }
    let groups = groups(sent, reader);
    let is_alone = groups.len() == 1;
    let sending = groups.into_iter().map(|group| exporter(&name(&group, is_alone), group, reader));
    let mut exporters: Vec<Exporter> = sending.collect();
    exporters.extend(console(&printed, reader));
    exporters
}

/// Signals of which the variables say the same, in their order.
fn groups(signals: Vec<Signal>, reader: &mut Reader<'_>) -> Vec<Vec<Member>> {
    let mut groups: Vec<Vec<Member>> = Vec::new();
    for signal in signals {
        let member = Member { signal, values: reader.values(signal) };
        let agreeing = groups.iter_mut().filter(|group| group.iter().all(|other| other.agrees_with(&member)));
        // of two that would do the plainer one: what was set for others there is not meant for this signal
        match agreeing.min_by_key(|group| group[0].values.len()) {
            Some(group) => group.push(member),
            None => groups.push(vec![member]),
        }
    }
    groups
}

/// The exporter that prints, if any signal is to be printed.
fn console(signals: &[Signal], reader: &mut Reader<'_>) -> Option<Exporter> {
    let &first = signals.first()?;
    let variable = names::exporter(first);
    let mut exporter = Exporter::of_environment("console".to_owned(), variable.clone());
    exporter.set_transport(Transport::Console);
    exporter.record(&TRANSPORT, SettingSource::Environment(variable.clone()), None);
    exporter.signals = Signals::of(signals);
    exporter.record(&SIGNALS, SettingSource::Environment(variable), None);
    values::fill(&mut exporter, reader);
    Some(exporter)
}

struct Member {
    signal: Signal,
    values: EnvValues,
}

impl Member {
    fn agrees_with(&self, other: &Self) -> bool {
        rows().all(|row| match (self.values.get(&row), other.values.get(&row)) {
            // no variable asks for another default
            (None, None) => true,
            (own, others) => {
                // a signal without a variable for it goes along with the others
                let has_no_say = |member: &Self| names::own(member.signal, row).is_none();
                has_no_say(self) || has_no_say(other) || self.value(row, own) == other.value(row, others)
            }
        })
    }

    /// What is used if nothing is set is `None` where that is nothing at all.
    fn value(&self, row: &SettingRow, value: Option<&EnvValue>) -> Option<Result<SettingValue, Fault>> {
        let default = || row.kind.get(&with_defaults("", &[self.signal])).map(Ok);
        value.map(|value| value.value.clone()).or_else(default)
    }
}

/// Where a signal goes.
struct Destinations {
    collector: bool,
    console: bool,
}

fn destinations(signal: Signal, reader: &mut Reader<'_>) -> Destinations {
    const KNOWN: [&str; 3] = ["otlp", "console", "none"];
    let variable = names::exporter(signal);
    let text = match reader.given(&variable) {
        None => return Destinations { collector: true, console: false },
        Some(Ok(text)) => text.to_ascii_lowercase(),
        Some(Err(fault)) => {
            reader.warn(&variable, fault.what.clone(), fault.fix.clone());
            return Destinations { collector: false, console: false };
        }
    };
    let words: Vec<&str> = text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
    for word in &words {
        match *word {
            "otlp" | "console" => {}
            "none" if words.len() == 1 => {}
            "none" => reader.ignore(&variable, "\"none\" among others", "remove it, or the others"),
            _ => {
                let what = format!("{} is not supported and starts no exporter", quoted(word));
                reader.warn(&variable, what, what_to_write(word, &KNOWN));
            }
        }
    }
    Destinations { collector: words.contains(&"otlp"), console: words.contains(&"console") }
}

fn name(group: &[Member], is_alone: bool) -> String {
    match group {
        [member] if !is_alone => format!("otlp.{}", member.signal.name()),
        _ => "otlp".to_owned(),
    }
}

fn exporter(name: &str, group: Vec<Member>, reader: &mut Reader<'_>) -> Exporter {
    let signals: Vec<Signal> = group.iter().map(|member| member.signal).collect();
    let mut exporter = with_defaults(name, &signals);
    let chosen = Signal::ALL.map(names::exporter).into_iter().find(|name| reader.given(name).is_some());
    if let Some(variable) = chosen {
        exporter.record(&SIGNALS, SettingSource::Environment(variable), None);
    }
    let mut values = EnvValues::new();
    for row in rows() {
        if let Some(value) = group.iter().find_map(|member| member.values.get(&row)) {
            values.insert(row, value.clone());
        }
    }
    apply(&values, &mut exporter, reader);
    exporter
}

/// All defaults at OpenTelemetry's pace: no round waits for the last one, but batches wait to be filled.
fn with_defaults(name: &str, signals: &[Signal]) -> Exporter {
    let mut exporter = Exporter::of_environment(name.to_owned(), format!("exporter {name:?}"));
    exporter.signals = Signals::of(signals);
    exporter.pace.throttle = Duration::ZERO;
    let linger = |signal: &Signal| match signal {
        Signal::Traces | Signal::Metrics => Duration::from_secs(5),
        Signal::Logs => Duration::from_secs(1),
    };
    exporter.pace.linger = signals.iter().map(linger).min().unwrap_or_default();
    exporter
}
