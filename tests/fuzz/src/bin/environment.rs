//! Any lines of `NAME=value` as variables.
#![no_main]

use libfuzzer_sys::fuzz_target;
use standpipe::Config;
use standpipe_fuzz::config::{Frame, Lines, check, prepare, text_of};

fuzz_target!(init: prepare(), |input: &[u8]| {
    let Some(text) = text_of(input) else { return };
    let pairs = || text.lines().filter_map(|line| line.split_once('='));
    check("", Frame::Nothing, Lines::None, || Config::from_variables(pairs()));
});
