//! The library as C programs load it, with the features of the tests.

#[allow(unused_extern_crates, reason = "its functions are for C")]
extern crate standpipe;
