//! Buffers for bodies that the engine holds: unexpected messages, detached sends, and the log.

use std::hash::{Hash, Hasher};
use std::ops::Range;

use crate::groups::log_space::{LogBlock, LogSpace};

/// Smallest size class, as a power of two.
const SMALLEST: u32 = 6;
/// Number of size classes: 64 bytes to 4 MiB.
const CLASSES: usize = 17;
/// Bytes of unused buffers that are kept.
const SPARE: usize = 8 << 20;

/// A body: the first `len` bytes of `data`, whose length is that of its size class.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buf {
    data: BufMemory,
    len: usize,
}

/// Where the bytes of a buffer are.
#[derive(Debug)]
enum BufMemory {
    Heap(Vec<u8>),
    /// In the memory of the log.
    Log(LogBlock),
}

impl Default for BufMemory {
    fn default() -> Self {
        BufMemory::Heap(Vec::new())
    }
}

impl Clone for BufMemory {
    fn clone(&self) -> Self {
        match self {
            BufMemory::Heap(data) => BufMemory::Heap(data.clone()),
            BufMemory::Log(block) => BufMemory::Heap(block.to_vec()),
        }
    }
}

impl Buf {
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.data {
            BufMemory::Heap(data) => &data[..self.len],
            BufMemory::Log(block) => &block[..self.len],
        }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.data {
            BufMemory::Heap(data) => &mut data[..self.len],
            BufMemory::Log(block) => &mut block[..self.len],
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The addresses of the buffer in the memory of the log, if it is there.
    pub(crate) fn logged_at(&self) -> Option<Range<usize>> {
        match &self.data {
            BufMemory::Heap(_) => None,
            BufMemory::Log(block) => {
                let start = block.as_ptr().addr();
                Some(start..start + block.len())
            }
        }
    }
}

impl PartialEq for Buf {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Buf {}

impl Hash for Buf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes().hash(state);
    }
}

/// Unused buffers by size class. They are no part of the rank's state: all pools are equal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool {
    classes: [Vec<Vec<u8>>; CLASSES],
    spare: usize,
    log: LogSpace,
}

impl PartialEq for Pool {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Pool {}

impl Hash for Pool {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

fn class_of(len: usize) -> usize {
    let bits = len.max(1).next_power_of_two().trailing_zeros();
    bits.saturating_sub(SMALLEST) as usize
}

impl Pool {
    /// A buffer of `len` bytes with any content.
    pub(crate) fn take(&mut self, len: usize) -> Buf {
        if len == 0 {
            return Buf::default();
        }
        let class = class_of(len);
        if let Some(data) = self.classes.get_mut(class).and_then(Vec::pop) {
            self.spare -= data.len();
            let data = BufMemory::Heap(data);
            return Buf { data, len };
        }
        let size = if class < CLASSES {
            1 << (class + SMALLEST as usize)
        } else {
            len
        };
        Buf {
            data: BufMemory::Heap(vec![0; size]),
            len,
        }
    }

    /// A buffer of `len` bytes for a body of the log: in the log's memory, if that has room.
    pub(crate) fn take_logged(&mut self, len: usize) -> Buf {
        match self.log.take(len) {
            Some(block) => Buf {
                data: BufMemory::Log(block),
                len,
            },
            None => self.take(len),
        }
    }

    /// Takes a buffer back.
    pub(crate) fn put(&mut self, buf: Buf) {
        let data = match buf.data {
            BufMemory::Heap(data) => data,
            BufMemory::Log(block) => return self.log.hold(block, buf.len),
        };
        let size = data.len();
        if size == 0 || self.spare + size > SPARE {
            return;
        }
        if let Some(class) = self.classes.get_mut(class_of(size)) {
            self.spare += size;
            class.push(data);
        }
    }

    /// The memory of the log.
    pub(crate) fn log(&mut self) -> &mut LogSpace {
        &mut self.log
    }

    /// The memory of the log, to be looked at.
    pub(crate) fn log_ref(&self) -> &LogSpace {
        &self.log
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_again_and_bounded() {
        let mut pool = Pool::default();
        let mut buf = pool.take(100);
        buf.bytes_mut().fill(7);
        let address = buf.bytes().as_ptr();
        pool.put(buf);
        let again = pool.take(128);
        assert_eq!((again.bytes().as_ptr(), again.len()), (address, 128));
        for _ in 0..10 {
            let large: Vec<Buf> = (0..10).map(|_| pool.take(4 << 20)).collect();
            large.into_iter().for_each(|buf| pool.put(buf));
        }
        assert!(pool.spare <= SPARE);
        assert_eq!(pool.take(0).len(), 0);
        assert_eq!(pool.take(5 << 20).len(), 5 << 20);
    }
}
