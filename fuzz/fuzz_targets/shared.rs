//! See `rejoin_device::transport::malicious_peer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rejoin_device::transport::malicious_peer::memory(data));
