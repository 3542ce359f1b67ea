//! Reads a source file far enough to find its length and the paths that it names. Macros are not expanded and types are
//! not resolved: a path counts where it is written.

/// A source file without its comments, literals and test modules.
pub(crate) struct Source {
    tokens: Vec<Token>,
    /// Lines, without those of test modules.
    pub(crate) length: usize,
}

/// A path as it is written: `use a::{b, c}` names two.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedPath {
    pub(crate) line: usize,
    pub(crate) segments: Vec<String>,
    /// The modules that enclose the path in the same file; `super` is relative to them.
    pub(crate) within: Vec<String>,
}

impl NamedPath {
    /// Returns the name that an import of this path introduces; `None` if the path belongs to another crate.
    pub(crate) fn brings_in(&self) -> Option<&str> {
        let named = self.segments.strip_suffix(&["self".to_owned()]).unwrap_or(&self.segments);
        let is_ours = matches!(self.segments.first()?.as_str(), "crate" | "self" | "super");
        if is_ours { named.last().map(String::as_str) } else { None }
    }
}

#[derive(Debug, Clone)]
struct Token {
    text: String,
    line: usize,
}

impl Source {
    pub(crate) fn read(text: &str) -> Self {
        let (tokens, test_lines) = without_test_modules(tokenize(text));
        Self { tokens, length: text.lines().count() - test_lines }
    }

    /// Every `use`d path, and every other path of two segments or more.
    pub(crate) fn paths(&self) -> Vec<NamedPath> {
        let mut paths = Vec::new();
        let mut open_modules: Vec<(usize, String)> = Vec::new();
        let mut depth = 0;
        let mut at = 0;
        while at < self.tokens.len() {
            let within = || open_modules.iter().map(|(_, name)| name.clone()).collect::<Vec<_>>();
            match self.text(at) {
                "mod" if self.text(at + 2) == "{" => {
                    depth += 1;
                    open_modules.push((depth, self.text(at + 1).to_owned()));
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
    pub(crate) fn modules(&self) -> Vec<&str> {
        self.tokens
            .windows(2)
            .filter(|pair| pair[0].text == "mod")
            .map(|pair| pair[1].text.as_str())
            .collect()
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
        prefix: &[String],
        within: &[String],
        paths: &mut Vec<NamedPath>,
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
                    segments.push(text.to_owned());
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

    fn plain_path(&self, start: usize) -> (Vec<String>, usize) {
        let mut segments = vec![self.text(start).to_owned()];
        let mut at = start + 1;
        while self.text(at) == "::" && is_identifier(self.text(at + 1)) {
            segments.push(self.text(at + 1).to_owned());
            at += 2;
        }
        (segments, at)
    }

    /// `.name::<T>()` is a method, whatever its name.
    fn is_member(&self, at: usize) -> bool {
        at > 0 && self.text(at - 1) == "."
    }

    fn text(&self, at: usize) -> &str {
        text(&self.tokens, at)
    }
}

/// Removes `#[cfg(test)] mod …`. Returns the number of removed lines.
fn without_test_modules(tokens: Vec<Token>) -> (Vec<Token>, usize) {
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
                kept.push(tokens[at].clone());
                at += 1;
            }
        }
    }
    (kept, test_lines)
}

/// Returns the end of the test module that begins at `at`, if one begins there.
fn end_of_test_module(tokens: &[Token], start: usize) -> Option<usize> {
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

fn end_of_attribute(tokens: &[Token], at: usize) -> usize {
    let bracket = if text(tokens, at + 1) == "!" { at + 2 } else { at + 1 };
    end_of_group(tokens, bracket)
}

fn end_of_visibility(tokens: &[Token], at: usize) -> usize {
    match (text(tokens, at), text(tokens, at + 1)) {
        ("pub", "(") => end_of_group(tokens, at + 1),
        ("pub", _) => at + 1,
        _ => at,
    }
}

/// Returns the position after the bracket that closes the one at `open`.
fn end_of_group(tokens: &[Token], open: usize) -> usize {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth <= 1 => return at + 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
    }
    tokens.len()
}

fn text(tokens: &[Token], at: usize) -> &str {
    tokens.get(at).map_or("", |token| &token.text)
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Returns words, `::`, `->`, `=>` and single characters, without comments and literals.
fn tokenize(text: &str) -> Vec<Token> {
    let mut rest = text;
    let mut line = 1;
    let mut tokens = Vec::new();
    while let Some(first) = rest.chars().next() {
        let (length, is_token) = match skipped(rest) {
            Some(length) => (length, false),
            None => (word_or_sign(rest, first), true),
        };
        let (piece, after) = rest.split_at(length);
        if is_token {
            tokens.push(Token { text: piece.trim_start_matches("r#").to_owned(), line });
        }
        line += piece.matches('\n').count();
        rest = after;
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
        '"' => Some(prefix + quoted(literal, '"')),
        '\'' if is_character(literal) => Some(prefix + quoted(literal, '\'')),
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

fn quoted(literal: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in literal.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    literal.len()
}

fn word_or_sign(rest: &str, first: char) -> usize {
    if ["::", "->", "=>"].iter().any(|sign| rest.starts_with(sign)) {
        return 2;
    }
    let raw = if rest.starts_with("r#") { 2 } else { 0 };
    let word =
        rest[raw..].find(|c: char| !c.is_alphanumeric() && c != '_').map_or(rest.len(), |end| raw + end);
    if word > raw { word } else { first.len_utf8() }
}
