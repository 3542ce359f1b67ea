//! Makes text safe to print, measures its width, and reads durations and lines of input.
//!
//! Text from the network could contain escape sequences. All output passes through [`printable`], so no character can
//! move the cursor, and the width of each text is known.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io::{self, BufRead, Read};
use std::time::Duration;

pub(crate) use standpipe::shared::base64;
use standpipe::shared::{escape_all_but, shows_itself};
use unicode_width::UnicodeWidthChar;

/// Maximum characters of one text. `receive --help` states this number.
const MAX_TEXT_CHARS: usize = 65_536;
/// Maximum width of a text in a row of a list, in terminal cells.
const MAX_BRIEF_WIDTH: usize = 500;

/// Characters that the terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Charset {
    /// Everything.
    Unicode,
    /// Printable ASCII; the rest is escaped.
    Ascii,
}

/// Escapes all characters that could control a terminal, or that are not part of the character set.
///
/// Escape sequences, line ends, and invisible characters that reorder or hide text may arrive from the network. For
/// example, a span name must not be able to overwrite the line above it.
pub(crate) fn printable(text: &str, charset: Charset) -> Cow<'_, str> {
    escape_all_but(
        |c| match charset {
            Charset::Unicode => shows_itself(c),
            Charset::Ascii => c == ' ' || c.is_ascii_graphic(),
        },
        text,
    )
}

/// Returns the name of a file or command for a message, escaped by [`printable`].
pub(crate) fn name(name: impl AsRef<OsStr>) -> String {
    printable(&name.as_ref().to_string_lossy(), Charset::Unicode).into_owned()
}

/// Quotes a word, if a shell needs quotes.
pub(crate) fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// Reads the next line into `line`. Returns its length (0 at the end of the input), and whether `line` is complete.
///
/// The part of a line beyond `max_bytes` is skipped.
pub(crate) fn read_line(
    mut source: impl BufRead,
    max_bytes: u64,
    line: &mut Vec<u8>,
) -> io::Result<(u64, bool)> {
    line.clear();
    // One byte more than allowed, to distinguish a line of exactly `max_bytes` from a longer one.
    let read = (&mut source).take(max_bytes + 1).read_until(b'\n', line)? as u64;
    let is_whole = read <= max_bytes || line.ends_with(b"\n");
    let skipped = if is_whole { 0 } else { source.skip_until(b'\n')? };
    Ok((read + skipped as u64, is_whole))
}

/// Returns the width of `text` in terminal cells.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(cells).sum()
}

/// Cuts `text` to `room` cells. A cut text ends with `ellipsis`, or is empty if the ellipsis does not fit.
pub(crate) fn cut<'a>(text: &'a str, room: usize, ellipsis: &str) -> Cow<'a, str> {
    let before_ellipsis = room.checked_sub(width(ellipsis));
    let (mut taken, mut end) = (0, 0);
    for (start, c) in text.char_indices() {
        // Characters without width count as one cell, so that a name of a thousand combining accents is cut, too.
        taken += cells(c).max(1);
        if taken > room {
            let kept = before_ellipsis.map(|_| format!("{}{ellipsis}", &text[..end]));
            return Cow::Owned(kept.unwrap_or_default());
        }
        if before_ellipsis.is_some_and(|room| taken <= room) {
            end = start + c.len_utf8();
        }
    }
    Cow::Borrowed(text)
}

/// Returns the byte length of the longest prefix of `text` that fits into `room` cells when escaped. The prefix has at
/// least one character, even if that does not fit.
pub(crate) fn end_within(text: &str, room: usize, charset: Charset) -> usize {
    let mut taken = 0;
    let mut ends = text.char_indices().map(|(start, c)| (start, start + c.len_utf8()));
    let past = ends.find(|&(start, end)| {
        taken += width(&printable(&text[start..end], charset)).max(1);
        taken > room && start > 0
    });
    past.map_or(text.len(), |(start, _)| start)
}

