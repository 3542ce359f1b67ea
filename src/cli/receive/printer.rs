//! Prints received telemetry on a separate thread behind a bounded queue, so that a blocked output does not delay
//! senders.

use std::io::{self, BufWriter, Stdout, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::super::describe;
use super::super::report_error;
use super::super::style::{Ink, Style};
use super::super::terminal::TerminalInfo;
use super::super::view::{Form, View};
use super::queue::{Entry, Missed, Queue};
use super::refusals::Refusals;

/// Minimum interval between two drawings of the foot.
const FOOT_INTERVAL: Duration = Duration::from_millis(100);
/// Minimum interval between two readings of the terminal's width.
const WIDTH_INTERVAL: Duration = Duration::from_secs(2);

const ERASE: &str = "\r\x1b[K";
/// Maximum bytes of one write. Written bytes are counted after each write, so with small writes, the count grows even
/// if the reader is slow.
const MAX_WRITE_BYTES: usize = 64 * 1024;

/// State of the printing thread.
pub(super) struct Printer<'a> {
    queue: &'a Queue,
    view: View,
    output: Output<Stdout>,
    refusals: &'a Mutex<Refusals>,
    foot_drawn: Instant,
    /// Whether a drawing of the foot was postponed, because the last one was less than [`FOOT_INTERVAL`] ago.
    is_foot_due: bool,
    width_read: Instant,
    last_refusal: String,
}

impl<'a> Printer<'a> {
    pub(super) fn new(
        queue: &'a Queue,
        view: View,
        output: Output<Stdout>,
        refusals: &'a Mutex<Refusals>,
    ) -> Self {
        let (now, last_refusal) = (Instant::now(), String::new());
        let (foot_drawn, width_read) = (now, now);
        Self { queue, view, output, refusals, foot_drawn, is_foot_due: false, width_read, last_refusal }
    }

    /// Prints the greeting, then the entries of the queue. Returns after [`Entry::End`], or if the output fails.
    pub(super) fn run(mut self, greeting: &[String]) -> io::Result<()> {
        self.print_lines(greeting)?;
        loop {
            let entry = self.queue.next(self.patience());
            self.follow_width();
            let mut out = BufWriter::new(&mut self.output);
            match entry {
                Some(Entry::Batch(batch)) => {
                    let protocol = Some(batch.request.protocol);
                    let printed = self.view.add(&batch.records, protocol, Instant::now(), &mut out);
                    self.queue.release(&batch);
                    printed?;
                }
                Some(Entry::Refusal(summary, line)) => {
                    self.last_refusal = summary;
                    // Standard error is usually the same terminal, so the foot is erased first.
                    out.get_mut().draw_foot("", &self.view.style)?;
                    report_error(&line);
                }
                Some(Entry::End(closing_lines)) => {
                    self.view.finish(&mut out)?;
                    out.flush()?;
                    drop(out);
                    self.print_gap()?;
                    return self.print_lines(&closing_lines);
                }
                None => {}
            }
            self.view.draw_due(Instant::now(), &mut out)?;
            out.flush()?;
            drop(out);
            self.print_gap()?;
            self.draw_foot()?;
        }
    }

    /// Adapts to the current width of the terminal, which changes if the window is resized.
    fn follow_width(&mut self) {
        if !self.output.can_erase || self.width_read.elapsed() < WIDTH_INTERVAL {
            return;
        }
        if let Some(columns) = TerminalInfo::current_columns() {
            self.view.style.set_columns(columns);
            self.output.columns = columns;
        }
        self.width_read = Instant::now();
    }

    /// Returns how long to wait for an entry before something else has to be drawn; `None` for no limit.
    fn patience(&self) -> Option<Duration> {
        let foot_due = self.is_foot_due.then(|| self.foot_drawn + FOOT_INTERVAL);
        let due = self.view.next_due().into_iter().chain(foot_due).min()?;
        Some(due.saturating_duration_since(Instant::now()))
    }

    /// If batches did not fit into the queue since the last call, prints their number and that of their records.
    fn print_gap(&mut self) -> io::Result<()> {
        match self.queue.take_missed() {
            Some(missed) => self.print_lines(&[gap(missed, &self.view.style)]),
            None => Ok(()),
        }
    }

    fn draw_foot(&mut self) -> io::Result<()> {
        let now = Instant::now();
        self.is_foot_due = self.output.can_erase && now < self.foot_drawn + FOOT_INTERVAL;
        if self.is_foot_due || !self.output.can_erase {
            return Ok(());
        }
        self.foot_drawn = now;
        let refused = match self.refusals.lock().unwrap_or_else(PoisonError::into_inner).count {
            0 => None,
            // The reason is unknown: the refusal still waits in the queue, or did not fit into it.
            number if self.last_refusal.is_empty() => Some(format!("{number} refused")),
            number => Some(format!("{number} refused: {}", self.last_refusal)),
        };
        let parts: Vec<String> = self.view.open().into_iter().chain(refused).collect();
        let style = &self.view.style;
        self.output.draw_foot(&parts.join(style.glyph(" · ")), style)
    }

