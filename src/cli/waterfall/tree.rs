//! Rows of a trace: its spans in the order of a tree, each with the guide lines to its left.
//!
//! Identical childless siblings share a row. In a large trace, deep spans are only counted.

use std::collections::HashMap;
use std::mem;

use standpipe::receiver::proto::{self, Span, TreeNode};

use crate::cli::describe::SpanView;

/// Maximum indentation. Deeper spans are drawn at this depth, so that there is room for the names.
const MAX_INDENT: usize = 10;

/// Minimum number of childless siblings with the same service and name that share a row.
const MIN_LIKE: usize = 5;
/// Maximum number of rows. In a larger tree, the deepest spans are not shown.
const MAX_ROWS: usize = 60;
/// Maximum number of spans with an error that are shown at any depth.
const MAX_ERRORS: usize = 10;

/// A row of the tree.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    /// Index of the span.
    pub(super) index: usize,
    /// Index of the parent's node, which always precedes this node.
    pub(super) parent: Option<usize>,
    /// Whether the guide line of each level continues, because a sibling follows: one entry for each ancestor below the
    /// root, and one for this span.
    pub(super) trunks: Vec<bool>,
    pub(super) has_children: bool,
    /// Whether the span is drawn as a root because its parent is missing.
    pub(super) is_orphan: bool,
    /// Indices of other spans that share this row.
    pub(super) like: Vec<usize>,
    /// Number of descendants that are not shown.
    pub(super) hidden: usize,
}

/// Returns the spans of one trace in depth-first order. Siblings are ordered by their start.
pub(super) fn grow(spans: &[SpanView<'_>]) -> Vec<Node> {
    let messages: Vec<&Span> = spans.iter().map(|view| view.span).collect();
    let places = proto::tree(&messages).into_iter();
    let node = |TreeNode { index, parent, is_orphan }| Node { index, parent, is_orphan, ..Node::default() };
    let mut nodes: Vec<Node> = places.map(node).collect();
    connect(&mut nodes);
    nodes
}

/// Returns the nodes that are marked in `keep`. The parent of each kept node must be kept, too.
pub(super) fn retain(nodes: Vec<Node>, keep: &[bool]) -> Vec<Node> {
    let mut places = vec![0; nodes.len()];
    let mut kept: Vec<Node> = Vec::new();
    for (place, node) in nodes.into_iter().enumerate().filter(|(place, _)| keep[*place]) {
        places[place] = kept.len();
        kept.push(Node { parent: node.parent.map(|parent| places[parent]), ..node });
    }
    connect(&mut kept);
    kept
}

/// Computes the guide lines from parents to children.
fn connect(nodes: &mut [Node]) {
    nodes.iter_mut().for_each(|node| node.has_children = false);
    let mut is_last = vec![false; nodes.len()];
    // In reverse order, the first visited child of a parent is its last child.
    for place in (0..nodes.len()).rev() {
        if let Some(parent) = nodes[place].parent {
            is_last[place] = !mem::replace(&mut nodes[parent].has_children, true);
        }
    }
    for place in 0..nodes.len() {
        nodes[place].trunks = match nodes[place].parent {
            Some(parent) => {
                let above = &nodes[parent].trunks;
                [&above[..above.len().min(MAX_INDENT - 1)], &[!is_last[place]]].concat()
            }
            None => Vec::new(),
        };
    }
}

/// Merges leaves with the same parent and the same key into the row of the first leaf, if there are at least
/// [`MIN_LIKE`] of them. Other leaves keep their rows.
pub(super) fn fold_siblings<'a>(
    mut nodes: Vec<Node>,
    key: impl Fn(&Node) -> Option<(&'a str, &'a str)>,
) -> Vec<Node> {
    let mut groups: HashMap<(Option<usize>, &str, &str), Vec<usize>> = HashMap::new();
    for (place, node) in nodes.iter().enumerate().filter(|(_, node)| !node.has_children) {
        if let Some((service, name)) = key(node) {
            groups.entry((node.parent, service, name)).or_default().push(place);
        }
    }
    let mut keep = vec![true; nodes.len()];
    for group in groups.into_values().filter(|group| group.len() >= MIN_LIKE) {
        let (first, others) = (group[0], &group[1..]);
        nodes[first].like = others.iter().map(|&place| nodes[place].index).collect();
        others.iter().for_each(|&place| keep[place] = false);
    }
    retain(nodes, &keep)
}

