//! Parses YAML text to a document.
//!
//! ```text
//! text → parser ─ events → Builder ─→ Node
//!          │                  └ tree: scalars, open tables, and the budget of aliases
//!          └ fault ──────────────────→ diagnostics, each with its location
//! ```
//!
//! After a syntax error the document is empty, and the error is its only diagnostic. Unlike in TOML, one wrong line can
//! change the structure of all following lines.

#[cfg(test)]
mod tests;
mod tree;

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span, Tag, options};

use self::tree::{Contents, Frame, MERGE, Substituted, Weight};
pub(super) use self::tree::{Lookup, reference};
use super::Location;
use super::error::{Checked, Diagnostic, Fault};
use super::node::{Document, Mistake, Node, Places, Tree};
use super::section::Owner;
use super::text::dotted;

/// Maximum nesting depth of a configuration file.
const MAX_DEPTH: usize = 64;
/// Anchor number that the parser gives to values without an anchor.
const NO_ANCHOR: usize = 0;

/// Parses the first document of a text; `file` is the name of the text in messages. After a syntax error, or if a limit
/// is exceeded, the document is empty.
///
/// Callers limit the text to 1 MiB. Time and memory are proportional to its length; the budget of the document bounds
/// the copies that aliases cause.
pub(super) fn parse<'d>(file: &'d str, text: &'d str) -> Document<'d> {
    parse_with(file, text, None)
}

/// Parses as [`parse`] does, and substitutes variables in values by the rules of OpenTelemetry's declarative
/// configuration.
pub(super) fn parse_with<'d>(file: &'d str, text: &'d str, lookup: Option<Lookup<'d>>) -> Document<'d> {
    let mut builder = Builder {
        lookup,
        places: Places::new(file, text, true),
        budget: Weight::BUDGET,
        frames: Vec::new(),
        anchored: HashMap::new(),
        root: None,
        mistakes: Vec::new(),
    };
    if let Err(diagnostic) = builder.read(file, text) {
        builder.root = None;
        builder.mistakes = vec![Mistake { owner: Owner::Unknown, diagnostic }];
    }
    let root = builder.root.unwrap_or(Node { at: 0, value: Tree::Null });
    Document { root, mistakes: builder.mistakes, places: builder.places }
}

/// Builds the tree from the parser's events. Its methods return a fault only if a limit is exceeded or a substitution
/// fails. After a fault, no further event may be handled.
struct Builder<'d> {
    /// Looks up variables. `None` if the file's dialect does not substitute variables.
    lookup: Option<Lookup<'d>>,
    places: Places<'d>,
    budget: Weight,
    /// Lists and tables that are still open, outermost first.
    frames: Vec<Frame>,
    /// Finished values with an anchor, by the number of the anchor.
    anchored: HashMap<usize, Part>,
    root: Option<Node>,
    /// Mistakes after which the rest can still be read.
    mistakes: Vec<Mistake>,
}

/// A finished part of the tree.
#[derive(Clone)]
struct Part {
    node: Node,
    weight: Weight,
}

