//! Copies into memory that another core reads next, without a cache that both share
//! ([`CacheDistance::Far`](super::cache_distance::CacheDistance::Far)).
//!
//! There a line that one core has written and another reads may take longer than a line from
//! memory, and none is prefetched. It is better to write past the cache (streaming stores): the
//! reader then finds the lines in memory, one behind the other.

use crate::streaming_copy;

/// Longer pieces bypass the cache. 8 KiB take as long as through a shared cache, and a third of the
/// time without a shared one.
const LEAST: usize = 2 << 10;
/// Longer pieces bypass the cache where ranks share cores: the reader may run on the core that has
/// written.
const LEAST_SHARED: usize = 8 << 10;

/// The writer's side.
#[derive(Clone, Copy, Debug)]
pub(in crate::transport::shm) struct StreamingStore {
    least: usize,
}

impl StreamingStore {
    /// Of a rank that shares its core, or does not.
    pub(in crate::transport::shm) fn new(shared: bool) -> Self {
        Self {
            least: if shared { LEAST_SHARED } else { LEAST },
        }
    }

    /// Copies into the link. The caller publishes the bytes after this.
    ///
    /// # Safety
    /// The conditions are those of `std::ptr::copy_nonoverlapping`.
    #[inline(always)]
    pub(in crate::transport::shm) unsafe fn copy(self, to: *mut u8, from: *const u8, len: usize) {
        if len > self.least {
            // SAFETY: the caller's promise.
            unsafe { streaming_copy::copy(to, from, len) };
        } else {
            // SAFETY: the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
        }
    }
}
