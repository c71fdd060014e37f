//! Copies past this core's cache: of bytes that this core does not read next. They take half of the
//! time of usual stores, which first read what they overwrite.

/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Copies past this core's cache; all is written when it returns.
///
/// # Safety
/// The conditions are those of `std::ptr::copy_nonoverlapping`.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
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
/// The conditions are those of `std::ptr::copy_nonoverlapping`.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
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
                    unsafe { copy(at, source.as_ptr().add(from), len) };
                    assert_eq!(target[to..to + len], source[from..from + len]);
                    let others = target[..to].iter().chain(&target[to + len..]);
                    assert!(others.into_iter().all(|byte| *byte == 0));
                }
            }
        }
    }
}
