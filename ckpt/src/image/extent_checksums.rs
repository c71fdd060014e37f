//! Checksums of extents, which another process computes while this one writes.
//!
//! The helper shares this process's memory, but has a stack of its own, which is in no image. It is
//! no thread, so an image has one thread in any case. It makes its system calls itself: the C
//! library would change data of this process's thread.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rejoin_image_format::{PAGE, SavedExtent, checksum};

use super::save_error::SaveError;
use super::scratch_list::ScratchList;
use crate::sys;

/// Most extents whose checksums are computed here.
const MOST: usize = super::image_writer::MOST_EXTENTS;
/// Length of the helper's stack in bytes.
const STACK: usize = 256 << 10;
/// Extents before the helper begins: smaller images are not worth a process.
const WORTH: u32 = 16;
/// Nanoseconds after which a helper without work looks for it, without being woken.
const IDLE: u64 = 1_000_000;

/// An extent that does not change.
#[derive(Clone, Copy, Default)]
struct Job {
    address: u64,
    pages: u32,
    /// The result.
    checksum: u64,
    /// Number of the extent.
    extent: u32,
}

/// What both processes use. It is at the beginning of the helper's stack, so it never moves.
struct Queue {
    jobs: *mut Job,
    /// How many jobs there are.
    ready: AtomicU32,
    /// The first that nobody has taken.
    next: AtomicU32,
    /// No more jobs come.
    is_complete: AtomicBool,
}

/// The checksums of an image's extents.
pub(super) struct ExtentChecksums {
    jobs: ScratchList<Job>,
    stack: ScratchList<u8>,
    helper: Option<i32>,
    /// Whether a helper may be started.
    may_start: bool,
}

impl ExtentChecksums {
    pub fn new() -> Result<Self, SaveError> {
        let (mut jobs, stack) = (ScratchList::new(MOST)?, ScratchList::new(STACK)?);
        let queue = Queue {
            jobs: jobs.room().as_mut_ptr(),
            ready: AtomicU32::new(0),
            next: AtomicU32::new(0),
            is_complete: AtomicBool::new(false),
        };
        // SAFETY: the beginning of a mapping, with room for it.
        unsafe { (stack.addresses().start as *mut Queue).write(queue) };
        Ok(Self {
            jobs,
            stack,
            helper: None,
            may_start: sys::processors() > 1,
        })
    }

    /// The addresses of this memory.
    pub fn addresses(&self) -> [std::ops::Range<u64>; 2] {
        [self.jobs.addresses(), self.stack.addresses()]
    }

    fn queue(&self) -> &Queue {
        // SAFETY: `new` has put it there, and all changes are atomic.
        unsafe { &*(self.stack.addresses().start as *const Queue) }
    }

    /// Computes the checksum of an extent until [`ExtentChecksums::finish`].
    ///
    /// # Safety
    /// The pages may be read, and do not change until then.
    pub unsafe fn add(&mut self, address: u64, pages: u32, extent: usize) -> Result<(), SaveError> {
        let count = self.queue().ready.load(Ordering::Relaxed);
        if self.may_start && count == WORTH {
            self.may_start = false;
            // SAFETY: the memory stays until the helper has ended, as `drop` waits.
            self.helper = unsafe { start(self.queue(), self.stack.addresses().end) };
        }
        self.jobs.push(Job {
            address,
            pages,
            checksum: 0,
            extent: extent as u32,
        })?;
        self.queue().ready.store(count + 1, Ordering::Release);
        // While the memory is in the cache for the write.
        if self.helper.is_none() {
            self.queue().work();
        }
        Ok(())
    }

    /// Computes what is left, and sets all checksums.
    pub fn finish(&mut self, extents: &mut [SavedExtent]) {
        self.queue().work();
        if !self.end_helper() {
            // It was killed in the middle of something.
            self.queue().next.store(0, Ordering::Relaxed);
            self.queue().work();
        }
        for job in self.jobs.iter() {
            if let Some(extent) = extents.get_mut(job.extent as usize) {
                extent.checksum = job.checksum;
            }
        }
    }

    /// Waits for the end of the helper. `false` if it left something undone.
    fn end_helper(&mut self) -> bool {
        let Some(pid) = self.helper.take() else {
            return true;
        };
        self.queue().is_complete.store(true, Ordering::Release);
        sys::futex_wake(&self.queue().ready, 1);
        sys::wait_for_clone(pid) == Ok(0)
    }
}

impl Drop for ExtentChecksums {
    fn drop(&mut self) {
        // The file is of no use, or complete.
        self.queue().next.store(u32::MAX, Ordering::Relaxed);
        self.end_helper();
    }
}

