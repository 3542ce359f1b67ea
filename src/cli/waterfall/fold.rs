//! Which rows does a large trace have? Like siblings share one, and what is deep is counted.

use std::collections::HashMap;

use super::tree::{self, Node};

/// This many siblings of one name share a row, if there is nothing below any of them.
const FEWEST_LIKE: usize = 5;
/// Beyond this number of rows the tree is cut at a depth.
const MOST_ROWS: usize = 60;
/// Spans with an error that are shown, however deep they are.
const MOST_ERRORS: usize = 10;

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
    for group in groups.into_values().filter(|group| group.len() >= FEWEST_LIKE) {
        let (first, others) = (group[0], &group[1..]);
        nodes[first].like = others.iter().map(|&place| nodes[place].index).collect();
        others.iter().for_each(|&place| keep[place] = false);
    }
    tree::retain(nodes, &keep)
}

/// Cuts a tree of too many rows where it is deep, but for what is looked for, and returns how many spans without a parent are left out, too. Each
/// node knows how many spans below it are not shown.
pub(super) fn limit_depth(
    mut nodes: Vec<Node>,
    is_wanted: impl Fn(&Node) -> bool,
    is_error: impl Fn(&Node) -> bool,
) -> (Vec<Node>, usize) {
    if nodes.len() <= MOST_ROWS {
        return (nodes, 0);
    }
    let mut depths = vec![0_usize; nodes.len()];
    for place in 0..nodes.len() {
        depths[place] = nodes[place].parent.map_or(0, |parent| depths[parent] + 1);
    }
    let mut by_depth: Vec<usize> = (0..nodes.len()).collect();
    by_depth.sort_by_key(|&place| (!is_wanted(&nodes[place]), depths[place]));
    let mut keep = vec![false; nodes.len()];
    by_depth[..MOST_ROWS].iter().for_each(|&place| keep[place] = true);
    let errors = (0..nodes.len()).filter(|&place| is_error(&nodes[place])).take(MOST_ERRORS);
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
    (tree::retain(nodes, &keep), hidden_roots)
}
