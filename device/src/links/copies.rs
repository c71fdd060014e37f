//! Copies that the engine asks for.

use rejoin_engine::{Detach, Engine, ReqId};

use crate::memory;

/// Makes the copies that the engine asks for.
#[inline]
pub(crate) fn copy_out(engine: &mut Engine) {
    while let Some(copy) = engine.next_copy() {
        // SAFETY: the engine names segments of requests under way only, for whose memory the
        // callers of `isend`, `irecv` and their kin have promised.
        unsafe { memory::carry_out(&copy) };
    }
}

/// Completes a blocking send by copying its body, if its write is through; true when complete.
pub(crate) fn detach(engine: &mut Engine, request: ReqId) -> bool {
    match engine.detach(request) {
        Detach::Done => true,
        Detach::Wait => false,
        Detach::Copy { from, into } => {
            // SAFETY: the segment belongs to a blocking send under way.
            into.copy_from_slice(unsafe { memory::bytes(from) });
            true
        }
    }
}
