//! What the rules found.

/// What the rules found.
#[derive(Debug, Default)]
pub struct Report {
    /// Violations.
    pub errors: Vec<String>,
    /// Hints.
    pub warnings: Vec<String>,
}
