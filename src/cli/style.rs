//! Colors, character set and width of the output, and lines that apply them.

use std::collections::HashSet;

use clap::ValueEnum;

use super::terminal::TerminalInfo;
use super::text::{self, Charset};

const DEFAULT_WIDTH: usize = 100;
/// Width that a waterfall needs without its bars. On a narrower terminal, lines wrap.
const MIN_WIDTH: usize = 44;
const MAX_WIDTH: usize = 240;

/// The value of `--color`.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum ColorChoice {
    // This is not a doc comment, because clap would show a doc comment in the help. Colors are used on a terminal,
    // unless it is dumb or `NO_COLOR` is set.
    #[default]
    Auto,
    Always,
    Never,
}

/// Returns the width of lines on a terminal with this many columns.
fn width_in(columns: usize) -> usize {
    columns.clamp(MIN_WIDTH, MAX_WIDTH)
}

/// Settings that all drawings share.
#[derive(Debug, Clone)]
pub(crate) struct Style {
    pub(crate) color: bool,
    pub(crate) charset: Charset,
    /// Width of a line in cells.
    pub(crate) width: usize,
}

impl Style {
    /// Decides the style. The user's options take precedence over the properties of the terminal.
    pub(crate) fn decide(choice: ColorChoice, ascii: bool, terminal: &TerminalInfo) -> Self {
        let color = match choice {
            ColorChoice::Auto => terminal.wants_color(),
            ColorChoice::Always => true,
            ColorChoice::Never => false,
        };
        let charset = if ascii { Charset::Ascii } else { terminal.charset() };
        Self { color, charset, width: width_in(terminal.columns.unwrap_or(DEFAULT_WIDTH)) }
    }

    /// Adapts the width to a terminal with this many columns.
    pub(crate) fn set_columns(&mut self, columns: usize) {
        self.width = width_in(columns);
    }

    /// Returns a shape, or its ASCII form if the character set is ASCII.
    pub(crate) fn glyph(&self, shape: &'static str) -> &'static str {
        let ascii_form = ASCII_FORMS.iter().find(|(unicode, _)| *unicode == shape).map(|(_, ascii)| *ascii);
        ascii_form.filter(|_| self.charset == Charset::Ascii).unwrap_or(shape)
    }

    /// Returns the width of `text` when escaped.
    pub(crate) fn width_of(&self, text: &str) -> usize {
        text::width(&text::printable(text, self.charset))
    }

    pub(crate) fn line(&self) -> Line<'_> {
        Line { style: self, text: String::new(), width: 0, gap: 0 }
    }

    /// Returns a line with one text, cut to the width.
    pub(crate) fn line_of(&self, ink: Ink, text: &str) -> String {
        let mut line = self.line();
        line.put_rest(ink, text);
        line.finish()
    }

    /// Returns a line with texts on the left and on the right, and a horizontal rule between them.
    pub(crate) fn ruled(&self, left: &[(Ink, &str)], right: &[(Ink, &str)]) -> String {
        let mut line = self.line();
        let right_width: usize = right.iter().map(|(_, text)| self.width_of(text)).sum();
        let gap = usize::from(right_width > 0);
        for (ink, text) in left.iter().filter(|(_, text)| !text.is_empty()) {
            // The texts on the right take precedence: the texts on the left share the rest of the line.
            let room = line.room().saturating_sub(right_width + 2 * gap);
            if room > 0 {
                line.put_within(*ink, text, room).space(1);
            }
        }
        line.put(Ink::FAINT, &self.glyph("─").repeat(line.room().saturating_sub(gap + right_width)))
            .space(gap);
        for (ink, text) in right {
            line.put_rest(*ink, text);
        }
        line.finish()
    }
}

/// Shapes and their forms in ASCII.
const ASCII_FORMS: [(&str, &str); 16] = [
    ("├─ ", "|- "),
    ("╰─ ", "`- "),
    ("│  ", "|  "),
    ("─", "-"),
    ("╷", "|"),
    ("◆", "*"),
    ("↗", "->"),
    ("✗", "x"),
    ("×", "x"),
    ("■", "#"),
    ("█", "="),
    ("▸", ">"),
    ("✓", "ok"),
    ("…", ".."),
    (" · ", ", "),
    ("µ", "u"),
];

/// Color and attributes of a piece of text.
///
/// The colors are readable on light and dark backgrounds: their contrast with white and with black is similar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Ink {
    foreground: Option<u8>,
    background: Option<u8>,
    bold: bool,
    reversed: bool,
}

