//! The features of this machine's processor.

use rejoin_image_format::ProcessorFeatures;

/// This machine's features. `ckpt/restarter/src/cpu.rs` lists the same.
pub(super) fn features() -> ProcessorFeatures {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    let (first, seventh) = (__cpuid(1), __cpuid_count(7, 0));
    let (next, extended) = (__cpuid_count(7, 1), __cpuid(0x8000_0001));
    let (mut low, mut high) = (0u32, 0u32);
    if first.ecx & 1 << 27 != 0 {
        // SAFETY: the processor says that the system lets programs read the register.
        unsafe {
            std::arch::asm!(
                "xgetbv",
                in("ecx") 0, out("eax") low, out("edx") high,
                options(nomem, nostack),
            );
        }
    }
    ProcessorFeatures {
        words: [
            first.ecx,
            first.edx,
            seventh.ebx,
            seventh.ecx,
            seventh.edx,
            if seventh.eax >= 1 { next.eax } else { 0 },
            extended.ecx,
            extended.edx,
            low,
            high,
        ],
    }
}
