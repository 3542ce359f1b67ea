//! Which span is the parent of which? Spans in the order of a tree, each with the guides to its left.

use std::mem;

use standpipe::receiver::proto::{self, Span, TreeNode};

use crate::cli::describe::SpanView;

/// Deeper spans are drawn at this depth, so that a long chain of calls leaves room for the names.
const DEEPEST_INDENT: usize = 10;

/// One span's place in the tree.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Node {
    /// Which of the spans it is.
    pub(super) index: usize,
    /// Where its parent is among the nodes, always before it.
    pub(super) parent: Option<usize>,
    /// For each level below the root down to this span: whether a sibling follows further down.
    pub(super) trunks: Vec<bool>,
    pub(super) has_children: bool,
    /// Drawn as a root because the span that it names as its parent is not here.
    pub(super) is_orphan: bool,
    /// Other spans that this row stands for as well.
    pub(super) like: Vec<usize>,
    /// How many spans below it are not shown.
    pub(super) hidden: usize,
}

/// Returns the spans of one trace from the roots down, children by their start.
pub(super) fn grow(spans: &[SpanView<'_>]) -> Vec<Node> {
    let messages: Vec<&Span> = spans.iter().map(|view| view.span).collect();
    let places = proto::tree(&messages).into_iter();
    let node = |TreeNode { index, parent, is_orphan }| Node { index, parent, is_orphan, ..Node::default() };
    let mut nodes: Vec<Node> = places.map(node).collect();
    connect(&mut nodes);
    nodes
}

/// The nodes that are to be kept. The parent of each is kept, too.
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

/// Draws the guides from parents to children.
fn connect(nodes: &mut [Node]) {
    nodes.iter_mut().for_each(|node| node.has_children = false);
    let mut is_last = vec![false; nodes.len()];
    for place in (0..nodes.len()).rev() {
        if let Some(parent) = nodes[place].parent {
            is_last[place] = !mem::replace(&mut nodes[parent].has_children, true);
        }
    }
    for place in 0..nodes.len() {
        nodes[place].trunks = match nodes[place].parent {
            Some(parent) => one_deeper(&nodes[parent].trunks, !is_last[place]),
            None => Vec::new(),
        };
    }
}

fn one_deeper(trunks: &[bool], has_sibling_below: bool) -> Vec<bool> {
    let mut deeper = trunks[..trunks.len().min(DEEPEST_INDENT - 1)].to_vec();
    deeper.push(has_sibling_below);
    deeper
}

#[cfg(test)]
mod tests {

    use super::*;

    /// A span for each (id, parent, start); 0 is no parent.
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
        let chain: Vec<Span> = (0..100_000u32)
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
        assert!(nodes.iter().all(|node| node.trunks.len() <= DEEPEST_INDENT));
    }
}
