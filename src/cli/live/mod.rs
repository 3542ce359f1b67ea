//! The interactive view of `receive` and `show`: lists of the traces, log records, metrics and services that the
//! [`Page`] keeps, and the waterfall of a trace.
//!
//! [`run`] connects a [`Screen`] to the terminal. A screen does no I/O: it turns keys into frames, whose lines
//! `draw.rs` makes.
//!
//! New data is drawn at most ten times per second, and less often if a frame is expensive: the screen uses at most a
//! twentieth of the processor's time. If a row other than the first is selected, it stays where it is while new rows
//! appear above it.

mod draw;

use std::io::{self, Write};
use std::panic;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use crossterm::terminal::{disable_raw_mode, enable_raw_mode};

use self::draw::Items;
use super::describe;
use super::page::Page;
use super::page::query::Query;
use super::page::store::TraceKey;
use super::style::Style;
use super::terminal::{TerminalInfo, size};
use super::view;

/// Minimum interval between two frames that show new data.
const FRAME_INTERVAL: Duration = Duration::from_millis(100);
/// Minimum interval between two frames that show new data, as a multiple of the time that the earlier one took.
const PAUSE_FACTOR: u32 = 20;
/// Height of a terminal that does not report its size.
const DEFAULT_ROWS: usize = 24;
/// Number of lines that are not part of the list: the head, the titles of the columns, and the foot.
const FRAME_ROWS: usize = 3;
/// Cells to the left of each line, for the mark of the selected line.
const MARGIN: usize = 2;

/// Selects the alternate screen, hides the cursor, and cuts long lines at the edge.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
/// Undoes [`ENTER`].
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// Returns whether the interactive view is to be used: no option selects another form, standard output is a terminal
/// whose lines can be redrawn, and this process may read its keys. A background job may not read keys: the system stops
/// it when it changes the mode of its terminal.
pub(crate) fn is_possible(options: &view::Options, terminal: &TerminalInfo) -> bool {
    options.form().is_none() && terminal.can_erase() && is_in_foreground()
}

#[cfg(unix)]
#[allow(unsafe_code, reason = "std has no process groups")]
fn is_in_foreground() -> bool {
    // SAFETY: both functions have no preconditions.
    unsafe { libc::tcgetpgrp(libc::STDOUT_FILENO) == libc::getpgrp() }
}

#[cfg(windows)]
fn is_in_foreground() -> bool {
    io::IsTerminal::is_terminal(&io::stdin())
}

/// The terminal in the mode of the interactive view. Its former mode is restored on drop, and before the message of a
/// panic is printed.
struct Terminal;

impl Terminal {
    fn enter() -> io::Result<Self> {
        let (before, screen) = (panic::take_hook(), thread::current().id());
        panic::set_hook(Box::new(move |message| {
            // A panic of another thread does not end the view, so the terminal stays in its mode.
            if thread::current().id() == screen {
                restore();
            }
            before(message);
        }));
        enable_raw_mode()?;
        // Made before the first write: if the write fails, dropping `entered` restores the former mode.
        let entered = Self;
        write(ENTER)?;
        Ok(entered)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    // Nothing else can be done if the terminal is gone.
    let _ = write(LEAVE);
    let _ = disable_raw_mode();
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Shows the telemetry of the page until the user quits, or `is_over` returns true.
pub(crate) fn run(
    page: &Arc<Page>,
    options: &view::Options,
    style: &Style,
    mut is_over: impl FnMut() -> bool,
) -> io::Result<()> {
    let _restored_at_end = Terminal::enter()?;
    let mut screen = Screen::new(page.clone(), options, style.clone());
    screen.resize(size());
    let (mut drawn, mut next) = (String::new(), Instant::now());
    while !is_over() {
        let begin = Instant::now();
        let has_news = begin >= next && screen.is_outdated();
        if has_news {
            screen.refresh();
        }
        let frame = screen.frame();
        if frame != drawn {
            // Mode 2026 (synchronized output): the terminal shows the frame only when it is complete.
            write(&format!("\x1b[?2026h\x1b[H{frame}\x1b[?2026l"))?;
            drawn = frame;
        }
        if has_news {
            next = begin + FRAME_INTERVAL.max(begin.elapsed() * PAUSE_FACTOR);
        }
        let mut wait = FRAME_INTERVAL;
        while event::poll(wait)? {
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => match screen.press(key) {
                    Action::Stay => {}
                    Action::Quit => return Ok(()),
                    Action::Copy(text) => write(&draw::copy_sequence(&text))?,
                },
                Event::Resize(..) => {
                    screen.resize(size());
                    // The terminal may have wrapped or cut lines, so the frame is drawn even if it is unchanged.
                    drawn.clear();
                }
                _ => {}
            }
            // All waiting keys are handled before the next frame is drawn. With a frame after each key, the view would
            // lag behind.
            wait = Duration::ZERO;
        }
    }
    Ok(())
}

/// Content of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Traces,
    Trace(TraceKey),
    Logs,
    Log(u64),
    Metrics,
    Services,
    Help,
}

