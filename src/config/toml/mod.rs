//! TOML: text → scan → parser → tree, and all mistakes on the way.

mod cursor;
mod document;
mod lost;
mod outline;
mod scan;
mod tree;

use self::document::TomlDocument;
use super::node::Document;

/// What can be read of a text; `file` is how it is called in messages.
pub(super) fn parse<'d>(file: &'d str, text: &'d str) -> Document<'d> {
    let (places, root, mistakes) = TomlDocument::parse(file, text);
    Document { root, mistakes, places: Box::new(places) }
}
