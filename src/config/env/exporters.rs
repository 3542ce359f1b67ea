//! The exporters that variables describe: signals that wish the same share one.

use std::time::Duration;

use super::given::{Given, Wish, Wishes};
use super::names;
use super::put::put;
use super::reader::{Reader, what_to_write};
use crate::config::error::Fault;
use crate::config::key::Key;
use crate::config::path::quoted;
use crate::config::{
    BatchSettings, Compression, Exporter, HttpSettings, QueueSettings, RetrySettings, Signals, Source,
    Transport, WhenFull,
};
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
    let sending = groups.into_iter().map(|group| exporter(&id(&group, is_alone), group, reader));
    let mut exporters: Vec<Exporter> = sending.collect();
    exporters.extend(console(&printed));
    exporters
}

/// Those that wish the same, in the order of the signals.
fn groups(signals: Vec<Signal>, reader: &mut Reader<'_>) -> Vec<Vec<Member>> {
    let mut groups: Vec<Vec<Member>> = Vec::new();
    for signal in signals {
        let member = Member { signal, wishes: reader.wishes(signal) };
        let agreeing = groups.iter_mut().filter(|group| group.iter().all(|other| other.agrees_with(&member)));
        // of two that would do the plainer one: what was set for others there is not meant for this signal
        match agreeing.min_by_key(|group| group[0].wishes.len()) {
            Some(group) => group.push(member),
            None => groups.push(vec![member]),
        }
    }
    groups
}

/// The exporter that prints, if any signal is to be printed.
fn console(signals: &[Signal]) -> Option<Exporter> {
    let &first = signals.first()?;
    let variable = names::exporter(first);
    let mut exporter = Exporter::of_environment("console".to_owned(), variable.clone());
    exporter.set_transport(Transport::Console, Source::Environment(variable.clone()));
    exporter.signals = Signals::of(signals);
    exporter.record(Key::Signals, Source::Environment(variable), None);
    Some(exporter)
}

struct Member {
    signal: Signal,
    wishes: Wishes,
}

impl Member {
    fn agrees_with(&self, other: &Self) -> bool {
        Key::ALL.iter().all(|&key| match (self.wishes.get(&key), other.wishes.get(&key)) {
            // nobody wants defaults to differ
            (None, None) => true,
            (own, others) => {
                // a signal without a variable for it goes along with the others
                let has_no_say = |member: &Self| names::own(member.signal, key).is_none();
                has_no_say(self) || has_no_say(other) || self.value(key, own) == other.value(key, others)
            }
        })
    }

    fn value(&self, key: Key, wish: Option<&Wish>) -> Option<Result<Given, Fault>> {
        wish.map(|wish| wish.given.clone()).or_else(|| default(self.signal, key).map(Ok))
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
            reader.error(&variable, fault.what.clone(), fault.fix.clone());
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
                reader.error(&variable, format!("{} is not known", quoted(word)), what_to_write(word, &KNOWN))
            }
        }
    }
    Destinations { collector: words.contains(&"otlp"), console: words.contains(&"console") }
}

fn id(group: &[Member], is_alone: bool) -> String {
    match group {
        [member] if !is_alone => format!("otlp.{}", member.signal.name()),
        _ => "otlp".to_owned(),
    }
}

fn exporter(id: &str, group: Vec<Member>, reader: &mut Reader<'_>) -> Exporter {
    let mut exporter = Exporter::of_environment(id.to_owned(), format!("exporter {id:?}"));
    let signals: Vec<Signal> = group.iter().map(|member| member.signal).collect();
    exporter.signals = Signals::of(&signals);
    let chosen = Signal::ALL.map(names::exporter).into_iter().find(|name| reader.given(name).is_some());
    if let Some(variable) = chosen {
        exporter.record(Key::Signals, Source::Environment(variable), None);
    }
    // OpenTelemetry's pace: no round waits for the last one, but batches wait to be filled
    exporter.pace.throttle = Duration::ZERO;
    exporter.pace.linger = signals.iter().map(|&signal| linger(signal)).min().unwrap_or_default();
    let mut wishes = Wishes::new();
    for key in Key::ALL {
        if let Some(wish) = group.iter().find_map(|member| member.wishes.get(key)) {
            wishes.insert(*key, wish.clone());
        }
    }
    put(&wishes, &mut exporter, reader);
    exporter
}

fn linger(signal: Signal) -> Duration {
    match signal {
        Signal::Traces | Signal::Metrics => Duration::from_secs(5),
        Signal::Logs => Duration::from_secs(1),
    }
}

/// What is used if nothing is said; `None` where that is nothing at all.
fn default(signal: Signal, key: Key) -> Option<Given> {
    match key {
        Key::Transport => Some(Given::Transport(Transport::default())),
        Key::Timeout => Some(Given::Time(HttpSettings::default().timeout)),
        Key::Compression => Some(Given::Compression(Compression::default())),
        Key::Linger => Some(Given::Time(linger(signal))),
        Key::GiveUpAfter => Some(Given::Time(RetrySettings::default().give_up_after)),
        Key::QueueRecords => Some(Given::Count(QueueSettings::default().records)),
        Key::BatchRecords => Some(Given::Count(BatchSettings::default().records)),
        Key::Lossy => Some(Given::WhenFull(WhenFull::default())),
        _ => None,
    }
}
