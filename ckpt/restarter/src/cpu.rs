//! The processor: its features, and the thread that continues on it.

use core::arch::asm;
use core::arch::x86_64::{__cpuid, __cpuid_count};

use rejoin_image_format::{ProcessorFeatures, RESUMED, SavedThread};

use crate::system_calls::{self as calls, Errno};

/// This machine's features. `ckpt/src/image/processor_here.rs` lists the same.
pub fn features() -> ProcessorFeatures {
    let (first, seventh) = (__cpuid(1), __cpuid_count(7, 0));
    let (next, extended) = (__cpuid_count(7, 1), __cpuid(0x8000_0001));
    let (mut low, mut high) = (0u32, 0u32);
    if first.ecx & 1 << 27 != 0 {
        // SAFETY: the processor says that the system lets programs read the register.
        unsafe {
            asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack));
        }
    }
    let leaf_one = |has: bool, value: u32| if has { value } else { 0 };
    ProcessorFeatures {
        words: [
            first.ecx,
            first.edx,
            seventh.ebx,
            seventh.ecx,
            seventh.edx,
            leaf_one(seventh.eax >= 1, next.eax),
            extended.ecx,
            extended.edx,
            low,
            high,
        ],
    }
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
