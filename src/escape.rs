//! Text that came from elsewhere, made fit for a line that people read.

use std::borrow::Cow;

/// `text` with every character escaped that could do more than show itself: line ends, escape sequences, and the
/// invisible characters that reorder or hide what stands beside them.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    if text.chars().all(shows_itself) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if shows_itself(c) {
            escaped.push(c);
        } else {
            escaped.extend(c.escape_default());
        }
    }
    Cow::Owned(escaped)
}

fn shows_itself(c: char) -> bool {
    !c.is_control() && !is_invisible(c)
}

/// Formatting characters without a shape of their own: joiners, direction marks, tags.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_the_cursor_or_reorders_text_is_escaped() {
        assert_eq!(escaped("a\x1b[2Jb\r\n\tc\u{9b}1A"), "a\\u{1b}[2Jb\\r\\n\\tc\\u{9b}1A");
        assert_eq!(escaped("pay\u{202e}100\u{200b}"), "pay\\u{202e}100\\u{200b}");
        assert!(matches!(escaped("smörgås"), Cow::Borrowed("smörgås")));
    }
}
