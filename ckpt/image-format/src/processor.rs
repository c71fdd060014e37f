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