/// Reduces a tree to about [`MAX_ROWS`] rows: wanted spans are kept first, then the spans with the lowest depth. Up to
/// [`MAX_ERRORS`] errors are always kept.
///
/// Each kept node counts its hidden descendants. Also returns the number of hidden spans without a visible ancestor.
pub(super) fn limit_depth(
    mut nodes: Vec<Node>,
    is_wanted: impl Fn(&Node) -> bool,
    is_error: impl Fn(&Node) -> bool,
) -> (Vec<Node>, usize) {
    if nodes.len() <= MAX_ROWS {
        return (nodes, 0);
    }
    let mut depths = vec![0_usize; nodes.len()];
    for place in 0..nodes.len() {
        depths[place] = nodes[place].parent.map_or(0, |parent| depths[parent] + 1);
    }
    let mut by_depth: Vec<usize> = (0..nodes.len()).collect();
    by_depth.sort_by_key(|&place| (!is_wanted(&nodes[place]), depths[place]));
    let mut keep = vec![false; nodes.len()];
    by_depth[..MAX_ROWS].iter().for_each(|&place| keep[place] = true);
    let errors = (0..nodes.len()).filter(|&place| is_error(&nodes[place])).take(MAX_ERRORS);
    errors.for_each(|place| keep[place] = true);

    // Parents precede their children, so the nearest visible ancestor of each node is known in one pass.
    let mut hidden_roots = 0;
    let mut shown_above: Vec<Option<usize>> = Vec::with_capacity(nodes.len());
    for place in 0..nodes.len() {
        let above = nodes[place].parent.and_then(|parent| shown_above[parent]);
        shown_above.push(if keep[place] { Some(place) } else { above });
        let spans = 1 + nodes[place].like.len();
        match above {
            // If the parent of a shown node is hidden, the node becomes a child of its nearest visible ancestor.
            _ if keep[place] => nodes[place].parent = above,
            Some(above) => nodes[above].hidden += spans,
            None => hidden_roots += spans,
        }
    }
    (retain(nodes, &keep), hidden_roots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::size_within;

    /// Returns a span for each (id, parent, start). A span with the parent 0 is a root.
    fn spans(family: &[(u8, u8, u64)]) -> Vec<Span> {
        let span = |&(id, parent, start): &(u8, u8, u64)| Span {
            span_id: vec![id],
            parent_span_id: if parent == 0 { Vec::new() } else { vec![parent] },
            start_time_unix_nano: start,
            ..Span::default()
        };
        family.iter().map(span).collect()
    }

    fn grown(family: &[(u8, u8, u64)]) -> Vec<Node> {
        let spans = spans(family);
        let views: Vec<SpanView<'_>> = spans.iter().map(|span| SpanView::bare(span, "")).collect();
        grow(&views)
    }

    fn order(family: &[(u8, u8, u64)]) -> Vec<u8> {
        grown(family).iter().map(|node| family[node.index].0).collect()
    }

    #[test]
    fn children_follow_their_parent_by_start() {
        assert_eq!(order(&[(4, 2, 9), (3, 1, 5), (2, 1, 4), (1, 0, 1)]), [1, 2, 4, 3]);
    }

    #[test]
    fn guides_go_on_while_siblings_follow() {
        let nodes = grown(&[(1, 0, 1), (2, 1, 2), (3, 2, 3), (4, 1, 4)]);
        let trunks: Vec<&[bool]> = nodes.iter().map(|node| node.trunks.as_slice()).collect();
        assert_eq!(trunks, [&[][..], &[true][..], &[true, false][..], &[false][..]]);
        assert_eq!(
            nodes.iter().map(|node| node.has_children).collect::<Vec<_>>(),
            [true, true, false, false]
        );
    }

    #[test]
    fn a_span_whose_parent_is_missing_is_a_root_and_says_so() {
        let nodes = grown(&[(2, 9, 2), (3, 2, 3)]);
        assert_eq!(nodes.iter().map(|node| node.is_orphan).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn circles_and_repeated_ids_show_every_span_once() {
        assert_eq!(order(&[(1, 1, 1)]), [1]);
        assert_eq!(order(&[(1, 2, 1), (2, 1, 2), (3, 2, 3)]), [1, 2, 3]);
        assert_eq!(order(&[(1, 0, 1), (1, 0, 1), (2, 1, 2)]), [1, 2, 1]);
    }

    #[test]
    fn a_long_chain_neither_overflows_nor_runs_off_the_page() {
        // Even the smallest number overflows the stack of a test if each span takes a call of 84 bytes or more.
        let chain: Vec<Span> = (0..size_within(25_000..=100_000))
            .map(|number| Span {
                span_id: (number + 1).to_be_bytes().to_vec(),
                parent_span_id: if number == 0 { Vec::new() } else { number.to_be_bytes().to_vec() },
                start_time_unix_nano: number.into(),
                ..Span::default()
            })
            .collect();
        let views: Vec<SpanView<'_>> = chain.iter().map(|span| SpanView::bare(span, "")).collect();
        let nodes = grow(&views);
        assert_eq!(nodes.len(), chain.len());
        assert!(nodes.iter().all(|node| node.trunks.len() <= MAX_INDENT));
    }
}
