//! Which MPI library a program is linked with. One of Open MPI or MPICH gets a façade. One that
//! finds another MPI's library runs here as so many jobs of one rank each, and nothing else says
//! so.

use super::dynamic_file::DynamicFile;
use super::launch_plan::Program;
use super::loaded_libraries::loaded_libraries;
use super::spawn::resolve;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// How the names of MPI libraries begin.
const BEGINS: &str = "libmpi";
/// How those of MPICH and Intel MPI go on: of C, C++ and Fortran.
const OF_MPICH: [&str; 6] = [
    ".so.12",
    "ch.so.12",
    "cxx.so.12",
    "chcxx.so.12",
    "fort.so.12",
    "chfort.so.12",
];

/// The binary interface that a program expects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ProgramAbi {
    /// That of the library that it is linked with
    #[default]
    Auto,
    /// That of the MPI standard
    Standard,
    /// That of Open MPI 4.1 and 5.0
    Openmpi,
    /// That of MPICH, Intel MPI and MVAPICH
    Mpich,
}

/// Another MPI for whose programs there is a façade.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OtherMpi {
    /// Open MPI 4.1 and 5.0.
    OpenMpi,
    /// MPICH and what is compatible with it.
    Mpich,
}

impl OtherMpi {
    /// Its name, for messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenMpi => "Open MPI",
            Self::Mpich => "MPICH",
        }
    }

    /// The library that its programs ask for, under one of its names.
    #[must_use]
    pub fn library(self) -> &'static str {
        match self {
            Self::OpenMpi => "libmpi.so.40",
            Self::Mpich => "libmpi.so.12",
        }
    }

    /// The façade's folder below that of Rejoin's library: no other program must find the file.
    #[must_use]
    pub fn folder(self) -> &'static str {
        match self {
            Self::OpenMpi => "rejoin/openmpi",
            Self::Mpich => "rejoin/mpich",
        }
    }

    /// Whose library this is. All of Open MPI end alike, also those for Fortran; others than MPICH
    /// have libraries that end as its own.
    #[must_use]
    pub fn of_library(name: &str) -> Option<Self> {
        if name.starts_with(BEGINS) && name.ends_with(".so.40") {
            Some(Self::OpenMpi)
        } else if OF_MPICH
            .iter()
            .any(|end| name.strip_prefix(BEGINS) == Some(end))
        {
            Some(Self::Mpich)
        } else {
            None
        }
    }
}

impl ProgramAbi {
    /// The variable by which the option of mpirun reaches all hosts.
    pub const VARIABLE: &str = "REJOIN_ABI";
}

/// The MPI whose façade a program needs. `search` is its `LD_LIBRARY_PATH`.
#[must_use]
pub fn other_mpi(file: &Path, abi: ProgramAbi, search: &OsStr) -> Option<OtherMpi> {
    match abi {
        ProgramAbi::Auto => OtherMpi::of_library(&loaded_mpi(file, search)?),
        ProgramAbi::Standard => None,
        ProgramAbi::Openmpi => Some(OtherMpi::OpenMpi),
        ProgramAbi::Mpich => Some(OtherMpi::Mpich),
    }
}

/// The MPI library with which a program on this host is linked, with the program's name. Behind a
/// wrapper it counts if there is a façade for it.
#[must_use]
pub fn linked_mpi(program: &Program) -> Option<(String, String)> {
    let path = std::env::var_os("PATH");
    let search = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let directory = program.wdir.as_ref();
    let directory = directory.map(|dir| Path::new(OsStr::from_bytes(dir)));
    program.argv.iter().enumerate().find_map(|(at, word)| {
        let file = resolve(OsStr::from_bytes(word), path.as_deref(), directory).ok()?;
        let file = directory.map_or_else(|| file.clone(), |dir| dir.join(&file));
        let library = match at {
            0 => loaded_mpi(&file, &search)?,
            _ => library_of(&file)?,
        };
        let counts = at == 0 || OtherMpi::of_library(&library).is_some();
        counts.then(|| (String::from_utf8_lossy(word).into_owned(), library))
    })
}

/// The MPI library that a program names, or one with a façade that its libraries name.
fn loaded_mpi(file: &Path, search: &OsStr) -> Option<String> {
    // A script, and a program without libraries, loads none.
    let needed = needed(file).filter(|needed| !needed.is_empty())?;
    let named = mpi_among(needed);
    let is_known = |name: &String| OtherMpi::of_library(name).is_some() || name.contains("_abi.so");
    if named.as_ref().is_some_and(is_known) {
        // To ask the dynamic linker takes milliseconds.
        return named;
    }
    let mut loaded = loaded_libraries(file, search).into_keys();
    let behind = loaded.find(|name| OtherMpi::of_library(name).is_some());
    behind.or(named)
}

/// The MPI library that a program names.
fn library_of(file: &Path) -> Option<String> {
    mpi_among(needed(file)?)
}

/// The names of the libraries that a program needs.
fn needed(file: &Path) -> Option<Vec<String>> {
    if !file.is_file() {
        // To open a pipe might wait for ever.
        return None;
    }
    Some(DynamicFile::read_needs(file).ok()?.needed)
}

