//! How a file is opened, and what accesses are told apart by (MPI-5.0 §14.2.1, §14.4).

use crate::error::{Error, ErrorClass, Result};

/// The `MPI_MODE_…` flags of an open file, a valid combination. The numbers are the ABI's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessMode(i32);

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileDirection {
    /// From the file to the program.
    Read,
    /// From the program to the file.
    Write,
}

/// Where an access begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePosition {
    /// So many etypes from the beginning of the view.
    At(i64),
    /// At the pointer of this rank, which moves on.
    Individual,
    /// At the pointer of all ranks, which moves on. Collective accesses are in order of ranks.
    Shared,
}

impl AccessMode {
    /// All pointers begin at the end of the file.
    pub const APPEND: i32 = 1;
    /// Makes the file if there is none.
    pub const CREATE: i32 = 2;
    /// Removes the file at its close.
    pub const DELETE_ON_CLOSE: i32 = 4;
    /// With [`AccessMode::CREATE`]: there must be no such file.
    pub const EXCL: i32 = 8;
    /// Reads only.
    pub const RDONLY: i32 = 16;
    /// Reads and writes.
    pub const RDWR: i32 = 32;
    /// Accessed by the shared pointer only.
    pub const SEQUENTIAL: i32 = 64;
    /// Nobody else opens the file meanwhile.
    pub const UNIQUE_OPEN: i32 = 128;
    /// Writes only.
    pub const WRONLY: i32 = 256;

    const ALL: i32 = Self::APPEND
        | Self::CREATE
        | Self::DELETE_ON_CLOSE
        | Self::EXCL
        | Self::RDONLY
        | Self::RDWR
        | Self::SEQUENTIAL
        | Self::UNIQUE_OPEN
        | Self::WRONLY;

    /// The mode of these flags.
    ///
    /// # Errors
    /// `Amode` for flags that are unknown or do not go together.
    pub fn new(flags: i32) -> Result<Self> {
        let wrong = |why: &str| {
            let text = format!("access mode {flags}: {why}");
            Err(Error::new(ErrorClass::Amode, text))
        };
        let has = |flag| flags & flag != 0;
        if flags & !Self::ALL != 0 {
            return wrong("it has unknown flags");
        }
        let ways = [Self::RDONLY, Self::RDWR, Self::WRONLY].map(has);
        if ways.into_iter().filter(|&way| way).count() != 1 {
            return wrong("it has not exactly one of MPI_MODE_RDONLY, _RDWR and _WRONLY");
        }
        if has(Self::RDONLY) && has(Self::CREATE | Self::EXCL) {
            return wrong("MPI_MODE_RDONLY does not go with MPI_MODE_CREATE or _EXCL");
        }
        if has(Self::RDWR) && has(Self::SEQUENTIAL) {
            return wrong("MPI_MODE_RDWR does not go with MPI_MODE_SEQUENTIAL");
        }
        Ok(Self(flags))
    }

    /// The flags, as `MPI_File_get_amode` gives them.
    pub fn flags(self) -> i32 {
        self.0
    }

    /// Whether it has this flag.
    pub fn has(self, flag: i32) -> bool {
        self.0 & flag != 0
    }

    /// Whether the file may be read.
    pub fn reads(self) -> bool {
        !self.has(Self::WRONLY)
    }

    /// Whether the file may be written.
    pub fn writes(self) -> bool {
        !self.has(Self::RDONLY)
    }

    /// # Errors
    /// `Access` for a file that is open for writing only.
    pub fn check_read(self) -> Result<()> {
        if self.reads() {
            return Ok(());
        }
        let text = "the file is open for writing only (MPI_MODE_WRONLY)";
        Err(Error::new(ErrorClass::Access, text))
    }

    /// # Errors
    /// `ReadOnly` for a file that is open for reading only.
    pub fn check_write(self) -> Result<()> {
        if self.writes() {
            return Ok(());
        }
        let text = "the file is open for reading only (MPI_MODE_RDONLY)";
        Err(Error::new(ErrorClass::ReadOnly, text))
    }

    /// # Errors
    /// `UnsupportedOperation` for a file whose shared pointer is the only way to it.
    pub fn check_not_sequential(self) -> Result<()> {
        if !self.has(Self::SEQUENTIAL) {
            return Ok(());
        }
        let text = "a file that is open with MPI_MODE_SEQUENTIAL is accessed by its shared pointer \
                    only";
        Err(Error::new(ErrorClass::UnsupportedOperation, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_flags_that_go_together_are_a_mode() {
        use AccessMode as M;
        for good in [
            M::RDONLY,
            M::RDWR | M::CREATE | M::EXCL,
            M::WRONLY | M::SEQUENTIAL | M::APPEND,
        ] {
            assert_eq!(M::new(good).unwrap().flags(), good);
        }
        for bad in [
            0,
            M::CREATE,
            M::RDONLY | M::RDWR,
            M::RDONLY | M::CREATE,
            M::RDONLY | M::EXCL,
            M::RDWR | M::SEQUENTIAL,
            M::RDWR | 512,
            -1,
        ] {
            assert_eq!(M::new(bad).unwrap_err().class, ErrorClass::Amode, "{bad}");
        }
        let reader = M::new(M::RDONLY).unwrap();
        assert_eq!(
            reader.check_write().unwrap_err().class,
            ErrorClass::ReadOnly
        );
        let writer = M::new(M::WRONLY).unwrap();
        assert_eq!(writer.check_read().unwrap_err().class, ErrorClass::Access);
    }
}
