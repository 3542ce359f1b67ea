//! Draws the ledger as a table: accepted records by their outcome.

use standpipe::ledger::Counts;

use super::describe;
use super::style::{Ink, Style};
use super::table::{self, Column, Table, Text};

const COLUMNS: [&str; 5] = ["accepted", "delivered", "superseded", "lost", "in flight"];
/// Columns that [`layout`] treats like columns with values, even if all their values are 0.
const NEEDED: [&str; 2] = ["accepted", "delivered"];
const MIN_NAME_WIDTH: usize = 10;

/// One row of the table.
#[derive(Debug, Default)]
pub(crate) struct LedgerEntry {
    pub(crate) name: String,
    /// Kind of the records, in the plural: `spans`.
    pub(crate) records: &'static str,
    pub(crate) counts: Counts,
}

/// Returns whether all accepted records were delivered or superseded, and none was lost.
pub(crate) fn is_whole(counts: &Counts) -> bool {
    counts.lost() == 0 && counts.accepted == counts.delivered + counts.superseded
}

/// Returns the value of each column. The first value is the sum of the other values.
fn columns_of(counts: &Counts) -> [u64; COLUMNS.len()] {
    // Records that were not enqueued are not part of this sum, because they were not accepted.
    let lost_on_the_way = counts.rejected + counts.dropped.total();
    [counts.accepted, counts.delivered, counts.superseded, lost_on_the_way, counts.in_flight]
}

/// Returns the reasons for losses, each with its number of records.
fn losses(Counts { rejected, dropped, not_enqueued, .. }: &Counts) -> [(&'static str, u64); 12] {
    [
        ("rejected: {} by the collector", *rejected),
        ("dropped: {} refused", dropped.refused),
        ("dropped: {} gave up", dropped.gave_up),
        ("dropped: {} too large", dropped.too_large),
        ("dropped: {} shutdown", dropped.shutdown),
        ("dropped: {} worker panicked", dropped.worker_panicked),
        ("not enqueued: {} queue full", not_enqueued.queue_full),
        ("not enqueued: {} too large", not_enqueued.too_large),
        ("not enqueued: {} after shutdown", not_enqueued.after_shutdown),
        ("not enqueued: {} suppressed", not_enqueued.suppressed),
        ("not enqueued: {} no worker", not_enqueued.no_worker),
        ("not enqueued: {} panicked", not_enqueued.panicked),
    ]
}

/// Returns the sum of all entries.
pub(crate) fn total(entries: &[LedgerEntry]) -> Counts {
    let mut total = Counts::default();
    entries.iter().for_each(|entry| total += entry.counts);
    total
}

/// Draws the entries, their sum if there are several, the reasons for losses, and a last line with the verdict.
pub(crate) fn draw(entries: &[LedgerEntry], style: &Style) -> Vec<String> {
    let total = total(entries);
    let table = layout(entries, &total, style);
    let heads = ["ledger", ""].into_iter().chain(COLUMNS);
    let mut lines = vec![table.row(heads.map(|head| Text::new(Ink::FAINT, head)))];
    let mut above = "";
    for entry in entries {
        // Of successive rows with the same name, only the first row shows the name.
        let name = if entry.name == above { "" } else { &entry.name };
        lines.push(table.row(row(name, entry, Ink::PLAIN)));
        above = &entry.name;
    }
    if entries.len() > 1 {
        let sum = LedgerEntry { counts: total, ..LedgerEntry::default() };
        lines.push(table.row(row("total", &sum, Ink::PLAIN.bold())));
    }
    for (reason, number) in losses(&total).into_iter().filter(|(_, number)| *number > 0) {
        lines.push(style.line_of(Ink::BAD, &reason.replace("{}", &number.to_string())));
    }
    lines.push(verdict(&total, style));
    lines
}

/// Lays out the table. On a narrow terminal, columns of zeros are left out first.
fn layout<'a>(entries: &[LedgerEntry], total: &Counts, style: &'a Style) -> Table<'a> {
    let name = table::widest(entries.iter().map(|entry| &entry.name), style);
    let name = name.clamp(MIN_NAME_WIDTH, MIN_NAME_WIDTH.max(style.width / 4));
    let records = table::widest(entries.iter().map(|entry| entry.records), style);
    let counts = COLUMNS.iter().zip(columns_of(total)).map(|(head, count)| {
        let column = Column::right(head.len());
        if count == 0 && !NEEDED.contains(head) { column.optional() } else { column.if_room() }
    });
    Table::new(style, 0, [Column::cut(name), Column::cut(records)].into_iter().chain(counts))
}