impl Ink {
    pub(crate) const PLAIN: Self = Self { foreground: None, background: None, bold: false, reversed: false };
    pub(crate) const FAINT: Self = Self::colored(244);
    pub(crate) const GOOD: Self = Self::colored(28);
    pub(crate) const WARNING: Self = Self::colored(136);
    pub(crate) const BAD: Self = Self::colored(167);
    /// Colors of services, in the order of their appearance. After the last color, the first one is used again.
    const SERVICES: [Self; 4] = [Self::colored(67), Self::colored(30), Self::colored(97), Self::colored(130)];

    const fn colored(color: u8) -> Self {
        Self { foreground: Some(color), ..Self::PLAIN }
    }

    pub(crate) fn of_service(number: usize) -> Self {
        Self::SERVICES[number % Self::SERVICES.len()]
    }

    /// Returns an ink that depends on the name alone, for lists without a palette.
    pub(crate) fn of_name(service: &str) -> Self {
        Self::of_service(service.bytes().map(usize::from).sum())
    }

    pub(crate) const fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    /// Swaps foreground and background: the cell is filled, and the shape is cut out.
    pub(crate) const fn reversed(self) -> Self {
        Self { reversed: true, ..self }
    }

    /// Returns white text on a background of this ink's color.
    pub(crate) const fn as_ground(self) -> Self {
        Self { foreground: Some(231), background: self.foreground, ..self }
    }

    fn wrap(self, text: &str, out: &mut String) {
        let mut codes = Vec::new();
        codes.extend(self.bold.then(|| "1".to_owned()));
        codes.extend(self.reversed.then(|| "7".to_owned()));
        codes.extend(self.foreground.map(|color| format!("38;5;{color}")));
        codes.extend(self.background.map(|color| format!("48;5;{color}")));
        if codes.is_empty() {
            out.push_str(text);
        } else {
            out.push_str(&format!("\x1b[{}m{text}\x1b[0m", codes.join(";")));
        }
    }
}

/// Colors of services, in the order of their first use.
#[derive(Debug, Default)]
pub(crate) struct Palette {
    services: Vec<String>,
    /// Resources and scopes that were drawn, each with its service.
    origins: HashSet<String>,
}

impl Palette {
    /// Maximum number of services with a color.
    const MAX_SERVICES: usize = 256;
    /// Maximum number of resources and scopes that are remembered. At this number, all of them are forgotten.
    const MAX_ORIGINS: usize = 4096;

    /// Remembers a resource or a scope. Returns true if it is new, and so has to be drawn.
    pub(crate) fn announce(&mut self, origin: &str) -> bool {
        if self.origins.len() == Self::MAX_ORIGINS {
            // Evicting only the least recently used entry would require storing the order of use.
            self.origins.clear();
        }
        self.origins.insert(origin.to_owned())
    }

    pub(crate) fn assign(&mut self, service: &str) {
        if self.place(service).is_none() && self.services.len() < Self::MAX_SERVICES {
            self.services.push(service.to_owned());
        }
    }

    /// Returns the index of a service, or `None` if it has no color.
    pub(crate) fn place(&self, service: &str) -> Option<usize> {
        self.services.iter().position(|known| known == service)
    }

    pub(crate) fn ink(&self, service: &str) -> Ink {
        self.place(service).map_or(Ink::PLAIN, Ink::of_service)
    }

    /// Returns a service's mark of one cell: a colored square or, if colors are off, a letter; `?` if it has no color.
    pub(crate) fn mark(&self, service: &str, style: &Style) -> String {
        match self.place(service) {
            None => "?".to_owned(),
            Some(_) if style.color => style.glyph("■").to_owned(),
            Some(place) => char::from(b'A' + (place % 26) as u8).to_string(),
        }
    }
}

/// A line that is written from left to right and knows its width.
///
/// All drawn text passes through this type, which escapes characters that could control the terminal.
pub(crate) struct Line<'a> {
    pub(crate) style: &'a Style,
    text: String,
    width: usize,
    /// Pending spaces. They are written before the next text, so that no line ends with spaces.
    gap: usize,
}

