//! Texts of a file of events, for a page: short, and without characters that change how other text
//! is shown.

use serde::{Deserialize, Deserializer};

/// Characters of a text that are kept.
const MOST: usize = 400;

/// Reads a text. Control characters become U+FFFD, and a long text ends with an ellipsis.
pub fn tidy<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.map(|text| tidied(&text)))
}

/// The text, made tidy.
pub fn tidied(text: &str) -> String {
    let mut out: String = text.chars().take(MOST).map(shown).collect();
    if text.chars().nth(MOST).is_some() {
        out.push('…');
    }
    out
}

fn shown(character: char) -> char {
    match character {
        '\t' | '\n' => ' ',
        // Marks and overrides of the direction of writing.
        '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        other if other.is_control() => '\u{fffd}',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_short_and_changes_no_other_text() {
        assert_eq!(
            tidied("a\u{1b}[2Jb\u{202e}c\nd"),
            "a\u{fffd}[2Jb\u{fffd}c d"
        );
        let long = tidied(&"ä".repeat(MOST + 1));
        assert_eq!(long.chars().count(), MOST + 1);
        assert!(long.ends_with("ä…"));
        assert_eq!(tidied(&"ä".repeat(MOST)).chars().count(), MOST);
    }
}