/// The selected line and the first visible line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Cursor {
    line: usize,
    top: usize,
}

/// Result of a key.
#[derive(Debug, PartialEq, Eq)]
enum Action {
    Stay,
    Quit,
    /// Copy a text to the clipboard of the terminal.
    Copy(String),
}

/// State of the interactive view.
struct Screen {
    page: Arc<Page>,
    filter: view::Filter,
    style: Style,
    /// Number of lines of the list that fit on the screen.
    rows: usize,
    full: bool,
    place: Place,
    cursor: Cursor,
    /// Places to which `Esc` returns, each with its cursor and its search; the latest place is the last.
    back: Vec<(Place, Cursor, String)>,
    search: String,
    query: Query,
    /// Text of the last search outside of a list, in lower case. The key `n` selects the next line with this text.
    sought: String,
    /// Text of the search that is being typed.
    input: Option<String>,
    message: String,
    is_paused: bool,
    items: Items,
    /// Version of the store that the items show; `None` if they have to be collected again.
    version: Option<u64>,
}

impl Screen {
    fn new(page: Arc<Page>, options: &view::Options, style: Style) -> Self {
        Self {
            page,
            filter: options.filter.clone(),
            style,
            rows: DEFAULT_ROWS - FRAME_ROWS,
            full: options.full,
            place: Place::Traces,
            cursor: Cursor::default(),
            back: Vec::new(),
            search: String::new(),
            query: Query::default(),
            sought: String::new(),
            input: None,
            message: String::new(),
            is_paused: false,
            items: Items::default(),
            version: None,
        }
    }

    fn resize(&mut self, size: Option<[usize; 2]>) {
        let [columns, rows] = size.unwrap_or([self.style.width + MARGIN, DEFAULT_ROWS]);
        // The minimum width of printed lines does not apply, because the terminal cuts long lines (see `ENTER`).
        self.style.width = columns.saturating_sub(MARGIN).max(1);
        self.rows = rows.saturating_sub(FRAME_ROWS).max(1);
        self.version = None;
    }

    fn is_outdated(&self) -> bool {
        self.version.is_none() || !self.is_paused && self.version != Some(self.page.version())
    }

    /// Collects the items again. A selected row of a list, other than the first, stays selected, and keeps its position
    /// on the screen. If the first row is selected, the selection moves to the new first row.
    fn refresh(&mut self) {
        let selected = self.items.keys.get(self.cursor.line).copied();
        // Read before the items are collected, so that a change in between is drawn with the next frame.
        let version = self.page.version();
        self.items = draw::collect(self);
        self.version = Some(version);
        let place = selected.and_then(|key| self.items.keys.iter().position(|other| *other == key));
        if let Some(place) = place.filter(|_| self.cursor.line > 0) {
            self.cursor.top = (self.cursor.top + place).saturating_sub(self.cursor.line);
            self.cursor.line = place;
        }
        self.select(self.cursor.line);
    }

    /// Selects a line, and scrolls as far as necessary to show it.
    fn select(&mut self, line: usize) {
        self.cursor.line = line.min(self.items.len().saturating_sub(1));
        let first = (self.cursor.line + 1).saturating_sub(self.rows);
        self.cursor.top = self.cursor.top.clamp(first, self.cursor.line);
    }

