//! Reads YAML text into a document. The meaning of its keys is defined elsewhere.
//!
//! ```text
//! text → parser ─ events → builder ─→ Node
//!          │                  ├ scalar: what plain text means
//!          │                  └ frame: what is open, and what aliases may grow to
//!          └ fault ──────────────────→ diagnostics, each with its place
//! ```
//!
//! A syntax error ends the reading: the document is empty then, and the error is its only diagnostic.

mod builder;
mod fault;
mod frame;
mod scalar;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use granit_parser::{Event, Marker, Options, Parser, options};

use self::builder::Builder;
use super::error::{Diagnostic, DiagnosticSeverity, Fault, Location};
use super::node::{Document, Mistake};
use super::node::{Node, Places, Tree};
use super::section::Owner;

/// Deeper nesting is no configuration.
const MAX_DEPTH: usize = 64;

/// What a file of YAML says.
#[derive(Debug)]
struct Content {
    /// [`Tree::Null`] for an empty file.
    root: Node,
    places: Marks,
    /// What is wrong although the rest can be read, in the order of the file.
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
    let text = without_mark(text);
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
        builder.take(event, span)?;
    }
    Ok(builder.finish())
}

/// The byte order mark that some editors write first is no character of the first line.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

fn limits() -> Options {
    options! {
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
        emit_unresolved_aliases: true,
    }
}

fn error_at(location: Location, fault: Fault) -> Diagnostic {
    fault.found(DiagnosticSeverity::Error, Some(location), "")
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
        self.marks.push(line_and_column(marker));
        self.marks.len() - 1
    }

    fn spoil(&mut self, at: usize) {
        self.spoilt.insert(at);
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

/// The parser counts columns from 0.
fn line_and_column(marker: Marker) -> (usize, usize) {
    (marker.line(), marker.col() + 1)
}
