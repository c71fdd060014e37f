//! See `rejoin_sim::fuzz::handshake`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rejoin_sim::fuzz::handshake(data));
