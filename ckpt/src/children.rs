//! Child processes of a program, as `/proc` lists them.
//!
//! No image holds a child: a restored process could not wait for it. Most children end soon, as
//! those of `system` and `popen` do. So a checkpoint waits for a moment while a program has a young
//! child, and is refused only after that.

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
        // Field 22 is the time when it was made; field 3 comes first here.
        let mut fields = proc::words(text[close + 1..].trim_ascii());
        let begun = proc::number(fields.nth(22 - 3)?)?.checked_mul(TICK)?;
        Some(Self {
            pid,
            name: String::from_utf8_lossy(name).into_owned(),
            age: now.saturating_sub(begun),
        })
    }
}

/// The youngest child of a process, apart from images and from `twins`; `None` if there is no
/// other.
///
/// # Errors
/// The system does not list children.
pub(crate) fn youngest(process: i32, twins: &[i32]) -> sys::Sys<Option<ChildProcess>> {
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
    Ok(others.min_by_key(|child| child.age))
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
