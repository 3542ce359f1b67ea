//! Reads YAML text into a document. The meaning of its keys is defined elsewhere.
//!
//! ```text
//! text → parser ─ events → Builder ─→ Node
//!          │                  └ tree: scalars, open tables, and what aliases may grow to
//!          └ fault ──────────────────→ diagnostics, each with its place
//! ```
//!
//! A syntax error ends the reading: the document is empty then, and the error is its only diagnostic.

mod fault;
#[cfg(test)]
mod tests;
mod tree;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use granit_parser::{Event, Marker, Options, Parser, ScalarStyle, Span, Tag, options};

use self::tree::{Contents, Frame, MERGE, OpenTable, RefusedKey, Weight};
use super::error::{Diagnostic, Fault, Location};
use super::node::{Document, Mistake, Node, Places, Tree};
use super::section::Owner;
use super::text::dotted;

/// Deeper nesting is not a configuration.
const MAX_DEPTH: usize = 64;
/// More mistakes are only counted: a file with so many is not a configuration.
const MAX_MISTAKES: usize = 100;
/// The number that the parser gives to values without an anchor.
const NO_ANCHOR: usize = 0;

/// The content of a YAML file.
#[derive(Debug)]
struct Content {
    /// [`Tree::Null`] for an empty file.
    root: Node,
    places: Marks,
    /// The mistakes beside which the rest can be read, in the order of the file.
    mistakes: Vec<Mistake>,
}

/// Reads a text; `file` is its name in messages. After a syntax error the document is empty.
pub(super) fn parse<'d>(file: &'d str, text: &'d str) -> Document<'d> {
    let content = content_of(text, file).unwrap_or_else(|diagnostic| Content {
        root: Node { at: 0, value: Tree::Null },
        places: Marks::new(file),
        mistakes: vec![Mistake { owner: Owner::Unknown, diagnostic }],
    });
    Document { root: content.root, mistakes: content.mistakes, places: Box::new(content.places) }
}

/// Reads the first document of a text.
///
/// The text should be at most 1 MiB: time and memory grow with it up to a bound on the number of values.
///
/// # Errors
///
/// If no tree can be made of it: the first mistake in the syntax, or a limit that it goes beyond.
fn content_of(text: &str, file: &str) -> Result<Content, Diagnostic> {
    // the byte order mark that some editors write first is not a character of the first line
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut parser = Parser::new_from_str_with_options(text, limits());
    let mut builder = Builder::new(file);
    let mut documents = 0;
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|error| fault::diagnostic(&error, text, file))?;
        if let Event::DocumentStart(..) = event {
            documents += 1;
        }
        if documents > 1 {
            builder.leave_out_the_rest(span);
            break;
        }
        let location = builder.marks.at(span.start);
        builder.take(event, span).map_err(|fault| fault.error(Some(location), ""))?;
    }
    Ok(builder.finish())
}

fn limits() -> Options {
    options! {
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
        emit_unresolved_aliases: true,
    }
}

/// The places of a document: a place is an index into their list.
#[derive(Debug)]
struct Marks {
    file: String,
    /// Line and column, both from 1.
    marks: Vec<(usize, usize)>,
    spoilt: BTreeSet<usize>,
}

impl Marks {
    fn new(file: &str) -> Self {
        Self { file: file.to_owned(), marks: Vec::new(), spoilt: BTreeSet::new() }
    }

    /// Remembers a place.
    fn add(&mut self, marker: Marker) -> usize {
        let Location { line, column, .. } = self.at(marker);
        self.marks.push((line, column));
        self.marks.len() - 1
    }

    /// Returns the location of a place of the parser, which counts columns from 0.
    fn at(&self, marker: Marker) -> Location {
        Location { file: self.file.clone(), line: marker.line(), column: marker.col() + 1 }
    }
}

impl Places for Marks {
    fn location(&self, at: usize) -> Location {
        // an empty document has no places and begins where every document does
        let (line, column) = self.marks.get(at).copied().unwrap_or((1, 1));
        Location { file: self.file.clone(), line, column }
    }

    fn is_spoilt(&self, at: usize) -> bool {
        self.spoilt.contains(&at)
    }
}

