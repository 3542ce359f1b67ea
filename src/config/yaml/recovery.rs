//! What is left of a text with a mistake in its syntax? The parser ends at the first one; here the sections that it is in
//! are found by their indentation and taken out, so that all others can be read.

use std::mem;
use std::ops::Range;

use granit_parser::{Parser, ScanError};

use super::{Content, content_of, fault, limits};
use crate::config::error::{Diagnostic, Location};
use crate::config::node::Mistake;
use crate::config::node::{Node, Tree};
use crate::config::section::{EXPORTERS, FIRST_NAMES, Owner};
use crate::config::text::dotted;

/// A text with more broken sections is no configuration.
const MAX_BROKEN: usize = 100;
/// Events that may be spent on the search, several times the values that a document may have.
const MAX_EVENTS: usize = 100_000;

/// What can be read of a text without its broken sections; `None` if they cannot be told from the rest.
pub(super) fn content_without_broken_sections(text: &str, file: &str) -> Option<Content> {
    let mut search = Search { text, file, lines: lines(text), events: MAX_EVENTS, broken: Vec::new() };
    search.look_at_entries(0..text.len(), &[])?;
    if search.broken.is_empty() {
        return None;
    }
    let mut content = content_of(&without(text, &search.broken), file).ok()?;
    if is_hollow(&content.root) {
        // nothing is saved, so the mistake is that of the whole text
        return None;
    }
    for section in mem::take(&mut search.broken) {
        let Range { start, end } = section.range;
        content.places.spoil_lines(search.line_of(start)..search.line_of(end.saturating_sub(1)) + 1);
        content.mistakes.push(Mistake { owner: Owner::of(&section.path), diagnostic: section.diagnostic });
    }
    let place =
        |mistake: &Mistake| mistake.diagnostic.location.as_ref().map(|place| (place.line, place.column));
    content.mistakes.sort_by_key(place);
    Some(content)
}

/// Whether there is no value but nothing.
fn is_hollow(node: &Node) -> bool {
    match &node.value {
        Tree::Null => true,
        Tree::Table(fields) => !fields.is_empty() && fields.iter().all(|field| is_hollow(&field.node)),
        _ => false,
    }
}

struct Search<'t> {
    text: &'t str,
    file: &'t str,
    /// Where each line starts.
    lines: Vec<usize>,
    /// How many more may be spent.
    events: usize,
    broken: Vec<Broken>,
}

/// A section with a mistake in its syntax.
struct Broken {
    range: Range<usize>,
    /// The end of its key, with the colon.
    key_end: usize,
    path: Vec<String>,
    diagnostic: Diagnostic,
}

/// A key of a block, and all lines up to the next one.
struct Entry {
    range: Range<usize>,
    key_end: usize,
    name: String,
}

impl Search<'_> {
    /// Finds the broken ones among the entries of a block; `None` if there is something else in it, or too much.
    fn look_at_entries(&mut self, block: Range<usize>, path: &[String]) -> Option<()> {
        for entry in entries(self.text, block)? {
            let Err(error) = self.parse(entry.range.clone())? else { continue };
            let path = [path, &[entry.name]].concat();
            let known = self.broken.len();
            let is_searched = is_above_sections(&path)
                && self.parse(entry.range.start..entry.key_end)?.is_ok()
                && self.text[entry.key_end..entry.range.end].lines().next().is_none_or(is_blank)
                && self.look_at_entries(entry.key_end..entry.range.end, &path).is_some();
            if !is_searched || self.broken.len() == known {
                if known >= MAX_BROKEN {
                    return None;
                }
                self.broken.truncate(known);
                let diagnostic = self.diagnostic(&error, &entry.range, &path);
                self.broken.push(Broken { range: entry.range, key_end: entry.key_end, path, diagnostic });
            }
        }
        Some(())
    }

    /// Whether a part of the text is YAML by itself; `None` if this is not known.
    fn parse(&mut self, part: Range<usize>) -> Option<Result<(), ScanError>> {
        // a mistake at the end is in its last line, not behind it
        let part = self.text[part].trim_end_matches(['\r', '\n']);
        let mut parser = Parser::new_from_str_with_options(part, limits());
        while let Some(event) = parser.next_event() {
            self.events = self.events.checked_sub(1)?;
            if let Err(error) = event {
                return Some(Err(error));
            }
        }
        Some(Ok(()))
    }

    fn diagnostic(&self, error: &ScanError, part: &Range<usize>, path: &[String]) -> Diagnostic {
        let mut diagnostic = fault::diagnostic(error, &self.text[part.clone()], self.file);
        diagnostic.key = dotted(&path.iter().map(String::as_str).collect::<Vec<_>>());
        if let Some(Location { line, .. }) = &mut diagnostic.location {
            *line += self.line_of(part.start) - 1;
        }
        diagnostic
    }

    /// The number of the line that a place is in, from 1.
    fn line_of(&self, at: usize) -> usize {
        self.lines.partition_point(|start| *start <= at)
    }
}

