//! Which MPI library a program is linked with. One of Open MPI gets the façade. One that finds
//! another MPI's library runs here as so many jobs of one rank each, and nothing else says so.

use super::launch_plan::Program;
use super::spawn::resolve;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Bytes of a table of dynamic linking that are looked at.
const MOST_BYTES: u64 = 1 << 20;

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

/// The MPI library with which a program on this host is linked, with the program's name. Behind a
/// wrapper it counts if it is of Open MPI.
#[must_use]
pub fn linked_mpi(program: &Program) -> Option<(String, String)> {
    let path = std::env::var_os("PATH");
    let directory = program.wdir.as_ref();
    let directory = directory.map(|dir| Path::new(OsStr::from_bytes(dir)));
    program.argv.iter().enumerate().find_map(|(at, word)| {
        let file = resolve(OsStr::from_bytes(word), path.as_deref(), directory).ok()?;
        let library = library_of(&directory.map_or_else(|| file.clone(), |dir| dir.join(&file)))?;
        let counts = at == 0 || library.ends_with(OF_OPENMPI);
        counts.then(|| (String::from_utf8_lossy(word).into_owned(), library))
    })
}

/// The MPI library that a program names, of several that of Open MPI: profilers have such names.
fn library_of(file: &Path) -> Option<String> {
    if !file.is_file() {
        // To open a pipe might wait for ever.
        return None;
    }
    let names = needed(&mut File::open(file).ok()?)?.into_iter();
    names
        .filter(|name| name.starts_with(BEGINS))
        .min_by_key(|name| !name.ends_with(OF_OPENMPI))
}

/// The libraries that a program names (its entries `DT_NEEDED`); `None` if it is no program for a
/// 64-bit machine of this byte order.
fn needed(program: &mut (impl Read + Seek)) -> Option<Vec<String>> {
    const SEGMENT: u64 = 56;
    const LOAD: u64 = 1;
    const DYNAMIC: u64 = 2;
    const NEEDED: u64 = 1;
    const STRINGS: u64 = 5;
    const LONGEST_NAME: u64 = 256;
    let header = part(program, 0, 64)?;
    if !header.starts_with(b"\x7fELF\x02\x01") || word(&header, 54, 2) != SEGMENT {
        return None;
    }
    let (first, count) = (word(&header, 32, 8), word(&header, 56, 2));
    // Type, place in the file, address and length of each segment.
    let segments = part(program, first, count * SEGMENT)?;
    let segments = segments.chunks(usize::try_from(SEGMENT).ok()?);
    let segment = |s| (word(s, 0, 4), word(s, 8, 8), word(s, 16, 8), word(s, 32, 8));
    let segments: Vec<_> = segments.map(segment).collect();
    let (_, table, _, length) = *segments.iter().find(|s| s.0 == DYNAMIC)?;
    let table = part(program, table, length.min(MOST_BYTES))?;
    let entries = || table.chunks(16).map(|e| (word(e, 0, 8), word(e, 8, 8)));
    let strings = entries().find(|e| e.0 == STRINGS)?.1;
    let place = segments.iter().find_map(|(kind, place, address, length)| {
        let inside = strings.checked_sub(*address).filter(|at| at < length)?;
        (*kind == LOAD).then(|| place.checked_add(inside))?
    })?;
    let mut name = |(_, at): (u64, u64)| {
        let text = part(program, place.checked_add(at)?, LONGEST_NAME)?;
        let text = text.split(|byte| *byte == 0).next()?;
        Some(String::from_utf8_lossy(text).into_owned())
    };
    let named = entries().filter(|e| e.0 == NEEDED);
    Some(named.filter_map(&mut name).collect())
}

/// What a file has from a place on, at most so many bytes.
fn part(file: &mut (impl Read + Seek), at: u64, most: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(at)).ok()?;
    file.take(most).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// A number of so many bytes; what a damaged file lacks counts as zeros.
fn word(bytes: &[u8], at: usize, length: usize) -> u64 {
    let found = bytes.iter().skip(at).take(length);
    found.rev().fold(0, |all, byte| all << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_bytes::ByteBuf;
    use std::io::Cursor;

    #[test]
    fn a_program_names_the_libraries_that_it_needs() {
        let own = std::env::current_exe().expect("the test has a file");
        let mut file = File::open(&own).expect("it can be read");
        let names = needed(&mut file).expect("it is a program");
        assert!(names.iter().any(|name| name == "libc.so.6"), "{names:?}");
        // This test has the name among its strings, and is not linked with the library.
        assert_eq!(library_of(&own), None);
        assert!(!needs_openmpi(&own, ProgramAbi::Auto));
        assert!(needs_openmpi(&own, ProgramAbi::Openmpi));
    }

    /// A program with these libraries, which names some of them behind so many bytes of code.
    fn program(code: usize, table: &[(u64, u64)]) -> Vec<u8> {
        let mut file = vec![0; 64 + 2 * 56 + code];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        let mut put = |at: usize, value: u64, bytes: usize| {
            file[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
        };
        put(32, 64, 8);
        put(54, 56, 2);
        put(56, 2, 2);
        // All of the file is loaded at 0x1000; the table follows the strings.
        let name = b"\0libm.so.6\0libmpiP.so.3\0libmpi.so.40\0";
        let (strings, dynamic) = (64 + 2 * 56 + code, 64 + 2 * 56 + code + name.len());
        for (at, kind, place, length) in [
            (64, 1, 0, code + 4096),
            (64 + 56, 2, dynamic, table.len() * 16),
        ] {
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
    }

    #[test]
    fn the_library_is_found_in_the_table_of_a_program() {
        let read = |bytes: &[u8]| needed(&mut Cursor::new(bytes));
        let names = |table: &[(u64, u64)]| read(&program(0, table));
        assert_eq!(
            names(&[(1, 1), (1, 24), (5, 0), (0, 0)]),
            Some(vec!["libm.so.6".to_owned(), OPENMPI.to_owned()])
        );
        assert_eq!(names(&[(1, 1 << 60), (5, 0)]), Some(vec![String::new()]));
        assert_eq!(names(&[(1, 1)]), None);
        assert_eq!(read(b"#!/bin/sh\0libmpi.so.40\0"), None);
        let whole = program(0, &[(1, 24), (5, 0)]);
        for length in 0..whole.len() {
            // A damaged file is no reason to end.
            let _ = read(&whole[..length]);
        }
    }

    #[test]
    fn openmpi_is_found_behind_a_profiler_much_code_and_a_wrapper() {
        let file = std::env::temp_dir().join(format!("rejoin-large-{}", std::process::id()));
        let name = file.to_str().expect("the folder has such a name");
        let linked = |words: &[&str], code, table: &[(u64, u64)]| {
            std::fs::write(&file, program(code, table)).expect("a file");
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
        let both = [(1, 11), (1, 24), (5, 0)];
        assert_eq!(linked(&["env", name], 65 << 20, &both), found(OPENMPI));
        assert!(needs_openmpi(&file, ProgramAbi::Auto));
        let other = [(1, 11), (5, 0)];
        assert_eq!(linked(&[name], 0, &other), found("libmpiP.so.3"));
        assert_eq!(linked(&["env", name], 0, &other), None);
        std::fs::remove_file(&file).expect("the file goes");
    }
}