impl Queue {
    /// Does jobs until none is left.
    fn work(&self) {
        loop {
            let taken = self
                .next
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
                    (next < self.ready.load(Ordering::Acquire)).then(|| next + 1)
                });
            let Ok(number) = taken else {
                return;
            };
            // SAFETY: the job was written before its number was published, nobody else has taken
            // it, and its pages may be read and do not change.
            unsafe {
                let job = self.jobs.add(number as usize);
                let (address, pages) = ((*job).address, u64::from((*job).pages));
                let length = (pages * PAGE) as usize;
                let bytes = std::slice::from_raw_parts(address as *const u8, length);
                (*job).checksum = checksum(bytes);
            }
        }
    }
}

/// Starts the helper. `None` if the system refuses it.
///
/// # Safety
/// The queue and the stack stay until the helper has ended.
unsafe fn start(queue: &Queue, stack_end: u64) -> Option<i32> {
    let flags = (libc::CLONE_VM | libc::CLONE_FILES) as u64;
    let result: i64;
    // SAFETY: the kernel changes these registers only. The new process has its own, a stack that
    // nobody else uses, and leaves through `help`, which does not return.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r13",
            "call r12",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone => result,
            in("rdi") flags, in("rsi") stack_end, in("rdx") 0, in("r10") 0, in("r8") 0,
            in("r12") help as unsafe extern "C" fn(*const c_void) -> !, in("r13") std::ptr::from_ref(queue),
            lateout("rcx") _, lateout("r11") _,
        );
    }
    (result > 0).then_some(result as i32)
}

/// The whole life of the helper.
///
/// # Safety
/// The argument is a [`Queue`] that stays until this process has ended.
unsafe extern "C" fn help(queue: *const c_void) -> ! {
    // SAFETY: the caller's promise; the system calls touch no other memory.
    unsafe {
        let queue = &*queue.cast::<Queue>();
        let (signal, kill) = (libc::PR_SET_PDEATHSIG as u64, libc::SIGKILL as u64);
        raw_call(libc::SYS_prctl, [signal, kill, 0, 0]);
        loop {
            let is_complete = queue.is_complete.load(Ordering::Acquire);
            let ready = queue.ready.load(Ordering::Acquire);
            queue.work();
            if is_complete {
                raw_call(libc::SYS_exit_group, [0; 4]);
            }
            let pause = [0, IDLE];
            let word = queue.ready.as_ptr() as u64;
            let wait = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as u64;
            let pause = (&raw const pause) as u64;
            raw_call(libc::SYS_futex, [word, wait, u64::from(ready), pause]);
        }
    }
}

/// A system call that leaves the C library's error number alone.
///
/// # Safety
/// What the call does to memory must be sound.
unsafe fn raw_call(number: i64, arguments: [u64; 4]) {
    let [a, b, c, d] = arguments;
    // SAFETY: the kernel changes these registers only.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number => _,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_checksums_are_there_with_a_helper_and_without() {
        const PIECE: usize = 8;
        const COUNT: usize = 64;
        let bytes: Vec<u8> = (0..PIECE * COUNT * PAGE as usize)
            .map(|at| (at / 3) as u8)
            .collect();
        for may_start in [true, false] {
            let mut sums = ExtentChecksums::new().expect("memory");
            sums.may_start = may_start;
            let mut extents = vec![SavedExtent::default(); COUNT];
            let pieces = bytes.chunks_exact(PIECE * PAGE as usize);
            for (number, piece) in pieces.clone().enumerate() {
                let address = piece.as_ptr() as u64;
                // SAFETY: the bytes stay as they are.
                unsafe { sums.add(address, PIECE as u32, number) }.expect("room");
            }
            assert_eq!(sums.helper.is_some(), may_start);
            sums.finish(&mut extents);
            for (extent, piece) in extents.iter().zip(pieces) {
                assert_eq!(extent.checksum, checksum(piece));
            }
        }
    }

    #[test]
    fn a_helper_ends_with_the_checksums_that_are_given_up() {
        let page = vec![7u8; PAGE as usize];
        let mut sums = ExtentChecksums::new().expect("memory");
        sums.may_start = true;
        for number in 0..=WORTH {
            // SAFETY: the page stays as it is.
            unsafe { sums.add(page.as_ptr() as u64, 1, number as usize) }.expect("room");
        }
        let helper = sums.helper.expect("a helper");
        drop(sums);
        assert_eq!(sys::wait_for_clone(helper), Err(libc::ECHILD));
    }
}
