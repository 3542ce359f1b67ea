//! What `tests/faults/run` asks of a test, and shows of it.

use std::fmt::Display;

/// Shows a measured figure.
pub(crate) fn show(figure: impl Display) {
    println!("figure: {figure}");
}

/// Shows a figure of which the largest of all tests of a row counts.
pub(crate) fn show_most(figure: u128, of: impl Display) {
    println!("most: {figure} {of}");
}

/// How much a test does: the variable's number, or what is enough for every run of the tests.
pub(crate) fn amount(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |amount| amount.parse().expect("the variable is a number"))
}
