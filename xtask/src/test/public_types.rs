//! Types of one name in the public documentation, those that macros declare among them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Kinds of pages that describe a type.
const KINDS: &[&str] = &["struct.", "enum.", "union.", "trait.", "type."];
/// Names that every crate may use once, at its root: an error type, and its result type.
const PER_CRATE: &[&str] = &["Error", "Result"];
/// Crates of programs that only developers run.
const OUTSIDE: &[&str] = &["xtask", "rejoin_tests", "rejoin_benches", "src"];

/// Refuses types of one name among the pages that rustdoc has written.
///
/// # Errors
/// Two pages define a type of the same name; pages cannot be read.
pub fn check(pages: &Path) -> Result<()> {
    let mut types = BTreeMap::<String, Vec<String>>::new();
    for folder in fs::read_dir(pages).with_context(|| pages.display().to_string())? {
        let folder = folder?;
        let name = folder.file_name().to_string_lossy().into_owned();
        if folder.file_type()?.is_dir() && !OUTSIDE.contains(&name.as_str()) {
            collect(&folder.path(), &mut types)?;
        }
    }
    ensure!(!types.is_empty(), "no pages in {}", pages.display());
    let repeated = types
        .into_iter()
        .filter(|(name, at)| at.len() > 1 && !PER_CRATE.contains(&name.as_str()))
        .map(|(name, at)| format!("{name}: {}", at.join(", ")))
        .collect::<Vec<_>>();
    ensure!(
        repeated.is_empty(),
        "several public types have one name:\n{}",
        repeated.join("\n")
    );
    Ok(())
}

fn collect(folder: &Path, types: &mut BTreeMap<String, Vec<String>>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let (entry, path) = entry.map(|entry| (entry.file_type(), entry.path()))?;
        if entry?.is_dir() {
            collect(&path, types)?;
            continue;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let kind = KINDS.iter().find_map(|kind| name.strip_prefix(kind));
        if let Some(name) = kind.and_then(|rest| rest.strip_suffix(".html"))
            && is_definition(&fs::read_to_string(&path)?)
        {
            let at = path.display().to_string();
            types.entry(name.to_owned()).or_default().push(at);
        }
    }
    Ok(())
}

/// Whether the page is of the crate that defines the type: its first link to a source leads to a
/// page of the same documentation. Pages of another crate's type have no such link, and pages that
/// only lead elsewhere have none at all.
fn is_definition(page: &str) -> bool {
    let link = page.split_once("class=\"src\" href=\"");
    link.is_some_and(|(_, target)| target.starts_with("../"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_definitions_of_one_name_are_refused_and_a_second_page_of_one_is_not() {
        let pages = std::env::temp_dir().join(format!("rejoin-pages-{}", std::process::id()));
        let put = |at: &str, text: &str| {
            let path = pages.join(at);
            fs::create_dir_all(path.parent().expect("a folder")).expect("the folder");
            fs::write(path, text).expect("the page");
        };
        let own = "<a class=\"src\" href=\"../src/a/lib.rs.html#1\">";
        let elsewhere = "<a class=\"src\" href=\"https://doc.rust-lang.org/x\">";
        put("a/struct.One.html", own);
        put("b/struct.One.html", elsewhere);
        put("b/inner/struct.One.html", "<meta http-equiv=\"refresh\">");
        put("a/enum.Error.html", own);
        put("b/enum.Error.html", own);
        let fine = check(&pages);
        put("b/inner/enum.One.html", own);
        let refused = check(&pages);
        fs::remove_dir_all(&pages).expect("the pages");
        fine.expect("one definition");
        let text = refused.expect_err("two definitions").to_string();
        assert!(text.contains("One: ") && !text.contains("Error"), "{text}");
    }
}
