//! `rejoin doctor`: the abilities of this machine, missing ones, and their consequences; or those
//! of a program.

mod finding;
mod machine;
mod program;
mod reading;
mod system_checks;
mod transport;
pub mod transports;

pub use finding::{Finding, Grade};

use crate::launch::installation::library_folder;
use crate::standard_output::print;
use std::ffi::OsStr;

/// Checks this machine, or a program, and prints. Returns the exit code: 1 when something essential
/// is missing, or the findings can't be printed.
#[must_use]
pub fn run(program: Option<&OsStr>, json: bool) -> i32 {
    let (findings, verdicts) = match program {
        Some(program) => (of_program(program), OF_PROGRAM),
        None => (of_machine(), OF_MACHINE),
    };
    let missing = findings.iter().any(|f| f.grade == Grade::Missing);
    let text = if json {
        let text = serde_json::json!({ "ok": !missing, "findings": findings });
        format!("{text:#}\n")
    } else {
        table(&findings, verdicts[usize::from(missing)])
    };
    print("rejoin", &text).max(i32::from(missing))
}

/// The last line about a machine: if nothing is missing, and if something is.
const OF_MACHINE: [&str; 2] = [
    "Rejoin works on this machine.",
    "Something essential is missing: Rejoin does not work here.",
];

/// The same about a program.
const OF_PROGRAM: [&str; 2] = [
    "mpirun runs this program as it is.",
    "Something essential is missing: the program does not run.",
];

fn of_machine() -> Vec<Finding> {
    let mut findings = system_checks::all();
    findings.extend(machine::all());
    findings.push(transport::within_host());
    findings
}

fn of_program(program: &OsStr) -> Vec<Finding> {
    match library_folder() {
        Some(folder) => program::all(program, &folder),
        None => vec![Finding::missing(
            "MPI library",
            "not beside this program",
            "run the rejoin of an installation",
        )],
    }
}

fn table(findings: &[Finding], verdict: &str) -> String {
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
    out + verdict + "\n"
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
        let text = table(&findings, OF_MACHINE[1]);
        assert!(text.contains("ok       kernel  Linux 6.18\n"));
        assert!(text.contains("MISSING  pidfd   refused\n"));
        assert!(text.contains("-> needs Linux 5.3\n"));
        assert!(text.ends_with("does not work here.\n"));
    }
}
