//! What the doctor found, and how it matters.

use serde::Serialize;

/// How a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// As it should be.
    Good,
    /// Works, with a cost that the text names.
    Warning,
    /// Rejoin can't work without it.
    Missing,
}

/// One thing that was looked at.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// What.
    pub what: &'static str,
    /// How it matters.
    pub grade: Grade,
    /// What was found.
    pub found: String,
    /// What it costs and what to do about it; empty when good.
    pub cost: String,
}

impl Finding {
    /// It is as it should be.
    pub(super) fn good(what: &'static str, found: impl Into<String>) -> Finding {
        Finding {
            what,
            grade: Grade::Good,
            found: found.into(),
            cost: String::new(),
        }
    }

    /// It works, at this cost.
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
