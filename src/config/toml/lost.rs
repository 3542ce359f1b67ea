//! What the parser has lost on its way out of a mistake: where it goes on is its own affair, and not always right behind
//! the statement with the mistake.

use std::collections::HashSet;

use super::outline::{Outline, WayBack};
use crate::config::node::{Node, Tree};
use crate::config::section::{ENABLE, ENABLE_TABLE};

/// The numbers of the keys with values that stand in the document and not, under the same path, in the tree.
pub(super) fn statements(outline: &Outline<'_>, way_back: &WayBack, root: &Node) -> Vec<usize> {
    let mut search = Search { outline, way_back, found: HashSet::new() };
    search.walk(root, PathMark::default());
    let is_lost = |(number, path): &(usize, PathMark)| !search.found.contains(&(*number, *path));
    outline.assignments().filter(is_lost).map(|(number, _)| number).collect()
}

/// Stands for a path, however long that is. Only how its parts look side by side counts, because one switch may be
/// written as one part or as two.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct PathMark(u64);

impl PathMark {
    #[must_use]
    pub(super) fn with(self, part: &str) -> Self {
        // FNV-1a, which can be continued at any byte
        let mixed = |mark: u64, byte: u8| (mark ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let start = if self == Self::default() { 0xcbf2_9ce4_8422_2325 } else { mixed(self.0, b'.') };
        Self(part.bytes().fold(start, mixed))
    }
}

struct Search<'o> {
    outline: &'o Outline<'o>,
    way_back: &'o WayBack,
    /// Statements, and the paths that were read in them.
    found: HashSet<(usize, PathMark)>,
}

impl Search<'_> {
    fn walk(&mut self, node: &Node, path: PathMark) {
        let Tree::Table(fields) = &node.value else { return };
        for field in fields {
            // as it was before it was renamed
            let path = path.with(if field.name == ENABLE_TABLE { ENABLE } else { &field.name });
            let place = self.way_back.original(field.at);
            self.found.extend(self.outline.statement_at(place).map(|number| (number, path)));
            self.walk(&field.node, path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_tells_paths_apart_and_not_how_they_are_split() {
        let mark = |parts: &[&str]| parts.iter().fold(PathMark::default(), |mark, part| mark.with(part));
        assert_eq!(mark(&["tracer", "a", "enable.x"]), mark(&["tracer", "a", "enable", "x"]));
        for other in [&["a"][..], &["a", "b", "c"], &["b", "a"], &["ab"], &[]] {
            assert_ne!(mark(other), mark(&["a", "b"]), "{other:?}");
        }
    }
}