    fn press(&mut self, key: KeyEvent) -> Action {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_control && key.code == KeyCode::Char('c') {
            return Action::Quit;
        }
        self.message.clear();
        if let Some(mut input) = self.input.take() {
            match key.code {
                KeyCode::Esc => return Action::Stay,
                KeyCode::Enter => {
                    self.find(&input);
                    return Action::Stay;
                }
                KeyCode::Backspace => _ = input.pop(),
                KeyCode::Char('u') if is_control => input.clear(),
                KeyCode::Char(letter) if !is_control => input.push(letter),
                _ => {}
            }
            self.input = Some(input);
            return Action::Stay;
        }
        let line = self.cursor.line;
        match key.code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Up | KeyCode::Char('k') => self.select(line.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.select(line + 1),
            KeyCode::PageUp => self.select(line.saturating_sub(self.rows)),
            KeyCode::PageDown | KeyCode::Char(' ') => self.select(line + self.rows),
            KeyCode::Home | KeyCode::Char('g') => self.select(0),
            KeyCode::End | KeyCode::Char('G') => self.select(usize::MAX),
            KeyCode::Enter | KeyCode::Right => self.open(),
            KeyCode::Esc | KeyCode::Left | KeyCode::Backspace => self.go_back(),
            KeyCode::Char('/') => {
                self.input = Some(if self.is_list() { self.search.clone() } else { String::new() });
            }
            KeyCode::Char('n') => self.find_next(|screen, line| screen.items.has(line, &screen.sought)),
            KeyCode::Char('e') => self.find_next(draw::is_error),
            KeyCode::Char('t') => self.show_list(Place::Traces),
            KeyCode::Char('l') => match self.place {
                Place::Trace(key) => {
                    self.enter(Place::Logs);
                    self.set_search(&format!("trace:{}", describe::id(&key)));
                }
                _ => self.show_list(Place::Logs),
            },
            KeyCode::Char('m') => self.show_list(Place::Metrics),
            KeyCode::Char('s') => self.show_list(Place::Services),
            KeyCode::Char('?') => self.enter(Place::Help),
            KeyCode::Char('p') => self.is_paused = !self.is_paused,
            KeyCode::Char('f') => {
                self.full = !self.full;
                self.version = None;
            }
            KeyCode::Char('y') => {
                let text = draw::text(self);
                self.message = format!("copied {}", describe::size(text.len() as u64));
                return Action::Copy(text);
            }
            _ => {}
        }
        Action::Stay
    }

    /// Returns whether the current place is a list, whose rows the search filters.
    fn is_list(&self) -> bool {
        matches!(self.place, Place::Traces | Place::Logs)
    }

    /// Shows another place. `Esc` returns to the current one.
    fn enter(&mut self, place: Place) {
        if self.place != place {
            self.back.push((self.place, self.cursor, self.search.clone()));
            self.move_to(place, Cursor::default());
        }
    }

    fn show_list(&mut self, place: Place) {
        if self.place != place {
            self.back.clear();
            self.move_to(place, Cursor::default());
        }
    }

    fn move_to(&mut self, place: Place, cursor: Cursor) {
        (self.place, self.cursor) = (place, cursor);
        self.items = Items::default();
        self.refresh();
        // The items were empty, so `refresh` had no selected row to follow, and may have moved the cursor.
        self.cursor = cursor;
        self.select(cursor.line);
    }

    fn go_back(&mut self) {
        match self.back.pop() {
            Some((place, cursor, search)) => {
                if search != self.search {
                    self.set_search(&search);
                }
                self.move_to(place, cursor);
            }
            None if self.is_list() && !self.search.is_empty() => self.set_search(""),
            None => self.show_list(Place::Traces),
        }
    }

    /// Opens the selected item.
    fn open(&mut self) {
        let key = self.items.keys.get(self.cursor.line).copied();
        match (self.place, key) {
            (Place::Traces, Some(key)) => self.enter(Place::Trace(key.to_be_bytes())),
            (Place::Logs, Some(number)) => self.enter(Place::Log(number as u64)),
            (Place::Log(_), _) => match self.items.trace {
                Some(key) => self.enter(Place::Trace(key)),
                None => "the log record belongs to no trace".clone_into(&mut self.message),
            },
            (Place::Services, _) => {
                if let Some(name) = self.items.names.get(self.cursor.line).cloned() {
                    self.enter(Place::Traces);
                    self.set_search(&format!("service:\"{}\"", name.replace('"', "\\\"")));
                }
            }
            _ => {}
        }
    }

    /// Applies the text that was typed: filters a list; in any other place, selects the next line with this text.
    fn find(&mut self, text: &str) {
        if self.is_list() {
            return self.set_search(text);
        }
        self.sought = text.to_lowercase();
        self.find_next(|screen, line| screen.items.has(line, &screen.sought));
    }

    /// Sets the search and shows its matches. If it is invalid, only shows a message.
    fn set_search(&mut self, text: &str) {
        match Query::parse(text) {
            Ok(query) => {
                (self.query, self.search) = (query, text.to_owned());
                self.cursor = Cursor::default();
                self.items = Items::default();
                self.refresh();
            }
            Err(error) => self.message = error,
        }
    }

    /// Selects the next line for which `is_wanted` is true. After the last line, the search continues with the first.
    fn find_next(&mut self, is_wanted: impl Fn(&Self, usize) -> bool) {
        let lines = self.items.len();
        let next = (1..=lines).map(|step| (self.cursor.line + step) % lines);
        match next.into_iter().find(|line| is_wanted(self, *line)) {
            Some(line) => self.select(line),
            None => "nothing found".clone_into(&mut self.message),
        }
    }
}

#[cfg(test)]
mod tests;
