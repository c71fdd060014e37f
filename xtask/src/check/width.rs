//! Widths of prose: comments and documents are read beside code, in columns of [`MAX`] characters.

use std::fs;
use std::path::Path;

use anyhow::Result;

use super::ratchet::Finding;
use super::source::Source;

/// Characters that a line of prose may have.
const MAX: usize = 100;

/// Comments and documents that are too wide; the key is the folder below the workspace's root, or
/// the document. Code that no formatter wraps may be wider.
pub fn check(root: &Path, sources: &[Source]) -> Result<Vec<Finding>> {
    let mut list = comments(sources);
    for path in super::source::documents(root)? {
        let text = fs::read_to_string(root.join(&path))?;
        let generated = text
            .lines()
            .take(2)
            .any(|l| l.contains(crate::codegen::MARK));
        if generated {
            continue;
        }
        list.extend(match path.rsplit_once('.') {
            Some((_, "md")) => document(&path, &text),
            Some((_, "c" | "h")) => comments_of_c(&path, &text),
            _ => comments_of_scripts(&path, &text),
        });
    }
    Ok(list)
}

fn comments(sources: &[Source]) -> Vec<Finding> {
    let mut list = Vec::new();
    for source in sources.iter().filter(|s| !s.is_generated()) {
        let folder = source.path.split('/').next().unwrap_or_default();
        for (number, line) in source.text.lines().enumerate() {
            let text = line.trim_start();
            if text.starts_with("//") && is_too_wide(line, text) {
                list.push(finding(folder, &source.path, number, line));
            }
        }
    }
    list
}

/// The same of the comments of a C program that have lines of their own.
fn comments_of_c(path: &str, text: &str) -> Vec<Finding> {
    let mut list = Vec::new();
    let mut in_comment = false;
    for (number, line) in text.lines().enumerate() {
        let start = line.trim_start();
        in_comment |= start.starts_with("/*");
        if (in_comment || start.starts_with("//")) && is_too_wide(line, start) {
            list.push(finding(path, path, number, line));
        }
        in_comment &= !line.contains("*/");
    }
    list
}

/// The same of scripts in which a comment starts with `#`.
fn comments_of_scripts(path: &str, text: &str) -> Vec<Finding> {
    let mut list = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let start = line.trim_start();
        if start.starts_with('#') && is_too_wide(line, start) {
            list.push(finding(path, path, number, line));
        }
    }
    list
}

/// The same of a document in Markdown, whose tables and blocks of code may be as wide as they need.
fn document(path: &str, text: &str) -> Vec<Finding> {
    let mut list = Vec::new();
    let mut in_code = false;
    for (number, line) in text.lines().enumerate() {
        let start = line.trim_start();
        let fence = start.starts_with("```");
        in_code ^= fence;
        let free = in_code || fence || start.starts_with(['|', '#', '<']);
        if !free && is_too_wide(line, start) {
            list.push(finding(path, path, number, line));
        }
    }
    list
}

/// Whether the line can be broken and is not: one long word (a link, a diagram's line) stays whole.
fn is_too_wide(line: &str, text: &str) -> bool {
    let breaks = text.split_whitespace().count() > 2;
    let diagram = text.contains("   ") || text.contains("//! |") || text.contains("/// |");
    // A line of a string that is written elsewhere.
    let escaped = text.contains("\\n");
    line.chars().count() > MAX && breaks && !diagram && !escaped
}

fn finding(key: &str, path: &str, number: usize, line: &str) -> Finding {
    let what = format!("{} characters, {MAX} are allowed", line.chars().count());
    Finding::new(key, path, number + 1, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_of_c_and_of_scripts_are_prose_and_their_code_is_not() {
        let wide = "word ".repeat(30);
        let c = format!("/* {wide}\n * {wide}*/\n    // {wide}\nf({wide});\n/* short */ {wide}\n");
        let found = |list: &[Finding]| list.len();
        assert_eq!(found(&comments_of_c("a.c", &c)), 4);
        let script = format!("# {wide}\n{wide} # no\n  # {wide}\n");
        assert_eq!(found(&comments_of_scripts("a.sh", &script)), 2);
    }

    fn wide(text: &str) -> usize {
        document("a.md", text).len()
    }

    #[test]
    fn wide_prose_is_found_and_tables_code_and_links_are_not() {
        let line = "word ".repeat(30);
        assert_eq!(wide(&line), 1);
        assert_eq!(wide(&format!("short\n\n- {line}\n")), 1);
        assert_eq!(wide(&format!("| {line} |\n# {line}\n")), 0);
        assert_eq!(wide(&format!("```\n{line}\n```\n")), 0);
        assert_eq!(wide(&format!("[a]: {}", "x".repeat(120))), 0);
        let source = Source::new("a/b.rs", &format!("/// {line}\nfn f() {{}}\n// short\n"));
        let found = comments(&[source.expect("a file")]);
        assert_eq!((found.len(), found[0].key.as_str()), (1, "a"));
    }
}
