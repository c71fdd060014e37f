//! Documents name files that exist.

use std::fs;
use std::path::Path;

use anyhow::Result;

use super::ratchet::Finding;
use super::source::{Source, documents};

/// Paths in backquotes that end no path of a source; the key is the document. A document may leave
/// out the folders before a file, and `src` behind a crate (`engine/eager.rs`).
pub fn check(root: &Path, sources: &[Source]) -> Result<Vec<Finding>> {
    let mut list = Vec::new();
    for path in documents(root)? {
        // The change log tells of the past too.
        if path.ends_with(".md") && path != "CHANGELOG.md" {
            let text = fs::read_to_string(root.join(&path))?;
            list.extend(document(&path, &text, sources));
        }
    }
    Ok(list)
}

fn document(path: &str, text: &str, sources: &[Source]) -> Vec<Finding> {
    let mut list = Vec::new();
    for (number, line) in text.lines().enumerate() {
        // Every second part is in backquotes.
        for name in line.split('`').skip(1).step_by(2) {
            if is_path(name) && !sources.iter().any(|s| is_named(&s.path, name)) {
                let what = format!("no source file is `{name}`");
                list.push(Finding::new(path, path, number + 1, what));
            }
        }
    }
    list
}

fn is_path(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    name.ends_with(".rs") && name.chars().all(is_part)
}

fn is_named(path: &str, name: &str) -> bool {
    let ends = |path: &str| path == name || path.ends_with(&format!("/{name}"));
    ends(path) || ends(&path.replacen("/src/", "/", 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_names_files_that_exist() {
        let source = |path| Source::new(path, "").unwrap();
        let sources = [
            source("device/src/progress/spin.rs"),
            source("a/b/src/c.rs"),
        ];
        let found = |text| document("x.md", text, &sources).len();
        assert_eq!(found("`spin.rs`, `progress/spin.rs` and `b/c.rs`"), 0);
        assert_eq!(
            found("`device/src/progress/spin.rs`, `Vec::new`, spun.rs"),
            0
        );
        assert_eq!(found("`spun.rs`, `device/src/spin.rs` and `in.rs`"), 3);
    }
}
