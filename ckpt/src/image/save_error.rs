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
    #[error(
        "descriptor {0} (a pipe, a socket, a message queue, or a file that is gone) can't be kept in a file"
    )]
    Descriptor(i32),
    /// The working directory is removed or outside the root directory.
    #[error("the working directory has no path")]
    Directory,
    /// Memory at this address that is shared, or a device's, or that has a protection key.
    #[error(
        "memory at {0:#x} that is shared, or a device's, or has a protection key, can't be kept in a file"
    )]
    Mapping(u64),
    /// Memory at this address, where the restarter is placed.
    #[error("memory at {0:#x} lies where the program that makes processes of files is placed")]
    Occupied(u64),
    /// The restarter can't enter them.
    #[error(
        "the process has namespaces, a root directory or a filter of system calls other than its manager's"
    )]
    Confined,
    /// The system protects the memory of a process that has given up privileges.
    #[error(
        "the process has become another user, and the system does not let it read its own memory (PR_SET_DUMPABLE)"
    )]
    Undumpable,
    /// In a process made from a file: a privilege is missing to get the others again.
    #[error("the users, groups or capabilities of the process can't be set again")]
    Privileges,
    /// More mappings or extents than a table holds.
    #[error("the process has too many mappings")]
    TooMany,
    /// Another request came before the file was whole.
    #[error("another request came first")]
    Interrupted,
}
