//! The fuzz targets' functions on random input, so that a plain `cargo test` covers them.

use proptest::collection::vec;
use proptest::prelude::*;
use rejoin_sim::fuzz;

/// A frame of the managers' channel: a small number for the variant, then anything.
fn control() -> impl Strategy<Value = Vec<u8>> {
    (0u32..8, vec(any::<u8>(), 0..200), any::<bool>()).prop_map(|(variant, rest, honest)| {
        let length = if honest {
            4 + rest.len() as u32
        } else {
            variant.wrapping_mul(0x1234_5678)
        };
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend_from_slice(&variant.to_le_bytes());
        bytes.extend_from_slice(&rest);
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn handshakes(bytes in vec(any::<u8>(), 0..300), kind in 1u8..6) {
        fuzz::handshake(&bytes);
        let length = [64u32, 76, 72, 72, 36][usize::from(kind) - 1];
        let mut message = b"RJNH\x01\x00".to_vec();
        message.extend_from_slice(&[kind, 0]);
        message.extend_from_slice(&length.to_le_bytes());
        message.extend_from_slice(&bytes);
        fuzz::handshake(&message);
    }

    #[test]
    fn resumes(bytes in vec(0u8..200, 0..60)) {
        fuzz::resume(&bytes);
    }

    #[test]
    fn frames(mut bytes in vec(any::<u8>(), 64), kind in 0u8..12) {
        bytes[..2].copy_from_slice(&rejoin_engine::FRAME_MAGIC);
        bytes[2] = kind;
        bytes[3] &= 7;
        bytes[20..24].fill(0);
        fuzz::frame(&bytes);
    }

    #[test]
    fn control_messages(bytes in control()) {
        fuzz::control(&bytes);
    }

    #[test]
    fn engines(bytes in vec(any::<u8>(), 0..600)) {
        fuzz::engine(&bytes);
    }

    #[test]
    fn short_messages(bytes in vec(any::<u8>(), 0..600)) {
        fuzz::short_messages(&bytes);
    }
}
