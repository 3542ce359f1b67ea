//! Which thread prints? One of its own behind a bounded queue, so that a blocked output delays no sender.

use std::io::{self, BufWriter, Write};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::super::describe;
use super::super::report_error;
use super::super::style::{Ink, Style};
use super::super::terminal::TerminalInfo;
use super::super::view::{Foot, Form, View};
use super::queue::{self, Entry, Missed, Queue, Waiting};
use super::refusals::{self, Endpoints};

/// How often the foot is drawn while much comes.
const FOOT_INTERVAL: Duration = Duration::from_millis(100);
/// How often it is asked whether the terminal has another width.
const WIDTH_INTERVAL: Duration = Duration::from_secs(2);

/// The lines that are known only when the receiver listens.
pub(super) struct Greeting {
    pub(super) lines: Vec<String>,
    pub(super) endpoints: Endpoints,
}

/// Prints the greeting, once it is sent, and then what comes, on a thread of its own. `on_end` is called with the outcome.
pub(super) fn start(
    view: View,
    foot: Foot,
    on_end: impl FnOnce(io::Result<()>) + Send + 'static,
) -> io::Result<(Queue, Sender<Greeting>)> {
    let (queue, waiting) = queue::new();
    let (greet, greeting) = mpsc::channel();
    let now = Instant::now();
    let printer = Printer {
        waiting,
        view,
        foot,
        foot_drawn: now,
        is_foot_due: false,
        width_asked: now,
        last_refusal: String::new(),
    };
    thread::Builder::new()
        .name("standpipe-print".to_owned())
        .spawn(move || on_end(printer.run(&greeting)))?;
    Ok((queue, greet))
}

struct Printer {
    waiting: Waiting,
    view: View,
    foot: Foot,
    foot_drawn: Instant,
    /// It was drawn too short a time ago to be drawn again.
    is_foot_due: bool,
    width_asked: Instant,
    last_refusal: String,
}

impl Printer {
    fn run(mut self, greeting: &Receiver<Greeting>) -> io::Result<()> {
        // without one, the receiver could not be started
        let Ok(Greeting { lines, endpoints }) = greeting.recv() else { return Ok(()) };
        self.print_lines(&lines)?;
        loop {
            let entry = self.waiting.next(self.patience());
            self.follow_width();
            let mut out = self.foot.above(BufWriter::new(self.waiting.counting(io::stdout().lock())));
            match entry {
                Some(Entry::Batch(batch)) => {
                    let printed =
                        self.view.add(&batch.records, Some(batch.request.protocol), Instant::now(), &mut out);
                    self.waiting.release(&batch);
                    printed?;
                }
                Some(Entry::Refusal(refused, more)) => {
                    self.last_refusal = refusals::summary(&refused);
                    // standard error is most often the same terminal
                    out.erase_foot()?;
                    report_error(&refusals::line(&refused, more, &endpoints));
                }
                Some(Entry::End) => break,
                None => {}
            }
            self.view.draw_due(Instant::now(), &mut out)?;
            out.flush()?;
            drop(out);
            self.print_gap()?;
            self.draw_foot()?;
        }
        let mut out = self.foot.above(BufWriter::new(self.waiting.counting(io::stdout().lock())));
        self.view.finish(&mut out)?;
        out.flush()?;
        drop(out);
        self.print_gap()?;
        let lines = self.waiting.closing_lines().to_vec();
        self.print_lines(&lines)
    }

    /// People change the size of a window that they keep open.
    fn follow_width(&mut self) {
        if !self.foot.is_possible() || self.width_asked.elapsed() < WIDTH_INTERVAL {
            return;
        }
        if let Some(columns) = TerminalInfo::current_columns() {
            self.view.set_columns(columns);
            self.foot.set_columns(columns);
        }
        self.width_asked = Instant::now();
    }

    /// How long to wait for an entry.
    fn patience(&self) -> Option<Duration> {
        let foot_due = self.is_foot_due.then(|| self.foot_drawn + FOOT_INTERVAL);
        let due = self.view.next_due().into_iter().chain(foot_due).min()?;
        Some(due.saturating_duration_since(Instant::now()))
    }

    /// Prints how much was not shown, where it is missing.
    fn print_gap(&mut self) -> io::Result<()> {
        match self.waiting.take_missed() {
            Some(missed) => self.print_lines(&[gap(missed, self.view.style())]),
            None => Ok(()),
        }
    }

    fn draw_foot(&mut self) -> io::Result<()> {
        let now = Instant::now();
        self.is_foot_due = self.foot.is_possible() && now < self.foot_drawn + FOOT_INTERVAL;
        if self.is_foot_due || !self.foot.is_possible() {
            return Ok(());
        }
        self.foot_drawn = now;
        let refused = match self.waiting.refusals() {
            0 => None,
            // the reason did not find its way here
            number if self.last_refusal.is_empty() => Some(format!("{number} refused")),
            number => Some(format!("{number} refused: {}", self.last_refusal)),
        };
        let parts: Vec<String> = self.view.open().into_iter().chain(refused).collect();
        let mut out = io::stdout().lock();
        match parts.is_empty() {
            true => self.foot.erase(&mut out).and_then(|()| out.flush()),
            false => {
                let text = parts.join(self.view.style().glyphs.separator);
                self.foot.draw(&text, self.view.style(), &mut out)
            }
        }
    }

    /// Prints what is no record: where the records are to be read by a program, to standard error.
    fn print_lines(&mut self, lines: &[String]) -> io::Result<()> {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        if self.view.form() == Form::Json {
            let _ = io::stderr().write_all(text.as_bytes());
            return Ok(());
        }
        let mut out = self.foot.above(BufWriter::new(self.waiting.counting(io::stdout().lock())));
        if !lines.is_empty() {
            self.view.begin_row(&mut out)?;
        }
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

fn gap(missed: Missed, style: &Style) -> String {
    let mut line = style.line();
    line.put(Ink::FAINT, &style.glyphs.rule.repeat(2)).space(1);
    line.put(Ink::WARNING, &format!("{} not shown: the output stood still", count_missed(missed)));
    line.finish()
}

/// `2 batches with 30 records`.
pub(super) fn count_missed(Missed { batches, records }: Missed) -> String {
    format!("{} with {}", count(batches, "batch", "batches"), describe::count(records, "record"))
}

pub(super) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::super::super::style::plain_style;
    use super::*;

    #[test]
    fn what_was_not_shown_is_counted() {
        let gap = |batches, records| gap(Missed { batches, records }, &plain_style(80));
        assert_eq!(gap(1, 1), "── 1 batch with 1 record not shown: the output stood still");
        assert_eq!(gap(2, 30), "── 2 batches with 30 records not shown: the output stood still");
    }
}
