//! Any bytes as input of the receiver's gRPC port.
#![no_main]

use libfuzzer_sys::fuzz_target;
use standpipe_fuzz::receiver::check_grpc;

fuzz_target!(|input: &[u8]| check_grpc(input));