impl Builder<'_> {
    /// # Errors
    ///
    /// Returns the first error in the syntax or in a substitution, or an error if a limit is exceeded.
    fn read(&mut self, file: &str, text: &str) -> Result<(), Diagnostic> {
        let limits = options! {
            flow_nesting_limit: MAX_DEPTH,
            block_nesting_limit: MAX_DEPTH,
            emit_unresolved_aliases: true,
        };
        let mut parser = Parser::new_from_str_with_options(text, limits);
        let mut documents = 0;
        while let Some(event) = parser.next_event() {
            let (event, span) = event.map_err(|error| syntax_error(&error, text, file))?;
            let at = place(span);
            documents += usize::from(matches!(event, Event::DocumentStart(..)));
            if documents > 1 {
                let what = "only the first document of a file is read, and this one is ignored";
                let fault = Fault::new(what, "put it into a separate file");
                let diagnostic = fault.warning(Some(self.places.location(at)), "");
                self.mistakes.push(Mistake { owner: Owner::Other, diagnostic });
                break;
            }
            // Computed before `take`, which borrows `self` mutably.
            let location = self.places.location(at);
            self.take(event, span).map_err(|fault| fault.error(Some(location), ""))?;
        }
        Ok(())
    }

    fn take(&mut self, event: Event<'_>, span: Span) -> Checked {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                // For a missing value, the parser reports the text `~` with an empty span.
                let is_absent = style == ScalarStyle::Plain && span.start.index() == span.end.index();
                let text = if is_absent { "".into() } else { text };
                self.scalar(text, style, anchor, tag, span)
            }
            Event::SequenceStart(_, anchor, tag) => self.open(Contents::List(Vec::new()), anchor, tag, span),
            Event::MappingStart(_, anchor, tag) => {
                self.open(Contents::Table(Default::default()), anchor, tag, span)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => self.alias(anchor, span),
            Event::UnresolvedAlias(_) => {
                let fix = "write & and the name before its value; quote text that begins with *";
                self.broken_alias(span, Fault::new("an alias without an anchor", fix))
            }
            // All other events mark the start and end of documents.
            _ => Ok(()),
        }
    }

    fn scalar(
        &mut self,
        text: Cow<'_, str>,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<Cow<'_, Tag>>,
        span: Span,
    ) -> Checked {
        let is_key = matches!(self.frames.last(), Some(Frame { contents: Contents::Table(table), .. }) if table.awaits_key());
        let lookup = self.lookup.filter(|_| !is_key && text.contains('$'));
        let (text, inserted) = match lookup {
            None => (text, None),
            Some(lookup) => {
                let Substituted { text: done, is_inserted, is_secret } = tree::substitute(&text, lookup)?;
                (done.into(), is_inserted.then(|| (text.into_owned(), is_secret)))
            }
        };
        let weight = Weight::of_text(&text);
        self.budget.charge(weight)?;
        let (is_text, at) = self.tagged(tag, anchor, span);
        // A quoted `<<` is an ordinary key.
        let is_merge = text == MERGE && style == ScalarStyle::Plain && !is_text;
        let value = match (tree::scalar(text, style, is_text), inserted) {
            (Tree::Text(text), Some((written, is_secret))) => Tree::Inserted { written, text, is_secret },
            (value, _) => value,
        };
        self.finish_part(Part { node: Node { at, value }, weight }, anchor)?;
        // After a value, the table has no current name, so a value `<<` is not taken for a merge key.
        if let Some(Frame { contents: Contents::Table(table), .. }) = self.frames.last_mut() {
            if is_merge && table.current_name() == Some(MERGE) {
                table.merge_next();
            }
        }
        Ok(())
    }

    fn open(&mut self, contents: Contents, anchor: usize, tag: Option<Cow<'_, Tag>>, span: Span) -> Checked {
        if self.frames.len() >= MAX_DEPTH {
            return Err(too_deep());
        }
        self.budget.charge(Weight::COLLECTION)?;
        let (_, at) = self.tagged(tag, anchor, span);
        self.frames.push(Frame { at, anchor, weight: Weight::COLLECTION, contents });
        Ok(())
    }

    fn close(&mut self) -> Checked {
        let Some(Frame { at, anchor, weight, contents }) = self.frames.pop() else { return Ok(()) };
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

    fn alias(&mut self, anchor: usize, span: Span) -> Checked {
        let Some(part) = self.anchored.get(&anchor) else {
            let fault = Fault::new("an alias inside the value of its anchor", "write the value out");
            return self.broken_alias(span, fault);
        };
        if self.frames.len() + part.weight.levels > MAX_DEPTH {
            return Err(too_deep());
        }
        // Charged before the copy, so that a bomb of aliases is never expanded.
        self.budget.charge(part.weight)?;
        let part = part.clone();
        self.put(part);
        Ok(())
    }

    /// Puts null in the place of an alias that cannot be resolved, and reports it.
    fn broken_alias(&mut self, span: Span, fault: Fault) -> Checked {
        let (at, weight) = (place(span), Weight::of_text(""));
        self.budget.charge(weight)?;
        self.spoil(at, NO_ANCHOR, fault);
        self.put(Part { node: Node { at, value: Tree::Null }, weight });
        Ok(())
    }

    /// Adds a finished value to the tree. A copy of an anchored value is kept for aliases, and charged to the budget.
    fn finish_part(&mut self, part: Part, anchor: usize) -> Checked {
        if anchor != NO_ANCHOR {
            self.budget.charge(part.weight)?;
            self.anchored.insert(anchor, part.clone());
        }
        self.put(part);
        Ok(())
    }

    fn put(&mut self, Part { node, weight }: Part) {
        let Some(frame) = self.frames.last_mut() else { return self.root = Some(node) };
        frame.weight.put_in(weight);
        match &mut frame.contents {
            Contents::List(nodes) => nodes.push(node),
            Contents::Table(table) if table.awaits_key() => {
                let at = node.at;
                let taken = table.take_key(node, &self.places);
                // A broken alias has been reported already.
                if let Some((name, fault)) = taken.err().filter(|_| !self.places.is_spoilt(at)) {
                    self.mistake(at, name.as_deref(), NO_ANCHOR, fault);
                }
            }
            Contents::Table(table) => table.take_value(node),
        }
    }

    /// Returns two facts about a value: whether its tag turns it into text, and its place (that of the tag, if any).
    fn tagged(&mut self, tag: Option<Cow<'_, Tag>>, anchor: usize, span: Span) -> (bool, usize) {
        let at = place(span);
        let is_text = tree::asks_for_text(tag.as_deref()).unwrap_or_else(|fault| {
            self.spoil(at, anchor, fault);
            false
        });
        (is_text, at)
    }

    /// Reports a mistake in a value, and suppresses further diagnostics about the value.
    fn spoil(&mut self, at: usize, anchor: usize, fault: Fault) {
        self.mistake(at, None, anchor, fault);
        self.places.spoil(at..at + 1);
    }

    /// Reports a mistake in the value that is being read, or in the key `name` of the innermost table. `anchor` is the
    /// anchor of the value.
    fn mistake(&mut self, at: usize, name: Option<&str>, anchor: usize, fault: Fault) {
        let names = self.frames.iter().filter_map(|frame| match &frame.contents {
            Contents::Table(table) => table.current_name(),
            Contents::List(_) => None,
        });
        let path: Vec<&str> = names.chain(name).collect();
        // A mistake in an anchored value concerns all its aliases, which may be in any section.
        let is_anchored = anchor != NO_ANCHOR || self.frames.iter().any(|frame| frame.anchor != NO_ANCHOR);
        let owner = if is_anchored { Owner::Unknown } else { Owner::of(&path) };
        let diagnostic = fault.error(Some(self.places.location(at)), dotted(&path));
        self.mistakes.push(Mistake { owner, diagnostic });
    }
}

