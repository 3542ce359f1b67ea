//! The rows of a trace: its spans in the order of a tree, each with the guides to its left.
//!
//! In a large trace similar siblings share a row, and what is deep is only counted.

use std::collections::HashMap;
use std::mem;

use standpipe::receiver::proto::{self, Span, TreeNode};

use crate::cli::describe::SpanView;

/// Deeper spans are drawn at this depth, so that a long chain of calls leaves room for the names.
const MAX_INDENT: usize = 10;

/// This many siblings of one name share a row, if there is nothing below any of them.
const MIN_LIKE: usize = 5;
/// Beyond this number of rows the tree is cut at a depth.
const MAX_ROWS: usize = 60;
/// Spans with an error that are shown, however deep they are.
const MAX_ERRORS: usize = 10;

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
            Some(parent) => {
                let above = &nodes[parent].trunks;
                [&above[..above.len().min(MAX_INDENT - 1)], &[!is_last[place]]].concat()
            }
            None => Vec::new(),
        };
    }
}

/// Lets leaves with the same parent and the same key share the row of the first of them. Those without a key stay.
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

/// Cuts a tree of too many rows where it is deep, but for what is looked for, and returns how many spans without a parent are left out, too. Each
/// node knows how many spans below it are not shown.
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

    let mut hidden_roots = 0;
    let mut shown_above: Vec<Option<usize>> = Vec::with_capacity(nodes.len());
    for place in 0..nodes.len() {
        let above = nodes[place].parent.and_then(|parent| shown_above[parent]);
        shown_above.push(if keep[place] { Some(place) } else { above });
        let spans = 1 + nodes[place].like.len();
        match above {
            // an error far below is drawn under the span that is shown above it
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
        assert!(nodes.iter().all(|node| node.trunks.len() <= MAX_INDENT));
    }
}
