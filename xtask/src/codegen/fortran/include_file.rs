//! `mpif.h`, which is valid in both source forms of Fortran: columns 7 to 72, no lines that go on.

use std::fmt::Write as _;

use anyhow::Result;

use super::constant_lists::{CALLBACKS, OF_FORTRAN, SENTINELS, Sentinel, constants};
use crate::codegen::mark::MARK;
use crate::codegen::model::Model;

/// Renders the file.
pub fn render(model: &Model) -> Result<String> {
    let mut out = format!("! mpif.h: the MPI-5.0 standard ABI.\n! {MARK}: do not edit.\n");
    let mut line = |text: &str| {
        let _ = writeln!(out, "      {text}");
    };
    for (name, value) in OF_FORTRAN {
        line(&format!("integer {name}"));
        line(&format!("parameter ({name}={value})"));
    }
    for name in ["MPI_SUBARRAYS_SUPPORTED", "MPI_ASYNC_PROTECTS_NONBLOCKING"] {
        line(&format!("logical {name}"));
        line(&format!("parameter ({name}=.false.)"));
    }
    for c in constants(model)? {
        let kind = if c.is_offset {
            "integer(kind=8)"
        } else {
            "integer"
        };
        line(&format!("{kind} {}", c.name));
        line(&format!("parameter ({}={})", c.name, c.value));
    }
    for (name, what, block) in SENTINELS {
        line(&match what {
            Sentinel::Integer => format!("integer {name}"),
            Sentinel::Integers => format!("integer {name}(1)"),
            Sentinel::Status => format!("integer {name}(8)"),
            Sentinel::Statuses => format!("integer {name}(8,1)"),
            Sentinel::Text => format!("character {name}(1)"),
            Sentinel::Texts => format!("character {name}(1,1)"),
        });
        line(&format!("common /{block}/ {name}"));
    }
    for name in CALLBACKS {
        line(&format!("external {name}"));
    }
    for prefix in ["MPI_", "PMPI_"] {
        for name in ["WTIME", "WTICK"] {
            line(&format!("double precision {prefix}{name}"));
            line(&format!("external {prefix}{name}"));
        }
        for name in ["AINT_ADD", "AINT_DIFF"] {
            line(&format!("integer(kind=8) {prefix}{name}"));
            line(&format!("external {prefix}{name}"));
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_the_fixed_form() {
        let model = Model::load(&crate::workspace::root().join("c-abi/abi")).expect("the tables");
        let text = render(&model).expect("a file");
        for line in text.lines().filter(|line| !line.starts_with('!')) {
            assert!(line.starts_with("      ") && line.len() <= 72, "{line}");
        }
        assert!(text.contains("parameter (MPI_COMM_WORLD=257)"));
        assert!(text.contains("parameter (MPI_MAX_PROCESSOR_NAME=255)"));
    }
}
