//! Writes pages into a file, compressed if that is wanted.

use std::os::fd::RawFd;

use rejoin_image_format::{
    CompressedBlock, EXTENT_PAGES, HEADER_LENGTH, PAGE, SavedExtent, compression_room,
};

use super::save_error::SaveError;
use super::scratch_list::ScratchList;
use crate::sys;

/// How the pages of an image are compressed in its file. A restart sees it in the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum ImageCompression {
    /// Not at all.
    #[default]
    None,
    /// Runs of at most 1 MiB, in the LZ4 block format. Runs that do not get shorter stay as they
    /// are.
    Lz4,
}

/// Bytes that are written to a file in memory at once. They stay in a processor's cache between
/// the computation of their hashes and the copy, so this costs one pass over the memory.
const PIECE: usize = 64 << 10;

/// Bytes between two pauses of the writer. Ranks that wake up meanwhile wait no longer for a
/// processor than these take. Without pauses, they wait for the system's time slice, several times
/// in each collective.
const STRETCH: u64 = 1 << 20;
/// Nanoseconds of a pause.
const PAUSE: i64 = 50_000;

/// The end of a file, behind which further pages go.
pub(super) struct PageOutput {
    file: RawFd,
    /// The file is on its disk when it is whole.
    lasts: bool,
    position: u64,
    /// Where the writer has paused.
    paused_at: u64,
    /// Room for a compressed block, if pages are compressed. It is in no image.
    block: Option<ScratchList<u8>>,
    /// Pages on the way to a disk, or to be compressed. The system writes from the memory that it
    /// is given; pages that are shared with a process of the same fork it would copy first, one by
    /// one, for good.
    copy: Option<ScratchList<u8>>,
}

impl PageOutput {
    /// Nothing is written yet.
    pub fn new(file: RawFd, compression: ImageCompression, lasts: bool) -> Result<Self, SaveError> {
        Ok(Self {
            file,
            lasts,
            position: HEADER_LENGTH as u64,
            paused_at: 0,
            block: match compression {
                ImageCompression::None => None,
                ImageCompression::Lz4 => Some(ScratchList::new(compression_room())?),
            },
            copy: match sys::is_in_memory(file) && compression == ImageCompression::None {
                true => None,
                false => Some(ScratchList::new(EXTENT_PAGES as usize * PAGE as usize)?),
            },
        })
    }

    /// Whether pages go to memory as they are. Nothing is to be done there while they are written.
    pub fn is_copy_in_memory(&self) -> bool {
        self.block.is_none() && self.copy.is_none()
    }

    /// The addresses of this memory.
    pub fn addresses(&self) -> [std::ops::Range<u64>; 2] {
        [&self.block, &self.copy].map(|list| {
            let list = list.as_ref();
            list.map(ScratchList::addresses).unwrap_or_default()
        })
    }

    /// The length of what is written, in bytes.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Adds the pages of an address, at most those of an extent. Its checksum is not set.
    pub fn put(&mut self, address: u64, pages: &[u8]) -> Result<SavedExtent, SaveError> {
        let pages = match &mut self.copy {
            Some(copy) => {
                let room = copy.room().get_mut(..pages.len());
                let room = room.ok_or(SaveError::TooMany)?;
                // SAFETY: there are as many pages.
                unsafe { self::copy(pages.as_ptr(), room) };
                &*room
            }
            None => pages,
        };
        let compressed = self.block.as_mut().and_then(|room| {
            let room = room.room();
            let block = CompressedBlock::compress(pages, room)?;
            Some((block, room.get(..block.stored_length() as usize)?))
        });
        let (block, bytes) = match compressed {
            Some((block, bytes)) => (Some(block), bytes),
            None => (None, pages),
        };
        let extent = SavedExtent {
            address,
            position: self.position,
            pages: (pages.len() as u64 / PAGE) as u32,
            block,
            ..SavedExtent::default()
        };
        write_at(self.file, bytes, self.position)?;
        self.position += extent.stored_length();
        self.pause();
        Ok(extent)
    }

    /// Adds the pages of an address, at most those of an extent, as they are. `look` sees each
    /// piece before it is written. The checksum is not set.
    pub fn put_in_pieces(
        &mut self,
        address: u64,
        pages: &[u8],
        mut look: impl FnMut(&[u8]) -> Result<(), SaveError>,
    ) -> Result<SavedExtent, SaveError> {
        let extent = SavedExtent {
            address,
            position: self.position,
            pages: (pages.len() as u64 / PAGE) as u32,
            ..SavedExtent::default()
        };
        for piece in pages.chunks(PIECE) {
            look(piece)?;
            self.put_plain(piece)?;
        }
        Ok(extent)
    }

    /// Adds whole pages.
    pub fn put_plain(&mut self, bytes: &[u8]) -> Result<(), SaveError> {
        write_at(self.file, bytes, self.position)?;
        self.position += bytes.len() as u64;
        self.pause();
        Ok(())
    }

    fn pause(&mut self) {
        if self.position - self.paused_at >= STRETCH {
            self.paused_at = self.position;
            sys::sleep(PAUSE);
        }
    }

    /// Writes the first page, and waits until the whole file is on the disk, if it is to last.
    pub fn complete(&self, header: &[u8]) -> Result<(), SaveError> {
        write_at(self.file, header, 0)?;
        if !self.lasts {
            return Ok(());
        }
        // SAFETY: touches no memory.
        sys::check(unsafe { libc::fdatasync(self.file) }.into())
            .map_err(|errno| SaveError::System { errno })
            .map(drop)
    }
}

/// Copies as many bytes as there is room for. Not the C library's function: AddressSanitizer has it
/// end a process that reads memory which is free, or lies between its blocks.
///
/// # Safety
/// The bytes may be read.
pub(super) unsafe fn copy(from: *const u8, room: &mut [u8]) {
    // SAFETY: the caller's promise; the room is as long as its length says.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rcx") room.len() => _,
            inout("rsi") from => _,
            inout("rdi") room.as_mut_ptr() => _,
            options(nostack, preserves_flags),
        );
    }
}

fn write_at(file: RawFd, bytes: &[u8], position: u64) -> Result<(), SaveError> {
    let mut done = 0;
    while done < bytes.len() {
        let rest = &bytes[done..];
        let from = (position + done as u64) as i64;
        // Not the C library's function, for the reason above.
        // SAFETY: pointer and length describe the rest.
        let count =
            unsafe { libc::syscall(libc::SYS_pwrite64, file, rest.as_ptr(), rest.len(), from) };
        match sys::check(count) {
            Ok(0) => return Err(SaveError::System { errno: libc::EIO }),
            Ok(count) => done += count as usize,
            Err(libc::EINTR) => {}
            Err(errno) => return Err(SaveError::System { errno }),
        }
    }
    Ok(())
}
