//! How are values spelt that are more than a word? Pure functions from text to a value and back.

pub(super) mod endpoint;
pub(super) mod header;
pub(super) mod no_proxy;
pub(super) mod pairs;
pub(super) mod units;
