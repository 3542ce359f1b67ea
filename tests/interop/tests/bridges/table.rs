//! The differences that are meant, and the rule that they are all of them.

use crate::compare::Difference;

/// A difference that is meant. In the name and in both values, `*` stands for anything.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) usual: &'static str,
    pub(crate) ours: &'static str,
    /// Why standpipe does it its own way.
    pub(crate) why: &'static str,
}

impl Row {
    pub(crate) fn covers(&self, difference: &Difference) -> bool {
        fits(self.name, &difference.name)
            && fits(self.usual, &difference.usual)
            && fits(self.ours, &difference.ours)
    }
}

/// Nothing may differ that is not in the table, and nothing may be in the table that does not differ.
pub(crate) fn hold(table: &[Row], differences: &[Difference]) {
    let unknown = differences.iter().filter(|difference| !table.iter().any(|row| row.covers(difference)));
    let mut faults: Vec<String> = unknown
        .map(|Difference { name, usual, ours }| {
            format!("not in the table: {name}\n  usual: {usual}\n  ours:  {ours}")
        })
        .collect();
    let rotten = table.iter().filter(|row| !differences.iter().any(|difference| row.covers(difference)));
    faults.extend(rotten.map(|row| format!("in the table, but does not occur: {} ({})", row.name, row.why)));
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
}

/// Whether `text` is as `pattern` says, in which `*` stands for anything.
fn fits(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn a_star_stands_for_anything() {
    for (pattern, text) in
        [("*", ""), ("a*c", "abc"), ("*: kind", "x: y: kind"), ("a*b*c", "a1b2c"), ("a", "a")]
    {
        assert!(fits(pattern, text), "{pattern} {text}");
    }
    for (pattern, text) in [("", "a"), ("a*a", "a"), ("a*b*c", "a1c"), ("*: kind", "x: kinds"), ("a", "ab")] {
        assert!(!fits(pattern, text), "{pattern} {text}");
    }
}
