//! Memory that is in no image: what a zygote needs while it saves itself.

use super::save_error::SaveError;
use crate::sys;

/// A list of plain values in a mapping of its own. Its pages get memory when they are used.
#[derive(Debug)]
pub(super) struct ScratchList<T> {
    start: *mut T,
    length: usize,
    capacity: usize,
}

impl<T: Copy> ScratchList<T> {
    /// An empty list with room for so many values.
    pub fn new(capacity: usize) -> Result<Self, SaveError> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let null = std::ptr::null_mut();
        // SAFETY: a new mapping at an address of the kernel's choice.
        let start = unsafe { libc::mmap(null, Self::bytes(capacity), access, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(SaveError::System {
                errno: sys::errno(),
            });
        }
        // No runner needs it. And the kernel joins it with no neighbour but its like.
        // SAFETY: the mapping was made just now.
        unsafe { libc::madvise(start, Self::bytes(capacity), libc::MADV_DONTFORK) };
        Ok(Self {
            start: start.cast(),
            length: 0,
            capacity,
        })
    }

    fn bytes(capacity: usize) -> usize {
        (capacity * size_of::<T>()).next_multiple_of(4096)
    }

    /// The addresses of the mapping.
    pub fn addresses(&self) -> std::ops::Range<u64> {
        let start = self.start as u64;
        start..start + Self::bytes(self.capacity) as u64
    }

    pub fn push(&mut self, value: T) -> Result<(), SaveError> {
        self.extend(&[value])
    }

    pub fn extend(&mut self, values: &[T]) -> Result<(), SaveError> {
        let room = self.room();
        let place = room.get_mut(..values.len()).ok_or(SaveError::TooMany)?;
        place.copy_from_slice(values);
        self.length += values.len();
        Ok(())
    }

    /// Removes all values.
    pub fn clear(&mut self) {
        self.length = 0;
    }

    /// The values after the last: zeros, or what was there before.
    pub fn room(&mut self) -> &mut [T] {
        let (from, count) = (self.length, self.capacity - self.length);
        // SAFETY: the mapping has room for `capacity` values, and only this list refers to it. Its
        // pages begin as zeros, which are values of the plain types used here.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(from), count) }
    }

    /// The bytes of [`ScratchList::room`]; any bytes are values of the plain types used here.
    pub fn room_bytes(&mut self) -> &mut [u8] {
        let room = self.room();
        let length = size_of_val(room);
        // SAFETY: the bytes are those of the room, and all of them are set.
        unsafe { std::slice::from_raw_parts_mut(room.as_mut_ptr().cast(), length) }
    }

    /// The bytes of the values, and then zeros up to a multiple of the page size, if no more values
    /// were ever there.
    pub fn whole_pages(&self) -> &[u8] {
        let length = (self.length * size_of::<T>()).next_multiple_of(4096);
        // SAFETY: the mapping has whole pages, and its bytes are set.
        unsafe { std::slice::from_raw_parts(self.start.cast(), length) }
    }

    /// So many values of [`ScratchList::room`] belong to the list now.
    pub fn grow(&mut self, count: usize) {
        self.length = (self.length + count).min(self.capacity);
    }
}

impl<T> std::ops::Deref for ScratchList<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: so many values were written, and they stay until the list changes.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl<T> std::ops::DerefMut for ScratchList<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above; only this list refers to them.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }
}

impl<T> Drop for ScratchList<T> {
    fn drop(&mut self) {
        let length = (self.capacity * size_of::<T>()).next_multiple_of(4096);
        // SAFETY: the mapping was made here, and no reference to it is left.
        unsafe { libc::munmap(self.start.cast(), length) };
    }
}
