//! The licences of the crates that are linked into what a package holds.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::install;

/// Where such files begin, in any case of letters.
const NAMES: [&str; 5] = ["license", "licence", "copying", "notice", "unlicense"];

/// A text with the name, the version and the licence of each crate that is not of this workspace,
/// and with the files of licences that it has. The same text is there once.
pub fn licenses() -> Result<String> {
    let metadata = metadata()?;
    let linked = linked(&metadata)?;
    let mut list = String::new();
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages(&metadata) {
        let id = package["id"].as_str().unwrap_or_default();
        if package["source"].is_null() || !linked.contains(id) {
            continue;
        }
        let word = |key: &str| package[key].as_str().unwrap_or("unknown");
        let name = format!("{} {}", word("name"), word("version"));
        list += &format!("{name}: {}\n", word("license"));
        let manifest = Path::new(word("manifest_path"));
        for file in files(manifest.parent().context("a crate without a folder")?)? {
            let text = fs::read_to_string(&file);
            let text = text.with_context(|| format!("reading {}", file.display()))?;
            texts.entry(text).or_default().push(name.clone());
        }
    }
    ensure!(!texts.is_empty(), "no crate has a text of its licence");
    let mut all = format!(
        "The programs and libraries of Rejoin contain the standard library of Rust\n\
         (Apache-2.0 OR MIT) and these crates:\n\n{list}"
    );
    for (text, names) in texts {
        let names = names.join(", ");
        all += &format!("\n---- {names}\n\n{}\n", text.trim_end());
    }
    Ok(all)
}

fn metadata() -> Result<Value> {
    let done = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(crate::workspace::root())
        .args(["metadata", "--locked", "--format-version", "1"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .output()
        .context("starting cargo")?;
    ensure!(done.status.success(), "cargo metadata failed");
    Ok(serde_json::from_slice(&done.stdout)?)
}

fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().into_iter().flatten()
}

/// The crates that are linked into what is installed. Procedural macros and build scripts run in
/// the compiler only.
fn linked(metadata: &Value) -> Result<BTreeSet<&str>> {
    let text = |value: &'_ Value| value.as_str().unwrap_or_default().to_owned();
    let is_macro = |package: &Value| {
        let targets = package["targets"].as_array().into_iter().flatten();
        let mut kinds = targets.flat_map(|target| target["kind"].as_array().into_iter().flatten());
        kinds.any(|kind| kind == "proc-macro")
    };
    let macros: BTreeSet<_> = packages(metadata)
        .filter(|package| is_macro(package))
        .map(|package| text(&package["id"]))
        .collect();
    let nodes = metadata["resolve"]["nodes"].as_array();
    let nodes: BTreeMap<&str, &Value> = nodes
        .context("cargo says nothing of dependencies")?
        .iter()
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let installed =
        |package: &&Value| install::packages().contains(&text(&package["name"]).as_str());
    let installed = packages(metadata).filter(installed);
    let mut left: Vec<&str> = installed
        .filter_map(|package| package["id"].as_str())
        .collect();
    ensure!(
        left.len() == install::packages().len(),
        "not all packages are there: {left:?}"
    );
    let mut found = BTreeSet::new();
    while let Some(id) = left.pop() {
        if macros.contains(id) || !found.insert(id) {
            continue;
        }
        let needed = nodes.get(id).and_then(|node| node["deps"].as_array());
        let is_linked = |needed: &&Value| {
            let kinds = needed["dep_kinds"].as_array();
            kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
        };
        let needed = needed.into_iter().flatten().filter(is_linked);
        left.extend(needed.filter_map(|needed| needed["pkg"].as_str()));
    }
    Ok(found)
}

/// The files of licences in the folder of a crate.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.to_lowercase();
        if path.is_file() && NAMES.iter().any(|begin| name.starts_with(begin)) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linked_crates_are_listed_and_those_of_tests_and_macros_are_not() {
        let text = licenses().expect("the texts");
        let has = |name: &str| {
            text.lines()
                .any(|line| line.starts_with(&format!("{name} ")))
        };
        for linked in ["mio", "clap", "serde"] {
            assert!(has(linked), "{linked}");
        }
        for other in ["proptest", "criterion", "serde_derive", "syn", "rejoin-mpi"] {
            assert!(!has(other), "{other}");
        }
        assert!(text.contains("Permission is hereby granted, free of charge"));
    }
}
