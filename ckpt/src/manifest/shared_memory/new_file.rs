//! A file that is made anew in place of one that was removed.

use std::ffi::{CStr, CString};
use std::os::fd::RawFd;

use super::other_mappers::File;
use crate::sys;

/// Makes an empty file of this mode; an error if the name is taken. `note` is told which file it is
/// before the name exists. So the successor of a rank that is killed here finds no file, or one
/// that was noted.
pub(super) fn create(path: &CStr, mode: u32, note: impl FnOnce(File)) -> sys::Sys<RawFd> {
    let flags = libc::O_RDWR | libc::O_CLOEXEC;
    match open(&folder(path), flags | libc::O_TMPFILE, mode) {
        Ok(fd) => {
            let named = describe(fd, mode, note).and_then(|()| give_name(fd, path));
            if named.is_err() {
                sys::close(fd);
            }
            named.map(|()| fd)
        }
        // The file system makes no file without a name.
        Err(libc::EOPNOTSUPP | libc::EISDIR) => {
            let fd = open(path, flags | libc::O_CREAT | libc::O_EXCL, mode)?;
            describe(fd, mode, note).map(|()| fd)
        }
        Err(errno) => Err(errno),
    }
}

/// The folder of a file with an absolute path.
fn folder(path: &CStr) -> CString {
    let bytes = path.to_bytes();
    let end = bytes.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    // A part of a path has no zero byte, either.
    CString::new(&bytes[..end.max(1)]).unwrap_or_default()
}

fn open(path: &CStr, flags: i32, mode: u32) -> sys::Sys<RawFd> {
    // SAFETY: the path ends with a zero byte.
    let opened = unsafe { libc::open(path.as_ptr(), flags, mode) };
    sys::check(opened.into()).map(|fd| fd as RawFd)
}

fn describe(fd: RawFd, mode: u32, note: impl FnOnce(File)) -> sys::Sys<()> {
    // Whatever the program's `umask` is now.
    // SAFETY: touches no memory.
    unsafe { libc::fchmod(fd, mode) };
    let status = sys::status(fd)?;
    note((status.st_dev, status.st_ino));
    Ok(())
}

fn give_name(fd: RawFd, path: &CStr) -> sys::Sys<()> {
    let from = sys::ShortPath::new(format_args!("/proc/thread-self/fd/{fd}"));
    let (at, follow) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
    // SAFETY: both paths end with a zero byte.
    let named = unsafe { libc::linkat(at, from.as_c_str().as_ptr(), at, path.as_ptr(), follow) };
    sys::check(named.into()).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn a_file_is_noted_before_it_has_a_name() {
        for folder in [std::env::temp_dir(), "/dev/shm".into()] {
            let path = folder.join(format!("rejoin-new-file-{}", std::process::id()));
            let name = CString::new(path.to_str().expect("text")).expect("a name");
            let mut noted = None;
            let fd = create(&name, 0o640, |file| {
                assert!(!path.exists());
                noted = Some(file);
            });
            let fd = fd.expect("a file");
            let data = path.metadata().expect("the file");
            assert_eq!(noted, Some((data.dev(), data.ino())));
            assert_eq!(data.permissions().mode() & 0o7777, 0o640);
            sys::close(fd);
            // A name that is taken stays with its file.
            assert_eq!(create(&name, 0o600, |_| ()), Err(libc::EEXIST));
            assert_eq!(path.metadata().expect("the file").ino(), data.ino());
            std::fs::remove_file(path).expect("removed");
        }
    }

    #[test]
    fn the_folder_of_a_file_is_known() {
        let of = |path: &CStr| folder(path);
        assert_eq!(of(c"/a/b/c").as_c_str(), c"/a/b");
        assert_eq!(of(c"/c").as_c_str(), c"/");
    }
}
