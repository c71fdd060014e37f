//! See `rejoin_sim::fuzz::briefs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rejoin_sim::fuzz::briefs(data));
