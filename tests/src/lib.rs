//! End-to-end tests with real programs: compiled with the installed `mpicc`, run with the
//! installed `mpirun`, always bounded in time.
//!
//! The installation under test is `REJOIN_PREFIX`, or `target/prefix` as `cargo xtask test` makes
//! it.

pub mod fault_notes;
pub mod folder;
pub mod gaps;
pub mod gated;
pub mod hosts;
pub mod job;
#[cfg(feature = "models")]
pub mod models;
pub mod named_job;
pub mod processes;
pub mod questions;
pub mod skip;
pub mod small_disk;
pub mod spinner;
pub mod torment;
pub mod tracee;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The repository's root folder.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// The installation under test.
///
/// # Panics
/// When there is none: the message says how to make it.
pub fn prefix() -> PathBuf {
    let prefix = std::env::var_os("REJOIN_PREFIX")
        .map_or_else(|| root().join("target/prefix"), PathBuf::from);
    assert!(
        prefix.join("bin/mpicc").exists(),
        "no installation under {}: run `cargo xtask install --prefix target/prefix --fault-injection` first",
        prefix.display()
    );
    prefix
}

/// Programs that this process has compiled.
static COMPILED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Where this test binary's programs are: beside itself, so that nothing is left in the system's
/// folders and the next run overwrites them.
fn programs() -> PathBuf {
    let mut folder = std::env::current_exe().expect("the test's own path");
    folder.set_extension("programs");
    folder
}

/// Compiles `tests/programs/NAME.c` (or `.cpp`, or `.rs`) with the installed wrappers and warnings
/// as errors, once per run of a test binary.
pub fn program(name: &str) -> PathBuf {
    let source = root().join("tests/programs").join(name);
    let source = ["c", "cpp", "rs"].map(|kind| source.with_extension(kind));
    let source = source.iter().find(|source| source.exists());
    let source = source.expect("the program's source");
    let folder = programs();
    let binary = folder.join(name);
    // One at a time.
    let mut compiled = COMPILED.lock().unwrap_or_else(|e| e.into_inner());
    if !compiled.contains(name) {
        std::fs::create_dir_all(&folder).expect("a folder for compiled programs");
        let out = compiler(source)
            .arg("-o")
            .arg(&binary)
            .output()
            .expect("starting the compiler");
        assert!(
            out.status.success(),
            "{}: {}",
            source.display(),
            String::from_utf8_lossy(&out.stderr)
        );
        compiled.insert(name.to_owned());
    }
    binary
}

/// The compiler of a program, without the option for its output.
fn compiler(source: &Path) -> Command {
    let kind = source.extension().and_then(|kind| kind.to_str());
    if kind == Some("rs") {
        let library = prefix().join("lib").display().to_string();
        let mut command = Command::new("rustc");
        command
            .args(["--edition", "2024", "-O", "-g", "-D", "warnings"])
            .arg(format!("-Lnative={library}"))
            .arg(format!("-Clink-arg=-Wl,-rpath,{library}"))
            .arg(source);
        return command;
    }
    let wrapper = match kind {
        Some("cpp") => "bin/mpicxx",
        _ => "bin/mpicc",
    };
    let text = std::fs::read_to_string(source).expect("the program's source");
    let openmp = text.contains("#include <omp.h>").then_some("-fopenmp");
    let mut command = Command::new(prefix().join(wrapper));
    command
        .args(["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .args(openmp)
        .arg(source)
        .arg("-lm");
    command
}

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
            limit: Duration::from_secs(60),
        }
    }

    /// A command of the test's own that becomes `mpirun`.
    pub fn of(mut command: Command) -> Self {
        command.stdin(Stdio::null());
        listening(&mut command);
        Self {
            command,
            limit: Duration::from_secs(60),
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
        let text = self.stderr();
        let words = text
            .lines()
            .filter(|line| line.starts_with("mpirun: stats: rank "))
            .flat_map(str::split_whitespace);
        let values: Vec<u64> = words
            .filter_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
            .collect();
        assert!(!values.is_empty(), "nobody counted {name}: {}", self.text());
        values.iter().sum()
    }

    /// The last line of standard error.
    pub fn last_line(&self) -> String {
        self.stderr().lines().last().unwrap_or("").to_string()
    }
}
