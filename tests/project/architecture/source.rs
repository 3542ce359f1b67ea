//! Reads a source file far enough to find its length and the paths that it names. Macros are not expanded and types are
//! not resolved: a path counts where it is written.

/// A source file without its comments, literals and test modules.
pub(crate) struct Source<'a> {
    tokens: Vec<Token<'a>>,
    /// Lines, without those of test modules.
    pub(crate) length: usize,
}

/// A path as it is written: `use a::{b, c}` names two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedPath<'a> {
    pub(crate) line: usize,
    pub(crate) segments: Vec<&'a str>,
    /// The modules that enclose the path in the same file; `super` is relative to them.
    pub(crate) within: Vec<&'a str>,
}

impl<'a> NamedPath<'a> {
    /// Returns the name that an import of this path introduces; `None` if the path belongs to another crate.
    pub(crate) fn brings_in(&self) -> Option<&'a str> {
        let named = self.segments.strip_suffix(&["self"]).unwrap_or(&self.segments);
        let is_ours = matches!(*self.segments.first()?, "crate" | "self" | "super");
        if is_ours { named.last().copied() } else { None }
    }
}

#[derive(Debug, Clone, Copy)]
struct Token<'a> {
    text: &'a str,
    line: usize,
}

impl<'a> Source<'a> {
    pub(crate) fn read(text: &'a str) -> Self {
        let (tokens, test_lines) = without_test_modules(tokenize(text));
        Self { tokens, length: text.lines().count() - test_lines }
    }

    /// Every `use`d path, and every other path of two segments or more.
    pub(crate) fn paths(&self) -> Vec<NamedPath<'a>> {
        let mut paths = Vec::new();
        let mut open_modules: Vec<(usize, &str)> = Vec::new();
        let mut depth = 0;
        let mut at = 0;
        while at < self.tokens.len() {
            let within = || open_modules.iter().map(|(_, name)| *name).collect::<Vec<_>>();
            match self.text(at) {
                "mod" if self.text(at + 2) == "{" => {
                    depth += 1;
                    open_modules.push((depth, self.text(at + 1)));
                    at += 3;
                }
                "{" => {
                    depth += 1;
                    at += 1;
                }
                "}" => {
                    open_modules.retain(|(opened_at, _)| *opened_at < depth);
                    depth = depth.saturating_sub(1);
                    at += 1;
                }
                // `use<'a>` among bounds imports nothing.
                "use" if self.text(at + 1) != "<" => {
                    at = self.use_tree(at + 1, &[], &within(), &mut paths);
                }
                text if is_identifier(text) && self.text(at + 1) == "::" && !self.is_member(at) => {
                    let (segments, next) = self.plain_path(at);
                    paths.push(NamedPath { line: self.tokens[at].line, segments, within: within() });
                    at = next;
                }
                _ => at += 1,
            }
        }
        paths
    }

    /// The names of the modules that this file declares.
    pub(crate) fn modules(&self) -> Vec<&'a str> {
        self.tokens.windows(2).filter(|pair| pair[0].text == "mod").map(|pair| pair[1].text).collect()
    }

    /// The line of the first item that is neither `mod name;` nor `use …;`.
    pub(crate) fn first_logic(&self) -> Option<usize> {
        let mut at = 0;
        while at < self.tokens.len() {
            let line = self.tokens[at].line;
            if self.text(at) == "#" {
                at = end_of_attribute(&self.tokens, at);
                continue;
            }
            at = end_of_visibility(&self.tokens, at);
            if self.text(at) == "}" {
                at += 1;
                continue;
            }
            if [self.text(at), self.text(at + 2)] == ["mod", "{"] {
                // Looks into an inline module, because it may contain only documentation and re-exports.
                at += 3;
                continue;
            }
            let is_mod_or_use =
                self.text(at) == "use" || (self.text(at) == "mod" && self.text(at + 2) == ";");
            if !is_mod_or_use {
                return Some(line);
            }
            while at < self.tokens.len() && self.text(at) != ";" {
                at += 1;
            }
            at += 1;
        }
        None
    }

    /// Adds the paths of one `use` tree to `paths`; returns where the tree ends.
    fn use_tree(
        &self,
        start: usize,
        prefix: &[&'a str],
        within: &[&'a str],
        paths: &mut Vec<NamedPath<'a>>,
    ) -> usize {
        let mut segments = prefix.to_vec();
        let mut at = start;
        loop {
            match self.text(at) {
                "::" => at += 1,
                "{" => {
                    at += 1;
                    while !matches!(self.text(at), "}" | "") {
                        at = self.use_tree(at, &segments, within, paths);
                        if self.text(at) == "," {
                            at += 1;
                        }
                    }
                    return at + 1;
                }
                "as" => at += 2,
                text if is_identifier(text) || text == "*" => {
                    segments.push(text);
                    at += 1;
                }
                _ => break,
            }
        }
        if let Some(token) = self.tokens.get(start) {
            paths.push(NamedPath { line: token.line, segments, within: within.to_vec() });
        }
        // Always advances, so that a malformed tree cannot cause an endless loop.
        at.max(start + 1)
    }

    fn plain_path(&self, start: usize) -> (Vec<&'a str>, usize) {
        let mut segments = vec![self.text(start)];
        let mut at = start + 1;
        while self.text(at) == "::" && is_identifier(self.text(at + 1)) {
            segments.push(self.text(at + 1));
            at += 2;
        }
        (segments, at)
    }

    /// `.name::<T>()` is a method, whatever its name.
    fn is_member(&self, at: usize) -> bool {
        at > 0 && self.text(at - 1) == "."
    }

    fn text(&self, at: usize) -> &'a str {
        text(&self.tokens, at)
    }
}

