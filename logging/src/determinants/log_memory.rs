//! The memory of a determinant log: words that outlive the process.

/// Memory of 64-bit words that stays when the process is killed, so that its next instance finds
/// the log there.
///
/// The log writes a record before it moves the counter that covers the record. An implementation
/// whose memory other processes read, or which a killed process leaves behind, must keep that
/// order: its `store` is a release store, and its `load` an acquire load.
pub trait LogMemory {
    /// The word at this index, which is below [`LogMemory::words`].
    fn load(&self, word: usize) -> u64;
    /// Writes the word at this index, which is below [`LogMemory::words`].
    fn store(&mut self, word: usize, value: u64);
    /// Number of words. It never changes.
    fn words(&self) -> usize;

    /// Writes little-endian words from this index on, before all that `store` writes afterwards.
    /// They end before [`LogMemory::words`].
    fn store_all(&mut self, first: usize, words: &[[u8; 8]]) {
        for (word, bytes) in (first..).zip(words) {
            self.store(word, u64::from_le_bytes(*bytes));
        }
    }
}

/// Memory of one process, for tests and models. It does not outlive the process.
impl LogMemory for Vec<u64> {
    fn load(&self, word: usize) -> u64 {
        self[word]
    }

    fn store(&mut self, word: usize, value: u64) {
        self[word] = value;
    }

    fn words(&self) -> usize {
        self.len()
    }
}

impl<M: LogMemory + ?Sized> LogMemory for Box<M> {
    fn load(&self, word: usize) -> u64 {
        (**self).load(word)
    }

    fn store(&mut self, word: usize, value: u64) {
        (**self).store(word, value);
    }

    fn words(&self) -> usize {
        (**self).words()
    }

    fn store_all(&mut self, first: usize, words: &[[u8; 8]]) {
        (**self).store_all(first, words);
    }
}
