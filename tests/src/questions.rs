//! Questions of a user to running jobs: `rejoin` with the run directory of a test, and metrics.

use crate::limits::LIMIT;
use crate::prefix;
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

/// Runs `rejoin`, which finds the jobs below this run directory.
///
/// # Panics
/// When it can't be started.
pub fn rejoin(run_dir: &Path, arguments: &[&str]) -> Output {
    let output = command(run_dir, arguments).output();
    output.expect("starting rejoin")
}

/// Starts `rejoin`, whose output nobody reads.
///
/// # Panics
/// When it can't be started.
pub fn asking(run_dir: &Path, arguments: &[&str]) -> Child {
    let mut command = command(run_dir, arguments);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("starting rejoin")
}

fn command(run_dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(prefix().join("bin/rejoin"));
    command.args(arguments).env("XDG_RUNTIME_DIR", run_dir);
    command
}

/// What `rejoin status --json` says of the job of this `mpirun`, if it answers.
///
/// # Panics
/// When the output is no list of jobs.
pub fn status(run_dir: &Path, mpirun: u32) -> Option<Value> {
    let out = rejoin(run_dir, &["status", "--json", &mpirun.to_string()]);
    let all: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    all.as_array().expect("a list").first().cloned()
}

/// The address of the metrics of `mpirun --metrics 0`, which its first line names. The rest of its
/// standard error is dropped.
///
/// # Panics
/// When the line says something else.
pub fn metrics_address(said: ChildStderr) -> String {
    let mut line = String::new();
    let mut said = BufReader::new(said);
    said.read_line(&mut line).expect("a line");
    // As long as somebody reads, mpirun can write.
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    line.strip_prefix("mpirun: metrics are at http://")
        .and_then(|rest| rest.strip_suffix("/metrics\n"))
        .unwrap_or_else(|| panic!("{line}"))
        .to_owned()
}

/// Sends a request to this address. Returns the whole answer.
///
/// # Panics
/// When there is no connection.
pub fn asked(address: &str, request: &[u8]) -> String {
    let mut socket = TcpStream::connect(address).expect("a connection");
    socket.set_read_timeout(Some(LIMIT)).expect("a limit");
    socket.write_all(request).expect("a request");
    let mut answer = Vec::new();
    // A refusal may come with a reset.
    let _ = socket.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// The metrics at this address, as text.
///
/// # Panics
/// When there is no connection.
pub fn metrics(address: &str) -> String {
    asked(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
}
