//! Memory of a log that remembers all stores, so that a test can cut it at any of them.

use rejoin_device::determinants::LogMemory;
use std::sync::{Arc, Mutex};

/// Words of the header of a log, and stores of one that begins.
pub const HEADER: usize = 16;

#[derive(Debug, Default)]
struct Stores {
    words: Vec<u64>,
    made: Vec<(usize, u64)>,
}

/// Memory that outlives a log: each clone is the same memory.
#[derive(Clone, Debug)]
pub struct Journal(Arc<Mutex<Stores>>);

impl Journal {
    pub fn new(words: usize) -> Self {
        let words = vec![0; words];
        let made = Vec::new();
        Self(Arc::new(Mutex::new(Stores { words, made })))
    }

    /// A copy, without its history.
    pub fn fork(&self) -> Self {
        let copy = Self::new(0);
        copy.0.lock().unwrap().words = self.0.lock().unwrap().words.clone();
        copy
    }

    /// The memory after so many of its stores.
    pub fn until(&self, stores: usize) -> Self {
        let whole = self.0.lock().unwrap();
        let copy = Self::new(whole.words.len());
        for (word, value) in &whole.made[..stores] {
            copy.0.lock().unwrap().words[*word] = *value;
        }
        copy
    }

    /// How many stores were made.
    pub fn len(&self) -> usize {
        self.0.lock().unwrap().made.len()
    }

    /// The words of the first record.
    pub fn first_record(&self) -> Vec<u64> {
        self.0.lock().unwrap().words[HEADER..HEADER + 4].to_vec()
    }

    /// The counters of the log.
    pub fn counters(&self) -> Vec<u64> {
        self.0.lock().unwrap().words[..8].to_vec()
    }
}

impl LogMemory for Journal {
    fn load(&self, word: usize) -> u64 {
        self.0.lock().unwrap().words[word]
    }

    fn store(&mut self, word: usize, value: u64) {
        let mut stores = self.0.lock().unwrap();
        stores.words[word] = value;
        stores.made.push((word, value));
    }

    fn words(&self) -> usize {
        self.0.lock().unwrap().words.len()
    }
}
