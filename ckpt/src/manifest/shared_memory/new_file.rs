//! A file that is made anew in place of one that was removed.

use std::ffi::{CStr, CString};
use std::os::fd::RawFd;

use super::other_mappers::File;
use crate::sys;

/// Makes an empty file that this process may read and write; an error if the name is taken. `note`
/// is told which file it is before the name exists. So the successor of a rank that is killed here
/// finds no file, or one that was noted. The caller sets the mode.
pub(super) fn create(path: &CStr, note: impl FnOnce(File)) -> sys::Sys<RawFd> {
    match open(&folder(path), libc::O_TMPFILE) {
        Ok(unnamed) => {
            let named = which(unnamed).and_then(|file| {
                note(file);
                give_name(unnamed, path)?;
                open_named(path, file)
            });
            sys::close(unnamed);
            named
        }
        // The file system makes no file without a name.
        Err(libc::EOPNOTSUPP | libc::EISDIR) => {
            let fd = open(path, libc::O_CREAT | libc::O_EXCL)?;
            which(fd).map(|file| {
                note(file);
                fd
            })
        }
        Err(errno) => Err(errno),
    }
}

/// Opens the file by its name: as long as it is open without one, the kernel shows its mappings
/// without one.
fn open_named(path: &CStr, file: File) -> sys::Sys<RawFd> {
    let fd = open(path, 0)?;
    match which(fd) {
        Ok(opened) if opened == file => Ok(fd),
        other => {
            sys::close(fd);
            Err(other.err().unwrap_or(libc::EEXIST))
        }
    }
}

/// The folder of a file with an absolute path.
fn folder(path: &CStr) -> CString {
    let bytes = path.to_bytes();
    let end = bytes.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    // A part of a path has no zero byte, either.
    CString::new(&bytes[..end.max(1)]).unwrap_or_default()
}

fn open(path: &CStr, flags: i32) -> sys::Sys<RawFd> {
    let flags = flags | libc::O_RDWR | libc::O_CLOEXEC;
    // SAFETY: the path ends with a zero byte.
    let opened = unsafe { libc::open(path.as_ptr(), flags, 0o600) };
    sys::check(opened.into()).map(|fd| fd as RawFd)
}

/// File system and number.
fn which(fd: RawFd) -> sys::Sys<File> {
    sys::status(fd).map(|status| (status.st_dev, status.st_ino))
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
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_file_is_noted_before_it_has_a_name() {
        for folder in [std::env::temp_dir(), "/dev/shm".into()] {
            let path = folder.join(format!("rejoin-new-file-{}", std::process::id()));
            let name = CString::new(path.to_str().expect("text")).expect("a name");
            let mut noted = None;
            let fd = create(&name, |file| {
                assert!(!path.exists());
                noted = Some(file);
            });
            let fd = fd.expect("a file");
            let data = path.metadata().expect("the file");
            assert_eq!(noted, Some((data.dev(), data.ino())));
            // Mappings are found by this name.
            let shown = std::fs::read_link(format!("/proc/self/fd/{fd}"));
            assert_eq!(shown.expect("a name"), path);
            sys::close(fd);
            // A name that is taken stays with its file.
            assert_eq!(create(&name, |_| ()), Err(libc::EEXIST));
            assert_eq!(path.metadata().expect("the file").ino(), data.ino());
            std::fs::remove_file(path).expect("removed");
        }
    }

    #[test]
    fn the_folder_of_a_file_is_known() {
        assert_eq!(folder(c"/a/b/c").as_c_str(), c"/a/b");
        assert_eq!(folder(c"/c").as_c_str(), c"/");
    }
}
