//! From a program of the plan to the executed file, or the reason why it can't be executed.

use crate::launch::installation::library_folder;
use crate::launch::launch_plan::Program;
use crate::launch::linked_mpi::{OtherMpi, ProgramAbi, other_mpi};
use crate::launch::spawn::{ProgramImage, SpawnFailure, SpawnStep, resolve};
use clap::ValueEnum as _;
use rejoin_managers_host::error::system_text;
use rejoin_wire::MANAGER_FD;
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A program that can be started.
pub struct Prepared {
    /// File, arguments and working directory of the program.
    pub image: ProgramImage,
    /// Environment of the program, without each rank's own variables.
    pub environment: Vec<CString>,
    /// The MPI whose binary interface it runs with, if that is not the standard's.
    pub other_mpi: Option<OtherMpi>,
}

/// Variables of each rank: its number, that of all ranks, and the same on its host; under Rejoin's
/// names, and under those by which programs of Open MPI and of MPICH know that they run under
/// mpirun.
const OF_RANK: [[&str; 4]; 3] = [
    [
        "REJOIN_RANK",
        "REJOIN_SIZE",
        "REJOIN_LOCAL_RANK",
        "REJOIN_LOCAL_SIZE",
    ],
    [
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ],
    ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"],
];

/// The names of these variables for programs of Rejoin, or of another MPI as well.
pub fn names_of_rank(
    other_mpi: Option<OtherMpi>,
) -> impl Iterator<Item = &'static [&'static str; 4]> {
    let more = other_mpi.map(|mpi| match mpi {
        OtherMpi::OpenMpi => &OF_RANK[1],
        OtherMpi::Mpich => &OF_RANK[2],
    });
    [&OF_RANK[0]].into_iter().chain(more)
}

impl Prepared {
    /// Works out a program's file and environment, or says why it can't be run.
    pub fn new(program: &Program) -> Result<Prepared, String> {
        let mut variables = variables(program);
        let wdir = program
            .wdir
            .as_ref()
            .map(|dir| Path::new(OsStr::from_bytes(dir)));
        if let Some(dir) = wdir {
            let data = std::fs::metadata(dir).map_err(|e| directory(dir, &e))?;
            if !data.is_dir() {
                let shown = dir.display();
                return Err(format!("the working directory {shown} is not a directory"));
            }
        }
        let name = program.argv.first().ok_or("there is no program")?;
        let abi = abi(&mut variables)?;
        let variable = |name: &str| {
            let value = variables.get(name.as_bytes());
            value.map(|value| OsStr::from_bytes(value))
        };
        let file = resolve(OsStr::from_bytes(name), variable("PATH"), wdir);
        let file = file.map_err(|e| e.to_string())?;
        let other_mpi = other_mpi(
            &wdir.map_or_else(|| file.clone(), |dir| dir.join(&file)),
            abi,
            variable("LD_LIBRARY_PATH").unwrap_or_default(),
        );
        if let Some(mpi) = other_mpi {
            add_facade(&mut variables, library_folder(), mpi)?;
        }
        let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| "a zero byte in an argument");
        let environment = variables
            .iter()
            .map(|(name, value)| text(&[name.as_slice(), b"=", value].concat()))
            .collect::<Result<_, _>>()?;
        let argv = program
            .argv
            .iter()
            .map(|a| text(a))
            .collect::<Result<_, _>>()?;
        let wdir = wdir
            .map(|dir| text(dir.as_os_str().as_bytes()))
            .transpose()?;
        let path = text(file.as_os_str().as_bytes())?;
        Ok(Prepared {
            image: ProgramImage { path, argv, wdir },
            environment,
            other_mpi,
        })
    }

    /// Why a process did not become this program.
    pub fn describe(&self, failure: SpawnFailure) -> String {
        let error = std::io::Error::from_raw_os_error(failure.errno);
        let path = |text: &CString| PathBuf::from(OsStr::from_bytes(text.as_bytes()));
        let wdir = self.image.wdir.as_ref().map(path);
        if let (SpawnStep::Directory, Some(dir)) = (failure.step, &wdir) {
            return directory(dir, &error);
        }
        let named = path(&self.image.path);
        let shown = named.display();
        let file = wdir.map_or_else(|| named.clone(), |dir| dir.join(&named));
        if failure.errno == libc::ENOENT && file.exists() {
            // The kernel means another file.
            return match interpreter(&file) {
                Some(other) => format!("{shown}: its interpreter {other} is not there"),
                None => format!("{shown}: the loader that it names is not there"),
            };
        }
        format!("{shown}: {}", system_text(&error))
    }
}

fn directory(dir: &Path, error: &std::io::Error) -> String {
    let shown = dir.display();
    match error.raw_os_error() {
        Some(libc::ENOENT) => format!("the working directory {shown} is not there"),
        _ => format!("the working directory {shown}: {}", system_text(error)),
    }
}

