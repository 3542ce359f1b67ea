//! Compares the descriptions of two runs of a program. Returns differences by name.

use std::fmt;

use crate::told::{Facts, Node, Told};

/// Placeholder for an absent value.
pub(crate) const ABSENT: &str = "–";

/// A fact that differs between the two stacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    /// `scenario: path of the span: fact`.
    pub(crate) name: String,
    pub(crate) usual: String,
    pub(crate) ours: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  usual: {}\n  ours:  {}", self.name, self.usual, self.ours)
    }
}

/// Returns all differences between two runs of `scenario`.
pub(crate) fn differences(scenario: &str, usual: &Told, ours: &Told) -> Vec<Difference> {
    let mut found = Found { scenario, differences: Vec::new() };
    found.facts("program", &usual.facts, &ours.facts);
    found.siblings("", &usual.roots, &ours.roots);
    for index in 0..usual.logs.len().max(ours.logs.len()) {
        let place = format!("log record {}", index + 1);
        match (usual.logs.get(index), ours.logs.get(index)) {
            (Some(usual), Some(ours)) => found.facts(&place, usual, ours),
            (usual, ours) => found.only(&place, usual.map(gist), ours.map(gist)),
        }
    }
    found.differences
}

struct Found<'a> {
    scenario: &'a str,
    differences: Vec<Difference>,
}

impl Found<'_> {
    /// Compares the children of one parent. Spans with equal names are compared with each other.
    fn siblings(&mut self, above: &str, usual: &[Node], ours: &[Node]) {
        let mut left: Vec<Option<&Node>> = ours.iter().map(Some).collect();
        let mut pairs: Vec<(&Node, Option<&Node>)> = usual.iter().map(|node| (node, None)).collect();
        for (node, partner) in &mut pairs {
            *partner = take(&mut left, |other| other.name == node.name);
        }
        // The remaining spans are paired in order. The two names of such a pair differ.
        for (_, partner) in pairs.iter_mut().filter(|(_, partner)| partner.is_none()) {
            *partner = take(&mut left, |_| true);
        }
        for (node, partner) in pairs {
            let path = format!("{above}{}", node.name);
            match partner {
                Some(partner) => self.spans(&path, node, partner),
                None => self.only(&path, Some("a span".to_owned()), None),
            }
        }
        for node in left.into_iter().flatten() {
            self.only(&format!("{above}{}", node.name), None, Some("a span".to_owned()));
        }
    }

    fn spans(&mut self, path: &str, usual: &Node, ours: &Node) {
        if usual.name != ours.name {
            self.differ(path, "name", &usual.name, &ours.name);
        }
        self.facts(path, &usual.facts, &ours.facts);
        self.siblings(&format!("{path}/"), &usual.children, &ours.children);
    }

    fn facts(&mut self, place: &str, usual: &Facts, ours: &Facts) {
        self.differences.extend(facts_differ(&format!("{}: {place}", self.scenario), usual, ours));
    }

    fn only(&mut self, place: &str, usual: Option<String>, ours: Option<String>) {
        let told = |gist: Option<String>| gist.unwrap_or_else(|| ABSENT.to_owned());
        self.differ(place, "there", &told(usual), &told(ours));
    }

    fn differ(&mut self, place: &str, fact: &str, usual: &str, ours: &str) {
        let name = format!("{}: {place}: {fact}", self.scenario);
        self.differences.push(Difference { name, usual: usual.to_owned(), ours: ours.to_owned() });
    }
}

/// Returns all differences between the facts about one record.
pub(crate) fn facts_differ(place: &str, usual: &Facts, ours: &Facts) -> Vec<Difference> {
    let names = usual.keys().chain(ours.keys().filter(|name| !usual.contains_key(*name)));
    let value = |facts: &Facts, name: &str| facts.get(name).map_or(ABSENT, String::as_str).to_owned();
    names
        .map(|name| (name, value(usual, name), value(ours, name)))
        .filter(|(_, usual, ours)| usual != ours)
        .map(|(name, usual, ours)| Difference { name: format!("{place}: {name}"), usual, ours })
        .collect()
}

fn take<'a>(left: &mut [Option<&'a Node>], fits: impl Fn(&Node) -> bool) -> Option<&'a Node> {
    left.iter_mut().find(|node| node.is_some_and(&fits))?.take()
}

/// Returns the body and the span of a log record.
fn gist(log: &Facts) -> String {
    let fact = |name: &str| log.get(name).map_or(ABSENT, String::as_str);
    format!("{} in {}", fact("body"), fact("span"))
}
