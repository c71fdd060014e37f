//! Rules that the workspace does not satisfy yet.
//!
//! Each such rule has a checked-in list of its findings, `xtask/src/check/known/RULE.txt`: one line
//! for each key with the number of findings. The check fails with more findings than listed, and
//! with fewer. `cargo xtask check --update-known` writes the lists anew, and never lengthens them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::report::Report;

/// Places that an error shows of one key.
const SHOWN: usize = 12;

/// One place that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Findings are counted by this key, which stays the same when the place moves.
    pub key: String,
    /// The file, from the workspace's root.
    pub path: String,
    /// Its line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub what: String,
}

impl Finding {
    /// A finding from its parts.
    pub fn new(key: impl Into<String>, path: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            path: path.to_owned(),
            line,
            what: what.into(),
        }
    }
}

/// The findings of one rule, by key.
type Found = BTreeMap<String, Vec<Finding>>;

/// Number of findings by key.
type Known = BTreeMap<String, usize>;

/// Lines of a file.
type Lines = (String, Range<usize>);

/// Compares the findings of `rule` with its list, or shortens the list if `update` is set.
pub fn check(
    root: &Path,
    rule: &str,
    findings: Vec<Finding>,
    update: bool,
    report: &mut Report,
) -> Result<()> {
    let path = root.join(format!("xtask/src/check/known/{rule}.txt"));
    let text = fs::read_to_string(&path).unwrap_or_default();
    let mut known = parse(&text).with_context(|| format!("reading {}", path.display()))?;
    let mut found = Found::new();
    for finding in findings {
        found.entry(finding.key.clone()).or_default().push(finding);
    }
    if update {
        known = shorter(&known, &found);
        let fresh = render(&known);
        if fresh != text {
            fs::write(&path, fresh).with_context(|| format!("writing {}", path.display()))?;
            println!("shortened {}", path.display());
        }
    }
    let added = added_lines(root);
    differences(rule, &known, &found, &added, report);
    Ok(())
}

/// Reads lines of a number and a key; of a key that is listed twice (after a merge) the larger
/// number.
fn parse(text: &str) -> Result<Known> {
    let mut known = Known::new();
    for line in text.lines().filter(|l| !l.is_empty()) {
        let Some((count, key)) = line.split_once(' ') else {
            bail!("`{line}` is no number and key");
        };
        let count: usize = count.parse().with_context(|| format!("in `{line}`"))?;
        let entry = known.entry(key.to_owned()).or_insert(0);
        *entry = count.max(*entry);
    }
    Ok(known)
}

fn render(known: &Known) -> String {
    known.iter().fold(String::new(), |mut text, (key, count)| {
        let _ = writeln!(text, "{count} {key}");
        text
    })
}

