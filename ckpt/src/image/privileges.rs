//! What a process may do: users, groups and capabilities. A process made from a file has its
//! manager's.

use super::save_error::SaveError;
use crate::{proc, sys};

/// Bits of `PR_SET_SECUREBITS`: a change of users leaves capabilities alone.
const SECBIT_NO_SETUID_FIXUP: i32 = 4;
/// Version of the capability structures with two words of 32 bits each.
const CAPABILITY_VERSION: u32 = 0x2008_0522;

/// The lines of `/proc/PID/status` that tell it.
const LINES: [&str; 9] = [
    "Uid:",
    "Gid:",
    "Groups:",
    "CapInh:",
    "CapPrm:",
    "CapEff:",
    "CapBnd:",
    "CapAmb:",
    "NoNewPrivs:",
];

/// What the process may do.
pub(super) struct Privileges {
    status: Vec<u8>,
    securebits: i32,
}

impl Privileges {
    /// What this process may do.
    pub fn read() -> Self {
        let mut status = Vec::new();
        let _ = sys::read_file(c"/proc/self/status", &mut status);
        // SAFETY: touches no memory.
        let securebits = unsafe { libc::prctl(libc::PR_GET_SECUREBITS, 0, 0, 0, 0) };
        Self { status, securebits }
    }

    fn is_same(&self, other: &Self) -> bool {
        let is_same = |line| proc::field(&self.status, line) == proc::field(&other.status, line);
        self.securebits == other.securebits && LINES.into_iter().all(is_same)
    }

    fn words(&self, line: &str) -> impl Iterator<Item = &[u8]> {
        let words = proc::field(&self.status, line).map(proc::words);
        words.into_iter().flatten()
    }

    /// A set of capabilities.
    fn set(&self, line: &str) -> u64 {
        self.words(line).next().and_then(proc::hex).unwrap_or(0)
    }

    /// Real, effective and saved number, and that for files, of users or groups.
    fn numbers(&self, line: &str) -> [u64; 4] {
        let mut all = self.words(line).filter_map(proc::number);
        std::array::from_fn(|_| all.next().unwrap_or(0))
    }

    /// Sets them again.
    ///
    /// # Errors
    /// [`SaveError::Privileges`] if this process then may do more, or less.
    pub fn restore(&self) -> Result<(), SaveError> {
        let now = Self::read();
        if self.is_same(&now) {
            return Ok(());
        }
        self.apply(&now);
        match self.is_same(&Self::read()) {
            true => Ok(()),
            false => Err(SaveError::Privileges),
        }
    }

    /// Each step has the privileges that it needs, if this process has had them.
    fn apply(&self, now: &Self) {
        let control = |option: i32, a: u64, b: u64| {
            // SAFETY: none of these options touches memory.
            unsafe { libc::prctl(option, a, b, 0, 0) };
        };
        let each = |set: u64| (0..64).filter(move |bit| set & 1 << bit != 0);
        for capability in each(now.set("CapBnd:") & !self.set("CapBnd:")) {
            control(libc::PR_CAPBSET_DROP, capability, 0);
        }
        let kept = now.securebits | SECBIT_NO_SETUID_FIXUP;
        control(libc::PR_SET_SECUREBITS, kept as u64, 0);
        self.change_users();
        control(libc::PR_SET_SECUREBITS, self.securebits as u64, 0);
        let [effective, permitted, inheritable] =
            ["CapEff:", "CapPrm:", "CapInh:"].map(|line| self.set(line));
        let header = [CAPABILITY_VERSION, 0];
        let half =
            |shift: u32| [effective, permitted, inheritable].map(|set| (set >> shift) as u32);
        let sets = [half(0), half(32)];
        // SAFETY: the pointers are to the kernel's structures of this version.
        unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) };
        for capability in each(self.set("CapAmb:")) {
            control(
                libc::PR_CAP_AMBIENT,
                libc::PR_CAP_AMBIENT_RAISE as u64,
                capability,
            );
        }
        if self.numbers("NoNewPrivs:")[0] == 1 {
            control(libc::PR_SET_NO_NEW_PRIVS, 1, 0);
        }
    }

    /// Not the C library's functions: those change all threads that it knows.
    fn change_users(&self) {
        let groups: Vec<u32> = self
            .words("Groups:")
            .filter_map(proc::number)
            .map(|group| group as u32)
            .collect();
        let [user, effective, saved, for_files] = self.numbers("Uid:");
        let [group, effective_group, saved_group, group_for_files] = self.numbers("Gid:");
        // SAFETY: pointer and length describe the groups; the other calls touch no memory.
        unsafe {
            libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr());
            libc::syscall(libc::SYS_setresgid, group, effective_group, saved_group);
            libc::syscall(libc::SYS_setfsgid, group_for_files);
            libc::syscall(libc::SYS_setresuid, user, effective, saved);
            libc::syscall(libc::SYS_setfsuid, for_files);
        }
    }
}

/// Whether this process sees other parts of the system than its manager, or may make fewer calls.
/// What can't be compared is taken as equal.
pub(super) fn is_confined(manager: i32) -> bool {
    if manager <= 0 {
        return false;
    }
    let of = |file: &str| sys::ShortPath::new(format_args!("/proc/{manager}/{file}"));
    let (mut own, mut theirs) = (Vec::new(), Vec::new());
    let read = sys::read_file(c"/proc/self/status", &mut own)
        .and_then(|()| sys::read_file(of("status").as_c_str(), &mut theirs));
    let is_other = |line| proc::field(&own, line) != proc::field(&theirs, line);
    if read.is_ok() && ["Seccomp:", "Seccomp_filters:"].into_iter().any(is_other) {
        return true;
    }
    let root = sys::status_of(of("root").as_c_str());
    if root.is_ok() && root != sys::status_of(c"/") {
        return true;
    }
    let names = ["mnt", "net", "user", "uts", "ipc", "pid", "cgroup", "time"];
    names.into_iter().any(|name| {
        let own = sys::ShortPath::new(format_args!("/proc/self/ns/{name}"));
        let theirs = sys::ShortPath::new(format_args!("/proc/{manager}/ns/{name}"));
        let (mut first, mut second) = ([0; 64], [0; 64]);
        let own = sys::read_link(own.as_c_str(), &mut first);
        let theirs = sys::read_link(theirs.as_c_str(), &mut second);
        own.is_ok() && theirs.is_ok() && own != theirs
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn privileges_are_read_from_their_lines() {
        let of = |text: &str| Privileges {
            status: text.as_bytes().to_vec(),
            securebits: 0,
        };
        let one =
            of("Uid:\t1\t2\t3\t4\nGroups:\t5 6 \nCapEff:\t000001ffffffffff\nNoNewPrivs:\t1\n");
        assert_eq!(one.numbers("Uid:"), [1, 2, 3, 4]);
        assert_eq!(one.words("Groups:").count(), 2);
        assert_eq!(one.set("CapEff:"), 0x1ff_ffff_ffff);
        assert!(one.is_same(&one) && !one.is_same(&of("Uid:\t1\t2\t3\t4\n")));
        assert!(Privileges::read().restore().is_ok());
        assert!(!is_confined(0) && !is_confined(sys::pid()));
    }
}
