//! Child processes of a program, as `/proc` lists them.
//!
//! No image holds a child that lives: a restored process could not wait for it. Most children end
//! soon, as those of `system` and `popen` do. So a checkpoint waits for a moment while a program
//! has a young child, and is refused only after that. A child that has ended is in the image, and
//! Python's resource tracker is no reason to refuse one ([`crate::manifest`]).

use crate::{proc, sys};

/// A twin's name in `ps` and `/proc/PID/comm`.
pub const NAME: &str = "rejoin-twin";

/// A child older than this, in milliseconds, is not waited for.
const YOUNG: u64 = 1000;

/// Milliseconds in a tick of the times in `/proc` on x86-64.
const TICK: u64 = 10;

/// Most threads of a process whose children are listed.
const MOST_THREADS: usize = 256;

/// A child of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChildProcess {
    /// The number of its process.
    pub pid: i32,
    /// The name of its program, as the system has it: 15 bytes at most.
    pub name: String,
    /// Milliseconds since it was made.
    age: u64,
    /// Only its status is left.
    pub has_ended: bool,
}

impl ChildProcess {
    /// Whether it may end soon.
    pub fn is_young(&self) -> bool {
        self.age < YOUNG
    }

    /// From the text of its `stat`, at this time in milliseconds since the system started.
    fn read(pid: i32, text: &[u8], now: u64) -> Option<Self> {
        let open = text.iter().position(|b| *b == b'(')?;
        let close = text.iter().rposition(|b| *b == b')')?;
        let name = text.get(open + 1..close)?;
        // Field 3 is its state, and field 22 the time when it was made.
        let mut fields = proc::words(text[close + 1..].trim_ascii());
        let state = fields.next()?;
        let begun = proc::number(fields.nth(22 - 4)?)?.checked_mul(TICK)?;
        Some(Self {
            pid,
            name: String::from_utf8_lossy(name).into_owned(),
            age: now.saturating_sub(begun),
            has_ended: state == b"Z",
        })
    }

    /// Whether it is a resource tracker of Python: it removes what the program has registered with
    /// it when the program is gone, over a pipe that only leads to it. So it need not be the child
    /// of a restored process, and Python starts another one if it is gone.
    pub fn is_tracker(&self) -> bool {
        let (path, mut text) = (
            sys::ShortPath::new(format_args!("/proc/{}/cmdline", self.pid)),
            Vec::new(),
        );
        let is_its = |words: &[u8]| words == TRACKER;
        sys::read_file(path.as_c_str(), &mut text).is_ok()
            && text.windows(TRACKER.len()).any(is_its)
    }
}

/// The name of a process's program, as the system has it; empty if the process is gone.
pub(crate) fn name_of(pid: i32) -> String {
    let (path, mut text) = (
        sys::ShortPath::new(format_args!("/proc/{pid}/comm")),
        Vec::new(),
    );
    let _ = sys::read_file(path.as_c_str(), &mut text);
    String::from_utf8_lossy(text.trim_ascii_end()).into_owned()
}

/// What the command line of a resource tracker has, also that of a package with its own (loky).
const TRACKER: &[u8] = b"resource_tracker import main";

/// Whether this process has any child, dead or alive, of any kind.
pub(crate) fn has_any() -> bool {
    let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    // SAFETY: `siginfo_t` is plain data that the call fills in.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(libc::P_ALL, 0, &mut info, flags) == 0 || sys::errno() != libc::ECHILD
    }
}

/// The youngest child of a process that lives, apart from images, from `twins` and from resource
/// trackers; `None` if there is no other.
///
/// # Errors
/// The system does not list children.
pub(crate) fn youngest(process: i32, twins: &[i32]) -> sys::Sys<Option<ChildProcess>> {
    let all = all(process, twins)?.into_iter();
    let living = all.filter(|child| !child.has_ended && !child.is_tracker());
    Ok(living.min_by_key(|child| child.age))
}

/// The children of a process, apart from images and from `twins`.
///
/// # Errors
/// The system does not list children.
pub(crate) fn all(process: i32, twins: &[i32]) -> sys::Sys<Vec<ChildProcess>> {
    let (mut pids, mut threads) = (Vec::new(), 0);
    let mut result = Ok(());
    let mut text = Vec::with_capacity(4096);
    let tasks = sys::ShortPath::new(format_args!("/proc/{process}/task"));
    sys::numbers_in(tasks.as_c_str(), |tid| {
        threads += 1;
        if threads > MOST_THREADS {
            return;
        }
        let list = sys::ShortPath::new(format_args!("/proc/{process}/task/{tid}/children"));
        match sys::read_file(list.as_c_str(), &mut text) {
            Ok(()) => pids.extend(proc::words(text.trim_ascii()).filter_map(proc::number)),
            // The thread has ended.
            Err(libc::ESRCH) => {}
            Err(libc::ENOENT) if tid != process => {}
            Err(errno) => result = Err(errno),
        }
    })?;
    result?;
    let now = sys::since_start();
    let pids = pids.into_iter().filter_map(|pid| i32::try_from(pid).ok());
    let others = pids.filter(|pid| !twins.contains(pid)).filter_map(|pid| {
        let path = sys::ShortPath::new(format_args!("/proc/{pid}/stat"));
        sys::read_file(path.as_c_str(), &mut text).ok()?;
        ChildProcess::read(pid, &text, now).filter(|child| child.name != NAME)
    });
    Ok(others.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_read_from_its_line() {
        let line = b"77 (a (b) c) S 1 77 77 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 500 9 9 9\n";
        let read = |now| ChildProcess::read(77, line, now).expect("a child");
        let old = read(6001);
        assert_eq!((old.pid, &old.name[..], old.age), (77, "a (b) c", 1001));
        assert!(!old.is_young());
        assert!(read(5999).is_young());
        assert!(!old.has_ended);
        assert_eq!(ChildProcess::read(77, b"77 (name) S 1", 0), None);
    }

    #[test]
    fn the_youngest_child_of_a_process_is_found() {
        use std::io::{BufRead as _, BufReader};
        // A process of its own: other tests of this one have children, too.
        let child = "sleep 60 > /dev/null & echo $!;";
        let script = format!("{child} {child} sleep 0.02; {child} wait");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script]);
        let mut shell = shell
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("a shell");
        let told = BufReader::new(shell.stdout.take().expect("a pipe"));
        let numbers = told.lines().map(|line| line.expect("a number").parse());
        let children: Vec<i32> = numbers.take(3).map(|pid| pid.expect("a number")).collect();
        let parent = i32::try_from(shell.id()).expect("a number");
        let found = youngest(parent, &[]).expect("a list");
        assert_eq!(found.map(|f| f.pid), Some(children[2]));
        assert_eq!(youngest(parent, &children), Ok(None));
        for pid in children {
            // SAFETY: signals a child of the shell, which waits for it.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        shell.wait().expect("its end");
    }
}
