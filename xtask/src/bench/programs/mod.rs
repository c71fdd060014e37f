//! What programs of other languages and libraries, and parts of MPI beyond messages, cost: calls
//! through façades and from Fortran, nonblocking collectives, files, binaries of Debian.

mod binaries;
mod bindings;
mod nonblocking;
mod writes;

use super::figures::{Case, Table};

/// The cases in the order of the table.
const CASES: [Case; 4] = [
    ("bindings", bindings::run),
    ("nonblocking", nonblocking::run),
    ("writes", writes::run),
    ("binaries", binaries::run),
];

/// The table of these cases, `docs/bench/programs.md`.
pub const TABLE: Table = Table {
    name: "programs",
    file: "programs",
    title: "Any program: what it costs",
    cases: &CASES,
};
