//! A finding of the doctor, and its grade.

use serde::Serialize;

/// The grade of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// The item is as it should be.
    Good,
    /// Works, with a cost that the text names.
    Warning,
    /// Rejoin can't work without it.
    Missing,
}

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// Name of the checked item.
    pub what: &'static str,
    /// How it matters.
    pub grade: Grade,
    /// The finding.
    pub found: String,
    /// Consequences of the finding and a remedy; empty when good.
    pub cost: String,
}

impl Finding {
    /// The item is as it should be.
    pub(super) fn good(what: &'static str, found: impl Into<String>) -> Finding {
        Finding {
            what,
            grade: Grade::Good,
            found: found.into(),
            cost: String::new(),
        }
    }

    /// The item works, at this cost.
    pub(super) fn warning(
        what: &'static str,
        found: impl Into<String>,
        cost: impl Into<String>,
    ) -> Finding {
        Finding {
            what,
            grade: Grade::Warning,
            found: found.into(),
            cost: cost.into(),
        }
    }

    /// Rejoin can't work without it.
    pub(super) fn missing(
        what: &'static str,
        found: impl Into<String>,
        cost: impl Into<String>,
    ) -> Finding {
        Finding {
            what,
            grade: Grade::Missing,
            found: found.into(),
            cost: cost.into(),
        }
    }
}
