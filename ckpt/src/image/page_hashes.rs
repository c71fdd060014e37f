//! Hashes of an image's pages, which another process computes while this one waits for a disk.
//!
//! A file in memory needs no helper: see [`PageHashes::add_now`]. The helper shares this process's
//! memory, but has a stack of its own, which is in no image. It is no thread, so an image has one
//! thread in any case. It makes its system calls itself: the C library would change data of this
//! process's thread.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use rejoin_image_format::{PAGE, PageHash};

use super::save_error::SaveError;
use super::scratch_list::ScratchList;
use crate::sys;

/// Most runs of pages.
const MOST_JOBS: usize = 1 << 20;
/// Length of the helper's stack in bytes.
const STACK: usize = 256 << 10;
/// Jobs before the helper begins: smaller images are not worth a process.
const WORTH: u32 = 16;
/// Nanoseconds after which a helper without work looks for it unasked.
const IDLE: u64 = 1_000_000;

/// Pages that do not change.
#[derive(Clone, Copy, Default)]
struct Job {
    address: u64,
    pages: u64,
    /// The place of the first hash.
    first: u64,
}

/// What both processes use. It is at the beginning of the helper's stack, so it never moves, and
/// is in no image.
struct Queue {
    jobs: *const Job,
    hashes: *mut PageHash,
    /// How many jobs there are.
    ready: AtomicU32,
    /// The first that nobody has taken.
    next: AtomicU32,
    /// How many are done.
    done: AtomicU32,
    /// No more jobs come.
    is_complete: AtomicBool,
}

/// The hashes of an image's pages, in the order in which these were added.
pub(super) struct PageHashes {
    hashes: ScratchList<PageHash>,
    jobs: ScratchList<Job>,
    stack: ScratchList<u8>,
    helper: Option<i32>,
    /// Whether a helper may be started.
    may_start: bool,
}

impl PageHashes {
    /// Room for so many pages. `with_helper`: another process computes them, if there is a
    /// processor for it.
    pub fn new(pages: usize, with_helper: bool) -> Result<Self, SaveError> {
        let mut hashes = ScratchList::new(pages)?;
        let mut jobs = ScratchList::new(MOST_JOBS)?;
        let stack = ScratchList::<u8>::new(STACK)?;
        let queue = Queue {
            jobs: jobs.room().as_ptr(),
            hashes: hashes.room().as_mut_ptr(),
            ready: AtomicU32::new(0),
            next: AtomicU32::new(0),
            done: AtomicU32::new(0),
            is_complete: AtomicBool::new(false),
        };
        // SAFETY: the beginning of a mapping, with room for it.
        unsafe { (stack.addresses().start as *mut Queue).write(queue) };
        Ok(Self {
            hashes,
            jobs,
            stack,
            helper: None,
            may_start: with_helper && sys::processors() > 1,
        })
    }

    /// The addresses of this memory.
    pub fn addresses(&self) -> [std::ops::Range<u64>; 3] {
        [
            self.hashes.addresses(),
            self.jobs.addresses(),
            self.stack.addresses(),
        ]
    }

    /// How many there are, or will be.
    pub fn count(&self) -> usize {
        self.hashes.len()
    }

    /// The bytes of all hashes that are there, and then zeros up to the end of a page.
    pub fn whole_pages(&self) -> &[u8] {
        self.hashes.whole_pages()
    }

    /// Adds pages that may change after this, or that are written next: the processor then has
    /// them in its cache.
    pub fn add_now(&mut self, pages: &[u8]) -> Result<(), SaveError> {
        for page in pages.chunks(PAGE as usize) {
            self.hashes.push(PageHash::of(page))?;
        }
        Ok(())
    }

    fn queue(&self) -> &Queue {
        // SAFETY: `new` has put it there, and all changes are atomic.
        unsafe { &*(self.stack.addresses().start as *const Queue) }
    }

