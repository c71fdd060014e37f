//! End-to-end tests with real programs: compiled with the installed `mpicc`, run with the
//! installed `mpirun`, always bounded in time.
//!
//! The installation under test is `REJOIN_PREFIX`, or `target/prefix` as `cargo xtask test` makes
//! it.

pub mod answers;
pub mod fault_notes;
pub mod folder;
pub mod gaps;
pub mod gated;
pub mod hosts;
pub mod installation;
pub mod job;
pub mod limits;
#[cfg(feature = "models")]
pub mod models;
pub mod named_job;
pub mod processes;
pub mod programs;
pub mod questions;
pub mod skip;
pub mod small_disk;
pub mod spinner;
pub mod torment;
pub mod tracee;

use crate::limits::LIMIT;
pub use installation::{prefix, root};
pub use programs::program;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// One run of `mpirun`.
pub struct Run {
    command: Command,
    limit: Duration,
}

impl Run {
    /// `mpirun -n RANKS PROGRAM`, with at most a minute to end.
    pub fn new(ranks: u32, program: impl AsRef<std::ffi::OsStr>) -> Self {
        Self::raw(["-n", &ranks.to_string()]).arg(program)
    }

    /// `mpirun` with arguments of the test's own.
    pub fn raw<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Self {
        let mut command = Command::new(prefix().join("bin/mpirun"));
        command.args(args).stdin(Stdio::null());
        listening(&mut command);
        Self {
            command,
            limit: LIMIT,
        }
    }

    /// A command of the test's own that becomes `mpirun`.
    pub fn of(mut command: Command) -> Self {
        command.stdin(Stdio::null());
        listening(&mut command);
        Self {
            command,
            limit: LIMIT,
        }
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.arg(arg);
        self
    }

    /// Sets an environment variable for mpirun and its child processes.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Another limit than a minute.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Starts it, with both streams piped, for tests that do something to it meanwhile.
    pub fn start(mut self) -> Child {
        self.command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starting mpirun")
    }

    /// The same with standard input piped too.
    pub fn start_with_input(mut self) -> Child {
        self.command.stdin(Stdio::piped());
        self.start()
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// When it does not end within the limit; it is killed first.
    pub fn output(self) -> Finished {
        let limit = self.limit;
        let shown = format!("{:?}", self.command);
        finish(self.start(), limit, &shown)
    }

    /// Runs it to its end, which must be a good one.
    pub fn ok(self) -> Finished {
        let shown = format!("{:?}", self.command);
        let done = self.output();
        assert!(
            done.output.status.success(),
            "{shown} ended with {}\n{}",
            done.output.status,
            done.text()
        );
        done
    }
}

/// Lets a command receive signals. Tests that run in the background of a shell inherit ignored
/// signals, which a program keeps ignored.
pub fn listening(command: &mut Command) {
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

/// Waits for a started run within a limit.
///
/// # Panics
/// When it does not end in time; it is killed first.
pub fn finish(mut child: Child, limit: Duration, shown: &str) -> Finished {
    let start = Instant::now();
    let readers = (drain(child.stdout.take()), drain(child.stderr.take()));
    let status = loop {
        if let Some(status) = child.try_wait().expect("waiting for mpirun") {
            break Some(status);
        }
        if start.elapsed() > limit {
            child.kill().expect("killing mpirun");
            child.wait().expect("reaping mpirun");
            break None;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let stdout = readers.0.join().expect("stdout");
    let stderr = readers.1.join().expect("stderr");
    let took = start.elapsed();
    match status {
        Some(status) => Finished {
            output: Output {
                status,
                stdout,
                stderr,
            },
            took,
        },
        None => panic!(
            "{shown} did not end within {limit:?}\n{}{}",
            String::from_utf8_lossy(&stdout),
            String::from_utf8_lossy(&stderr)
        ),
    }
}

fn drain(stream: Option<impl std::io::Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut s) = stream {
            // A stream that breaks off still shows what came before.
            let _ = s.read_to_end(&mut bytes);
        }
        bytes
    })
}

/// The result of a run.
pub struct Finished {
    /// Status and streams.
    pub output: Output,
    /// Wall time.
    pub took: Duration,
}

impl Finished {
    /// Standard output as text.
    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    /// Standard error as text.
    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// Both streams, for a failing test's message.
    pub fn text(&self) -> String {
        format!("--- stdout\n{}--- stderr\n{}", self.stdout(), self.stderr())
    }

    /// The sum of a counter over all ranks, in a run with `mpirun --stats`.
    ///
    /// # Panics
    /// When no rank reported that.
    pub fn counted(&self, name: &str) -> u64 {
        self.counts(name).iter().sum()
    }

    /// The same of the rank that has most.
    ///
    /// # Panics
    /// When no rank reported that.
    pub fn most(&self, name: &str) -> u64 {
        self.counts(name).into_iter().max().unwrap_or(0)
    }

    /// A counter of each rank that reported it.
    fn counts(&self, name: &str) -> Vec<u64> {
        let text = self.stderr();
        let words = text
            .lines()
            .filter(|line| line.starts_with("mpirun: stats: rank "))
            .flat_map(str::split_whitespace);
        let values: Vec<u64> = words
            .filter_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
            .collect();
        assert!(!values.is_empty(), "nobody counted {name}: {}", self.text());
        values
    }

    /// The last line of standard error.
    pub fn last_line(&self) -> String {
        self.stderr().lines().last().unwrap_or("").to_string()
    }
}
