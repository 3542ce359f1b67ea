//! Reads YAML into the tree of [`node`](super::node). What its keys mean is not known here.
//!
//! ```text
//! text → parser ─ events → builder ─→ Node
//!          │                  ├ scalar: what plain text means
//!          │                  └ budget: what aliases may grow to
//!          └ fault ──────────────────→ diagnostics, each with its place
//! ```

mod budget;
mod builder;
mod fault;
mod frame;
mod places;
mod scalar;
#[cfg(test)]
mod tests;

use granit_parser::{Event, Parser, options};

use self::builder::Builder;
use self::places::Marks;
use super::error::{Diagnostic, DiagnosticSeverity, Fault, Location};
use super::node::{Document, Mistake};
use super::node::{Node, Tree};
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

/// What can be read of a text; `file` is how it is called in messages. After a mistake in the syntax that is nothing.
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
    // the mark that some editors put first is no character of the first line
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let limits = options! {
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
        emit_unresolved_aliases: true,
    };
    let mut parser = Parser::new_from_str_with_options(text, limits);
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

fn error_at(location: Location, fault: Fault) -> Diagnostic {
    fault.found(DiagnosticSeverity::Error, Some(location), "")
}
