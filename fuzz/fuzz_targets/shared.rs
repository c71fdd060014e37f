//! See `rejoin_device::transport::shm::wild`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rejoin_device::transport::shm::wild::memory(data));
