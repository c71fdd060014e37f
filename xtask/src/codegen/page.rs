//! `docs/functions.md`: every function with its state.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::entry::{group, implementation};
use super::model::Model;
use super::scan::Found;

/// Renders the page.
pub fn render(model: &Model, found: &Found) -> String {
    let mut groups: BTreeMap<&str, Vec<(&str, bool)>> = BTreeMap::new();
    for f in &model.functions {
        let done = implementation(model, f, found).is_some();
        groups.entry(group(f)).or_default().push((&f.name, done));
    }
    let total = model.standard().count();
    let standard = groups
        .iter()
        .filter(|g| !["removed", "extensions"].contains(g.0));
    let done = standard.flat_map(|g| g.1).filter(|f| f.1).count();
    let removed = model.removed().count();
    let own = model.extensions().count();
    let mut out = format!(
        "<!-- {}: do not edit. -->\n# Functions\n\n\
         All {total} functions of the MPI-5.0 standard ABI are exported, each with its `PMPI_` twin. \
         {done} are implemented. A call of any other returns an error of class \
         `MPI_ERR_UNSUPPORTED_OPERATION` through the error handler, with the function's name \
         (those of the tools' interface return `MPI_T_ERR_NOT_SUPPORTED`). {removed} functions that MPI-3.0 \
         removed are there for old programs, {own} are this library's own.\n",
        super::MARK
    );
    for (name, list) in groups {
        let count = list.iter().filter(|f| f.1).count();
        let _ = write!(
            out,
            "\n## {} ({count} of {})\n\n| Function | State |\n|---|---|\n",
            title(name),
            list.len()
        );
        for (function, done) in list {
            let state = if done { "implemented" } else { "not yet" };
            let _ = writeln!(out, "| `{function}` | {state} |");
        }
    }
    out
}

fn title(group: &str) -> &'static str {
    match group {
        "coll" => "Collectives",
        "comm" => "Communicators, groups, attributes and topologies",
        "datatype" => "Datatypes and packing",
        "extensions" => "This library's own: registered memory, checkpoints and the way back",
        "env" => "Environment, errors, info and sessions",
        "file" => "Files",
        "p2p" => "Point-to-point and requests",
        "removed" => "Removed from the standard in MPI-3.0: new programs should not use them",
        "rma" => "One-sided communication",
        _ => "Tools' interface",
    }
}
