//! Words that `docs/glossary.md` has replaced and that must not come back.
//!
//! The last column of the glossary's table names them between backquotes. The check looks for a
//! word or phrase in small letters in identifiers, comments, texts and documents. It also finds the
//! word as a part of a longer identifier and in the plural. A word with a capital is the name of a
//! type.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use proc_macro2::{TokenStream, TokenTree};

use super::ratchet::Finding;
use super::source::Source;

/// The page with the table.
const GLOSSARY: &str = "docs/glossary.md";

/// Documents that may use the words: the page itself, and the history of earlier versions.
const EXEMPT: &[&str] = &[GLOSSARY, "CHANGELOG.md"];

/// A replaced word, and the term to use instead.
struct Banned {
    word: String,
    /// In small letters; several for a phrase. Empty for the name of a type.
    parts: Vec<String>,
    instead: String,
}

/// One word of a text, in small letters, with its line.
struct Word {
    text: String,
    line: usize,
}

/// Uses of words that were replaced; the key is the word.
pub fn check(root: &Path, sources: &[Source]) -> Result<Vec<Finding>> {
    let page = fs::read_to_string(root.join(GLOSSARY)).context("reading the glossary")?;
    let table = table(&page);
    ensure!(
        !table.is_empty(),
        "{GLOSSARY} names no word between backquotes"
    );
    let mut list = Vec::new();
    for source in sources.iter().filter(|s| !s.is_generated()) {
        in_text(&table, &source.path, &source.text, &mut list);
        if let Ok(tokens) = source.text.parse::<TokenStream>() {
            in_code(&table, &source.path, tokens, &mut list);
        }
    }
    for path in super::source::documents(root)? {
        let text = fs::read_to_string(root.join(&path))?;
        let generated = text
            .lines()
            .take(2)
            .any(|l| l.contains(crate::codegen::MARK));
        if !generated && !EXEMPT.contains(&path.as_str()) {
            in_text(&table, &path, &text, &mut list);
        }
    }
    Ok(list)
}

/// The rows of the page's table.
fn table(page: &str) -> Vec<Banned> {
    let mut list = Vec::new();
    for row in page.lines().filter(|l| l.starts_with("| ")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let (Some(instead), Some(words)) = (cells.first(), cells.get(2)) else {
            continue;
        };
        for word in words.split('`').skip(1).step_by(2) {
            let is_type = word.starts_with(char::is_uppercase);
            let parts = if is_type { Vec::new() } else { parts(word) };
            list.push(Banned {
                word: word.to_owned(),
                parts,
                instead: (*instead).to_owned(),
            });
        }
    }
    list
}

fn parts(text: &str) -> Vec<String> {
    words(text).into_iter().map(|w| w.text).collect()
}

/// The words of a text: letters in a row, identifiers apart at `_` and at capitals.
fn words(text: &str) -> Vec<Word> {
    let mut list = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut word = String::new();
        let mut was_small = false;
        let mut close = |word: &mut String| {
            if !word.is_empty() {
                let text = std::mem::take(word).to_lowercase();
                let line = number + 1;
                list.push(Word { text, line });
            }
        };
        for c in line.chars() {
            if !c.is_alphabetic() || (was_small && c.is_uppercase()) {
                close(&mut word);
            }
            if c.is_alphabetic() {
                word.push(c);
            }
            was_small = c.is_lowercase();
        }
        close(&mut word);
    }
    list
}

fn in_text(table: &[Banned], path: &str, text: &str, list: &mut Vec<Finding>) {
    let words = words(text);
    for (at, word) in words.iter().enumerate() {
        for banned in table.iter().filter(|b| !b.parts.is_empty()) {
            let fits = |(i, part): (usize, &String)| {
                let found = words.get(at + i).map_or("", |w| w.text.as_str());
                let singular = found.strip_suffix('s').unwrap_or(found);
                found == part || singular == part
            };
            if banned.parts.iter().enumerate().all(fits) {
                list.push(finding(banned, path, word.line));
            }
        }
    }
}

fn in_code(table: &[Banned], path: &str, tokens: TokenStream, list: &mut Vec<Finding>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => in_code(table, path, group.stream(), list),
            TokenTree::Ident(name) => {
                let text = name.to_string();
                let is = |b: &&Banned| b.parts.is_empty() && b.word == text;
                if let Some(banned) = table.iter().find(is) {
                    list.push(finding(banned, path, name.span().start().line));
                }
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

fn finding(banned: &Banned, path: &str, line: usize) -> Finding {
    let what = format!("`{}`: say {} ({GLOSSARY})", banned.word, banned.instead);
    Finding::new(&banned.word, path, line, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "| Say | Means | Not |\n|---|---|---|\n\
        | short message | fits | `gadget`, `set_aslant`, `lies idle`, `Told` |\n| credit | x | |\n";

    fn found(text: &str) -> Vec<(String, usize)> {
        let table = table(PAGE);
        let mut list = Vec::new();
        in_text(&table, "a.rs", text, &mut list);
        if let Ok(tokens) = text.parse() {
            in_code(&table, "a.rs", tokens, &mut list);
        }
        list.into_iter().map(|f| (f.key, f.line)).collect()
    }

    #[test]
    fn words_are_found_in_identifiers_and_prose() {
        for text in [
            "try_gadget()",
            "GadgetCell",
            "// two gadgets.",
            "\"gadget\"",
            "isGadget",
        ] {
            assert_eq!(found(text), [("gadget".to_owned(), 1)], "{text}");
        }
        for text in ["// it lies\n// idle", "fn lies_idle() {}"] {
            assert_eq!(found(text), [("lies idle".to_owned(), 1)], "{text}");
        }
        assert_eq!(
            found("\nfn set_aslant() {}"),
            [("set_aslant".to_owned(), 2)]
        );
        assert_eq!(found("enum Told {}"), [("Told".to_owned(), 1)]);
        for text in [
            "gadgetry",
            "regadget",
            "// Told of it.",
            "set it aslant",
            "idle lies",
        ] {
            assert_eq!(found(text), [], "{text}");
        }
    }
}
