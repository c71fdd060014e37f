//! Which MPI library a program is linked with. One of Open MPI gets the façade. One that finds
//! another MPI's library runs here as so many jobs of one rank each, and nothing else says so.

use super::launch_plan::Program;
use super::spawn::resolve;
use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Bytes of a program's file that are looked at.
const MOST_BYTES: u64 = 64 << 20;

/// How the names of MPI libraries begin.
const BEGINS: &str = "libmpi";
/// The library of Open MPI.
pub const OPENMPI: &str = "libmpi.so.40";
/// How the names of Open MPI's libraries end, also of those for Fortran.
const OF_OPENMPI: &str = ".so.40";

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
}

impl ProgramAbi {
    /// The variable by which the option of mpirun reaches all hosts.
    pub const VARIABLE: &str = "REJOIN_ABI";
}

/// Whether a program needs Open MPI's binary interface.
#[must_use]
pub fn needs_openmpi(file: &Path, abi: ProgramAbi) -> bool {
    match abi {
        ProgramAbi::Auto => library_of(file).is_some_and(|name| name.ends_with(OF_OPENMPI)),
        ProgramAbi::Standard => false,
        ProgramAbi::Openmpi => true,
    }
}

/// The name of the MPI library with which a program on this host is linked.
#[must_use]
pub fn linked_mpi(program: &Program) -> Option<String> {
    let name = OsStr::from_bytes(program.argv.first()?);
    let path = std::env::var_os("PATH");
    let directory = program.wdir.as_ref();
    let directory = directory.map(|dir| Path::new(OsStr::from_bytes(dir)));
    let file = resolve(name, path.as_deref(), directory).ok()?;
    library_of(&directory.map_or_else(|| file.clone(), |dir| dir.join(&file)))
}

fn library_of(file: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(file).ok()?;
    opened.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    let mpi = |name: &String| name.starts_with(BEGINS);
    needed(&bytes)?.into_iter().find(mpi)
}

/// The libraries that a program names (its entries `DT_NEEDED`); `None` if it is no program for a
/// 64-bit machine of this byte order.
fn needed(program: &[u8]) -> Option<Vec<String>> {
    const LOAD: u64 = 1;
    const DYNAMIC: u64 = 2;
    const NEEDED: u64 = 1;
    const STRINGS: u64 = 5;
    let word = |at: u64, bytes: usize| -> Option<u64> {
        let at = usize::try_from(at).ok()?;
        let found = program.get(at..at.checked_add(bytes)?)?;
        let value = |all, byte: &u8| all << 8 | u64::from(*byte);
        Some(found.iter().rev().fold(0, value))
    };
    if !program.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    // Type, place in the file, address and length of each segment.
    let (first, each, count) = (word(32, 8)?, word(54, 2)?, word(56, 2)?);
    let segment = |i: u64| {
        let at = first.checked_add(i * each)?;
        let length = word(at.checked_add(32)?, 8)?;
        Some((word(at, 4)?, word(at + 8, 8)?, word(at + 16, 8)?, length))
    };
    let segments: Vec<_> = (0..count).map_while(segment).collect();
    let (_, table, _, length) = *segments.iter().find(|s| s.0 == DYNAMIC)?;
    let entry = |i: u64| {
        let at = table.checked_add(i * 16)?;
        Some((word(at, 8)?, word(at.checked_add(8)?, 8)?))
    };
    let entries: Vec<_> = (0..length / 16).map_while(entry).collect();
    let strings = entries.iter().find(|e| e.0 == STRINGS)?.1;
    let place = segments.iter().find_map(|(kind, place, address, length)| {
        let inside = strings.checked_sub(*address).filter(|at| at < length)?;
        (*kind == LOAD).then(|| place.checked_add(inside))?
    })?;
    let name = |(_, at): &(u64, u64)| {
        let at = usize::try_from(place.checked_add(*at)?).ok()?;
        let text = program.get(at..)?.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(text).into_owned())
    };
    Some(
        entries
            .iter()
            .filter(|e| e.0 == NEEDED)
            .filter_map(name)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_names_the_libraries_that_it_needs() {
        let own = std::env::current_exe().expect("the test has a file");
        let bytes = std::fs::read(&own).expect("it can be read");
        let names = needed(&bytes).expect("it is a program");
        assert!(names.iter().any(|name| name == "libc.so.6"), "{names:?}");
        // This test has the name among its strings, and is not linked with the library.
        assert_eq!(library_of(&own), None);
        assert!(!needs_openmpi(&own, ProgramAbi::Auto));
        assert!(needs_openmpi(&own, ProgramAbi::Openmpi));
    }

    #[test]
    fn the_library_is_found_in_the_table_of_a_program() {
        let name = b"\0libm.so.6\0libmpi.so.40\0";
        let program = |table: &[(u64, u64)]| {
            let mut file = vec![0; 64 + 2 * 56];
            file[..6].copy_from_slice(b"\x7fELF\x02\x01");
            let mut put = |at: usize, value: u64, bytes: usize| {
                file[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
            };
            put(32, 64, 8);
            put(54, 56, 2);
            put(56, 2, 2);
            // All of the file is loaded at 0x1000; the table follows the strings.
            let (strings, dynamic) = (64 + 2 * 56, 64 + 2 * 56 + name.len());
            for (at, kind, place, length) in
                [(64, 1, 0, 4096), (64 + 56, 2, dynamic, table.len() * 16)]
            {
                put(at, kind, 4);
                put(at + 8, place as u64, 8);
                put(at + 16, 0x1000 + place as u64, 8);
                put(at + 32, length as u64, 8);
            }
            file.extend(name);
            for (tag, value) in table {
                let value = if *tag == 5 {
                    0x1000 + strings as u64
                } else {
                    *value
                };
                file.extend(tag.to_le_bytes().iter().chain(&value.to_le_bytes()));
            }
            file
        };
        let names = |table: &[(u64, u64)]| needed(&program(table));
        assert_eq!(
            names(&[(1, 1), (1, 11), (5, 0), (0, 0)]),
            Some(vec!["libm.so.6".to_owned(), OPENMPI.to_owned()])
        );
        assert_eq!(names(&[(1, 1 << 60), (5, 0)]), Some(vec![]));
        assert_eq!(names(&[(1, 1)]), None);
        assert_eq!(needed(b"#!/bin/sh\0libmpi.so.40\0"), None);
        let whole = program(&[(1, 11), (5, 0)]);
        for length in 0..whole.len() {
            // A damaged file is no reason to end.
            let _ = needed(&whole[..length]);
        }
    }
}
