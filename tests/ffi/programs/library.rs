//! The library as programs in C load it, for the tests: with the features that they are built with.

#[allow(unused_extern_crates, reason = "its functions are for C")]
extern crate standpipe;