/// Returns the place of a value, which begins with its tag. For text in memory, the parser always knows byte offsets.
fn place(span: Span) -> usize {
    span.tag_start.unwrap_or(span.start).byte_offset().unwrap_or_default()
}

/// Returns a syntax error at its place.
fn syntax_error(error: &ScanError, text: &str, file: &str) -> Diagnostic {
    let marker = error.marker();
    let is_tab = format!("{:?}", error.kind()).starts_with("Tab");
    // For a tab, the parser reports the place of the preceding value.
    let tab = tab_in_indentation(text, marker.line()).filter(|_| is_tab);
    let (line, column) = tab.unwrap_or((marker.line(), marker.col() + 1));
    in_our_words(error.kind()).error(Some(Location { file: file.to_owned(), line, column }), "")
}

fn too_deep() -> Fault {
    Fault::new(format!("nested deeper than {MAX_DEPTH} levels"), "write fewer levels")
}

/// Messages for the parser's kinds of errors: parts of the kind's name, the fault, and the fix. The first row that
/// matches is used.
const SYNTAX_ERRORS: [(&[&str], &str, &str); 21] = [
    (&["Tab"], "a tab is used for indentation", "write spaces"),
    (
        &["Directive", "YamlVersion", "YamlMajor"],
        "a directive that cannot be read",
        "remove the line that begins with %",
    ),
    (&["MisplacedFlow"], "a bracket is closed that was never opened", "remove it, or quote the text"),
    (&["FlowSequence"], "a comma is missing in a list", "write , or ] here"),
    (
        &["ColonPlacement", "MappingValueNotAllowed", "ValueAdjacent"],
        "an unexpected colon",
        "quote text that contains a colon, indent keys alike, and close brackets and quotes above",
    ),
    (&["FlowMapping"], "a comma is missing in a table", "write , or } here"),
    (&["UnclosedQuoted", "InQuotedScalar"], "a quote is never closed", "close it"),
    (
        &["InvalidQuotedScalarIndent"],
        "a line of quoted text is not indented",
        "close the quote above, or indent this line",
    ),
    (&["InvalidTrailing"], "text after the closing quote", "quote the whole value"),
    (&["MappingValueWhitespace"], "no space after a colon", "write one"),
    (&["SimpleKey"], "a key without a colon", "write a colon and a space after it, in the same line"),
    (&["BlockMapping", "MappingKey"], "a key is expected here", "indent all keys of a table alike"),
    (
        &["BlockSequence", "BlockEntry", "DashFlow"],
        "a list is out of place",
        "write its dashes under each other, each with a space after it",
    ),
    (
        &["InvalidIndentation", "FlowScalarIndent", "InvalidBlockScalarIndent"],
        "the indentation matches no line above",
        "indent keys of one table alike",
    ),
    (
        &["DocumentStart", "DocumentEnd"],
        "the document has ended before this",
        "indent keys of one table alike, or remove the rest",
    ),
    (
        &["BlockScalarHeader", "BlockScalarIndent"],
        "text after | or >",
        "begin it in the next line; quote text that begins with | or >",
    ),
    (&["AliasName"], "& or * without a name", "quote text that begins with & or *"),
    (
        &["ScalarEscape", "HexEscape", "Surrogate", "Unicode"],
        "an unknown escape in double quotes",
        "write \\\\ for a backslash, or use single quotes",
    ),
    (
        &["CommentNot", "CommentIntercepted"],
        "a comment is out of place",
        "write a space before #; quote text that contains #",
    ),
    (&["Bom"], "a byte order mark within the text", "remove it"),
    (&["Tag"], "a tag that cannot be read", "remove it; quote text that begins with !"),
];

