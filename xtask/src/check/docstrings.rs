//! Empty documentation.

use super::ratchet::Finding;
use super::source::Source;

/// First words of a text of at most two words that tells the reader nothing.
const EMPTY: &[&str] = &[
    "which", "whose", "who", "why", "how", "what", "where", "when", "its", "their", "this", "that",
    "it", "known", "nothing", "none", "same", "words", "ditto",
];

/// Texts that point at another place instead.
const POINTERS: &[&str] = &["the same", "as above", "see above", "likewise"];

/// Docstrings that say nothing; the key is the text.
pub fn check(sources: &[Source]) -> Vec<Finding> {
    let mut list = Vec::new();
    for source in sources.iter().filter(|s| !s.is_generated()) {
        for (line, text) in blocks(&source.text) {
            if is_empty(&text) {
                let what = format!("`{text}` says nothing: say what it holds, its unit and range");
                list.push(Finding::new(text, &source.path, line, what));
            }
        }
    }
    list
}

fn is_empty(text: &str) -> bool {
    let plain = text.trim_end_matches('.').to_lowercase();
    let words: Vec<&str> = plain.split_whitespace().collect();
    let first = words.first().copied().unwrap_or_default();
    POINTERS.contains(&plain.as_str()) || (words.len() <= 2 && EMPTY.contains(&first))
}

/// Texts of consecutive lines with `///`, each with its first line.
fn blocks(text: &str) -> Vec<(usize, String)> {
    let mut list: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (number, line) in text.lines().enumerate() {
        let Some(doc) = line.trim_start().strip_prefix("///") else {
            open = false;
            continue;
        };
        let doc = doc.trim();
        match list.last_mut().filter(|_| open) {
            Some((_, text)) => {
                text.push(' ');
                text.push_str(doc);
            }
            None => list.push((number + 1, doc.to_owned())),
        }
        open = true;
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_say_nothing_are_found_whole() {
        let text = "/// Which.\nfn a() {}\n/// The same.\n    /// Its number.\n/// As above.\n\
                    x\n/// The same\n/// for bytes.\n";
        let found: Vec<_> = blocks(text).iter().map(|b| (b.0, is_empty(&b.1))).collect();
        assert_eq!(found, [(1, true), (3, false), (7, false)]);
        for empty in [
            "Which.",
            "Known.",
            "The same.",
            "As above.",
            "Its name.",
            "Words.",
        ] {
            assert!(is_empty(empty), "{empty}");
        }
        for full in ["Ranks of the job.", "Bytes.", "What it holds.", "The rank."] {
            assert!(!is_empty(full), "{full}");
        }
    }
}
