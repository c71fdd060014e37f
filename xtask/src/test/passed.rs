//! Claims that take minutes, and depend on few crates: whether they have passed on the sources that
//! are here. `passed.txt` beside this file says on which sources each has passed last. It is
//! committed with them, so a test of the whole project need not repeat the claim.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// The file, below the root.
const FILE: &str = "xtask/src/test/passed.txt";

/// A claim, and the sources that it depends on.
pub struct Sources {
    path: PathBuf,
    claim: &'static str,
    /// The hash of the sources; `None`: they are not committed as they are.
    hash: Option<String>,
}

impl Sources {
    /// Of a claim about these crates, with all that they are built of. `toolchain`: the compiler,
    /// as cargo is told it; the pinned one if it is empty.
    pub fn of(
        root: &Path,
        claim: &'static str,
        crates: &[&str],
        toolchain: &[&str],
    ) -> Result<Sources> {
        let mut version = Command::new("cargo");
        let compiler = output(root, version.args(toolchain).arg("--version"))?;
        // That of the fuzz targets lies in the folder of their crate.
        let locked = ["Cargo.toml", "Cargo.lock"];
        let mut paths = sources(root, crates)?;
        paths.extend(locked.map(PathBuf::from));
        Sources::of_paths(root, claim, &paths, &compiler)
    }

    /// Of a claim about these files and folders, or patterns of git for them. `tool`: the version
    /// of a program that judges them.
    pub fn of_paths(
        root: &Path,
        claim: &'static str,
        paths: &BTreeSet<PathBuf>,
        tool: &str,
    ) -> Result<Sources> {
        Ok(Sources {
            path: root.join(FILE),
            claim,
            hash: hash(root, paths, tool)?,
        })
    }

    /// Whether the claim has passed on them.
    pub fn have_passed(&self) -> bool {
        let known = fs::read_to_string(&self.path).unwrap_or_default();
        let same = |hash: &String| line_of(&known, self.claim) == Some(hash.as_str());
        self.hash.as_ref().is_some_and(same)
    }

    /// The claim has passed now.
    pub fn note(&self) -> Result<()> {
        let Some(hash) = self.hash.as_ref().filter(|_| !self.have_passed()) else {
            return Ok(());
        };
        let known = fs::read_to_string(&self.path).unwrap_or_default();
        fs::write(&self.path, with_line(&known, self.claim, hash))?;
        println!("{FILE}: {} has passed on these sources", self.claim);
        Ok(())
    }
}

/// What a file says of a claim.
fn line_of<'a>(text: &'a str, claim: &str) -> Option<&'a str> {
    let mut words = text.lines().filter_map(|line| line.split_once(' '));
    words.find_map(|(name, hash)| (name == claim).then_some(hash))
}

/// The file with another hash of a claim.
fn with_line(text: &str, claim: &str, hash: &str) -> String {
    let others = text.lines().filter(|line| {
        let name = line.split_once(' ').map(|(name, _)| name);
        name != Some(claim)
    });
    let mut lines: Vec<String> = others.map(str::to_owned).collect();
    lines.push(format!("{claim} {hash}"));
    lines.sort();
    lines.join("\n") + "\n"
}

/// What these crates are built of, for git: their folders, and those of the crates that they depend
/// on without tests and what these run, which no other crate is built of.
fn sources(root: &Path, crates: &[&str]) -> Result<BTreeSet<PathBuf>> {
    let own = packages(root, "Cargo.toml")?;
    let own = own
        .iter()
        .filter(|p| crates.iter().any(|c| p["name"] == *c));
    let own: BTreeSet<PathBuf> = own.filter_map(folder).collect();
    let all = folders(root, crates)?;
    let tests = all.difference(&own).flat_map(|needed| {
        ["tests", "examples", "benches", "programs", "clients"]
            .map(|name| excluded(&needed.join(name)))
    });
    Ok(all.iter().cloned().chain(tests).collect())
}

/// Git's pattern for all but this.
fn excluded(path: &Path) -> PathBuf {
    let mut pattern = OsString::from(":(exclude)");
    pattern.push(path);
    pattern.into()
}

