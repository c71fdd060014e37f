//! The layout of a short message in its cache line.
//!
//! | word | bits | field |
//! |---|---|---|
//! | 0 | 0–1 | whether the cell is there ([`rejoin_ring::cells`]) |
//! | 0 | 2–15 | length of the body |
//! | 0 | 16–31 | epoch, low half |
//! | 0 | 32–63 | the position in the stream of bytes behind which the message comes |
//! | 1 | | context id, source |
//! | 2 | | tag, SSN (low half) |
//! | 3 | | ack, credit (low halves) |
//! | 4–15 | | body of up to 96 bytes; of a longer one, word 4 says where the body is |

use rejoin_engine::{Envelope, ShortHeader};

/// Longest body of a message, in bytes, limited by the bits of its length.
pub(crate) const MAX_BODY: usize = (1 << 14) - 1;
/// Where the length begins in the first word.
const LENGTH: u32 = 2;
/// Words of the header behind the first.
pub(in crate::transport::shm) const HEADER_REST: usize = 3;
/// The word where the body begins.
pub(in crate::transport::shm) const BODY: usize = 1 + HEADER_REST;

/// The words of a header, the position and the lowest two bits of the first left zero.
#[inline(always)]
pub(in crate::transport::shm) fn pack(header: &ShortHeader) -> (u64, [u64; HEADER_REST]) {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let env = &header.envelope;
    debug_assert!(usize::from(header.len) <= MAX_BODY);
    let first = u64::from(header.len) << LENGTH | u64::from(header.epoch) << 16;
    let rest = [
        pair(env.context, env.source.cast_unsigned()),
        pair(env.tag.cast_unsigned(), header.ssn),
        pair(header.ack, header.credit),
    ];
    (first, rest)
}

/// The header that these words are.
#[inline(always)]
pub(in crate::transport::shm) fn unpack(first: u64, rest: [u64; HEADER_REST]) -> ShortHeader {
    let high = |word: u64| (word >> 32) as u32;
    ShortHeader {
        envelope: Envelope {
            context: rest[0] as u32,
            source: high(rest[0]).cast_signed(),
            tag: (rest[1] as u32).cast_signed(),
        },
        len: first as u16 >> LENGTH,
        epoch: (first >> 16) as u16,
        ssn: high(rest[1]),
        ack: rest[2] as u32,
        credit: high(rest[2]),
    }
}

/// The first word with the position behind which the message comes.
#[inline(always)]
pub(in crate::transport::shm) fn behind(first: u64, position: u32) -> u64 {
    first | u64::from(position) << 32
}

/// The position in a first word.
#[inline(always)]
pub(in crate::transport::shm) fn position(first: u64) -> u32 {
    (first >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_header_comes_out_as_it_went_in(
            (context, source, tag) in any::<(u32, i32, i32)>(),
            len in 0..=MAX_BODY as u16,
            (epoch, ssn, ack, credit) in any::<(u16, u32, u32, u32)>(),
            (place, stamp) in (any::<u32>(), 0u64..4),
        ) {
            let envelope = Envelope { context, source, tag };
            let header = ShortHeader { envelope, len, epoch, ssn, ack, credit };
            let (first, rest) = pack(&header);
            prop_assert_eq!(first & 0xffff_ffff_0000_0003, 0);
            let word = behind(first, place) | stamp;
            prop_assert_eq!(unpack(word, rest), header);
            prop_assert_eq!(position(word), place);
        }
    }
}
