//! How far tests search. `PROPTEST_CASES` decides it, which proptest reads as well: so one variable is for all searches.

/// The number of cases of a property test if nothing else is said.
const ALL: u32 = 256;

/// How many of `cases` a search tries.
pub(crate) fn share_of(cases: u32) -> u32 {
    (u64::from(cases) * u64::from(tried()) / u64::from(ALL)).max(1) as u32
}

/// A search through all places of a file looks at each of them, or at one in so many. It is odd, so that each bit of a byte has
/// its turn.
pub(crate) fn stride() -> usize {
    (ALL / tried()).max(1) as usize | 1
}

fn tried() -> u32 {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    cases.unwrap_or(ALL).max(1)
}
