//! The features of this machine's processor.

use rejoin_image_format::ProcessorFeatures;

/// This machine's features.
pub(super) fn features() -> ProcessorFeatures {
    ProcessorFeatures::of_this_machine(|| {
        let (low, high): (u32, u32);
        // SAFETY: the processor says that the system lets programs read the register.
        unsafe {
            std::arch::asm!(
                "xgetbv",
                in("ecx") 0, out("eax") low, out("edx") high,
                options(nomem, nostack),
            );
        }
        u64::from(high) << 32 | u64::from(low)
    })
}
