//! The intended differences, and the check that there are no others.

mod exporters;
mod layer;
mod logs;

pub(crate) use exporters::EXPORTERS;
pub(crate) use layer::LAYER;
pub(crate) use logs::LOGS;

use crate::compare::Difference;

/// An intended difference.
pub(crate) struct Meant {
    pub(crate) what: &'static str,
    pub(crate) why: &'static str,
    pub(crate) cases: &'static [Case],
}

/// Where the difference occurs: its name, and the values of the usual stack and of standpipe. In all three, `*` matches
/// anything.
pub(crate) type Case = (&'static str, &'static str, &'static str);

/// Maximum number of faults that are shown. The others are counted.
const MAX_REPORTED: usize = 50;

/// Asserts that every difference is in the table, and that every row of the table occurs.
pub(crate) fn hold(table: &[Meant], differences: &[Difference]) {
    let cases = || table.iter().flat_map(|meant| meant.cases.iter().map(move |case| (meant, case)));
    let unknown = differences.iter().filter(|difference| !cases().any(|(_, case)| covers(case, difference)));
    let mut faults: Vec<String> =
        unknown.map(|difference| format!("not in the table: {difference}")).collect();
    let rotten = cases().filter(|(_, case)| !differences.iter().any(|difference| covers(case, difference)));
    faults.extend(rotten.map(|(meant, (name, usual, ours))| {
        let Meant { what, why, .. } = meant;
        format!(
            "in the table, but does not occur: {name}\n  usual: {usual}\n  ours:  {ours}\n  {what}: {why}"
        )
    }));
    let count = faults.len();
    faults.truncate(MAX_REPORTED);
    assert!(count == 0, "{count} faults, the first of them\n{}", faults.join("\n"));
}

pub(crate) fn covers((name, usual, ours): &Case, difference: &Difference) -> bool {
    fits(name, &difference.name) && fits(usual, &difference.usual) && fits(ours, &difference.ours)
}

/// Returns whether `text` matches `pattern`, in which `*` matches anything.
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
fn the_guide_lists_every_difference_and_why() {
    const GUIDE: &str = include_str!("../../../../../src/guide/migration.md");
    for Meant { what, why, .. } in [LAYER, LOGS, EXPORTERS].into_iter().flatten() {
        let row = format!("| {what} | {why} |");
        assert!(GUIDE.contains(&row), "not in the guide: {row}");
    }
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
