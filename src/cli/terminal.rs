//! Finds out the width and the abilities of the terminal behind standard output, and draws a progress bar on standard error for
//! work that takes longer than a second.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use super::style::{Ink, Style};
use super::text::Charset;

/// How often it is drawn, after the first second.
pub(crate) const TICK: Duration = Duration::from_millis(100);
const QUIET: Duration = Duration::from_secs(1);

/// What the environment states about the terminal, or about whatever else the output goes to.
#[derive(Debug, Clone, Default)]
pub(crate) struct TerminalInfo {
    pub(crate) is_terminal: bool,
    /// Whether escape sequences colour text there. The consoles of Windows before 10 print them.
    pub(crate) takes_escapes: bool,
    pub(crate) no_color: Option<String>,
    pub(crate) term: Option<String>,
    /// The value that decides the character set: `LC_ALL`, else `LC_CTYPE`, else `LANG`.
    pub(crate) locale: Option<String>,
    pub(crate) columns: Option<usize>,
}

impl TerminalInfo {
    /// Those of this process's standard output.
    pub(crate) fn of_stdout() -> Self {
        let variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let is_terminal = io::stdout().is_terminal();
        Self {
            is_terminal,
            takes_escapes: is_terminal && take_escapes(),
            no_color: variable("NO_COLOR"),
            term: variable("TERM"),
            locale: ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(variable),
            columns: match variable("COLUMNS") {
                Some(columns) => columns.parse().ok(),
                None => columns(),
            },
        }
    }

    /// Whether a line can be erased and written again.
    pub(crate) fn can_erase(&self) -> bool {
        self.is_terminal && self.takes_escapes && self.term.as_deref() != Some("dumb")
    }

    pub(crate) fn wants_color(&self) -> bool {
        self.can_erase() && self.no_color.is_none()
    }

    pub(crate) fn charset(&self) -> Charset {
        let locale = self.locale.as_deref().unwrap_or("C").to_ascii_lowercase();
        if locale.contains("utf-8") || locale.contains("utf8") || cfg!(windows) {
            Charset::Unicode
        } else {
            Charset::Ascii
        }
    }

    /// The columns that the terminal has now, unless the environment says how many to use.
    pub(crate) fn current_columns() -> Option<usize> {
        let is_given = env::var_os("COLUMNS").is_some_and(|columns| !columns.is_empty());
        if is_given { None } else { columns() }
    }
}

/// Columns of the terminal, if standard output is one that knows its size.
pub(crate) fn columns() -> Option<usize> {
    // a terminal that does not know its size answers 0
    let (terminal_size::Width(columns), _) = terminal_size::terminal_size_of(io::stdout())?;
    Some(usize::from(columns)).filter(|columns| *columns > 0)
}

/// A line that is drawn again and again, if standard error is a terminal.
pub(crate) struct Progress<'a> {
    style: &'a Style,
    /// When it may be drawn again, if ever.
    next: Option<Instant>,
    is_drawn: bool,
}

impl<'a> Progress<'a> {
    pub(crate) fn new(style: &'a Style) -> Self {
        let can_erase = env::var_os("TERM").is_some_and(|term| term != "dumb");
        let next = (can_erase && io::stderr().is_terminal()).then(|| Instant::now() + QUIET);
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

    /// Shows a text at once instead of a bar.
    pub(crate) fn say(&mut self, text: &str) {
        if self.next.is_some() {
            let _ = write!(io::stderr(), "\r{text}\x1b[K");
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

#[cfg(not(windows))]
fn take_escapes() -> bool {
    true
}

#[cfg(windows)]
use platform::take_escapes;

#[cfg(windows)]
#[allow(unsafe_code, reason = "std does not ask a console")]
mod platform {
    use std::io::stdout;
    use std::os::windows::io::{AsRawHandle, RawHandle};

    const ENABLE_VIRTUAL_TERMINAL_PROCESSING: u32 = 4;

    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn GetConsoleMode(console: RawHandle, mode: *mut u32) -> i32;
        fn SetConsoleMode(console: RawHandle, mode: u32) -> i32;
    }

    /// A console takes them once it is asked to. A terminal that is no console is one of MSYS or Cygwin, which always do.
    pub(crate) fn take_escapes() -> bool {
        let console = stdout().as_raw_handle();
        let mut mode = 0;
        // SAFETY: a handle that is no console is refused; `mode` outlives both calls.
        unsafe {
            GetConsoleMode(console, &raw mut mode) == 0
                || SetConsoleMode(console, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING) != 0
        }
    }
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
