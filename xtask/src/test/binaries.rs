//! The test binaries of the workspace, built once with the programs that end-to-end tests install:
//! one profile and one set of features, so each crate compiles once. Unit tests run two at a time:
//! a binary with one long test uses one core.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::lanes::{ALONE, LANES, Lanes};
use super::setting::{Setting, cargo};
use super::times;
use crate::bounded::{AfterFailure, Spent};

/// What cargo builds: the library of the C ABI, mpirun and rejoin, and all test binaries. The
/// programs have the hooks of tests, the crates of protocols also what tests can leave out.
const BUILD: [&str; 9] = [
    "build",
    "--profile",
    "test",
    "--workspace",
    "--lib",
    "--bins",
    "--tests",
    "--examples",
    "--locked",
];

/// Binaries that take longest: they start first, so that no core is idle in the end.
const LONG: [&str; 27] = [
    "logging_points",
    "sender_log_moves",
    "receiver_log_moves",
    "host_loss",
    "restarted_programs",
    "moves_programs",
    "sender_log_hosts",
    "receiver_log",
    "detectors",
    "sender_log",
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

/// Runs a command, and shows in one piece what it has said: first its log ($1) and name ($2). One
/// that is ended from outside is shown too.
const SHOWN: &str = r#"
trap : TERM
log=$1 name=$2; shift 2
"$@" >"$log" 2>&1; code=$?
echo "--- $name"; cat "$log"; exit $code
"#;

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

    /// Whether it needs an installation, and runs whole programs with it.
    pub fn is_end_to_end(&self, c: &Setting) -> bool {
        // The folder ends with a slash.
        self.folder
            .components()
            .eq(c.root.join("tests").components())
    }

    /// Where it notes how long it has compiled programs.
    fn compilations(&self) -> PathBuf {
        self.path.with_extension("compiled")
    }

    /// Notes what it has taken.
    fn note(&self, c: &Setting, claim: &str, all: Spent) -> Result<()> {
        let notes = std::fs::read_to_string(self.compilations()).unwrap_or_default();
        // A compiler uses one core, and all of it.
        let wall = times::compiled(&notes);
        let processor = wall.min(all.processor);
        let name = format!("{claim}/{}", self.name);
        c.shared.times.note(&name, all, Spent { wall, processor })
    }

    /// Longer ones have smaller numbers.
    fn turn(&self) -> usize {
        let turn = LONG.iter().position(|long| *long == self.name);
        turn.unwrap_or(LONG.len())
    }

    /// A command that runs one test at a time, in a lane of its own if there are some.
    fn command(&self, lanes: Option<&Lanes>) -> Command {
        let alone = || vec![self.path.clone()];
        let mut command = Command::new("sh");
        command
            .args(["-c", SHOWN, "sh"])
            .arg(self.path.with_extension("log"))
            .arg(format!("{} ({})", self.name, self.folder.display()))
            .args(lanes.map_or_else(alone, |lanes| lanes.words(&self.path)))
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env("RUST_TEST_THREADS", "1");
        command
    }
}

/// Builds all that tests need from cargo, and names the test binaries.
pub fn build(c: &Setting) -> Result<Vec<Binary>> {
    c.compile(&mut [unwinding(c, &BUILD)])?;
    // Now that all is built, cargo only names it.
    let named = unwinding(c, &[&BUILD[..], &["--message-format=json"]].concat()).output()?;
    ensure!(
        named.status.success(),
        "cargo does not name the test binaries: {}",
        String::from_utf8_lossy(&named.stderr)
    );
    let mut found = parse(&String::from_utf8_lossy(&named.stdout))?;
    let count = |is_one: &dyn Fn(&Binary) -> bool| found.iter().filter(|one| is_one(one)).count();
    ensure!(
        count(&Binary::is_model) > 0 && count(&|one| one.is_end_to_end(c)) > 1,
        "cargo names only {found:?}"
    );
    ensure!(
        ALONE.iter().all(|name| found
            .iter()
            .any(|one| one.name == *name && one.is_end_to_end(c))),
        "not all of {ALONE:?} are there"
    );
    if let Some(part) = &c.shared.file {
        found.retain(|one| one.name.contains(part));
    }
    Ok(found)
}

/// The folder with the library, mpirun and rejoin of this build.
pub fn built(c: &Setting) -> Result<PathBuf> {
    Ok(crate::install::target_directory(&c.root)?.join("debug"))
}

/// How test binaries run.
struct How<'a> {
    /// The claim that runs them.
    claim: &'a str,
    at_once: usize,
    lanes: Option<&'a Lanes>,
    variables: &'a [(&'a str, &'a OsStr)],
}

/// Runs test binaries, two at a time, and the longest first. What one shows does not hide what the
/// others would.
pub fn run(
    c: &Setting,
    claim: &str,
    binaries: Vec<Binary>,
    variables: &[(&str, &OsStr)],
) -> Result<()> {
    let how = How {
        claim,
        at_once: 2,
        lanes: None,
        variables,
    };
    run_so(c, &how, binaries)
}

/// Runs end-to-end tests in lanes, and then those files that look at all of the machine.
pub fn run_programs(
    c: &Setting,
    claim: &str,
    binaries: Vec<Binary>,
    variables: &[(&str, &OsStr)],
) -> Result<()> {
    let lanes = Lanes::possible(c)?;
    let is_alone = |binary: &Binary| ALONE.contains(&binary.name.as_str());
    let (alone, others): (Vec<_>, Vec<_>) = binaries.into_iter().partition(is_alone);
    let how = How {
        claim,
        at_once: lanes.as_ref().map_or(1, |_| LANES),
        lanes: lanes.as_ref(),
        variables,
    };
    let others = run_so(c, &how, others);
    let alone = run_so(c, &How { at_once: 1, ..how }, alone);
    match (others, alone) {
        (Err(one), Err(other)) => bail!("{one:#}; {other:#}"),
        (one, other) => one.and(other),
    }
}

fn run_so(c: &Setting, how: &How, mut binaries: Vec<Binary>) -> Result<()> {
    binaries.sort_by_key(Binary::turn);
    let command = |binary: &Binary| {
        let mut command = binary.command(how.lanes);
        command.envs(how.variables.iter().copied());
        // Notes of an earlier run.
        let _ = std::fs::remove_file(binary.compilations());
        command
    };
    let mut commands: Vec<_> = binaries.iter().map(command).collect();
    let mut noted = Ok(());
    c.run_some(
        &mut commands,
        how.at_once,
        AfterFailure::Continues,
        |number, spent| {
            let note = binaries[number].note(c, how.claim, spent);
            noted = std::mem::replace(&mut noted, Ok(())).and(note);
        },
    )?;
    noted
}

/// Runs the examples in the documentation, which are no binaries.
pub fn run_examples(c: &Setting) -> Result<()> {
    c.run(&mut unwinding(c, &["test", "--workspace", "--doc"]))
}

/// Cargo for this build. Tests always unwind. If mpirun and rejoin, which some of them run, do so
/// too, they share all crates with the tests. Cargo warns that tests ignore this.
fn unwinding(c: &Setting, args: &[&str]) -> Command {
    let mut command = cargo(c, args);
    command
        .args(["--features", crate::install::FAULT_INJECTION])
        .env("CARGO_PROFILE_TEST_PANIC", "unwind");
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
