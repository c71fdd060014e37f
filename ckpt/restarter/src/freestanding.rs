//! What a program without a C library has to bring along: its start, its stack, the functions that
//! the compiler calls, and the end on a panic.

use core::arch::global_asm;

// A stack of its own, because the kernel's is removed.
global_asm!(
    ".globl _start",
    "_start:",
    "mov rdi, rsp",
    "lea rsp, [rip + {stack} + {size}]",
    "xor ebp, ebp",
    "call restarter_main",
    "ud2",
    stack = sym STACK,
    size = const STACK_SIZE,
);

const STACK_SIZE: usize = 512 * 1024;

#[repr(align(64))]
struct Stack(#[expect(dead_code, reason = "only addresses within it are used")] [u8; STACK_SIZE]);

static mut STACK: Stack = Stack([0; STACK_SIZE]);

// `rep` forms, so that the compiler can't make calls of the same functions of them.
global_asm!(
    ".globl memcpy",
    "memcpy:",
    "mov rax, rdi",
    "mov rcx, rdx",
    "rep movsb",
    "ret",
    ".globl memmove",
    "memmove:",
    "mov rax, rdi",
    "mov rcx, rdx",
    "mov r8, rdi",
    "sub r8, rsi",
    "cmp r8, rdx",
    "jb 2f",
    "rep movsb",
    "ret",
    "2:",
    "lea rdi, [rdi + rdx - 1]",
    "lea rsi, [rsi + rdx - 1]",
    "std",
    "rep movsb",
    "cld",
    "ret",
    ".globl memset",
    "memset:",
    "mov r8, rdi",
    "mov eax, esi",
    "mov rcx, rdx",
    "rep stosb",
    "mov rax, r8",
    "ret",
    ".globl memcmp",
    ".globl bcmp",
    "memcmp:",
    "bcmp:",
    "xor eax, eax",
    "mov rcx, rdx",
    "test rcx, rcx",
    "je 3f",
    "repe cmpsb",
    "je 3f",
    "movzx eax, byte ptr [rdi - 1]",
    "movzx ecx, byte ptr [rsi - 1]",
    "sub eax, ecx",
    "3:",
    "ret",
);

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    crate::system_calls::exit(101)
}
