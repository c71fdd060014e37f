//! Why a process has no file.

/// Why a zygote can't be saved, or can't continue where it was saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SaveError {
    /// The system refused something.
    #[error("{}", std::io::Error::from_raw_os_error(*.errno))]
    System {
        /// The system's number for the error.
        errno: i32,
    },
    /// A descriptor of the program that has no path: a pipe, a socket, a deleted file.
    #[error("descriptor {0} (a pipe, a socket, or a file that is gone) can't be kept in a file")]
    Descriptor(i32),
    /// The working directory is removed or outside the root directory.
    #[error("the working directory has no path")]
    Directory,
    /// Memory at this address that is shared, or a device's.
    #[error("memory at {0:#x} that is shared, or a device's, can't be kept in a file")]
    Mapping(u64),
    /// More mappings or extents than a table holds.
    #[error("the process has too many mappings")]
    TooMany,
    /// Another request came before the file was whole.
    #[error("another request came first")]
    Interrupted,
}
