//! The test binaries of the workspace: built once for the claims `units` and `models`, and once for
//! `programs`. The first run two at a time: a binary with one long test uses one core.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::setting::{Setting, cargo};
use crate::bounded::AfterFailure;

/// What cargo builds for these claims. The end-to-end tests need an installation.
const BUILD: [&str; 5] = [
    "test",
    "--workspace",
    "--exclude",
    "rejoin-tests",
    "--no-run",
];

/// The end-to-end tests.
const BUILD_PROGRAMS: [&str; 4] = ["test", "--package", "rejoin-tests", "--no-run"];

/// Binaries that take longest: they start first, so that no core is idle in the end.
const LONG: [&str; 17] = [
    "model_recovery",
    "model_groups",
    "model_optimistic",
    "model_channel",
    "model_epochs",
    "model_detector",
    "rejoin_mpi",
    "cuts",
    "model",
    "groups",
    "many_groups",
    "rejoin_managers",
    "endings",
    "seeds",
    "jobs",
    "lines",
    "detectors_at_scale",
];

/// Runs a test binary ($1), and shows in one piece what it has said. A binary that is ended from
/// outside is shown too.
const SHOWN: &str = r#"trap : TERM; "$1" >"$2" 2>&1; code=$?; echo "--- $3"; cat "$2"; exit $code"#;

/// A test binary.
#[derive(Debug, PartialEq, Eq)]
pub struct Binary {
    /// The name of cargo's target.
    pub name: String,
    /// The folder of its crate, in which it runs.
    folder: PathBuf,
    path: PathBuf,
}

impl Binary {
    /// Whether it explores a model, and takes its bounds from `REJOIN_MODELS`.
    pub fn is_model(&self) -> bool {
        self.name.starts_with("model_")
    }

    /// Longer ones have smaller numbers.
    fn turn(&self) -> usize {
        let turn = LONG.iter().position(|long| *long == self.name);
        turn.unwrap_or(LONG.len())
    }

    /// A command that runs one test at a time.
    fn command(&self) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", SHOWN, "sh"])
            .args([&self.path, &self.path.with_extension("log")])
            .arg(format!("{} ({})", self.name, self.folder.display()))
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env("RUST_TEST_THREADS", "1");
        command
    }
}

/// Builds all test binaries but the end-to-end tests.
pub fn build(c: &Setting) -> Result<Vec<Binary>> {
    let found = build_these(c, &BUILD)?;
    ensure!(
        found.iter().any(Binary::is_model) && !found.iter().all(Binary::is_model),
        "cargo names only {found:?}"
    );
    Ok(found)
}

/// Builds the end-to-end tests.
pub fn build_programs(c: &Setting) -> Result<Vec<Binary>> {
    let found = build_these(c, &BUILD_PROGRAMS)?;
    ensure!(found.len() > 1, "cargo names only {found:?}");
    Ok(found)
}

fn build_these(c: &Setting, what: &[&str]) -> Result<Vec<Binary>> {
    c.run(&mut unwinding(c, what))?;
    // Now that all is built, cargo only names it.
    let named = unwinding(c, &[what, &["--message-format=json"]].concat()).output()?;
    ensure!(
        named.status.success(),
        "cargo does not name the test binaries: {}",
        String::from_utf8_lossy(&named.stderr)
    );
    parse(&String::from_utf8_lossy(&named.stdout))
}

/// Runs test binaries, two at a time, and the longest first.
pub fn run(c: &Setting, mut binaries: Vec<Binary>, variables: &[(&str, &OsStr)]) -> Result<()> {
    binaries.sort_by_key(Binary::turn);
    let mut commands = commands(&binaries, variables);
    c.run_some(&mut commands, 2, AfterFailure::Ends)
}

/// Runs end-to-end tests, one file at a time: each starts more ranks than there are cores, and some
/// look at all of the machine. What one shows does not hide what the others would.
pub fn run_programs(c: &Setting, binaries: &[Binary], variables: &[(&str, &OsStr)]) -> Result<()> {
    let mut commands = commands(binaries, variables);
    c.run_some(&mut commands, 1, AfterFailure::Continues)
}

fn commands(binaries: &[Binary], variables: &[(&str, &OsStr)]) -> Vec<Command> {
    let mut commands: Vec<_> = binaries.iter().map(Binary::command).collect();
    for command in &mut commands {
        command.envs(variables.iter().copied());
    }
    commands
}

/// Runs the examples in the documentation, which are no binaries.
pub fn run_examples(c: &Setting) -> Result<()> {
    let args = ["test", "--workspace", "--exclude", "rejoin-tests", "--doc"];
    c.run(&mut unwinding(c, &args))
}

/// Cargo whose programs unwind. Tests always do. If mpirun and rejoin, which some of them run, do
/// so too, they share all crates with the tests. Cargo warns that tests ignore this.
fn unwinding(c: &Setting, args: &[&str]) -> Command {
    let mut command = cargo(c, args);
    command.env("CARGO_PROFILE_TEST_PANIC", "unwind");
    command
}

/// The test binaries in what cargo says about a build.
fn parse(messages: &str) -> Result<Vec<Binary>> {
    let mut found = Vec::new();
    for line in messages.lines() {
        let message: Value =
            serde_json::from_str(line).with_context(|| format!("no message of cargo's: {line}"))?;
        let is_test = message["profile"]["test"] == true;
        let Some(path) = message["executable"].as_str().filter(|_| is_test) else {
            continue;
        };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let manifest = text(&message["manifest_path"]).context("a binary without a manifest")?;
        found.push(Binary {
            name: text(&message["target"]["name"]).context("a binary without a name")?,
            folder: Path::new(&manifest).with_file_name(OsString::new()),
            path: path.into(),
        });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binaries_of_tests_are_found_and_others_are_not() {
        let test = r#"{"reason":"compiler-artifact","manifest_path":"/w/sim/Cargo.toml","target":{"name":"model_epochs"},"profile":{"test":true},"executable":"/w/t/model_epochs-1"}"#;
        let program = test.replace("\"test\":true", "\"test\":false");
        let library = test.replace("\"/w/t/model_epochs-1\"", "null");
        let end = r#"{"reason":"build-finished","success":true}"#;
        let found = parse(&[test, &program, &library, end].join("\n")).expect("messages");
        let expected = Binary {
            name: "model_epochs".into(),
            folder: "/w/sim/".into(),
            path: "/w/t/model_epochs-1".into(),
        };
        assert_eq!(found, [expected]);
        assert!(found[0].is_model());
        assert!(parse("warning: no message").is_err());
    }
}