/// The list without what is gone.
fn shorter(known: &Known, found: &Found) -> Known {
    let left = |key: &String| found.get(key).map_or(0, Vec::len);
    known
        .iter()
        .map(|(key, count)| (key.clone(), left(key).min(*count)))
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// Reports each key whose number differs, with places of those that have too many.
fn differences(rule: &str, known: &Known, found: &Found, added: &[Lines], report: &mut Report) {
    for (key, findings) in found {
        let (count, allowed) = (findings.len(), known.get(key).copied().unwrap_or(0));
        if count > allowed {
            let text = format!("{rule}: `{key}`: {count} found, {allowed} known");
            let lines = [vec![text], places(findings, added)].concat();
            report.errors.push(lines.join("\n    "));
        }
    }
    for (key, allowed) in known {
        let count = found.get(key).map_or(0, Vec::len);
        if count < *allowed {
            report.errors.push(format!(
                "{rule}: `{key}`: {allowed} known, {count} left: run `cargo xtask check --update-known`"
            ));
        }
    }
}

/// Where the findings are: on lines of this branch if there are such, else all.
fn places(findings: &[Finding], added: &[Lines]) -> Vec<String> {
    let is_new = |f: &&Finding| {
        let holds = |(path, lines): &Lines| *path == f.path && lines.contains(&f.line);
        added.iter().any(holds)
    };
    let mut shown: Vec<&Finding> = findings.iter().filter(is_new).collect();
    if shown.is_empty() {
        shown = findings.iter().collect();
    }
    let mut lines: Vec<String> = shown
        .iter()
        .take(SHOWN)
        .map(|f| format!("{}:{}: {}", f.path, f.line, f.what))
        .collect();
    if shown.len() > SHOWN {
        lines.push(format!("and {} more", shown.len() - SHOWN));
    }
    lines
}

/// Lines that were added since the branch left `main`; empty without git or `main`.
fn added_lines(root: &Path) -> Vec<Lines> {
    let git = |args: &[&str]| {
        let out = Command::new("git").current_dir(root).args(args).output();
        out.ok()
            .filter(|o| o.status.success())
            .map(|o| String::from_utf8_lossy(&o.stdout).into_owned())
    };
    let base = git(&["merge-base", "HEAD", "main"]).unwrap_or_default();
    let diff = git(&["diff", "--unified=0", "--no-color", base.trim()]);
    hunks(&diff.unwrap_or_default())
}

fn hunks(diff: &str) -> Vec<Lines> {
    let mut path = String::new();
    let mut list = Vec::new();
    for line in diff.lines() {
        if let Some(name) = line.strip_prefix("+++ b/") {
            name.clone_into(&mut path);
        } else if let Some(rest) = line.strip_prefix("@@ ") {
            let range = rest.split(' ').find_map(|w| w.strip_prefix('+'));
            let range = range.unwrap_or_default();
            let (from, count) = range.split_once(',').unwrap_or((range, "1"));
            if let (Ok(from), Ok(count)) = (from.parse::<usize>(), count.parse::<usize>()) {
                list.push((path.clone(), from..from + count));
            }
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(keys: &[&str]) -> Found {
        let mut found = Found::new();
        for (line, key) in keys.iter().enumerate() {
            let finding = Finding::new(*key, "a.rs", line + 1, "wrong");
            found.entry((*key).to_owned()).or_default().push(finding);
        }
        found
    }

    fn errors(known: &str, keys: &[&str]) -> (usize, usize) {
        let mut report = Report::default();
        let known = parse(known).expect("a list");
        differences("rule", &known, &found(keys), &[], &mut report);
        let hints = report
            .errors
            .iter()
            .filter(|e| e.contains("--update-known"));
        (report.errors.len(), hints.count())
    }

    #[test]
    fn more_and_fewer_findings_than_known_fail() {
        assert_eq!(errors("2 a\n1 b c\n", &["a", "a", "b c"]), (0, 0));
        assert_eq!(errors("1 a\n", &["a", "a"]), (1, 0));
        assert_eq!(errors("", &["a"]), (1, 0));
        assert_eq!(errors("2 a\n", &["a"]), (1, 1));
        assert_eq!(errors("2 a\n1 b\n", &["a", "c"]), (3, 2));
    }

    #[test]
    fn lists_only_shrink() {
        let known = parse("2 a\n5 b\n1 gone\n").expect("a list");
        let fresh = shorter(&known, &found(&["a", "a", "a", "b", "new"]));
        assert_eq!(render(&fresh), "2 a\n1 b\n");
    }

    #[test]
    fn a_merged_list_counts_the_larger_number() {
        let known = parse("2 a\n5 a\n3 a\n").expect("a list");
        assert_eq!(render(&known), "5 a\n");
        assert!(parse("a").is_err() && parse("x a").is_err());
    }

    #[test]
    fn lines_of_the_branch_are_shown_first() {
        let diff = "--- a/a.rs\n+++ b/a.rs\n@@ -1,0 +2 @@ fn\n+x\n@@ -9,2 +7,0 @@\n@@ -9 +8,2 @@\n";
        let added = hunks(diff);
        let range = |from, to| ("a.rs".to_owned(), from..to);
        assert_eq!(added, [range(2, 3), range(7, 7), range(8, 10)]);
        let all = found(&["k"; 20]);
        assert_eq!(places(&all["k"], &added).len(), 3);
        assert_eq!(places(&all["k"], &[]).len(), SHOWN + 1);
    }
}
