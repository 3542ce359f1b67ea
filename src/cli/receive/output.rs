//! Output of `receive`: counts the written bytes and, on a terminal, keeps a status line (the foot) below all other
//! lines.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::style::{Ink, Style};
use super::super::terminal::TerminalInfo;

const ERASE: &str = "\r\x1b[K";
/// Maximum bytes of one write. With small writes, the counter shows whether a slow reader still reads.
const MAX_WRITE_BYTES: usize = 64 * 1024;

/// An output that erases its foot before other text is written.
#[derive(Debug)]
pub(super) struct Output<W> {
    out: W,
    /// Number of bytes written so far.
    written: Arc<AtomicUsize>,
    /// Whether the output is a terminal that can erase a line, and so can have a foot.
    pub(super) can_erase: bool,
    /// Width of the terminal. It may be less than the width of the lines above the foot.
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

    fn output(is_terminal: bool) -> Output<Vec<u8>> {
        let terminal =
            TerminalInfo { is_terminal, takes_escapes: true, columns: Some(10), ..TerminalInfo::default() };
        Output::new(Vec::new(), &terminal, Arc::default())
    }

    #[test]
    fn the_foot_is_erased_before_it_changes_and_never_wider_than_the_terminal() {
        let mut output = output(true);
        // On a terminal as narrow as this one, the lines above wrap.
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
