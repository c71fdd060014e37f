//! The findings of the rules.

/// The findings of all rules.
#[derive(Debug, Default)]
pub struct Report {
    /// Violations.
    pub errors: Vec<String>,
    /// Hints.
    pub warnings: Vec<String>,
}