/// The interpreter that the first line of a script names.
fn interpreter(file: &Path) -> Option<String> {
    let mut start = [0; 256];
    let count = std::fs::File::open(file).ok()?.read(&mut start).ok()?;
    let line = start[..count].strip_prefix(b"#!")?;
    let line = line.split(|&b| b == b'\n').next()?;
    let name = line
        .trim_ascii()
        .split(|b| b.is_ascii_whitespace())
        .next()?;
    // A file from another system: its line end is part of the name.
    let end = if line.ends_with(b"\r") {
        " (with a carriage return at its end)"
    } else {
        ""
    };
    Some(format!("{}{end}", String::from_utf8_lossy(name)))
}

fn variables(program: &Program) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut variables: BTreeMap<Vec<u8>, Vec<u8>> = std::env::vars_os()
        .map(|(name, value)| (name.into_vec(), value.into_vec()))
        .collect();
    for name in &program.unset {
        variables.remove(name.as_slice());
    }
    for (name, value) in &program.set {
        variables.insert(name.to_vec(), value.to_vec());
    }
    if let Some(folder) = library_folder() {
        add_library_folder(&mut variables, folder.as_os_str().as_bytes());
    }
    // An outer job's ranks may start inner jobs: theirs must not leak in.
    for name in OF_RANK.as_flattened().iter().chain([&MANAGER_FD]) {
        variables.remove(name.as_bytes());
    }
    variables
}

/// Takes out the binary interface that mpirun's option has named.
fn abi(variables: &mut BTreeMap<Vec<u8>, Vec<u8>>) -> Result<ProgramAbi, String> {
    let Some(name) = variables.remove(ProgramAbi::VARIABLE.as_bytes()) else {
        return Ok(ProgramAbi::Auto);
    };
    let name = String::from_utf8_lossy(&name);
    ProgramAbi::from_str(&name, false).map_err(|_| {
        format!(
            "{}: there is no binary interface {name}",
            ProgramAbi::VARIABLE
        )
    })
}

/// Where programs find libraries, beside their own paths and those of the system.
const LIBRARY_PATH: &[u8] = b"LD_LIBRARY_PATH";

/// Adds the folder behind those that the user names: programs without a path of their own to an MPI
/// library (built for another MPI, or by a compiler for Rust) find this one's.
fn add_library_folder(variables: &mut BTreeMap<Vec<u8>, Vec<u8>>, folder: &[u8]) {
    let path = variables.entry(LIBRARY_PATH.to_vec()).or_default();
    if !path.is_empty() {
        path.push(b':');
    }
    path.extend(folder);
}

/// Puts the folder of the façade before all others.
fn add_facade(
    variables: &mut BTreeMap<Vec<u8>, Vec<u8>>,
    libraries: Option<PathBuf>,
    mpi: OtherMpi,
) -> Result<(), String> {
    let (name, facade, library) = (mpi.name(), mpi.folder(), mpi.library());
    let folder = libraries.map(|folder| folder.join(facade));
    let folder = folder.filter(|folder| folder.join(library).exists());
    let folder = folder.ok_or_else(|| {
        format!(
            "the program is for {name}, and this installation of Rejoin has no {facade}/{library}"
        )
    })?;
    let path = variables.entry(LIBRARY_PATH.to_vec()).or_default();
    *path = [folder.as_os_str().as_bytes(), b":", path].concat();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_facade_comes_first_and_must_be_there() {
        let libraries = std::env::temp_dir().join(format!("rejoin-facade-{}", std::process::id()));
        let mut variables = BTreeMap::new();
        add_library_folder(&mut variables, b"/r/lib");
        let place = || Some(libraries.clone());
        let mpi = OtherMpi::Mpich;
        let refused = add_facade(&mut variables, place(), mpi).expect_err("there is no folder");
        assert!(refused.contains("libmpi.so.12"), "{refused}");
        let facade = libraries.join(mpi.folder());
        std::fs::create_dir_all(&facade).expect("a folder");
        std::fs::write(facade.join(mpi.library()), "").expect("a file");
        add_facade(&mut variables, place(), mpi).expect("the file is there");
        let expected = format!("{}:/r/lib", facade.display());
        assert_eq!(variables[LIBRARY_PATH], expected.as_bytes());
        std::fs::remove_dir_all(libraries).expect("the folder goes");
    }

    #[test]
    fn the_folder_of_the_library_comes_last() {
        for (before, after) in [
            (None, "/r/lib"),
            (Some(""), "/r/lib"),
            (Some("/a:"), "/a::/r/lib"),
        ] {
            let mut variables = BTreeMap::new();
            if let Some(before) = before {
                variables.insert(LIBRARY_PATH.to_vec(), before.as_bytes().to_vec());
            }
            add_library_folder(&mut variables, b"/r/lib");
            assert_eq!(variables[LIBRARY_PATH], after.as_bytes());
        }
    }
}