/// Translates an error of the parser into a message with advice.
fn in_our_words(kind: &ErrorKind) -> Fault {
    match kind {
        ErrorKind::RecursionLimitExceeded => too_deep(),
        ErrorKind::UnexpectedCharacter { character } => unexpected(*character),
        ErrorKind::UnclosedFlowCollection { open } => unclosed(*open, "is never closed"),
        ErrorKind::MismatchedFlowCollectionEnd { open, close } => {
            unclosed(*open, &format!("is closed by {close}"))
        }
        _ => {
            let name = format!("{kind:?}");
            let is_of = |(parts, ..): &&(&[&str], _, _)| parts.iter().any(|part| name.contains(part));
            let generic = (&[][..], "this is not YAML", "put text with special characters into quotes");
            let (_, what, fix) = SYNTAX_ERRORS.iter().find(is_of).copied().unwrap_or(generic);
            Fault::new(what, fix)
        }
    }
}

fn unexpected(character: char) -> Fault {
    if character.is_control() || character == '\u{feff}' {
        let what = format!("a character that YAML does not allow: {}", character.escape_default());
        return Fault::new(what, "remove it, or write it as an escape in double quotes");
    }
    Fault::new(format!("text cannot begin with {character}"), "quote it")
}

fn unclosed(open: char, state: &str) -> Fault {
    Fault::new(format!("{open} {state}"), if open == '[' { "write ]" } else { "write }" })
}

/// Returns line and column of the first tab in the indentation of a line, searching from `from_line` on.
fn tab_in_indentation(text: &str, from_line: usize) -> Option<(usize, usize)> {
    (1..).zip(text.lines()).skip(from_line.saturating_sub(1)).find_map(|(number, line)| {
        let indentation = &line[..line.len() - line.trim_start_matches([' ', '\t']).len()];
        indentation.find('\t').map(|column| (number, column + 1))
    })
}
