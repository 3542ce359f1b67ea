//! What is left of a text with a mistake in its syntax? The parser ends at the first one; here the sections that it is in
//! are found by their indentation and taken out, so that all others can be read. Lines that went astray are in a section
//! that is not theirs: where they may be those of the section above, that one is broken, too.

use std::collections::BTreeSet;
use std::iter;
use std::mem;
use std::ops::Range;
use std::slice;

use granit_parser::{Parser, ScanError};

use super::{Content, content_beside, content_of, fault, limits};
use crate::config::error::{Diagnostic, Location};
use crate::config::node::Mistake;
use crate::config::node::{Node, Tree};
use crate::config::section::{EXPORTERS, FIRST_NAMES, Owner, Section, is_harmless, is_known_somewhere};
use crate::config::text::dotted;

/// A text with more broken sections is no configuration.
const MAX_BROKEN: usize = 100;
/// Events that may be spent on the search, several times the values that a document may have.
const MAX_EVENTS: usize = 100_000;

/// What can be read of a text without its broken sections; `None` if they cannot be told from the rest.
pub(super) fn content_without_broken_sections(text: &str, file: &str) -> Option<Content> {
    let mut search =
        Search { text, file, lines: lines(text), events: MAX_EVENTS, broken: Vec::new(), above: Vec::new() };
    search.look_at_entries(0..text.len(), &[])?;
    if search.broken.is_empty() {
        return None;
    }
    search.explain_first_swallowed();
    let lost = search.broken.iter().flat_map(|section| search.anchors(section)).collect();
    let mut content = content_beside(&without(text, &search.broken), file, &lost).ok()?;
    if is_hollow(&content.root) {
        // nothing is saved, so the mistake is that of the whole text
        return None;
    }
    for section in mem::take(&mut search.broken) {
        let Range { start, end } = section.range;
        content.places.spoil_lines(search.line_of(start)..search.line_of(end.saturating_sub(1)) + 1);
        content.mistakes.push(Mistake { owner: section.owner, diagnostic: section.diagnostic });
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
    /// Whom lines may belong to that stand in the wrong section now: the last one or two above.
    above: Vec<Owner>,
}

/// The anchors in broken sections, with the lines of these: an alias below is not of what had the name before.
pub(super) type LostAnchors<'t> = BTreeSet<(&'t str, usize)>;

