//! Copies into memory that another core reads next, without a cache that both share
//! ([`CacheDistance::Far`](super::cache_distance::CacheDistance::Far)).
//!
//! There a line that one core has written and another reads may take longer than a line from
//! memory, and none is prefetched. It is better to write past the cache (streaming stores): the
//! reader then finds the lines in memory, one behind the other.

/// Longer pieces bypass the cache. 8 KiB take as long as through a shared cache, and a third of the
/// time without a shared one.
const LEAST: usize = 2 << 10;
/// The same where ranks share cores: the reader may run on the one that has written.
const LEAST_SHARED: usize = 8 << 10;
/// Bytes of a cache line.
const LINE: usize = 64;

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
    /// As for `std::ptr::copy_nonoverlapping`.
    #[inline(always)]
    pub(in crate::transport::shm) unsafe fn copy(self, to: *mut u8, from: *const u8, len: usize) {
        if len > self.least {
            // SAFETY: the caller's promise.
            unsafe { stream(to, from, len) };
        } else {
            // SAFETY: the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
        }
    }
}

/// Copies past this core's cache; all is written when it returns.
///
/// # Safety
/// As for `std::ptr::copy_nonoverlapping`.
#[cfg(target_arch = "x86_64")]
unsafe fn stream(to: *mut u8, from: *const u8, len: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
    const WORDS: usize = LINE / size_of::<__m128i>();
    let head = to.align_offset(LINE).min(len);
    let lines = (len - head) / LINE;
    // SAFETY: the caller's promise; all ranges lie within the two, and the lines are aligned.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, head);
        let mut source = from.add(head).cast::<__m128i>();
        let mut target = to.add(head).cast::<__m128i>();
        for _ in 0..lines {
            for word in 0..WORDS {
                _mm_stream_si128(target.add(word), _mm_loadu_si128(source.add(word)));
            }
            source = source.add(WORDS);
            target = target.add(WORDS);
        }
        let done = head + lines * LINE;
        std::ptr::copy_nonoverlapping(from.add(done), to.add(done), len - done);
        // Streaming stores are in no order with those that publish them.
        _mm_sfence();
    }
}

/// Copies as usual: there is no such store here.
///
/// # Safety
/// As for `std::ptr::copy_nonoverlapping`.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn stream(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_past_the_cache_arrives_and_nothing_else_is_touched() {
        let source: Vec<u8> = (0..2000).map(|at| (at % 251) as u8).collect();
        for to in [0, 1, 15, 16, 63, 64] {
            for from in [0, 7, 32] {
                for len in [0, 1, 63, 64, 65, 511, 512, 513, 1500] {
                    let mut target = vec![0u8; 2000];
                    let at = target.as_mut_ptr().wrapping_add(to);
                    // SAFETY: both ranges lie within their vectors.
                    unsafe { StreamingStore { least: 0 }.copy(at, source.as_ptr().add(from), len) };
                    assert_eq!(target[to..to + len], source[from..from + len]);
                    let others = target[..to].iter().chain(&target[to + len..]);
                    assert!(others.into_iter().all(|byte| *byte == 0));
                }
            }
        }
    }
}