/// Removes `#[cfg(test)] mod …`. Returns the number of removed lines.
fn without_test_modules(tokens: Vec<Token<'_>>) -> (Vec<Token<'_>>, usize) {
    let mut kept = Vec::with_capacity(tokens.len());
    let mut test_lines = 0;
    let mut at = 0;
    while at < tokens.len() {
        match end_of_test_module(&tokens, at) {
            Some(end) => {
                test_lines += tokens[end - 1].line - tokens[at].line + 1;
                at = end;
            }
            None => {
                kept.push(tokens[at]);
                at += 1;
            }
        }
    }
    (kept, test_lines)
}

/// Returns the end of the test module that begins at `at`, if one begins there.
fn end_of_test_module(tokens: &[Token<'_>], start: usize) -> Option<usize> {
    if text(tokens, start) != "#" {
        return None;
    }
    const FOR_TESTS: [&[&str]; 2] =
        [&["#", "[", "cfg", "(", "test", ")"], &["#", "[", "cfg", "(", "all", "(", "test"]];
    let is_for_tests = |begin: &&[&str]| begin.iter().enumerate().all(|(i, t)| text(tokens, start + i) == *t);
    FOR_TESTS.iter().find(|begin| is_for_tests(begin))?;

    let mut at = start;
    while text(tokens, at) == "#" {
        at = end_of_attribute(tokens, at);
    }
    at = end_of_visibility(tokens, at);
    if text(tokens, at) != "mod" {
        return None;
    }
    match text(tokens, at + 2) {
        "{" => Some(end_of_group(tokens, at + 2)),
        _ => Some((at + 3).min(tokens.len())),
    }
}

fn end_of_attribute(tokens: &[Token<'_>], at: usize) -> usize {
    let bracket = if text(tokens, at + 1) == "!" { at + 2 } else { at + 1 };
    end_of_group(tokens, bracket)
}

fn end_of_visibility(tokens: &[Token<'_>], at: usize) -> usize {
    match (text(tokens, at), text(tokens, at + 1)) {
        ("pub", "(") => end_of_group(tokens, at + 1),
        ("pub", _) => at + 1,
        _ => at,
    }
}

/// Returns the position after the bracket that closes the one at `open`.
fn end_of_group(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth <= 1 => return at + 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
    }
    tokens.len()
}

fn text<'a>(tokens: &[Token<'a>], at: usize) -> &'a str {
    tokens.get(at).map_or("", |token| token.text)
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Returns words, `::`, `->`, `=>` and single characters, without comments and literals.
///
/// All tests together read the source several times, without optimization. So the loop handles the most frequent bytes
/// itself: blanks, line comments, and words that begin no literal.
fn tokenize(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let (mut at, mut line) = (0, 1);
    let mut tokens = Vec::new();
    while at < bytes.len() {
        let start = at;
        match (bytes[at], bytes.get(at + 1)) {
            (b' ', _) => at += 1,
            (b'\n', _) => (at, line) = (at + 1, line + 1),
            (b'/', Some(b'/')) => at = text[at..].find('\n').map_or(text.len(), |length| at + length),
            (b'b' | b'c' | b'r', Some(b'b' | b'c' | b'r' | b'"' | b'\'' | b'#')) => {}
            (b'a'..=b'z' | b'A'..=b'Z' | b'_', _) => {
                while at < bytes.len() && matches!(bytes[at], b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'0'..=b'9')
                {
                    at += 1;
                }
                if bytes.get(at).is_some_and(|byte| !byte.is_ascii()) {
                    at = start;
                } else {
                    tokens.push(Token { text: &text[start..at], line });
                }
            }
            (
                b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'<' | b'>' | b'.' | b',' | b';' | b'&' | b'|'
                | b'#',
                _,
            ) => {
                at += 1;
                tokens.push(Token { text: &text[start..at], line });
            }
            (b':', Some(b':')) => {
                at += 2;
                tokens.push(Token { text: &text[start..at], line });
            }
            _ => {}
        }
        if at > start {
            continue;
        }
        let rest = &text[at..];
        let (length, is_token) = match skipped(rest) {
            Some(length) => (length, false),
            None => (word_or_sign(rest), true),
        };
        let piece = &rest[..length];
        if is_token {
            tokens.push(Token { text: piece.trim_start_matches("r#"), line });
        }
        line += piece.matches('\n').count();
        at += length;
    }
    tokens
}