/// Builds the tree from the parser's events. A fault of its methods is a limit that the document goes beyond, after which
/// nothing more may be taken.
struct Builder {
    marks: Marks,
    budget: Weight,
    /// The open lists and tables, outermost first.
    frames: Vec<Frame>,
    /// The values that aliases can stand for, by their number. Open ones are not among them.
    anchored: HashMap<usize, Part>,
    root: Option<Node>,
    /// With their places.
    mistakes: Vec<(usize, Mistake)>,
    /// The place of the first mistake that is not reported, and how many they are.
    left_out: Option<(usize, usize)>,
}

/// A finished part of the tree.
#[derive(Clone)]
struct Part {
    node: Node,
    weight: Weight,
}

impl Builder {
    fn new(file: &str) -> Self {
        Self {
            marks: Marks::new(file),
            budget: Weight::BUDGET,
            frames: Vec::new(),
            anchored: HashMap::new(),
            root: None,
            mistakes: Vec::new(),
            left_out: None,
        }
    }

    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Fault> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                // the parser writes ~ for a value that is not there
                let is_absent = style == ScalarStyle::Plain && span.start.index() == span.end.index();
                let text = if is_absent { "".into() } else { text };
                self.scalar(text, style, anchor, tag.as_deref(), span)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.open(Contents::List(Vec::new()), anchor, tag.as_deref(), span)
            }
            Event::MappingStart(_, anchor, tag) => {
                self.open(Contents::Table(OpenTable::default()), anchor, tag.as_deref(), span)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => self.alias(anchor, span),
            Event::UnresolvedAlias(_) => {
                let fix = "mark its value with & before; text that begins with * needs quotes";
                self.broken_alias(span, Fault::new("an alias of nothing", fix))
            }
            // the others mark where documents begin and end
            _ => Ok(()),
        }
    }

    /// Reports that the documents behind the first one are not read.
    fn leave_out_the_rest(&mut self, span: Span) {
        let at = self.marks.add(span.start);
        let what = "only the first document of a file is read, this one is not";
        let fault = Fault::new(what, "put it into a file of its own");
        let diagnostic = fault.warning(Some(self.marks.location(at)), "");
        self.mistakes.push((at, Mistake { owner: Owner::Other, diagnostic }));
    }

    fn finish(mut self) -> Content {
        // a mistake in a merge is known at the end of its table only
        self.mistakes.sort_by_key(|(at, _)| *at);
        if let Some((at, count)) = self.left_out {
            let fault = Fault::new(format!("{count} more mistakes from here on"), "");
            let diagnostic = fault.error(Some(self.marks.location(at)), "");
            self.mistakes.push((at, Mistake { owner: Owner::Unknown, diagnostic }));
        }
        let root = self.root.unwrap_or(Node { at: 0, value: Tree::Null });
        let mistakes = self.mistakes.into_iter().map(|(_, mistake)| mistake).collect();
        Content { root, places: self.marks, mistakes }
    }

    fn scalar(
        &mut self,
        text: Cow<'_, str>,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        span: Span,
    ) -> Result<(), Fault> {
        let weight = Weight::of_text(&text);
        self.budget.charge(weight)?;
        let (is_text, at) = self.tagged(tag, anchor, span);
        // quoted, it is a key like any other
        let is_merge = text == MERGE && style == ScalarStyle::Plain && !is_text;
        match self.frames.last_mut() {
            Some(Frame { contents: Contents::Table(table), .. }) if is_merge && table.awaits_key() => {
                let taken = table.take_merge_key(at, &self.marks);
                self.report_key(at, taken);
                return Ok(());
            }
            _ => {}
        }
        let value = tree::scalar(text, style, is_text);
        self.finish_part(Part { node: Node { at, value }, weight }, anchor)
    }

    fn open(
        &mut self,
        contents: Contents,
        anchor: usize,
        tag: Option<&Tag>,
        span: Span,
    ) -> Result<(), Fault> {
        if self.frames.len() >= MAX_DEPTH {
            return Err(fault::too_deep());
        }
        self.budget.charge(Weight::COLLECTION)?;
        let (_, at) = self.tagged(tag, anchor, span);
        self.frames.push(Frame { at, anchor, weight: Weight::COLLECTION, contents });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Fault> {
        let Some(Frame { at, anchor, weight, contents }) = self.frames.pop() else {
            return Ok(());
        };
        let value = match contents {
            Contents::List(nodes) => Tree::List(nodes),
            Contents::Table(table) => {
                let (fields, fault) = table.close();
                if let Some((at, fault)) = fault {
                    self.mistake(at, Some(MERGE), anchor, fault);
                }
                Tree::Table(fields)
            }
        };
        self.finish_part(Part { node: Node { at, value }, weight }, anchor)
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Result<(), Fault> {
        let Some(part) = self.anchored.get(&anchor) else {
            let fault = Fault::new("an alias inside of the value that it stands for", "write the value out");
            return self.broken_alias(span, fault);
        };
        if self.frames.len() + part.weight.levels > MAX_DEPTH {
            return Err(fault::too_deep());
        }
        self.budget.charge(part.weight)?;
        let part = part.clone();
        self.put(part);
        Ok(())
    }

    fn broken_alias(&mut self, span: Span, fault: Fault) -> Result<(), Fault> {
        let weight = Weight::of_text("");
        self.budget.charge(weight)?;
        let at = self.marks.add(span.start);
        self.spoil(at, NO_ANCHOR, fault);
        self.put(Part { node: Node { at, value: Tree::Null }, weight });
        Ok(())
    }

    /// Keeps an anchored value for the aliases to come, which is charged like an alias, and puts it in its place.
    fn finish_part(&mut self, part: Part, anchor: usize) -> Result<(), Fault> {
        if anchor != NO_ANCHOR {
            self.budget.charge(part.weight)?;
            self.anchored.insert(anchor, part.clone());
        }
        self.put(part);
        Ok(())
    }

    fn put(&mut self, Part { node, weight }: Part) {
        let Some(frame) = self.frames.last_mut() else {
            self.root = Some(node);
            return;
        };
        frame.weight.put_in(weight);
        match &mut frame.contents {
            Contents::List(nodes) => nodes.push(node),
            Contents::Table(table) if table.awaits_key() => {
                let at = node.at;
                let taken = table.take_key(node, &self.marks);
                self.report_key(at, taken);
            }
            Contents::Table(table) => table.take_value(node),
        }
    }

    fn report_key(&mut self, at: usize, taken: Result<(), RefusedKey>) {
        // a broken alias has been reported already
        if let Some((name, fault)) = taken.err().filter(|_| !self.marks.is_spoilt(at)) {
            self.mistake(at, name.as_deref(), NO_ANCHOR, fault);
        }
    }

    /// Returns what a tag asks for, and a new place for the value, which begins with its tag.
    fn tagged(&mut self, tag: Option<&Tag>, anchor: usize, span: Span) -> (bool, usize) {
        let at = self.marks.add(span.tag_start.unwrap_or(span.start));
        let is_text = tree::asks_for_text(tag).unwrap_or_else(|fault| {
            self.spoil(at, anchor, fault);
            false
        });
        (is_text, at)
    }

    /// Reports a mistake; others at the same place are not reported.
    fn spoil(&mut self, at: usize, anchor: usize, fault: Fault) {
        self.mistake(at, None, anchor, fault);
        self.marks.spoilt.insert(at);
    }

    /// Reports a mistake. `name` is the key in the innermost table that it is about, if that is not the one being read;
    /// `anchor` that of the value itself.
    fn mistake(&mut self, at: usize, name: Option<&str>, anchor: usize, fault: Fault) {
        if self.mistakes.len() >= MAX_MISTAKES {
            let (_, count) = self.left_out.get_or_insert((at, 0));
            *count += 1;
            return;
        }
        let names = self.frames.iter().filter_map(|frame| match &frame.contents {
            Contents::Table(table) => table.current_name(),
            Contents::List(_) => None,
        });
        let path: Vec<String> = names.chain(name).map(str::to_owned).collect();
        // whoever uses an alias of it misses what is missing here
        let is_anchored = anchor != NO_ANCHOR || self.frames.iter().any(|frame| frame.anchor != NO_ANCHOR);
        let owner = if is_anchored { Owner::Unknown } else { Owner::of(&path) };
        let key = dotted(&path.iter().map(String::as_str).collect::<Vec<_>>());
        let diagnostic = fault.error(Some(self.marks.location(at)), key);
        self.mistakes.push((at, Mistake { owner, diagnostic }));
    }
}
