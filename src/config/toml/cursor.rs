//! The words of TOML: where keys, strings and lines end. Nothing is judged here; that is the parser's part.

use std::ops::Range;

/// Tables, arrays and parts of a key within each other; far more than any configuration needs.
pub(super) const MAX_DEPTH: usize = 32;

/// A longer key is none, so that naming it in messages stays cheap.
const MAX_KEY_BYTES: usize = 4_096;

/// A place in a document that only moves forward.
#[derive(Debug, Clone)]
pub(super) struct Cursor<'t> {
    text: &'t str,
    at: usize,
}

/// The parts of a dotted key, as they stand in the text.
#[derive(Debug, Default)]
pub(super) struct DottedKey {
    /// At most one more than [`MAX_DEPTH`]: then the key is too deep, however long it is.
    pub(super) parts: Vec<Range<usize>>,
    /// Whether it ended after a part; otherwise it stopped at something that no key can hold.
    pub(super) is_whole: bool,
}

impl<'t> Cursor<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(super) fn starts_with(&self, token: &str) -> bool {
        self.text[self.at..].starts_with(token)
    }

    /// Moves past the token if it is next.
    pub(super) fn take(&mut self, token: &str) -> bool {
        let is_next = self.starts_with(token);
        if is_next {
            self.at += token.len();
        }
        is_next
    }

    /// Moves past one character, whatever it is.
    pub(super) fn skip_character(&mut self) {
        self.at += self.text[self.at..].chars().next().map_or(0, char::len_utf8);
    }

    pub(super) fn skip_spaces(&mut self) {
        self.skip_while(|byte| matches!(byte, b' ' | b'\t'));
    }

    /// Moves past white space, line breaks and comments.
    pub(super) fn skip_blank(&mut self) {
        loop {
            self.skip_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
            if self.peek() != Some(b'#') {
                return;
            }
            self.skip_line();
        }
    }

    /// Moves to the line break as the parser does, which takes a quote for the start of a string wherever it stands;
    /// `false` if such a string runs to the end of the document.
    pub(super) fn skip_rest_of_line(&mut self) -> bool {
        loop {
            self.skip_while(|byte| !matches!(byte, b'#' | b'\n' | b'"' | b'\''));
            match self.peek() {
                Some(b'"' | b'\'') if !self.string() => return false,
                Some(b'"' | b'\'') => {}
                _ => break,
            }
        }
        self.skip_line();
        true
    }

    /// Moves to the line break, or to the end.
    pub(super) fn skip_line(&mut self) {
        self.skip_while(|byte| byte != b'\n');
    }

    pub(super) fn skip_all(&mut self) {
        self.at = self.text.len();
    }

    /// Whether nothing but white space and a comment remains of the line.
    pub(super) fn line_is_over(&self) -> bool {
        let mut rest = self.clone();
        rest.skip_spaces();
        matches!(rest.peek(), None | Some(b'#' | b'\n')) || rest.starts_with("\r\n")
    }

    /// Reads a key and the spaces after it.
    pub(super) fn key(&mut self) -> DottedKey {
        let mut key = DottedKey::default();
        let key_start = self.at;
        loop {
            self.skip_spaces();
            let start = self.at;
            match self.peek() {
                Some(b'"' | b'\'') => {
                    if !self.string_in_line() {
                        return key;
                    }
                }
                _ => self.skip_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')),
            }
            if self.at == start || self.at - key_start > MAX_KEY_BYTES {
                return key;
            }
            if key.parts.len() <= MAX_DEPTH {
                key.parts.push(start..self.at);
            }
            self.skip_spaces();
            if !self.take(".") {
                key.is_whole = true;
                return key;
            }
        }
    }

    /// Moves past a string; `false` if it runs to the end of the document.
    pub(super) fn string(&mut self) -> bool {
        let Some(quote) = ["\"\"\"", "'''"].into_iter().find(|quote| self.starts_with(quote)) else {
            self.string_in_line();
            return true;
        };
        self.at += quote.len();
        while self.peek().is_some() {
            if self.take(quote) {
                // up to two more quotes may stand right before the closing ones
                let mut extra = 0;
                while extra < 2 && self.take(&quote[..1]) {
                    extra += 1;
                }
                return true;
            }
            self.skip_string_character(quote);
        }
        false
    }

    /// Moves past a string of one line; `false` if it is not closed there.
    fn string_in_line(&mut self) -> bool {
        let quote = if self.peek() == Some(b'\'') { "'" } else { "\"" };
        self.at += quote.len();
        while !matches!(self.peek(), None | Some(b'\n')) {
            if self.take(quote) {
                return true;
            }
            self.skip_string_character(quote);
        }
        false
    }

    fn skip_string_character(&mut self, quote: &str) {
        if quote.starts_with('"') && self.take("\\") && self.peek() == Some(b'\n') {
            return;
        }
        self.skip_character();
    }

    /// Moves past a number, a boolean, a date or anything else that ends where a value in a list ends.
    pub(super) fn scalar(&mut self) {
        self.skip_while(|byte| !matches!(byte, b',' | b']' | b'}' | b'#' | b'\n' | b'"' | b'\''));
    }

    /// Moves past a value of any depth without looking at what is in it; `false` if it runs to the end of the
    /// document.
    pub(super) fn skip_nested(&mut self) -> bool {
        let mut depth = 0_usize;
        self.skip_blank();
        while let Some(byte) = self.peek() {
            match byte {
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if !matches!(byte, b'"' | b'\'') {
                self.skip_character();
            } else if !self.string() {
                return false;
            }
            if depth == 0 {
                return true;
            }
            self.skip_blank();
        }
        false
    }

    fn skip_while(&mut self, wanted: impl Fn(u8) -> bool) {
        let rest = &self.text.as_bytes()[self.at..];
        // stays on a character boundary: what is wanted is either ASCII only, or includes all that is not ASCII
        self.at += rest.iter().position(|&byte| !wanted(byte)).unwrap_or(rest.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest_after(text: &str, walk: impl FnOnce(&mut Cursor<'_>)) -> &str {
        let mut cursor = Cursor::new(text);
        walk(&mut cursor);
        &text[cursor.at()..]
    }

    #[test]
    fn a_string_ends_at_its_own_quotes_only() {
        for (text, rest) in [
            (r#""a" b"#, " b"),
            (r#""" b"#, " b"),
            (r#""a\\"b"#, "b"),
            (r#""a\"b" c"#, " c"),
            (r"'a\' b", " b"),
            ("'a\"' b", " b"),
            ("\"\"\"a\n\"b\" \\\"\"\" '\"\"\" c", " c"),
            ("\"\"\"a\"\"\"\"\" c", " c"),
            ("\"\"\"a\\\n b\"\"\" c", " c"),
            ("'''a\n''b''' c", " c"),
            ("\"a\nb = 1", "\nb = 1"),
            ("\"a\\\nb = 1", "\nb = 1"),
            ("\"\"\"a\n", ""),
            ("'ü'ü", "ü"),
        ] {
            assert_eq!(rest_after(text, |cursor| _ = cursor.string()), rest, "{text:?}");
        }
    }

    #[test]
    fn a_key_is_read_in_parts() {
        for (text, parts, is_whole) in [
            ("a = 1", vec!["a"], true),
            ("a.b-c . \"d.e\".'f' = 1", vec!["a", "b-c", "\"d.e\"", "'f'"], true),
            ("a", vec!["a"], true),
            ("a. = 1", vec!["a"], false),
            (".a", vec![], false),
            ("= 1", vec![], false),
            ("\"a", vec![], false),
            ("a.\"b", vec!["a"], false),
            ("ä", vec![], false),
            ("", vec![], false),
        ] {
            let key = Cursor::new(text).key();
            let found: Vec<&str> = key.parts.iter().map(|part| &text[part.clone()]).collect();
            assert_eq!((found, key.is_whole), (parts, is_whole), "{text:?}");
        }
    }

    #[test]
    fn nesting_is_skipped_as_a_whole() {
        for (text, rest, is_closed) in [
            ("[1, [2, ']'], {a = \"]\"}] x", " x", true),
            ("[ # ]\n] x", " x", true),
            ("{a = [\n{}]} x", " x", true),
            ("'''a\n''' x", " x", true),
            ("[[[", "", false),
            ("[']\n", "", false),
            ("['''\n]", "", false),
            ("'''a\n", "", false),
        ] {
            let walk = |cursor: &mut Cursor<'_>| assert_eq!(cursor.skip_nested(), is_closed, "{text:?}");
            assert_eq!(rest_after(text, walk), rest, "{text:?}");
        }
    }
}
