//! Builds the tree from the parser's events.

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{Event, Marker, ScalarStyle, Span, Tag};

use super::frame::{Budget, Contents, Frame, KeyFault, OpenTable, Weight};
use super::scalar::{self, Wanted};
use super::{Content, MAX_DEPTH, Marks, error_at, fault, line_and_column};
use crate::config::Location;
use crate::config::error::{Diagnostic, DiagnosticSeverity, Fault};
use crate::config::node::Mistake;
use crate::config::node::{Node, Places as _, Tree};
use crate::config::section::Owner;
use crate::config::text::dotted;

/// More are only counted: a file with so many is no configuration.
const MAX_MISTAKES: usize = 100;
/// The number that the parser gives to what no alias can stand for.
const NO_ANCHOR: usize = 0;

pub(super) struct Builder {
    file: String,
    marks: Marks,
    budget: Budget,
    /// What is open, outermost first.
    frames: Vec<Frame>,
    /// What aliases can stand for, by its number. What is still open is not among them.
    anchored: HashMap<usize, Part>,
    root: Option<Node>,
    /// With their places.
    mistakes: Vec<(usize, Mistake)>,
    /// The first mistake that is not told, and how many they are.
    left_out: Option<(usize, usize)>,
}

/// A finished part of the tree.
#[derive(Clone)]
struct Part {
    node: Node,
    weight: Weight,
}

impl Builder {
    pub(super) fn new(file: &str) -> Self {
        Self {
            file: file.to_owned(),
            marks: Marks::new(file),
            budget: Budget::new(),
            frames: Vec::new(),
            anchored: HashMap::new(),
            root: None,
            mistakes: Vec::new(),
            left_out: None,
        }
    }

