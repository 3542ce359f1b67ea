//! How is the ledger drawn? A table of what was accepted and what became of it.

use standpipe::ledger::Counts;

use super::describe;
use super::style::{Ink, Style};
use super::table::{self, Column, Table, Text};

const COLUMNS: [&str; 5] = ["accepted", "delivered", "superseded", "lost", "in flight"];
/// Columns that are shown even if they are empty and the terminal is narrow.
const NEEDED: [&str; 2] = ["accepted", "delivered"];
const SHORTEST_NAME: usize = 10;

/// One row of the table, in records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LedgerEntry {
    pub(crate) name: String,
    /// What the records are.
    pub(crate) records: &'static str,
    pub(crate) accepted: u64,
    pub(crate) delivered: u64,
    /// Not sent, since newer ones were delivered.
    pub(crate) superseded: u64,
    pub(crate) rejected: u64,
    /// After they were accepted, by reason.
    pub(crate) dropped: Vec<Loss>,
    pub(crate) in_flight: u64,
    /// Never accepted, by reason.
    pub(crate) not_enqueued: Vec<Loss>,
}

/// A reason, and how many records it cost.
type Loss = (&'static str, u64);

impl LedgerEntry {
    /// From the counts that the library returns at shutdown.
    pub(crate) fn new(name: &str, records: &'static str, counts: &Counts) -> Self {
        let (dropped, not_enqueued) = (&counts.dropped, &counts.not_enqueued);
        Self {
            name: name.to_owned(),
            records,
            accepted: counts.accepted,
            delivered: counts.delivered,
            superseded: counts.superseded,
            rejected: counts.rejected,
            dropped: vec![
                ("refused", dropped.refused),
                ("gave up", dropped.gave_up),
                ("too large", dropped.too_large),
                ("shutdown", dropped.shutdown),
                ("worker panicked", dropped.worker_panicked),
            ],
            in_flight: counts.in_flight,
            not_enqueued: vec![
                ("queue full", not_enqueued.queue_full),
                ("too large", not_enqueued.too_large),
                ("after shutdown", not_enqueued.after_shutdown),
                ("suppressed", not_enqueued.suppressed),
                ("no worker", not_enqueued.no_worker),
                ("panicked", not_enqueued.panicked),
            ],
        }
    }

    /// Nothing lost, nothing left.
    pub(crate) fn is_whole(&self) -> bool {
        self.lost() == 0 && self.accepted == self.delivered + self.superseded
    }

    fn lost(&self) -> u64 {
        self.lost_on_the_way() + sum(&self.not_enqueued)
    }

    fn lost_on_the_way(&self) -> u64 {
        self.rejected + sum(&self.dropped)
    }

    /// The first is the sum of the others.
    fn counts(&self) -> [u64; COLUMNS.len()] {
        [self.accepted, self.delivered, self.superseded, self.lost_on_the_way(), self.in_flight]
    }

    fn add(&mut self, other: &Self) {
        self.accepted += other.accepted;
        self.delivered += other.delivered;
        self.superseded += other.superseded;
        self.rejected += other.rejected;
        self.in_flight += other.in_flight;
        add_losses(&mut self.dropped, &other.dropped);
        add_losses(&mut self.not_enqueued, &other.not_enqueued);
    }
}

fn sum(losses: &[Loss]) -> u64 {
    losses.iter().map(|(_, number)| number).sum()
}

fn add_losses(sums: &mut Vec<Loss>, losses: &[Loss]) {
    for &(reason, number) in losses {
        match sums.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, sum)) => *sum += number,
            None => sums.push((reason, number)),
        }
    }
}

/// The sum of all entries.
pub(crate) fn total(entries: &[LedgerEntry]) -> LedgerEntry {
    let mut total = LedgerEntry { name: "total".to_owned(), ..LedgerEntry::default() };
    for entry in entries {
        total.add(entry);
    }
    total
}

/// Draws the entries, their sum, and in one line what it means.
pub(crate) fn draw(entries: &[LedgerEntry], style: &Style) -> Vec<String> {
    let total = total(entries);
    let table = layout(entries, &total, style);
    let mut lines = vec![table.row(heading())];
    let mut above = "";
    for entry in entries {
        // a name stands in the first of its rows only
        let name = if entry.name == above { "" } else { &entry.name };
        lines.push(table.row(row(name, entry, Ink::PLAIN)));
        above = &entry.name;
    }
    if entries.len() > 1 {
        lines.push(table.row(row(&total.name, &total, Ink::PLAIN.bold())));
    }
    let rejected = [("by the collector", total.rejected)];
    let losses: [(&str, &[Loss]); 3] =
        [("rejected", &rejected), ("dropped", &total.dropped), ("not enqueued", &total.not_enqueued)];
    for (what, losses) in losses {
        for (reason, number) in losses.iter().filter(|(_, number)| *number > 0) {
            lines.push(note(&format!("{what}: {number} {reason}"), style));
        }
    }
    lines.push(verdict(&total, style));
    lines
}

