//! The seeds of a test's runs.

use std::ops::Range;

/// These seeds, or the ones `FROM..TO` that the variable of the environment names.
///
/// # Panics
/// When it names none.
#[must_use]
pub fn seed_range(variable: &str, fixed: Range<u64>) -> Range<u64> {
    let Ok(text) = std::env::var(variable) else {
        return fixed;
    };
    let parse = |(from, to): (&str, &str)| Some(from.parse().ok()?..to.parse().ok()?);
    let range = text.split_once("..").and_then(parse);
    range.unwrap_or_else(|| panic!("{variable} is {text:?}, not from..to"))
}
