//! Detects the width and abilities of the terminal, and draws a progress bar on standard error for slow work.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

#[cfg(windows)]
use crossterm::ansi_support::supports_ansi;

use super::style::{Ink, Style};
use super::text::Charset;

/// Interval between two drawings of the progress bar.
pub(crate) const TICK: Duration = Duration::from_millis(100);
/// Time before the first drawing: a bar would only flicker during shorter work.
const FIRST_DRAW_DELAY: Duration = Duration::from_secs(1);

/// Properties of standard output and the environment variables that affect drawing.
#[derive(Debug, Clone, Default)]
pub(crate) struct TerminalInfo {
    pub(crate) is_terminal: bool,
    /// Whether the terminal interprets escape sequences. Consoles before Windows 10 print them.
    pub(crate) takes_escapes: bool,
    pub(crate) no_color: Option<String>,
    pub(crate) term: Option<String>,
    /// Locale that determines the character set: `LC_ALL`, or else `LC_CTYPE`, or else `LANG`.
    pub(crate) locale: Option<String>,
    pub(crate) columns: Option<usize>,
}

impl TerminalInfo {
    /// Reads the properties of this process's standard output.
    pub(crate) fn of_stdout() -> Self {
        let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let is_terminal = io::stdout().is_terminal();
        // A Windows console interprets escape sequences only in a mode that this call sets.
        #[cfg(windows)]
        let takes_escapes = is_terminal && supports_ansi();
        #[cfg(not(windows))]
        let takes_escapes = is_terminal;
        Self {
            is_terminal,
            takes_escapes,
            no_color: variable("NO_COLOR"),
            term: variable("TERM"),
            locale: ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(variable),
            columns: variable("COLUMNS").map_or_else(columns, |columns| columns.parse().ok()),
        }
    }

    /// Returns whether a line can be erased and redrawn.
    pub(crate) fn can_erase(&self) -> bool {
        self.is_terminal && self.takes_escapes && self.term.as_deref() != Some("dumb")
    }

    pub(crate) fn wants_color(&self) -> bool {
        self.can_erase() && self.no_color.is_none()
    }

    pub(crate) fn charset(&self) -> Charset {
        let locale = self.locale.as_deref().unwrap_or("C").to_ascii_lowercase();
        let is_unicode = locale.contains("utf-8") || locale.contains("utf8") || cfg!(windows);
        if is_unicode { Charset::Unicode } else { Charset::Ascii }
    }

    /// Returns the current width of the terminal, or `None` if `COLUMNS` fixes the width or the width is unknown.
    pub(crate) fn current_columns() -> Option<usize> {
        let is_given = env::var_os("COLUMNS").is_some_and(|columns| !columns.is_empty());
        if is_given { None } else { columns() }
    }
}

/// Returns the width of the terminal, or `None` if standard output is not a terminal or its size is unknown.
pub(crate) fn columns() -> Option<usize> {
    size().map(|[columns, _]| columns)
}

/// Returns the width and the height of the terminal, under the same conditions as [`columns`].
pub(crate) fn size() -> Option<[usize; 2]> {
    let (columns, rows) = terminal_size::terminal_size_of(io::stdout())?;
    // Some terminals report a size of 0, for example those of serial lines.
    Some([columns.0, rows.0].map(usize::from)).filter(|size| !size.contains(&0))
}

/// A progress line on standard error. It is drawn only on a terminal.
pub(crate) struct Progress<'a> {
    style: &'a Style,
    /// Earliest time of the next drawing; `None` if no bar can be drawn, and after [`end`](Self::end).
    next: Option<Instant>,
    is_drawn: bool,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(style: &'a Style) -> Self {
        let can_erase = env::var_os("TERM").is_some_and(|term| term != "dumb");
        let next = (can_erase && io::stderr().is_terminal()).then(|| Instant::now() + FIRST_DRAW_DELAY);
        Self { style, next, is_drawn: false }
    }

    /// Draws the bar, unless it is too early for the next drawing. `figures` returns the text next to the bar.
    pub(crate) fn draw(&mut self, done: u64, total: u64, figures: impl FnOnce() -> String) {
        let now = Instant::now();
        if self.next.is_some_and(|next| next <= now) {
            let _ = write!(io::stderr(), "\r{}\x1b[K", bar(done, total, &figures(), self.style));
            self.next = Some(now + TICK);
            self.is_drawn = true;
        }
    }

    /// Shows a text instead of a bar, without delay.
    pub(crate) fn say(&mut self, text: &str) {
        if self.next.is_some() {
            let _ = write!(io::stderr(), "\r{text}\x1b[K");
            self.is_drawn = true;
        }
    }

    /// Erases the line, so that another line can be printed.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    /// Erases the line. Nothing is drawn afterwards.
    pub(crate) fn end(&mut self) {
        self.clear();
        self.next = None;
    }
}

/// Draws a bar with its percentage: `[=====     ] 50 %  500 of 1000 records`.
fn bar(done: u64, total: u64, figures: &str, style: &Style) -> String {
    const CELLS: usize = 30;
    // `done` is larger than `total` if work was added after `total` was counted.
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
