//! Which MPI library a program is linked with. A program that finds another MPI's library runs here
//! as so many jobs of one rank each, and nothing else says so.

use super::launch_plan::Program;
use super::spawn::resolve;
use std::ffi::OsStr;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;

/// Bytes of a program's file that are looked at.
const MOST_BYTES: u64 = 64 << 20;

/// How the names of MPI libraries begin, and what their names have.
const BEGINS: &[u8] = b"libmpi";
const MIDDLE: &str = ".so";

/// The name of the MPI library with which a program on this host is linked.
#[must_use]
pub fn linked_mpi(program: &Program) -> Option<String> {
    let name = OsStr::from_bytes(program.argv.first()?);
    let path = std::env::var_os("PATH");
    let directory = program.wdir.as_ref();
    let directory = directory.map(|dir| std::path::Path::new(OsStr::from_bytes(dir)));
    let file = resolve(name, path.as_deref(), directory).ok()?;
    let file = directory.map_or_else(|| file.clone(), |dir| dir.join(&file));
    let mut bytes = Vec::new();
    let opened = std::fs::File::open(file).ok()?;
    opened.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    library_in(&bytes)
}

/// The name of an MPI library among the strings of a program.
fn library_in(program: &[u8]) -> Option<String> {
    if !program.starts_with(b"\x7fELF") {
        return None;
    }
    let places = program.windows(BEGINS.len()).enumerate();
    let mut places = places.filter(|(_, bytes)| *bytes == BEGINS);
    places.find_map(|(at, _)| {
        let end = program[at..].iter().position(|byte| *byte == 0)?;
        let before = at.checked_sub(1).map(|before| program[before]);
        let name = std::str::from_utf8(&program[at..at + end]).ok()?;
        (before == Some(0) && name.contains(MIDDLE)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_a_string_of_its_own_in_a_program() {
        let found = |strings: &[u8]| library_in(&[b"\x7fELF", strings].concat());
        assert_eq!(
            found(b"\0libc.so.6\0libmpi.so.40\0").as_deref(),
            Some("libmpi.so.40")
        );
        assert_eq!(
            found(b"\0libmpich.so.12\0").as_deref(),
            Some("libmpich.so.12")
        );
        assert_eq!(found(b"\0libmpi is missing\0see libmpi.so\0"), None);
        assert_eq!(library_in(b"#!/bin/sh\0libmpi.so.40\0"), None);
    }
}