/// The MPI library among some, of several one with a façade: profilers have such names.
fn mpi_among(names: Vec<String>) -> Option<String> {
    let names = names.into_iter().filter(|name| name.starts_with(BEGINS));
    names.min_by_key(|name| OtherMpi::of_library(name).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_bytes::ByteBuf;

    #[test]
    fn a_program_without_mpi_has_none() {
        let own = std::env::current_exe().expect("the test has a file");
        let none = OsStr::new("");
        // This test has the name among its strings, and is not linked with the library.
        assert_eq!(library_of(&own), None);
        assert_eq!(other_mpi(&own, ProgramAbi::Auto, none), None);
        let named = other_mpi(&own, ProgramAbi::Openmpi, none);
        assert_eq!(named, Some(OtherMpi::OpenMpi));
        assert_eq!(
            other_mpi(&own, ProgramAbi::Mpich, none),
            Some(OtherMpi::Mpich)
        );
    }

    /// A program that needs the libraries whose names lie at these places of [`NAMES`], behind so
    /// many bytes of code.
    fn program(code: usize, needed: &[u64]) -> Vec<u8> {
        const SECTION: usize = 64;
        let mut file = vec![0; 64 + code];
        file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        let strings = file.len();
        file.extend(NAMES);
        let dynamic = file.len();
        for word in needed.iter().flat_map(|at| [1, *at]).chain([0, 0]) {
            file.extend(word.to_le_bytes());
        }
        let sections = file.len();
        file.resize(sections + 3 * SECTION, 0);
        let mut put = |at: usize, value: usize, bytes: usize| {
            file[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
        };
        // The place, the size and the number of the sections, and which of them has their names.
        put(40, sections, 8);
        put(58, SECTION, 2);
        put(60, 3, 2);
        put(62, 1, 2);
        for (number, kind, from, to) in [(1, 3, strings, dynamic), (2, 6, dynamic, sections)] {
            let at = sections + number * SECTION;
            put(at + 4, kind, 4);
            put(at + 24, from, 8);
            put(at + 32, to - from, 8);
            // Where the strings of the table are.
            put(at + 40, 1, 4);
        }
        file
    }

    const NAMES: &[u8] = b"\0libm.so.6\0libmpiP.so.3\0libmpi.so.40\0";

    #[test]
    fn a_damaged_program_is_no_reason_to_end() {
        let file = std::env::temp_dir().join(format!("rejoin-cut-{}", std::process::id()));
        let whole = program(0, &[24]);
        for length in 0..whole.len() {
            std::fs::write(&file, &whole[..length]).expect("a file");
            assert_eq!(library_of(&file), None);
        }
        std::fs::write(&file, &whole).expect("a file");
        assert_eq!(library_of(&file).as_deref(), Some("libmpi.so.40"));
        std::fs::write(&file, program(0, &[1 << 60])).expect("a file");
        assert_eq!(library_of(&file), None);
        std::fs::write(&file, "#!/bin/sh\0libmpi.so.40\0").expect("a file");
        assert_eq!(library_of(&file), None);
        std::fs::remove_file(&file).expect("the file goes");
    }

    #[test]
    fn each_library_of_an_mpi_with_a_facade_is_known() {
        for (name, expected) in [
            ("libmpi.so.40", Some(OtherMpi::OpenMpi)),
            ("libmpi_mpifh.so.40", Some(OtherMpi::OpenMpi)),
            ("libmpi.so.12", Some(OtherMpi::Mpich)),
            ("libmpichfort.so.12", Some(OtherMpi::Mpich)),
            ("libmpicxx.so.12", Some(OtherMpi::Mpich)),
            ("libmpi_cray.so.12", None),
            ("libmpi_abi.so.1", None),
            ("libmpiP.so.3", None),
        ] {
            assert_eq!(OtherMpi::of_library(name), expected, "{name}");
        }
    }

    #[test]
    fn openmpi_is_found_behind_a_profiler_much_code_and_a_wrapper() {
        let file = std::env::temp_dir().join(format!("rejoin-large-{}", std::process::id()));
        let name = file.to_str().expect("the folder has such a name");
        let linked = |words: &[&str], code, needed: &[u64]| {
            std::fs::write(&file, program(code, needed)).expect("a file");
            let argv = words.iter().map(|word| ByteBuf::from(*word)).collect();
            let (unset, set, wdir) = (vec![], vec![], None);
            linked_mpi(&Program {
                argv,
                unset,
                set,
                wdir,
            })
        };
        let found = |library: &str| Some((name.to_owned(), library.to_owned()));
        let both = [11, 24];
        assert_eq!(
            linked(&["env", name], 65 << 20, &both),
            found(OtherMpi::OpenMpi.library())
        );
        let (openmpi, none) = (Some(OtherMpi::OpenMpi), OsStr::new(""));
        assert_eq!(other_mpi(&file, ProgramAbi::Auto, none), openmpi);
        assert_eq!(other_mpi(&file, ProgramAbi::Standard, none), None);
        let other = [11];
        assert_eq!(linked(&[name], 0, &other), found("libmpiP.so.3"));
        assert_eq!(linked(&["env", name], 0, &other), None);
        std::fs::remove_file(&file).expect("the file goes");
    }
}