    /// Adds pages whose hashes are there after [`PageHashes::complete`].
    ///
    /// # Safety
    /// The pages may be read, and do not change until then.
    pub unsafe fn add(&mut self, address: u64, pages: u64) -> Result<(), SaveError> {
        let count = self.queue().ready.load(Ordering::Relaxed);
        if self.may_start && count == WORTH {
            self.may_start = false;
            // SAFETY: the memory stays until the helper has ended, as `drop` waits.
            self.helper = unsafe { start(self.queue(), self.stack.addresses().end) };
        }
        let first = self.hashes.len() as u64;
        if self.hashes.room().len() < pages as usize {
            return Err(SaveError::TooMany);
        }
        self.hashes.grow(pages as usize);
        self.jobs.push(Job {
            address,
            pages,
            first,
        })?;
        self.queue().ready.store(count + 1, Ordering::Release);
        // While the memory is in the cache for the write.
        if self.helper.is_none() {
            self.queue().work();
        }
        Ok(())
    }

    /// Computes what is left: all hashes.
    pub fn complete(&mut self) -> &[PageHash] {
        self.queue().work();
        let ready = self.queue().ready.load(Ordering::Relaxed);
        while self.queue().done.load(Ordering::Acquire) < ready {
            // The helper has the last ones.
            let ended = self.helper.map(sys::has_ended);
            if ended == Some(true) {
                // It was killed in the middle of something.
                self.helper = None;
                self.queue().done.store(0, Ordering::Relaxed);
                self.queue().next.store(0, Ordering::Relaxed);
                self.queue().work();
            }
            // It may need this processor.
            std::thread::yield_now();
        }
        &self.hashes
    }

    /// Waits for the end of the helper.
    fn end_helper(&mut self) {
        if let Some(pid) = self.helper.take() {
            self.queue().is_complete.store(true, Ordering::Release);
            sys::futex_wake(&self.queue().ready, 1);
            let _ = sys::wait_for_clone(pid);
        }
    }
}

impl Drop for PageHashes {
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
            // SAFETY: the job was written before its number was published, and nobody else has
            // taken it. Its pages may be read and do not change, and the places of its hashes are
            // its own.
            unsafe {
                let job = &*self.jobs.add(number as usize);
                for page in 0..job.pages {
                    let address = (job.address + page * PAGE) as *const u8;
                    let bytes = std::slice::from_raw_parts(address, PAGE as usize);
                    let place = self.hashes.add((job.first + page) as usize);
                    place.write(PageHash::of(bytes));
                }
            }
            self.done.fetch_add(1, Ordering::Release);
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
    fn all_hashes_are_there_with_a_helper_and_without() {
        const PIECE: usize = 8;
        const COUNT: usize = 64;
        let bytes: Vec<u8> = (0..PIECE * COUNT * PAGE as usize)
            .map(|at| (at / 3) as u8)
            .collect();
        let want: Vec<_> = bytes.chunks(PAGE as usize).map(PageHash::of).collect();
        for may_start in [true, false] {
            let mut hashes = PageHashes::new(PIECE * COUNT, false).expect("memory");
            hashes.may_start = may_start;
            for (number, piece) in bytes.chunks_exact(PIECE * PAGE as usize).enumerate() {
                if number == COUNT / 2 {
                    hashes.add_now(piece).expect("room");
                    continue;
                }
                // SAFETY: the bytes stay as they are.
                unsafe { hashes.add(piece.as_ptr() as u64, PIECE as u64) }.expect("room");
            }
            assert_eq!(hashes.helper.is_some(), may_start);
            assert!(*hashes.complete() == want[..]);
            // SAFETY: as above.
            let full = unsafe { hashes.add(bytes.as_ptr() as u64, 1) };
            assert_eq!(full, Err(SaveError::TooMany));
        }
    }

    #[test]
    fn the_work_of_a_helper_that_is_killed_is_done_again() {
        let page = vec![7u8; PAGE as usize];
        let mut hashes = PageHashes::new(100, false).expect("memory");
        hashes.may_start = true;
        // SAFETY: the page stays as it is.
        let mut add = || unsafe { hashes.add(page.as_ptr() as u64, 1) }.expect("room");
        (0..=WORTH).for_each(|_| add());
        let helper = hashes.helper.expect("a helper");
        // SAFETY: touches no memory; the helper is a child of this process.
        assert_eq!(unsafe { libc::kill(helper, libc::SIGKILL) }, 0);
        // As if it had taken one.
        hashes.queue().next.fetch_add(1, Ordering::Relaxed);
        let all = hashes.complete();
        assert!(all.iter().all(|hash| *hash == PageHash::of(&page)));
        assert_eq!(all.len(), WORTH as usize + 1);
        drop(hashes);
        assert_eq!(sys::wait_for_clone(helper), Err(libc::ECHILD));
    }
}
