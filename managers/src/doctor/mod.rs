//! `rejoin doctor`: what this machine offers, what is missing and what that costs.

mod checks;
mod machine;
mod reading;
mod transport;

use serde::Serialize;
use std::io::Write;

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
    fn good(what: &'static str, found: impl Into<String>) -> Finding {
        Finding {
            what,
            grade: Grade::Good,
            found: found.into(),
            cost: String::new(),
        }
    }

    fn warning(what: &'static str, found: impl Into<String>, cost: impl Into<String>) -> Finding {
        Finding {
            what,
            grade: Grade::Warning,
            found: found.into(),
            cost: cost.into(),
        }
    }

    fn missing(what: &'static str, found: impl Into<String>, cost: impl Into<String>) -> Finding {
        Finding {
            what,
            grade: Grade::Missing,
            found: found.into(),
            cost: cost.into(),
        }
    }
}

/// Checks and prints. Returns the exit code: 1 when something essential is missing.
#[must_use]
pub fn run(json: bool) -> i32 {
    let mut findings = checks::all();
    findings.extend(machine::all());
    findings.push(transport::within_host());
    let missing = findings.iter().any(|f| f.grade == Grade::Missing);
    if json {
        let text = serde_json::json!({ "ok": !missing, "findings": findings });
        print(&format!("{text:#}\n"));
    } else {
        print(&table(&findings, missing));
    }
    i32::from(missing)
}

fn table(findings: &[Finding], missing: bool) -> String {
    let width = findings.iter().map(|f| f.what.len()).max().unwrap_or(0);
    let mut out = String::new();
    for finding in findings {
        let mark = match finding.grade {
            Grade::Good => "ok     ",
            Grade::Warning => "warning",
            Grade::Missing => "MISSING",
        };
        out += &format!("{mark}  {:width$}  {}\n", finding.what, finding.found);
        if !finding.cost.is_empty() {
            out += &format!("         {:width$}  -> {}\n", "", finding.cost);
        }
    }
    let last = if missing {
        "Something essential is missing: Rejoin does not work here."
    } else {
        "Rejoin works on this machine."
    };
    out + last + "\n"
}

/// Prints; a reader that went away is no error.
pub fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_stands_out() {
        let findings = [
            Finding::good("kernel", "Linux 6.18"),
            Finding::missing("pidfd", "refused", "needs Linux 5.3"),
        ];
        let text = table(&findings, true);
        assert!(text.contains("ok       kernel  Linux 6.18\n"));
        assert!(text.contains("MISSING  pidfd   refused\n"));
        assert!(text.contains("-> needs Linux 5.3\n"));
        assert!(text.ends_with("does not work here.\n"));
    }
}
