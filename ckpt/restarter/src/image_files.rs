//! The files that an image's pages are in: its own, and earlier images of the rank.

use rejoin_image_format::{
    HEADER_LENGTH, ImageError, ImageHeader, MOST_BASES, SavedBase, SavedTable,
};

use crate::restart_arguments::PATH;
use crate::system_calls as calls;

/// The open files, as extents number them.
pub struct ImageFiles {
    open: [i32; 1 + MOST_BASES as usize],
    count: usize,
}

impl ImageFiles {
    /// Opens the bases of an image, which are in the same folder, and checks that they are those
    /// that it was written with.
    ///
    /// # Errors
    /// [`ImageError::BaseChanged`].
    pub fn open(own: i32, path: &[u8; PATH], table: &SavedTable<'_>) -> Result<Self, ImageError> {
        let mut files = Self {
            open: [own; _],
            count: 1,
        };
        for base in table.bases() {
            let file = open_base(path, table.base_name(&base), &base);
            let place = files.open.get_mut(files.count);
            let (Some(place), Some(file)) = (place, file) else {
                return Err(ImageError::BaseChanged(files.count as u32));
            };
            *place = file;
            files.count += 1;
        }
        // From here on whole pages are read. A file that was written past the system's cache is
        // rarely in it, and reading ahead is slower than the disk.
        files.iter().for_each(calls::bypass_cache);
        Ok(files)
    }

    fn iter(&self) -> impl Iterator<Item = i32> + '_ {
        self.open[..self.count].iter().copied()
    }

    /// The file of an extent.
    pub fn of(&self, number: u32) -> Option<i32> {
        self.iter().nth(number as usize)
    }

    /// Closes all.
    pub fn close(&self) {
        self.iter().for_each(calls::close);
    }
}

fn open_base(image: &[u8; PATH], name: &[u8], base: &SavedBase) -> Option<i32> {
    let mut path = *image;
    let folder = path.iter().rposition(|byte| *byte == b'/')?;
    let room = path.get_mut(folder + 1..)?;
    room.fill(0);
    // The last byte stays zero.
    room.get_mut(..name.len() + 1)?[..name.len()].copy_from_slice(name);
    let file = calls::open(&path).ok()?;
    let mut page = [0; HEADER_LENGTH];
    let is_same = calls::length(file) == Ok(base.length)
        && calls::read_at(file, &mut page, 0).is_ok()
        && ImageHeader::checksum_in(&page) == base.checksum
        && ImageHeader::decode(&page, base.length).is_ok();
    if !is_same {
        calls::close(file);
    }
    is_same.then_some(file)
}
