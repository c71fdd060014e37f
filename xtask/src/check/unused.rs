//! Dependencies that are declared and used nowhere.

use std::path::Path;

use anyhow::{Context as _, Result};
use proc_macro2::{TokenStream, TokenTree};
use serde_json::Value;

use super::deps::Package;
use super::ratchet::Finding;
use super::source::Source;

/// Declarations without a use; the key is the crate and its dependency.
pub fn check(packages: &[Package], sources: &[Source]) -> Vec<Finding> {
    let folders: Vec<&str> = packages.iter().map(|p| p.folder.as_str()).collect();
    let mut list = Vec::new();
    for package in packages {
        let own: Vec<&Source> = sources
            .iter()
            .filter(|s| owner(&s.path, &folders) == package.folder)
            .collect();
        for dependency in &package.dependencies {
            let name = dependency.0.replace('-', "_");
            if !own.iter().any(|s| mentions(s, &name)) {
                let key = format!("{} {}", package.name, dependency.0);
                let manifest = format!("{}/Cargo.toml", package.folder);
                let what = format!("{} is declared and used nowhere", dependency.0);
                list.push(Finding::new(key, &manifest, 1, what));
            }
        }
    }
    list
}

/// Entries of `[workspace.dependencies]` that no crate asks for; the key is `workspace` and the
/// name.
pub fn workspace(root: &Path, packages: &[Package]) -> Result<Vec<Finding>> {
    let text = std::fs::read_to_string(root.join("Cargo.toml"))?;
    let manifest: toml::Table = text.parse().context("reading Cargo.toml")?;
    let manifest: Value = serde_json::to_value(manifest)?;
    let entries = manifest["workspace"]["dependencies"].as_object();
    let unused = entries.into_iter().flatten().filter(|(name, _)| {
        let of = |p: &Package| p.dependencies.iter().any(|d| d.0 == **name);
        !packages.iter().any(of)
    });
    let finding = |name: &String| {
        let what = format!("{name} is declared for the workspace and no crate asks for it");
        let line = text.lines().position(|l| l.starts_with(name.as_str()));
        Finding::new(
            format!("workspace {name}"),
            "Cargo.toml",
            line.map_or(1, |l| l + 1),
            what,
        )
    };
    Ok(unused.map(|(name, _)| finding(name)).collect())
}

/// The folder of the crate that a file belongs to: the longest.
fn owner<'a>(path: &str, folders: &[&'a str]) -> &'a str {
    let holds = |f: &&&str| path.strip_prefix(**f).is_some_and(|r| r.starts_with('/'));
    let longest = folders.iter().filter(holds).max_by_key(|f| f.len());
    longest.copied().unwrap_or_default()
}

/// Whether the code, apart from comments, has this word before `::` or in `use` or `extern crate`.
fn mentions(source: &Source, name: &str) -> bool {
    // A cheap look first: most files do not have the word at all.
    let tokens = || source.text.parse::<TokenStream>();
    source.text.contains(name) && tokens().is_ok_and(|tokens| in_tokens(tokens, name))
}

fn in_tokens(tokens: TokenStream, name: &str) -> bool {
    let mut after = String::new();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Group(group) => {
                if in_tokens(group.stream(), name) {
                    return true;
                }
            }
            TokenTree::Ident(word) if word == name => {
                let colon = |t: &TokenTree| matches!(t, TokenTree::Punct(p) if p.as_char() == ':');
                let path = tokens.peek().is_some_and(colon);
                if path || ["use", "crate"].contains(&after.as_str()) {
                    return true;
                }
            }
            TokenTree::Ident(word) => after = word.to_string(),
            TokenTree::Punct(_) | TokenTree::Literal(_) => after.clear(),
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_are_found_in_code_only() {
        let source = |text| Source::new("a/src/lib.rs", text).expect("it parses");
        for text in [
            "use serde_json::Value;",
            "use serde_json as json;",
            "fn f() { serde_json::from_str(a); }",
            "#[derive(serde_json::X)] struct S;",
            "fn f() { vec![serde_json::json!(1)]; }",
            "extern crate serde_json;",
        ] {
            assert!(mentions(&source(text), "serde_json"), "{text}");
        }
        for text in [
            "// serde_json::Value\n",
            "fn serde_json() {}",
            "use a::my_serde_json;",
        ] {
            assert!(!mentions(&source(text), "serde_json"), "{text}");
        }
    }

    #[test]
    fn files_belong_to_the_innermost_crate() {
        let folders = ["device", "device/engine", "devices"];
        assert_eq!(owner("device/engine/src/a.rs", &folders), "device/engine");
        assert_eq!(owner("device/src/a.rs", &folders), "device");
        assert_eq!(owner("sim/src/a.rs", &folders), "");
    }

    #[test]
    fn a_declaration_without_use_is_found() {
        let package = Package {
            name: "rejoin-a".to_owned(),
            folder: "a".to_owned(),
            dependencies: vec![("used".to_owned(), false), ("not-used".to_owned(), true)],
        };
        let source = Source::new("a/src/lib.rs", "use used::A;").expect("it parses");
        let found = check(&[package], &[source]);
        let keys: Vec<_> = found.iter().map(|f| f.key.as_str()).collect();
        assert_eq!(keys, ["rejoin-a not-used"]);
    }
}
