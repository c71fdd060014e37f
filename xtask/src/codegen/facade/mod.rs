//! The façades with other MPIs' binary interfaces: `facade/*/src/generated`, from the standard's
//! tables and those of `facade/*/abi`, which hold what the other MPI has otherwise.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::function_table;
use super::model::Model;
use flavour::{Facade, Flavour, Shared};
use tables::Tables;

mod conversions;
mod flavour;
mod fortran;
mod forwards;
mod handles;
mod predefined;
mod tables;

const FLAVOURS: [Flavour; 2] = [
    Flavour {
        folder: "facade/openmpi",
        mpi: "Open MPI",
        own: "OpenMpi",
        // Its own module `mpi_f08` calls one name, programs with that module two others.
        names: |lower| {
            let mut names = vec![
                format!("{lower}_"),
                format!("p{lower}_"),
                format!("o{lower}_f"),
            ];
            if !OTHERWISE_IN_2008.contains(&lower) {
                names.extend([format!("{lower}_f08_"), format!("p{lower}_f08_")]);
            }
            names
        },
    },
    Flavour {
        folder: "facade/mpich",
        mpi: "MPICH",
        own: "Mpich",
        names: |lower| {
            let under = |name: String| [format!("{name}_"), format!("{name}__"), name];
            let profiling = under(format!("p{lower}"));
            let upper = lower.to_uppercase();
            let mut names: Vec<String> = under(lower.to_owned())
                .into_iter()
                .chain(profiling)
                .collect();
            names.extend([format!("P{upper}"), upper]);
            names
        },
    },
];

/// Functions whose arguments differ in Open MPI's module `mpi_f08`; those of all others are the
/// same in memory. They are written by hand.
const OTHERWISE_IN_2008: [&str; 1] = ["mpi_buffer_detach"];

/// The crate that façades share.
const COMMON: &str = "facade/common";

/// All generated files of the façades: path from the workspace's root, and text.
pub fn render(root: &Path, model: &Model) -> Result<Vec<(PathBuf, String)>> {
    let shared = shared_functions(&root.join(COMMON).join("src"))?;
    let mut list = vec![(
        Path::new(COMMON).join("src/generated/functions.rs"),
        function_table::types(model),
    )];
    for flavour in &FLAVOURS {
        let crate_folder = root.join(flavour.folder);
        let facade = Facade {
            flavour,
            model,
            tables: Tables::load(&crate_folder.join("abi"))?,
            by_hand: written_by_hand(&crate_folder.join("src"))?,
            shared: &shared,
        };
        let has_objects = !facade.tables.objects.is_empty();
        let objects = match has_objects {
            true => predefined::render(model, &facade.tables)?,
            false => handles::render(model, &facade.tables)?,
        };
        let generated = Path::new(flavour.folder).join("src/generated");
        let sizes = has_objects.then(|| ("sizes.rs", fortran::render_sizes(&facade)));
        let files = [
            ("mod.rs", module(has_objects)),
            ("conversions.rs", conversions::render(&facade)?),
            ("fortran.rs", fortran::render(&facade)),
            ("forwards.rs", forwards::render(&facade)),
            ("predefined.rs", objects),
        ];
        list.extend(
            files
                .into_iter()
                .chain(sizes)
                .map(|(name, text)| (generated.join(name), text)),
        );
    }
    Ok(list)
}

fn module(has_sizes: bool) -> String {
    let sizes = if has_sizes { "mod sizes;\n" } else { "" };
    format!(
        "//! {}: do not edit.\n\npub mod conversions;\nmod fortran;\nmod forwards;\n\
         pub mod predefined;\n{sizes}",
        super::mark::MARK
    )
}

/// The text of each source in a folder, with its name.
fn sources(folder: &Path) -> Result<Vec<(String, String)>> {
    let mut list = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "rs") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            list.push((name.into_owned(), fs::read_to_string(&path)?));
        }
    }
    Ok(list)
}

/// Functions that the sources of one façade export: each name stands before its profiling name.
fn written_by_hand(folder: &Path) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for (_, text) in sources(folder)? {
        let words: Vec<&str> = text.split_whitespace().collect();
        let pairs = words
            .windows(2)
            .filter(|w| w[1].strip_prefix(['P', 'p']) == Some(w[0]));
        names.extend(pairs.map(|w| w[0].to_owned()));
    }
    Ok(names)
}

/// Functions that are generic over the façade, also those that a macro defines.
fn shared_functions(folder: &Path) -> Result<Shared> {
    let mut found = Shared::new();
    for (module, text) in sources(folder)? {
        for after in text.split("pub unsafe fn ").skip(1) {
            if let Some((name, _)) = after.split_once("<F: Facade>")
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            {
                found.insert(name.to_owned(), module.clone());
            }
        }
    }
    Ok(found)
}
