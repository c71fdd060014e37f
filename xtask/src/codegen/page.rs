//! `docs/functions.md`: every function with its state, by chapters of the standard.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::chapter::Chapter;
use super::entry::implementation;
use super::model::{Function, Model};
use super::scan::Found;

/// Renders the page.
pub fn render(model: &Model, found: &Found) -> String {
    let is_done = |f: &&Function| implementation(model, f, found).is_some();
    let mut chapters: BTreeMap<&Chapter, Vec<&Function>> = BTreeMap::new();
    for f in &model.functions {
        chapters.entry(f.chapter).or_default().push(f);
    }
    let total = model.standard().count();
    let done = model.standard().filter(is_done).count();
    let removed = model.removed().count();
    let own = model.extensions().count();
    let mut out = format!(
        "<!-- {}: do not edit. -->\n# Functions\n\n\
         All {total} functions of the MPI-5.0 standard ABI are exported, each with its `PMPI_` twin. \
         {done} are implemented. A call of any other returns an error of class \
         `MPI_ERR_UNSUPPORTED_OPERATION` through the error handler, with the function's name \
         (those of the tools' interface return `MPI_T_ERR_NOT_SUPPORTED`). {removed} functions that MPI-3.0 \
         removed are there for old programs, {own} are Rejoin's own.\n",
        super::mark::MARK
    );
    for (chapter, list) in chapters {
        let count = list.iter().copied().filter(|f| is_done(f)).count();
        let _ = write!(
            out,
            "\n## {} ({count} of {})\n\n| Function | State |\n|---|---|\n",
            chapter.title,
            list.len()
        );
        for f in list {
            let state = if is_done(&f) {
                "implemented"
            } else {
                "not yet"
            };
            let _ = writeln!(out, "| `{}` | {state} |", f.name);
        }
    }
    out
}
