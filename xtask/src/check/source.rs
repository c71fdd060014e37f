//! The files that the rules read.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::handler_items;

/// One Rust source file of the workspace.
pub struct Source {
    /// From the workspace's root, with `/`.
    pub path: String,
    /// The text.
    pub text: String,
    /// The parsed file, with what its handlers define behind it.
    pub file: syn::File,
    /// Declared as `#[cfg(test)] mod …;` somewhere.
    pub for_tests: bool,
}

impl Source {
    /// Parses a file.
    pub fn new(path: &str, text: &str) -> Result<Self> {
        let mut file = syn::parse_file(text).with_context(|| format!("parsing {path}"))?;
        let calls = file.items.iter().filter_map(|item| match item {
            syn::Item::Macro(call) => Some(call),
            _ => None,
        });
        let defined: Vec<syn::Item> = calls.flat_map(handler_items::items).collect();
        file.items.extend(defined);
        Ok(Self {
            path: path.to_owned(),
            text: text.to_owned(),
            file,
            for_tests: false,
        })
    }

    /// Written by a generator: lengths do not matter.
    pub fn is_generated(&self) -> bool {
        let first = self.text.lines().take(2);
        first.into_iter().any(|l| l.contains(crate::codegen::MARK))
    }

    /// Holds tests only, going by its name or its declaration.
    pub fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let in_folder = self.path.split('/').any(|p| p == "tests");
        self.for_tests || in_folder || name.ends_with("tests.rs")
    }

    /// Where the modules lie that this file declares for tests only, without `.rs` or `/mod.rs`.
    fn test_modules(&self) -> Vec<String> {
        let (folder, name) = self.path.rsplit_once('/').unwrap_or(("", &self.path));
        let stem = name.trim_end_matches(".rs");
        let below = match stem {
            "lib" | "main" | "mod" => folder.to_owned(),
            stem => format!("{folder}/{stem}"),
        };
        let mut list = Vec::new();
        for item in &self.file.items {
            let syn::Item::Mod(m) = item else { continue };
            if m.content.is_none() && is_test_only(&m.attrs) {
                list.push(format!("{below}/{}", m.ident));
            }
        }
        list
    }
}

/// Whether `#[cfg(test)]` is among the attributes.
pub fn is_test_only(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|a| {
        let syn::Meta::List(list) = &a.meta else {
            return false;
        };
        list.path.is_ident("cfg") && list.tokens.to_string() == "test"
    })
}

/// Marks the files that other files declare as modules for tests, and the files below them.
fn mark_tests(sources: &mut [Source]) {
    let modules: Vec<String> = sources.iter().flat_map(Source::test_modules).collect();
    for source in sources {
        source.for_tests = modules.iter().any(|m| {
            let rest = source.path.strip_prefix(m.as_str());
            rest.is_some_and(|r| r == ".rs" || r.starts_with('/'))
        });
    }
}

/// All Rust sources of the workspace, in a fixed order.
pub fn sources(root: &Path) -> Result<Vec<Source>> {
    let read = |path: &String| Source::new(path, &fs::read_to_string(root.join(path))?);
    let mut sources = files(root, &["rs"])?
        .iter()
        .map(read)
        .collect::<Result<Vec<_>>>()?;
    mark_tests(&mut sources);
    Ok(sources)
}

/// Documents, C programs and headers, scripts: the prose beside the Rust sources.
pub fn documents(root: &Path) -> Result<Vec<String>> {
    files(root, &["md", "c", "h", "sh", "py", "skip", "toml"])
}

/// The workspace's files with one of these endings, in a fixed order, from its root.
pub fn files(root: &Path, endings: &[&str]) -> Result<Vec<String>> {
    let mut list = Vec::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type()?.is_dir() {
                if !name.starts_with('.') && !name.starts_with("target") && name != "out" {
                    open.push(entry.path());
                }
            } else if name
                .rsplit_once('.')
                .is_some_and(|(_, e)| endings.contains(&e))
            {
                let path = entry.path();
                list.push(path.strip_prefix(root)?.to_string_lossy().into_owned());
            }
        }
    }
    list.sort();
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_for_tests_are_known_by_their_declaration() {
        let source = |path: &str, text: &str| Source::new(path, text).expect("the sample parses");
        let mut list = [
            source("a/src/lib.rs", "mod b; #[cfg(test)] mod c;"),
            source("a/src/b.rs", "#[cfg(test)] mod d;"),
            source("a/src/b/d.rs", ""),
            source("a/src/c/mod.rs", ""),
            source("a/src/d.rs", ""),
        ];
        mark_tests(&mut list);
        let marked: Vec<bool> = list.iter().map(|s| s.for_tests).collect();
        assert_eq!(marked, [false, false, true, true, false]);
    }
}
