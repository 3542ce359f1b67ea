//! How does a string become safe to print? Nothing in it can move the cursor, and its width is known.
//!
//! Also: which known name a misspelt one stands for, which time a word like `30s`, and what a line of input is.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io::{self, BufRead, Read};
use std::time::Duration;

use standpipe::escape::{escape_all_but, shows_itself};

/// Characters of one text that are shown; `receive --help` states this number.
const LONGEST: usize = 65_536;

/// The characters the terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Charset {
    /// Everything.
    Unicode,
    /// Printable ASCII; the rest is escaped.
    Ascii,
}

/// `text` with every character escaped that could do more than show itself.
///
/// Escape sequences, line ends, and the invisible characters that reorder or hide text all arrive
/// from the network; a span name must not be able to rewrite the line above it.
pub(crate) fn printable(text: &str, charset: Charset) -> Cow<'_, str> {
    escape_all_but(
        |c| match charset {
            Charset::Unicode => shows_itself(c),
            Charset::Ascii => c == ' ' || c.is_ascii_graphic(),
        },
        text,
    )
}

/// Returns the name of a file or command as it may be printed, with every character escaped that could do more than show itself.
pub(crate) fn name(name: impl AsRef<OsStr>) -> String {
    printable(&name.as_ref().to_string_lossy(), Charset::Unicode).into_owned()
}

/// Reads the next line, and returns how many bytes it has, 0 if there is none, and whether `line` has all of it: what is
/// longer than `longest` is passed over.
pub(crate) fn read_line(
    mut source: impl BufRead,
    longest: u64,
    line: &mut Vec<u8>,
) -> io::Result<(u64, bool)> {
    line.clear();
    let read = (&mut source).take(longest + 1).read_until(b'\n', line)? as u64;
    let is_whole = read <= longest || line.ends_with(b"\n");
    let passed_over = if is_whole { 0 } else { source.skip_until(b'\n')? };
    Ok((read + passed_over as u64, is_whole))
}

/// How many terminal cells `text` takes.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(cells).sum()
}

/// The longest beginning of `text` that fits into `room` cells, ended by `ellipsis` if something is left out.
pub(crate) fn cut<'a>(text: &'a str, room: usize, ellipsis: &str) -> Cow<'a, str> {
    if fits(text, room) {
        return Cow::Borrowed(text);
    }
    let Some(room) = room.checked_sub(width(ellipsis)) else { return Cow::Borrowed("") };
    let mut taken = 0;
    let mut kept = String::new();
    // A character of no width takes a cell here, so that a name of a thousand accents is cut as well.
    for c in text.chars() {
        taken += cells(c).max(1);
        if taken > room {
            break;
        }
        kept.push(c);
    }
    kept.push_str(ellipsis);
    Cow::Owned(kept)
}

/// Where the beginning of `text` ends that fits into `room` cells once it is printable. It has one character at least.
pub(crate) fn end_within(text: &str, room: usize, charset: Charset) -> usize {
    let mut taken = 0;
    let mut ends = text.char_indices().map(|(start, c)| (start, start + c.len_utf8()));
    let past = ends.find(|&(start, end)| {
        taken += width(&printable(&text[start..end], charset)).max(1);
        taken > room && start > 0
    });
    past.map_or(text.len(), |(start, _)| start)
}

/// The beginning of `text`, with the number of characters that are left out: nothing else bounds the size of a record's text.
pub(crate) fn shorten(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(LONGEST) {
        None => Cow::Borrowed(text),
        Some((end, _)) => {
            let (beginning, rest) = text.split_at(end);
            Cow::Owned(format!("{beginning}... ({} characters are not shown)", rest.chars().count()))
        }
    }
}

/// The time in `500ms`, `30s`, `5m` or `2h`; a number alone is in seconds.
pub(crate) fn duration(word: &str) -> Option<Duration> {
    let digits = word.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let milliseconds = match &word[digits.len()..] {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    Some(Duration::from_millis(u64::from(digits.parse::<u32>().ok()?) * milliseconds))
}

fn fits(text: &str, room: usize) -> bool {
    let mut taken = 0;
    text.chars().all(|c| {
        taken += cells(c).max(1);
        taken <= room
    })
}

/// The cells of one character: the common blocks of the Unicode width tables, not all of them.
fn cells(c: char) -> usize {
    match c {
        '\u{300}'..='\u{36f}'
        | '\u{1ab0}'..='\u{1aff}'
        | '\u{20d0}'..='\u{20ff}'
        | '\u{fe00}'..='\u{fe0f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{303e}'
        | '\u{3041}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1f64f}'
        | '\u{1f680}'..='\u{1f6ff}'
        | '\u{1f900}'..='\u{1f9ff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

/// `unknown option "--colour"; did you mean "--color"?`
pub(crate) fn unknown(what: &str, word: &str, known: &[&str]) -> String {
    match closest(word, known) {
        Some(meant) => format!("unknown {what} {word:?}; did you mean {meant:?}?"),
        None => format!("unknown {what} {word:?}"),
    }
}

/// The same for names that are few enough to list them.
pub(crate) fn unknown_of(what: &str, word: &str, known: &[&str]) -> String {
    let list = if closest(word, known).is_none() {
        format!("; there are {}", known.join(", "))
    } else {
        String::new()
    };
    unknown(what, word, known) + &list
}

/// The known name that is within two edits of `word`.
fn closest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    // Nothing this long is a typing mistake, and the distance takes the square of the length.
    let word: Vec<char> = word.chars().take(32).collect();
    let near = known.iter().map(|&candidate| (distance(&word, candidate), candidate));
    near.filter(|&(distance, candidate)| distance <= candidate.len().div_ceil(3))
        .min()
        .map(|(_, found)| found)
}

/// How many letters have to be added, removed or replaced.
fn distance(word: &[char], candidate: &str) -> usize {
    let mut row: Vec<usize> = (0..=word.len()).collect();
    for (number, letter) in candidate.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = number + 1;
        for (column, &other) in word.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[word.len()]
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
        let longest = "é".repeat(LONGEST);
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
    fn a_slip_is_mended_and_anything_else_left_alone() {
        let known = ["stalwart", "tracetest"];
        assert_eq!(closest("stalwert", &known), Some("stalwart"));
        assert_eq!(closest("tractest", &known), Some("tracetest"));
        assert_eq!(closest("prometheus", &known), None);
        assert_eq!(closest(&"x".repeat(1_000_000), &known), None);
    }
}
