//! What the end-to-end tests share: running `mpirun`, and looking for what it left behind.
#![allow(dead_code, reason = "each test file uses a part")]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longest time that any job of these tests may take; a hang fails instead of blocking.
pub const LIMIT: Duration = Duration::from_secs(60);

/// How a finished command looked.
#[derive(Debug)]
pub struct Done {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
    pub took: Duration,
}

impl Done {
    pub fn last_line(&self) -> &str {
        self.err.lines().last().unwrap_or("")
    }
}

pub fn mpirun(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpirun"));
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.env_remove("REJOIN_LOG");
    listening(&mut command);
    command
}

/// Tests that run in the background of a shell inherit ignored signals, which a program keeps ignored.
fn listening(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: between fork and exec only signal dispositions are set, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGTERM] {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        });
    }
}

/// The program that plays a rank.
pub fn fake_rank() -> String {
    let bin = PathBuf::from(env!("CARGO_BIN_EXE_mpirun"));
    let path = bin.parent().unwrap().join("examples/fake_rank");
    assert!(path.exists(), "{} is not built", path.display());
    path.to_str().unwrap().to_string()
}

pub fn run(arguments: &[&str]) -> Done {
    finish(mpirun(arguments).spawn().unwrap())
}

pub fn run_with_input(arguments: &[&str], input: &[u8]) -> Done {
    let mut child = mpirun(arguments).stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || {
        // The reader may go away early.
        let _ = stdin.write_all(&input);
    });
    let done = finish(child);
    writer.join().unwrap();
    done
}

/// Waits for the end, within the limit.
pub fn finish(child: Child) -> Done {
    let begun = Instant::now();
    let pid = child.id();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let output: Output = match receiver.recv_timeout(LIMIT) {
        Ok(output) => output.unwrap(),
        Err(_) => {
            kill(pid, libc::SIGKILL);
            panic!("mpirun did not end within {LIMIT:?}");
        }
    };
    use std::os::unix::process::ExitStatusExt;
    Done {
        code: output.status.code().or(output.status.signal().map(|s| -s)),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
        took: begun.elapsed(),
    }
}

pub fn kill(pid: u32, signal: i32) {
    assert!(pid > 1);
    // SAFETY: plain numbers, a process that this test started.
    unsafe {
        libc::kill(pid as i32, signal);
    }
}

/// The process is there and no zombie.
pub fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(')')
        .next()
        .unwrap_or("")
        .trim_start()
        .chars()
        .next();
    state.is_some_and(|s| s != 'Z' && s != 'X')
}

/// Waits until something holds; panics with `what` after `limit`.
pub fn wait_for(limit: Duration, what: &str, mut test: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !test() {
        assert!(begun.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
    begun.elapsed()
}

/// Every process below this one.
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut queue = vec![pid];
    while let Some(next) = queue.pop() {
        for child in rejoin_managers::descendants::children(next) {
            found.push(child);
            queue.push(child);
        }
    }
    found
}

/// Waits until a job has `count` processes below mpirun and returns them.
pub fn settled(mpirun: u32, count: usize) -> Vec<u32> {
    let mut found = Vec::new();
    wait_for(Duration::from_secs(20), "the processes of the job", || {
        found = descendants(mpirun);
        found.len() >= count
    });
    found
}

/// Waits until none of these is there any more.
pub fn all_gone(pids: &[u32], limit: Duration) -> Duration {
    wait_for(limit, &format!("the end of {pids:?}"), || {
        !pids.iter().any(|&p| is_alive(p))
    })
}

/// A directory that goes away with the value.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("rejoin-test-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_string()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
