//! A bar on standard error while something takes longer than a second.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use super::style::{Ink, Style};

/// How often it is drawn, after the first second.
pub(crate) const TICK: Duration = Duration::from_millis(100);
const QUIET: Duration = Duration::from_secs(1);

/// A line that is drawn again and again, if standard error is a terminal.
pub(crate) struct Progress<'a> {
    style: &'a Style,
    /// When it may be drawn again, if ever.
    next: Option<Instant>,
    is_drawn: bool,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(style: &'a Style) -> Self {
        let next = io::stderr().is_terminal().then(|| Instant::now() + QUIET);
        Self { style, next, is_drawn: false }
    }

    /// Draws it if it is time; `figures` has both numbers in words.
    pub(crate) fn draw(&mut self, done: u64, total: u64, figures: impl FnOnce() -> String) {
        let now = Instant::now();
        if self.next.is_some_and(|next| next <= now) {
            let _ = write!(io::stderr(), "\r{}\x1b[K", bar(done, total, &figures(), self.style));
            self.next = Some(now + TICK);
            self.is_drawn = true;
        }
    }

    /// Makes room for another line.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    /// It is not drawn any more.
    pub(crate) fn end(&mut self) {
        self.clear();
        self.next = None;
    }
}

/// `[=====     ] 50 %  500 of 1000 records`.
fn bar(done: u64, total: u64, figures: &str, style: &Style) -> String {
    const CELLS: usize = 30;
    // there may be more than was found at first
    let share = if total == 0 { 1.0 } else { (done as f64 / total as f64).min(1.0) };
    let filled = (share * CELLS as f64) as usize;
    let mut line = style.line();
    line.put(Ink::FAINT, "[").put(Ink::GOOD, &"=".repeat(filled)).space(CELLS - filled).put(Ink::FAINT, "]");
    line.space(1).put(Ink::PLAIN, &format!("{:.0} %", share * 100.0));
    line.space(2).put_rest(Ink::FAINT, figures);
    line.finish()
}

#[cfg(test)]
mod tests {
    use super::super::style::plain_style;
    use super::*;

    #[test]
    fn the_bar_shows_the_share_that_is_done_and_never_more_than_all() {
        let bar = |done, total| bar(done, total, &format!("{done} of {total}"), &plain_style(80));
        assert_eq!(bar(0, 10), "[                              ] 0 %  0 of 10");
        assert_eq!(bar(5, 10), "[===============               ] 50 %  5 of 10");
        assert!(bar(20, 10).contains("] 100 %"));
        assert!(bar(1, 0).contains("] 100 %"));
    }
}
