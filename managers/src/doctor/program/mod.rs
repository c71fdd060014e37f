//! `rejoin doctor PROGRAM`: the MPI for which a program was made, whether it finds this one's
//! library instead, and which of its functions are not there.

mod mpi_family;

use super::finding::Finding;
use crate::launch::dynamic_file::DynamicFile;
use crate::launch::loaded_libraries::loaded_libraries;
use crate::launch::spawn::resolve;
use mpi_family::{MpiFamily, is_mpi_name, standard_name};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Names that a finding shows; the JSON has no more, either.
const MOST_SHOWN: usize = 12;

/// The findings about a program.
pub(super) fn all(program: &OsStr, libraries: &Path) -> Vec<Finding> {
    let file = match resolve(program, std::env::var_os("PATH").as_deref(), None) {
        Ok(file) => file,
        Err(error) => return vec![no_program(&error.to_string())],
    };
    let own = match DynamicFile::read(&file) {
        Ok(own) => own,
        Err(why) => return vec![no_program(&format!("{}: {why}", file.display()))],
    };
    let loaded = loaded(&file, None);
    let names = own.needed.iter().chain(loaded.keys());
    let Some(family) = names.clone().find_map(|name| MpiFamily::of(name)) else {
        return vec![without_mpi(
            &file,
            names.clone().find(|name| name.starts_with("libmpi")),
        )];
    };
    let mut findings = vec![Finding::good(
        "program",
        format!("{} was made for {}", file.display(), family.name()),
    )];
    let folder = libraries.join(family.folder());
    findings.push(found_library(&file, &own, family, &folder));
    findings.extend(functions(&own, &loaded, &folder));
    findings
}

fn no_program(why: &str) -> Finding {
    Finding::missing(
        "program",
        why,
        "name the program that calls MPI, or the library that a script loads",
    )
}

/// A program that is linked with no MPI library, or with an unknown one.
fn without_mpi(file: &Path, library: Option<&String>) -> Finding {
    let found = match library {
        Some(library) => format!(
            "{} needs {library}, which is no MPI known here",
            file.display()
        ),
        None => format!("{} is linked with no MPI library", file.display()),
    };
    Finding::warning(
        "program",
        found,
        "each of its processes runs alone, unless it loads an MPI library itself: an interpreter \
         does; name the file that it loads. Other programs must be built with mpicc or mpifort",
    )
}

/// What a program loads with this folder ahead of those of `LD_LIBRARY_PATH`.
fn loaded(program: &Path, first: Option<&Path>) -> BTreeMap<String, Option<PathBuf>> {
    let path = first.map(Path::to_path_buf).into_iter();
    let before = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let path = path.chain(std::env::split_paths(&before).filter(|p| !p.as_os_str().is_empty()));
    loaded_libraries(program, &std::env::join_paths(path).unwrap_or_default())
}

/// Whether the program loads this installation's library for its MPI.
fn found_library(file: &Path, own: &DynamicFile, family: MpiFamily, folder: &Path) -> Finding {
    let what = "MPI library";
    let loaded = loaded(file, Some(folder));
    let of_family = || {
        loaded
            .iter()
            .filter(|(name, _)| MpiFamily::of(name) == Some(family))
    };
    if let Some((name, None)) = of_family().find(|(_, found)| found.is_none()) {
        let cost = "this installation has no such library: the program does not start";
        return Finding::missing(what, format!("{name} is not found"), cost);
    }
    let folder = folder
        .canonicalize()
        .unwrap_or_else(|_| folder.to_path_buf());
    let is_other = |found: &&PathBuf| {
        !found
            .canonicalize()
            .is_ok_and(|found| found.starts_with(&folder))
    };
    match of_family()
        .filter_map(|(_, found)| found.as_ref())
        .find(is_other)
    {
        Some(other) => Finding::missing(
            what,
            format!("{} comes first", other.display()),
            match &own.rpath {
                Some(rpath) => format!(
                    "the program's RPATH ({rpath}) leads there: remove it (patchelf \
                     --remove-rpath), or each process runs alone"
                ),
                None => "a library of the program has an RPATH that leads there: remove it, or \
                         each process runs alone"
                    .to_owned(),
            },
        ),
        None => Finding::good(what, format!("this one's, in {}", folder.display())),
    }
}

/// Whether all functions are there that the program and its libraries name.
fn functions(
    own: &DynamicFile,
    loaded: &BTreeMap<String, Option<PathBuf>>,
    folder: &Path,
) -> Vec<Finding> {
    let others = loaded
        .iter()
        .filter(|(name, _)| MpiFamily::of(name).is_none());
    let others = others.filter_map(|(_, file)| DynamicFile::read(file.as_ref()?).ok());
    let mut named: BTreeSet<String> = own.imports.clone();
    let (mut exports, mut missing) = (BTreeSet::new(), BTreeSet::new());
    for library in others {
        named.extend(library.imports);
        exports.extend(library.exports);
    }
    for library in provided(folder) {
        exports.extend(library.exports);
        missing.extend(library.missing);
    }
    let missing: BTreeSet<_> = missing.iter().map(|name| standard_name(name)).collect();
    named.retain(|name| is_mpi_name(name));
    let absent: Vec<_> = named
        .iter()
        .filter(|name| !exports.contains(*name))
        .collect();
    let is_refused = |name: &&String| missing.contains(&standard_name(name));
    let refused: Vec<_> = named.iter().filter(is_refused).collect();
    let mut findings = Vec::new();
    if !absent.is_empty() {
        findings.push(Finding::missing(
            "not there",
            shown(&absent),
            "the program ends with a symbol lookup error, at its start or when it calls one",
        ));
    }
    if !refused.is_empty() {
        findings.push(Finding::warning(
            "not implemented",
            shown(&refused),
            "a call returns an error of class MPI_ERR_UNSUPPORTED_OPERATION, which ends most \
             programs; many name functions that they do not call",
        ));
    }
    if findings.is_empty() {
        let text = format!("all {} that it names are there", named.len());
        findings.push(Finding::good("MPI functions", text));
    }
    findings
}

/// The libraries of a folder, and the one that they call.
fn provided(folder: &Path) -> Vec<DynamicFile> {
    let base = folder
        .ancestors()
        .find(|at| at.join("libmpi_abi.so.1").exists());
    let base = base
        .filter(|base| *base != folder)
        .map(|base| base.join("libmpi_abi.so.1"));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_file());
    files
        .chain(base)
        .filter_map(|path| DynamicFile::read(&path).ok())
        .collect()
}

/// Some names.
fn shown(names: &[&String]) -> String {
    let first: Vec<_> = names
        .iter()
        .take(MOST_SHOWN)
        .map(|name| name.as_str())
        .collect();
    let more = match names.len().saturating_sub(MOST_SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!(
        "{} of its MPI functions: {}{more}",
        names.len(),
        first.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_mpi_is_named() {
        let own = std::env::current_exe().expect("the test has a file");
        let findings = all(own.as_os_str(), Path::new("/nowhere"));
        assert_eq!(findings.len(), 1);
        assert!(findings[0].found.contains("no MPI library"), "{findings:?}");
        let findings = all(OsStr::new("./no such program"), Path::new("/nowhere"));
        assert!(
            findings[0].found.contains("no such program"),
            "{findings:?}"
        );
    }
}
