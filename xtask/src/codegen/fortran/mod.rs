//! Fortran on the standard ABI: the functions of `fortran/src/generated`, and the interfaces that
//! compilers read.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::model::Model;

mod argument;
mod bodies;
mod choice;
mod constant_lists;
mod entries;
mod include_file;
mod interfaces;
mod module_text;
mod selection;

/// Generated sources in Rust: path from the workspace's root, and text.
pub fn sources(model: &Model) -> Vec<(PathBuf, String)> {
    let folder = Path::new("fortran/src/generated");
    let files = [
        ("mod.rs", entries::module()),
        ("c_functions.rs", entries::c_functions(model)),
        ("plain_entries.rs", entries::plain(model)),
        ("choice_entries.rs", entries::with_choice(model)),
    ];
    let placed = files.map(|(name, text)| (folder.join(name), text));
    placed.into()
}

/// The sources in Fortran, which an installation has: name and text.
pub fn interfaces_of(model: &Model) -> Result<[(&'static str, String); 2]> {
    Ok([
        ("mpif.h", include_file::render(model)?),
        ("mpi_modules.f90", module_text::render(model)?),
    ])
}
