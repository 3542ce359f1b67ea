//! How are values spelt and choices? Pure functions from text to a value and back.

pub(super) mod endpoint;
pub(super) mod header;
pub(super) mod no_proxy;
pub(super) mod pairs;
pub(super) mod units;
pub(super) mod words;
