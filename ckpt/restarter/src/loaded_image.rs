//! An image that is being loaded: its checked header and table, and its files.

use rejoin_image_format::{
    HEADER_LENGTH, ImageError, ImageHeader, ImageNumber, RESTARTER, SavedTable, SavedThread,
};

use crate::image_files::ImageFiles;
use crate::restart_arguments::{PATH, RestartArguments};
use crate::system_calls::{self as calls, RestartStep};
use crate::{cpu, own_mappings, rebuild};

/// Where tables are read to: there are two at most, of an image and of the next one.
const TABLES_AT: u64 = RESTARTER.start + (1 << 36);
/// Bytes between them.
const TABLE_ROOM: u64 = 1 << 35;

/// An image whose header, table and mapped files are as they must be.
pub struct LoadedImage {
    /// The header.
    pub header: ImageHeader,
    /// The table, in memory of this program's own.
    pub table: SavedTable<'static>,
    /// The only thread.
    pub thread: SavedThread,
    /// The open files.
    pub files: ImageFiles,
    /// Where the table is.
    memory: (u64, u64),
}

impl LoadedImage {
    /// Opens and checks the image of this number. `place`, 0 or 1, tells where its table goes.
    pub fn open(
        path: &[u8; PATH],
        arguments: &RestartArguments,
        number: ImageNumber,
        place: u64,
    ) -> Result<Self, ImageError> {
        let file = calls::open(path).map_err(RestartStep::OpenImage.because())?;
        let length = calls::length(file).map_err(RestartStep::ReadImage.because())?;
        let mut page = [0; HEADER_LENGTH];
        if length < HEADER_LENGTH as u64 {
            return Err(ImageError::NotAnImage);
        }
        calls::read_at(file, &mut page, 0).map_err(RestartStep::ReadImage.because())?;
        let header = ImageHeader::decode(&page, length)?;
        header
            .identity
            .check(arguments.job, arguments.rank, number)?;
        header.processor.check(&cpu::features())?;

        let memory = (TABLES_AT + place * TABLE_ROOM, header.table.length);
        let bytes = own_mappings::own_memory(memory.0, memory.1)?;
        calls::read_at(file, bytes, header.table.position)
            .map_err(RestartStep::ReadImage.because())?;
        let table = SavedTable::new(&header, bytes)?;
        let mut threads = table.threads();
        let (Some(thread), None) = (threads.next(), threads.next()) else {
            return Err(ImageError::Threads(table.threads().count() as u32));
        };
        rebuild::check_files(&table)?;
        let files = ImageFiles::open(file, path, &table)?;
        Ok(Self {
            header,
            table,
            thread,
            files,
            memory,
        })
    }

    /// Gives the memory of the table back.
    pub fn forget(self) -> Result<(), ImageError> {
        own_mappings::give_back(self.memory.0, self.memory.1)
    }
}
