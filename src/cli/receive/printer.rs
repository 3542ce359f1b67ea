//! Which thread prints? One of its own behind a bounded queue, so that a blocked output delays no sender.

use std::io::{self, BufWriter, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Arc, OnceLock};
use std::thread;

use standpipe::receiver::{Batch, RefusedRequest};

use super::super::describe;
use super::super::report_error;
use super::super::style::{Ink, Style};
use super::refusals::{self, Endpoints};
use super::{Layout, print_batch};

/// What may wait to be printed.
const MOST_ENTRIES: usize = 256;
/// What batches that wait may take of the memory that all requests share, so that the senders keep most of it.
const MOST_BYTES: usize = 64 * 1024 * 1024;

enum Entry {
    Batch(Batch),
    /// With the number of refusals like it that were not printed.
    Refusal(RefusedRequest, u64),
    /// Nothing comes after it.
    End,
}

/// The lines that are known only when the receiver listens.
pub(super) struct Greeting {
    pub(super) lines: Vec<String>,
    pub(super) endpoints: Endpoints,
}

/// Takes what is to be printed and never waits.
#[derive(Clone)]
pub(super) struct PrintQueue {
    entries: SyncSender<Entry>,
    counters: Arc<Counters>,
}

/// What the callers of the queue and the printer share.
#[derive(Default)]
struct Counters {
    /// Batches that arrived.
    batches: AtomicUsize,
    /// Bytes of those that wait, or are being printed.
    waiting: AtomicUsize,
    missed_batches: AtomicUsize,
    missed_records: AtomicUsize,
    /// The lines to print at the very end.
    closing_lines: OnceLock<Vec<String>>,
}

impl PrintQueue {
    pub(super) fn show(&self, batch: &Batch) {
        self.counters.batches.fetch_add(1, Ordering::Relaxed);
        let bytes = batch.memory_bytes();
        let waiting = self.counters.waiting.fetch_add(bytes, Ordering::Relaxed);
        // a large batch alone is shown
        let has_room = waiting == 0 || waiting.saturating_add(bytes) <= MOST_BYTES;
        if !has_room || self.entries.try_send(Entry::Batch(batch.clone())).is_err() {
            self.counters.waiting.fetch_sub(bytes, Ordering::Relaxed);
            self.counters.missed_batches.fetch_add(1, Ordering::Relaxed);
            self.counters.missed_records.fetch_add(batch.record_count(), Ordering::Relaxed);
        }
    }

    /// A line on standard error. What finds no room is left out: it is counted elsewhere.
    pub(super) fn report_refusal(&self, refused: &RefusedRequest, more: u64) {
        let _ = self.entries.try_send(Entry::Refusal(refused.clone(), more));
    }

    pub(super) fn batch_count(&self) -> u64 {
        self.counters.batches.load(Ordering::Relaxed) as u64
    }

    /// Ends the printing with these lines, behind all that waits.
    pub(super) fn close(&self, closing_lines: Vec<String>) {
        let _ = self.counters.closing_lines.set(closing_lines);
        // without room, it ends when the last queue is gone
        let _ = self.entries.try_send(Entry::End);
    }
}

/// Prints the greeting, once it is sent, and then what comes, on a thread of its own. `on_end` is called with the outcome.
pub(super) fn start(
    layout: Layout,
    style: Style,
    on_end: impl FnOnce(io::Result<()>) + Send + 'static,
) -> io::Result<(PrintQueue, Sender<Greeting>)> {
    let (entries, waiting) = mpsc::sync_channel(MOST_ENTRIES);
    let (greet, greeting) = mpsc::channel();
    let counters = Arc::new(Counters::default());
    let printer = Printer { counters: counters.clone(), layout, style };
    thread::Builder::new()
        .name("standpipe-print".to_owned())
        .spawn(move || on_end(printer.run(&greeting, waiting)))?;
    Ok((PrintQueue { entries, counters }, greet))
}

struct Printer {
    counters: Arc<Counters>,
    layout: Layout,
    style: Style,
}

impl Printer {
    fn run(&self, greeting: &Receiver<Greeting>, entries: Receiver<Entry>) -> io::Result<()> {
        // without one, the receiver could not be started
        let Ok(Greeting { lines, endpoints }) = greeting.recv() else { return Ok(()) };
        print_lines(&lines)?;
        for entry in entries {
            match entry {
                Entry::Batch(batch) => {
                    let out = BufWriter::new(io::stdout().lock());
                    let printed = print_batch(&batch, self.layout, &self.style, out);
                    self.counters.waiting.fetch_sub(batch.memory_bytes(), Ordering::Relaxed);
                    printed?;
                }
                Entry::Refusal(refused, more) => report_error(&refusals::line(&refused, more, &endpoints)),
                Entry::End => break,
            }
            self.print_gap()?;
        }
        self.print_gap()?;
        print_lines(self.counters.closing_lines.get().map_or(&[], Vec::as_slice))
    }

    /// Prints how much was not shown, where it is missing.
    fn print_gap(&self) -> io::Result<()> {
        let batches = self.counters.missed_batches.swap(0, Ordering::Relaxed);
        if batches == 0 {
            return Ok(());
        }
        let records = self.counters.missed_records.swap(0, Ordering::Relaxed);
        print_lines(&[gap(batches as u64, records as u64, &self.style)])
    }
}

fn gap(batches: u64, records: u64, style: &Style) -> String {
    let mut line = style.line();
    let (batches, records) = (count(batches, "batch", "batches"), describe::count(records, "record"));
    line.put(Ink::FAINT, &style.glyphs.rule.repeat(2)).space(1);
    line.put(Ink::WARNING, &format!("{batches} with {records} not shown: the output stood still"));
    line.finish()
}

pub(super) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn print_lines(lines: &[String]) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    for line in lines {
        writeln!(out, "{line}")?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::super::super::style::plain_style;
    use super::*;

    #[test]
    fn what_was_not_shown_is_counted() {
        let style = plain_style(80);
        assert_eq!(gap(1, 1, &style), "── 1 batch with 1 record not shown: the output stood still");
        assert_eq!(gap(2, 30, &style), "── 2 batches with 30 records not shown: the output stood still");
    }
}
