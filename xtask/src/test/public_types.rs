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
            collect(&folder.path(), &name, &mut types)?;
        }
    }
    ensure!(!types.is_empty(), "no pages in {}", pages.display());
    let repeated = types
        .into_iter()
        .filter(|(name, at)| at.len() > 1 && !PER_CRATE.contains(&name.as_str()))
        .map(|(name, at)| format!("{name} (pages {})", at.join(", ")))
        .collect::<Vec<_>>();
    ensure!(
        repeated.is_empty(),
        "several public types have one name: {}",
        repeated.join("; ")
    );
    Ok(())
}

/// Adds the definitions among the pages of a folder, which are of this crate.
fn collect(folder: &Path, of_crate: &str, types: &mut BTreeMap<String, Vec<String>>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let (entry, path) = entry.map(|entry| (entry.file_type(), entry.path()))?;
        if entry?.is_dir() {
            collect(&path, of_crate, types)?;
            continue;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let kind = KINDS.iter().find_map(|kind| name.strip_prefix(kind));
        if let Some(name) = kind.and_then(|rest| rest.strip_suffix(".html"))
            && is_definition(&fs::read_to_string(&path)?, of_crate)
        {
            let at = path.display().to_string();
            types.entry(name.to_owned()).or_default().push(at);
        }
    }
    Ok(())
}

/// Whether the page is of the crate that defines the type: its first link to a source leads to a
/// source of this crate. The page of another crate's type leads there only if rustdoc had written
/// the pages of that crate before, which differs from run to run. Pages that only lead elsewhere
/// have no such link.
fn is_definition(page: &str, of_crate: &str) -> bool {
    let link = page.split_once("class=\"src\" href=\"");
    let source = link.map(|(_, target)| target.trim_start_matches("../"));
    let of = source.and_then(|source| source.strip_prefix("src/")?.split_once('/'));
    of.is_some_and(|(name, _)| name == of_crate)
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
        let of_a = "<a class=\"src\" href=\"../src/a/lib.rs.html#1\">";
        let of_b = "<a class=\"src\" href=\"../../src/b/lib.rs.html#1\">";
        let elsewhere = "<a class=\"src\" href=\"https://doc.rust-lang.org/x\">";
        put("a/struct.One.html", of_a);
        put("b/struct.One.html", elsewhere);
        put("b/inner/struct.One.html", "<meta http-equiv=\"refresh\">");
        // The pages of `a` were there before those of `b`.
        put("b/again/struct.One.html", of_a);
        put("a/enum.Error.html", of_a);
        put("b/enum.Error.html", of_b);
        let fine = check(&pages);
        put("b/inner/enum.One.html", of_b);
        let refused = check(&pages);
        fs::remove_dir_all(&pages).expect("the pages");
        fine.expect("one definition");
        let text = refused.expect_err("two definitions").to_string();
        let pages = ["One (pages ", "a/struct.One.html", "b/inner/enum.One.html"];
        assert!(pages.iter().all(|part| text.contains(part)), "{text}");
        assert!(!text.contains("Error") && !text.contains("again"), "{text}");
    }
}
