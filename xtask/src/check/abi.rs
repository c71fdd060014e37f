//! The C ABI from outside: the header compiles, the library exports exactly the standard's
//! functions.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::report::Report;

/// Compiles `mpi.h` alone in several dialects, every warning an error.
pub fn headers(root: &Path, report: &mut Report) -> Result<()> {
    let header = root.join("c-abi/include/mpi.h");
    let dialects = [
        ("cc", "c", "c89"),
        ("cc", "c", "c99"),
        ("cc", "c", "c17"),
        ("c++", "c++", "c++11"),
        ("c++", "c++", "c++20"),
    ];
    for (compiler, language, standard) in dialects {
        let out = Command::new(compiler)
            .args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"])
            .args(["-x", language, &format!("-std={standard}"), "-include"])
            .arg(&header)
            .arg("/dev/null")
            .output()
            .with_context(|| format!("starting {compiler}"))?;
        if !out.status.success() {
            let why = String::from_utf8_lossy(&out.stderr);
            report.errors.push(format!("mpi.h as {standard}: {why}"));
        }
    }
    Ok(())
}

/// Compares what `library` exports with the table of functions.
pub fn symbols(root: &Path, library: &Path, report: &mut Report) -> Result<()> {
    let out = Command::new("nm")
        .args(["-D", "--defined-only", "--format=posix"])
        .arg(library)
        .output()
        .context("starting nm")?;
    ensure!(out.status.success(), "nm cannot read {}", library.display());
    let functions = crate::codegen::function_names(root)?;
    report.errors.extend(differences(
        &functions,
        &String::from_utf8_lossy(&out.stdout),
    ));
    Ok(())
}

/// Most bytes of a stripped library: each rank loads it. Message logging (returns from the past,
/// determinants, the order of sends) took 64 KiB, recordings and their replay 140 KiB, receive logs
/// 20 KiB, the state of a process that images keep or refuse about 50 KiB, the table for façades
/// 20 KiB, files, intercommunicators and collectives of neighbours (190 functions) 420 KiB, records
/// of what is written to files, partitioned communication and errors between groups 110 KiB.
const SIZE_LIMIT: u64 = 136 << 15;

/// Checks the size of an installed `library`, which is stripped.
pub fn size(library: &Path, report: &mut Report) -> Result<()> {
    let size = fs::metadata(library)?.len();
    if size > SIZE_LIMIT {
        let text = format!("the library has {size} bytes, {SIZE_LIMIT} are allowed");
        report.errors.push(text);
    }
    Ok(())
}

/// A program that acts as a profiling tool: it replaces an `MPI_` function and calls the `PMPI_`
/// one (MPI-5.0 §15.2). It counts one call of its own, and a second if the library itself used the
/// `MPI_` name.
const TOOL: &str = r#"
#include <mpi.h>
#include <string.h>
static int calls;
int MPI_Error_string(int code, char *text, int *len) { calls++; return PMPI_Error_string(code, text, len); }
int main(void) {
    char text[MPI_MAX_ERROR_STRING];
    int len = 0, initialized = 1;
    if (MPI_Error_string(MPI_ERR_RANK, text, &len) != MPI_SUCCESS || calls != 1) return 2;
    if (!strstr(text, "MPI_ERR_RANK") || len != (int) strlen(text)) return 3;
    if (MPI_Initialized(&initialized) != MPI_SUCCESS || initialized) return 4;
    return MPI_Wtime() > 0 ? 0 : 5;
}
"#;

/// Compiles the tool against `library` and runs it.
pub fn interposition(root: &Path, library: &Path, report: &mut Report) -> Result<()> {
    let folder = std::env::temp_dir().join(format!("rejoin-tool-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let library = library.canonicalize()?;
    fs::write(folder.join("tool.c"), TOOL)?;
    fs::copy(&library, folder.join("libmpi_abi.so.1"))?;
    let compiled = Command::new("cc")
        .current_dir(&folder)
        .args(["-Wall", "-Werror", "tool.c", "-o", "tool", "-I"])
        .arg(root.join("c-abi/include"))
        .args(["-L.", "-l:libmpi_abi.so.1"])
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .output()
        .context("starting cc")?;
    if !compiled.status.success() {
        let why = String::from_utf8_lossy(&compiled.stderr);
        report.errors.push(format!("a tool does not link: {why}"));
    } else {
        let status = Command::new(folder.join("tool")).status()?;
        if !status.success() {
            let text = format!("a tool that takes over an MPI name fails: {status}");
            report.errors.push(text);
        }
    }
    fs::remove_dir_all(&folder)?;
    Ok(())
}

/// What façades for other MPIs bind to, and what `rejoin doctor` reads.
const TABLES: [&str; 2] = ["rejoin_mpi_functions", "rejoin_missing_functions"];

/// Functions that are missing, weak, or not in the table, given `nm`'s output.
fn differences(functions: &[String], nm: &str) -> Vec<String> {
    let mut wanted: BTreeSet<String> = functions.iter().cloned().collect();
    wanted.extend(functions.iter().map(|f| format!("P{f}")));
    let mut errors = Vec::new();
    let mut tables = BTreeSet::from(TABLES);
    for line in nm.lines() {
        let mut words = line.split_whitespace();
        let (Some(name), Some(kind)) = (words.next(), words.next()) else {
            continue;
        };
        if tables.remove(name) {
            continue;
        }
        if !wanted.remove(name) {
            errors.push(format!(
                "the library exports {name}, which is no MPI function"
            ));
        } else if kind != "T" {
            errors.push(format!(
                "{name} is exported as `{kind}`, not as a strong function"
            ));
        }
    }
    errors.extend(
        tables
            .into_iter()
            .chain(wanted.iter().map(String::as_str))
            .map(|n| format!("the library does not export {n}")),
    );
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_are_compared() {
        let table = ["MPI_Send".to_owned()];
        let [functions, missing] = TABLES;
        let tables = format!("{functions} D 30 0\n{missing} R 40 0\n");
        let found = |nm: &str| differences(&table, &format!("{tables}{nm}")).len();
        assert_eq!(
            differences(&table, "MPI_Send T 10 0\nPMPI_Send T 20 0\n").len(),
            TABLES.len()
        );
        assert_eq!(found("MPI_Send T 10 0\nPMPI_Send T 20 0\n"), 0);
        assert_eq!(found("MPI_Send T 10 0\n"), 1);
        assert_eq!(found("MPI_Send W 10 0\nPMPI_Send T 20 0\n"), 1);
        assert_eq!(found("MPI_Send T 1 0\nPMPI_Send T 2 0\nmalloc T 3 0\n"), 1);
    }
}
