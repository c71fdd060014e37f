//! `rejoin doctor`: the abilities of this machine, missing ones, and their consequences.

mod finding;
mod machine;
mod reading;
mod system_checks;
mod transport;

pub use finding::{Finding, Grade};

use crate::standard_output::print;

/// Checks and prints. Returns the exit code: 1 when something essential is missing, or the findings
/// can't be printed.
#[must_use]
pub fn run(json: bool) -> i32 {
    let mut findings = system_checks::all();
    findings.extend(machine::all());
    findings.push(transport::within_host());
    let missing = findings.iter().any(|f| f.grade == Grade::Missing);
    let text = if json {
        let text = serde_json::json!({ "ok": !missing, "findings": findings });
        format!("{text:#}\n")
    } else {
        table(&findings, missing)
    };
    print("rejoin", &text).max(i32::from(missing))
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