/// Whether sections of ours stand below a key.
fn is_above_sections(path: &[String]) -> bool {
    path == EXPORTERS || path.len() == 1 && FIRST_NAMES.contains(&path[0].as_str())
}

/// The entries of a block, by the indentation of its first line; `None` if it does not begin with a key, or if several
/// documents are in it.
fn entries(text: &str, block: Range<usize>) -> Option<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut indentation = None;
    let mut start = block.start;
    for line in text[block].split_inclusive('\n') {
        let end = start + line.len();
        let indented_by = line.len() - line.trim_start_matches(' ').len();
        if ["---", "...", "%"].iter().any(|marker| line.starts_with(marker)) {
            return None;
        }
        if !is_blank(line) {
            let is_entry = *indentation.get_or_insert(indented_by) == indented_by;
            match (key_of(line), entries.last_mut()) {
                (Some((name, key_len)), _) if is_entry => {
                    entries.push(Entry { range: start..end, key_end: start + key_len, name });
                }
                (_, Some(last)) => last.range.end = end,
                (_, None) => return None,
            }
        }
        start = end;
    }
    (!entries.is_empty()).then_some(entries)
}

fn is_blank(line: &str) -> bool {
    let text = line.trim_start_matches(' ').trim_end();
    text.is_empty() || text.starts_with('#')
}

/// The key that a line begins with, and the length of the line up to its colon.
fn key_of(line: &str) -> Option<(String, usize)> {
    let colon = line
        .match_indices(':')
        .map(|(at, _)| at)
        .find(|at| line[at + 1..].starts_with([' ', '\t', '\r', '\n']) || at + 1 == line.len())?;
    let key = line[..colon].trim();
    let is_quoted = |quote: char| key.len() > 1 && key.starts_with(quote) && key.ends_with(quote);
    let name = if is_quoted('"') || is_quoted('\'') { &key[1..key.len() - 1] } else { key };
    let is_plain = !name.is_empty()
        && !name.contains(['"', '\'', '{', '}', '[', ']', '#', '&', '*', '!', '?', '|', '>']);
    (is_plain && !name.starts_with("- ")).then(|| (name.to_owned(), colon + 1))
}

/// The text with nothing as the value of each broken section, and every line where it was.
fn without(text: &str, broken: &[Broken]) -> String {
    let mut kept = String::with_capacity(text.len() + 2 * broken.len());
    let mut copied = 0;
    for Broken { range, key_end, .. } in broken {
        kept.push_str(&text[copied..*key_end]);
        kept.push_str(" ~");
        kept.extend(text[*key_end..range.end].chars().filter(|character| matches!(character, '\r' | '\n')));
        copied = range.end;
    }
    kept.push_str(&text[copied..]);
    kept
}

/// Where the lines of a text start; they end with a line feed, a carriage return, or both.
fn lines(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let is_end = |at: &usize| bytes[*at] == b'\n' || bytes[*at] == b'\r' && bytes.get(at + 1) != Some(&b'\n');
    [0].into_iter().chain((0..bytes.len()).filter(is_end).map(|at| at + 1)).collect()
}