/// A section with a mistake in its syntax.
struct Broken {
    range: Range<usize>,
    /// The end of its key, with the colon.
    key_end: usize,
    owner: Owner,
    /// Whether a section of ours is lost in it.
    has_swallowed: bool,
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
            let path = [path, slice::from_ref(&entry.name)].concat();
            let Err(error) = self.parse(entry.range.clone())? else {
                self.pass(&entry, &path);
                continue;
            };
            let known = self.broken.len();
            let above = self.above.clone();
            self.above.clear();
            let is_searched = is_above_sections(&path)
                && self.parse(entry.range.start..entry.key_end)?.is_ok()
                && self.text[entry.key_end..entry.range.end].lines().next().is_none_or(is_blank)
                && self.look_at_entries(entry.key_end..entry.range.end, &path).is_some();
            if !is_searched || self.broken.len() == known {
                if known >= MAX_BROKEN {
                    return None;
                }
                self.broken.truncate(known);
                self.above = above;
                self.push_broken(&entry, &error, &path);
                self.pass(&entry, &path);
            }
        }
        Some(())
    }

    fn push_broken(&mut self, entry: &Entry, error: &ScanError, path: &[String]) {
        let mut diagnostic = self.diagnostic(error, &entry.range, path);
        let mistaken_line = diagnostic.location.as_ref().map_or(0, |place| place.line);
        let has_swallowed = self.has_swallowed_section(entry, mistaken_line);
        if has_swallowed {
            diagnostic.key.clear();
        }
        let owner = if has_swallowed { Owner::Unknown } else { self.owner(entry, path) };
        let (range, key_end) = (entry.range.clone(), entry.key_end);
        self.broken.push(Broken { range, key_end, owner, has_swallowed, diagnostic });
    }

    /// Whom a mistake in an entry concerns.
    fn owner(&self, entry: &Entry, path: &[String]) -> Owner {
        let own = Owner::of(path);
        let of_key = indentation(&self.text[entry.range.clone()]);
        let is_outside = |line: &str| !is_blank(line) && indentation(line) < of_key;
        if path.len() > 1 && own == Owner::Other && self.lines_below(entry).any(is_outside) {
            // a key that is indented too far has taken in those beside it
            return Owner::of(&path[..1]);
        }
        if !self.may_hold_lines_of_others(entry, &own) {
            return own;
        }
        // an exporter that is taken out is not started anyway
        let is_gone = matches!(own, Owner::Other | Owner::Section(Section::Tracer(_) | Section::Exporter(_)));
        let mut owners = self.above.clone();
        if !is_gone && !owners.contains(&own) {
            owners.push(own.clone());
        }
        match &owners[..] {
            [] => own,
            [owner] => owner.clone(),
            _ => Owner::Unknown,
        }
    }

    /// Whether the lines below a key may be those of the section above: a line has come in between, or lost its
    /// indentation.
    fn may_hold_lines_of_others(&self, entry: &Entry, own: &Owner) -> bool {
        let mut below = self.lines_below(entry).filter(|line| !is_blank(line)).peekable();
        let first = below.peek().copied();
        // an exporter may have a first line of its own that is indented too far, but it is no list
        let is_torn = first.is_some_and(|first| {
            (*own == Owner::Other || first.trim_start().starts_with('-'))
                && below.any(|line| indentation(line) < indentation(first))
        });
        is_setting(&entry.name) || is_torn || first.is_some() && self.has_value(entry)
    }

    /// Whether a line in a broken entry would begin a section of ours. A foreign section may have a key of that name.
    fn has_swallowed_section(&self, entry: &Entry, mistaken_line: usize) -> bool {
        let has_value = self.has_value(entry);
        let of_key = indentation(&self.text[entry.range.clone()]);
        let of_first = self.lines_below(entry).find(|line| !is_blank(line)).map_or(0, indentation);
        let mut lines = (self.line_of(entry.range.start) + 1..).zip(self.lines_below(entry));
        lines.any(|(number, line)| {
            let text = line.trim_matches(|character: char| !character.is_alphanumeric());
            let indented_by = indentation(line);
            let is_outside = has_value || indented_by <= of_key || indented_by < of_first;
            let is_alone =
                number == mistaken_line && FIRST_NAMES.contains(&line.trim().trim_end_matches(':'));
            is_alone || is_outside && FIRST_NAMES.iter().any(|first| text.starts_with(first))
        })
    }

    /// Goes on below an entry.
    fn pass(&mut self, entry: &Entry, path: &[String]) {
        let has_value = self.has_value(entry);
        if !has_value && !is_setting(&entry.name) {
            self.above.clear();
        }
        let block = entry.key_end..entry.range.end;
        let inner = if is_above_sections(path) && !has_value { entries(self.text, block) } else { None };
        for entry in inner.iter().flatten() {
            self.pass(entry, &[path, slice::from_ref(&entry.name)].concat());
        }
        let owner = Owner::of(path);
        if inner.is_none() && owner != Owner::Other && self.above.len() < 2 && !self.above.contains(&owner) {
            self.above.push(owner);
        }
    }

    /// Tells the first mistake that a section of ours is lost by as the parser sees it in its surroundings: by itself,
    /// the entry above has only ended.
    fn explain_first_swallowed(&mut self) {
        let Some(index) = self.broken.iter().position(|section| section.has_swallowed) else { return };
        let (before, rest) = self.broken.split_at_mut(index);
        let Err(seen) = content_of(&without(self.text, before), self.file) else { return };
        let section = &mut rest[0];
        let lines = self.lines.partition_point(|start| *start <= section.range.start)
            ..=self.lines.partition_point(|start| *start < section.range.end);
        if seen.location.as_ref().is_some_and(|place| lines.contains(&place.line)) {
            section.diagnostic = seen;
        }
    }

    /// The anchors in a broken section.
    fn anchors(&self, section: &Broken) -> impl Iterator<Item = (&str, usize)> {
        let line = self.line_of(section.range.start);
        let parts = self.text[section.range.clone()].split('&').skip(1);
        let end = |part: &str| part.find(is_end_of_name).unwrap_or(part.len());
        parts.map(move |part| (&part[..end(part)], line))
    }

    /// Whether there is a value in the line of a key; an anchor and a tag are none.
    fn has_value(&self, entry: &Entry) -> bool {
        let line = self.text[entry.key_end..entry.range.end].lines().next().unwrap_or_default();
        let mut words = line.split_whitespace().take_while(|word| !word.starts_with('#'));
        words.any(|word| !word.starts_with(['&', '!']))
    }

    fn lines_below(&self, entry: &Entry) -> impl Iterator<Item = &str> {
        self.text[entry.range.clone()].lines().skip(1)
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
    let mut of_block = None;
    let mut start = block.start;
    for line in text[block].split_inclusive('\n') {
        let end = start + line.len();
        let indented_by = indentation(line);
        if ["---", "...", "%"].iter().any(|marker| line.starts_with(marker)) {
            return None;
        }
        if !is_blank(line) {
            let is_entry = *of_block.get_or_insert(indented_by) == indented_by;
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

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Whether this is a name of a key in sections, and so hardly that of a section.
fn is_setting(name: &str) -> bool {
    is_known_somewhere(name) || is_harmless(name)
}

/// Whether the name of an anchor ends here.
fn is_end_of_name(character: char) -> bool {
    character.is_whitespace() || matches!(character, ',' | '[' | ']' | '{' | '}')
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
        // not the line ends themselves: of a lone carriage return and a line feed they would make one
        kept.extend(iter::repeat_n('\n', lines(&text[*key_end..range.end]).len() - 1));
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