impl Line<'_> {
    pub(crate) fn put(&mut self, ink: Ink, text: &str) -> &mut Self {
        let text = text::printable(text, self.style.charset);
        self.write(ink, &text);
        self
    }

    /// Writes a text, cut to `room` cells.
    pub(crate) fn put_within(&mut self, ink: Ink, text: &str, room: usize) -> &mut Self {
        let text = text::printable(text, self.style.charset);
        self.write(ink, &text::cut(&text, room, self.style.glyph("…")));
        self
    }

    /// Writes a text, cut to the rest of the line.
    pub(crate) fn put_rest(&mut self, ink: Ink, text: &str) -> &mut Self {
        self.put_within(ink, text, self.room())
    }

    pub(crate) fn space(&mut self, cells: usize) -> &mut Self {
        self.gap += cells;
        self.width += cells;
        self
    }

    pub(crate) fn pad_to(&mut self, column: usize) -> &mut Self {
        self.space(column.saturating_sub(self.width))
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Returns the number of free cells.
    pub(crate) fn room(&self) -> usize {
        self.style.width.saturating_sub(self.width)
    }

    pub(crate) fn finish(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    fn write(&mut self, ink: Ink, text: &str) {
        // Trailing spaces are added to the gap, which is written only before further text, so no line ends in spaces.
        let shown = text.trim_end_matches(' ');
        if !shown.is_empty() {
            self.text.extend(std::iter::repeat_n(' ', std::mem::take(&mut self.gap)));
            self.width += text::width(shown);
            match self.style.color {
                true => ink.wrap(shown, &mut self.text),
                false => self.text.push_str(shown),
            }
        }
        self.space(text.len() - shown.len());
    }
}

/// Returns a style with Unicode, without colors, of `width` cells.
pub(crate) fn plain_style(width: usize) -> Style {
    Style { color: false, charset: Charset::Unicode, width }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terminal() -> TerminalInfo {
        TerminalInfo {
            is_terminal: true,
            takes_escapes: true,
            locale: Some("sv_SE.UTF-8".to_owned()),
            term: Some("xterm-256color".to_owned()),
            ..TerminalInfo::default()
        }
    }

    #[test]
    fn colors_are_for_terminals_that_did_not_refuse_them() {
        let colored = |terminal: &TerminalInfo| Style::decide(ColorChoice::Auto, false, terminal).color;
        assert!(colored(&terminal()));
        assert!(!colored(&TerminalInfo { is_terminal: false, ..terminal() }));
        assert!(!colored(&TerminalInfo { takes_escapes: false, ..terminal() }));
        assert!(!colored(&TerminalInfo { no_color: Some("1".to_owned()), ..terminal() }));
        assert!(!colored(&TerminalInfo { term: Some("dumb".to_owned()), ..terminal() }));
    }

    #[test]
    fn the_option_outranks_the_surroundings() {
        let refused = TerminalInfo { no_color: Some("1".to_owned()), is_terminal: false, ..terminal() };
        assert!(Style::decide(ColorChoice::Always, false, &refused).color);
        assert!(!Style::decide(ColorChoice::Never, false, &terminal()).color);
    }

    #[test]
    fn a_locale_that_is_not_utf_8_gets_ascii() {
        let charset = |locale: Option<&str>, ascii| {
            let terminal = TerminalInfo { locale: locale.map(str::to_owned), ..terminal() };
            Style::decide(ColorChoice::Auto, ascii, &terminal).charset
        };
        assert_eq!(charset(Some("C.utf8"), false), Charset::Unicode);
        assert_eq!(charset(Some("C.utf8"), true), Charset::Ascii);
        if cfg!(not(windows)) {
            assert_eq!(charset(Some("de_DE.ISO-8859-1"), false), Charset::Ascii);
            assert_eq!(charset(None, false), Charset::Ascii);
        }
    }

    #[test]
    fn an_absurd_width_is_brought_within_bounds() {
        let width = |columns: Option<usize>| {
            let terminal = TerminalInfo { columns, ..terminal() };
            Style::decide(ColorChoice::Auto, false, &terminal).width
        };
        assert_eq!(width(Some(132)), 132);
        assert_eq!(width(Some(3)), MIN_WIDTH);
        assert_eq!(width(Some(99_999)), MAX_WIDTH);
        assert_eq!(width(None), DEFAULT_WIDTH);
    }

    #[test]
    fn a_line_knows_its_width_without_the_colors() {
        let style = Style { color: true, ..plain_style(80) };
        let mut line = style.line();
        line.put(Ink::BAD.bold(), "no").pad_to(8).put(Ink::PLAIN, "12").space(3);
        assert_eq!(line.width(), 13);
        assert_eq!(line.finish(), "\x1b[1;38;5;167mno\x1b[0m      12");
    }
}
