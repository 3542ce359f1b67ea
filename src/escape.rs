//! Text of messages: numbers with their nouns, and escaping of untrusted text, so that it cannot move a terminal's
//! cursor, end a line, or hide or reorder the text around it.
//!
//! Public only for the command, which also shows text that the library did not produce.

use std::borrow::Cow;

/// Returns whether a terminal prints the character unchanged, without any other effect.
pub fn shows_itself(c: char) -> bool {
    !c.is_control() && !is_invisible(c)
}

/// Replaces every character for which `these` returns false by a Rust escape, such as `\n` or `\u{200b}`.
pub fn escape_all_but(these: impl Fn(char) -> bool, text: &str) -> Cow<'_, str> {
    if text.chars().all(&these) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if these(c) {
            escaped.push(c);
        } else {
            escaped.extend(c.escape_default());
        }
    }
    Cow::Owned(escaped)
}

/// Returns a number with its noun: `1 span`, `3 spans`, `2 batches`.
pub fn count(number: u64, noun: &str) -> String {
    let end = match number {
        1 => "",
        _ if noun.ends_with("ch") || noun.ends_with("ss") => "es",
        _ => "s",
    };
    format!("{number} {noun}{end}")
}

/// Returns at most `max_chars` characters of a text, followed by `...` if there are more.
pub fn beginning(text: String, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Returns whether a character is an invisible formatting character: joiner, direction mark, line separator or tag.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped_and_nothing_else() {
        for (text, shown) in [
            ("wäter 🚰 \"pipe\" \\", "wäter 🚰 \"pipe\" \\"),
            ("a\x1b[2Jb\r\n\tc\u{9b}1A\u{7f}", "a\\u{1b}[2Jb\\r\\n\\tc\\u{9b}1A\\u{7f}"),
            (
                "\u{202a}\u{202e}\u{2066}\u{2069}\u{200e}\u{200f}\u{61c}",
                "\\u{202a}\\u{202e}\\u{2066}\\u{2069}\\u{200e}\\u{200f}\\u{61c}",
            ),
            ("\u{2028}\u{2029}\u{e0041}", "\\u{2028}\\u{2029}\\u{e0041}"),
        ] {
            assert_eq!(escape_all_but(shows_itself, text), shown);
        }
    }
}
