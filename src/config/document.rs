//! A document that has been read, whichever format it was written in.

use super::error::Finding;
use super::node::{Node, Places};
use super::section::Owner;

/// What could be read, what could not, and where everything stands.
pub(super) struct Document<'d> {
    pub(super) root: Node,
    pub(super) mistakes: Vec<Mistake>,
    pub(super) places: Box<dyn Places + 'd>,
}

/// A mistake in the syntax.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mistake {
    pub(super) owner: Owner,
    pub(super) finding: Finding,
}