/// The length of the blank, comment or literal at the start of `rest`.
fn skipped(rest: &str) -> Option<usize> {
    let blank = rest.len() - rest.trim_start().len();
    if blank > 0 {
        return Some(blank);
    }
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(block_comment(rest));
    }
    let prefix = rest.find(|c| !matches!(c, 'b' | 'c' | 'r')).unwrap_or(rest.len());
    let (letters, literal) = rest.split_at(prefix);
    if prefix > 2 {
        return None;
    }
    if letters.contains('r') {
        let hashes = literal.len() - literal.trim_start_matches('#').len();
        if literal[hashes..].starts_with('"') {
            let close = format!("\"{}", "#".repeat(hashes));
            let body = prefix + hashes + 1;
            return Some(rest[body..].find(&close).map_or(rest.len(), |end| body + end + close.len()));
        }
        return None;
    }
    match literal.chars().next()? {
        '"' => Some(prefix + quoted(literal, b'"')),
        '\'' if is_character(literal) => Some(prefix + quoted(literal, b'\'')),
        _ => None,
    }
}

/// Block comments nest.
fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        let (step, change) = match &rest.as_bytes()[at..] {
            [b'/', b'*', ..] => (2, 1),
            [b'*', b'/', ..] => (2, -1),
            _ => (1, 0),
        };
        at += step;
        depth += change;
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// A quote begins a character if the next character is a backslash or the one after it is a quote; else a lifetime.
fn is_character(literal: &str) -> bool {
    let mut after = literal.chars().skip(1);
    after.next() == Some('\\') || after.next() == Some('\'')
}

fn quoted(literal: &str, quote: u8) -> usize {
    let (bytes, mut at) = (literal.as_bytes(), 1);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    literal.len()
}

fn word_or_sign(rest: &str) -> usize {
    if ["::", "->", "=>"].iter().any(|sign| rest.starts_with(sign)) {
        return 2;
    }
    let raw = if rest.starts_with("r#") { 2 } else { 0 };
    let word =
        rest[raw..].find(|c: char| !c.is_alphanumeric() && c != '_').map_or(rest.len(), |end| raw + end);
    if word > raw { word } else { rest.chars().next().map_or(0, char::len_utf8) }
}
