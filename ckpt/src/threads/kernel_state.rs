//! State of a thread that the kernel keeps, and that a clone or a new thread does not have.

use std::ffi::c_void;
use std::sync::atomic::{AtomicIsize, AtomicU32, Ordering};

/// The addresses that the C library has registered for a thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RegisteredAddresses {
    robust_list: *mut c_void,
    robust_length: usize,
    tid_address: *mut c_void,
}

impl RegisteredAddresses {
    /// The addresses of this thread.
    pub fn read() -> Self {
        let null = std::ptr::null_mut();
        let mut state = Self {
            robust_list: null,
            robust_length: 0,
            tid_address: null,
        };
        let (list, length) = (&raw mut state.robust_list, &raw mut state.robust_length);
        // SAFETY: the pointers are to a pointer, to a length and to a pointer, which the system
        // sets.
        unsafe {
            libc::syscall(libc::SYS_get_robust_list, 0, list, length);
            libc::prctl(
                libc::PR_GET_TID_ADDRESS,
                &raw mut state.tid_address,
                0,
                0,
                0,
            );
        }
        state
    }

    /// Registers them for this thread, in a clone.
    pub fn restore(&self) {
        self.restore_robust_list();
        if !self.tid_address.is_null() {
            // SAFETY: the address is the one that the C library gave for this very memory.
            unsafe { libc::syscall(libc::SYS_set_tid_address, self.tid_address) };
        }
    }

    fn restore_robust_list(&self) {
        if self.robust_list.is_null() {
            return;
        }
        let (list, length) = (self.robust_list, self.robust_length);
        // SAFETY: as above.
        unsafe { libc::syscall(libc::SYS_set_robust_list, list, length) };
    }

    /// Where the kernel clears the thread's number; 0 for nowhere.
    pub fn tid_address(&self) -> usize {
        self.tid_address as usize
    }
}

/// The calling thread's name, with a zero byte at its end.
pub(crate) fn name() -> [u8; 16] {
    let mut name = [0; 16];
    // SAFETY: the system writes 16 bytes at most.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr(), 0, 0, 0) };
    name
}

/// Sets the calling thread's name, which ends with a zero byte.
pub(crate) fn set_name(name: &[u8; 16]) {
    // SAFETY: the system reads 16 bytes at most.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) };
}

const ARCH_SET_GS: i32 = 0x1001;
const ARCH_GET_FS: i32 = 0x1003;
const ARCH_GET_GS: i32 = 0x1004;

/// Bytes of a set of processors: 1024 of them, as in glibc.
const PROCESSORS: usize = 128;

/// How the system treats a thread: which one gets the processor, the disk, and memory of which
/// node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scheduling {
    processor: Option<ProcessorScheduling>,
    /// Nanoseconds by which a timer may be late.
    timer_slack: i32,
    /// Class and level of requests to disks.
    disk: i64,
    /// Memory policy: mode, and set of nodes.
    memory: (i32, [u64; NODE_WORDS]),
}

/// Words of a set of nodes.
const NODE_WORDS: usize = 16;
/// `IOPRIO_WHO_PROCESS`.
const ONE_PROCESS: i32 = 1;

impl Scheduling {
    /// The calling thread's.
    pub fn read() -> Self {
        let (mut mode, mut nodes) = (0, [0u64; NODE_WORDS]);
        // SAFETY: the pointers are to a number and to a set of the length given.
        unsafe {
            let (at, most, here) = (nodes.as_mut_ptr(), NODE_WORDS * 64, 0);
            libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, at, most, here, 0);
            Self {
                processor: ProcessorScheduling::read(),
                timer_slack: libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0),
                disk: libc::syscall(libc::SYS_ioprio_get, ONE_PROCESS, 0),
                memory: (mode, nodes),
            }
        }
    }

    /// Sets it for the calling thread. A new thread has its creator's, so most threads need no
    /// call. What only a privileged process may set stays the creator's.
    pub fn restore(&self) {
        let now = Self::read();
        if let Some(processor) = self.processor.filter(|_| now.processor != self.processor) {
            processor.restore();
        }
        // SAFETY: pointer and length describe the set of nodes.
        unsafe {
            if now.timer_slack != self.timer_slack {
                libc::prctl(libc::PR_SET_TIMERSLACK, self.timer_slack as u64, 0, 0, 0);
            }
            if now.disk != self.disk {
                libc::syscall(libc::SYS_ioprio_set, ONE_PROCESS, 0, self.disk);
            }
            if now.memory != self.memory {
                let (mode, nodes) = &self.memory;
                let (at, most) = (nodes.as_ptr(), NODE_WORDS * 64);
                libc::syscall(libc::SYS_set_mempolicy, *mode, at, most);
            }
        }
    }
}

/// Scheduling policy, nice value and priority of a thread: the kernel's `struct sched_attr` in its
/// first version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
struct ProcessorScheduling {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    deadline: [u64; 3],
}

