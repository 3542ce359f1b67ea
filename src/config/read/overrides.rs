//! `TRACETEST_…`: environment variables that replace values which a file has.

use super::report::Report;
use crate::config::env::{NotUtf8, Variables};
use crate::config::node::{Node, Tree};
use crate::config::section::{EXPORTERS, SERVER};

const PREFIX: &str = "TRACETEST";

/// Replaces every value below `telemetry` and `server.telemetry` whose path, in capitals and with `_`, is the name of
/// a variable.
pub(super) fn apply(root: &mut Node, variables: &Variables, report: &mut Report<'_>) {
    for path in [&EXPORTERS[..1], &SERVER[..]] {
        let mut name = PREFIX.to_owned();
        let mut node = Some(&mut *root);
        for part in path {
            push(&mut name, part);
            node = node.and_then(|node| field_of(node, part));
        }
        if let Some(node) = node {
            replace(node, &name, variables, report);
        }
    }
}

fn replace(node: &mut Node, name: &str, variables: &Variables, report: &mut Report<'_>) {
    match &mut node.value {
        Tree::Table(fields) => {
            for field in fields {
                let mut name = name.to_owned();
                push(&mut name, &field.name);
                replace(&mut field.node, &name, variables, report);
            }
        }
        Tree::List(_) => {}
        value => match variables.get(name) {
            Some(Ok(text)) => {
                *value = Tree::Text(text.to_owned());
                report.replace(node.at, name.to_owned());
            }
            Some(Err(NotUtf8)) => report.ignored_variable(name, "is not UTF-8", "set it to text"),
            None => {}
        },
    }
}

fn push(name: &mut String, part: &str) {
    // shells have no other characters in names
    let in_capitals = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    name.push('_');
    name.extend(part.chars().map(in_capitals));
}

fn field_of<'n>(node: &'n mut Node, name: &str) -> Option<&'n mut Node> {
    match &mut node.value {
        Tree::Table(fields) => {
            fields.iter_mut().find(|field| field.name == name).map(|field| &mut field.node)
        }
        _ => None,
    }
}