    /// # Errors
    ///
    /// If a limit is reached; then nothing more may be taken.
    pub(super) fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Diagnostic> {
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
            Event::SequenceEnd | Event::MappingEnd => self.close(span),
            Event::Alias(anchor) => self.alias(anchor, span),
            Event::UnresolvedAlias(_) => {
                let fault = Fault::new(
                    "an alias of nothing",
                    "mark its value with & before; text that begins with * needs quotes",
                );
                self.broken_alias(span, fault)
            }
            // the rest says where documents begin and end
            _ => Ok(()),
        }
    }

    /// For what follows the first document.
    pub(super) fn leave_out_the_rest(&mut self, span: Span) {
        let at = self.marks.add(span.start);
        let what = "only the first document of a file is read, this one is not";
        let fault = Fault::new(what, "put it into a file of its own");
        let diagnostic = fault.found(DiagnosticSeverity::Warning, Some(self.marks.location(at)), "");
        self.mistakes.push((at, Mistake { owner: Owner::Other, diagnostic }));
    }

    pub(super) fn finish(mut self) -> Content {
        // what `<<` brings in is known at the end of its table only
        self.mistakes.sort_by_key(|(at, _)| *at);
        if let Some((at, count)) = self.left_out {
            let fault = Fault::new(format!("{count} more mistakes from here on"), "");
            let diagnostic = error_at(self.marks.location(at), fault);
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
    ) -> Result<(), Diagnostic> {
        let weight = Weight::of_text(&text);
        self.charge(weight, span.start)?;
        let (wanted, at) = self.wanted(tag, anchor, span);
        if &*text == "<<" && is_merge(style, wanted) && self.awaits_key() {
            self.take_merge_key(at);
            return Ok(());
        }
        let value = scalar::read(text, style, wanted).unwrap_or_else(|fault| self.spoilt(at, anchor, fault));
        self.finish_part(Part { node: Node { at, value }, weight }, anchor, span.start)
    }

    fn open(
        &mut self,
        contents: Contents,
        anchor: usize,
        tag: Option<&Tag>,
        span: Span,
    ) -> Result<(), Diagnostic> {
        if self.frames.len() >= MAX_DEPTH {
            return Err(self.too_deep(span.start));
        }
        let weight = Weight::of_collection();
        self.charge(weight, span.start)?;
        let (wanted, at) = self.wanted(tag, anchor, span);
        let kind = match &contents {
            Contents::List(_) => Wanted::List,
            Contents::Table(_) => Wanted::Table,
        };
        if let Err(fault) = wanted.allows(kind) {
            self.mistake(at, None, anchor, fault);
        }
        self.frames.push(Frame { at, anchor, weight, contents });
        Ok(())
    }

    fn close(&mut self, span: Span) -> Result<(), Diagnostic> {
        let Some(Frame { at, anchor, weight, contents }) = self.frames.pop() else {
            return Ok(());
        };
        let value = match contents {
            Contents::List(nodes) => Tree::List(nodes),
            Contents::Table(table) => {
                let (fields, fault) = table.close();
                if let Some((at, fault)) = fault {
                    self.mistake(at, Some("<<"), anchor, fault);
                }
                Tree::Table(fields)
            }
        };
        self.finish_part(Part { node: Node { at, value }, weight }, anchor, span.start)
    }

    fn alias(&mut self, anchor: usize, span: Span) -> Result<(), Diagnostic> {
        let Some(part) = self.anchored.get(&anchor) else {
            let fault = Fault::new("an alias inside of the value that it stands for", "write the value out");
            return self.broken_alias(span, fault);
        };
        if self.frames.len() + part.weight.levels > MAX_DEPTH {
            return Err(self.too_deep(span.start));
        }
        let charged = self.budget.charge(part.weight);
        charged.map_err(|what| self.too_much(what, span.start))?;
        let part = part.clone();
        self.put(part);
        Ok(())
    }

    fn broken_alias(&mut self, span: Span, fault: Fault) -> Result<(), Diagnostic> {
        let weight = Weight::of_text("");
        self.charge(weight, span.start)?;
        let at = self.marks.add(span.start);
        let value = self.spoilt(at, NO_ANCHOR, fault);
        self.put(Part { node: Node { at, value }, weight });
        Ok(())
    }

    /// Keeps what is anchored for the aliases to come, which is charged like an alias, and puts it in its place.
    fn finish_part(&mut self, part: Part, anchor: usize, end: Marker) -> Result<(), Diagnostic> {
        if anchor != NO_ANCHOR {
            self.charge(part.weight, end)?;
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
                if let Err(fault) = table.take_key(node) {
                    self.refuse_key(at, fault);
                }
            }
            Contents::Table(table) => table.take_value(node),
        }
    }

    fn take_merge_key(&mut self, at: usize) {
        if let Some(Frame { contents: Contents::Table(table), .. }) = self.frames.last_mut() {
            if let Err(fault) = table.take_merge_key(at) {
                self.refuse_key(at, fault);
            }
        }
    }

    fn refuse_key(&mut self, at: usize, fault: KeyFault) {
        match fault {
            KeyFault::Duplicate { name, first_at } => {
                let fault = Fault::duplicate_key(self.marks.location(first_at).line);
                self.mistake(at, Some(&name), NO_ANCHOR, fault);
            }
            // a broken alias has been told already
            KeyFault::Other(_) if self.marks.is_spoilt(at) => {}
            KeyFault::Other(fault) => self.mistake(at, None, NO_ANCHOR, fault),
        }
    }

    fn awaits_key(&self) -> bool {
        match self.frames.last() {
            Some(Frame { contents: Contents::Table(table), .. }) => table.awaits_key(),
            _ => false,
        }
    }

    /// What a tag asks for, and a new place for the value, which begins with its tag.
    fn wanted(&mut self, tag: Option<&Tag>, anchor: usize, span: Span) -> (Wanted, usize) {
        let at = self.marks.add(span.tag_start.unwrap_or(span.start));
        let wanted = Wanted::by(tag).unwrap_or_else(|fault| {
            self.spoilt(at, anchor, fault);
            Wanted::Any
        });
        (wanted, at)
    }

    /// Tells a mistake; what stands there is not worth another word.
    fn spoilt(&mut self, at: usize, anchor: usize, fault: Fault) -> Tree {
        self.mistake(at, None, anchor, fault);
        self.marks.spoil(at);
        Tree::Null
    }

    /// `name` is the key in the innermost table that it is about, if that is not the one being read; `anchor` that of
    /// the value itself.
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
        let diagnostic = fault.found(DiagnosticSeverity::Error, Some(self.marks.location(at)), key);
        self.mistakes.push((at, Mistake { owner, diagnostic }));
    }

    fn charge(&mut self, weight: Weight, marker: Marker) -> Result<(), Diagnostic> {
        self.budget.charge(weight).map_err(|what| self.too_much(what, marker))
    }

    fn too_much(&self, what: String, marker: Marker) -> Diagnostic {
        error_at(self.location(marker), Fault::new(what, "write a smaller file, with fewer aliases"))
    }

    fn too_deep(&self, marker: Marker) -> Diagnostic {
        error_at(self.location(marker), fault::too_deep())
    }

    fn location(&self, marker: Marker) -> Location {
        let (line, column) = line_and_column(marker);
        Location { file: self.file.clone(), line, column }
    }
}

/// Quoted, `<<` is a key like any other.
fn is_merge(style: ScalarStyle, wanted: Wanted) -> bool {
    wanted == Wanted::Merge || wanted == Wanted::Any && style == ScalarStyle::Plain
}
