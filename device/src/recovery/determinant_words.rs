//! The memory of a rank's determinants: words of its local manager.

use std::os::fd::AsFd;

use rejoin_ckpt::determinant_memory::MappedWords;
use rejoin_logging::determinants::LogMemory;
use rejoin_wire::Images;

use super::imaging::managers_memory;

/// Words that outlive the process.
struct ManagersWords(MappedWords);

impl LogMemory for ManagersWords {
    #[inline]
    fn load(&self, word: usize) -> u64 {
        self.0.load(word)
    }

    #[inline]
    fn store(&mut self, word: usize, value: u64) {
        self.0.store(word, value);
    }

    fn words(&self) -> usize {
        self.0.count()
    }
}

/// Opens the memory of this rank's determinants.
///
/// # Errors
/// The manager has none for this rank, or the system does not map it.
pub(crate) fn open(images: Option<&Images>) -> std::io::Result<Box<dyn LogMemory + Send>> {
    let place = images.and_then(|images| Some((images.manager, images.determinants?)));
    let (manager, descriptor) = place.ok_or_else(|| {
        std::io::Error::other("the local manager gives no memory for determinants")
    })?;
    let memory = managers_memory(manager, descriptor)?;
    let words = MappedWords::map(memory.as_fd())?;
    Ok(Box::new(ManagersWords(words)))
}
