//! Fills in what a file or the program has left open in an exporter, whose signals may wish different things.

use super::given::{Wish, Wishes};
use super::names;
use super::put::put;
use super::reader::Reader;
use crate::config::key::Key;
use crate::config::path::listed;
use crate::config::{Exporter, Source};
use crate::record::Signal;

/// Sets what nobody has set.
pub(super) fn fill(exporter: &mut Exporter, reader: &mut Reader<'_>) {
    let mut wishes = Wishes::new();
    for &key in Key::ALL.iter().filter(|&&key| is_open(key, exporter)) {
        if let Some(wish) = common_wish(key, exporter, reader) {
            wishes.insert(key, wish);
        }
    }
    put(&wishes, exporter, reader);
}

fn is_open(key: Key, exporter: &Exporter) -> bool {
    let is_default = |key| exporter.source(key) == Source::Default;
    match key {
        // a certificate and the key of another would not fit
        Key::ClientCertificateFile | Key::ClientKeyFile => {
            is_default(Key::ClientCertificateFile) && is_default(Key::ClientKeyFile)
        }
        key => is_default(key),
    }
}

/// What all signals of the exporter wish; if they differ, what is said for all signals.
fn common_wish(key: Key, exporter: &Exporter, reader: &mut Reader<'_>) -> Option<Wish> {
    let has_say = |signal: &Signal| key.signals().contains(signal) && names::own(*signal, key).is_some();
    let signals: Vec<Signal> = exporter.signals.iter().filter(has_say).collect();
    let wishes: Vec<Option<Wish>> = signals.iter().map(|&signal| reader.wish(signal, key)).collect();
    let given = |wish: &Option<Wish>| wish.as_ref().map(|wish| wish.given.clone());
    let first = wishes.first()?;
    if wishes.iter().all(|wish| given(wish) == given(first)) {
        return first.clone();
    }
    let own: Vec<String> = signals.iter().filter_map(|&signal| names::own(signal, key)).collect();
    for Wish { variable, .. } in wishes.iter().flatten().filter(|wish| own.contains(&wish.variable)) {
        let sent: Vec<&str> = exporter.signals.iter().map(Signal::name).collect();
        let others: Vec<&String> = own.iter().filter(|name| *name != variable).collect();
        let what = format!("has no effect on {}, which sends {}", exporter.path(), listed(&sent, "and"));
        reader.warn(variable, what, format!("give {} the same value", listed(&others, "and")));
    }
    reader.base_wish(key)
}
