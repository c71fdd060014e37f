//! See `rejoin_sim::fuzz::control`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rejoin_sim::fuzz::control(data));