/// Cuts `text` to [`MAX_TEXT_CHARS`] and appends the number of characters that are left out. Otherwise, a text could
/// be as long as its request.
pub(crate) fn shorten(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(MAX_TEXT_CHARS) {
        None => Cow::Borrowed(text),
        Some((end, _)) => {
            let (beginning, rest) = text.split_at(end);
            Cow::Owned(format!("{beginning}... ({} characters are not shown)", rest.chars().count()))
        }
    }
}

/// Cuts a text for a row of a list, so that a list of a thousand rows stays small.
pub(crate) fn brief(text: &str) -> String {
    cut(text, MAX_BRIEF_WIDTH, "…").into_owned()
}

/// Parses a duration: a number, with or without decimals, and a unit. A number without a unit is in seconds.
///
/// # Errors
/// Returns a hint if the word is not a duration.
pub(crate) fn duration(word: &str) -> Result<Duration, &'static str> {
    let number = word.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match &word[number.len()..] {
        "ns" => Some(1e-9),
        "us" | "µs" => Some(1e-6),
        "ms" => Some(1e-3),
        "" | "s" => Some(1.0),
        "m" | "min" => Some(60.0),
        "h" => Some(3600.0),
        _ => None,
    };
    let is_decimal = number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let number = number.parse::<f64>().ok().filter(|_| is_decimal);
    let duration =
        number.zip(unit).and_then(|(number, unit)| Duration::try_from_secs_f64(number * unit).ok());
    duration.ok_or("write a time such as 100ms, 1.5s or 5m")
}

/// Returns the width of a character in cells: 0 for control characters, which are escaped before they are drawn.
fn cells(c: char) -> usize {
    c.width().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_the_cursor_is_escaped() {
        assert_eq!(
            printable("a\x1b[2Jb\r\n\tc\u{9b}1A", Charset::Unicode),
            "a\\u{1b}[2Jb\\r\\n\\tc\\u{9b}1A"
        );
    }

    #[test]
    fn what_hides_or_reorders_text_is_escaped() {
        assert_eq!(printable("pay\u{202e}100\u{200b}", Charset::Unicode), "pay\\u{202e}100\\u{200b}");
    }

    #[test]
    fn ascii_shows_no_byte_above_it() {
        assert_eq!(printable("smörgås", Charset::Ascii), "sm\\u{f6}rg\\u{e5}s");
        assert_eq!(printable("smörgås", Charset::Unicode), "smörgås");
    }

    #[test]
    fn a_text_without_end_is_shortened_and_says_by_how_much() {
        let longest = "é".repeat(MAX_TEXT_CHARS);
        assert_eq!(shorten(&longest), longest);
        let shortened = shorten(&format!("{longest}éé")).into_owned();
        assert_eq!(shortened, format!("{longest}... (2 characters are not shown)"));
    }

    #[test]
    fn a_cut_text_fits_and_says_that_it_was_cut() {
        assert_eq!(cut("checkout", 8, "…"), "checkout");
        assert_eq!(cut("checkout", 7, "…"), "checko…");
        assert_eq!(cut("注文を送る", 6, "…"), "注文…");
        assert_eq!(cut("checkout", 1, ".."), "");
        assert!(cut(&"e\u{301}".repeat(1000), 10, "…").chars().count() <= 10);
    }

    #[test]
    fn a_word_is_quoted_where_a_shell_needs_it() {
        assert_eq!(shell_word("/var/spool/shop"), "/var/spool/shop");
        assert_eq!(shell_word("it's here"), r"'it'\''s here'");
    }

    #[test]
    fn times_have_a_number_and_a_unit() {
        for (word, milliseconds) in
            [("100ms", 100), ("1.5s", 1_500), ("5", 5_000), ("2m", 120_000), ("1h", 3_600_000)]
        {
            assert_eq!(duration(word), Ok(Duration::from_millis(milliseconds)), "{word}");
        }
        assert_eq!(duration("3us"), Ok(Duration::from_micros(3)));
        for wrong in ["", "ms", "-1s", "1e999s", "1 s", "NaNs", "5d"] {
            assert_eq!(duration(wrong), Err("write a time such as 100ms, 1.5s or 5m"), "{wrong}");
        }
    }
}