    /// Prints lines that are not records. With `--json`, they go to standard error.
    fn print_lines(&mut self, lines: &[String]) -> io::Result<()> {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        if self.view.form == Form::Json {
            let _ = io::stderr().write_all(text.as_bytes());
            return Ok(());
        }
        let mut out = BufWriter::new(&mut self.output);
        if !lines.is_empty() {
            self.view.begin_row(&mut out)?;
        }
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

fn gap(missed: Missed, style: &Style) -> String {
    let mut line = style.line();
    line.put(Ink::FAINT, &style.glyph("─").repeat(2)).space(1);
    line.put(Ink::WARNING, &format!("{} not shown: the output was blocked", count_missed(missed)));
    line.finish()
}

/// Formats the counts: `2 batches with 30 records`.
pub(super) fn count_missed(Missed { batches, records }: Missed) -> String {
    format!("{} with {}", describe::count(batches, "batch"), describe::count(records, "record"))
}

/// Counts the written bytes and, on a terminal, keeps a status line (the foot) below all other lines: erases the foot
/// before other text is written.
pub(super) struct Output<W> {
    out: W,
    /// Number of bytes written so far, without those of the foot.
    written: Arc<AtomicUsize>,
    /// Whether the output is a terminal that can erase a line, and so can have a foot.
    pub(super) can_erase: bool,
    /// Width of the terminal, `usize::MAX` if unknown. The lines above the foot may be wider.
    pub(super) columns: usize,
    foot: String,
}

impl<W: Write> Output<W> {
    pub(super) fn new(out: W, terminal: &TerminalInfo, written: Arc<AtomicUsize>) -> Self {
        let columns = terminal.columns.unwrap_or(usize::MAX);
        Self { out, written, can_erase: terminal.can_erase(), columns, foot: String::new() }
    }

    /// Draws the foot if its text has changed, and leaves the cursor after the foot. An empty text erases the foot.
    pub(super) fn draw_foot(&mut self, text: &str, style: &Style) -> io::Result<()> {
        if !self.can_erase || self.foot == text {
            return Ok(());
        }
        let mut line = style.line();
        // Some terminals begin a new line after the last cell, so that cell stays free.
        line.put_within(Ink::FAINT, text, style.width.min(self.columns).saturating_sub(1));
        text.clone_into(&mut self.foot);
        write!(self.out, "{ERASE}{}", line.finish())?;
        self.out.flush()
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.foot.is_empty() {
            self.foot.clear();
            self.out.write_all(ERASE.as_bytes())?;
        }
        let written = self.out.write(&bytes[..bytes.len().min(MAX_WRITE_BYTES)])?;
        self.written.fetch_add(written, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::style::plain_style;
    use super::*;

    #[test]
    fn what_was_not_shown_is_counted() {
        let gap = |batches, records| gap(Missed { batches, records }, &plain_style(80));
        assert_eq!(gap(1, 1), "── 1 batch with 1 record not shown: the output was blocked");
        assert_eq!(gap(2, 30), "── 2 batches with 30 records not shown: the output was blocked");
    }

    fn output(is_terminal: bool) -> Output<Vec<u8>> {
        let terminal =
            TerminalInfo { is_terminal, takes_escapes: true, columns: Some(10), ..TerminalInfo::default() };
        Output::new(Vec::new(), &terminal, Arc::default())
    }

    #[test]
    fn the_foot_is_erased_before_it_changes_and_never_wider_than_the_terminal() {
        let mut output = output(true);
        // The other lines have up to 44 cells, so they wrap on this terminal of 10 columns.
        let style = plain_style(44);
        for text in ["1 trace", "1 trace", "2 traces \x1b[2J open"] {
            output.draw_foot(text, &style).expect("a vector has room");
        }
        output.flush().expect("a vector has room");
        output.write_all(b"log\n").expect("a vector has room");
        output.write_all(b"log\n").expect("a vector has room");
        output.draw_foot("3", &style).expect("a vector has room");
        output.draw_foot("", &style).expect("a vector has room");
        let expected = "\r\x1b[K1 trace\r\x1b[K2 traces…\r\x1b[Klog\nlog\n\r\x1b[K3\r\x1b[K";
        assert_eq!(String::from_utf8_lossy(&output.out), expected);
    }

    #[test]
    fn only_a_terminal_has_a_foot() {
        let mut output = output(false);
        output.draw_foot("1 trace", &plain_style(10)).expect("a vector has room");
        assert!(output.out.is_empty());
    }

    #[test]
    fn bytes_are_counted_while_they_are_written() {
        let mut output = output(false);
        let written = output.write(&[0; 2 * MAX_WRITE_BYTES]).expect("a vector has room");
        assert_eq!((written, output.written.load(Ordering::Relaxed)), (MAX_WRITE_BYTES, MAX_WRITE_BYTES));
    }
}
