//! What is under way? A line below all others, on a terminal, that is erased before anything else is printed.

use std::io::{self, Write};

use super::super::style::{Ink, Style};

const ERASE: &str = "\r\x1b[K";

/// The last line of a terminal, if the output is one.
#[derive(Debug)]
pub(crate) struct Foot {
    can_erase: bool,
    /// Of the terminal, which may be narrower than what is drawn above.
    columns: usize,
    drawn: String,
}

impl Foot {
    /// On a terminal of this many columns, as far as that is known.
    pub(crate) fn new(can_erase: bool, columns: Option<usize>) -> Self {
        Self { can_erase, columns: columns.unwrap_or(usize::MAX), drawn: String::new() }
    }

    pub(crate) fn set_columns(&mut self, columns: usize) {
        self.columns = columns;
    }

    /// Whether there can be one.
    pub(crate) fn is_possible(&self) -> bool {
        self.can_erase
    }

    /// An output that erases it as soon as something is written.
    pub(crate) fn above<W: Write>(&mut self, out: W) -> Above<'_, W> {
        Above { foot: self, out }
    }

    pub(crate) fn erase(&mut self, out: &mut impl Write) -> io::Result<()> {
        if self.drawn.is_empty() {
            return Ok(());
        }
        self.drawn.clear();
        out.write_all(ERASE.as_bytes())
    }

    /// Draws it, if it is another one than before. The cursor stays behind it.
    pub(crate) fn draw(&mut self, text: &str, style: &Style, out: &mut impl Write) -> io::Result<()> {
        if !self.can_erase || self.drawn == text {
            return Ok(());
        }
        let mut line = style.line();
        // one cell is left, or some terminals would go to the next line
        line.put_within(Ink::FAINT, text, style.width.min(self.columns).saturating_sub(1));
        text.clone_into(&mut self.drawn);
        write!(out, "{ERASE}{}", line.finish())?;
        out.flush()
    }
}

/// What is printed above the foot.
#[derive(Debug)]
pub(crate) struct Above<'a, W> {
    foot: &'a mut Foot,
    out: W,
}

impl<W: Write> Above<'_, W> {
    /// Erases the foot, for what is not written here.
    pub(crate) fn erase_foot(&mut self) -> io::Result<()> {
        self.foot.erase(&mut self.out)?;
        self.out.flush()
    }
}

impl<W: Write> Write for Above<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.foot.erase(&mut self.out)?;
        self.out.write(bytes)
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
    fn it_is_erased_before_it_changes_and_never_wider_than_the_terminal() {
        let (mut foot, mut out) = (Foot::new(true, Some(10)), Vec::new());
        // what is above wraps on so narrow a terminal
        let style = plain_style(44);
        foot.draw("1 trace", &style, &mut out).expect("a vector has room");
        foot.draw("1 trace", &style, &mut out).expect("a vector has room");
        foot.draw("2 traces \x1b[2J open", &style, &mut out).expect("a vector has room");
        foot.above(&mut out).flush().expect("a vector has room");
        foot.above(&mut out).write_all(b"log\n").expect("a vector has room");
        foot.above(&mut out).write_all(b"log\n").expect("a vector has room");
        let expected = "\r\x1b[K1 trace\r\x1b[K2 traces…\r\x1b[Klog\nlog\n";
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }

    #[test]
    fn what_is_no_terminal_has_none() {
        let (mut foot, mut out) = (Foot::new(false, None), Vec::new());
        foot.draw("1 trace", &plain_style(10), &mut out).expect("a vector has room");
        assert!(out.is_empty());
    }
}
