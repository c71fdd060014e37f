//! The registers of a process, saved in a frame on its stack.

use std::ffi::c_void;

/// Called with the argument, the address of the frame, and the address of the code that takes the
/// registers from it.
pub(super) type WithFrame = unsafe extern "C" fn(*mut c_void, u64, u64) -> u64;

std::arch::global_asm!(
    ".hidden rejoin_with_saved_frame",
    ".globl rejoin_with_saved_frame",
    "rejoin_with_saved_frame:",
    "push rbp",
    "push rbx",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "sub rsp, 8",
    "stmxcsr [rsp]",
    "fnstcw [rsp + 4]",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rsp",
    "lea rdx, [rip + 2f]",
    "call rax",
    // The restarter continues here, with the frame's address in rsp and a result in rax.
    "2:",
    "ldmxcsr [rsp]",
    "fldcw [rsp + 4]",
    "add rsp, 8",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbx",
    "pop rbp",
    "ret",
);

unsafe extern "C" {
    fn rejoin_with_saved_frame(function: WithFrame, argument: *mut c_void) -> u64;
}

/// Saves the registers that a function call keeps, and calls `function`. Returns its result, and in
/// a process made from an image the restarter's.
///
/// # Safety
/// `function` may be called with `argument`.
pub(super) unsafe fn with_saved_frame(function: WithFrame, argument: *mut c_void) -> u64 {
    // SAFETY: the caller's promise. In each process this returns once, as after a fork.
    unsafe { rejoin_with_saved_frame(function, argument) }
}
