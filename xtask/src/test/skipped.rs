//! Claims and tests that did not run, and whether they may be skipped.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// Names the file in which tests note that they do not run (`tests/src/skip.rs`).
const LIST: &str = "REJOIN_SKIPPED_LIST";

/// What may be skipped: `1` for everything, or names of claims and tests with commas between them.
const ALLOWED: &str = "REJOIN_ALLOW_SKIPPED";

/// The list of claims and tests that did not run.
#[derive(Clone)]
pub struct Skipped {
    path: PathBuf,
}

/// One entry of the list.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    name: String,
    reason: String,
}

impl Skipped {
    /// An empty list.
    pub fn new(root: &Path) -> Result<Self> {
        let folder = root.join("target");
        fs::create_dir_all(&folder)?;
        let path = folder.join("skipped.tsv");
        fs::write(&path, "").with_context(|| format!("writing {}", path.display()))?;
        Ok(Self { path })
    }

    /// Tells a command where to note.
    pub fn tell(&self, command: &mut Command) {
        command.env(LIST, &self.path);
    }

    /// Whether this may be skipped.
    pub fn allows(&self, name: &str) -> bool {
        may_be(&std::env::var(ALLOWED).unwrap_or_default(), name)
    }

    /// Notes a claim, or a part of one.
    pub fn note(&self, name: &str, reason: &str) -> Result<()> {
        println!("SKIPPED: {name}: {reason}");
        let mut file = OpenOptions::new().append(true).open(&self.path)?;
        Ok(file.write_all(format!("{name}\t{reason}\n").as_bytes())?)
    }

    /// Prints the list, and fails unless every entry may be skipped.
    pub fn judge(&self) -> Result<()> {
        let entries = parse(&fs::read_to_string(&self.path)?);
        if entries.is_empty() {
            return Ok(());
        }
        let allowed = std::env::var(ALLOWED).unwrap_or_default();
        println!("\n{} did not run:", entries.len());
        for entry in &entries {
            let word = if may_be(&allowed, &entry.name) {
                "allowed"
            } else {
                "NOT RUN"
            };
            println!("{word:8} {}: {}", entry.name, entry.reason);
        }
        let refused: Vec<_> = entries
            .iter()
            .filter(|e| !may_be(&allowed, &e.name))
            .collect();
        if !refused.is_empty() {
            let names: Vec<_> = refused.iter().map(|e| e.name.as_str()).collect();
            let names = names.join(",");
            bail!(
                "{} did not run; to allow that: {ALLOWED}={names}",
                refused.len()
            );
        }
        Ok(())
    }
}

fn parse(text: &str) -> Vec<Entry> {
    let entry = |line: &str| {
        let (name, reason) = line.split_once('\t')?;
        Some(Entry {
            name: name.to_owned(),
            reason: reason.to_owned(),
        })
    };
    text.lines().filter_map(entry).collect()
}

fn may_be(allowed: &str, name: &str) -> bool {
    allowed == "1" || allowed.split(',').any(|a| a.trim() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_named_may_be_skipped() {
        assert!(may_be("1", "memory"));
        assert!(may_be("fuzz, memory", "memory"));
        assert!(!may_be("", "memory"));
        assert!(!may_be("memory-miri", "memory"));
    }

    #[test]
    fn what_was_noted_is_judged() {
        let root = std::env::temp_dir().join(format!("rejoin-skipped-{}", std::process::id()));
        let skipped = Skipped::new(&root).expect("a list");
        assert!(skipped.judge().is_ok());
        skipped.note("a test", "it cannot run").expect("noting");
        let error = skipped.judge().expect_err("it did not run");
        assert!(
            error.to_string().contains("REJOIN_ALLOW_SKIPPED=a test"),
            "{error}"
        );
        fs::remove_dir_all(root).expect("the folder goes");
    }
}