impl ProcessorScheduling {
    fn read() -> Option<Self> {
        let mut now = Self {
            size: size_of::<Self>() as u32,
            policy: 0,
            flags: 0,
            nice: 0,
            priority: 0,
            deadline: [0; 3],
        };
        let (at, size) = (&raw mut now, size_of::<Self>());
        // SAFETY: the pointer is to a structure of this size, which the system fills in.
        let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, at, size, 0) };
        if now.has_nice_apart() {
            // The system call counts from 40 down.
            // SAFETY: touches no memory.
            let nice = unsafe { libc::syscall(libc::SYS_getpriority, libc::PRIO_PROCESS, 0) };
            now.nice = 20 - nice as i32;
        }
        (result == 0).then_some(now)
    }

    /// While a thread has a real-time policy, the system reports its nice value elsewhere.
    fn has_nice_apart(&self) -> bool {
        [libc::SCHED_FIFO, libc::SCHED_RR].contains(&(self.policy as i32))
    }

    fn restore(&self) {
        if self.has_nice_apart() {
            // SAFETY: touches no memory.
            unsafe { libc::syscall(libc::SYS_setpriority, libc::PRIO_PROCESS, 0, self.nice) };
        }
        // SAFETY: the pointer is to a structure of the size that it names.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, std::ptr::from_ref(self), 0) };
    }
}

/// A thread's state in the kernel, apart from registers and signal mask.
#[derive(Clone, Copy)]
pub(super) struct KernelState {
    pub registered: RegisteredAddresses,
    pub thread_pointer: usize,
    gs: usize,
    alternate: libc::stack_t,
    name: [u8; 16],
    processors: [u8; PROCESSORS],
    /// How many bytes of the set the system has filled in.
    processor_bytes: usize,
    scheduling: Scheduling,
}

impl KernelState {
    /// The calling thread's.
    pub fn read() -> Self {
        let (mut fs, mut gs) = (0usize, 0usize);
        let mut processors = [0u8; PROCESSORS];
        // SAFETY: each pointer is to room for what the call writes; `stack_t` is plain data.
        let (alternate, processor_bytes) = unsafe {
            libc::syscall(libc::SYS_arch_prctl, ARCH_GET_FS, &raw mut fs);
            libc::syscall(libc::SYS_arch_prctl, ARCH_GET_GS, &raw mut gs);
            let mut alternate: libc::stack_t = std::mem::zeroed();
            libc::sigaltstack(std::ptr::null(), &mut alternate);
            let (size, at) = (PROCESSORS, processors.as_mut_ptr());
            let bytes = libc::syscall(libc::SYS_sched_getaffinity, 0, size, at);
            (alternate, usize::try_from(bytes).unwrap_or(0))
        };
        Self {
            registered: RegisteredAddresses::read(),
            thread_pointer: fs,
            gs,
            alternate,
            name: name(),
            processors,
            processor_bytes,
            scheduling: Scheduling::read(),
        }
    }

    /// Sets it in a new thread, which has the thread pointer and the tid address already.
    pub fn restore(&self) {
        self.registered.restore_robust_list();
        register_rseq(self.thread_pointer);
        // SAFETY: the addresses are those of the former thread with this memory; pointer and length
        // describe the set of processors.
        unsafe {
            if self.gs != 0 {
                libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, self.gs);
            }
            let mut alternate = self.alternate;
            // A thread that runs on it may not say so.
            alternate.ss_flags &= !libc::SS_ONSTACK;
            libc::sigaltstack(&alternate, std::ptr::null_mut());
            if self.processor_bytes > 0 {
                let (size, at) = (self.processor_bytes, self.processors.as_ptr());
                libc::syscall(libc::SYS_sched_setaffinity, 0, size, at);
            }
        }
        self.scheduling.restore();
        set_name(&self.name);
    }
}

/// Where the C library keeps a thread's area for restartable sequences, from the thread pointer.
static RSEQ_OFFSET: AtomicIsize = AtomicIsize::new(0);
/// The length of that area as it was registered; 0 when the C library registers none.
static RSEQ_LENGTH: AtomicU32 = AtomicU32::new(0);
/// The signature with which glibc registers the area on x86-64 (`RSEQ_SIG`).
const RSEQ_SIGNATURE: u32 = 0x5305_3053;

/// Finds out what no signal handler may ask of the loader.
pub(super) fn find_rseq() {
    // SAFETY: the names end with zero bytes; glibc declares an offset and an unsigned number.
    unsafe {
        let offset = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr());
        let size = libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr());
        if !offset.is_null() && !size.is_null() {
            let size = size.cast::<u32>().read();
            RSEQ_OFFSET.store(offset.cast::<isize>().read(), Ordering::Relaxed);
            // It counts the fields in use; the area has 32 bytes at least.
            let length = if size == 0 {
                0
            } else {
                size.next_multiple_of(32)
            };
            RSEQ_LENGTH.store(length, Ordering::Relaxed);
        }
    }
}

/// Registers the area of the calling thread, whose thread pointer this is.
pub(crate) fn register_rseq(thread_pointer: usize) {
    let length = RSEQ_LENGTH.load(Ordering::Relaxed);
    if length > 0 {
        let area = thread_pointer.wrapping_add_signed(RSEQ_OFFSET.load(Ordering::Relaxed));
        // SAFETY: the C library registered this area for the former thread with this memory.
        unsafe { libc::syscall(libc::SYS_rseq, area, length, 0, RSEQ_SIGNATURE) };
    }
}
