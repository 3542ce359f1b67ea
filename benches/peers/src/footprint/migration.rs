//! Measures the footprint of programs before and after their migration to standpipe.

use standpipe::receiver::Receiver;

use super::package::{Package, SPAN_TIMEOUT, Scales};
use super::{MIGRATION, print_notes};
use crate::support::table::Table;
use crate::support::{Error, publish};

/// Folder below `migration`, name of the program, and name of the row.
const PROGRAMS: [(&str, &str, &str); 4] = [
    ("tracing/before", "tracing-before", "tracing: tracing-opentelemetry, opentelemetry-otlp"),
    ("tracing/after", "tracing-after", "tracing: standpipe"),
    ("opentelemetry/before", "opentelemetry-before", "OpenTelemetry SDK: opentelemetry-otlp"),
    ("opentelemetry/after", "opentelemetry-after", "OpenTelemetry SDK: standpipe"),
];

/// Measures and prints the table. A smoke run omits TLS.
pub(super) fn measure(scales: &Scales) -> Result<(), Error> {
    let head = ["one span, sent", "crates", "async ones", "release KiB", "small KiB", "threads", ""];
    let (mut table, mut notes) = (Table::new(head), Vec::new());
    for has_tls in [false, true].into_iter().filter(|has_tls| !(scales.smoke && *has_tls)) {
        for (folder, program, name) in PROGRAMS {
            let name = format!("{name}{}", if has_tls { ", TLS" } else { "" });
            let folder = format!("migration/{folder}");
            let features = if has_tls { "tls" } else { "" };
            let weight = Package { folder, program, features, is_built_cold: false, has_sent: has_order }
                .weigh(scales)?;
            if !weight.asynchronous.is_empty() {
                notes.push(format!("{name}: {}", weight.asynchronous.join(" ")));
            }
            table.row([
                name,
                weight.crates,
                weight.async_crates,
                weight.release,
                weight.small,
                weight.threads,
            ]);
        }
    }
    table.print("footprint: the same program before and after the migration");
    print_notes(&notes);
    publish::table(MIGRATION, &table)
}

/// Returns whether exactly one span has arrived, with its attribute and its event.
fn has_order(receiver: &Receiver) -> bool {
    if !receiver.wait_for_spans(1, SPAN_TIMEOUT) {
        return false;
    }
    match receiver.spans().as_slice() {
        [received] => {
            let (span, has_event) = (&received.span, received.span.events.len() == 1);
            span.name == "checkout" && received.attribute("order.id").is_some() && has_event
        }
        _ => false,
    }
}