/// The folders of crates, and of all crates of this repository that they depend on, also in tests.
fn folders(root: &Path, crates: &[&str]) -> Result<BTreeSet<PathBuf>> {
    let mut all = packages(root, "Cargo.toml")?;
    all.extend(packages(root, "fuzz/Cargo.toml")?);
    let mut open: Vec<PathBuf> = all
        .iter()
        .filter(|package| crates.iter().any(|name| package["name"] == *name))
        .filter_map(folder)
        .collect();
    ensure!(open.len() == crates.len(), "not all of {crates:?} are here");
    let mut found = BTreeSet::new();
    while let Some(next) = open.pop() {
        let of_it = all
            .iter()
            .filter(|package| folder(package).as_ref() == Some(&next));
        let needed = of_it.flat_map(|package| package["dependencies"].as_array());
        let paths = needed.flatten().filter_map(|one| one["path"].as_str());
        let paths: Vec<PathBuf> = paths.map(PathBuf::from).collect();
        if found.insert(next) {
            open.extend(paths);
        }
    }
    Ok(found)
}

/// The folder of a package.
fn folder(package: &Value) -> Option<PathBuf> {
    let manifest = Path::new(package["manifest_path"].as_str()?);
    manifest.parent().map(Path::to_path_buf)
}

/// The packages of a workspace.
fn packages(root: &Path, manifest: &str) -> Result<Vec<Value>> {
    let options = ["metadata", "--no-deps", "--format-version", "1"];
    let mut cargo = Command::new("cargo");
    cargo.args(options).arg("--manifest-path").arg(manifest);
    let mut metadata: Value = serde_json::from_str(&output(root, &mut cargo)?)?;
    match metadata["packages"].take() {
        Value::Array(packages) => Ok(packages),
        _ => Ok(Vec::new()),
    }
}

/// The hash of all that is committed at these paths, and of the version of a tool. `None`:
/// something there is not committed.
fn hash(root: &Path, paths: &BTreeSet<PathBuf>, tool: &str) -> Result<Option<String>> {
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.args(arguments).arg("--").args(paths);
        output(root, &mut command)
    };
    if !git(&["status", "--porcelain", "--untracked-files=all"])?.is_empty() {
        return Ok(None);
    }
    let all = tool.to_owned() + &git(&["ls-files", "--stage"])?;
    let mut hashing = Command::new("git");
    let hashing = hashing.args(["hash-object", "--stdin"]).current_dir(root);
    let hashing = hashing.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut hashing = hashing.spawn().context("git hash-object")?;
    let mut input = hashing.stdin.take().context("its input")?;
    std::io::Write::write_all(&mut input, all.as_bytes())?;
    drop(input);
    let hashed = hashing.wait_with_output()?;
    ensure!(hashed.status.success(), "git hash-object failed");
    Ok(Some(String::from_utf8(hashed.stdout)?.trim().to_owned()))
}

/// What a command prints.
fn output(root: &Path, command: &mut Command) -> Result<String> {
    let done = command.current_dir(root).output();
    let done = done.with_context(|| format!("{command:?}"))?;
    let errors = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{command:?}: {errors}");
    Ok(String::from_utf8(done.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_has_one_line() {
        let text = with_line("", "memory", "12");
        let text = with_line(&text, "fuzz", "34");
        let text = with_line(&text, "memory", "56");
        assert_eq!(text, "fuzz 34\nmemory 56\n");
        assert_eq!(line_of(&text, "memory"), Some("56"));
        assert_eq!(line_of(&text, "mem"), None);
    }

    #[test]
    fn crates_come_with_those_that_they_need() {
        let root = crate::workspace::root();
        let found = folders(&root, &["rejoin-device"]).expect("the crates");
        for name in ["device", "device/engine", "wire", "ckpt"] {
            assert!(found.contains(&root.join(name)), "{name}: {found:?}");
        }
        assert!(!found.contains(&root.join("managers")), "{found:?}");
        assert!(folders(&root, &["no-such-crate"]).is_err());
    }

    #[test]
    fn tests_of_a_crate_that_another_needs_do_not_count() {
        let root = crate::workspace::root();
        let found = sources(&root, &["rejoin-device"]).expect("the crates");
        let list = |paths: &BTreeSet<PathBuf>| {
            let mut git = Command::new("git");
            git.args(["ls-files", "--"]).args(paths);
            output(&root, &mut git).expect("the files")
        };
        let files = list(&found);
        let has = |folder: &str| files.lines().any(|file| file.starts_with(folder));
        assert!(has("device/tests/") && has("tests/src/") && has("wire/src/"));
        assert!(!has("tests/tests/") && !has("ckpt/tests/"), "{files}");
    }
}
