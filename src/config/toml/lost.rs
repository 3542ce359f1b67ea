//! What the parser has lost on its way out of a mistake: where it goes on is its own affair, and not always right behind
//! the statement with the mistake.

use std::collections::HashSet;

use super::outline::{Outline, WayBack};
use crate::config::node::{Node, Tree};
use crate::config::section::{ENABLE, ENABLE_TABLE};

/// The numbers of the keys with values that stand in the document and not, under the same path, in the tree.
pub(super) fn statements(outline: &Outline<'_>, way_back: &WayBack, root: &Node) -> Vec<usize> {
    let mut search = Search { outline, way_back, found: HashSet::new() };
    search.walk(root, "");
    outline
        .assignments()
        .filter(|(number, path)| !search.found.contains(&(*number, path.join("."))))
        .map(|(number, _)| number)
        .collect()
}

struct Search<'o> {
    outline: &'o Outline<'o>,
    way_back: &'o WayBack,
    /// Statements, and the paths that were read in them.
    found: HashSet<(usize, String)>,
}

impl Search<'_> {
    fn walk(&mut self, node: &Node, path: &str) {
        let Tree::Table(fields) = &node.value else { return };
        for field in fields {
            // as it was before it was renamed
            let name = if field.name == ENABLE_TABLE { ENABLE } else { &field.name };
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
            self.walk(&field.node, &path);
            let place = self.way_back.original(field.at);
            self.found.extend(self.outline.statement_at(place).map(|number| (number, path)));
        }
    }
}
