//! Parameters and results of tests that `tests/faults/run` repeats.

use std::fmt::Display;

/// Shows a measured figure.
pub(crate) fn show(figure: impl Display) {
    println!("figure: {figure}");
}

/// Shows a figure. Of the figures in one row, `tests/faults/run` reports only the largest.
pub(crate) fn show_most(figure: u128, of: impl Display) {
    println!("most: {figure} {of}");
}

/// Returns the amount of work of a test: the number in the variable, or `usual` if the variable is not set.
pub(crate) fn amount(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |amount| amount.parse().expect("the variable is a number"))
}