fn row<'a>(name: &'a str, entry: &LedgerEntry, ink: Ink) -> impl Iterator<Item = Text<'a>> {
    let counts = COLUMNS.into_iter().zip(columns_of(&entry.counts)).map(move |(head, count)| {
        let ink = match count {
            0 => Ink::FAINT,
            _ if head == "lost" => Ink::BAD.bold(),
            _ => ink,
        };
        Text::new(ink, count.to_string())
    });
    [Text::new(ink, name), Text::new(ink, entry.records)].into_iter().chain(counts)
}

fn verdict(total: &Counts, style: &Style) -> String {
    if total.lost() > 0 {
        let text = format!("{} {} lost", style.glyph("✗"), describe::count(total.lost(), "record"));
        return style.line_of(Ink::BAD.bold(), &text);
    }
    if total.in_flight > 0 {
        let text = format!("nothing lost so far, {} in flight", describe::count(total.in_flight, "record"));
        return style.line_of(Ink::WARNING, &text);
    }
    let superseded = match total.superseded {
        0 => String::new(),
        superseded => format!(" + {superseded} superseded by newer ones"),
    };
    let sum = format!(": {} accepted = {} delivered{superseded}", total.accepted, total.delivered);
    let mut line = style.line();
    line.put(Ink::GOOD.bold(), &format!("{} nothing lost", style.glyph("✓"))).put_rest(Ink::PLAIN, &sum);
    line.finish()
}

#[cfg(test)]
mod tests {
    use super::super::style::plain_style;
    use super::super::text;
    use super::*;

    fn entry(name: &str, records: &'static str, delivered: u64) -> LedgerEntry {
        let mut counts = Counts::default();
        (counts.accepted, counts.delivered) = (delivered, delivered);
        LedgerEntry { name: name.to_owned(), records, counts }
    }

    fn shop() -> [LedgerEntry; 3] {
        let mut points = entry("storefront", "points", 114);
        (points.counts.accepted, points.counts.superseded) = (120, 6);
        [entry("storefront", "spans", 14), points, entry("payments", "spans", 4)]
    }

    #[test]
    fn what_was_delivered_whole_is_summed_up_as_nothing_lost() {
        let expected = [
            "ledger              accepted  delivered  superseded  lost  in flight",
            "storefront  spans         14         14           0     0          0",
            "            points       120        114           6     0          0",
            "payments    spans          4          4           0     0          0",
            "total                    138        132           6     0          0",
            "✓ nothing lost: 138 accepted = 132 delivered + 6 superseded by newer ones",
        ];
        assert_eq!(draw(&shop(), &plain_style(100)), expected);
    }

    #[test]
    fn empty_columns_make_room_on_a_narrow_terminal() {
        let expected = [
            "ledger              accepted  delivered  superseded",
            "storefront  spans         14         14           0",
            "            points       120        114           6",
            "payments    spans          4          4           0",
            "total                    138        132           6",
            "✓ nothing lost: 138 accepted = 132 delivered + 6 superseded…",
        ];
        assert_eq!(draw(&shop(), &plain_style(60)), expected);
        for width in [44, 50, 65] {
            let lines = draw(&shop(), &plain_style(width));
            assert!(lines.iter().all(|line| text::width(line) <= width), "{lines:#?}");
        }
    }

    #[test]
    fn only_what_was_delivered_or_superseded_is_whole() {
        let whole = total(&shop());
        assert!(is_whole(&whole));
        let (mut busy, mut full) = (whole, whole);
        (busy.accepted, busy.in_flight) = (whole.accepted + 1, 1);
        full.not_enqueued.queue_full = 1;
        assert!(!is_whole(&busy) && !is_whole(&full));
    }

    #[test]
    fn every_loss_is_shown_with_its_reason() {
        let mut lossy = entry("shop", "logs", 90);
        lossy.counts.accepted = 100;
        lossy.counts.rejected = 2;
        (lossy.counts.dropped.gave_up, lossy.counts.dropped.shutdown) = (5, 3);
        lossy.counts.not_enqueued.queue_full = 7;
        let expected = [
            "ledger            accepted  delivered  superseded  lost  in flight",
            "shop        logs       100         90           0    10          0",
            "rejected: 2 by the collector",
            "dropped: 5 gave up",
            "dropped: 3 shutdown",
            "not enqueued: 7 queue full",
            "✗ 17 records lost",
        ];
        assert_eq!(draw(&[lossy], &plain_style(100)), expected);
    }

    #[test]
    fn what_is_still_under_way_is_not_called_delivered() {
        let mut busy = entry("shop", "spans", 2);
        (busy.counts.accepted, busy.counts.in_flight) = (3, 1);
        let lines = draw(&[busy], &plain_style(100));
        assert_eq!(lines.last().map(String::as_str), Some("nothing lost so far, 1 record in flight"));
    }
}
