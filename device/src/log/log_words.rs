//! Mapped words as the memory of a log of determinants: of the local manager, or of a recording.

use rejoin_ckpt::rank_log_memory::MappedWords;
use rejoin_logging::determinants::LogMemory;

/// The first words of a mapping that outlives the process.
pub(crate) struct LogWords {
    words: MappedWords,
    count: usize,
}

impl LogWords {
    /// So many of the words, at most all.
    pub(crate) fn new(words: MappedWords, count: usize) -> Self {
        let count = count.min(words.count());
        Self { words, count }
    }
}

impl LogMemory for LogWords {
    #[inline]
    fn load(&self, word: usize) -> u64 {
        self.words.load(word)
    }

    #[inline]
    fn store(&mut self, word: usize, value: u64) {
        self.words.store(word, value);
    }

    fn words(&self) -> usize {
        self.count
    }

    fn store_all(&mut self, first: usize, words: &[[u8; 8]]) {
        self.words.store_all(first, words);
    }
}
