//! The registers with which a thread continues in a restored process.
//!
//! A parked thread waits inside [`save_and_call`]. In its own process that call ends when the wait
//! ends. In a restored process the thread is a new one, which [`start`] lets return from the same
//! call. Each process sees one return, so the code around the call needs no special care.

use std::arch::naked_asm;
use std::ffi::c_void;

/// The registers that a called function preserves.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct SavedRegisters {
    /// rbx, rbp, r12 to r15.
    preserved: [u64; 6],
    /// After the return.
    stack: u64,
    /// Where the call returns to.
    code: u64,
    /// Rounding modes of the two floating-point units.
    mxcsr: u32,
    x87: u32,
}

/// Saves the registers, then calls `wait`. Returns `false` when `wait` has returned, and `true` in
/// a thread that [`start`] has made.
///
/// # Safety
/// `context` may be written to, and `wait` may be called with `argument`.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn save_and_call(
    context: *mut SavedRegisters,
    wait: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
) -> bool {
    naked_asm!(
        "mov [rdi], rbx",
        "mov [rdi + 8], rbp",
        "mov [rdi + 16], r12",
        "mov [rdi + 24], r13",
        "mov [rdi + 32], r14",
        "mov [rdi + 40], r15",
        "lea rax, [rsp + 8]",
        "mov [rdi + 48], rax",
        "mov rax, [rsp]",
        "mov [rdi + 56], rax",
        "stmxcsr dword ptr [rdi + 64]",
        "fnstcw word ptr [rdi + 68]",
        "sub rsp, 8",
        "mov rdi, rdx",
        "call rsi",
        "add rsp, 8",
        "xor eax, eax",
        "ret",
    )
}

/// The memory that a thread needs from its beginning.
#[derive(Debug, Clone, Copy)]
pub(super) struct ThreadAddresses {
    /// The thread pointer (base of the `fs` segment).
    pub thread_pointer: usize,
    /// Cleared when the thread ends, with a wake for those that join it; 0 for none.
    pub tid_address: usize,
}

/// Starts a thread of this process that returns `true` from the [`save_and_call`] of `context`.
/// Gives its number. The new thread blocks the same signals as the caller.
///
/// # Safety
/// `context` was saved on a stack that no other thread uses, and the thread pointer belongs to no
/// other thread. Both stay valid.
pub(super) unsafe fn start(
    context: *const SavedRegisters,
    addresses: ThreadAddresses,
) -> crate::sys::Sys<i32> {
    let mut flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM
        | libc::CLONE_SETTLS;
    if addresses.tid_address != 0 {
        flags |= libc::CLONE_CHILD_CLEARTID;
    }
    // SAFETY: the caller's word; the frames below the saved stack pointer are dead.
    let result = unsafe {
        clone_into(
            flags as u64,
            context,
            addresses.tid_address,
            addresses.thread_pointer,
        )
    };
    if result < 0 {
        Err(-result as i32)
    } else {
        Ok(result as i32)
    }
}

/// # Safety
/// The conditions of [`start`].
#[unsafe(naked)]
unsafe extern "C" fn clone_into(
    flags: u64,
    context: *const SavedRegisters,
    tid_address: usize,
    thread_pointer: usize,
) -> i64 {
    naked_asm!(
        // The kernel preserves r9 and the arguments.
        "mov r9, rsi",
        "mov rsi, [r9 + 48]",
        "mov r10, rdx",
        "mov r8, rcx",
        "xor edx, edx",
        "mov eax, {clone}",
        "syscall",
        "test rax, rax",
        "jz 2f",
        "ret",
        "2:",
        "ldmxcsr dword ptr [r9 + 64]",
        "fldcw word ptr [r9 + 68]",
        "mov rbx, [r9]",
        "mov rbp, [r9 + 8]",
        "mov r12, [r9 + 16]",
        "mov r13, [r9 + 24]",
        "mov r14, [r9 + 32]",
        "mov r15, [r9 + 40]",
        "mov rsp, [r9 + 48]",
        "mov eax, 1",
        "jmp qword ptr [r9 + 56]",
        clone = const libc::SYS_clone,
    )
}

/// Where a signal handler of this module returns to: the kernel then restores the interrupted
/// registers.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn return_from_signal() {
    naked_asm!("mov eax, {number}", "syscall", number = const libc::SYS_rt_sigreturn)
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn set(argument: *mut c_void) {
        // SAFETY: the test passes a number.
        unsafe { *argument.cast::<u64>() += 7 };
    }

    #[test]
    fn the_wait_runs_and_registers_are_kept() {
        let (mut context, mut number) = (SavedRegisters::default(), 1u64);
        let kept: [u64; 8] = std::array::from_fn(|at| std::hint::black_box(at as u64));
        // SAFETY: the pointers are to a context and to the number that `set` takes.
        let is_new = unsafe { save_and_call(&mut context, set, (&raw mut number).cast()) };
        assert!(!is_new);
        assert_eq!(number, 8);
        assert_eq!(kept.iter().sum::<u64>(), 28);
        assert!(context.stack != 0 && context.code != 0 && context.mxcsr != 0);
    }
}
