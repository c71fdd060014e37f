//! The processor's features that a process may use.

use crate::error::ImageError;

/// Registers that describe a processor.
pub const WORDS: usize = 10;

/// Features of a processor, as `cpuid` tells them, and the state components that the system has
/// enabled. The C library chooses its functions by them when a program starts. So a restored
/// process needs all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessorFeatures {
    /// Bits of features: leaf 1 (ecx, edx), leaf 7.0 (ebx, ecx, edx), leaf 7.1 (eax), leaf
    /// 0x8000_0001 (ecx, edx), and the state components (low and high half of XCR0).
    pub words: [u32; WORDS],
}

impl ProcessorFeatures {
    /// This machine's features. `enabled_states` reads the register XCR0. It is called if the
    /// processor says that programs may read it.
    #[cfg(target_arch = "x86_64")]
    #[must_use]
    pub fn of_this_machine(enabled_states: impl FnOnce() -> u64) -> Self {
        use core::arch::x86_64::{__cpuid, __cpuid_count};
        let (first, seventh) = (__cpuid(1), __cpuid_count(7, 0));
        let (next, extended) = (__cpuid_count(7, 1), __cpuid(0x8000_0001));
        let may_read_states = first.ecx & 1 << 27 != 0;
        let states = if may_read_states { enabled_states() } else { 0 };
        Self {
            words: [
                first.ecx,
                first.edx,
                seventh.ebx,
                seventh.ecx,
                seventh.edx,
                if seventh.eax >= 1 { next.eax } else { 0 },
                extended.ecx,
                extended.edx,
                states as u32,
                (states >> 32) as u32,
            ],
        }
    }

    /// Checks that this machine's features include those of an image.
    ///
    /// # Errors
    /// [`ImageError::WeakerProcessor`] with the first word that lacks a bit.
    pub fn check(&self, machine: &Self) -> Result<(), ImageError> {
        let mut words = self.words.iter().zip(machine.words);
        match words.position(|(needed, has)| needed & !has != 0) {
            Some(word) => Err(ImageError::WeakerProcessor(word as u32)),
            None => Ok(()),
        }
    }
}