/// The table with a column for each count; those that are empty make room on a narrow terminal.
fn layout<'a>(entries: &[LedgerEntry], total: &LedgerEntry, style: &'a Style) -> Table<'a> {
    let name = table::widest(entries.iter().map(|entry| &entry.name), style);
    let name = name.clamp(SHORTEST_NAME, SHORTEST_NAME.max(style.width / 4));
    let records = table::widest(entries.iter().map(|entry| entry.records), style);
    let counts = COLUMNS.iter().zip(total.counts()).map(|(head, count)| {
        let column = Column::right(head.len());
        if count == 0 && !NEEDED.contains(head) { column.optional() } else { column.if_room() }
    });
    Table::new(style, 0, [Column::cut(name), Column::cut(records)].into_iter().chain(counts))
}

fn heading<'a>() -> impl Iterator<Item = Text<'a>> {
    ["ledger", ""].into_iter().chain(COLUMNS).map(|head| Text::new(Ink::FAINT, head))
}

fn row<'a>(name: &'a str, entry: &LedgerEntry, ink: Ink) -> impl Iterator<Item = Text<'a>> {
    let counts = COLUMNS.into_iter().zip(entry.counts()).map(move |(head, count)| {
        let ink = match count {
            0 => Ink::FAINT,
            _ if head == "lost" => Ink::BAD.bold(),
            _ => ink,
        };
        Text::new(ink, count.to_string())
    });
    [Text::new(ink, name), Text::new(ink, entry.records)].into_iter().chain(counts)
}

fn note(text: &str, style: &Style) -> String {
    let mut line = style.line();
    line.put(Ink::BAD, text);
    line.finish()
}

fn verdict(total: &LedgerEntry, style: &Style) -> String {
    let mut line = style.line();
    if total.lost() > 0 {
        let text = format!("{} {} lost", style.glyphs.cross, describe::count(total.lost(), "record"));
        line.put(Ink::BAD.bold(), &text);
    } else if total.in_flight > 0 {
        let text = format!("nothing lost so far, {} in flight", describe::count(total.in_flight, "record"));
        line.put(Ink::WARNING, &text);
    } else {
        let check = style.glyphs.check;
        line.put(Ink::GOOD.bold(), &format!("{check} nothing lost"));
        let superseded = match total.superseded {
            0 => String::new(),
            superseded => format!(" + {superseded} superseded by newer ones"),
        };
        let sum = format!(": {} accepted = {} delivered{superseded}", total.accepted, total.delivered);
        line.put_rest(Ink::PLAIN, &sum);
    }
    line.finish()
}

#[cfg(test)]
mod tests {
    use super::super::style::plain_style;
    use super::super::text;
    use super::*;

    fn entry(name: &str, records: &'static str, delivered: u64) -> LedgerEntry {
        LedgerEntry {
            name: name.to_owned(),
            records,
            accepted: delivered,
            delivered,
            ..LedgerEntry::default()
        }
    }

    fn shop() -> [LedgerEntry; 3] {
        let points = LedgerEntry { accepted: 120, superseded: 6, ..entry("storefront", "points", 114) };
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
        assert!(whole.is_whole());
        assert!(!LedgerEntry { accepted: whole.accepted + 1, in_flight: 1, ..whole.clone() }.is_whole());
        assert!(!LedgerEntry { not_enqueued: vec![("queue full", 1)], ..whole }.is_whole());
    }

    #[test]
    fn every_loss_is_shown_with_its_reason() {
        let lossy = LedgerEntry {
            name: "shop".to_owned(),
            records: "logs",
            accepted: 100,
            delivered: 90,
            superseded: 0,
            rejected: 2,
            dropped: vec![("gave up", 5), ("shutdown", 3), ("too large", 0)],
            in_flight: 0,
            not_enqueued: vec![("queue full", 7)],
        };
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
        let busy = LedgerEntry { accepted: 3, delivered: 2, in_flight: 1, ..entry("shop", "spans", 0) };
        let lines = draw(&[busy], &plain_style(100));
        assert_eq!(lines.last().map(String::as_str), Some("nothing lost so far, 1 record in flight"));
    }
}
