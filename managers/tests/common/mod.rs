//! Shared by the end-to-end tests: they run `mpirun`, and look for its remains.
#![allow(dead_code, reason = "each test file uses a part")]

use rejoin_tests::listening;
use rejoin_tests::processes::{descendants, kill, wait_for};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// Longest time that any job of these tests may take; a hang fails instead of blocking.
pub const LIMIT: Duration = Duration::from_secs(60);

/// How a finished command looked.
#[derive(Debug)]
pub struct Done {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Done {
    pub fn last_line(&self) -> &str {
        self.err.lines().last().unwrap_or("")
    }
}

pub fn mpirun(arguments: &[&str]) -> Command {
    mpirun_in(env!("CARGO_BIN_EXE_mpirun"), arguments)
}

/// As [`mpirun`], within another program that runs it in the end.
pub fn mpirun_in(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.env_remove("REJOIN_LOG");
    // The programs that act as ranks here take no images.
    command.env("REJOIN_RECOVERY", "none");
    listening(&mut command);
    command
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

/// A line with number, name and state for a process and for each one below it.
fn states(pid: u32) -> String {
    let all = std::iter::once(pid).chain(descendants(pid));
    let known = all.filter_map(rejoin_managers_host::descendants::stat);
    let line = |stat: procfs::process::Stat| {
        format!(
            "\n  {} {} {} {}",
            stat.ppid, stat.pid, stat.comm, stat.state
        )
    };
    known.map(line).collect()
}

/// Waits for the end, within the limit.
pub fn finish(child: Child) -> Done {
    let pid = child.id();
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let output: Output = match receiver.recv_timeout(LIMIT) {
        Ok(output) => output.unwrap(),
        Err(_) => {
            let tree = states(pid);
            kill(pid, libc::SIGKILL);
            panic!("mpirun did not end within {LIMIT:?}; its processes:{tree}");
        }
    };
    use std::os::unix::process::ExitStatusExt;
    Done {
        code: output.status.code().or(output.status.signal().map(|s| -s)),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
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
