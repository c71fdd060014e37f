//! See `rejoin_sim::fuzz::short_messages`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rejoin_sim::fuzz::short_messages(data));
