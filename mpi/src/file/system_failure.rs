//! What a failed system call on a file is to the program.

use std::io;
use std::path::Path;

use crate::error::{Error, ErrorClass};

/// The error of a failed system call on a file.
pub(super) fn failure(what: &str, path: &Path, error: &io::Error) -> Error {
    let class = match error.raw_os_error().unwrap_or(0) {
        libc::ENOENT => ErrorClass::NoSuchFile,
        libc::EEXIST => ErrorClass::FileExists,
        libc::EACCES | libc::EPERM => ErrorClass::Access,
        libc::EROFS => ErrorClass::ReadOnly,
        libc::ENOSPC => ErrorClass::NoSpace,
        libc::EDQUOT => ErrorClass::Quota,
        libc::ETXTBSY | libc::EBUSY => ErrorClass::FileInUse,
        libc::ENAMETOOLONG | libc::ENOTDIR | libc::EISDIR | libc::ELOOP => ErrorClass::BadFile,
        libc::EFAULT => ErrorClass::Buffer,
        _ => ErrorClass::Io,
    };
    Error::new(class, format!("can't {what} {}: {error}", path.display()))
}
