//! `MPI_Status` of MPICH.

use std::ffi::c_int;

use rejoin_facade::ProgramStatus;
use rejoin_facade::abi_types::AbiStatus;

/// A status. In Fortran it is five integers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct MpichStatus {
    /// The lower half of the bytes of the message.
    bytes: c_int,
    /// 31 bits of the upper half, and whether the operation was cancelled.
    more_and_cancelled: c_int,
    source: c_int,
    tag: c_int,
    error: c_int,
}

impl ProgramStatus for MpichStatus {
    const IGNORED: usize = 1;

    #[inline(always)]
    fn contents(&self) -> AbiStatus {
        AbiStatus {
            source: self.source,
            tag: self.tag,
            error: self.error,
            bytes: [self.bytes, self.more_and_cancelled >> 1],
            cancelled: self.more_and_cancelled & 1,
            unused: [0; 2],
        }
    }

    #[inline(always)]
    fn set_message(&mut self, message: &AbiStatus) {
        (self.source, self.tag) = (message.source, message.tag);
        let [lower, upper] = message.bytes;
        self.bytes = lower;
        self.more_and_cancelled = upper << 1 | (message.cancelled & 1);
    }

    #[inline(always)]
    fn set_error(&mut self, error: c_int) {
        self.error = error;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_mpichs_layout() {
        assert_eq!(size_of::<MpichStatus>(), 20);
        assert_eq!(std::mem::offset_of!(MpichStatus, source), 8);
    }

    #[test]
    fn a_status_keeps_its_bytes_and_the_cancelled_flag() {
        for (bytes, cancelled) in [
            ([-2, 1], 1),
            ([7, 0], 0),
            ([0, 0x3fff_ffff], 1),
            ([1, -1], 0),
        ] {
            let message = AbiStatus {
                source: 3,
                tag: 4,
                error: 0,
                bytes,
                cancelled,
                unused: [0; 2],
            };
            let mut status = MpichStatus::default();
            status.set_message(&message);
            assert_eq!(status.contents(), message);
        }
    }
}
