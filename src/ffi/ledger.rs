//! The ledger for C: totals over all exporters and signals as a struct, or all counts as JSON.

use std::fmt::Write as _;

use super::lifecycle::Pointer;
use super::{Code, Out, OwnedText, SizeFirst, Versioned};
use crate::config::quote;
use crate::pipeline::ledger::{self, Counts, Dropped, ExporterLedger, NotEnqueued};
use crate::record::Signal;

/// `standpipe_ledger` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Ledger {
    pub(super) size: usize,
    pub(super) accepted: u64,
    pub(super) delivered: u64,
    pub(super) rejected: u64,
    pub(super) dropped: u64,
    pub(super) superseded: u64,
    pub(super) in_flight: u64,
    pub(super) not_enqueued: u64,
    pub(super) filtered: u64,
    pub(super) attempts: u64,
    pub(super) open_spans: u64,
    pub(super) recovered: u64,
    pub(super) spooled: u64,
}

// SAFETY: the struct is `repr(C)`, begins with its size, and has only numbers.
unsafe impl SizeFirst for Ledger {}

impl Ledger {
    pub(super) fn of(ledger: &ledger::Ledger) -> Self {
        let total = ledger.total();
        Self {
            size: size_of::<Self>(),
            accepted: total.accepted,
            delivered: total.delivered,
            rejected: total.rejected,
            dropped: total.dropped.total(),
            superseded: total.superseded,
            in_flight: total.in_flight,
            not_enqueued: total.not_enqueued.total(),
            filtered: total.filtered,
            attempts: ledger.exporters.iter().map(|exporter| exporter.attempts).sum(),
            open_spans: ledger.open_spans.count,
            recovered: total.recovered,
            spooled: total.spooled,
        }
    }
}

/// Returns whether a shutdown left no record in flight and dropped no record.
pub(super) fn is_complete(ledger: &ledger::Ledger) -> bool {
    let total = ledger.total();
    total.in_flight == 0 && total.dropped.shutdown == 0
}

exported! {
    fn standpipe_get_ledger(handle: Pointer<'_>, ledger: Versioned<'_, Ledger>) -> Code {
        let now = handle.get().map(|handle| handle.telemetry.ledger()).unwrap_or_default();
        if ledger.write(&Ledger::of(&now)).is_some() { Code::OK } else { Code::INVALID_ARGUMENT }
    }

    fn standpipe_ledger_json(handle: Pointer<'_>, text: Out<'_, OwnedText>) -> Code {
        text.put(OwnedText::NONE);
        let now = handle.get().map(|handle| handle.telemetry.ledger()).unwrap_or_default();
        text.put(OwnedText::new(json(&now)));
        Code::OK
    }
}

/// Returns the ledger as JSON. Written by hand, because a JSON serializer would be larger than the rest of this module.
pub(super) fn json(ledger: &ledger::Ledger) -> String {
    let names = list(&ledger.open_spans.names, |(name, count)| format!("[{},{count}]", quote(name)));
    let exporters = list(&ledger.exporters, exporter);
    let count = ledger.open_spans.count;
    format!("{{\"exporters\":{exporters},\"open_spans\":{{\"count\":{count},\"names\":{names}}}}}")
}

fn exporter(exporter: &ExporterLedger) -> String {
    let mut text = format!("{{\"name\":{}", quote(&exporter.name));
    for signal in Signal::ALL {
        // Writing to a `String` cannot fail.
        let _ = write!(text, ",\"{}\":{}", signal.name(), counts(&exporter.of(signal)));
    }
    let _ = write!(text, ",\"attempts\":{}}}", exporter.attempts);
    text
}

/// Returns the variables with these names as a JSON object.
macro_rules! object {
    ($($name:ident),+) => {
        format!("{{{}}}", [$(format!("\"{}\":{}", stringify!($name), $name)),+].join(","))
    };
}

fn counts(counts: &Counts) -> String {
    let Counts { accepted, recovered, delivered, rejected, superseded, spooled, .. } = *counts;
    let Counts { dropped, in_flight, not_enqueued, filtered, .. } = *counts;
    let Dropped { refused, gave_up, too_large, shutdown, worker_panicked, expired, damaged } = dropped;
    let dropped = object!(refused, gave_up, too_large, shutdown, worker_panicked, expired, damaged);
    let NotEnqueued { queue_full, too_large, after_shutdown, suppressed, no_worker, panicked } = not_enqueued;
    let not_enqueued = object!(queue_full, too_large, after_shutdown, suppressed, no_worker, panicked);
    object! {
        accepted, recovered, delivered, rejected, dropped, superseded, spooled, in_flight, not_enqueued, filtered
    }
}

fn list<T>(items: &[T], write: impl Fn(&T) -> String) -> String {
    format!("[{}]", items.iter().map(write).collect::<Vec<_>>().join(","))
}
