//! The processor: its features, and the thread that continues on it.

use core::arch::asm;

use rejoin_image_format::{ProcessorFeatures, RESUMED, SavedThread};

use crate::system_calls::{self as calls, Errno};

/// This machine's features.
pub fn features() -> ProcessorFeatures {
    ProcessorFeatures::of_this_machine(|| {
        let (low, high): (u32, u32);
        // SAFETY: the processor says that the system lets programs read the register.
        unsafe {
            asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack));
        }
        u64::from(high) << 32 | u64::from(low)
    })
}

const ARCH_SET_GS: u64 = 0x1001;
const ARCH_SET_FS: u64 = 0x1002;

/// Continues a thread where it was saved. Returns only if it can't.
pub fn resume(thread: &SavedThread, socket: i32) -> Result<(), Errno> {
    calls::arch_prctl(ARCH_SET_GS, thread.gs)?;
    calls::arch_prctl(ARCH_SET_FS, thread.fs)?;
    let result = RESUMED | u64::from(socket.cast_unsigned());
    // SAFETY: the process's memory is as it was when it saved the frame that `stack` points to, and
    // `entry` takes its registers from there.
    unsafe {
        asm!(
            "mov rsp, {stack}",
            "jmp {entry}",
            stack = in(reg) thread.stack,
            entry = in(reg) thread.entry,
            in("rax") result,
            options(noreturn),
        )
    }
}
