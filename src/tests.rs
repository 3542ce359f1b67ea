//! Helpers of unit tests and of the test binaries: the number of cases that they try, and the reason for which they are
//! skipped. `PROPTEST_CASES` sets the number for property tests and for all other searches.

use std::fmt::Display;
use std::io::{self, Write};
use std::ops::RangeInclusive;

/// The default of proptest.
const ALL: u32 = 256;

/// Returns how many of `cases` a search tries.
pub(crate) fn share_of(cases: u32) -> u32 {
    u32::try_from(u64::from(cases) * u64::from(tried()) / u64::from(ALL)).unwrap_or(u32::MAX).max(1)
}

/// Returns a size within this range: the largest if all cases are tried, otherwise the share of it, if that is enough.
pub(crate) fn size_within(sizes: RangeInclusive<u32>) -> u32 {
    share_of(*sizes.end()).clamp(*sizes.start(), *sizes.end())
}

/// Returns the step of a search through the bits or bytes of a file. An odd step reaches each of the 8 bits of a byte.
#[cfg(feature = "spool")]
pub(crate) fn stride() -> usize {
    (ALL / tried()).max(1) as usize | 1
}

fn tried() -> u32 {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    cases.unwrap_or(ALL).max(1)
}

/// Prints why a test is skipped. Writes to standard error itself, because the test runner hides what a test that passes
/// prints with `println!` and `eprintln!`.
pub(crate) fn skip(reason: impl Display) {
    let _ = writeln!(io::stderr(), "SKIPPED: {reason}");
}
