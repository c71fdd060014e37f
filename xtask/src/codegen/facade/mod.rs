//! The façade with Open MPI's binary interface: `facade/openmpi/src/generated`, from the standard's
//! tables and those of `facade/openmpi/abi`, which hold what Open MPI has otherwise.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::function_table;
use super::model::Model;
use tables::Tables;

mod conversions;
mod fortran;
mod forwards;
mod predefined;
mod tables;

/// All generated files of the façade: path from the workspace's root, and text.
pub fn render(root: &Path, model: &Model) -> Result<Vec<(PathBuf, String)>> {
    let crate_folder = root.join("facade/openmpi");
    let tables = Tables::load(&crate_folder.join("abi"))?;
    let by_hand = written_by_hand(&crate_folder.join("src"))?;
    let used: BTreeSet<&str> = tables
        .functions
        .iter()
        .map(|f| f.standard.as_str())
        .collect();
    let is_used =
        |name: &str| used.contains(name) || name.ends_with("_toint") || name.ends_with("_fromint");
    let generated = Path::new("facade/openmpi/src/generated");
    let files = [
        ("mod.rs", module()),
        ("conversions.rs", conversions::render(model, &tables)?),
        ("fortran.rs", fortran::render(model, &tables, &by_hand)),
        ("forwards.rs", forwards::render(model, &tables, &by_hand)),
        ("functions.rs", function_table::types(model, is_used)),
        ("predefined.rs", predefined::render(model, &tables)?),
    ];
    Ok(files
        .into_iter()
        .map(|(name, text)| (generated.join(name), text))
        .collect())
}

fn module() -> String {
    format!(
        "//! {}: do not edit.\n\npub mod conversions;\nmod fortran;\nmod forwards;\npub mod functions;\npub mod predefined;\n",
        super::mark::MARK
    )
}

/// Functions that the sources export: each name stands before its profiling name.
fn written_by_hand(sources: &Path) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(sources)? {
        let path = entry?.path();
        if path.extension().is_none_or(|e| e != "rs") {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        let words: Vec<&str> = text.split_whitespace().collect();
        let pairs = words
            .windows(2)
            .filter(|w| w[1].strip_prefix(['P', 'p']) == Some(w[0]));
        names.extend(pairs.map(|w| w[0].to_owned()));
    }
    Ok(names)
}
