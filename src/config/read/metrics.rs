//! `[metrics.open-telemetry]`: off unless it has a transport.

use super::reader::{SectionReader, Switch};
use crate::config::key::Key;
use crate::config::node::Node;
use crate::config::section::SELF_OBSERVATION;
use crate::config::{Exporter, Signals, Source};
use crate::record::Signal;

/// What the section describes.
pub(super) struct Metrics {
    pub(super) exporter: Exporter,
    /// Whether the ledger is exported, and who says so.
    pub(super) self_observation: Option<(bool, Source)>,
}

/// Reads the section; `None` if nothing is to be started, whatever else is wrong with it.
pub(super) fn read(mut reader: SectionReader<'_, '_>, metrics: &Node) -> Option<Metrics> {
    let entries = reader.entries(metrics)?;
    match reader.transport(&entries) {
        Switch::On => {}
        Switch::Off(_) => return None,
        Switch::Missing => {
            // an empty table says all that it should
            if !entries.is_empty() {
                let (at, path) = (reader.declared_at(), reader.path(Key::Transport.name()));
                reader.report.note(
                    at,
                    path,
                    "not started: it has no transport",
                    "write transport = \"http\"",
                );
            }
            return None;
        }
    }
    let mut exporter = reader.exporter(&entries);
    exporter.signals = Signals::of(&[Signal::Metrics]);
    exporter.record(Key::Signals, reader.source(reader.declared_at()), None);
    let self_observation = reader.truth(&entries, SELF_OBSERVATION).map(|(at, on)| (on, reader.source(at)));
    Some(Metrics { exporter, self_observation })
}
