//! Any bytes as what a client sends to the gRPC port of the receiver.
#![no_main]

use libfuzzer_sys::fuzz_target;
use standpipe_fuzz::receiver::check_grpc;

fuzz_target!(|input: &[u8]| check_grpc(input));
