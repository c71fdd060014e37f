//! Single copy: a long body goes from the sender's memory to its place in one copy.
//!
//! The receiver reads it ([`peer_memory`]). Where both sides have cores of their own, the sender
//! copies parts of it as well while it waits ([`cooperative`]).

use super::ShmEndpoint;
use crate::transport::GetPart;

pub(super) mod cooperative;
pub(super) mod peer_memory;

impl ShmEndpoint {
    /// Has parts of bodies copied out of the peer's memory; bits of those that could not be.
    ///
    /// # Safety
    /// Each part's place is writable, and nothing else uses it.
    pub(super) unsafe fn get_parts(
        &mut self,
        parts: &[GetPart],
        cooperative: bool,
        waits: &mut dyn FnMut(),
    ) -> u64 {
        let Some(peer) = self.peer else {
            return u64::MAX;
        };
        self.stream.passed(parts.iter().map(|part| part.len).sum());
        let mut failed = 0;
        if cooperative && parts.len() > 1 {
            self.cooperative.describe(parts);
            // SAFETY: the caller's promise.
            failed = unsafe { self.cooperative.finish(peer, parts, waits) };
        } else {
            for index in 0..parts.len() {
                // SAFETY: the caller's promise.
                let whole = unsafe { cooperative::read(peer, parts, index) };
                failed |= u64::from(!whole) << index;
            }
        }
        if failed != 0 {
            self.peer = None;
        }
        failed
    }

    /// Copies parts that the peer waits for; returns their bytes.
    #[inline]
    pub(super) fn copy_for_peer(&mut self) -> usize {
        match self.peer {
            Some(peer) if self.cooperative.has_chunks() => self.cooperative.copy_for_peer(peer),
            _ => 0,
        }
    }
}
