//! Settings of the process that a clone does not inherit, or that are in the way of a restore.

use std::ptr::null_mut;

/// The settings.
pub(super) struct ProcessSettings {
    /// The program may have lowered it below numbers that are open, and below the library's.
    open_files: libc::rlimit,
    /// Orphans below this process become its children.
    is_subreaper: bool,
}

impl ProcessSettings {
    /// Reads them.
    pub fn capture() -> Self {
        // SAFETY: `rlimit` is plain data that the call fills in; the other pointer is to a number.
        unsafe {
            let mut is_subreaper: libc::c_int = 0;
            let option = libc::PR_GET_CHILD_SUBREAPER;
            libc::prctl(option, &raw mut is_subreaper, 0, 0, 0);
            let mut open_files: libc::rlimit = std::mem::zeroed();
            libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut open_files);
            Self {
                open_files,
                is_subreaper: is_subreaper != 0,
            }
        }
    }

    /// In the zygote: descriptors may have any number that the system allows.
    pub fn allow_descriptors(&self) {
        let most = self.open_files.rlim_max;
        set(libc::rlimit {
            rlim_cur: most,
            rlim_max: most,
        });
    }

    /// In a runner whose descriptors are in place.
    pub fn restore(&self) {
        set(self.open_files);
        if self.is_subreaper {
            // SAFETY: touches no memory.
            unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
        }
    }
}

fn set(limit: libc::rlimit) {
    let (kind, old) = (libc::RLIMIT_NOFILE, null_mut::<libc::rlimit>());
    // SAFETY: the pointer is to a limit; the old one is not asked for.
    unsafe { libc::syscall(libc::SYS_prlimit64, 0, kind, &raw const limit, old) };
}
